//! Attributes, times, modes and device numbers, as the protocol has them.

use xfskit_devfuse::message::{
    Attr, AttrOut, CreateIn, EntryOut, Fattr, Fopen, OpenOut, ROOT, SetattrIn, Statx, StatxOut,
    SxTime,
};
use xfskit_format::inode::FileType;
use xfskit_format::timestamp::Timestamp;
use xfskit_vfs::{NewNode, Stat};

use crate::operations::{Changes, Node, SetTime};

/// Seconds that the kernel may cache names and attributes: this process is the only writer.
const DAY: u64 = 24 * 60 * 60;
/// How the kernel treats open files: it keeps what it cached.
const OPENED: Fopen = Fopen::KEEP_CACHE.union(Fopen::NOFLUSH).union(Fopen::PARALLEL_DIRECT_WRITES);

/// The fields of statx(2) that a reply has: the basic ones, and birth.
const STATX_MASK: u32 = 0x7ff;
const STATX_BTIME: u32 = 0x800;
pub(super) fn attributes(stat: &Stat) -> Attr {
    Attr {
        ino: stat.ino.0,
        size: stat.size,
        blocks: stat.blocks,
        atime: stat.atime.sec,
        mtime: stat.mtime.sec,
        ctime: stat.ctime.sec,
        atimensec: stat.atime.nsec,
        mtimensec: stat.mtime.nsec,
        ctimensec: stat.ctime.nsec,
        mode: u32::from(stat.mode),
        nlink: stat.nlink,
        uid: stat.uid,
        gid: stat.gid,
        rdev: stat.rdev.map_or(0, encoded_device),
        blksize: 4096,
        flags: 0,
    }
}

/// Returns the reply that names a node. Node id 0, for none, lets the kernel remember that there is
/// no such name.
pub(super) fn entry(node: Option<&Node>) -> EntryOut {
    let Some(Node { stat }) = node else {
        return EntryOut { entry_valid: DAY, ..EntryOut::default() };
    };
    EntryOut {
        nodeid: stat.ino.0,
        generation: u64::from(stat.generation),
        entry_valid: DAY,
        attr_valid: DAY,
        attr: attributes(stat),
        ..EntryOut::default()
    }
}

/// Returns the reply that names the root, which has no generation.
pub(super) fn root_entry(node: &Node) -> EntryOut {
    EntryOut { nodeid: ROOT, generation: 0, ..entry(Some(node)) }
}

pub(super) fn attr(stat: &Stat) -> AttrOut {
    AttrOut { attr_valid: DAY, attr: attributes(stat), ..AttrOut::default() }
}

pub(super) fn opened() -> OpenOut {
    OpenOut { open_flags: OPENED.bits(), ..OpenOut::default() }
}

/// Returns the reply to statx(2). Linux 6.18 takes the time of birth from it, and no attributes.
pub(super) fn statx(stat: &Stat) -> StatxOut {
    let (rdev_major, rdev_minor) = stat.rdev.unwrap_or_default();
    let stat = Statx {
        mask: STATX_MASK | if stat.btime.is_some() { STATX_BTIME } else { 0 },
        blksize: 4096,
        nlink: stat.nlink,
        uid: stat.uid,
        gid: stat.gid,
        mode: stat.mode,
        ino: stat.ino.0,
        size: stat.size,
        blocks: stat.blocks,
        atime: sx_time(stat.atime),
        btime: stat.btime.map_or_else(SxTime::default, sx_time),
        ctime: sx_time(stat.ctime),
        mtime: sx_time(stat.mtime),
        rdev_major,
        rdev_minor,
        ..Statx::default()
    };
    StatxOut { attr_valid: DAY, stat, ..StatxOut::default() }
}

fn sx_time(time: Timestamp) -> SxTime {
    SxTime { tv_sec: time.sec, tv_nsec: time.nsec, reserved: 0 }
}

/// Returns the type's bits of `st_mode`, as entries of listings have them.
pub(super) fn kind(file_type: FileType) -> u32 {
    match file_type {
        FileType::Fifo => 1,
        FileType::CharDevice => 2,
        FileType::Directory => 4,
        FileType::BlockDevice => 6,
        FileType::Regular => 8,
        FileType::Symlink => 10,
        FileType::Socket => 12,
        _ => 0,
    }
}

pub(super) fn changes(arg: &SetattrIn) -> Changes {
    let valid = Fattr::from_bits_retain(arg.valid);
    let time = |at, now, sec, nsec| {
        if valid.contains(now) {
            Some(SetTime::Now)
        } else {
            valid.contains(at).then_some(SetTime::At(Timestamp { sec, nsec }))
        }
    };
    Changes {
        perm: valid.contains(Fattr::MODE).then_some(permissions(arg.mode)),
        uid: valid.contains(Fattr::UID).then_some(arg.uid),
        gid: valid.contains(Fattr::GID).then_some(arg.gid),
        size: valid.contains(Fattr::SIZE).then_some(arg.size),
        atime: time(Fattr::ATIME, Fattr::ATIME_NOW, arg.atime, arg.atimensec),
        mtime: time(Fattr::MTIME, Fattr::MTIME_NOW, arg.mtime, arg.mtimensec),
        ctime: valid
            .contains(Fattr::CTIME)
            .then_some(Timestamp { sec: arg.ctime, nsec: arg.ctimensec }),
        kill_bits: valid.contains(Fattr::KILL_SUIDGID),
    }
}

pub(super) fn new_file(arg: &CreateIn) -> NewNode {
    NewNode { umask: permissions(arg.umask), ..NewNode::file(permissions(arg.mode)) }
}

/// Returns the lower 16 bits of a mode: type and permissions.
pub(super) fn mode_bits(mode: u32) -> u16 {
    u16::try_from(mode & 0xffff).unwrap_or(0)
}

pub(super) fn permissions(mode: u32) -> u16 {
    mode_bits(mode) & 0o7777
}

/// Decodes the protocol's device number: 12 bits of major between 8 and 12 bits of minor.
pub(super) fn device(rdev: u32) -> (u32, u32) {
    (rdev >> 8 & 0xfff, rdev & 0xff | rdev >> 12 & 0xfff00)
}

fn encoded_device((major, minor): (u32, u32)) -> u32 {
    minor & 0xff | (major & 0xfff) << 8 | (minor & 0xfff00) << 12
}
