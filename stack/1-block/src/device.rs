//! The device trait of the whole stack.

use std::fmt;
use std::path::PathBuf;

use xfskit_units::{ByteLen, ByteOffset};

use crate::topology::Topology;

/// An error of a device.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device below failed.
    #[error("{op} of {len} bytes at byte {offset} failed: {source}")]
    Io {
        /// "read", "write", "flush", …
        op: &'static str,
        /// Offset in bytes on the device that reports the error.
        offset: ByteOffset,
        /// Length of the request, in bytes.
        len: ByteLen,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The file or device could not be opened or created.
    #[error("cannot open {path}: {source}", path = path.display())]
    Open {
        /// Path of the file or device.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The file or device is open for writing elsewhere, or mounted.
    #[error("{path} is in use by {by}", path = path.display())]
    InUse {
        /// Path of the file or device.
        path: PathBuf,
        /// The holder.
        by: Holder,
    },
    /// The range does not lie within the device.
    #[error("{op} of {len} bytes at byte {offset} goes beyond the device's {size} bytes")]
    BeyondEnd {
        /// "read", "write", …
        op: &'static str,
        /// Offset of the request, in bytes.
        offset: ByteOffset,
        /// Length of the request, in bytes.
        len: ByteLen,
        /// Size of the device, in bytes.
        size: ByteLen,
    },
    /// The overlay file cannot hold the changes of this device: it is damaged, no overlay, or
    /// of another device.
    #[error("{0}")]
    Overlay(String),
    /// The device was opened for reading only.
    #[error("the device is open for reading only")]
    ReadOnly,
    /// The device has no such alternative copy of the range.
    #[error("there is no alternative {0} of this range")]
    NoAlternative(usize),
}

impl Error {
    /// Returns what to do about it, if there is advice.
    pub fn hint(&self) -> Option<String> {
        use std::io::ErrorKind;
        let kind = match self {
            Self::InUse { by: Holder::Loop(device), .. } => {
                let device = device.display();
                return Some(format!(
                    "Unmount it first (umount {device}); where it is not mounted, detach it \
                     (losetup --detach {device})."
                ));
            }
            Self::Open { source, .. } | Self::Io { source, .. } => source.kind(),
            Self::InUse { .. } => ErrorKind::ResourceBusy,
            Self::Overlay(_) => {
                let hint = "Name the target that the overlay was made on, or another FILE, which \
                            then begins from this target.";
                return Some(hint.to_owned());
            }
            _ => return None,
        };
        let hint = match kind {
            ErrorKind::NotFound => "Check the name; `ls` shows the files of a directory.",
            ErrorKind::PermissionDenied => {
                "Get permission to read it (and to write, if the command changes it)."
            }
            ErrorKind::ResourceBusy => "Unmount it, or stop the other program that uses it, first.",
            _ => return None,
        };
        Some(hint.into())
    }
}

/// The holder of a file or device that cannot be opened for writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A program that has locked it for writing.
    Writer,
    /// A program that keeps a shared lock on it, and does not write.
    SharedLock,
    /// The kernel, which has it mounted, or a program that opened it exclusively.
    Kernel,
    /// The kernel, through this loop device.
    Loop(PathBuf),
    /// The kernel, which has built this device on it: an array, a logical volume.
    Stacked(PathBuf),
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Writer => f.write_str("another writer"),
            Self::SharedLock => f.write_str("a program with a shared lock (flock)"),
            Self::Kernel => f.write_str("the kernel (mounted?) or another program"),
            Self::Loop(device) => write!(f, "the kernel as {}", device.display()),
            Self::Stacked(device) => write!(f, "the kernel as a part of {}", device.display()),
        }
    }
}

/// The result of a request to a device.
pub type Result<T> = std::result::Result<T, Error>;

/// One read of a batch.
#[derive(Debug)]
pub struct IoRead<'a> {
    /// Offset from the start of the device, in bytes.
    pub offset: ByteOffset,
    /// Receives the bytes; its length is the length of the read.
    pub buf: &'a mut [u8],
}

/// A device that holds blocks: a file, a block device, memory, an array of them.
///
/// Offsets and lengths are in bytes and need no alignment; a device that requires alignment
/// (O_DIRECT) provides it itself. All methods may be called from many threads at once. A write is
/// durable only after a [`flush`](Self::flush) that began after the write had returned.
///
/// No method has a default: an implementation writes it, [`forward!`](crate::forward)s it to the
/// device below, or takes it as a [`plain!`](macro@crate::plain) disk has it.
pub trait BlockDevice: Send + Sync + fmt::Debug {
    /// Returns the size of the device in bytes. It is fixed while the device is open.
    fn size(&self) -> ByteLen;

