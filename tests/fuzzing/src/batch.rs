//! Batches of changes to a damaged volume.
//!
//! Metadata blocks of a volume that Linux filled are damaged, with valid checksums. The volume is
//! then opened for writing, a list of operations runs, and the volume is closed. These claims are
//! verified:
//!
//! 1. No operation panics or hangs.
//! 2. A successful copy gives the bytes that a read gives. If reading the source fails, so does the
//!    copy.
//! 3. A volume that [`check`](xfskit_check::check()) finds clean before is clean afterwards, even
//!    if an operation ended in an error.
//!
//! An input is a choice of volume, a number of damages, that many [changes](crate::change), and
//! operations of [`STEP`] bytes: the kind, and three numbers that select inodes, names, offsets and
//! lengths.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use xfskit_block::BlockDevice;
use xfskit_core::{OpenOptions, Volume};
use xfskit_format::bytes::be16;
use xfskit_units::{ByteOffset, Ino};
use xfskit_vfs::{
    Clock, FileType, Fs, NewNode, RenameMode, Result, Seek, SetAttr, SetMode, Timestamp,
};

use crate::change;
use crate::image::Image;

/// Kept images for batches.
pub const IMAGES: [&str; 5] = ["v5", "v5-1k", "v5-plain", "v5-dirty", "intents-parent"];
/// Size of one operation, in bytes.
pub const STEP: usize = 8;
/// Most operations of one batch.
const OPS_MAX: usize = 24;
/// Most damages of one volume.
const DAMAGES_MAX: usize = 6;
/// Largest file that is read whole, in bytes.
const CONTENT_MAX: u64 = 4 << 20;
/// Names of a large directory that operations may select.
const NAMES_PER_DIR: usize = 16;

/// An image, and the objects that operations may select.
#[derive(Debug)]
struct SeedImage {
    image: Image,
    inos: Vec<Ino>,
    dirs: Vec<Ino>,
    files: Vec<Ino>,
    names: Vec<(Ino, Vec<u8>)>,
}

impl SeedImage {
    fn load(name: &str) -> Self {
        let image = Image::load(name);
        let volume = Volume::open(Arc::clone(&image.base), &OpenOptions::default());
        let fs = Fs::new(volume.expect("a sound image"), Clock::system());
        let (mut dirs, mut names) = (Vec::new(), Vec::new());
        let (mut inos, mut files) = (BTreeSet::new(), BTreeSet::new());
        let mut queue = vec![fs.volume().geo().rootino];
        while let Some(dir) = queue.pop() {
            dirs.push(dir);
            let entries = fs.read_dir(&fs.inode(dir).expect("a directory")).entries;
            let step = entries.len().div_ceil(NAMES_PER_DIR).max(1);
            for (i, entry) in entries.into_iter().enumerate() {
                match entry.file_type {
                    FileType::Directory => queue.push(entry.ino),
                    FileType::Regular => drop(files.insert(entry.ino)),
                    _ => {}
                }
                inos.insert(entry.ino);
                if i % step == 0 {
                    names.push((dir, entry.name));
                }
            }
        }
        let (inos, files) = (inos.into_iter().collect(), files.into_iter().collect());
        Self { image, inos, dirs, files, names }
    }
}

fn subjects() -> &'static [SeedImage] {
    static SUBJECTS_LOADED: OnceLock<Vec<SeedImage>> = OnceLock::new();
    SUBJECTS_LOADED.get_or_init(|| IMAGES.iter().map(|name| SeedImage::load(name)).collect())
}

/// One operation of an input.
#[derive(Clone, Copy, Debug)]
struct Op {
    kind: u8,
    small: u8,
    numbers: [u16; 3],
}

impl Op {
    fn read(bytes: &[u8]) -> Option<Self> {
        let numbers = [be16(bytes, 2)?, be16(bytes, 4)?, be16(bytes, 6)?];
        Some(Self { kind: *bytes.first()?, small: *bytes.get(1)?, numbers })
    }

    fn pick<T>(self, number: usize, from: &[T]) -> Option<&T> {
        from.get(usize::from(self.numbers[number]) % from.len().max(1))
    }

    /// Returns a range of a file: whole blocks, or bytes if `small` is odd.
    fn range(self) -> std::ops::Range<u64> {
        let unit = if self.small & 1 == 0 { 4096 } else { 61 };
        let start = u64::from(self.numbers[1] & 0x1ff) * unit;
        start..start + (1 + u64::from(self.numbers[2] & 0xff)) * unit
    }

    /// Returns one of a few new names, short or long.
    fn name(self) -> Vec<u8> {
        let len = if self.small & 0x40 == 0 { 2 } else { 200 };
        let mut name = format!("n{}", self.small & 0x0f).into_bytes();
        name.resize(name.len().max(len), b'x');
        name
    }
}

