//! Content that identifies itself: every eight bytes name their file, the operation that wrote
//! them, and their offset. Misplaced bytes thus show where they come from.

/// Length of a word, in bytes.
pub const WORD: usize = 8;

/// Returns the word at `offset`, a multiple of eight, that operation `op` wrote to file `file`.
fn word(file: u16, op: u16, offset: u64) -> u64 {
    // The lowest bit is set, so a word is never zero.
    u64::from(file) << 48 | u64::from(op) << 32 | ((offset / 8) & 0x7fff_ffff) << 1 | 1
}

/// Returns `len` bytes for `offset` of file `file`, written by operation `op`.
pub fn fill(file: u16, op: u16, offset: u64, len: usize) -> Vec<u8> {
    let skip = usize::try_from(offset % 8).expect("below 8");
    let first = offset - offset % 8;
    let words = (0..(skip + len).div_ceil(WORD) as u64).map(|n| word(file, op, first + 8 * n));
    let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    bytes.drain(..skip);
    bytes.truncate(len);
    bytes
}

/// Describes eight bytes.
pub fn explain(bytes: &[u8]) -> String {
    let mut whole = [0; WORD];
    whole[..bytes.len().min(WORD)].copy_from_slice(&bytes[..bytes.len().min(WORD)]);
    let word = u64::from_le_bytes(whole);
    if word == 0 {
        return "zeroes".to_owned();
    }
    let (file, op, offset) = (word >> 48, (word >> 32) & 0xffff, ((word >> 1) & 0x7fff_ffff) * 8);
    format!("{word:#018x} (file {file:#x}, operation {op}, offset {offset})")
}
