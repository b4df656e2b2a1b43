//! The sizes and offsets in which version 4 and version 5 differ, in one table.
//!
//! Version 5 added a self-describing header to every block: CRC, LSN, UUID, own address, owner.
//! Only offsets changed; records, entries and addresses are the same. Code that reads both versions
//! takes its numbers from [`Layout::of`].

use xfskit_units::{Geometry, Version};

/// Sizes and offsets of one version of the format. All in bytes unless said otherwise.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of a superblock in use before optional version 5 tails.
    pub sb_len: usize,
    /// First slot of the AGFL.
    pub agfl_first: usize,
    /// Head of a per-AG btree block.
    pub short_header: usize,
    /// Head of a block-map btree block, and of a logged btree root.
    pub long_header: usize,
    /// Core of an inode: where its literal area begins.
    pub inode_core: usize,
    /// Length of an inode core in the journal.
    pub log_inode_core: usize,
    /// Head of a directory data or block-form block.
    pub dir_data_header: usize,
    /// Where `bestfree` lies in a directory data block.
    pub dir_bestfree: usize,
    /// Data-space offset of the first entry after "." and "..".
    pub dir_first_entry: usize,
    /// Head of a directory free-index block.
    pub dir_free_header: usize,
    /// Where `firstdb` lies in a free-index block; `nvalid` and `nused` follow, 4 bytes each.
    pub dir_free_fields: usize,
    /// Head of a directory leaf (leaf1 or leafn).
    pub dir_leaf_header: usize,
    /// Where `count` lies in dir leaves, da nodes and attribute leaves.
    pub da_count: usize,
    /// Head of a da node.
    pub da_node_header: usize,
    /// Head of an attribute leaf.
    pub attr_leaf_header: usize,
    /// Head of a remote attribute value block; 0 where values are raw.
    pub attr_remote_header: usize,
    /// Head of a remote symlink extent; 0 where targets are raw.
    pub symlink_header: usize,
    /// Magic of block-map btree blocks.
    pub bmap_magic: u32,
    /// Magic of block-form directory blocks.
    pub dir_block_magic: u32,
    /// Magic of directory data blocks.
    pub dir_data_magic: u32,
    /// Magic of directory free-index blocks.
    pub dir_free_magic: u32,
    /// Magic of single directory leaves.
    pub dir_leaf1_magic: u16,
    /// Magic of directory leaves in a tree.
    pub dir_leafn_magic: u16,
    /// Magic of da nodes.
    pub da_node_magic: u16,
    /// Magic of attribute leaves.
    pub attr_leaf_magic: u16,
}

impl Layout {
    /// Version 4: `crc=0`.
    pub const V4: Self = Self {
        sb_len: 208,
        agfl_first: 0,
        short_header: 16,
        long_header: 24,
        inode_core: 100,
        log_inode_core: 96,
        dir_data_header: 16,
        dir_bestfree: 4,
        dir_first_entry: 0x30,
        dir_free_header: 16,
        dir_free_fields: 4,
        dir_leaf_header: 16,
        da_count: 12,
        da_node_header: 16,
        attr_leaf_header: 32,
        attr_remote_header: 0,
        symlink_header: 0,
        bmap_magic: 0x424d_4150,
        dir_block_magic: 0x5844_3242,
        dir_data_magic: 0x5844_3244,
        dir_free_magic: 0x5844_3246,
        dir_leaf1_magic: 0xd2f1,
        dir_leafn_magic: 0xd2ff,
        da_node_magic: 0xfebe,
        attr_leaf_magic: 0xfbee,
    };

    /// Version 5.
    pub const V5: Self = Self {
        sb_len: 248,
        agfl_first: 36,
        short_header: 56,
        long_header: 72,
        inode_core: 176,
        log_inode_core: 176,
        dir_data_header: 64,
        dir_bestfree: 48,
        dir_first_entry: 0x60,
        dir_free_header: 64,
        dir_free_fields: 48,
        dir_leaf_header: 64,
        da_count: 56,
        da_node_header: 64,
        attr_leaf_header: 80,
        attr_remote_header: 56,
        symlink_header: 56,
        bmap_magic: 0x424d_4133,
        dir_block_magic: 0x5844_4233,
        dir_data_magic: 0x5844_4433,
        dir_free_magic: 0x5844_4633,
        dir_leaf1_magic: 0x3df1,
        dir_leafn_magic: 0x3dff,
        da_node_magic: 0x3ebe,
        attr_leaf_magic: 0x3bee,
    };

    /// Returns the layout of the volume `geo`.
    pub fn of(geo: &Geometry) -> &'static Self {
        match geo.features.version {
            Version::V4 => &Self::V4,
            Version::V5 => &Self::V5,
        }
    }
}
