//! Journals of a newer kernel than the installed one, with quota: Debian's, in an emulated machine.
//!
//! Runs in the long run only, and only if `VM=.cache/vm tests/tools/vm-xfs.sh setup` has prepared
//! that machine.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use xfskit_test_recovery::{Stress, compare_recovered};
use xfskit_test_support::matrix::{Case, named};
use xfskit_test_support::{Image, Need, Scratch, long, needs, note, skip};

/// Number of crash points; each takes a disk of the one machine.
const CRASH_POINTS: usize = 12;
/// Largest difference of the machines' clocks.
const CLOCK: Duration = Duration::from_secs(2);

/// Mounts the volume with quota, copies it once all is prepared, and runs the stress workload.
const STRESS: &str = "
set -eu
dd if=/dev/vdd of=/scratch/stress bs=64k 2>/dev/null; chmod +x /scratch/stress
mount -t xfs -o uquota,gquota,pquota /dev/vdb /mnt
/scratch/stress prepare /mnt
umount /mnt
dd if=/dev/vdb of=/dev/vdc bs=1M 2>/dev/null
mount -t xfs -o uquota,gquota,pquota /dev/vdb /mnt
/scratch/stress run /mnt 2500 & sleep 2; xfs_io -x -c 'shutdown -f' /mnt; wait
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
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn xfskit_finishes_intents_of_a_newer_kernel_as_that_kernel_does() {
    if !long() || !needs(&[Need::Mount, Need::Xfsprogs]) {
        return;
    }
    if !repository().join(".cache/vm/initrd.gz").exists() {
        return skip("a newer kernel in .cache/vm (VM=.cache/vm tests/tools/vm-xfs.sh setup)");
    }
    let options = "-n parent=1 -i exchange=1 -l size=32m";
    let case = Case { name: "newer", newer: true, options, mebibytes: 160, ..named("default") };
    let scratch = Scratch::new("newer");
    let Some(after_stress) = case.make(&scratch) else { return };
    let base = Image::sparse(&scratch, "base.img", case.mebibytes << 20);
    let program = scratch.path().join("stress");
    fs::copy(env!("CARGO_BIN_EXE_xfskit-stress"), &program).expect("the program");
    let whole = fs::metadata(&program).expect("the program").len().next_multiple_of(1 << 16);
    File::options()
        .write(true)
        .open(&program)
        .and_then(|file| file.set_len(whole))
        .expect("longer");
    let output = run(&scratch, STRESS, &[after_stress.path(), base.path(), &program]);

    let Some(stress) = Stress::read(base, &after_stress) else {
        return note("the journal came round");
    };
    eprintln!("{} {:?}, {} crash points", output.trim(), stress.intents, stress.crash_points.len());
    let crash_points = stress.representative(CRASH_POINTS);
    let name = |n: usize, part: &str| format!("{n}-{part}.img");
    let crashed: Vec<_> =
        (0..).zip(&crash_points).map(|(n, m)| stress.crashed(m, &name(n, "crashed"))).collect();
    let theirs: Vec<_> =
        (0..).zip(&crashed).map(|(n, image)| image.copy(&name(n, "theirs"))).collect();
    let began = SystemTime::now() - CLOCK;
    run(&scratch, RECOVER, &theirs.iter().map(Image::path).collect::<Vec<_>>());
    let mut counted = Vec::new();
    for ((point, image), theirs) in crash_points.iter().zip(&crashed).zip(&theirs) {
        let name = format!("{:?}", point.open);
        let finished = compare_recovered(&name, &case, image, (theirs, began), &scratch);
        assert_eq!(finished, u64::from(point.open.values().sum::<u32>()), "{name}");
        // xfskit's recovery is in `ours.img`.
        counted.push(
            Image::existing(&scratch, "ours.img").copy(&format!("{}-counted.img", counted.len())),
        );
    }
    let by_us = run(&scratch, COUNT, &counted.iter().map(Image::path).collect::<Vec<_>>());
    let by_them = run(&scratch, COUNT, &theirs.iter().map(Image::path).collect::<Vec<_>>());
    assert_eq!(by_us, by_them, "quota");
    eprintln!(
        "{} crash points, quota: {}",
        crash_points.len(),
        by_us.lines().next().unwrap_or_default()
    );
}
