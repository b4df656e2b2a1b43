//! The one ioctl that rustix does not know.
#![allow(unsafe_code)] // an ioctl takes a pointer whose meaning only its number says

use std::fs::File;
use std::io;

use rustix::ioctl::{Setter, ioctl, opcode};

/// `BLKDISCARD` of Linux's `<linux/fs.h>`: start and length in bytes.
const BLKDISCARD: rustix::ioctl::Opcode = opcode::none(0x12, 119);

/// Tells a block device that `len` bytes from `start` on are no longer needed.
pub(crate) fn discard(device: &File, start: u64, len: u64) -> io::Result<()> {
    // SAFETY: BLKDISCARD reads two u64, start and length, through its pointer and writes nothing;
    // on anything but a block device the kernel answers ENOTTY.
    let request = unsafe { Setter::<BLKDISCARD, [u64; 2]>::new([start, len]) };
    // SAFETY: as above; the request lives until the call returns.
    unsafe { ioctl(device, request) }.map_err(io::Error::from)
}
