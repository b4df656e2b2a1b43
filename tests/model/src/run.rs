//! Runs operations on xfskit and on the model, and reports differences.

use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_core::tx::Tx;
use xfskit_core::{Error as Core, OpenOptions, Volume};
use xfskit_test_support::{verify, volumes};
use xfskit_units::Ino;
use xfskit_vfs::{Clock, Error, Fs, NewNode, Timestamp};

use crate::drawn::DrawnOp;
use crate::mem::{Mem, OpError, OpResult};
use crate::operation::{Operation, TwoFileOp};
use crate::ours::{Difference, Ours, same};

/// A volume to test on: mkfs options, one per `-x y` pair, and its size.
#[derive(Clone, Copy, Debug)]
pub struct VolumeSpec {
    /// Options as mkfs.xfs takes them: `("-m", "rmapbt=0")`.
    pub options: &'static [(&'static str, &'static str)],
    /// Size in bytes.
    pub size: u64,
    /// Extent size hint of the root directory, for copies on write too, in blocks; 0 for none.
    pub hint: u32,
}

impl VolumeSpec {
    /// Returns a volume of `size` bytes without a hint.
    pub const fn of(options: &'static [(&'static str, &'static str)], size: u64) -> Self {
        Self { options, size, hint: 0 }
    }

    /// Sets the extent size hint, in blocks.
    pub const fn hinted(self, hint: u32) -> Self {
        Self { hint, ..self }
    }
}

/// A volume and its model.
#[derive(Debug)]
pub struct Pair {
    dev: Arc<MemDevice>,
    /// Always `Some` between operations.
    ours: Option<Ours>,
    mem: Mem,
    refused: usize,
}

/// Formats a new volume in memory.
///
/// # Panics
/// If it cannot be formatted.
pub fn make(spec: VolumeSpec) -> Arc<MemDevice> {
    let dev = volumes::make(spec.size, spec.options);
    if spec.hint > 0 {
        let fs = open(Arc::clone(&dev) as Arc<dyn BlockDevice>);
        let hint = |tx: &mut Tx<'_>| {
            let root = tx.iget(tx.volume().geo().rootino)?;
            tx.set_extsize(root, spec.hint);
            tx.set_cowextsize(root, spec.hint);
            Ok(())
        };
        fs.volume().transact(hint).unwrap();
        fs.close().unwrap();
    }
    dev
}

/// Opens a volume for writing.
///
/// # Panics
/// If that fails.
pub fn open(dev: Arc<dyn BlockDevice>) -> Fs {
    let options = OpenOptions { write: true, cache_bytes: 4 << 20, ..OpenOptions::default() };
    let volume = Volume::open(dev, &options).unwrap();
    let now = std::sync::atomic::AtomicI64::new(1_700_000_000);
    let tick = move || now.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    Fs::new(volume, Clock::new(move || Timestamp { sec: tick(), nsec: 5 }))
}

impl Pair {
    /// Returns a new volume and the model of an empty one.
    pub fn new(spec: VolumeSpec) -> Self {
        let dev = make(spec);
        let fs = open(Arc::clone(&dev) as Arc<dyn BlockDevice>);
        let root = fs.volume().geo().rootino;
        Self::below(dev, Arc::new(fs), root)
    }

    /// Returns a pair for the empty directory `root`: mode 0755, owner and group 0. Other owners of
    /// `fs` may change the volume outside of that directory; then [`DrawnOp::Reopen`] must not be
    /// run.
    pub fn below(dev: Arc<MemDevice>, fs: Arc<Fs>, root: Ino) -> Self {
        let ours = Ours::below(fs, root);
        let mem = Mem::new(ours.facts());
        Self { dev, ours: Some(ours), mem, refused: 0 }
    }

    fn ours(&self) -> &Ours {
        self.ours.as_ref().expect("open between operations")
    }

    /// Runs `op` on both sides.
    ///
    /// # Errors
    /// The sides return different results.
    pub fn step(&mut self, op: &DrawnOp) -> Result<(), Difference> {
        if matches!(op, DrawnOp::Reopen) {
            return self.reopen();
        }
        let Some(operation) = Operation::of(op, &self.mem) else { return Ok(()) };
        let ours = self.ours.as_mut().expect("open between operations");
        let result = ours.apply(&operation, self.mem.nodes.len());
        if result == Err(OpError::NoSpace) {
            self.refused += 1;
            return Ok(());
        }
        let theirs = self.mem.apply(&with_copied_len(operation, &result));
        same("result", &result.map(drop), &theirs)
    }

    /// Returns the number of operations that found no space and changed nothing.
    pub fn refused(&self) -> usize {
        self.refused
    }

    /// Closes the volume, checks it, and opens it again.
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

    /// Compares the label in the superblock.
    fn compare_label(&self) -> Result<(), Difference> {
        let Some(label) = &self.mem.label else { return Ok(()) };
        let mut expected = [0; 12];
        expected[..label.len()].copy_from_slice(label);
        same("label", &self.ours().fs().volume().superblock().fname, &expected)
    }

    /// Closes the volume and verifies it with all tools.
    ///
    /// # Errors
    /// Their first finding.
    pub fn close(&mut self) -> Result<(), Difference> {
        if let Some(ours) = self.ours.take() {
            ours.into_fs()?.close().map_err(|error| format!("close: {error}"))?;
        }
        verify_all(&self.dev)
    }

    /// Compares both trees completely.
    ///
    /// # Errors
    /// The first difference.
    pub fn compare(&self) -> Result<(), Difference> {
        self.ours().compare(&self.mem)
    }
}

/// Fills the volume up to `leave` free blocks with the file `ballast`. Its many extents fragment
/// the free space, too.
///
/// # Panics
/// On any error other than no space.
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

/// Cuts the source range of a copy to the bytes that were copied: a copy may end early.
pub fn with_copied_len(mut operation: Operation, result: &OpResult<u64>) -> Operation {
    if let (Operation::TwoFile { how: TwoFileOp::Copy, source, .. }, Ok(done)) =
        (&mut operation, result)
    {
        source.end = source.end.min(source.start + done);
    }
    operation
}

/// Checks the volume on `dev` with xfskit's own checker.
///
/// # Errors
/// The first finding.
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

/// Verifies the volume with xfskit's checker, with `xfs_repair -n`, and with the kernel, which must
/// show the same tree.
///
/// # Errors
/// The first finding.
pub fn verify_all(dev: &Arc<MemDevice>) -> Result<(), Difference> {
    verify::device(&**dev)
}
