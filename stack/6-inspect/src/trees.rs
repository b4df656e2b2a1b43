//! Blocks of per-AG btrees and of extent btrees.

use xfskit_format::agbtree::Tree;
use xfskit_format::bmbt;
use xfskit_format::bytes::{be16, be32, be64};
use xfskit_format::{Layout, inobt, rmap};
use xfskit_units::Geometry;
use zerocopy::FromBytes;

use crate::dump::{Dump, Scalar};
use crate::fields::Kind::{Addr, Crc, Dec, Hex, Uuid};
use crate::fields::{self, Field};

/// Fields of the header of a block of a per-AG btree.
pub const SHORT: &[Field] = &[
    ("magic", 0, Hex(4)),
    ("level", 4, Dec(2)),
    ("numrecs", 6, Dec(2)),
    ("leftsib", 8, Addr(4)),
    ("rightsib", 12, Addr(4)),
];
/// Fields after [`SHORT`] on version 5.
pub const SHORT_V5: &[Field] = &[
    ("bno", 16, Dec(8)),
    ("lsn", 24, Hex(8)),
    ("uuid", 32, Uuid),
    ("owner", 48, Dec(4)),
    ("crc", 52, Crc),
];
/// Fields of the header of a block of an extent btree.
pub const LONG: &[Field] = &[
    ("magic", 0, Hex(4)),
    ("level", 4, Dec(2)),
    ("numrecs", 6, Dec(2)),
    ("leftsib", 8, Addr(8)),
    ("rightsib", 16, Addr(8)),
];
/// Fields after [`LONG`] on version 5.
pub const LONG_V5: &[Field] = &[
    ("bno", 24, Dec(8)),
    ("lsn", 32, Hex(8)),
    ("uuid", 40, Uuid),
    ("owner", 56, Dec(8)),
    ("crc", 64, Crc),
];

/// How records and keys of one tree are printed: the names of the columns, and a function that
/// decodes a record.
struct Shape {
    columns: &'static [&'static str],
    row: Row,
}

type Row = fn(&[u8], &Geometry) -> Vec<Scalar>;

fn dec32(bytes: &[u8], offset: usize) -> Scalar {
    Scalar::Dec(be32(bytes, offset).unwrap_or(0).into())
}

fn alloc_row(bytes: &[u8], _: &Geometry) -> Vec<Scalar> {
    vec![dec32(bytes, 0), dec32(bytes, 4)]
}

fn start_row(bytes: &[u8], _: &Geometry) -> Vec<Scalar> {
    vec![dec32(bytes, 0)]
}

fn sparse_row(bytes: &[u8], geo: &Geometry) -> Vec<Scalar> {
    let Ok((rec, _)) = inobt::Rec::ref_from_prefix(bytes) else { return Vec::new() };
    let chunk = rec.decode(geo);
    vec![
        Scalar::Dec(chunk.startino.0.into()),
        Scalar::Hex(chunk.holemask.into()),
        Scalar::Dec(chunk.count.into()),
        Scalar::Dec(chunk.freecount.into()),
        Scalar::Hex(chunk.free),
    ]
}

fn full_row(bytes: &[u8], geo: &Geometry) -> Vec<Scalar> {
    let mut row = sparse_row(bytes, geo);
    if row.len() == 5 {
        row.drain(1..3);
    }
    row
}

/// Returns owner, position and flags of a reverse mapping. Keys have no unwritten flag.
fn rmap_place(bytes: &[u8], owner: usize, with_unwritten: bool) -> Vec<Scalar> {
    let offset = be64(bytes, owner + 8).unwrap_or(0);
    let flag = |bit: u64| Scalar::Dec(u64::from(offset & bit != 0));
    let mut row = vec![
        Scalar::Signed(be64(bytes, owner).unwrap_or(0).cast_signed()),
        Scalar::Dec(offset & rmap::OFF_MASK),
    ];
    if with_unwritten {
        row.push(flag(rmap::OFF_UNWRITTEN));
    }
    row.extend([flag(rmap::OFF_ATTR_FORK), flag(rmap::OFF_BMBT_BLOCK)]);
    row
}

fn rmap_row(bytes: &[u8], _: &Geometry) -> Vec<Scalar> {
    [vec![dec32(bytes, 0), dec32(bytes, 4)], rmap_place(bytes, 8, true)].concat()
}

fn rmap_key_row(bytes: &[u8], _: &Geometry) -> Vec<Scalar> {
    let key = |at: usize| [vec![dec32(bytes, at)], rmap_place(bytes, at + 4, false)].concat();
    [key(0), key(20)].concat()
}

fn refcount_row(bytes: &[u8], _: &Geometry) -> Vec<Scalar> {
    let start = be32(bytes, 0).unwrap_or(0);
    vec![
        Scalar::Dec((start & !xfskit_format::refcount::COW_FLAG).into()),
        dec32(bytes, 4),
        dec32(bytes, 8),
        Scalar::Dec((start >> 31).into()),
    ]
}

