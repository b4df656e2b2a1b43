//! The ioctls that rustix lacks.
#![allow(unsafe_code)] // an ioctl takes a pointer whose meaning only its number says

use std::fs::File;
use std::io;

use rustix::ioctl::{Getter, Opcode, Setter, ioctl, opcode};
use xfskit_units::ByteLen;

use crate::topology::Topology;

/// `BLKDISCARD` of Linux's `<linux/fs.h>`: start and length in bytes.
const BLKDISCARD: Opcode = opcode::none(0x12, 119);
/// `BLKIOMIN` of the same: the stripe unit, in bytes.
const BLKIOMIN: Opcode = opcode::none(0x12, 120);
/// `BLKIOOPT` of the same: the stripe width, in bytes.
const BLKIOOPT: Opcode = opcode::none(0x12, 121);
/// `BLKALIGNOFF` of the same: the first stripe unit, in bytes from the device's start.
const BLKALIGNOFF: Opcode = opcode::none(0x12, 122);
/// `BLKROGET` of the same: the read-only flag.
const BLKROGET: Opcode = opcode::none(0x12, 94);
/// `LOOP_GET_STATUS64` of Linux's `<linux/loop.h>`: a `loop_info64`.
const LOOP_GET_STATUS64: Opcode = 0x4C05;

/// Tells a block device that `len` bytes from `start` on are no longer needed.
pub(crate) fn discard(device: &File, start: u64, len: u64) -> io::Result<()> {
    // SAFETY: BLKDISCARD reads two u64, start and length, through its pointer and writes nothing;
    // on anything but a block device the kernel returns ENOTTY.
    let request = unsafe { Setter::<BLKDISCARD, [u64; 2]>::new([start, len]) };
    // SAFETY: as above; the request lives until the call returns.
    unsafe { ioctl(device, request) }.map_err(io::Error::from)
}

/// Returns whether a block device is read-only, which opening it for writing does not reveal.
pub(crate) fn is_read_only(device: &File) -> io::Result<bool> {
    // SAFETY: BLKROGET writes one int; on anything but a block device the kernel returns ENOTTY.
    let request = unsafe { Getter::<BLKROGET, i32>::new() };
    // SAFETY: as above.
    Ok(unsafe { ioctl(device, request) }? != 0)
}

/// Returns the stripes of a block device as the kernel reports them.
pub(crate) fn topology(device: &File) -> io::Result<Topology> {
    // SAFETY: BLKIOMIN, BLKIOOPT and BLKALIGNOFF write one int each; on anything but a block device
    // the kernel returns ENOTTY.
    let requests = unsafe {
        (
            Getter::<BLKIOMIN, u32>::new(),
            Getter::<BLKIOOPT, u32>::new(),
            Getter::<BLKALIGNOFF, i32>::new(),
        )
    };
    // SAFETY: as above.
    let (unit, width, offset) = unsafe {
        (ioctl(device, requests.0)?, ioctl(device, requests.1)?, ioctl(device, requests.2)?)
    };
    Ok(Topology {
        stripe_unit: ByteLen(unit.into()),
        stripe_width: ByteLen(width.into()),
        // -1 if the parts of the device do not agree.
        alignment_offset: ByteLen(offset.unsigned_abs().into()),
    })
}

/// The file behind a loop device: the first fields of a `loop_info64` of 232 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoopStatus {
    /// Device and number of the file behind it.
    pub file: (u64, u64),
    /// Number of that block device; 0 for a regular file.
    pub rdev: u64,
}

/// Queries the file behind a loop device.
pub(crate) fn loop_status(device: &File) -> io::Result<LoopStatus> {
    // SAFETY: LOOP_GET_STATUS64 writes a loop_info64, 232 bytes whose alignment is that of a u64;
    // on anything but a loop device the kernel returns ENOTTY or ENXIO.
    let request = unsafe { Getter::<LOOP_GET_STATUS64, [u64; 29]>::new() };
    // SAFETY: as above.
    let [dev, ino, rdev, ..] = unsafe { ioctl(device, request) }?;
    Ok(LoopStatus { file: (dev, ino), rdev })
}
