//! `xfskit check` sees what `xfs_repair -n` sees, and what it does not, and names the field.

use std::collections::BTreeSet;

use xfskit_test_oracle::corruption::{
    self, INJECTED_FAULTS, InjectedFault, OLDER_VOLUME, Repair, VOLUME,
};
use xfskit_test_support::ours::CheckReport;
use xfskit_test_support::{Image, Mount, Need, Scratch, Xfsprogs, long, needs, ours};

/// The checks that failed.
fn checks(verdict: &CheckReport) -> BTreeSet<&str> {
    let findings = verdict.errors.iter().chain(&verdict.warnings);
    findings.filter_map(|finding| finding.rsplit_once('[')?.1.strip_suffix(']')).collect()
}

/// Writes each of `faults` to `image`, in turn. Returns what `check` or, in the long runs,
/// `xfs_repair` of `judge` did not see as the table has it.
fn judge<'f>(
    image: &Image,
    scratch: &Scratch,
    judge: &Xfsprogs,
    faults: impl Iterator<Item = &'f InjectedFault>,
) -> Vec<String> {
    let writer = Xfsprogs::newer().expect("needed");
    judge.repair_n(image, &[]).expect("healthy before");
    let before = ours::check(image);
    assert!(before.is_clean(), "check complains of a healthy volume: {before:#?}");

    let mount = Mount::read_only(image, scratch).unwrap();
    let faults: Vec<_> = faults.map(|fault| (fault, fault.commands_for(&mount))).collect();
    mount.unmount().unwrap();
    let (mut wrong, mut elsewhere) = (Vec::new(), Vec::new());
    let count = faults.len();
    for (fault, commands) in faults {
        let Some(damage) = fault.write(&writer, image, &commands) else {
            elsewhere.push(format!("{}: the volume has no such field", fault.name));
            continue;
        };
        let verdict = ours::check(image);
        let found = checks(&verdict);
        if !found.contains(fault.due) {
            let line = format!("{}: due {}, found {found:?}", fault.name, fault.due);
            let kind = if found.is_empty() { &mut wrong } else { &mut elsewhere };
            kind.push(line);
        }
        if long() && judge.repair_n(image, &[]).is_ok() != (fault.repair == Repair::Misses) {
            let version = &judge.version;
            wrong.push(format!("{}: not what xfs_repair {version} makes of it", fault.name));
        }
        drop(damage);
    }
    assert!(ours::check(image).is_clean(), "every fault is taken back");
    // The kernel chooses where trees lie, so a few faults meet another record than the table has in
    // mind, and then another check names them.
    if elsewhere.len() > count / 20 {
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
    let wrong = judge(&image, &scratch, &newer, INJECTED_FAULTS.iter());
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
    let faults = INJECTED_FAULTS.iter().filter(|fault| !fault.name.starts_with("parent."));
    let wrong = judge(&image, &scratch, &installed, faults);
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        INJECTED_FAULTS.len(),
        wrong.join("\n")
    );
}
