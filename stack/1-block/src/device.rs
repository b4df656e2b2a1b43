//! The one device trait.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use xfskit_units::{ByteLen, ByteOffset};

use crate::forward::forward;
use crate::topology::Topology;

/// What can go wrong with a device.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device below failed.
    #[error("{op} of {len} bytes at byte {offset} failed: {source}")]
    Io {
        /// "read", "write", "flush", …
        op: &'static str,
        /// Where, in bytes from the start of the device that reports.
        offset: ByteOffset,
        /// How much was asked for, in bytes.
        len: ByteLen,
        /// The operating system's answer.
        #[source]
        source: std::io::Error,
    },
    /// The file or device could not be opened or made.
    #[error("cannot open {path}: {source}", path = path.display())]
    Open {
        /// What was to be opened.
        path: PathBuf,
        /// The operating system's answer.
        #[source]
        source: std::io::Error,
    },
    /// Somebody else has the file or device open for writing, or has it mounted.
    #[error("{path} is in use by {by}", path = path.display())]
    InUse {
        /// What was to be opened.
        path: PathBuf,
        /// Who has it.
        by: Holder,
    },
    /// The range does not lie within the device.
    #[error("{op} of {len} bytes at byte {offset} goes beyond the device's {size} bytes")]
    BeyondEnd {
        /// "read", "write", …
        op: &'static str,
        /// Where, in bytes.
        offset: ByteOffset,
        /// How much was asked for, in bytes.
        len: ByteLen,
        /// Size of the device, in bytes.
        size: ByteLen,
    },
    /// The device was opened for reading only.
    #[error("the device is open for reading only")]
    ReadOnly,
    /// The device has no such alternative copy of the range.
    #[error("there is no alternative {0} of this range")]
    NoAlternative(usize),
}

/// Who has what cannot be opened for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A program that has locked it for writing.
    Writer,
    /// The kernel, which has it mounted, or a program that opened it exclusively.
    Kernel,
    /// The kernel, through this loop device.
    Loop(PathBuf),
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Writer => f.write_str("another writer"),
            Self::Kernel => f.write_str("the kernel (mounted?) or another program"),
            Self::Loop(device) => write!(f, "the kernel as {}", device.display()),
        }
    }
}

/// A device's answer.
pub type Result<T> = std::result::Result<T, Error>;

/// One read of a batch.
#[derive(Debug)]
pub struct IoRead<'a> {
    /// Where to read, in bytes from the start of the device.
    pub offset: ByteOffset,
    /// Where the bytes go; its length is the length of the read.
    pub buf: &'a mut [u8],
}

/// Anything that holds blocks: a file, a block device, memory, an array of them.
///
/// Offsets and lengths are in bytes and need no alignment; a device that wants alignment (O_DIRECT)
/// takes care of it. All methods may be called from many threads at once. A write is durable only
/// after a [`flush`](Self::flush) that began after it had returned.
pub trait BlockDevice: Send + Sync + fmt::Debug {
    /// Size of the device in bytes. Fixed while the device is open.
    fn size(&self) -> ByteLen;

    /// Smallest unit the device reads and writes in one piece, in bytes: at least 512.
    fn logical_block_size(&self) -> u32 {
        512
    }

    /// The unit in which a write does not force the device to read first, in bytes.
    fn physical_block_size(&self) -> u32 {
        self.logical_block_size()
    }

    /// Where the device's stripes lie.
    fn topology(&self) -> Topology {
        Topology::default()
    }

    /// True where writes are refused.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Fills `buf` from `offset`, in bytes.
    ///
    /// # Errors
    /// [`Error::BeyondEnd`] where the range leaves the device, [`Error::Io`] where the device
    /// fails; then the content of `buf` is undefined.
    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()>;

