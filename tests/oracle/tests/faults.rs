//! `xfskit check` sees what `xfs_repair -n` sees, and what it does not.

use xfskit_test_oracle::corruption::{self, FAULTS, Repair};
use xfskit_test_oracle::{Mount, Need, Scratch, Xfsprogs, long, needs, ours};

#[test]
fn check_sees_every_fault_that_repair_sees_and_those_it_is_blind_to() {
    if !needs(&[Need::Xfsprogs, Need::NewerXfsprogs, Need::Mount]) {
        return;
    }
    let tools = Xfsprogs::newer().expect("needed");
    let scratch = Scratch::new("faults");
    let Some(image) = corruption::volume(&scratch) else { return };
    tools.repair_n(&image, &[]).expect("healthy before");
    let before = ours::verdict(&image);
    assert!(before.is_silent(), "check complains of a healthy volume: {before:#?}");

    let mount = Mount::read_only(&image, &scratch).unwrap();
    let faults: Vec<_> = FAULTS.iter().map(|fault| (fault, fault.commands_for(&mount))).collect();
    mount.unmount().unwrap();
    let mut wrong = Vec::new();
    for (fault, commands) in faults {
        let broken = image.copy("broken.img");
        fault.write(&tools, &broken, &commands);
        if ours::verdict(&broken).is_silent() {
            wrong.push(format!("{}: check sees nothing", fault.name));
        }
        if long() && tools.repair_n(&broken, &[]).is_ok() != (fault.repair == Repair::Blind) {
            wrong.push(format!("{}: not what xfs_repair makes of it", fault.name));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), FAULTS.len(), wrong.join("\n"));
}
