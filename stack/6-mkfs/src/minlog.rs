//! The smallest log with which Linux mounts a volume, to the block.
//!
//! Linux reserves log space for the worst case of each kind of transaction before it starts, and a
//! transaction that rolls reserves for several rounds at once. A log must hold three of the largest
//! such reservation, or the mount fails. So the table of reservations is part of the format. Each
//! row counts the blocks and inodes that one kind of transaction may change, each with its headers
//! in the journal.
//!
//! Volumes without parent pointers use an older, larger table, so that a log that was large enough
//! once stays so.

use xfskit_format::agbtree::Tree;
use xfskit_units::Geometry;

/// Operation header and the largest buffer format behind it, rounded up: what a logged buffer
/// costs beside its content, in bytes.
const BUF_OVERHEAD: u64 = 128;
/// Six dquots with their headers, in bytes; always counted.
const QUOTA: u64 = 6 * (24 + 104);
/// Operation headers, inode format and btree headers around a logged inode, in bytes.
const INODE_OVERHEAD: u64 = 248;
/// One intent to set or remove a parent pointer, in bytes.
const PARENT_INTENT: u64 = 40 + 12 + 256;
/// One intent to replace a parent pointer, in bytes.
const PARENT_REPLACE: u64 = 40 + 2 * 12 + 2 * 256;
/// Levels of the directory btree that an operation may split, plus data and free-index block.
const DIR_LEVELS: u64 = 7;
/// The record size the tools assume, in bytes.
const RECORD: u64 = 256 * 1024;
/// Height assumed for the rmapbt by the older table where reflink is on too.
const OLD_RMAP_LEVELS: u64 = 9;

/// One kind of transaction: log space for one round in bytes, and how many rounds.
#[derive(Clone, Copy)]
struct Reservation {
    bytes: u64,
    count: u64,
}

impl Reservation {
    fn total(self) -> u64 {
        self.bytes * self.count
    }
}

/// The sizes that the reservations depend on.
struct Sizes {
    bs: u64,
    ss: u64,
    isz: u64,
    /// Directory block, in filesystem blocks.
    dir: u64,
    /// Inode cluster, in bytes.
    cluster: u64,
    /// Inode chunk, in blocks.
    chunk: u64,
    alloc: u64,
    inobt: u64,
    refcount: u64,
    rmap: u64,
    /// Levels of a data fork's btree, and of an attribute fork's.
    bmap_data: u64,
    bmap_attr: u64,
    finobt: bool,
    rmapbt: bool,
    reflink: bool,
    parent: bool,
}

/// Returns the log space of `n` buffers of `size` bytes.
fn buf(n: u64, size: u64) -> u64 {
    n * (size + BUF_OVERHEAD)
}

/// Returns the levels of a fork's btree with `max_extents` records, of which the root in the inode
/// holds `root`.
fn bmap_levels(bs: u64, max_extents: u64, root: u64) -> u64 {
    let min = (bs - 72) / 16 / 2;
    let mut blocks = max_extents.div_ceil(min);
    let mut levels = 1;
    while blocks > 1 {
        blocks = if blocks <= root { 1 } else { blocks.div_ceil(min) };
        levels += 1;
    }
    levels
}

fn max<const N: usize>(of: [u64; N]) -> u64 {
    of.into_iter().fold(0, u64::max)
}

impl Sizes {
    fn of(geo: &Geometry) -> Self {
        let features = &geo.features;
        let bs = geo.blocksize() as u64;
        let (data_extents, attr_extents) = if features.nrext64() {
            ((1 << 48) - 1, (1 << 32) - 1)
        } else {
            ((1 << 31) - 1, (1 << 15) - 1)
        };
        Self {
            bs,
            ss: geo.sectsize() as u64,
            isz: geo.inodesize() as u64,
            dir: geo.dirblkfsbs().into(),
            cluster: cluster_bytes(geo),
            chunk: geo.chunk_blocks().into(),
            alloc: Tree::Bno.max_levels(geo).into(),
            inobt: Tree::Ino.max_levels(geo).into(),
            refcount: if features.reflink() { Tree::Refcount.max_levels(geo).into() } else { 0 },
            rmap: if features.rmapbt() { Tree::Rmap.max_levels(geo).into() } else { 0 },
            bmap_data: bmap_levels(bs, data_extents, 3),
            bmap_attr: bmap_levels(bs, attr_extents, 2),
            finobt: features.finobt(),
            rmapbt: features.rmapbt(),
            reflink: features.reflink(),
            parent: features.parent(),
        }
    }

