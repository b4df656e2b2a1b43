//! `XFS_IOC_BULKSTAT`, the ioctl that lists the inodes of an XFS.
#![allow(unsafe_code)] // ioctl

use std::ffi::c_void;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode};

/// Inodes in one request.
const BATCH: u32 = 4096;
/// Length of the request header, `struct xfs_bulk_ireq`, in 64-bit words.
const HEAD: usize = 8;
/// Length of a record, `struct xfs_bulkstat`, in 64-bit words: inode number, size, and 22 more.
const STAT: usize = 24;
/// Flag that limits a request to one allocation group.
const ONE_GROUP: u32 = 1;

/// `struct xfs_bulkstat_req` in 64-bit words: the header, then space for [`BATCH`] records.
struct Request(Vec<u64>);

impl Request {
    fn of_group(agno: u32) -> Self {
        let mut words = vec![0; HEAD + STAT * BATCH as usize];
        words[1] = pair(ONE_GROUP, BATCH);
        words[2] = pair(0, agno);
        Self(words)
    }

    /// Returns as many records as the header counts.
    fn stats(&self) -> impl Iterator<Item = &[u64]> {
        let [b0, b1, b2, b3, ..] = self.0[2].to_ne_bytes();
        let found = u32::from_ne_bytes([b0, b1, b2, b3]);
        self.0[HEAD..].chunks(STAT).take(found as usize)
    }
}

/// Packs two adjacent 32-bit fields.
fn pair(first: u32, second: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

// SAFETY: the opcode is XFS_IOC_BULKSTAT, `_IOR('X', 127, struct xfs_bulkstat_req)`. The kernel
// reads and writes the header, and writes at most as many records behind it as the header asks for:
// BATCH, for which there is space. `Request` is private and has one constructor.
unsafe impl Ioctl for &mut Request {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        rustix::ioctl::opcode::read::<[u64; HEAD]>(b'X', 127)
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.0.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(_: IoctlOutput, _: *mut c_void) -> rustix::io::Result<()> {
        Ok(())
    }
}

/// The inodes that were listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inodes {
    /// Inodes in use.
    pub count: u64,
    /// Sum of their file sizes.
    pub bytes: u64,
}

/// Lists the inodes in use of group `agno` of the filesystem that contains `dir`. Returns `None` if
/// there is no such group.
fn group(dir: impl AsFd, agno: u32) -> io::Result<Option<Inodes>> {
    let mut request = Request::of_group(agno);
    let mut inodes = Inodes::default();
    loop {
        // SAFETY: as at `Ioctl for &mut Request`.
        match unsafe { rustix::ioctl::ioctl(&dir, &mut request) } {
            Err(Errno::INVAL) if inodes.count == 0 => return Ok(None),
            Err(Errno::NOTTY) => return Err(io::ErrorKind::Unsupported.into()),
            result => result?,
        }
        if request.stats().next().is_none() {
            return Ok(Some(inodes));
        }
        for stat in request.stats() {
            inodes.count += 1;
            inodes.bytes += stat[1];
        }
    }
}

/// Lists all inodes in use of the filesystem that contains `dir`. Each of `threads` threads lists a
/// group at a time.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] if `dir` is not on XFS.
///
/// # Panics
/// If a thread panics.
pub fn all(dir: impl AsFd + Sync, threads: usize) -> io::Result<Inodes> {
    let (next, count, bytes) = (AtomicU32::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let work = || {
        while let Some(inodes) = group(&dir, next.fetch_add(1, Ordering::Relaxed))? {
            count.fetch_add(inodes.count, Ordering::Relaxed);
            bytes.fetch_add(inodes.bytes, Ordering::Relaxed);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })
    .map(|()| Inodes { count: count.into_inner(), bytes: bytes.into_inner() })
}
