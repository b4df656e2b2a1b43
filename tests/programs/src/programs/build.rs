//! Projects that are configured, compiled and tested in the mount: GNU hello and GNU coreutils with
//! their own tests, and some floors of this project by cargo.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use xfskit_test_support::repository;

use crate::command::{Finished, Log, run};
use crate::stage::{Ran, Stage, Stop, installed};

/// Time for one command.
const BOUND: Duration = Duration::from_mins(30);
/// Time for the tests of coreutils.
const TESTS: Duration = Duration::from_hours(3);

/// Returns the archive of the sources of a Debian package.
fn sources(package: &str) -> Result<PathBuf, Stop> {
    let missing = || Stop::Skipped(format!("no sources of {package} (tests/programs/setup.sh)"));
    let dir = fs::read_dir(repository().join(".cache/programs/src")).map_err(|_| missing())?;
    let is_archive = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&format!("{package}_"))
            && name.contains(".orig.tar.")
            && !name.ends_with(".asc")
    };
    let archive = dir.flatten().map(|entry| entry.path()).find(is_archive).ok_or_else(missing)?;
    Ok(archive.canonicalize()?)
}

/// Unpacks and compiles sources in `dir`.
fn build(package: &str, dir: &Path, log: &Log) -> Result<(), Stop> {
    let archive = sources(package)?;
    fs::create_dir(dir)?;
    let mut unpack = Command::new("tar");
    unpack.args(["-x", "--strip-components=1", "--no-same-owner", "-C"]).arg(dir);
    run(unpack.arg("-f").arg(archive), BOUND, log)?.success()?;
    // As root, configure refuses without this variable.
    let mut configure = Command::new("./configure");
    configure.args(["-q", "--disable-nls"]).env("FORCE_UNSAFE_CONFIGURE", "1");
    run(configure.current_dir(dir), BOUND, log)?.success()?;
    make(dir, &["-s", "-j2"], BOUND, log)?.success()?;
    Ok(())
}

fn make(dir: &Path, args: &[&str], bound: Duration, log: &Log) -> Result<Finished, Stop> {
    let mut make = installed("make")?;
    // Not a part of the make that runs this program.
    make.env_remove("MAKEFLAGS").env_remove("MFLAGS").env_remove("MAKELEVEL");
    Ok(run(make.args(args).current_dir(dir), bound, log)?)
}

/// Builds GNU hello, tests and installs it.
pub(super) fn hello(stage: &Stage) -> Ran {
    sources("hello")?;
    let mut volume = stage.volume(2)?;
    let dir = volume.path().join("hello");
    build("hello", &dir, &stage.log).inspect_err(|_| volume.crash())?;
    make(&dir, &["-s", "check"], BOUND, &stage.log)?.success()?;
    let destination = format!("DESTDIR={}/installed", volume.path().display());
    make(&dir, &["-s", "install", &destination], BOUND, &stage.log)?.success()?;
    let mut installed = Command::new(volume.path().join("installed/usr/local/bin/hello"));
    let greeting = volume.succeed(&mut installed, BOUND)?;
    // Nothing is older than it was when the mount is a new one.
    volume.unmount()?;
    volume.mount()?;
    let again = make(&dir, &["all"], BOUND, &stage.log)?.success()?;
    if again.contains("gcc") {
        return Err(format!("make compiles again after a mount:\n{again}").into());
    }
    let entries = volume.end()?;
    Ok(format!("configure, make, check, install; it says {:?}; {entries} files", greeting.trim()))
}

