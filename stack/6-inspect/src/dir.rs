//! Directory blocks: data, leaf, node, free index.

use xfskit_format::bytes::{be16, be32};
use xfskit_format::dir::data::{Form, Slot, Slots};
use xfskit_format::{Layout, da};
use xfskit_units::Geometry;

use crate::dump::{Dump, Item, Scalar};
use crate::fields::Kind::{Crc, Dec, Hex, Uuid};
use crate::fields::{self, Field};

/// Head of data and free-index blocks.
const HDR_V5: &[Field] = &[
    ("magic", 0, Hex(4)),
    ("crc", 4, Crc),
    ("bno", 8, Dec(8)),
    ("lsn", 16, Hex(8)),
    ("uuid", 24, Uuid),
    ("owner", 40, Dec(8)),
];
const HDR_V4: &[Field] = &[("magic", 0, Hex(4))];

/// Head of leaves and nodes, of directories and attributes.
const INFO: &[Field] = &[("forw", 0, Dec(4)), ("back", 4, Dec(4)), ("magic", 8, Hex(2))];
const INFO_V5: &[Field] = &[
    ("crc", 12, Crc),
    ("bno", 16, Dec(8)),
    ("lsn", 24, Hex(8)),
    ("uuid", 32, Uuid),
    ("owner", 48, Dec(8)),
];

/// Decodes the head that leaves and nodes share, under `prefix` (`lhdr`, `nhdr`, `hdr`).
pub fn info(dump: &mut Dump, prefix: &str, block: &[u8], geo: &Geometry) {
    if geo.v5() {
        fields::read(dump, &format!("{prefix}.info.hdr."), block, true, INFO);
        fields::read(dump, &format!("{prefix}.info."), block, true, INFO_V5);
    } else {
        fields::read(dump, &format!("{prefix}.info."), block, false, INFO);
    }
}

fn hdr(dump: &mut Dump, prefix: &str, block: &[u8], geo: &Geometry) {
    if geo.v5() {
        fields::read(dump, &format!("{prefix}.hdr."), block, true, HDR_V5);
    } else {
        fields::read(dump, &format!("{prefix}."), block, false, HDR_V4);
    }
}

fn rows(block: &[u8], start: usize, width: usize, count: usize) -> impl Iterator<Item = &[u8]> {
    block.get(start..).unwrap_or(&[]).chunks_exact(width).take(count)
}

/// Decodes a data block, or a whole directory in block form.
pub fn data(block: &[u8], geo: &Geometry) -> Dump {
    let mut dump = Dump::default();
    let layout = Layout::of(geo);
    let form = Form::of(block, geo);
    let (head, entries) = if form == Some(Form::Block) { ("bhdr", "bu") } else { ("dhdr", "du") };
    hdr(&mut dump, head, block, geo);
    for i in 0..3 {
        let at = layout.dir_bestfree + 4 * i;
        dump.hex(format!("{head}.bestfree[{i}].offset"), be16(block, at).unwrap_or(0));
        dump.hex(format!("{head}.bestfree[{i}].length"), be16(block, at + 2).unwrap_or(0));
    }
    for (i, slot) in Slots::of(block, geo).enumerate() {
        let prefix = format!("{entries}[{i}]");
        match slot {
            Slot::Entry(entry) => {
                dump.dec(format!("{prefix}.inumber"), entry.inumber.0);
                dump.dec(format!("{prefix}.namelen"), entry.name.len() as u64);
                dump.item(format!("{prefix}.name"), Item::Quoted(entry.name.into()));
                if let Some(filetype) = entry.filetype {
                    dump.dec(format!("{prefix}.filetype"), filetype);
                }
                dump.hex(format!("{prefix}.tag"), entry.offset);
            }
            Slot::Unused { length, tag, .. } => {
                dump.hex(format!("{prefix}.freetag"), 0xffffu16);
                dump.hex(format!("{prefix}.length"), length as u64);
                dump.hex(format!("{prefix}.tag"), tag);
            }
        }
    }
    if form == Some(Form::Block) {
        tail(&mut dump, block);
    }
    dump
}

