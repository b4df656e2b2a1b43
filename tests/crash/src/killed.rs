//! `kill -9`: a process that writes to an image is killed at a random moment, and the next process
//! continues on the volume it left.
//!
//! The process prints the name of each file once it has synced it. Whenever it is killed, every
//! printed file must survive: the kernel recovers the volume and shows these files whole,
//! `xfs_repair -n` finds nothing, and xfskit recovers it to the same tree.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use xfskit_block::{FileDevice, OpenMode};
use xfskit_core::{OpenOptions, Volume};
use xfskit_test_support::{Image, Mount, Random, Scratch, ours, verify};
use xfskit_vfs::{Clock, Fs, Ino, NewNode, RenameMode};

use crate::pattern;

/// Threads of the process.
const THREADS: u16 = 4;
/// Files that each thread keeps at a time.
const FILES: u64 = 40;
/// Longest time until the kill, in milliseconds.
const MAX_LIFETIME: usize = 400;

/// All reported versions of each file, the newest last.
type Reported = BTreeMap<String, Vec<Synced>>;

/// The content of a file: this many bytes of operation `op`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Synced {
    op: u16,
    len: usize,
}

/// Writes until the process is killed; `main` runs it for `writer IMAGE SEED`.
///
/// # Panics
/// If the volume fails.
pub fn write_until_killed(image: &Path, seed: u64) {
    let device = FileDevice::open(image, OpenMode::ReadWrite).expect("the image");
    let options = OpenOptions { write: true, ..OpenOptions::default() };
    let fs =
        Fs::new(Volume::open(Arc::new(device), &options).expect("the volume"), Clock::system());
    let root = fs.volume().geo().rootino;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (fs, seed) = (&fs, seed * u64::from(THREADS) + u64::from(thread));
            scope.spawn(move || {
                let name = format!("home{thread}");
                let dir = fs.inode(root).and_then(|root| fs.lookup(&root, name.as_bytes()));
                let dir = dir.expect("the root").unwrap_or_else(|| {
                    fs.make(root, name.as_bytes(), &NewNode::directory(0o755)).expect("a directory")
                });
                write(fs, dir, thread, Random::new(seed));
            });
        }
    });
}

/// Replaces files by new ones as careful programs do: write, sync, rename. Between these it makes
/// changes that are not synced.
fn write(fs: &Fs, dir: Ino, thread: u16, mut random: Random) {
    loop {
        let (number, op) = (random.below(FILES), random.below(u16::MAX));
        let most = [500, 5000, 100_000][random.below(3)];
        let len = pattern::WORD + random.below(most);
        let name = format!("file{number}");
        let content = pattern::fill(tag(thread, number), op, 0, len);
        let new = fs.make(dir, b"new", &NewNode::file(0o644)).or_else(|_| {
            fs.unlink(dir, b"new")?;
            fs.make(dir, b"new", &NewNode::file(0o644))
        });
        let handle = fs.open(new.expect("a file")).expect("open");
        let cut = random.below(len);
        handle.write(0, &content[..cut]).expect("written");
        handle.write(cut as u64, &content[cut..]).expect("written");
        handle.fsync().expect("synced");
        drop(handle);
        fs.rename(dir, b"new", dir, name.as_bytes(), RenameMode::Replace).expect("renamed");
        fs.fsync(dir).expect("synced");
        let line = format!("{thread} {number} {op} {len}\n");
        std::io::stdout().lock().write_all(line.as_bytes()).expect("the parent reads");
        for n in 0..random.below(20) {
            let name = format!("other{}", random.below(100));
            if n % 3 == 0 {
                let _ = fs.unlink(dir, name.as_bytes());
            } else if let Ok(ino) = fs.make(dir, name.as_bytes(), &NewNode::file(0o600)) {
                fs.write(ino, 0, &vec![1; random.below(9000)]).expect("written");
            }
        }
    }
}

fn tag(thread: u16, number: u64) -> u16 {
    thread << 12 | u16::try_from(number).expect("few files")
}

