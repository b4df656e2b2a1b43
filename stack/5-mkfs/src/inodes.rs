//! The first inode chunk: the root directory, the two realtime inodes, free inodes.

use xfskit_units::{Geometry, Ino};

use crate::geometry::Plan;

/// Byte offsets of an inode's fields.
mod at {
    pub(super) const MODE: usize = 2;
    pub(super) const VERSION: usize = 4;
    pub(super) const FORMAT: usize = 5;
    pub(super) const NLINK: usize = 16;
    pub(super) const ATIME: usize = 32;
    pub(super) const MTIME: usize = 40;
    pub(super) const CTIME: usize = 48;
    pub(super) const SIZE: usize = 56;
    pub(super) const AFORMAT: usize = 83;
    pub(super) const FLAGS: usize = 90;
    pub(super) const GEN: usize = 92;
    pub(super) const NEXT_UNLINKED: usize = 96;
    pub(super) const CRC: usize = 100;
    pub(super) const CHANGECOUNT: usize = 104;
    pub(super) const FLAGS2: usize = 120;
    pub(super) const CRTIME: usize = 144;
    pub(super) const INO: usize = 152;
    pub(super) const UUID: usize = 160;
    pub(super) const DATA_FORK: usize = 176;
}

/// An inode under construction.
struct Inode {
    bytes: Vec<u8>,
}

impl Inode {
    /// A free inode.
    fn free(geo: &Geometry, ino: Ino, generation: u32) -> Self {
        let mut inode = Self { bytes: vec![0; geo.inodesize()] };
        inode.put(0, b"IN");
        inode.put(at::VERSION, &[3]);
        inode.put(at::GEN, &generation.to_be_bytes());
        inode.put(at::NEXT_UNLINKED, &[0xff; 4]);
        inode.put(at::INO, &ino.0.to_be_bytes());
        inode.put(at::UUID, geo.meta_uuid.as_bytes());
        inode
    }

    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// An inode in use, without extents and attributes.
    fn used(plan: &Plan, ino: Ino, mode: u16, format: u8, nlink: u32) -> Self {
        let geo = &plan.geometry;
        let mut inode = Self::free(geo, ino, plan.stamp.generation);
        inode.put(at::MODE, &mode.to_be_bytes());
        inode.put(at::FORMAT, &[format]);
        inode.put(at::NLINK, &nlink.to_be_bytes());
        let now = timestamp(plan, plan.stamp.seconds, plan.stamp.nanoseconds);
        for at in [at::ATIME, at::MTIME, at::CTIME, at::CRTIME] {
            inode.put(at, &now);
        }
        inode.put(at::AFORMAT, &[2]);
        inode.put(at::CHANGECOUNT, &2u64.to_be_bytes());
        let flags2 =
            u64::from(geo.features.bigtime()) << 3 | u64::from(geo.features.nrext64()) << 4;
        inode.put(at::FLAGS2, &flags2.to_be_bytes());
        inode
    }

    fn finish(mut self) -> Vec<u8> {
        xfskit_crc::update(&mut self.bytes, at::CRC);
        self.bytes
    }
}

/// A timestamp as the volume stores it: nanoseconds since 1901 with bigtime, else seconds and
/// nanoseconds.
fn timestamp(plan: &Plan, seconds: i64, nanoseconds: u32) -> [u8; 8] {
    if plan.geometry.features.bigtime() {
        let since_1901 = u64::try_from(seconds.saturating_add(1 << 31)).unwrap_or(0);
        let ns = since_1901.saturating_mul(1_000_000_000).saturating_add(nanoseconds.into());
        ns.to_be_bytes()
    } else {
        let seconds = i32::try_from(seconds).unwrap_or(i32::MAX);
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&seconds.to_be_bytes());
        bytes[4..].copy_from_slice(&nanoseconds.to_be_bytes());
        bytes
    }
}

fn root(plan: &Plan) -> Vec<u8> {
    let ino = plan.geometry.rootino;
    let mut inode = Inode::used(plan, ino, 0o040_755, 1, 2);
    inode.put(at::GEN, &[0; 4]);
    // An empty short-form directory: no entries, none of them long, and the parent.
    let parent = u32::try_from(ino.0).unwrap_or(0).to_be_bytes();
    inode.put(at::SIZE, &6u64.to_be_bytes());
    inode.put(at::DATA_FORK, &[0, 0, parent[0], parent[1], parent[2], parent[3]]);
    inode.finish()
}

/// The realtime bitmap's inode: marked as being of the second format, by flag and by a time of
/// access that counts something else.
fn bitmap(plan: &Plan, ino: Ino) -> Vec<u8> {
    let mut inode = Inode::used(plan, ino, 0o100_000, 2, 1);
    inode.put(at::FLAGS, &4u16.to_be_bytes());
    inode.put(at::ATIME, &timestamp(plan, 0, 0));
    inode.finish()
}

fn summary(plan: &Plan, ino: Ino) -> Vec<u8> {
    Inode::used(plan, ino, 0o100_000, 2, 1).finish()
}

/// All inodes of the chunk that begins with the root directory.
pub fn first_chunk(plan: &Plan) -> Vec<u8> {
    let geo = &plan.geometry;
    let inodes = u64::from(geo.chunk_blocks()) << geo.inopblog;
    let mut bytes = Vec::new();
    for ino in (geo.rootino.0..geo.rootino.0 + inodes).map(Ino) {
        bytes.extend(match ino {
            ino if ino == geo.rootino => root(plan),
            ino if Some(ino) == geo.rbmino => bitmap(plan, ino),
            ino if Some(ino) == geo.rsumino => summary(plan, ino),
            ino => Inode::free(geo, ino, plan.stamp.generation).finish(),
        });
    }
    bytes
}
