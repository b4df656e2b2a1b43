//! xfskit and the model do the same; what differs is told.

use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_core::tx::Tx;
use xfskit_core::{Error as Core, OpenOptions, Volume};
use xfskit_mkfs::{DeviceFacts, Options, Stamp};
use xfskit_test_oracle::judge;
use xfskit_units::{ByteLen, Ino, Uuid};
use xfskit_vfs::{Clock, Error, Fs, NewNode, Timestamp};

use crate::deed::{Between, Deed};
use crate::mem::{Answer, Mem, Refusal};
use crate::op::Op;
use crate::ours::{Difference, Ours, same};

/// A volume to try on: mkfs options, one per `-x y` pair, and its size.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Options as mkfs.xfs takes them: `("-m", "rmapbt=0")`.
    pub options: &'static [(&'static str, &'static str)],
    /// Bytes.
    pub size: u64,
    /// Extent size hint of the root directory, for copies on write too, in blocks; 0 for none.
    pub hint: u32,
}

impl Shape {
    /// A volume of `size` bytes without hints.
    pub const fn of(options: &'static [(&'static str, &'static str)], size: u64) -> Self {
        Self { options, size, hint: 0 }
    }

    /// The same with a hint of so many blocks.
    pub const fn hinted(self, hint: u32) -> Self {
        Self { hint, ..self }
    }
}

/// A volume and its model.
#[derive(Debug)]
pub struct Pair {
    dev: Arc<MemDevice>,
    /// There between operations.
    ours: Option<Ours>,
    mem: Mem,
    refused: usize,
}

/// A new volume of this shape.
///
/// # Panics
/// Where it cannot be made.
pub fn make(shape: Shape) -> Arc<MemDevice> {
    let dev = Arc::new(MemDevice::new(ByteLen(shape.size)));
    let mut options = Options::default();
    for (option, argument) in shape.options {
        options.sub(option, argument).unwrap();
    }
    let stamp =
        Stamp { uuid: Uuid::from_u128(7), seconds: 1_600_000_000, nanoseconds: 0, generation: 9 };
    let plan = xfskit_mkfs::plan(&options, &DeviceFacts::of(&*dev, None), stamp).unwrap();
    xfskit_mkfs::make(&*dev, None, &plan).unwrap();
    if shape.hint > 0 {
        let fs = open(Arc::clone(&dev) as Arc<dyn BlockDevice>);
        let hint = |tx: &mut Tx<'_>| {
            let root = tx.iget(tx.volume().geo().rootino)?;
            tx.set_extsize(root, shape.hint);
            tx.set_cowextsize(root, shape.hint);
            Ok(())
        };
        fs.volume().transact(hint).unwrap();
        fs.close().unwrap();
    }
    dev
}

/// Opens for writing.
///
/// # Panics
/// Where that fails.
pub fn open(dev: Arc<dyn BlockDevice>) -> Fs {
    let options = OpenOptions { write: true, cache_bytes: 4 << 20, ..OpenOptions::default() };
    let volume = Volume::open(dev, &options).unwrap();
    let now = std::sync::atomic::AtomicI64::new(1_700_000_000);
    let tick = move || now.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    Fs::with_clock(volume, Clock::new(move || Timestamp { sec: tick(), nsec: 5 }))
}

impl Pair {
    /// A new volume of this shape, and the model of an empty one.
    pub fn new(shape: Shape) -> Self {
        let dev = make(shape);
        let fs = open(Arc::clone(&dev) as Arc<dyn BlockDevice>);
        let root = fs.volume().geo().rootino;
        Self::below(dev, Arc::new(fs), root)
    }

    /// The model of the empty directory `root`: mode 0755, owner and group 0. Others may have the volume open, too,
    /// and change it outside of that directory; then [`Op::Reopen`] must not be asked for.
    pub fn below(dev: Arc<MemDevice>, fs: Arc<Fs>, root: Ino) -> Self {
        let ours = Ours::below(fs, root);
        let mem = Mem::new(ours.facts());
        Self { dev, ours: Some(ours), mem, refused: 0 }
    }

    fn ours(&self) -> &Ours {
        self.ours.as_ref().expect("open between operations")
    }