/// Opens the volume for writing, with a clock that is the same in every run.
fn open(dev: &Arc<dyn BlockDevice>) -> Result<Fs> {
    let volume = Volume::open(Arc::clone(dev), &options())?;
    Ok(Fs::new(volume, Clock::fixed(Timestamp::EPOCH)))
}

fn options() -> OpenOptions {
    OpenOptions { write: true, ..OpenOptions::default() }
}

/// Returns whether check has no findings and the journal is clean.
fn is_clean(dev: &dyn BlockDevice) -> bool {
    let options = xfskit_check::Options { threads: 1, ..Default::default() };
    let report = xfskit_check::check(dev, None, &options, &mut |_| {});
    report.is_ok_and(|report| report.clean() && report.log_clean)
}

/// Returns the findings of check, for a failure message.
fn findings(dev: &dyn BlockDevice) -> Vec<String> {
    let mut found = Vec::new();
    let options = xfskit_check::Options { threads: 1, ..Default::default() };
    let report =
        xfskit_check::check(dev, None, &options, &mut |finding| found.push(format!("{finding:?}")));
    found.truncate(20);
    found.push(format!("{:?}", report.map(|report| report.log_clean)));
    found
}

/// Returns the damaged volume of an input.
pub fn damaged(data: &[u8]) -> Option<Arc<dyn BlockDevice>> {
    let &[choice, damages, ref rest @ ..] = data else { return None };
    let subject = &subjects()[usize::from(choice) % IMAGES.len()];
    let (damage, _) = split(damages, rest);
    Some(subject.image.damaged(change::changes(damage, DAMAGES_MAX)))
}

/// Splits an input into damages and operations.
fn split(damages: u8, rest: &[u8]) -> (&[u8], &[u8]) {
    let damages = usize::from(damages) % (DAMAGES_MAX + 1);
    rest.split_at((damages * change::LEN).min(rest.len()))
}

/// Damages a volume, runs a batch of operations, and verifies the result.
///
/// # Panics
/// If one of the claims does not hold.
pub fn run(data: &[u8]) {
    let &[choice, damages, ref rest @ ..] = data else { return };
    let subject = &subjects()[usize::from(choice) % IMAGES.len()];
    let (damage, ops) = split(damages, rest);
    let dev = subject.image.damaged(change::changes(damage, DAMAGES_MAX));
    let was_clean = is_clean(&dev);
    let result = batch(subject, &dev, ops);
    if !was_clean {
        return;
    }
    if let Err(error) = &result {
        // If the batch ended in an error, the next open recovers the volume.
        let volume = Volume::open(Arc::clone(&dev), &options());
        let closed = volume.and_then(Volume::close);
        assert!(closed.is_ok(), "clean before, and not recovered after {error}: {closed:?}");
    }
    assert!(is_clean(&dev), "clean before, not after ({result:?}): {:#?}", findings(&dev));
}

fn batch(subject: &SeedImage, dev: &Arc<dyn BlockDevice>, ops: &[u8]) -> Result<()> {
    let mut fs = open(dev)?;
    for op in ops.chunks_exact(STEP).take(OPS_MAX).filter_map(Op::read) {
        if op.kind % 32 == 31 {
            fs.close()?;
            fs = open(dev)?;
            continue;
        }
        let _ = change_names(subject, &fs, op);
        let _ = change_content(subject, &fs, op);
    }
    fs.close()
}

/// Runs an operation on directories, names or attributes.
fn change_names(subject: &SeedImage, fs: &Fs, op: Op) -> Option<Result<()>> {
    let &dir = op.pick(0, &subject.dirs)?;
    let &other_dir = op.pick(1, &subject.dirs)?;
    let (parent, name) = op.pick(0, &subject.names)?;
    let &ino = op.pick(0, &subject.inos)?;
    let new = op.name();
    let xattr = format!("user.name{}", op.numbers[1] % 320).into_bytes();
    Some(match op.kind % 32 {
        0 | 1 => fs.unlink(*parent, name),
        2 => fs.rmdir(*parent, name),
        3 => fs.rename(*parent, name, other_dir, &new, RenameMode::Replace),
        4 => {
            let (to, to_name) = op.pick(2, &subject.names)?;
            let exchange = op.small & 2 == 0;
            let mode = if exchange { RenameMode::Exchange } else { RenameMode::Replace };
            fs.rename(*parent, name, *to, to_name, mode)
        }
        5 => fs.link(ino, other_dir, &new),
        6 => fs.make(dir, &new, &NewNode::file(0o644)).map(drop),
        7 => fs.make(dir, &new, &NewNode::directory(0o755)).map(drop),
        8 => {
            let target = vec![b't'; 1 + usize::from(op.numbers[2]) % 1023];
            fs.make(dir, &new, &NewNode::symlink(&target)).map(drop)
        }
        9 | 10 => {
            let value = vec![op.small; usize::from(op.numbers[2]) % 9000];
            fs.set_xattr(ino, &xattr, &value, SetMode::Any)
        }
        11 => fs.remove_xattr(ino, &xattr),
        12 => {
            let perm = Some(op.numbers[1] & 0o7777);
            let mtime = Some(Timestamp { sec: op.numbers[2].into(), nsec: 7 });
            let projid = Some(op.small.into());
            fs.set_attr(ino, &SetAttr { perm, mtime, projid, ..SetAttr::default() })
        }
        13 => fs.sync(),
        14 => many(fs, dir, op),
        15 => fs.unlink(dir, &new),
        _ => return None,
    })
}

