//! pjdfstest: the calls of POSIX with every error that they may return, for root and other users.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::stage::{Ran, Stage, Stop, installed};
use crate::volume::Volume;

/// Time for one run.
const BOUND: Duration = Duration::from_mins(15);

/// Its settings: all features of Linux are on.
const SETTINGS: &str = r#"
[features]
posix_fallocate = {}
rename_ctime = {}
utimensat = {}
utime_now = {}
[settings]
naptime = 0.02
allow_remount = REMOUNT
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"#;

/// Tests that it skips on this mount, and why.
const SKIPPED: [(&str, &str); 1] = [
    // pathconf(3) knows the limits of some types of filesystems, and FUSE is none of them. On XFS
    // the test is skipped, too: the limit is higher than it tries.
    ("link::link_count_max", "LINK_MAX is not known for FUSE"),
];

/// Tests at least, so that a run that ends early is seen.
const TESTS_MIN: usize = 380;

/// Mount options of each run.
const OPTIONS: [&str; 3] = ["", "no_open", "strictatime,threads=1"];

/// Calls mount(8) without its helper for FUSE, which cannot remount.
const MOUNT: &str = "#!/bin/sh\nPATH=/usr/sbin:/usr/bin:/sbin:/bin exec mount -i \"$@\"\n";

/// Runs the whole suite.
pub(super) fn run(stage: &Stage) -> Ran {
    installed("pjdfstest")?;
    let programs = stage.file("bin");
    std::fs::create_dir(&programs)?;
    std::fs::write(programs.join("mount"), MOUNT)?;
    std::fs::set_permissions(programs.join("mount"), std::fs::Permissions::from_mode(0o755))?;
    let mut volume = stage.volume(2)?;
    let mut passed = 0;
    for number in 0..usize::try_from(stage.amount).unwrap_or(1) {
        let options = OPTIONS[number % OPTIONS.len()];
        if number > 0 {
            volume.remount(options)?;
        }
        passed = all(stage, &mut volume).map_err(|why| format!("-o {options:?}: {why}"))?;
    }
    volume.end()?;
    let skipped = SKIPPED.map(|(name, why)| format!("{name}: {why}")).join(", ");
    Ok(format!("{passed} tests passed, {} skipped ({skipped})", SKIPPED.len()))
}

/// Runs every test once. Returns the number of those that passed.
///
/// Tests of read-only filesystems remount the volume. That fails while a file is open for writing,
/// and other tests of the suite leave one open, on any filesystem. So each runs as a process.
fn all(stage: &Stage, volume: &mut Volume<'_>) -> Result<usize, Stop> {
    let (mut passed, skipped) = suite(stage, volume, false, &[])?;
    if passed < TESTS_MIN {
        return Err(format!("{passed} tests passed, expected at least {TESTS_MIN}").into());
    }
    let (remounts, skipped): (BTreeSet<String>, BTreeSet<String>) =
        skipped.into_iter().partition(|name| name.contains("::erofs_"));
    for name in remounts {
        let full = format!("pjdfstest::tests::{name}");
        match suite(stage, volume, true, &["--exact", &full])? {
            (1, skipped) if skipped.is_empty() => passed += 1,
            other => return Err(format!("{name}: {other:?}").into()),
        }
    }
    let expected: BTreeSet<String> = SKIPPED.iter().map(|(name, _)| (*name).to_owned()).collect();
    if skipped != expected {
        return Err(format!("skipped {skipped:?}, expected {expected:?}").into());
    }
    Ok(passed)
}

/// Runs the suite. Returns the number of tests that passed, and the skipped ones.
fn suite(
    stage: &Stage,
    volume: &mut Volume<'_>,
    remount: bool,
    tests: &[&str],
) -> Result<(usize, BTreeSet<String>), Stop> {
    let settings = stage.file("pjdfstest.toml");
    std::fs::write(&settings, SETTINGS.replace("REMOUNT", &remount.to_string()))?;
    let path = std::env::var("PATH").unwrap_or_default();
    let mut suite = installed("pjdfstest")?;
    suite.env("PATH", format!("{}:{path}", stage.file("bin").display()));
    // The path of a socket has at most 107 bytes, so the mount has a short name here. A remount
    // takes the true one.
    let short = tempfile::tempdir()?;
    let link = short.path().join("m");
    std::os::unix::fs::symlink(volume.path(), &link)?;
    let root = if remount { volume.path() } else { link };
    suite.arg("-c").arg(settings).arg("-p").arg(&root).args(tests);
    suite.arg("-s").arg(stage.scratch.path());
    let ended = volume.run(&mut suite, BOUND)?;
    let results: Vec<(&str, &str)> = ended.text.lines().filter_map(result).collect();
    let of = |what: &str| -> BTreeSet<String> {
        let with = results.iter().filter(|(_, result)| *result == what);
        with.map(|(name, _)| (*name).to_owned()).collect()
    };
    let failed = of("FAILED");
    if !failed.is_empty() {
        return Err(format!("failed: {failed:?}").into());
    }
    if ended.code != Some(0) {
        return Err(ended.describe().into());
    }
    Ok((of("ok").len(), of("skipped")))
}

/// Parses the line of one test: its name and its result.
fn result(line: &str) -> Option<(&str, &str)> {
    let mut words = line.split_whitespace();
    let (name, result) = (words.next()?, words.next()?);
    let is_result = ["ok", "skipped", "FAILED"].contains(&result);
    (is_result && words.next().is_none() && name.contains("::")).then_some((name, result))
}
