//! Every planted fault of the check: it is repaired, or named and nothing is written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use xfskit_block::{BlockDevice, OverlayDevice};
use xfskit_repair::{AcceptLoss, Error, Repair, UndoFile, undo};
use xfskit_test_support::image::Scratch;
use xfskit_test_support::{long, verify};
use xfskit_units::ByteOffset;

use crate::common::planted::{self, Fault};
use crate::common::{Image, check_all};

/// The short run takes every fault of this number.
const SHORT: usize = 4;
/// `xfs_repair -n` and the kernel see every repaired volume of this number.
const VERIFIED: usize = 10;

/// What became of a fault.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Repaired,
    /// The volume is clean with it, as xfs_repair says too: a warning, or nothing.
    Clean,
    Refused,
    /// Volumes like this are not repaired.
    Unsupported,
    /// Linux or xfs_repair finds damage after the repair.
    Wrong(String),
}

/// Repairs a fault, and verifies what was written.
fn outcome(image: &Image, fault: &Fault<'_>, scratch: &Scratch, is_verified: bool) -> Outcome {
    let damaged = Arc::new(fault.plant(image));
    let before = content(&damaged, image);
    let prepared = match Repair::new()
        .accept_loss(AcceptLoss::ALL)
        .zero_log(true)
        .prepare(Arc::clone(&damaged) as _)
    {
        Ok(prepared) => prepared,
        Err(error) => {
            assert_eq!(content(&damaged, image), before, "{}", fault.row);
            return match error {
                Error::Unsupported(_) => Outcome::Unsupported,
                Error::Check(_) | Error::Journal(_) => Outcome::Refused,
                error => panic!("{}: {error}", fault.row),
            };
        }
    };
    assert_eq!(content(&damaged, image), before, "{}: the plan wrote", fault.row);
    if !prepared.is_clean() {
        let refused = prepared.commit(&*damaged, None);
        assert!(matches!(refused, Err(Error::NotClean { .. })), "{}", fault.row);
        assert_eq!(content(&damaged, image), before, "{}", fault.row);
        return Outcome::Refused;
    }
    if prepared.bytes() == 0 {
        return Outcome::Clean;
    }
    let path = scratch.path().join(format!("{}.undo", fault.number));
    let mut file = UndoFile::create(&path, prepared.uuid(), damaged.size()).unwrap();
    prepared.commit(&*damaged, Some(&mut file)).unwrap();
    let (report, findings) = check_all(&*damaged);
    assert!(report.clean(), "{}: {findings:?}", fault.row);
    // A warning stays: the verification takes none.
    let is_verified = is_verified && prepared.after().warnings == 0;
    let verified = if is_verified { verify::device(&*damaged) } else { Ok(()) };
    undo(&path, &*damaged).unwrap();
    assert_eq!(content(&damaged, image), before, "{}: undone", fault.row);
    std::fs::remove_file(&path).unwrap();
    match verified {
        Ok(()) => Outcome::Repaired,
        Err(why) => Outcome::Wrong(format!("{}: {why}", fault.row)),
    }
}

fn content(dev: &OverlayDevice, image: &Image) -> Vec<u8> {
    let mut bytes = vec![0; image.bytes.len()];
    dev.read_at(ByteOffset(0), &mut bytes).unwrap();
    bytes
}

#[test]
fn planted_faults_are_repaired_or_refused() {
    let scratch = Scratch::new("repair-planted");
    let mut images = BTreeMap::new();
    let (mut repaired, mut refused) = (BTreeSet::new(), BTreeSet::new());
    let mut wrong = Vec::new();
    let faults = planted::all().into_iter().filter(|fault| !fault.is_none());
    for fault in faults.filter(|fault| long() || fault.number % SHORT == 0) {
        let image = images.entry(fault.image).or_insert_with(|| Image::kept(fault.image));
        let is_verified = long() || repaired.len() % VERIFIED == 0;
        match outcome(image, &fault, &scratch, is_verified) {
            Outcome::Repaired => repaired.insert(fault.id),
            Outcome::Refused => refused.insert(fault.id),
            Outcome::Wrong(why) => {
                wrong.push(why);
                true
            }
            Outcome::Clean | Outcome::Unsupported => true,
        };
    }
    println!("repaired: {repaired:?}\nrefused: {refused:?}");
    assert!(wrong.is_empty(), "{} are not right:\n{}", wrong.len(), wrong.join("\n"));
    let group = |id: &&&str| {
        ["agf.", "agfl.", "bnobt.", "cntbt.", "finobt.", "rmapbt.", "refcountbt.", "dir."]
            .iter()
            .any(|prefix| id.starts_with(prefix))
    };
    let missed: Vec<_> = refused.difference(&repaired).filter(|id| group(id)).collect();
    assert!(missed.is_empty(), "of groups, and not repaired: {missed:?}");
    assert!(repaired.len() >= 10, "{repaired:?}");
}
