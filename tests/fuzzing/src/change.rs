//! Changes of a few bytes, as the targets' inputs list them.
//!
//! A change says where (a block of a list, an offset in it), how, and with what. Offsets and numbers of
//! blocks are taken modulo what there is, so that every input means something.

use xfskit_format::bytes::{be16, be32, be64};

/// Bytes of one change in an input.
pub const LEN: usize = 7;
/// Set in `how`: the block's checksum is left wrong.
const KEEP_CHECKSUM: u8 = 0x80;
/// Values that lie at the edges of fields.
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
    /// Which of the blocks.
    pub which: usize,
    /// Where in the block.
    at: usize,
    /// What to do.
    how: u8,
    /// With what.
    value: [u8; 2],
}

/// The changes that `data` lists, at most `most`.
pub fn changes(data: &[u8], most: usize) -> impl Iterator<Item = Change> + '_ {
    data.chunks_exact(LEN).take(most).filter_map(|bytes| {
        let (which, at) = (be16(bytes, 0)?, be16(bytes, 2)?);
        let (how, value) = (*bytes.get(4)?, [*bytes.get(5)?, *bytes.get(6)?]);
        Some(Change { which: which.into(), at: at.into(), how, value })
    })
}

impl Change {
    /// True where the checksum is to be made right afterwards.
    pub fn mends_checksum(self) -> bool {
        self.how & KEEP_CHECKSUM == 0
    }

    /// Makes the change in `bytes`.
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

/// Where the record of `len` bytes that holds `at` begins, and the one so many records from it.
fn records(bytes: &[u8], at: usize, distance: u8, len: usize) -> Option<(usize, usize)> {
    let count = bytes.len() / len;
    let first = at / len;
    let other = (first + usize::from(distance)) % count.max(1);
    (first < count && other < count).then_some((first * len, other * len))
}

/// Swaps two records: a tree whose records are out of order.
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
