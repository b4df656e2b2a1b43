//! Recovery tests: dirty journals of the kernel are replayed by xfskit and by the kernel, and the
//! results are compared.
//!
//! Each image is copied twice. The kernel recovers one copy by mounting it. xfskit replays the
//! journal into the other copy and marks it clean. `xfs_repair -n` must have no findings in that
//! copy, and both copies, mounted, must show the same tree: names, times, attributes, contents.

mod journal_only;
pub mod stress;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use xfskit_block::{BlockDevice, OverlayDevice};
use xfskit_block::{FileDevice, OpenMode};
use xfskit_core::superblock::read_superblock;
use xfskit_core::{OpenOptions, Volume};
use xfskit_recovery::Replay;
use xfskit_test_support::matrix::Case;
use xfskit_test_support::{Image, Manifest, Mount, Scratch, Xfsprogs, kernel, ours};

use xfskit_units::{ByteOffset, index};

pub use journal_only::JournalOnly;
pub use stress::Stress;

/// The granularity of the slowest kernel clock for files.
const TICK: Duration = Duration::from_millis(10);

/// Opens an image file.
///
/// # Panics
/// If it cannot be opened.
pub fn open(path: &Path, mode: OpenMode) -> FileDevice {
    FileDevice::open(path, mode).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

/// Replays the journal of `image` in place and marks it clean.
///
/// # Errors
/// Those of recovery.
pub fn replay_in_place(image: &Image<'_>) -> Result<Replay, xfskit_core::Error> {
    let dev = open(image.path(), OpenMode::ReadWrite);
    let log_dev = image.log().map(|path| open(path, OpenMode::ReadWrite));
    let log_dev = log_dev.as_ref().map(|dev| dev as &dyn BlockDevice);
    let sb = read_superblock(&dev)?;
    let replay = xfskit_recovery::replay(&dev, log_dev, &sb)?;
    if !replay.clean {
        let geo = read_superblock(&dev)?.geometry();
        xfskit_recovery::open_log(&dev, log_dev, &geo)?.mark_clean()?;
    }
    Ok(replay)
}

/// Replays the journal of `image` into memory.
///
/// # Errors
/// Those of recovery.
pub fn replay_in_memory(image: &Image<'_>) -> Result<(OverlayDevice, Replay), xfskit_core::Error> {
    let dev = OverlayDevice::new(std::sync::Arc::new(open(image.path(), OpenMode::ReadOnly)));
    let log_dev = image.log().map(|path| open(path, OpenMode::ReadOnly));
    let log_dev = log_dev.as_ref().map(|dev| dev as &dyn BlockDevice);
    let sb = read_superblock(&dev)?;
    let replay = xfskit_recovery::replay(&dev, log_dev, &sb)?;
    Ok((dev, replay))
}

/// Returns the tree that the kernel shows of `image`.
///
/// # Panics
/// If it cannot be mounted.
pub fn shown(image: &Image<'_>, scratch: &Scratch) -> Manifest {
    let mount = Mount::read_only(image, scratch).expect("mount");
    let manifest = kernel::manifest(mount.path());
    mount.unmount().expect("unmount");
    manifest
}

/// Replays `image`, whose journal is dirty, and compares it with the kernel's own recovery.
///
/// # Panics
/// If the trees differ, or `xfs_repair -n` has a finding.
pub fn compare(name: &str, image: &Image<'_>, scratch: &Scratch) -> Replay {
    let theirs = image.copy("theirs.img");
    Mount::recover(&theirs, scratch).unwrap_or_else(|why| panic!("{name}: kernel: {why}"));
    let expected = shown(&theirs, scratch);

    let ours = image.copy("ours.img");
    let replay = replay_in_place(&ours).unwrap_or_else(|why| panic!("{name}: {why}"));
    let again = replay_in_place(&ours).unwrap_or_else(|why| panic!("{name}, again: {why}"));
    assert!(again.clean, "{name}: the journal is clean after recovery");
    if !replay.unfinished.is_empty() {
        // The kernel finished open intents and thus shows another tree.
        return replay;
    }
    let differences = expected.differences(&shown(&ours, scratch), 20);
    assert!(differences.is_empty(), "{name}:\n{}", differences.join("\n"));
    // Freeing inodes on the unlinked lists is not part of the replay.
    if replay.unlinked_lists == 0 {
        let tools = Xfsprogs::all().pop().expect("xfsprogs");
        assert_eq!(complaints(&tools, &ours), "", "{name}");
    }
    replay
}

/// Opens `image`, a volume `case` with a dirty journal, for writing and closes it. Compares it with
/// the kernel's own recovery, and with the tree that opening for reading shows. Returns the number
/// of finished intents.
///
/// # Panics
/// If any two trees differ, or `xfs_repair -n` or `xfskit check` has a finding.
pub fn compare_finished(name: &str, case: &Case, image: &Image<'_>, scratch: &Scratch) -> u64 {
    let theirs = image.copy("theirs.img");
    let began = SystemTime::now();
    Mount::recover(&theirs, scratch).unwrap_or_else(|why| panic!("{name}: kernel: {why}"));
    compare_recovered(name, case, image, (&theirs, began), scratch)
}

/// As [`compare_finished`], with `theirs`, a copy whose recovery the kernel began at `began`.
///
/// # Panics
/// As [`compare_finished`].
pub fn compare_recovered(
    name: &str,
    case: &Case,
    image: &Image<'_>,
    (theirs, began): (&Image<'_>, SystemTime),
    scratch: &Scratch,
) -> u64 {
    // Block counts include btree blocks, and each implementation splits those in its own way.
    let mut expected = shown(theirs, scratch).without_blocks();
    let volume = ours::open(image);
    let (in_memory, unread) = ours::manifest(&volume);
    assert!(unread.is_empty(), "{name}, in memory:\n{}", unread.join("\n"));
    let in_memory = in_memory.without_blocks();
    if volume.geo().features.parent() {
        forget_changes_since(began, &in_memory, &mut expected);
    }
    drop(volume);
    let differences = expected.differences(&in_memory, 20);
    assert!(differences.is_empty(), "{name}, in memory:\n{}", differences.join("\n"));

    let recovered = image.copy("ours.img");
    let replay = recover(&recovered).unwrap_or_else(|why| panic!("{name}: {why}"));
    verify_recovered(name, case, &recovered, theirs);
    let differences = expected.differences(&shown(&recovered, scratch).without_blocks(), 20);
    assert!(differences.is_empty(), "{name}:\n{}", differences.join("\n"));
    replay.finished
}

/// Verifies that `xfs_repair -n` and `xfskit check` have no findings in `recovered`. One state is
/// allowed, since Linux leaves it too: an attribute with a remote value is set or removed in
/// several transactions without an intent, and stays INCOMPLETE if a crash comes between them.
fn verify_recovered(name: &str, case: &Case, recovered: &Image<'_>, theirs: &Image<'_>) {
    let mut of_linux = ours::CheckReport::default();
    for tools in case.repair_tools() {
        let output = complaints(&tools, recovered);
        if !output.is_empty() {
            assert!(output.contains(" is INCOMPLETE"), "{name}: {output}");
            // Counts include btree blocks, which each implementation splits in its own way.
            let states = |output: &str| -> Vec<String> {
                let lines = output.lines().filter(|line| line.contains(" is INCOMPLETE"));
                lines.map(str::to_owned).collect()
            };
            let of_theirs = complaints(&tools, theirs);
            assert_eq!(states(&output), states(&of_theirs), "{name}:\n{output}\n{of_theirs}");
            of_linux = ours::check(theirs);
        }
    }
    assert_eq!(ours::check(recovered), of_linux, "{name}");
}

/// Copies times from `ours` that cannot be compared. Linux 6.18 sets the inode's ctime to the time
/// of the recovery when it finishes a parent pointer that fits into the inode (observed;
/// docs/format/log.md §6).
fn forget_changes_since(began: SystemTime, ours: &Manifest, linux: &mut Manifest) {
    // The kernel's clock for files lags by up to a tick.
    let began = began.duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
    let began = began.saturating_sub(TICK);
    for (path, entry) in &mut linux.entries {
        let (seconds, nanoseconds) = entry.ctime;
        let changed = Duration::new(u64::try_from(seconds).unwrap_or(0), nanoseconds);
        if let Some(ours) = ours.entries.get(path).filter(|_| changed >= began) {
            entry.ctime = ours.ctime;
        }
    }
}

/// Opens `image` for writing, which finishes all that the journal holds, and closes it.
///
/// # Errors
/// Those of the volume.
///
/// # Panics
/// If something is left unfinished.
pub fn recover(image: &Image<'_>) -> Result<Replay, xfskit_core::Error> {
    let open = |path: &Path| -> Arc<dyn BlockDevice> { Arc::new(open(path, OpenMode::ReadWrite)) };
    let log_dev = image.log().map(open);
    let options = OpenOptions { write: true, log_dev, ..OpenOptions::default() };
    let volume = Volume::open(open(image.path()), &options)?;
    let replay = volume.replay().cloned().expect("a journal");
    assert!(replay.unfinished.is_empty(), "{:?}", replay.unfinished);
    volume.close()?;
    Ok(replay)
}

/// Writes the content of a device into an image file, with holes kept.
///
/// # Panics
/// If either fails.
pub fn save(dev: &dyn BlockDevice, image: &Image<'_>) {
    let file = open(image.path(), OpenMode::ReadWrite);
    let mut piece = vec![0; 1 << 16];
    for start in (0..dev.size().0).step_by(piece.len()) {
        let len = index(dev.size().0 - start).min(piece.len());
        dev.read_at(ByteOffset(start), &mut piece[..len]).expect("readable");
        if piece[..len].iter().any(|&byte| byte != 0) {
            file.write_at(ByteOffset(start), &piece[..len]).expect("written");
        }
    }
}

/// Returns the findings of `xfs_repair -n` for `image`.
pub fn complaints(tools: &Xfsprogs, image: &Image<'_>) -> String {
    let output = tools.repair_n(image, &[]).err().unwrap_or_default();
    let complaints: Vec<&str> = output.lines().filter(|line| !is_not_finding(line)).collect();
    complaints.join("\n")
}

/// Returns whether a line of `xfs_repair` is not a finding. Staging extents of copy on write stay
/// until the next mount for writing.
fn is_not_finding(line: &str) -> bool {
    let known = ["xfs_repair ", "Phase ", "        - ", "No modify flag", "leftover CoW extent "];
    let about_host = ["Cannot get host", "Repair may fail", "the image and the host"];
    known.iter().chain(&about_host).any(|start| line.starts_with(start))
}