    /// Returns the log space of one inode.
    fn ino(&self) -> u64 {
        self.isz + INODE_OVERHEAD
    }

    /// Returns the blocks changed when `n` extents are allocated or freed: every tree splits to its
    /// root.
    fn alloc_blocks(&self, n: u64) -> u64 {
        let rmap = if self.rmapbt { 2 * self.rmap - 1 } else { 0 };
        n * (2 * (2 * self.alloc - 1) + rmap)
    }

    /// Returns the blocks changed when `n` reference counts change.
    fn refcount_blocks(&self, n: u64) -> u64 {
        if self.reflink { n * (2 * self.refcount - 1) } else { 0 }
    }

    fn alloc_bufs(&self, n: u64) -> u64 {
        buf(self.alloc_blocks(n), self.bs)
    }

    fn refcount_bufs(&self, n: u64) -> u64 {
        buf(self.refcount_blocks(n), self.bs)
    }

    /// Returns the blocks of a fork's btree, `levels` high, that adding `mappings` may change.
    fn map_blocks(&self, mappings: u64, levels: u64) -> u64 {
        let pointers = (self.bs - 56) / 8;
        mappings.div_ceil(pointers - pointers / 2) * (levels - 1)
    }

    /// Returns the filesystem blocks of one directory operation.
    fn dir_blocks(&self) -> u64 {
        DIR_LEVELS * self.dir + DIR_LEVELS * self.map_blocks(self.dir, self.bmap_data) + 1
    }

    /// Returns the log space of one insertion into the inobt.
    fn inobt_insert(&self) -> u64 {
        buf(self.inobt, self.bs) + self.alloc_bufs(1)
    }

    /// Returns the log space of one insertion into the finobt.
    fn finobt_insert(&self) -> u64 {
        if self.finobt { self.inobt_insert() } else { 0 }
    }

    fn unlinked_remove(&self) -> u64 {
        buf(1, self.ss) + 2 * self.cluster
    }

    fn unlinked_add(&self) -> u64 {
        buf(1, self.ss) + self.cluster
    }

    /// Returns `bytes` if the volume has parent pointers, else 0.
    fn if_parent(&self, bytes: u64) -> u64 {
        if self.parent { bytes } else { 0 }
    }

    fn attr_set(&self) -> u64 {
        QUOTA + self.ino() + buf(1, self.ss) + buf(5, self.bs)
    }

    fn attr_remove(&self) -> u64 {
        let inode =
            self.ino() + buf(5, self.bs) + self.bmap_attr * self.bs + buf(self.bmap_data, 0);
        QUOTA + inode.max(buf(5, self.ss) + self.alloc_bufs(2))
    }

    /// Returns the rounds of a transaction that unmaps extents.
    fn unmap_count(&self) -> u64 {
        let (reflink, rmapbt) = (u64::from(self.reflink), u64::from(self.rmapbt));
        2 + (reflink | rmapbt) + reflink + rmapbt
    }

    /// Returns the rounds of a transaction that unmaps extents, by the older table.
    fn unmap_count_old(&self) -> u64 {
        if self.reflink { 8 } else { 2 }
    }

    fn write(&self) -> u64 {
        let map = self.ino() + buf(self.bmap_data, self.bs) + buf(3, self.ss) + self.alloc_bufs(2);
        let free = buf(5, self.ss) + self.alloc_bufs(2);
        let share = if self.reflink { buf(1, self.ss) + self.refcount_bufs(1) } else { 0 };
        QUOTA + max([map, free, share])
    }

    fn write_old(&self) -> u64 {
        let map = self.ino() + buf(self.bmap_data, self.bs) + buf(3, self.ss) + self.alloc_bufs(2);
        let free = buf(5, self.ss) + self.alloc_bufs(2);
        QUOTA + max([map, free]) + self.refcount_bufs(2)
    }

