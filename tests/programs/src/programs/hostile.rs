//! Every damaged volume of the repository, mounted, walked, changed and unmounted within a bound:
//! the hostile images, and the volumes of the fuzz corpus.
//!
//! Errors are right where there is damage. What must not happen: a hang, a panic, a process that
//! takes memory without bound or ends early.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use xfskit_test_fuzzing as fuzzing;
use xfskit_test_support::{Image, Scratch, kept, repository};

use crate::command::{Running, tail};
use crate::served::{Refused, Served};
use crate::stage::{Ran, Stage, Stop};

/// Time for everything that is done on one mount.
const BOUND: Duration = Duration::from_mins(2);
/// Memory of the process that serves a mount.
const MEMORY: u64 = 1 << 30;
/// Entries that a walk visits at most: a cycle of directories has no end.
const ENTRIES: usize = 3000;
/// Bytes of a file that are read at most.
const CONTENT: u64 = 1 << 20;
/// How each volume is mounted.
const OPTIONS: [&str; 3] = ["rw", "ro", "ro,norecovery"];

/// A damaged volume.
struct Damaged {
    name: String,
    source: Source,
}

enum Source {
    /// A kept image.
    Kept(String),
    /// A patch of `hostile/base`.
    Patch(PathBuf),
    /// An input of a fuzz target.
    Input(&'static str, Vec<u8>),
}

/// Mounts all volumes, the hostile images first.
pub(super) fn run(stage: &Stage) -> Ran {
    // Memory holds images of 64 MiB; a disk would have to write them all.
    let scratch = Scratch::new("hostile");
    let volumes = volumes()?;
    let all = volumes.len();
    let most = usize::try_from(stage.amount).unwrap_or(usize::MAX);
    let (mut mounts, mut refused, mut errors, mut slowest) = (0, 0, 0, Duration::ZERO);
    let step = all.div_ceil(most).max(1);
    let (images, inputs): (Vec<_>, Vec<_>) =
        volumes.into_iter().partition(|volume| !matches!(volume.source, Source::Input(..)));
    let chosen = images.into_iter().chain(inputs.into_iter().step_by(step));
    let mut count = 0;
    for volume in chosen {
        let begun = Instant::now();
        for options in OPTIONS {
            let at = |why: String| format!("{}, -o {options}: {why}", volume.name);
            let image = volume.source.unpack(&scratch)?;
            match mount_and_use(stage, &image, &scratch, options).map_err(at)? {
                Some(found) => (mounts, errors) = (mounts + 1, errors + found),
                None => refused += 1,
            }
            fs::remove_file(&image)?;
        }
        slowest = slowest.max(begun.elapsed());
        count += 1;
    }
    Ok(format!(
        "{count} of {all} volumes: {mounts} mounts, {refused} refused, {errors} errors seen; the \
         slowest took {:.1} s",
        slowest.as_secs_f64()
    ))
}

/// Returns the damaged volumes of the repository.
fn volumes() -> Result<Vec<Damaged>, Stop> {
    let mut volumes = Vec::new();
    for folder in ["", "hostile/"] {
        let images = fs::read_dir(repository().join("tests/images").join(folder))?;
        let mut paths: Vec<_> = images.flatten().map(|entry| entry.path()).collect();
        paths.sort();
        for path in paths {
            let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let name = |end| file.strip_suffix(end).map(|name| format!("{folder}{name}"));
            if let Some(name) = name(".img.zst") {
                volumes.push(Damaged { source: Source::Kept(name.clone()), name });
            } else if let Some(name) = name(".patch.zst") {
                volumes.push(Damaged { name, source: Source::Patch(path) });
            }
        }
    }
    for target in ["journal", "batch", "image"] {
        let mut inputs = fuzzing::kept::inputs(target);
        if inputs.is_empty() {
            // The corpus of this target is not kept: its seeds are changes of each kind of block.
            inputs = fuzzing::targets()
                .find(|t| t.name == target)
                .map_or_else(Vec::new, |t| (t.seeds)().into_iter().step_by(5).collect());
        }
        // Shorter ones choose no volume.
        inputs.retain(|input| input.len() > 1);
        for (number, input) in inputs.into_iter().enumerate() {
            let name = format!("{target} {number}");
            volumes.push(Damaged { name, source: Source::Input(target, input) });
        }
    }
    Ok(volumes)
}

impl Source {
    /// Writes the volume to a file.
    fn unpack(&self, scratch: &Scratch) -> Result<PathBuf, Stop> {
        match self {
            Self::Kept(name) => Ok(kept::file(name, scratch.path())),
            Self::Patch(path) => patched(path, scratch),
            Self::Input(target, input) => {
                let device = fuzzing::damaged(target, input).ok_or("an empty input")?;
                Ok(Image::of_device(scratch, "input.img", &*device).path().to_owned())
            }
        }
    }
}

/// Applies a patch: a map from offsets to bytes in hexadecimal.
fn patched(patch: &Path, scratch: &Scratch) -> Result<PathBuf, Stop> {
    let image = kept::file("hostile/base", scratch.path());
    let patch: BTreeMap<String, String> =
        serde_json::from_slice(&kept::decompress(patch)).map_err(|why| why.to_string())?;
    let file = File::options().write(true).open(&image)?;
    for (offset, hex) in patch {
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16);
        let change: Result<Vec<u8>, _> = (0..hex.len()).step_by(2).map(byte).collect();
        let change = change.map_err(|why| why.to_string())?;
        file.write_all_at(&change, offset.parse::<u64>().map_err(|_| "an offset")?)?;
    }
    Ok(image)
}

