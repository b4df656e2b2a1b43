//! Blocks of btrees: bytes after the last record, key and pointer are stale.

use xfskit_format::Layout;
use xfskit_format::agbtree::Tree;
use xfskit_format::bmbt;
use xfskit_format::bytes::be16;

use super::Cleaner;

/// Cleans a block of a group's tree. Returns false if it is another block.
pub(super) fn clean_short(cleaner: &Cleaner<'_>, block: &mut [u8], tree: Tree) -> bool {
    let geo = cleaner.geo;
    if xfskit_format::bytes::be32(block, 0) != Some(tree.magic(geo)) {
        return false;
    }
    let level = be16(block, 4).unwrap_or(0);
    let sizes = Sizes {
        header: Layout::of(geo).short_header,
        rec: tree.rec_len(),
        key: tree.key_len(),
        ptr: 4,
        max: tree.maxrecs(geo, level),
    };
    sizes.clean(cleaner, block, level)
}

/// Cleans a block of a fork's tree. Returns false if it is another block.
pub(super) fn clean_long(cleaner: &Cleaner<'_>, block: &mut [u8]) -> bool {
    let geo = cleaner.geo;
    let layout = Layout::of(geo);
    if xfskit_format::bytes::be32(block, 0) != Some(layout.bmap_magic) {
        return false;
    }
    let level = be16(block, 4).unwrap_or(0);
    let sizes = Sizes {
        header: layout.long_header,
        rec: bmbt::REC_LEN,
        key: 8,
        ptr: 8,
        max: bmbt::maxrecs(geo),
    };
    sizes.clean(cleaner, block, level)
}

/// The layout of a block. All in bytes but the last.
struct Sizes {
    header: usize,
    rec: usize,
    key: usize,
    ptr: usize,
    /// Most records or children.
    max: usize,
}

impl Sizes {
    fn clean(&self, cleaner: &Cleaner<'_>, block: &mut [u8], level: u16) -> bool {
        let count = usize::from(be16(block, 6).unwrap_or(0));
        if count > self.max {
            return false;
        }
        if level == 0 {
            cleaner.zero(block, self.header + count * self.rec..usize::MAX);
            return true;
        }
        let ptrs = self.header + self.max * self.key;
        cleaner.zero(block, self.header + count * self.key..ptrs);
        cleaner.zero(block, ptrs + count * self.ptr..usize::MAX);
        true
    }
}
