//! Bytes of directory entries.

/// Bytes that entries are aligned to.
const ALIGN: usize = 8;

/// Returns the entry of a regular file at byte `at` of a data block, as on disk on a volume with
/// types in its entries.
///
/// # Panics
/// `name` is longer than 255 bytes.
pub fn dir_entry(ino: u64, name: &[u8], at: u16) -> Vec<u8> {
    let mut entry = ino.to_be_bytes().to_vec();
    entry.push(u8::try_from(name.len()).expect("a name"));
    entry.extend_from_slice(name);
    entry.push(1);
    entry.resize((entry.len() + 2).next_multiple_of(ALIGN) - 2, 0);
    entry.extend_from_slice(&at.to_be_bytes());
    entry
}