    /// Carries out many reads, in any order and as many at once as the device likes. Entry `i` of
    /// the answer belongs to `batch[i]`.
    fn read_batch(&self, batch: &mut [IoRead<'_>]) -> Vec<Result<()>> {
        batch.iter_mut().map(|io| self.read_at(io.offset, io.buf)).collect()
    }

    /// Writes all of `buf` at `offset`, in bytes.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::BeyondEnd`] or [`Error::Io`]; in the last case any part of
    /// the range may have been written.
    fn write_at(&self, offset: ByteOffset, buf: &[u8]) -> Result<()>;

    /// Carries out many writes, in any order. Entry `i` of the answer belongs to `batch[i]`.
    fn write_batch(&self, batch: &[(ByteOffset, &[u8])]) -> Vec<Result<()>> {
        batch.iter().map(|(offset, buf)| self.write_at(*offset, buf)).collect()
    }

    /// Makes every write that has returned durable.
    fn flush(&self) -> Result<()>;

    /// Writes `buf` at `offset` and makes it durable, without a promise about other writes.
    fn write_fua(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        self.write_at(offset, buf)?;
        self.flush()
    }

    /// Tells the device that the range is no longer needed. Its content becomes undefined. A hint:
    /// devices without the ability do nothing.
    fn discard(&self, _offset: ByteOffset, _len: ByteLen) -> Result<()> {
        Ok(())
    }

    /// Makes the range read as zeroes, in the cheapest way the device has.
    fn write_zeroes(&self, offset: ByteOffset, len: ByteLen) -> Result<()> {
        let zeroes = vec![0u8; usize::try_from(len.0.min(1 << 20)).unwrap_or(1 << 20)];
        let mut done = 0u64;
        while done < len.0 {
            let n = (len.0 - done).min(zeroes.len() as u64);
            let part = &zeroes[..usize::try_from(n).unwrap_or(zeroes.len())];
            self.write_at(ByteOffset(offset.0 + done), part)?;
            done += n;
        }
        Ok(())
    }

    /// Tells the device that the range will be read soon. A hint: nothing waits, nothing fails.
    fn will_need(&self, _offset: ByteOffset, _len: ByteLen) {}

    /// The next byte at or behind `offset`, in bytes, that may be other than zero, as far as the device can tell
    /// without reading.
    fn skip_hole(&self, offset: ByteOffset) -> ByteOffset {
        offset
    }

    /// How many independent ways there are to obtain the bytes of this range: 1 for a plain disk,
    /// one per copy for a mirror, the data and its reconstruction for parity.
    fn alternatives(&self, _offset: ByteOffset, _len: ByteLen) -> usize {
        1
    }

    /// Reads the range in way `k` of [`alternatives`](Self::alternatives), counted from 0.
    fn read_alternative(&self, offset: ByteOffset, buf: &mut [u8], k: usize) -> Result<()> {
        if k == 0 { self.read_at(offset, buf) } else { Err(Error::NoAlternative(k)) }
    }

    /// Makes every way to obtain the range give `good`, which is what way `k` gave and what the caller, who
    /// can tell, has found right: what that way did without and what is otherwise is rewritten. Nothing
    /// happens where way `k` gives something else by now, or where the device cannot do it. True where
    /// anything was written.
    ///
    /// # Errors
    /// [`Error::Io`] where the device fails.
    fn heal(&self, _offset: ByteOffset, _good: &[u8], _k: usize) -> Result<bool> {
        Ok(false)
    }
}

/// Checks that `[offset, offset + len)` lies within `size` bytes.
///
/// # Errors
/// [`Error::BeyondEnd`] where it does not.
pub fn check_range(op: &'static str, size: ByteLen, offset: ByteOffset, len: usize) -> Result<()> {
    check_span(op, size, offset, ByteLen(len as u64))
}

/// [`check_range`] for a length in bytes.
///
/// # Errors
/// [`Error::BeyondEnd`] where the range leaves the device.
pub fn check_span(op: &'static str, size: ByteLen, offset: ByteOffset, len: ByteLen) -> Result<()> {
    match offset.0.checked_add(len.0) {
        Some(end) if end <= size.0 => Ok(()),
        _ => Err(Error::BeyondEnd { op, offset, len, size }),
    }
}

impl<D: BlockDevice + ?Sized> BlockDevice for Arc<D> {
    forward!(this => **this;
        size, logical_block_size, physical_block_size, topology, is_read_only, read_at, read_batch,
        write_at, write_batch, flush, write_fua, discard, write_zeroes, will_need, skip_hole,
        alternatives, read_alternative, heal
    );
}
