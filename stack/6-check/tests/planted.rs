//! Every id of the table of checks has a planted fault that yields it, and nothing but the ids
//! listed beside it. `planted.txt` has the faults, `docs/checks.md` the table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::planted::{self, Fault};
use crate::common::{Image, ids};
use xfskit_format::checks::{self, Check};

type Ids = BTreeSet<&'static str>;

/// Ids that need a device with several copies, or one that fails: tests of `copies.rs` plant them.
const PLANTED_BY_CODE: [&str; 3] = ["device.read", "sb.refused", "scrub.copy"];

/// Returns the ids that each fault yields and its image does not. A fault that changes nothing is
/// the image itself.
fn yields(faults: &[Fault<'_>]) -> Vec<Ids> {
    let names: BTreeSet<&str> = faults.iter().map(|fault| fault.image).collect();
    let images: BTreeMap<&str, (Image, Ids)> = names
        .into_iter()
        .map(|name| {
            let image = Image::kept(name);
            let before = ids(&image.copy());
            (name, (image, before))
        })
        .collect();
    let next = AtomicUsize::new(0);
    let found = Mutex::new(vec![Ids::new(); faults.len()]);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(fault) = faults.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (image, before) = &images[fault.image];
                    let mut new = ids(&fault.plant(image));
                    new.retain(|id| fault.is_none() || !before.contains(id));
                    found.lock().unwrap()[fault.number] = new;
                }
            });
        }
    });
    found.into_inner().unwrap()
}

/// Returns all checks that a check of a volume makes.
fn checks() -> impl Iterator<Item = &'static Check> {
    checks::sections().flat_map(|section| section.checks)
}

#[test]
fn each_planted_fault_yields_its_id_and_only_what_is_listed_beside_it() {
    let faults = planted::all();
    let mut wrong = Vec::new();
    let mut brought: BTreeMap<&str, Ids> = BTreeMap::new();
    for (fault, found) in faults.iter().zip(yields(&faults)) {
        let Some(check) = checks::find(fault.id) else {
            wrong.push(format!("{}: not in the table", fault.id));
            continue;
        };
        let others = || found.iter().filter(|id| **id != fault.id);
        if !found.contains(fault.id) || others().any(|id| !check.brings.contains(id)) {
            let listed = check.brings;
            wrong.push(format!("{}: found {found:?}, listed {listed:?}", fault.row));
        }
        brought.entry(check.id).or_default().extend(others());
    }
    for (id, brought) in brought {
        let listed: Ids = checks::find(id).unwrap().brings.iter().copied().collect();
        let idle: Vec<_> = listed.difference(&brought).collect();
        if !idle.is_empty() {
            wrong.push(format!("{id}: no fault brings {idle:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), faults.len(), wrong.join("\n"));
}

#[test]
fn each_id_is_planted_or_says_why_not() {
    let planted: BTreeSet<&str> = planted::all().iter().map(|fault| fault.id).collect();
    for Check { id, unplanted, .. } in checks() {
        let ways = [planted.contains(id), PLANTED_BY_CODE.contains(id), unplanted.is_some()];
        assert_eq!(ways.iter().filter(|way| **way).count(), 1, "{id}: {ways:?}");
    }
}