    fn itruncate(&self) -> u64 {
        let map = self.ino() + buf(self.bmap_data + 1, self.bs);
        let free = buf(9, self.ss) + self.alloc_bufs(4);
        let share = if self.reflink { buf(2, self.ss) + self.refcount_bufs(2) } else { 0 };
        QUOTA + max([map, free, share])
    }

    fn itruncate_old(&self) -> u64 {
        let map = self.ino() + buf(self.bmap_data + 1, self.bs);
        let free = buf(9, self.ss) + self.alloc_bufs(4) + self.refcount_bufs(4);
        QUOTA + max([map, free])
    }

    fn create(&self) -> u64 {
        let chunk = self.chunk_alloc();
        let reuse = 2 * self.ino()
            + buf(1, self.ss)
            + self.bs
            + buf(self.dir_blocks(), self.bs)
            + self.finobt_insert();
        QUOTA + self.if_parent(PARENT_INTENT) + max([chunk, reuse, self.if_parent(self.attr_set())])
    }

    /// Returns the log space of a new inode chunk.
    fn chunk_alloc(&self) -> u64 {
        let alloc = buf(2, self.ss) + self.ss + self.alloc_bufs(1);
        alloc + self.inobt_insert() + self.finobt_insert()
    }

    fn rename(&self) -> u64 {
        let names = 5 * self.ino() + buf(2 * self.dir_blocks(), self.bs);
        let free = buf(7, self.ss) + self.alloc_bufs(3);
        let intents = (PARENT_REPLACE + 2 * PARENT_INTENT).max(2 * PARENT_REPLACE);
        let attrs = self.if_parent(self.attr_set().max(self.attr_remove()));
        QUOTA + self.if_parent(intents) + max([names, free, attrs])
    }

    fn link(&self) -> u64 {
        let names = 2 * self.ino() + buf(self.dir_blocks(), self.bs);
        let free = buf(3, self.ss) + self.alloc_bufs(1);
        let attrs = self.if_parent(self.attr_set());
        QUOTA + self.if_parent(PARENT_INTENT) + self.unlinked_remove() + max([names, free, attrs])
    }

    fn remove(&self) -> u64 {
        let names = 2 * self.ino() + buf(self.dir_blocks(), self.bs);
        let free = buf(4, self.ss) + self.alloc_bufs(2);
        let attrs = self.if_parent(self.attr_remove());
        QUOTA + self.if_parent(PARENT_INTENT) + self.unlinked_add() + max([names, free, attrs])
    }

    fn inactivate(&self) -> u64 {
        QUOTA
            + self.ino()
            + buf(3, self.ss)
            + self.unlinked_remove()
            + self.alloc_bufs(1)
            + buf(self.chunk, 0)
            + self.inobt_insert()
            + self.finobt_insert()
    }

    fn add_attr_fork(&self) -> u64 {
        let map = buf(self.map_blocks(self.dir, self.bmap_data) + 1, self.bs);
        QUOTA + self.ino() + buf(2, self.ss) + buf(1, self.dir * self.bs) + map + self.alloc_bufs(1)
    }

    fn attr_inval(&self) -> u64 {
        let map = self.ino() + buf(self.bmap_attr, self.bs);
        map.max(buf(9, self.ss) + self.alloc_bufs(4))
    }

    /// Returns the log space of setting the largest attribute that fits into leaves, at once.
    fn attr_set_largest(&self) -> u64 {
        let bytes = self.bs / 2 + self.bs / 4 - 257;
        let blocks = bytes.div_ceil(self.bs);
        // Without parent pointers Linux takes the bytes for blocks here, and must keep doing so.
        let mapped = if self.parent { blocks } else { bytes };
        let n = 5
            + 5 * self.map_blocks(1, self.bmap_attr)
            + blocks
            + self.map_blocks(mapped, self.bmap_attr);
        self.attr_set() + n * (buf(1, self.ss) + buf(self.bmap_attr, self.bs))
    }

