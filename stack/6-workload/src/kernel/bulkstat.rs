//! The ioctl with which XFS lists its inodes.
#![allow(unsafe_code)] // ioctl

use std::ffi::c_void;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode};

/// Inodes asked for at once.
const BATCH: u32 = 4096;
/// Words of the head of a request, `struct xfs_bulk_ireq`.
const HEAD: usize = 8;
/// Words of an answer, `struct xfs_bulkstat`: inode number, size, and 22 more.
const STAT: usize = 24;
/// Ask for one allocation group only.
const ONE_GROUP: u32 = 1;

/// `struct xfs_bulkstat_req` in words of 64 bits: the head, then room for [`BATCH`] answers.
struct Request(Vec<u64>);

impl Request {
    fn of_group(agno: u32) -> Self {
        let mut words = vec![0; HEAD + STAT * BATCH as usize];
        words[1] = pair(ONE_GROUP, BATCH);
        words[2] = pair(0, agno);
        Self(words)
    }

    /// The answers, as the head counts them.
    fn stats(&self) -> impl Iterator<Item = &[u64]> {
        let [b0, b1, b2, b3, ..] = self.0[2].to_ne_bytes();
        let found = u32::from_ne_bytes([b0, b1, b2, b3]);
        self.0[HEAD..].chunks(STAT).take(found as usize)
    }
}

/// Two neighbouring 32-bit fields.
fn pair(first: u32, second: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

// SAFETY: the opcode is XFS_IOC_BULKSTAT, `_IOR('X', 127, struct xfs_bulkstat_req)`; the kernel
// reads the head, and writes it and at most as many answers behind it as the head asks for: BATCH,
// for which there is room. `Request` is private and made in one place.
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

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inodes {
    /// In use.
    pub count: u64,
    /// Sum of their sizes.
    pub bytes: u64,
}

/// Lists the inodes in use of group `agno` of the filesystem that `dir` is on; `None` where there is no such
/// group.
fn group(dir: impl AsFd, agno: u32) -> io::Result<Option<Inodes>> {
    let mut request = Request::of_group(agno);
    let mut inodes = Inodes::default();
    loop {
        // SAFETY: as at `Ioctl for &mut Request`.
        match unsafe { rustix::ioctl::ioctl(&dir, &mut request) } {
            Err(Errno::INVAL) if inodes.count == 0 => return Ok(None),
            Err(Errno::NOTTY) => return Err(io::ErrorKind::Unsupported.into()),
            answer => answer?,
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

/// Lists all inodes in use of the filesystem that `dir` is on, a group at a time on each of `threads` threads.
///
/// # Errors
/// [`io::ErrorKind::Unsupported`] where `dir` is not on XFS.
///
/// # Panics
/// Where a thread does.
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