/// Mounts a volume and uses it. Returns the errors that were seen; `None` if it was refused.
fn mount_and_use(
    stage: &Stage,
    image: &Path,
    scratch: &Scratch,
    options: &str,
) -> Result<Option<usize>, String> {
    let dir = scratch.path().join("mnt");
    let _ = fs::create_dir(&dir);
    let target = image.display().to_string();
    let messages = scratch.path().join("messages");
    let mut served = match Served::new(&target, &dir, options, &messages, &stage.log) {
        Ok(served) => served,
        Err(Refused::Code(1 | 2, _)) => return Ok(None),
        Err(refused) => return Err(refused.into()),
    };
    let program = std::env::current_exe().map_err(|why| why.to_string())?;
    let mut walk = Command::new(program);
    walk.args(["walk", options]).arg(&dir);
    let walked = Running::start(&mut walk)?.wait(BOUND, &stage.log);
    if walked.is_err() {
        served.release();
    }
    let errors = walked?.success()?;
    let memory = served.peak_bytes();
    let said = tail(&served.said()).to_owned();
    if memory > MEMORY {
        return Err(format!("{} MiB of memory: {said}", memory >> 20));
    }
    match served.unmount(&stage.log)? {
        0..=2 => Ok(Some(errors.trim().parse().map_err(|_| errors)?)),
        code => Err(format!("the process of the mount ended with code {code}: {said}")),
    }
}

/// Walks a mount, and changes it unless it is read-only; `main` runs it for `walk OPTIONS DIR`.
/// Prints the number of errors.
///
/// The mount is the root of this process: a symbolic link of a hostile volume leads nowhere else.
///
/// # Panics
/// The process cannot change its root, other than for damage of the volume's.
pub fn walk(options: &str, root: &Path) {
    let moved = rustix::process::chroot(root).and_then(|()| rustix::process::chdir("/"));
    if moved.is_err_and(|error| matches!(error, Errno::UCLEAN | Errno::IO)) {
        println!("1");
        return;
    }
    moved.expect("the new root");
    let root = Path::new("/");
    let mut errors = walk_tree(root);
    if !options.contains("ro") {
        errors += change(root);
        errors += walk_tree(root);
    }
    println!("{errors}");
}

/// Reads everything that is found. Returns the number of errors.
fn walk_tree(root: &Path) -> usize {
    let (mut queue, mut errors, mut seen) = (vec![root.to_path_buf()], 0, 0);
    while let Some(dir) = queue.pop() {
        let Ok(entries) = fs::read_dir(&dir) else {
            errors += 1;
            continue;
        };
        for entry in entries {
            let Ok(entry) = entry else {
                errors += 1;
                break;
            };
            seen += 1;
            if seen > ENTRIES {
                return errors;
            }
            errors += usize::from(read(&entry.path(), &mut queue).is_err());
        }
    }
    errors
}

/// Reads one file, its attributes and where its data is; adds a directory to the queue.
fn read(path: &Path, queue: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    let mut names = vec![0_u8; 64 << 10];
    let len = rustix::fs::llistxattr(path, &mut names)?;
    for name in names[..len].split(|&byte| byte == 0).filter(|name| !name.is_empty()) {
        let mut value = vec![0_u8; 64 << 10];
        let _ = rustix::fs::lgetxattr(path, name, &mut value);
    }
    if metadata.is_dir() {
        queue.push(path.to_path_buf());
    } else if metadata.is_symlink() {
        fs::read_link(path)?;
    } else if metadata.is_file() {
        let file = File::open(path)?;
        for hole in [rustix::fs::SeekFrom::Hole(0), rustix::fs::SeekFrom::Data(0)] {
            let _ = rustix::fs::seek(&file, hole);
        }
        rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0))?;
        let mut content = Vec::new();
        (&file).take(CONTENT).read_to_end(&mut content)?;
        let mut end = [0; 512];
        let _ = file.read_at(&mut end, metadata.len().saturating_sub(512));
    }
    Ok(())
}

/// Changes the tree in all ways. Returns the number of errors: that each call ends matters.
fn change(root: &Path) -> usize {
    let mut errors = 0;
    let mut count = |result: std::io::Result<()>| errors += usize::from(result.is_err());
    for n in 0..20 {
        count(fs::write(root.join(format!("new-{n}")), vec![n; 10_000]));
        count(fs::create_dir(root.join(format!("new-dir-{n}"))));
    }
    let mut dirs = vec![root.to_path_buf()];
    let is_dir = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|data| data.is_dir());
    dirs.extend(entries(root).into_iter().filter(is_dir).take(10));
    for dir in dirs {
        for path in entries(&dir).iter().take(20) {
            change_one(path, root, &mut count);
        }
        count(File::open(&dir).and_then(|dir| dir.sync_all()));
    }
    count(fs::remove_dir_all(root.join("new-dir-0")));
    errors
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn change_one(path: &Path, root: &Path, count: &mut dyn FnMut(std::io::Result<()>)) {
    use rustix::fs::{FallocateFlags, XattrFlags};
    let flags = XattrFlags::empty();
    count(rustix::fs::lsetxattr(path, "trusted.new", &[1; 300], flags).map_err(Into::into));
    count(fs::hard_link(path, root.join("new-link")));
    // Opening a named pipe would wait for its other end.
    if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_file())
        && let Ok(file) = File::options().append(true).read(true).open(path)
    {
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        count(rustix::fs::fallocate(&file, punch, 4096, 8192).map_err(Into::into));
        count(
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 1 << 20, 4096)
                .map_err(Into::into),
        );
        count(file.sync_all());
        count(file.set_len(1));
    }
    count(fs::rename(path, root.join("new-name")));
    count(fs::rename(root.join("new-name"), path));
    count(fs::remove_file(root.join("new-link")));
    if !path.ends_with("new-dir-0") {
        count(fs::remove_file(path));
    }
}
