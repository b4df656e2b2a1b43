//! `xfskit check` reports every fault that `xfs_repair -n` reports, and those that it misses.

use xfskit_test_oracle::corruption::{self, INJECTED_FAULTS, Repair};
use xfskit_test_oracle::{Mount, Need, Scratch, Xfsprogs, long, needs, ours};

#[test]
fn check_reports_every_fault_that_xfs_repair_reports_or_misses() {
    if !needs(&[Need::Xfsprogs, Need::NewerXfsprogs, Need::Mount]) {
        return;
    }
    let tools = Xfsprogs::newer().expect("needed");
    let scratch = Scratch::new("faults");
    let Some(image) = corruption::volume(&scratch) else { return };
    tools.repair_n(&image, &[]).expect("healthy before");
    let before = ours::check(&image);
    assert!(before.is_clean(), "check reports findings in a sound volume: {before:#?}");

    let mount = Mount::read_only(&image, &scratch).unwrap();
    let faults: Vec<_> =
        INJECTED_FAULTS.iter().map(|fault| (fault, fault.commands_for(&mount))).collect();
    mount.unmount().unwrap();
    let mut wrong = Vec::new();
    for (fault, commands) in faults {
        let broken = image.copy("broken.img");
        fault.write(&tools, &broken, &commands);
        if ours::check(&broken).is_clean() {
            wrong.push(format!("{}: check reports nothing", fault.name));
        }
        if long() && tools.repair_n(&broken, &[]).is_ok() != (fault.repair == Repair::Misses) {
            wrong.push(format!("{}: not the result of xfs_repair", fault.name));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        INJECTED_FAULTS.len(),
        wrong.join("\n")
    );
}
