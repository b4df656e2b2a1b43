//! The first inode chunk: the root directory, the two realtime inodes, free inodes.

use xfskit_format::attr::{self, sf};
use xfskit_format::dir;
use xfskit_format::inode::{self, Format, InodeFlags, InodeFlags2, InodeMut};
use xfskit_format::timestamp::Timestamp;
use xfskit_units::{Geometry, Ino};

use crate::geometry::Plan;

/// Mode of the root directory: `drwxr-xr-x`.
const ROOT_MODE: u16 = 0o040_755;
/// Mode of the realtime inodes: regular files without permissions.
const REALTIME_MODE: u16 = 0o100_000;
/// `change_count` of an inode that was allocated and written once.
const CHANGES: u64 = 2;
/// `change_count` of an inode to which an attribute was added.
const CHANGES_WITH_ATTR: u64 = 4;
/// The property of the root directory that lets a machine check the volume by itself.
pub const AUTOFSCK: &[u8] = b"xfs:autofsck";
/// Bytes of the attribute fork that holds it.
const ATTR_FORK: usize = 40;

/// Encodes a time in the format of the volume's new inodes.
fn encode(geo: &Geometry, time: Timestamp) -> u64 {
    if geo.features.bigtime() { time.to_bigtime() } else { time.to_legacy() }
}

/// Sets what all used inodes of a new volume have in common: no extents, no attributes.
fn set_used(inode: &mut InodeMut<'_>, plan: &Plan, mode: u16, format: Format, nlink: u32) {
    let features = &plan.geometry.features;
    let now = encode(&plan.geometry, plan.stamp.time()).into();
    let core = &mut inode.core.core;
    core.mode = mode.into();
    core.format = format as u8;
    core.nlinkv2 = nlink.into();
    (core.atime, core.mtime, core.ctime) = (now, now, now);
    core.aformat = Format::Extents as u8;
    inode.core.change_count = CHANGES.into();
    inode.core.crtime = now;
    inode.core.flags2 = InodeFlags2::of_new(features).bits().into();
}

/// Sets up the root directory: empty, its own parent.
fn set_root(inode: &mut InodeMut<'_>, plan: &Plan) {
    set_used(inode, plan, ROOT_MODE, Format::Local, 2);
    let entries = dir::sf::empty(plan.geometry.rootino);
    inode.core.core.generation = 0.into();
    inode.core.core.size = (entries.len() as u64).into();
    inode.literal[..entries.len()].copy_from_slice(&entries);
    if let Some(autofsck) = plan.autofsck {
        set_attr(inode, AUTOFSCK, autofsck.value().as_bytes());
    }
}

/// Gives an inode one attribute of the trusted namespace, in short form.
fn set_attr(inode: &mut InodeMut<'_>, name: &[u8], value: &[u8]) {
    let byte = |n: usize| u8::try_from(n).unwrap_or(u8::MAX);
    let totsize = byte(sf::HEADER_LEN + 3 + name.len() + value.len());
    let head = [0, totsize, 1, 0, byte(name.len()), byte(value.len()), attr::ROOT];
    let fork = [&head, name, value].concat();
    let at = inode.literal.len() - ATTR_FORK;
    inode.core.core.forkoff = byte(at / 8);
    inode.core.core.aformat = Format::Local as u8;
    inode.core.change_count = CHANGES_WITH_ATTR.into();
    inode.literal[at..][..fork.len()].copy_from_slice(&fork);
}

/// Sets up the realtime bitmap. Its flag marks the newer kind, whose access time counts something
/// else, from 0.
fn set_bitmap(inode: &mut InodeMut<'_>, plan: &Plan) {
    set_used(inode, plan, REALTIME_MODE, Format::Extents, 1);
    inode.core.core.flags = InodeFlags::NEWRTBM.bits().into();
    inode.core.core.atime = encode(&plan.geometry, Timestamp::EPOCH).into();
}

/// Returns all inodes of the chunk that begins with the root directory.
pub fn first_chunk(plan: &Plan) -> Vec<u8> {
    let geo = &plan.geometry;
    let mut bytes = vec![0; geo.chunk_blocks() as usize * geo.blocksize()];
    for (ino, bytes) in (geo.rootino.0..).map(Ino).zip(bytes.chunks_exact_mut(geo.inodesize())) {
        inode::template(bytes, geo, ino, plan.stamp.generation);
        let Some(mut inode) = InodeMut::new(bytes) else { continue };
        if ino == geo.rootino {
            set_root(&mut inode, plan);
        } else if Some(ino) == geo.rbmino {
            set_bitmap(&mut inode, plan);
        } else if Some(ino) == geo.rsumino {
            set_used(&mut inode, plan, REALTIME_MODE, Format::Extents, 1);
        }
        inode::stamp(bytes);
    }
    bytes
}