/// Builds GNU coreutils and runs its tests, on a volume that Linux has mounted, too. No test may
/// fail here alone.
pub(super) fn coreutils(stage: &Stage) -> Ran {
    if stage.amount == 0 {
        return Err(Stop::Skipped("its tests are for a long run".into()));
    }
    sources("coreutils")?;
    let mut volume = stage.volume(4)?;
    let ours = tests(&volume.path().join("coreutils"), &stage.log);
    let ours = ours.inspect_err(|_| volume.crash())?;
    volume.end()?;
    let linux = stage.linux(4)?;
    let expected = tests(&linux.path().join("coreutils"), &stage.log)?;
    linux.unmount()?;
    let of = |results: &BTreeMap<String, String>, what: &str| {
        results.values().filter(|result| *result == what).count()
    };
    let mut differ = Vec::new();
    for (name, result) in &ours {
        let on_linux = expected.get(name).map_or("missing", String::as_str);
        if result != on_linux {
            differ.push(format!("{name}: {result}, on Linux {on_linux}"));
        }
    }
    let (passed, skipped, failed) = (of(&ours, "PASS"), of(&ours, "SKIP"), of(&ours, "FAIL"));
    let done = format!("{passed} tests passed, {skipped} skipped, {failed} failed");
    let worse = differ.iter().any(|test| test.contains(": FAIL") || test.contains(": ERROR"));
    if worse || passed < 300 {
        return Err(format!("{done}; unlike on Linux: {}", differ.join("; ")).into());
    }
    Ok(format!("{done}; unlike on Linux: {}", differ.join("; ")))
}

/// Runs the tests of coreutils in `dir`. Returns the result of each.
fn tests(dir: &Path, log: &Log) -> Result<BTreeMap<String, String>, Stop> {
    build("coreutils", dir, log)?;
    make(dir, &["-k", "-j2", "check", "SUBDIRS=."], TESTS, log)?;
    let mut results = BTreeMap::new();
    let mut queue = vec![dir.join("tests")];
    while let Some(below) = queue.pop() {
        for entry in fs::read_dir(below)? {
            let path = entry?.path();
            if path.is_dir() {
                queue.push(path);
            } else if path.extension().is_some_and(|extension| extension == "trs") {
                let text = fs::read_to_string(&path)?;
                let result = text.lines().find_map(|line| line.strip_prefix(":test-result: "));
                let name = path.strip_prefix(dir).unwrap_or(&path).display().to_string();
                // Some results have a reason behind them.
                let result = result.and_then(|result| result.split(' ').next());
                results.insert(name, result.unwrap_or("none").to_owned());
            }
        }
    }
    Ok(results)
}

/// Packages of this project that need few others.
const PACKAGES: [&str; 3] = ["xfskit-units", "xfskit-crc", "xfskit-format"];

/// Builds and tests floors of this project.
pub(super) fn cargo(stage: &Stage) -> Ran {
    installed("cargo")?;
    let mut volume = stage.volume(6)?;
    let dir = volume.path().join("project");
    let mut clone = installed("git")?;
    clone.args(["-c", "safe.directory=*", "clone", "-q", "--no-hardlinks", "--depth", "1"]);
    let from = format!("file://{}", repository().canonicalize()?.display());
    if volume.run(clone.arg(from).arg(&dir), BOUND)?.code != Some(0) {
        return Err(Stop::Skipped("this is not a clone of a repository".into()));
    }
    let cargo = |command: &str| -> Result<Command, Stop> {
        let mut cargo = installed("cargo")?;
        cargo.env_remove("CARGO_TARGET_DIR").env_remove("RUSTFLAGS").current_dir(&dir);
        cargo.args([command, "--offline", "-j2"]);
        cargo.args(PACKAGES.iter().flat_map(|package| ["-p", *package]));
        Ok(cargo)
    };
    let built = volume.run(&mut cargo("build")?, BOUND)?;
    if built.text.contains("no matching package") || built.text.contains("unable to update") {
        return Err(Stop::Skipped("cargo lacks sources of dependencies".into()));
    }
    built.success()?;
    let tested = volume.succeed(cargo("test")?.arg("--lib"), BOUND)?;
    volume.unmount()?;
    volume.mount()?;
    let again = volume.succeed(&mut cargo("build")?, BOUND)?;
    if again.contains("Compiling") {
        return Err(format!("cargo compiles again after a mount:\n{again}").into());
    }
    let entries = volume.end()?;
    let passed: u64 = tested
        .lines()
        .filter_map(|line| {
            line.strip_prefix("test result: ok. ")?.split(' ').next()?.parse::<u64>().ok()
        })
        .sum();
    Ok(format!("{} packages, {passed} tests passed; {entries} files", PACKAGES.len()))
}