/// Kills `rounds` processes, one after the other on the same volume; `program` must call
/// [`write_until_killed`]. Returns the number of synced files.
///
/// # Errors
/// The first violation, after any of the processes.
///
/// # Panics
/// If there is no space, or the program does not run.
pub fn rounds(program: &Path, rounds: u64, seed: u64) -> Result<usize, String> {
    let scratch = Scratch::new("killed");
    let image = Image::sparse(&scratch, "volume.img", 300 << 20);
    ours::mkfs(&image, &[])?;
    let mut random = Random::new(seed);
    let mut synced = Reported::new();
    let mut count = 0;
    for round in 0..rounds {
        let at = |why: String| format!("seed {seed}, round {round}: {why}");
        let reported =
            run_and_kill(program, image.path(), random.bits() >> 16, random.below(MAX_LIFETIME));
        count += reported.len();
        for (name, reported) in reported {
            synced.entry(name).or_default().push(reported);
        }
        let theirs = image.copy("kernels.img");
        let mount = Mount::read_write(&theirs, &scratch).map_err(at)?;
        let by_kernel = verify_files(mount.path(), &mut synced);
        mount.unmount().map_err(at)?;
        by_kernel.map_err(|why| at(format!("as the kernel recovers it: {why}")))?;
        verify::repair(&theirs).map_err(at)?;
        // The next process continues on the volume as the kernel or xfskit recovered it, or on the
        // unrecovered one.
        match random.below(3) {
            0 => drop(fs::copy(theirs.path(), image.path()).expect("room")),
            1 => recover(image.path()).map_err(at)?,
            _ => continue,
        }
        let mount = Mount::read_only(&image, &scratch).map_err(at)?;
        let now = verify_files(mount.path(), &mut synced);
        mount.unmount().map_err(at)?;
        now.map_err(at)?;
        verify::volume(&image, &scratch).map_err(at)?;
    }
    Ok(count)
}

/// Lets the program write for `life` milliseconds, kills it, and returns the files that it
/// reported.
fn run_and_kill(program: &Path, image: &Path, seed: u64, lifetime: usize) -> Vec<(String, Synced)> {
    let mut command = Command::new(program);
    command.arg("writer").arg(image).arg(seed.to_string());
    let mut child = command.stdout(Stdio::piped()).spawn().expect("the program");
    let out = BufReader::new(child.stdout.take().expect("a pipe"));
    let reader = std::thread::spawn(move || {
        let lines = out.lines().map_while(Result::ok);
        // The last line may be cut off.
        lines.filter_map(|line| parse(&line)).collect()
    });
    std::thread::sleep(Duration::from_millis(30 + lifetime as u64));
    child.kill().expect("killed");
    let status = child.wait().expect("ended");
    assert_eq!(status.code(), None, "the program ended by itself: {status}");
    reader.join().expect("no panic")
}

fn parse(line: &str) -> Option<(String, Synced)> {
    let words: Vec<&str> = line.split(' ').collect();
    let [thread, number, op, len] = words[..] else { return None };
    let synced = Synced { op: op.parse().ok()?, len: len.parse().ok()? };
    Some((format!("home{thread}/file{number}"), synced))
}

/// Recovers the volume, as opening it for writing does.
fn recover(image: &Path) -> Result<(), String> {
    let device = FileDevice::open(image, OpenMode::ReadWrite).map_err(|why| why.to_string())?;
    let options = OpenOptions { write: true, ..OpenOptions::default() };
    let volume = Volume::open(Arc::new(device), &options).map_err(|why| why.to_string())?;
    volume.close().map_err(|why| why.to_string())
}

/// Verifies that all `synced` files are there, whole: in the last reported version, or in a newer
/// one that was not reported before the kill. Notes the version that was found.
fn verify_files(root: &Path, synced: &mut Reported) -> Result<(), String> {
    for (name, reported) in synced {
        let content = fs::read(root.join(name)).map_err(|why| format!("{name} is lost: {why}"))?;
        let (thread, number) = name.trim_start_matches("home").split_once("/file").expect("a file");
        let tag = tag(thread.parse().expect("a number"), number.parse().expect("a number"));
        let op = content.get(4..6).map_or(0, |op| u16::from_le_bytes([op[0], op[1]]));
        let found = Synced { op, len: content.len() };
        if content != pattern::fill(tag, op, 0, content.len()) {
            return Err(format!(
                "{name}: other content than written, expected {:?}",
                reported.last()
            ));
        }
        match reported.iter().rposition(|known| *known == found) {
            Some(at) if at + 1 == reported.len() => {}
            Some(_) => return Err(format!("{name}: {found:?}, expected {:?}", reported.last())),
            None => reported.push(found),
        }
    }
    Ok(())
}
