//! The fields of each structure, as ranges of bits.
//!
//! Headers come from the tables of `6-inspect`; the tables here have what it decodes in other ways:
//! the inode core, records, directory and attribute blocks.

use xfskit_format::agbtree::Tree;
use xfskit_inspect::fields::Field as InspectField;

/// A field: a range of bits of a structure, the most significant bit of byte 0 first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, as `xfs_db` prints it.
    pub name: String,
    /// Its first bit.
    pub bit: usize,
    /// Its width in bits, at most 128.
    pub bits: usize,
}

/// A row of a table: name, byte, length in bytes.
pub type Row = (&'static str, usize, usize);
/// A row of a record: name, bit, length in bits.
pub type BitRow = (&'static str, usize, usize);

/// The core of an inode of version 3.
pub const INODE: &[Row] = &[
    ("core.magic", 0, 2),
    ("core.mode", 2, 2),
    ("core.version", 4, 1),
    ("core.format", 5, 1),
    ("core.onlink", 6, 2),
    ("core.uid", 8, 4),
    ("core.gid", 12, 4),
    ("core.nlinkv2", 16, 4),
    ("core.projid_lo", 20, 2),
    ("core.projid_hi", 22, 2),
    ("core.big_nextents", 24, 8),
    ("core.atime", 32, 8),
    ("core.mtime", 40, 8),
    ("core.ctime", 48, 8),
    ("core.size", 56, 8),
    ("core.nblocks", 64, 8),
    ("core.extsize", 72, 4),
    ("core.nextents", 76, 4),
    ("core.naextents", 80, 2),
    ("core.forkoff", 82, 1),
    ("core.aformat", 83, 1),
    ("core.dmevmask", 84, 4),
    ("core.dmstate", 88, 2),
    ("core.flags", 90, 2),
    ("core.gen", 92, 4),
    ("next_unlinked", 96, 4),
    ("v3.crc", 100, 4),
    ("v3.change_count", 104, 8),
    ("v3.lsn", 112, 8),
    ("v3.flags2", 120, 8),
    ("v3.cowextsize", 128, 4),
    ("v3.pad2", 132, 12),
    ("v3.crtime", 144, 8),
    ("v3.inumber", 152, 8),
    ("v3.uuid", 160, 16),
];

/// The header of a directory data block.
pub const DIR_DATA: &[Row] = &[
    ("hdr.magic", 0, 4),
    ("hdr.crc", 4, 4),
    ("hdr.bno", 8, 8),
    ("hdr.lsn", 16, 8),
    ("hdr.uuid", 24, 16),
    ("hdr.owner", 40, 8),
    ("bestfree[0].offset", 48, 2),
    ("bestfree[0].length", 50, 2),
    ("bestfree[1].offset", 52, 2),
    ("bestfree[1].length", 54, 2),
    ("bestfree[2].offset", 56, 2),
    ("bestfree[2].length", 58, 2),
];

/// The header of a directory free block.
pub const DIR_FREE: &[Row] = &[
    ("hdr.magic", 0, 4),
    ("hdr.crc", 4, 4),
    ("hdr.bno", 8, 8),
    ("hdr.lsn", 16, 8),
    ("hdr.uuid", 24, 16),
    ("hdr.owner", 40, 8),
    ("hdr.firstdb", 48, 4),
    ("hdr.nvalid", 52, 4),
    ("hdr.nused", 56, 4),
    ("bests[0]", 64, 2),
    ("bests[1]", 66, 2),
];

/// The header of a block of a hash btree.
pub const DA: &[Row] = &[
    ("hdr.forw", 0, 4),
    ("hdr.back", 4, 4),
    ("hdr.magic", 8, 2),
    ("hdr.pad", 10, 2),
    ("hdr.crc", 12, 4),
    ("hdr.bno", 16, 8),
    ("hdr.lsn", 24, 8),
    ("hdr.uuid", 32, 16),
    ("hdr.owner", 48, 8),
];

/// After [`DA`] in a directory leaf.
pub const DIR_LEAF: &[Row] = &[("hdr.count", 56, 2), ("hdr.stale", 58, 2)];

/// After [`DA`] in a node.
pub const DA_NODE: &[Row] = &[
    ("hdr.count", 56, 2),
    ("hdr.level", 58, 2),
    ("btree[0].hashval", 64, 4),
    ("btree[0].before", 68, 4),
    ("btree[1].hashval", 72, 4),
    ("btree[1].before", 76, 4),
];

/// After [`DA`] in an attribute leaf.
pub const ATTR_LEAF: &[Row] = &[
    ("hdr.count", 56, 2),
    ("hdr.usedbytes", 58, 2),
    ("hdr.firstused", 60, 2),
    ("hdr.holes", 62, 1),
    ("hdr.freemap[0].base", 64, 2),
    ("hdr.freemap[0].size", 66, 2),
    ("hdr.freemap[1].base", 68, 2),
    ("hdr.freemap[1].size", 70, 2),
    ("entries[0].hashval", 80, 4),
    ("entries[0].nameidx", 84, 2),
    ("entries[0].flags", 86, 1),
    ("entries[1].hashval", 88, 4),
    ("entries[1].nameidx", 92, 2),
    ("entries[1].flags", 94, 1),
];

/// The header of a block of a remote value or of a remote target.
pub const REMOTE: &[Row] = &[
    ("hdr.magic", 0, 4),
    ("hdr.offset", 4, 4),
    ("hdr.bytes", 8, 4),
    ("hdr.crc", 12, 4),
    ("hdr.uuid", 16, 16),
    ("hdr.owner", 32, 8),
    ("hdr.bno", 40, 8),
    ("hdr.lsn", 48, 8),
    ("data[0]", 56, 8),
];

/// The header of a journal record.
pub const LOG: &[Row] = &[
    ("magicno", 0, 4),
    ("cycle", 4, 4),
    ("version", 8, 4),
    ("len", 12, 4),
    ("lsn", 16, 8),
    ("tail_lsn", 24, 8),
    ("crc", 32, 4),
    ("prev_block", 36, 4),
    ("num_logops", 40, 4),
    ("cycle_data[0]", 44, 4),
    ("fmt", 300, 4),
    ("fs_uuid", 304, 16),
    ("size", 320, 4),
];

/// An extent record.
const EXTENT: &[BitRow] =
    &[("extentflag", 0, 1), ("startoff", 1, 54), ("startblock", 55, 52), ("blockcount", 107, 21)];
const ALLOC: &[BitRow] = &[("startblock", 0, 32), ("blockcount", 32, 32)];
/// An inode chunk of a volume with sparse chunks.
const CHUNK: &[BitRow] = &[
    ("startino", 0, 32),
    ("holemask", 32, 16),
    ("count", 48, 8),
    ("freecount", 56, 8),
    ("free", 64, 64),
];
const RMAP: &[BitRow] = &[
    ("startblock", 0, 32),
    ("blockcount", 32, 32),
    ("owner", 64, 64),
    ("attrfork", 128, 1),
    ("bmbtblock", 129, 1),
    ("extentflag", 130, 1),
    ("offset", 138, 54),
];
const RMAP_KEY: &[BitRow] = &[
    ("startblock", 0, 32),
    ("owner", 32, 64),
    ("offset", 96, 64),
    ("startblock_hi", 160, 32),
    ("owner_hi", 192, 64),
    ("offset_hi", 256, 64),
];
const REFCOUNT: &[BitRow] =
    &[("cowflag", 0, 1), ("startblock", 1, 31), ("blockcount", 32, 32), ("refcount", 64, 32)];
const START: &[BitRow] = &[("start", 0, 32)];

/// Adds the rows of a table, counted in bytes.
pub fn rows(fields: &mut Vec<Field>, prefix: &str, start: usize, rows: &[Row]) {
    fields.extend(rows.iter().map(|(name, byte, bytes)| Field {
        name: format!("{prefix}{name}"),
        bit: 8 * (start + byte),
        bits: 8 * bytes,
    }));
}

/// Adds the rows of a table of `6-inspect`.
pub fn inspect(fields: &mut Vec<Field>, table: &[InspectField]) {
    fields.extend(table.iter().map(|(name, byte, kind)| Field {
        name: (*name).to_owned(),
        bit: 8 * byte,
        bits: 8 * kind.width(),
    }));
}

/// Adds a field of whole bytes.
pub fn bytes(fields: &mut Vec<Field>, name: String, start: usize, len: usize) {
    fields.push(Field { name, bit: 8 * start, bits: 8 * len.min(16) });
}

fn record(fields: &mut Vec<Field>, prefix: &str, start: usize, rows: &[BitRow]) {
    fields.extend(rows.iter().map(|(name, bit, bits)| Field {
        name: format!("{prefix}.{name}"),
        bit: 8 * start + bit,
        bits: *bits,
    }));
}

/// Adds the first and the last of `count` extent records, which begin at byte `start`.
pub fn extents(fields: &mut Vec<Field>, prefix: &str, start: usize, count: usize) {
    for i in ends(count) {
        record(fields, &format!("{prefix}[{i}]"), start + 16 * i, EXTENT);
    }
}

/// Adds the first and the last of `count` keys and pointers of an extent btree's node, in an area
/// at byte `start` with room for `max` of each.
pub fn long_children(fields: &mut Vec<Field>, start: usize, count: usize, max: usize) {
    for i in ends(count) {
        bytes(fields, format!("keys[{i}].startoff"), start + 8 * i, 8);
        bytes(fields, format!("ptrs[{i}]"), start + 8 * (max + i), 8);
    }
}

/// Adds the first and the last of `count` records of a leaf of `tree`.
pub fn tree_records(fields: &mut Vec<Field>, tree: Tree, start: usize, count: usize) {
    let rows = match tree {
        Tree::Bno | Tree::Cnt => ALLOC,
        Tree::Ino | Tree::Fino => CHUNK,
        Tree::Rmap => RMAP,
        Tree::Refcount => REFCOUNT,
    };
    for i in ends(count) {
        record(fields, &format!("recs[{i}]"), start + tree.rec_len() * i, rows);
    }
}

/// Adds the first and the last of `count` keys and pointers of a node of `tree`, with room for
/// `max` of each.
pub fn tree_children(fields: &mut Vec<Field>, tree: Tree, start: usize, count: usize, max: usize) {
    let rows = match tree {
        Tree::Bno | Tree::Cnt => ALLOC,
        Tree::Rmap => RMAP_KEY,
        Tree::Ino | Tree::Fino | Tree::Refcount => START,
    };
    for i in ends(count) {
        record(fields, &format!("keys[{i}]"), start + tree.key_len() * i, rows);
        bytes(fields, format!("ptrs[{i}]"), start + tree.key_len() * max + 4 * i, 4);
    }
}

/// Returns the first and the last index of `count`.
fn ends(count: usize) -> impl Iterator<Item = usize> {
    let last = count.checked_sub(1);
    let first = last.map(|_| 0);
    first.into_iter().chain(last.filter(|last| *last > 0))
}

/// Reads the field of `object`; `None` where it lies outside.
pub fn get(object: &[u8], field: &Field) -> Option<u128> {
    (field.bit..field.bit + field.bits).try_fold(0, |value, bit| {
        let byte = object.get(bit / 8)?;
        Some((value << 1) | u128::from((byte >> (7 - bit % 8)) & 1))
    })
}

/// Writes the field of `object`, which must lie within.
pub fn set(object: &mut [u8], field: &Field, value: u128) {
    for (at, bit) in (field.bit..field.bit + field.bits).rev().enumerate() {
        let mask = 1 << (7 - bit % 8);
        let byte = &mut object[bit / 8];
        *byte = if (value >> at) & 1 == 1 { *byte | mask } else { *byte & !mask };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bits_of_an_extent_record_are_those_of_the_format() {
        let mut fields = Vec::new();
        extents(&mut fields, "bmx", 0, 1);
        let mut object = vec![0; 16];
        for (field, value) in fields.iter().zip([1, 5, 0x123, 7]) {
            set(&mut object, field, value);
            assert_eq!(get(&object, field), Some(value), "{}", field.name);
        }
        let extent = xfskit_format::bmbt::records(&object, 1)[0].decode();
        assert_eq!(extent.startoff.0, 5);
        assert_eq!(extent.startblock.0, 0x123);
        assert_eq!(extent.blockcount.0, 7);
        assert!(extent.unwritten);
    }
}
