//! `xfskit check` sees what `xfs_repair -n` sees, and what it does not, and names the field.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use xfskit_test_oracle::corruption::{
    self, INJECTED_FAULTS, InjectedFault, OLDER_VOLUME, Repair, VOLUME,
};
use xfskit_test_support::ours::CheckReport;
use xfskit_test_support::{Image, Mount, Need, Scratch, Xfsprogs, long, needs, note, ours};

/// The checks that failed.
fn checks(report: &CheckReport) -> BTreeSet<&str> {
    let findings = report.errors.iter().chain(&report.warnings);
    findings.filter_map(|finding| finding.rsplit_once('[')?.1.strip_suffix(']')).collect()
}

/// The result of one fault.
enum Outcome {
    /// Both tools see it as the table has it.
    AsListed,
    /// The volume has no such field, or another check names the fault: the kernel chooses where
    /// trees lie, so a few faults meet another record than the table has in mind.
    Elsewhere(String),
    /// `check` or `xfs_repair` does not see it as the table has it.
    Wrong(String),
}

/// Writes `fault` to `image`, runs `check`, in the long runs `xfs_repair` of `repair` too, and
/// removes the fault.
fn try_fault(
    image: &Image,
    repair: &Xfsprogs,
    fault: &InjectedFault,
    commands: &[String],
) -> Outcome {
    let writer = Xfsprogs::newer().expect("needed");
    let name = fault.name;
    let Some(damage) = fault.write(&writer, image, commands) else {
        return Outcome::Elsewhere(format!("{name}: the volume has no such field"));
    };
    let report = ours::check(image);
    let found = checks(&report);
    let agrees = !long() || repair.repair_n(image, &[]).is_ok() == (fault.repair == Repair::Misses);
    drop(damage);
    let line = || format!("{name}: due {}, found {found:?}", fault.due);
    match (found.contains(fault.due), agrees) {
        (true, true) => Outcome::AsListed,
        (false, true) if !found.is_empty() => Outcome::Elsewhere(line()),
        (false, _) => Outcome::Wrong(line()),
        (true, false) => {
            let version = &repair.version;
            Outcome::Wrong(format!("{name}: not what xfs_repair {version} makes of it"))
        }
    }
}

/// Checks `faults` on `image`, each thread on a copy of its own. Returns those that are not as the
/// table has them.
fn wrong_faults(
    image: &Image,
    scratch: &Scratch,
    repair: &Xfsprogs,
    faults: &[&InjectedFault],
) -> Vec<String> {
    repair.repair_n(image, &[]).expect("healthy before");
    let before = ours::check(image);
    assert!(before.is_clean(), "check complains of a healthy volume: {before:#?}");
    let mount = Mount::read_only(image, scratch).unwrap();
    let commands: Vec<_> = faults.iter().map(|fault| fault.commands_for(&mount)).collect();
    mount.unmount().unwrap();

    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let copies: Vec<Image> = (0..threads).map(|n| image.copy(&format!("copy-{n}"))).collect();
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for copy in &copies {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let Some(fault) = faults.get(n) else { break };
                    let one = try_fault(copy, repair, fault, &commands[n]);
                    outcomes.lock().expect("no panic").push(one);
                }
                assert!(ours::check(copy).is_clean(), "every fault is taken back");
            });
        }
    });
    let (mut wrong, mut elsewhere) = (Vec::new(), Vec::new());
    for outcome in outcomes.into_inner().expect("no panic") {
        match outcome {
            Outcome::AsListed => {}
            Outcome::Elsewhere(line) => elsewhere.push(line),
            Outcome::Wrong(line) => wrong.push(line),
        }
    }
    for line in &elsewhere {
        note(line);
    }
    if elsewhere.len() > faults.len() / 20 {
        wrong.append(&mut elsewhere);
    }
    wrong
}

#[test]
fn check_names_every_fault_that_repair_sees_and_those_it_is_blind_to() {
    if !needs(&[Need::Xfsprogs, Need::NewerXfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("faults");
    let Some(image) = corruption::volume(&scratch, VOLUME) else { return };
    let newer = Xfsprogs::newer().expect("needed");
    let wrong = wrong_faults(&image, &scratch, &newer, &INJECTED_FAULTS.iter().collect::<Vec<_>>());
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        INJECTED_FAULTS.len(),
        wrong.join("\n")
    );
}

#[test]
fn check_names_every_fault_that_an_older_repair_sees() {
    if !long() || !needs(&[Need::Xfsprogs, Need::NewerXfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("older-faults");
    let Some(image) = corruption::volume(&scratch, OLDER_VOLUME) else { return };
    let installed = Xfsprogs::installed().expect("needed");
    let known = |fault: &&InjectedFault| !fault.name.starts_with("parent.");
    let faults: Vec<_> = INJECTED_FAULTS.iter().filter(known).collect();
    let wrong = wrong_faults(&image, &scratch, &installed, &faults);
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        INJECTED_FAULTS.len(),
        wrong.join("\n")
    );
}