/// Creates and removes many files, so that inode btrees and directories grow and shrink.
fn many(fs: &Fs, dir: Ino, op: Op) -> Result<()> {
    let name = |i: u16| format!("many-{}-{i}", op.small).into_bytes();
    let count = op.numbers[1] % 80;
    for i in 0..count {
        fs.make(dir, &name(i), &NewNode::file(0o600))?;
    }
    (0..count.min(op.numbers[2])).try_for_each(|i| fs.unlink(dir, &name(i)))
}

/// Runs an operation on file content.
fn change_content(subject: &SeedImage, fs: &Fs, op: Op) -> Option<Result<()>> {
    if op.kind % 32 < 16 {
        return None;
    }
    let &ino = op.pick(0, &subject.files)?;
    let range = op.range();
    if (25..=28).contains(&(op.kind % 32)) {
        let &source = op.pick(2, &subject.files)?;
        return Some(copy(fs, op, ino, source));
    }
    let handle = match fs.open(ino) {
        Ok(handle) => handle,
        Err(error) => return Some(Err(error)),
    };
    let done = match op.kind % 32 {
        16 | 17 => {
            let len = usize::try_from(range.end - range.start).unwrap_or(0);
            handle.write(range.start, &vec![op.small; len])
        }
        18 | 19 => handle.truncate(range.start),
        20 => handle.punch(range),
        21 => handle.preallocate(range, op.small & 2 == 0),
        22 => handle.zero(range, op.small & 2 == 0),
        23 => handle.collapse(range.start..range.start + (range.end - range.start) / 8),
        24 => handle.insert(range.start..range.start + (range.end - range.start) / 8),
        29 => handle.unshare(range),
        _ => handle.seek(range.start, Seek::Hole).and_then(|_| handle.fsync()),
    };
    Some(done.and(handle.close()))
}

/// Returns a file's content, read sequentially as `cat` does.
fn cat(fs: &Fs, ino: Ino) -> Result<Vec<u8>> {
    let inode = fs.inode(ino)?;
    let file = fs.volume().open_file(&inode)?;
    let mut content = vec![0; usize::try_from(file.size().0.min(CONTENT_MAX)).unwrap_or(0)];
    let len = file.read_at(ByteOffset(0), &mut content)?;
    content.truncate(len);
    Ok(content)
}

/// Copies between two files, and compares the copy with the source as it reads.
fn copy(fs: &Fs, op: Op, to: Ino, from: Ino) -> Result<()> {
    if to == from {
        return Ok(());
    }
    let (source, target) = (fs.open(from)?, fs.open(to)?);
    fs.sync()?;
    let before = cat(fs, from);
    let len = source.size().min(CONTENT_MAX);
    if len == 0 {
        return Ok(());
    }
    match op.kind % 32 {
        25 | 26 => target.share(0, &source, 0..len)?,
        27 => {
            if target.copy_range(0, &source, 0..len)? < len {
                return Ok(());
            }
        }
        _ => return target.exchange(&source),
    }
    fs.sync()?;
    let expected = before.expect("a copy of what cat refuses");
    let copied = cat(fs, to)?;
    assert!(copied.starts_with(&expected), "a copy differs from what was copied");
    Ok(())
}

/// Returns the seeds: each operation alone on each sound volume, and with each kind of block
/// damaged.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (choice, subject) in (0u8..).zip(subjects()) {
        seeds.push(vec![choice, 0]);
        for kind in 0..32 {
            let op = |small, number| [kind, small, 0, number, 0, 3, 0, number];
            seeds.push([&[choice, 0][..], &op(0, 0), &op(1, 5), &op(2, 9)].concat());
        }
        let blocks = subject.image.metadata_len();
        for block in (0..blocks).step_by(blocks.div_ceil(160).max(1)) {
            let [hi, lo] = u16::try_from(block).unwrap_or(u16::MAX).to_be_bytes();
            let damage = [hi, lo, 0, 16, 10, 1, 0];
            let ops = [[0, 0, 0, lo, 0, 0, 0, 0], [17, 0, 0, lo, 0, 1, 0, 9]].concat();
            seeds.push([&[choice, 1][..], &damage, &ops].concat());
        }
    }
    seeds
}