/// Decodes the hash entries and the tail of a directory in block form.
fn tail(dump: &mut Dump, block: &[u8]) {
    let Some(at) = block.len().checked_sub(8) else { return };
    let count = be32(block, at).unwrap_or(0) as usize;
    let start = at.saturating_sub(count.saturating_mul(8));
    hashes(dump, "bleaf", rows(block, start, 8, (at - start) / 8));
    dump.dec("btail.count", count as u64);
    dump.dec("btail.stale", be32(block, at + 4).unwrap_or(0));
}

fn hashes<'a>(dump: &mut Dump, name: &str, entries: impl Iterator<Item = &'a [u8]>) {
    for (i, entry) in entries.enumerate() {
        dump.hex(format!("{name}[{i}].hashval"), be32(entry, 0).unwrap_or(0));
        dump.hex(format!("{name}[{i}].address"), be32(entry, 4).unwrap_or(0));
    }
}

/// Decodes a leaf, single or one of a tree.
pub fn leaf(block: &[u8], geo: &Geometry) -> Dump {
    let mut dump = Dump::default();
    let layout = Layout::of(geo);
    info(&mut dump, "lhdr", block, geo);
    let count = be16(block, layout.da_count).unwrap_or(0);
    dump.dec("lhdr.count", count);
    dump.dec("lhdr.stale", be16(block, layout.da_count + 2).unwrap_or(0));
    let single = da::magic(block) == Some(layout.dir_leaf1_magic);
    let tail = block.len().saturating_sub(4);
    let bestcount = be32(block, tail).filter(|_| single).unwrap_or(0) as usize;
    let start = tail.saturating_sub(bestcount.saturating_mul(2));
    if single {
        let bests = rows(&block[..tail], start, 2, bestcount);
        let bests = bests.map(|b| Scalar::Hex(be16(b, 0).unwrap_or(0).into()));
        dump.list("lbests", 0, bests.collect(), true);
    }
    hashes(&mut dump, "lents", rows(block, layout.dir_leaf_header, 8, count.into()));
    if single {
        dump.dec("ltail.bestcount", bestcount as u64);
    }
    dump
}

/// Decodes a node. `prefix` is "n" in directories and empty in attribute forks.
pub fn node(block: &[u8], geo: &Geometry, prefix: &str) -> Dump {
    let mut dump = Dump::default();
    let layout = Layout::of(geo);
    let head = format!("{prefix}hdr");
    info(&mut dump, &head, block, geo);
    let count = be16(block, layout.da_count).unwrap_or(0);
    dump.dec(format!("{head}.count"), count);
    dump.dec(format!("{head}.level"), be16(block, layout.da_count + 2).unwrap_or(0));
    let children = rows(block, layout.da_node_header, 8, count.into()).map(|child| {
        vec![
            Scalar::Hex(be32(child, 0).unwrap_or(0).into()),
            Scalar::Dec(be32(child, 4).unwrap_or(0).into()),
        ]
    });
    dump.table(format!("{prefix}btree"), 0, &["hashval", "before"], children.collect());
    dump
}

/// Decodes a block of the free index.
pub fn free(block: &[u8], geo: &Geometry) -> Dump {
    let mut dump = Dump::default();
    let layout = Layout::of(geo);
    hdr(&mut dump, "fhdr", block, geo);
    let field = |i: usize| be32(block, layout.dir_free_fields + 4 * i).unwrap_or(0);
    dump.dec("fhdr.firstdb", field(0));
    dump.dec("fhdr.nvalid", field(1));
    dump.dec("fhdr.nused", field(2));
    let bests = rows(block, layout.dir_free_header, 2, field(1) as usize);
    let bests = bests.map(|b| Scalar::Hex(be16(b, 0).unwrap_or(0).into()));
    dump.list("fbests", 0, bests.collect(), true);
    dump
}