    /// Returns every kind of transaction, in Linux' order: of equal ones the first counts.
    fn rows(&self) -> Vec<Reservation> {
        let p = if self.parent { 3 } else { 0 };
        let old = if self.parent { None } else { Some(self.old()) };
        let (write, itruncate, unmap) = match &old {
            Some(old) => (old.write_old(), old.itruncate_old(), self.unmap_count_old()),
            None => (self.write(), self.itruncate(), self.unmap_count()),
        };
        let t = old.as_ref().unwrap_or(self);
        let row = |bytes, count| Reservation { bytes, count };
        vec![
            row(write, unmap),
            row(itruncate, unmap),
            row(t.rename(), 2 + p),
            row(t.link(), 2 + p),
            row(t.remove(), 2 + p),
            row(t.create() + buf(1, 1024), 3 + p),
            row(t.create(), 2 + p),
            row(QUOTA + t.chunk_alloc() + t.unlinked_add(), 2),
            row(t.create(), 3 + p),
            row(t.inactivate(), 2),
            row(QUOTA + t.ino() + buf(1, t.ss), 1),
            row(buf(3, t.ss) + t.alloc_bufs(1), 2),
            row(t.add_attr_fork(), 2),
            row(t.ino(), 1),
            row(t.attr_inval(), 1),
            row(t.attr_set(), 3),
            row(t.attr_remove(), 3),
            row(buf(2, t.ss) + buf(t.bmap_data, t.bs) + t.ino() + t.alloc_bufs(1), 2),
            row(buf(1, t.ss) + 2 * t.ino() + buf(1, t.bs), 1),
            row(write + buf(1, t.bs - 1), unmap),
        ]
    }

    /// Returns the end of an atomic write, a row that Linux 6.16 added and the older table lacks.
    fn atomic_ioend(&self) -> Reservation {
        Reservation { bytes: self.itruncate(), count: self.unmap_count() }
    }

    /// Returns the same volume as the older table measures it.
    fn old(&self) -> Self {
        let rmap = if self.rmapbt && self.reflink { OLD_RMAP_LEVELS } else { self.rmap };
        Self { rmap, ..*self }
    }
}

/// Returns the bytes of one inode cluster, not rounded up to a block.
fn cluster_bytes(geo: &Geometry) -> u64 {
    let raw = 8192 * (geo.inodesize() as u64 / 256);
    if u64::from(geo.inoalignmt) >= raw >> geo.blocklog { raw } else { 8192 }
}

/// Returns the log space of a reservation of `bytes` with record headers.
fn with_headers(bytes: u64, sunit: u64) -> u64 {
    let header = 512 * (RECORD / 32768).max(1);
    let room = RECORD - header;
    let mut total = bytes + 40;
    let mut records = total.div_ceil(room);
    total += 12 * records;
    while total.div_ceil(room) > records {
        total += 12;
        records += 1;
    }
    total + header * records + header + 2 * if sunit > 1 { sunit } else { 512 }
}

/// Returns the smallest log of a volume like `geo`, in blocks. Only sizes, heights, features and
/// `logsunit` matter, not where the log is.
///
/// Linux 6.16 has one more row, which can raise the result or (because a larger row hides the
/// attribute's) lower it. The result satisfies both.
pub fn min_log_blocks(geo: &Geometry) -> u64 {
    let sizes = Sizes::of(geo);
    let mut rows = sizes.rows();
    let before_6_16 = sizes.min_log(&rows, geo.logsunit.into());
    rows.push(sizes.atomic_ioend());
    before_6_16.max(sizes.min_log(&rows, geo.logsunit.into()))
}

impl Sizes {
    /// Returns the smallest log for these transactions, in blocks.
    fn min_log(&self, rows: &[Reservation], sunit: u64) -> u64 {
        let largest = rows.iter().fold(Reservation { bytes: 0, count: 1 }, |best, row| {
            if row.total() > best.total() { *row } else { best }
        });
        let attr = self.attr_set_largest();
        let row =
            if attr > largest.total() { Reservation { bytes: attr, count: 3 } } else { largest };
        let mut basic = (with_headers(row.bytes, sunit) * row.count).div_ceil(512);
        if sunit > 1 {
            let unit = sunit / 512;
            basic = basic.next_multiple_of(unit) + 2 * unit;
        } else {
            basic += 1024;
        }
        (3 * basic * 512).div_ceil(self.bs)
    }
}
