//! `kill -9` of the process that serves a mount, under load, again and again.
//!
//! Threads replace files as careful programs do: write, fsync, rename, fsync of the directory.
//! Between these they make changes that are not synced. After each kill every file must be there,
//! whole, in its last synced version or a newer one. The volume is recovered by `xfskit recover`,
//! by the next mount, or by the kernel, and all tools verify it.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use xfskit_test_support::{Image, Random};

use crate::served::xfskit;
use crate::stage::{Ran, Stage, Stop};
use crate::volume::Volume;

/// Threads of the load.
const THREADS: usize = 4;
/// Files that each thread keeps.
const FILES: usize = 30;
/// Longest life of a mount, in milliseconds.
const LIFE: u64 = 600;
/// Time for a recovery.
const BOUND: Duration = Duration::from_mins(5);

/// The last synced version of each file of a thread; 0 if there is none.
type Synced = [u64; FILES];

/// Kills, recovers and verifies.
pub(super) fn run(stage: &Stage) -> Ran {
    let mut volume = stage.volume(1)?;
    let mut random = stage.random();
    let mut synced = [[0; FILES]; THREADS];
    let (mut version, mut count) = (0, 0);
    for thread in 0..THREADS {
        fs::create_dir(home(&volume.path(), thread))?;
    }
    File::open(volume.path())?.sync_all()?;
    for kill in 0..stage.amount {
        let at = |why: String| Stop::Failed(format!("seed {}, kill {kill}: {why}", stage.seed));
        count += load_and_kill(&mut volume, &mut synced, &mut version, &mut random)?;
        volume.kill()?;
        match random.below(3_u32) {
            0 => {
                let mut recover = Command::new(xfskit());
                recover.args(["recover", "-q", volume.target()]);
                run_tool(&mut recover, stage).map_err(at)?;
                volume.verify().map_err(at)?;
            }
            1 => {
                let image = Image::existing(&stage.scratch, &name(&volume));
                xfskit_test_support::Mount::recover(&image, &stage.scratch).map_err(at)?;
                volume.verify().map_err(at)?;
            }
            _ => {}
        }
        volume.mount().map_err(at)?;
        for (thread, synced) in synced.iter_mut().enumerate() {
            verify(&home(&volume.path(), thread), thread, synced).map_err(at)?;
        }
    }
    volume.end()?;
    Ok(format!("{} kills, {count} synced files", stage.amount))
}

fn run_tool(command: &mut Command, stage: &Stage) -> Result<(), String> {
    crate::command::run(command, BOUND, &stage.log)?.success().map(drop)
}

/// Returns the name of the volume's image.
fn name(volume: &Volume<'_>) -> String {
    let path = PathBuf::from(volume.target());
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn home(root: &Path, thread: usize) -> PathBuf {
    root.join(format!("home{thread}"))
}

/// Lets the threads write for a while, then kills the process of the mount. Returns the number of
/// files that were synced.
fn load_and_kill(
    volume: &mut Volume<'_>,
    synced: &mut [Synced; THREADS],
    version: &mut u64,
    random: &mut Random,
) -> Result<u64, Stop> {
    let root = volume.path();
    let first = *version + 1;
    let counts = std::thread::scope(|scope| {
        let threads: Vec<_> = synced
            .iter_mut()
            .enumerate()
            .map(|(thread, synced)| {
                let (dir, random) = (home(&root, thread), random.fork());
                scope.spawn(move || write(&dir, thread, synced, first, random))
            })
            .collect();
        std::thread::sleep(Duration::from_millis(50 + random.below(LIFE)));
        volume.crash();
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    let mut all = 0;
    for count in counts {
        let count = count.map_err(|_| "a thread of the load panicked")?;
        *version = (*version).max(first + count);
        all += count;
    }
    if all == 0 { Err("the load did not run".into()) } else { Ok(all) }
}

/// Replaces files until the mount is dead. Returns the number of synced files.
fn write(dir: &Path, thread: usize, synced: &mut Synced, first: u64, mut random: Random) -> u64 {
    let mut count = 0;
    loop {
        let file = random.below(FILES);
        let version = first + count;
        if replace(dir, thread, file, version, &mut random).is_err() {
            return count;
        }
        synced[file] = version;
        count += 1;
        for _ in 0..random.below(20) {
            if noise(dir, &mut random).is_err_and(|why| is_dead(&why)) {
                return count;
            }
        }
    }
}

/// Writes a new version of a file, and syncs it.
fn replace(
    dir: &Path,
    thread: usize,
    file: usize,
    version: u64,
    random: &mut Random,
) -> std::io::Result<()> {
    let most = random.pick(&[100, 5000, 100_000, 500_000]);
    let content = content(thread, file, version, random.below(most));
    let new = dir.join("new");
    let mut open = File::create(&new)?;
    let cut = random.below(content.len());
    open.write_all(&content[..cut])?;
    open.write_all(&content[cut..])?;
    open.sync_all()?;
    drop(open);
    fs::rename(new, dir.join(format!("file{file}")))?;
    File::open(dir)?.sync_all()
}

/// Makes a change that is not synced.
fn noise(dir: &Path, random: &mut Random) -> std::io::Result<()> {
    let path = dir.join(format!("other{}", random.below(60)));
    match random.below(7) {
        0 => fs::remove_file(path),
        1 => fs::create_dir(path),
        2 => fs::remove_dir(path),
        3 => fs::rename(path, dir.join(format!("other{}", random.below(60)))),
        4 => fs::hard_link(path, dir.join(format!("other{}", random.below(60)))),
        5 => File::options().write(true).open(path)?.set_len(random.below(100_000)),
        _ => fs::write(path, vec![1; random.below(50_000)]),
    }
}

/// Returns whether an error is that of a mount without its process.
fn is_dead(why: &std::io::Error) -> bool {
    let dead = [rustix::io::Errno::NOTCONN, rustix::io::Errno::CONNABORTED];
    why.raw_os_error().is_some_and(|code| dead.iter().any(|errno| errno.raw_os_error() == code))
}

/// Bytes before the random ones: the thread, the file, the version and their number.
const HEADER: usize = 32;

/// Returns the content of a version of a file.
fn content(thread: usize, file: usize, version: u64, len: usize) -> Vec<u8> {
    let numbers = [thread as u64, file as u64, version, len as u64];
    let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    bytes.extend(Random::new(version << 16 | numbers[0] << 8 | numbers[1]).bytes(len));
    bytes
}

/// Verifies the files of a thread: each whole, and not older than its synced version.
fn verify(dir: &Path, thread: usize, synced: &mut Synced) -> Result<(), String> {
    for (file, version) in synced.iter_mut().enumerate().filter(|(_, version)| **version > 0) {
        let path = dir.join(format!("file{file}"));
        let found = fs::read(&path).map_err(|why| format!("{}: {why}", path.display()))?;
        let number = |at: usize| {
            let bytes = found.get(at * 8..at * 8 + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let newer = number(2).ok_or_else(|| format!("{}: too short", path.display()))?;
        if newer < *version {
            return Err(format!("{}: version {newer}, {version} was synced", path.display()));
        }
        if found != content(thread, file, newer, found.len().saturating_sub(HEADER)) {
            return Err(format!("{}: other content than was written", path.display()));
        }
        *version = newer;
    }
    Ok(())
}