    /// Does `op` on both sides.
    ///
    /// # Errors
    /// Where one side answers what the other does not.
    pub fn step(&mut self, op: &Op) -> Result<(), Difference> {
        if matches!(op, Op::Reopen) {
            return self.reopen();
        }
        let Some(deed) = Deed::of(op, &self.mem) else { return Ok(()) };
        let ours = self.ours.as_mut().expect("open between operations");
        let answer = ours.apply(&deed, self.mem.nodes.len());
        if answer == Err(Refusal::NoSpace) {
            self.refused += 1;
            return Ok(());
        }
        let theirs = self.mem.apply(&as_far_as(deed, &answer));
        same("answer", &answer.map(drop), &theirs)
    }

    /// Operations that found no space, and changed nothing.
    pub fn refused(&self) -> usize {
        self.refused
    }

    /// Closes, lets the judge look, and opens again.
    fn reopen(&mut self) -> Result<(), Difference> {
        self.compare_label()?;
        if let Some(ours) = self.ours.take() {
            let dev = Arc::clone(&self.dev);
            self.ours = Some(ours.reopened(|fs| {
                fs.close().map_err(|error| format!("close: {error}"))?;
                check(&dev)?;
                Ok(open(dev))
            })?);
        }
        self.compare_label()?;
        self.compare()
    }

    /// The label in the superblock.
    fn compare_label(&self) -> Result<(), Difference> {
        let Some(label) = &self.mem.label else { return Ok(()) };
        let mut expected = [0; 12];
        expected[..label.len()].copy_from_slice(label);
        same("label", &self.ours().fs().volume().superblock().fname, &expected)
    }

    /// Closes, and lets all judges look.
    ///
    /// # Errors
    /// What they find.
    pub fn close(&mut self) -> Result<(), Difference> {
        if let Some(ours) = self.ours.take() {
            ours.into_fs()?.close().map_err(|error| format!("close: {error}"))?;
        }
        judge_all(&self.dev)
    }

    /// Compares both trees, everything of them.
    ///
    /// # Errors
    /// The first difference.
    pub fn compare(&self) -> Result<(), Difference> {
        self.ours().compare(&self.mem)
    }
}

/// Fills what is free but `leave` blocks, with the file `ballast` of many pieces: the volume is fragmented, too.
///
/// # Panics
/// Where that fails for another reason than that there is no space.
pub fn fill(fs: &Fs, leave: u64) {
    let root = fs.volume().geo().rootino;
    let blocksize = 1_u64 << fs.volume().geo().blocklog;
    let file = fs.make(root, b"ballast", &NewNode::file(0o600)).unwrap();
    let handle = fs.open(file).unwrap();
    let piece = vec![0xbb; 64 << 10];
    let mut at = 0;
    while fs.volume().blocks_available() > leave {
        match handle.write(at, &piece) {
            Ok(()) => at += piece.len() as u64,
            Err(Error::Core(Core::NoSpace(_))) => break,
            Err(error) => panic!("{error}"),
        }
        handle.fsync().unwrap();
    }
    let mut hole = 0;
    while hole + blocksize <= at / 8 {
        handle.punch(hole..hole + blocksize).unwrap();
        hole += 16 * blocksize;
    }
    handle.close().unwrap();
}

/// What was done: a copy may end early.
pub fn as_far_as(mut deed: Deed, answer: &Answer<u64>) -> Deed {
    if let (Deed::Between { how: Between::Copy, source, .. }, Ok(done)) = (&mut deed, answer) {
        source.end = source.end.min(source.start + done);
    }
    deed
}

/// What our own judge has to say of the volume on `dev`.
///
/// # Errors
/// Its first finding.
pub fn check(dev: &Arc<MemDevice>) -> Result<(), Difference> {
    let mut first = None;
    let mut note = |finding: xfskit_check::Finding| {
        first.get_or_insert_with(|| format!("check: {finding:?}"));
    };
    let report = xfskit_check::check(&**dev, None, &xfskit_check::Options::default(), &mut note);
    match (report, first) {
        (Err(error), _) => Err(format!("check: {error}")),
        (_, Some(first)) => Err(first),
        (Ok(_), None) => Ok(()),
    }
}

/// What all judges have to say: ours, `xfs_repair -n`, and the kernel, which shows the same tree.
///
/// # Errors
/// What they find.
pub fn judge_all(dev: &Arc<MemDevice>) -> Result<(), Difference> {
    judge::device(&**dev)
}
