//! Journals of a newer kernel than the installed one, with quota: Debian's, in an emulated machine.
//!
//! Runs in the long run only, and only if `VM=.cache/vm tests/tools/vm-xfs.sh setup` has prepared
//! that machine.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use xfskit_test_oracle::matrix::{Case, named};
use xfskit_test_oracle::need::{Need, note, skip};
use xfskit_test_oracle::{Image, Scratch, long, needs};
use xfskit_test_recovery::{Storm, compare_recovered};

/// Number of crash points; each takes a disk of the one machine.
const MOMENTS: usize = 12;
/// Largest difference of the machines' clocks.
const CLOCK: Duration = Duration::from_secs(2);

/// Mounts the volume with quota, copies it once all is prepared, and runs the stress workload.
const STORM: &str = "
set -eu
dd if=/dev/vdd of=/scratch/storm bs=64k 2>/dev/null; chmod +x /scratch/storm
mount -t xfs -o uquota,gquota,pquota /dev/vdb /mnt
/scratch/storm prepare /mnt
umount /mnt
dd if=/dev/vdb of=/dev/vdc bs=1M 2>/dev/null
mount -t xfs -o uquota,gquota,pquota /dev/vdb /mnt
/scratch/storm blow /mnt 2500 & sleep 2; xfs_io -x -c 'shutdown -f' /mnt; wait
umount /mnt
uname -r
";

/// Lets the newer kernel recover.
const RECOVER: &str = "
set -eu
for disk in /dev/vd[b-z]; do mount -t xfs -o uquota,gquota,pquota $disk /mnt; umount /mnt; done
";

/// On volumes that xfskit recovered: counts quota anew, and compares it with the files.
const COUNT: &str = "
set -eu
for disk in /dev/vd[b-z]; do
    mount -t xfs -o uquota,gquota,pquota $disk /mnt
    xfs_quota -x -c 'report -u -n -N -b -i' /mnt
    umount /mnt
done
";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a script on the machine and returns its output.
fn run(scratch: &Scratch, script: &str, disks: &[&Path]) -> String {
    let path = scratch.path().join("script");
    fs::write(&path, script).expect("the script");
    let output = Command::new(repository().join("tests/tools/vm-xfs.sh"))
        .arg("run")
        .arg(&path)
        .args(disks)
        .env("VM", repository().join(".cache/vm"))
        .envs([("VM_SMP", "2"), ("VM_T", "400")])
        .output()
        .expect("a shell");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

#[test]
fn what_a_newer_kernel_promised_is_done_as_it_would() {
    if !long() || !needs(&[Need::Mount, Need::Xfsprogs]) {
        return;
    }
    if !repository().join(".cache/vm/initrd.gz").exists() {
        return skip("a newer kernel in .cache/vm (VM=.cache/vm tests/tools/vm-xfs.sh setup)");
    }
    let options = "-n parent=1 -i exchange=1 -l size=32m";
    let case = Case { name: "newer", newer: true, options, mebibytes: 160, ..named("default") };
    let scratch = Scratch::new("newer");
    let Some(stormy) = case.make(&scratch) else { return };
    let base = Image::sparse(&scratch, "base.img", case.mebibytes << 20);
    let program = scratch.path().join("storm");
    fs::copy(env!("CARGO_BIN_EXE_xfskit-storm"), &program).expect("the program");
    let whole = fs::metadata(&program).expect("the program").len().next_multiple_of(1 << 16);
    File::options()
        .write(true)
        .open(&program)
        .and_then(|file| file.set_len(whole))
        .expect("longer");
    let said = run(&scratch, STORM, &[stormy.path(), base.path(), &program]);

    let Some(storm) = Storm::read(base, &stormy) else { return note("the journal came round") };
    eprintln!("{} {:?}, {} moments", said.trim(), storm.promises, storm.moments.len());
    let moments = storm.telling(MOMENTS);
    let name = |n: usize, who: &str| format!("{n}-{who}.img");
    let crashed: Vec<_> =
        (0..).zip(&moments).map(|(n, m)| storm.crashed(m, &name(n, "crashed"))).collect();
    let theirs: Vec<_> =
        (0..).zip(&crashed).map(|(n, image)| image.copy(&name(n, "theirs"))).collect();
    let began = SystemTime::now() - CLOCK;
    run(&scratch, RECOVER, &theirs.iter().map(Image::path).collect::<Vec<_>>());
    let mut counted = Vec::new();
    for ((moment, image), theirs) in moments.iter().zip(&crashed).zip(&theirs) {
        let name = format!("{:?}", moment.open);
        let finished = compare_recovered(&name, &case, image, (theirs, began), &scratch);
        assert_eq!(finished, u64::from(moment.open.values().sum::<u32>()), "{name}");
        // xfskit's recovery is in `ours.img`.
        counted.push(
            Image::existing(&scratch, "ours.img").copy(&format!("{}-counted.img", counted.len())),
        );
    }
    let by_us = run(&scratch, COUNT, &counted.iter().map(Image::path).collect::<Vec<_>>());
    let by_them = run(&scratch, COUNT, &theirs.iter().map(Image::path).collect::<Vec<_>>());
    assert_eq!(by_us, by_them, "quota");
    eprintln!("{} moments, quota: {}", moments.len(), by_us.lines().next().unwrap_or_default());
}
