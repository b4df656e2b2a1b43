//! Changes of a few bytes, as the targets' inputs list them.
//!
//! A change names a position (a block of a list, an offset in it), a kind of change, and a value.
//! Offsets and block numbers are taken modulo the available ones, so that every input is valid.

use xfskit_format::bytes::{be16, be32, be64};

/// Size of one change in an input, in bytes.
pub const LEN: usize = 7;
/// Bit of `how`: the block's checksum is left wrong.
const KEEP_CHECKSUM: u8 = 0x80;
/// Boundary values of fields.
const EDGES: [u64; 12] = [
    0,
    1,
    2,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0xffff_ffff_ffff_fffe,
    u64::MAX,
];

/// One change: seven bytes of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Index of the block.
    pub which: usize,
    /// Offset in the block.
    at: usize,
    /// Kind of change.
    how: u8,
    /// Value.
    value: [u8; 2],
}

/// Returns the changes that `data` lists, at most `most`.
pub fn changes(data: &[u8], most: usize) -> impl Iterator<Item = Change> + '_ {
    data.chunks_exact(LEN).take(most).filter_map(|bytes| {
        let (which, at) = (be16(bytes, 0)?, be16(bytes, 2)?);
        let (how, value) = (*bytes.get(4)?, [*bytes.get(5)?, *bytes.get(6)?]);
        Some(Change { which: which.into(), at: at.into(), how, value })
    })
}

impl Change {
    /// Returns whether the checksum is to be recomputed afterwards.
    pub fn fixes_checksum(self) -> bool {
        self.how & KEEP_CHECKSUM == 0
    }

    /// Applies the change to `bytes`.
    pub fn apply(self, bytes: &mut [u8]) {
        if bytes.is_empty() {
            return;
        }
        let at = self.at % bytes.len();
        let [v0, v1] = self.value;
        let edge = EDGES[usize::from(v0) % EDGES.len()];
        match self.how & 0x0f {
            0 => bytes[at] ^= v0,
            1 => bytes[at] = v0,
            2 => put(bytes, at, &[v0, v1]),
            3 => bytes[at] = bytes[at].wrapping_add(v0),
            4 => put(bytes, at & !3, &edge.to_be_bytes()[4..]),
            5 => put(bytes, at & !7, &edge.to_be_bytes()),
            6 => swap(bytes, at, v0, 16),
            7 => swap(bytes, at, v0, 8),
            8 => copy(bytes, at, v0, 16),
            9 => copy(bytes, at, v0, 8),
            10 => add(bytes, at, v0, Width::Half),
            11 => add(bytes, at, v0, Width::Word),
            12 => add(bytes, at, v0, Width::Long),
            13 => put(bytes, at & !3, &edge.to_le_bytes()[..4]),
            14 => {
                let end = bytes.len().min(at + 1 + usize::from(v1));
                bytes[at..end].fill(v0);
            }
            _ => {
                let from = usize::from(u16::from_be_bytes([v0, v1])) % bytes.len();
                let len = 64.min(bytes.len() - at.max(from));
                bytes.copy_within(from..from + len, at);
            }
        }
    }
}

fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    let end = bytes.len().min(at + value.len());
    bytes[at..end].copy_from_slice(&value[..end - at]);
}

/// Returns the offset of the record of `len` bytes that holds `at`, and the offset of the record at
/// that distance.
fn records(bytes: &[u8], at: usize, distance: u8, len: usize) -> Option<(usize, usize)> {
    let count = bytes.len() / len;
    let first = at / len;
    let other = (first + usize::from(distance)) % count.max(1);
    (first < count && other < count).then_some((first * len, other * len))
}

/// Swaps two records, so that a tree's records are out of order.
fn swap(bytes: &mut [u8], at: usize, distance: u8, len: usize) {
    let Some((one, other)) = records(bytes, at, distance, len) else { return };
    for i in 0..len {
        bytes.swap(one + i, other + i);
    }
}

/// Copies a record over another.
fn copy(bytes: &mut [u8], at: usize, distance: u8, len: usize) {
    if let Some((one, other)) = records(bytes, at, distance, len) {
        bytes.copy_within(other..other + len, one);
    }
}

enum Width {
    Half,
    Word,
    Long,
}

/// Adds a small signed number to a big-endian field.
fn add(bytes: &mut [u8], at: usize, value: u8, width: Width) {
    let by = i64::from(value.cast_signed());
    match width {
        Width::Half => {
            let Some(old) = be16(bytes, at & !1) else { return };
            let new = i64::from(old).wrapping_add(by).to_be_bytes();
            put(bytes, at & !1, &new[6..]);
        }
        Width::Word => {
            let Some(old) = be32(bytes, at & !3) else { return };
            let new = i64::from(old).wrapping_add(by).to_be_bytes();
            put(bytes, at & !3, &new[4..]);
        }
        Width::Long => {
            let Some(old) = be64(bytes, at & !7) else { return };
            put(bytes, at & !7, &old.wrapping_add_signed(by).to_be_bytes());
        }
    }
}
