//! Attribute leaves, remote values, remote symlink targets.

use xfskit_format::attr::{INCOMPLETE, LOCAL, PARENT, ROOT, SECURE};
use xfskit_format::bytes::{be16, be32, slice};
use xfskit_format::{Layout, symlink};
use xfskit_units::Geometry;

use crate::dir;
use crate::dump::{Dump, Item, Scalar};
use crate::fields::Kind::{Crc, Dec, Hex, Uuid};
use crate::fields::{self, Field};

/// A remote value's block.
const REMOTE: &[Field] = &[
    ("magic", 0, Hex(4)),
    ("offset", 4, Dec(4)),
    ("bytes", 8, Dec(4)),
    ("crc", 12, Crc),
    ("uuid", 16, Uuid),
    ("owner", 32, Dec(8)),
    ("bno", 40, Dec(8)),
    ("lsn", 48, Hex(8)),
];

/// Decodes a leaf.
pub fn leaf(block: &[u8], geo: &Geometry) -> Dump {
    let mut dump = Dump::default();
    let layout = Layout::of(geo);
    dir::info(&mut dump, "hdr", block, geo);
    let at = layout.da_count;
    let field = |i: usize| be16(block, at + 2 * i).unwrap_or(0);
    dump.dec("hdr.count", field(0));
    dump.dec("hdr.usedbytes", field(1));
    dump.dec("hdr.firstused", field(2));
    dump.dec("hdr.holes", block.get(at + 6).copied().unwrap_or(0));
    let free = (0..3).map(|i| {
        [4 + 2 * i, 5 + 2 * i].map(|field_no| Scalar::Dec(field(field_no).into())).to_vec()
    });
    dump.table("hdr.freemap", 0, &["base", "size"], free.collect());
    let entries: Vec<(u32, u16, u8)> = block
        .get(layout.attr_leaf_header..)
        .unwrap_or(&[])
        .chunks_exact(8)
        .take(field(0).into())
        .filter_map(|e| Some((be32(e, 0)?, be16(e, 4)?, *e.get(6)?)))
        .collect();
    let flag = |flags: u8, bit: u8| Scalar::Dec(u64::from(flags & bit != 0));
    let row = |&(hashval, nameidx, flags): &(u32, u16, u8)| {
        let mut row = vec![Scalar::Hex(hashval.into()), Scalar::Dec(nameidx.into())];
        row.extend([INCOMPLETE, ROOT, SECURE, LOCAL].map(|bit| flag(flags, bit)));
        row
    };
    let columns = &["hashval", "nameidx", "incomplete", "root", "secure", "local"];
    dump.table("entries", 0, columns, entries.iter().map(row).collect());
    for (i, (_, nameidx, flags)) in entries.iter().enumerate() {
        name_and_value(&mut dump, &format!("nvlist[{i}]"), block, (*nameidx).into(), *flags);
    }
    dump
}

fn name_and_value(dump: &mut Dump, prefix: &str, block: &[u8], at: usize, flags: u8) {
    let byte = |at: usize| usize::from(block.get(at).copied().unwrap_or(0));
    let quoted = |at, len| Item::Quoted(slice(block, at, len).unwrap_or(&[]).to_vec());
    if flags & LOCAL != 0 {
        let (valuelen, namelen) = (be16(block, at).unwrap_or(0), byte(at + 2));
        dump.dec(format!("{prefix}.valuelen"), valuelen);
        dump.dec(format!("{prefix}.namelen"), namelen as u64);
        dump.item(format!("{prefix}.name"), quoted(at + 3, namelen));
        if flags & PARENT != 0 {
            dump.dec(format!("{prefix}.parent"), 1u8);
        }
        if valuelen > 0 {
            dump.item(format!("{prefix}.value"), quoted(at + 3 + namelen, valuelen.into()));
        }
    } else {
        let namelen = byte(at + 8);
        dump.hex(format!("{prefix}.valueblk"), be32(block, at).unwrap_or(0));
        dump.dec(format!("{prefix}.valuelen"), be32(block, at + 4).unwrap_or(0));
        dump.dec(format!("{prefix}.namelen"), namelen as u64);
        dump.item(format!("{prefix}.name"), quoted(at + 9, namelen));
    }
}

/// Decodes a block of a remote value (version 5).
pub fn remote(block: &[u8], geo: &Geometry) -> Dump {
    payload(block, geo, "hdr.", Layout::of(geo).attr_remote_header)
}

/// Decodes a block of a remote symlink target (version 5).
pub fn symlink(block: &[u8], geo: &Geometry) -> Dump {
    const { assert!(symlink::CRC_OFFSET == 12) }; // The two heads are alike.
    payload(block, geo, "", Layout::of(geo).symlink_header)
}

fn payload(block: &[u8], geo: &Geometry, prefix: &str, header: usize) -> Dump {
    let mut dump = Dump::default();
    fields::read(&mut dump, prefix, block, geo.v5(), REMOTE);
    let len = be32(block, 8).unwrap_or(0) as usize;
    let body = block.get(header..).unwrap_or(&[]);
    dump.item("data", Item::Quoted(body.get(..len).unwrap_or(body).to_vec()));
    dump
}