fn refcount_key_row(bytes: &[u8], _: &Geometry) -> Vec<Scalar> {
    let start = be32(bytes, 0).unwrap_or(0);
    let agbno = start & !xfskit_format::refcount::COW_FLAG;
    vec![Scalar::Dec(agbno.into()), Scalar::Dec((start >> 31).into())]
}

fn shape(tree: Tree, leaf: bool, geo: &Geometry) -> Shape {
    let shape = |columns: &'static [&'static str], row: Row| Shape { columns, row };
    match (tree, leaf) {
        (Tree::Bno | Tree::Cnt, _) => shape(&["startblock", "blockcount"], alloc_row),
        (Tree::Ino | Tree::Fino, true) if geo.features.sparse() => {
            shape(&["startino", "holemask", "count", "freecount", "free"], sparse_row)
        }
        (Tree::Ino | Tree::Fino, true) => shape(&["startino", "freecount", "free"], full_row),
        (Tree::Ino | Tree::Fino, false) => shape(&["startino"], start_row),
        (Tree::Rmap, true) => shape(RMAP_COLUMNS, rmap_row),
        (Tree::Rmap, false) => shape(RMAP_KEY_COLUMNS, rmap_key_row),
        (Tree::Refcount, true) => {
            shape(&["startblock", "blockcount", "refcount", "cowflag"], refcount_row)
        }
        (Tree::Refcount, false) => shape(&["startblock", "cowflag"], refcount_key_row),
    }
}

const RMAP_COLUMNS: &[&str] =
    &["startblock", "blockcount", "owner", "offset", "extentflag", "attrfork", "bmbtblock"];
const RMAP_KEY_COLUMNS: &[&str] = &[
    "startblock",
    "owner",
    "offset",
    "attrfork",
    "bmbtblock",
    "startblock_hi",
    "owner_hi",
    "offset_hi",
    "attrfork_hi",
    "bmbtblock_hi",
];

/// Decodes a block of a per-AG btree.
pub fn short(block: &[u8], geo: &Geometry, tree: Tree) -> Dump {
    let mut dump = Dump::default();
    fields::read(&mut dump, "", block, geo.v5(), SHORT);
    if geo.v5() {
        fields::read(&mut dump, "", block, true, SHORT_V5);
    }
    let level = be16(block, 4).unwrap_or(0);
    let numrecs = usize::from(be16(block, 6).unwrap_or(0));
    let body = block.get(Layout::of(geo).short_header..).unwrap_or(&[]);
    let shape = shape(tree, level == 0, geo);
    let width = if level == 0 { tree.rec_len() } else { tree.key_len() };
    let max = tree.maxrecs(geo, level);
    let rows = body.chunks_exact(width).take(numrecs.min(max)).map(|rec| (shape.row)(rec, geo));
    let name = if level == 0 { "recs" } else { "keys" };
    dump.table(name, 1, shape.columns, rows.collect());
    if level > 0 {
        let area = body.get(max * width..).unwrap_or(&[]);
        let ptrs = area.chunks_exact(4).take(numrecs.min(max)).map(|ptr| dec32(ptr, 0));
        dump.list("ptrs", 1, ptrs.collect(), false);
    }
    dump
}

/// Columns of extent records.
pub const EXTENT_COLUMNS: &[&str] = &["startoff", "startblock", "blockcount", "extentflag"];

/// Decodes an extent record.
pub fn extent_row(rec: &bmbt::Rec) -> Vec<Scalar> {
    let extent = rec.decode();
    vec![
        Scalar::Dec(extent.startoff.0),
        Scalar::Dec(extent.startblock.0),
        Scalar::Dec(extent.blockcount.0),
        Scalar::Dec(extent.unwritten.into()),
    ]
}

/// Decodes keys and pointers of a node of an extent btree; `area` has space for `max` of them.
pub fn long_children(dump: &mut Dump, prefix: &str, area: &[u8], numrecs: usize, max: usize) {
    let word = |at: usize| be64(area, 8 * at).map(Scalar::Dec);
    let count = numrecs.min(max);
    let keys = (0..count).filter_map(|i| Some(vec![word(i)?]));
    dump.table(format!("{prefix}keys"), 1, &["startoff"], keys.collect());
    let ptrs = (0..count).filter_map(|i| word(max + i));
    dump.list(&format!("{prefix}ptrs"), 1, ptrs.collect(), false);
}

/// Decodes a block of an extent btree.
pub fn long(block: &[u8], geo: &Geometry) -> Dump {
    let mut dump = Dump::default();
    fields::read(&mut dump, "", block, geo.v5(), LONG);
    if geo.v5() {
        fields::read(&mut dump, "", block, true, LONG_V5);
    }
    let numrecs = usize::from(be16(block, 6).unwrap_or(0));
    let body = block.get(Layout::of(geo).long_header..).unwrap_or(&[]);
    let max = bmbt::maxrecs(geo);
    if be16(block, 4) == Some(0) {
        let rows = bmbt::records(body, numrecs.min(max)).iter().map(extent_row);
        dump.table("recs", 1, EXTENT_COLUMNS, rows.collect());
    } else {
        long_children(&mut dump, "", body, numrecs, max);
    }
    dump
}