    /// Returns the smallest unit that the device reads and writes, in bytes: at least 512.
    fn logical_block_size(&self) -> u32;

    /// Returns the smallest unit that the device writes without reading first, in bytes.
    fn physical_block_size(&self) -> u32;

    /// Returns the stripe layout of the device.
    fn topology(&self) -> Topology;

    /// Returns true if writes are refused.
    fn is_read_only(&self) -> bool;

    /// Fills `buf` from `offset`, in bytes.
    ///
    /// # Errors
    /// [`Error::BeyondEnd`] if the range leaves the device, [`Error::Io`] if the device fails.
    /// After an error the content of `buf` is undefined.
    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()>;

    /// Carries out many reads, in any order and in parallel as the device sees fit. Entry `i` of
    /// the result belongs to `batch[i]`.
    fn read_batch(&self, batch: &mut [IoRead<'_>]) -> Vec<Result<()>>;

    /// Calls `take` with the bytes of the range, in order, if the device has them in memory, so
    /// that the caller need not have them copied. Returns false if not; `take` was not called then,
    /// and the caller reads. The device may do for this what the read would have done first.
    ///
    /// A caller that goes on reads at most `ahead` bytes behind the range: to the end of its file.
    fn lend(
        &self,
        offset: ByteOffset,
        len: ByteLen,
        ahead: ByteLen,
        take: &mut dyn FnMut(&[&[u8]]),
    ) -> bool;

    /// Writes all of `buf` at `offset`, in bytes.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::BeyondEnd`] or [`Error::Io`]. After the last, any part of the
    /// range may have been written.
    fn write_at(&self, offset: ByteOffset, buf: &[u8]) -> Result<()>;

    /// Carries out many writes, in any order. Entry `i` of the result belongs to `batch[i]`.
    fn write_batch(&self, batch: &[(ByteOffset, &[u8])]) -> Vec<Result<()>>;

    /// Makes every write that has returned durable.
    fn flush(&self) -> Result<()>;

    /// Writes `buf` at `offset` and makes it durable. Other writes may stay volatile.
    fn write_fua(&self, offset: ByteOffset, buf: &[u8]) -> Result<()>;

    /// Tells the device that the range is no longer needed. Its content becomes undefined. This is
    /// a hint: devices without the ability do nothing.
    fn discard(&self, offset: ByteOffset, len: ByteLen) -> Result<()>;

    /// Makes the range read as zeroes, by the cheapest means of the device.
    fn write_zeroes(&self, offset: ByteOffset, len: ByteLen) -> Result<()>;

    /// Tells the device that the range will be read soon. This is a hint: it never waits and never
    /// fails.
    fn will_need(&self, offset: ByteOffset, len: ByteLen);

    /// Returns the next byte at or after `offset` that may differ from zero, as far as the device
    /// knows without reading.
    fn skip_hole(&self, offset: ByteOffset) -> ByteOffset;

    /// Returns the number of independent sources of this range: 1 for a plain disk, one per copy
    /// for a mirror, the data and its reconstruction for parity.
    fn alternatives(&self, offset: ByteOffset, len: ByteLen) -> usize;

    /// Reads the range from source `k` of [`alternatives`](Self::alternatives), counted from 0.
    fn read_alternative(&self, offset: ByteOffset, buf: &mut [u8], k: usize) -> Result<()>;

    /// Rewrites all sources of the range that fail or that differ from `good`. The caller has read
    /// `good` from source `k` and has verified it. Nothing happens if source `k` no longer returns
    /// `good`, or if the device cannot heal. Returns true if anything was written.
    ///
    /// # Errors
    /// [`Error::Io`] if the device fails.
    fn heal(&self, offset: ByteOffset, good: &[u8], k: usize) -> Result<bool>;
}

/// Checks that `[offset, offset + len)` lies within `size` bytes.
///
/// # Errors
/// [`Error::BeyondEnd`] if it does not.
pub fn check_range(op: &'static str, size: ByteLen, offset: ByteOffset, len: usize) -> Result<()> {
    check_span(op, size, offset, ByteLen(len as u64))
}

/// Does what [`check_range`] does, for a length in bytes.
///
/// # Errors
/// [`Error::BeyondEnd`] if the range leaves the device.
pub fn check_span(op: &'static str, size: ByteLen, offset: ByteOffset, len: ByteLen) -> Result<()> {
    match offset.0.checked_add(len.0) {
        Some(end) if end <= size.0 => Ok(()),
        _ => Err(Error::BeyondEnd { op, offset, len, size }),
    }
}
