//! Structures as tables of fields: name, kind, offset. One table serves text, JSON and damaged
//! blocks alike, because it needs only the bytes.

use xfskit_format::bytes::{array, be16, be32, be64};
use xfskit_units::Uuid;

use crate::dump::{Dump, Item, Scalar};

/// How a field's bytes are decoded and printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An unsigned number of this many bytes, in decimal.
    Dec(usize),
    /// An unsigned number of this many bytes, in hexadecimal.
    Hex(usize),
    /// A block or inode number of this many bytes; all ones means none.
    Addr(usize),
    /// The root of a tree, 4 bytes; 0 if the volume does not have the tree.
    Root,
    /// 16 bytes.
    Uuid,
    /// The CRC of the whole object.
    Crc,
    /// This many bytes of text.
    Text(usize),
}

impl Kind {
    /// Returns the length in bytes.
    pub const fn width(self) -> usize {
        match self {
            Self::Dec(len) | Self::Hex(len) | Self::Addr(len) | Self::Text(len) => len,
            Self::Root | Self::Crc => 4,
            Self::Uuid => 16,
        }
    }
}

/// One field: its name, its offset, its kind.
pub type Field = (&'static str, usize, Kind);

/// Reads the big-endian number of `width` bytes at `offset`.
fn number(bytes: &[u8], offset: usize, width: usize) -> Option<u64> {
    match width {
        1 => bytes.get(offset).map(|&b| b.into()),
        2 => be16(bytes, offset).map(Into::into),
        4 => be32(bytes, offset).map(Into::into),
        _ => be64(bytes, offset),
    }
}

/// Returns an address, or null if all bits of its width are ones.
pub fn address(n: u64, width: usize) -> Scalar {
    let none = if width == 8 { u64::MAX } else { (1 << (8 * width)) - 1 };
    if n == none { Scalar::Null } else { Scalar::Dec(n) }
}

/// Returns the stored CRC as `xfs_db` prints it (its bytes read as big-endian), and whether it is
/// right.
fn crc(object: &[u8], offset: usize, checked: bool) -> Option<Item> {
    let stored = Scalar::Hex(be32(object, offset)?.into());
    let remark = match (checked, xfskit_crc::verify(object, offset)) {
        (false, _) => "unchecked",
        (true, true) => "correct",
        (true, false) => "bad",
    };
    Some(Item::Remark(stored, remark))
}

/// Adds every field of `table` that is within `object`, with `prefix` before its name. `checked` is
/// true if the volume has CRCs.
pub fn read(dump: &mut Dump, prefix: &str, object: &[u8], checked: bool, table: &[Field]) {
    for (name, offset, kind) in table {
        let offset = *offset;
        let num = |width| number(object, offset, width);
        let item = match *kind {
            Kind::Dec(width) => num(width).map(|n| Item::Scalar(Scalar::Dec(n))),
            Kind::Hex(width) => num(width).map(|n| Item::Scalar(Scalar::Hex(n))),
            Kind::Addr(width) => num(width).map(|n| Item::Scalar(address(n, width))),
            Kind::Root => num(4).map(|n| match n {
                0 => Item::Scalar(Scalar::Unused),
                n => Item::Scalar(address(n, 4)),
            }),
            Kind::Uuid => array(object, offset)
                .map(|bytes| Item::Scalar(Scalar::Text(Uuid::from_bytes(bytes).to_string()))),
            Kind::Crc => crc(object, offset, checked),
            Kind::Text(len) => {
                object.get(offset..offset + len).map(|bytes| Item::Quoted(bytes.to_vec()))
            }
        };
        if let Some(item) = item {
            dump.item(format!("{prefix}{name}"), item);
        }
    }
}
