//! Directories, attributes, and the hash btree that both use.

use super::table;

table! {
    "Hash btree" {
        "da.node.crc" Error "the checksum of a node",
            repair "Metadata CRC error detected at N, xfs_da3_node block N/N";
        "da.node.magic" Error "the magic of a node",
            unplanted "takes a hash btree of three levels; a test of `1-format` breaks one";
        "da.node.uuid" Error "the volume's UUID",
            repair "Metadata corruption detected at N, xfs_da3_node block N/N";
        "da.node.bno" Error "the block's own address",
            repair "Metadata corruption detected at N, xfs_da3_node block N/N";
        "da.node.owner" Error "the inode's number",
            repair "expected owner inode N, got N, directory block N";
        "da.node.lsn" Error "the LSN is not ahead of the journal's head",
            repair "Maximum metadata LSN (N:N) is ahead of log (N:N).";
        "da.node.level" Error "a node is one level below its parent",
            repair "found non-root LEAFN node in inode N bno = N";
        "da.node.count" Error "a node has a child at least, and fits",
            repair "Metadata corruption detected at N, xfs_da3_node block N/N";
        "da.node.forw" Error "the right sibling is the right neighbour",
            repair "bad directory forward block pointer, expected N, saw N";
        "da.node.back" Error "the left sibling is the left neighbour";
        "da.node.order" Error "the hashes of a node ascend",
            repair "in (level N) in inode N.";
        "da.node.before" Error "a child is a block of the tree, entered once",
            repair "Warning: recursive buffer locking at block N detected";
        "da.node.hashval" Error "a node's hash is the last of the block below",
            repair "in (level N) in inode N.";
        "da.leaf.order" Error "the hashes of leaves ascend from block to block",
            repair "bad hash ordering in block N of directory inode N",
            brings ["dir.leaf.extra" "dir.leaf.missing"];
        "da.forw" Error "the last block of a level has no right sibling",
            repair "bad hash ordering in block N of directory inode N";
        "da.hole" Error "a child is mapped, and each block of a directory as a whole",
            repair "would rebuild directory inode N",
            brings ["dir.leaf.back" "dir.leaf.forw"];
    }
    "Directories" {
        "dir.name" Error "a name is not empty, and has no slash and no NUL",
            repair "entry contains illegal character in shortform dir N";
        "dir.dup" Error "each name once in a directory",
            repair "entry \"a\" (ino N) in dir N already points to ino N, would junk entry";
        "dir.dots" Error "`.` and `..` once, first",
            brings ["inode.nlink"];
        "dir.dotdot" Error "`..` names the parent",
            repair "entry \"sf\" in directory inode N not consistent with .. value (N) in inode N,",
            brings ["inode.nlink"];
        "dir.parents" Error "a directory has one parent, the root none",
            repair "entry \"a\" in directory inode N references already connected inode N, would",
            brings ["inode.nlink"];
        "dir.cycle" Error "a directory is below the root",
            repair "would add missing ino N parent pointer (ino N gen N name 'sub')",
            brings ["inode.nlink" "parent.mismatch"];
        "dir.entry.free" Error "an entry names an inode in use",
            repair "entry \"a\" in shortform directory N references free inode N",
            brings ["inode.nlink"];
        "dir.entry.ftype" Error "the type in an entry is that of the inode",
            repair "would fix ftype mismatch (N/N) in directory/child inode N/N";
        "dir.entry.metadata" Error "no entry names a file that the superblock names",
            repair "entry \"a\" in shortform directory N references invalid inode N",
            brings ["inode.nlink"];
        "dir.sf.count" Error "a short form has as many entries as it counts",
            repair "Metadata corruption detected at N, inode N data fork";
        "dir.sf.i8count" Error "the number of long inode numbers",
            repair "Metadata corruption detected at N, inode N data fork";
        "dir.sf.parent" Error "the parent is an inode number",
            repair "bogus .. inode number (N) in directory inode N, would clear inode number";
        "dir.sf.namelen" Error "a name is not empty",
            repair "entry \"\" in shortform directory N references invalid inode N";
        "dir.sf.offset" Error "the positions of entries ascend and fit a block",
            repair "entry contains offset out of order in shortform dir N";
        "dir.sf.inumber" Error "an entry has an inode number",
            repair "entry \"a\" in shortform directory N references invalid inode N";
        "dir.sf.filetype" Error "the type in an entry exists",
            repair "would fix ftype mismatch (N/N) in directory/child inode N/N";
        "dir.sf.size" Error "a short form ends with its last entry",
            repair "Metadata corruption detected at N, inode N data fork";
        "dir.data.crc" Error "the checksum of a data block",
            repair "Metadata CRC error detected at N, xfs_dir3_data block N/N";
        "dir.data.magic" Error "the magic of a data block",
            repair "Metadata corruption detected at N, xfs_dir3_data block N/N";
        "dir.data.uuid" Error "the volume's UUID",
            repair "Metadata corruption detected at N, xfs_dir3_data block N/N";
        "dir.data.bno" Error "the block's own address",
            repair "Metadata corruption detected at N, xfs_dir3_data block N/N";
        "dir.data.owner" Error "the inode's number",
            repair "expected owner inode N, got N, directory block N";
        "dir.data.lsn" Error "the LSN is not ahead of the journal's head",
            repair "Maximum metadata LSN (N:N) is ahead of log (N:N).";
        "dir.data.bestfree" Error "the list of the three longest unused spaces",
            repair "Metadata corruption detected at N, xfs_dir3_data block N/N";
        "dir.data.tag" Error "each entry and unused space ends with its own offset",
            repair "Metadata corruption detected at N, xfs_dir3_data block N/N";
        "dir.data.unused" Error "no two unused spaces touch",
            repair "Metadata corruption detected at N, xfs_dir3_data block N/N";
        "dir.data.length" Error "an unused space fits the block",
            repair "Metadata corruption detected at N, xfs_dir3_data block N/N";
        "dir.data.namelen" Error "a name fits the block and is not empty",
            repair "Metadata corruption detected at N, xfs_dir3_data block N/N";
        "dir.data.inumber" Error "an entry has an inode number",
            repair "Metadata corruption detected at N, xfs_dir3_data block N/N";
        "dir.data.filetype" Error "the type in an entry exists",
            repair "would fix ftype mismatch (N/N) in directory/child inode N/N";
        "dir.data.dot" Error "`.` comes first and names the directory",
            repair "bad . entry in directory inode N, was N: would correct";
        "dir.data.dotdot" Error "`..` comes second",
            repair "no .. entry for directory N",
            brings ["dir.leaf.extra" "dir.leaf.missing" "dir.parents"];
        "dir.data.empty" Warning "a data block has an entry",
            repair "empty data block N in directory inode N: would junk block",
            brings ["dir.leaf.bests" "dir.leaf.extra" "inode.nlink"];
        "dir.block.count" Error "the hash table of a block fits, and has an entry for each name",
            repair "Metadata corruption detected at N, xfs_dir3_block block N/N";
        "dir.block.order" Error "the hashes of a block ascend",
            repair "Metadata corruption detected at N, xfs_dir3_block block N/N";
        "dir.block.stale" Error "the number of stale hash entries",
            repair "Metadata corruption detected at N, xfs_dir3_block block N/N";
        "dir.block.hashval" Error "each name of a block has its hash entry",
            repair "Metadata corruption detected at N, xfs_dir3_block block N/N";
        "dir.leaf.crc" Error "the checksum of a leaf",
            repair "Metadata CRC error detected at N, xfs_dir3_leaf1 block N/N";
        "dir.leaf.magic" Error "the magic of a leaf",
            repair "Metadata corruption detected at N, xfs_dir3_leaf1 block N/N";
        "dir.leaf.uuid" Error "the volume's UUID",
            repair "Metadata corruption detected at N, xfs_dir3_leaf1 block N/N";
        "dir.leaf.bno" Error "the block's own address",
            repair "Metadata corruption detected at N, xfs_dir3_leaf1 block N/N";
        "dir.leaf.owner" Error "the inode's number",
            repair "expected owner inode N, got N, directory block N";
        "dir.leaf.lsn" Error "the LSN is not ahead of the journal's head",
            repair "Maximum metadata LSN (N:N) is ahead of log (N:N).";
        "dir.leaf.forw" Error "the right sibling is the right neighbour",
            repair "leaf block N for directory inode N bad header";
        "dir.leaf.back" Error "the left sibling is the left neighbour",
            repair "leaf block N for directory inode N bad header";
        "dir.leaf.count" Error "the entries of a leaf fit",
            repair "Metadata corruption detected at N, xfs_dir3_leaf1 block N/N";
        "dir.leaf.stale" Error "the number of stale hash entries",
            repair "Metadata corruption detected at N, xfs_dir3_leaf1 block N/N";
        "dir.leaf.order" Error "the hashes of a leaf ascend",
            repair "Metadata corruption detected at N, xfs_dir3_leaf1 block N/N";
        "dir.leaf.address" Error "a hash entry leads to a data block of the directory",
            repair "Metadata corruption detected at N, xfs_dir3_leaf1 block N/N";
        "dir.leaf.bestcount" Error "the table of free space fits the leaf",
            repair "Metadata corruption detected at N, xfs_dir3_leaf1 block N/N";
        "dir.leaf.bests" Error "the table of free space is that of the data blocks",
            repair "leaf block N for directory inode N bad tail";
        "dir.leaf.missing" Error "each name has its hash entry",
            repair "bad hash table for directory inode N (no leaf entry): would rebuild";
        "dir.leaf.extra" Error "each hash entry has its name",
            repair "bad hash table for directory inode N (no data entry): would rebuild";
        "dir.leaf.dup" Error "each name has one hash entry",
            repair "bad hash table for directory inode N (duplicate leaf): would rebuild",
            brings ["dir.leaf.extra"];
        "dir.leaf.unreached" Error "each block of the hash btree is reached",
            repair "directory block used/count inconsistency - N/N",
            brings ["da.forw" "dir.leaf.missing"];
        "dir.free.crc" Error "the checksum of a block of the free index",
            repair "Metadata CRC error detected at N, xfs_dir3_free block N/N";
        "dir.free.magic" Error "the magic of a block of the free index",
            repair "Metadata corruption detected at N, xfs_dir3_free block N/N";
        "dir.free.uuid" Error "the volume's UUID",
            repair "Metadata corruption detected at N, xfs_dir3_free block N/N";
        "dir.free.bno" Error "the block's own address",
            repair "Metadata corruption detected at N, xfs_dir3_free block N/N";
        "dir.free.owner" Error "the inode's number",
            repair "expected owner inode N, got N, directory block N";
        "dir.free.lsn" Error "the LSN is not ahead of the journal's head",
            repair "Maximum metadata LSN (N:N) is ahead of log (N:N).";
        "dir.free.firstdb" Error "the first data block of a free index block",
            repair "free block N for directory inode N bad header";
        "dir.free.nvalid" Error "the entries of a free index block fit",
            repair "free block N entry N for directory ino N bad";
        "dir.free.nused" Error "the number of entries in use",
            repair "free block N for directory inode N bad header";
        "dir.free.bests" Error "the free index is that of the data blocks",
            repair "free block N entry N for directory ino N bad";
        "dir.free.missing" Error "the free index covers all data blocks",
            repair "unknown block state, ag N, blocks N-N",
            brings ["block.leaked" "rmapbt.extra"];
        "dir.free.unreached" Error "a directory with one leaf has no free index",
            repair "data fork in ino N claims free block N",
            brings ["block.free-but-used" "rmapbt.missing"];
    }
    "Attributes" {
        "attr.name" Error "a name has no NUL, and that of a parent pointer no slash",
            repair "entry contains illegal character in shortform attribute name";
        "attr.dup" Error "each name once in a namespace";
        "attr.sf.totsize" Error "a short form is as long as its entries",
            repair "local inode N attr too small (size = N, min size = N)";
        "attr.sf.count" Error "a short form has as many entries as it counts",
            repair "inode N shortform attr verifier failure, would have cleared attrs";
        "attr.sf.namelen" Error "a name fits the short form and is not empty",
            repair "zero length name entry in attribute fork, would truncate attributes for";
        "attr.sf.valuelen" Error "a value fits the short form",
            repair "name or value attribute lengths are too large,";
        "attr.sf.flags" Error "known flags, one namespace",
            repair "multiple namespaces for shortform attribute N in inode N";
        "attr.leaf.crc" Error "the checksum of a leaf",
            repair "Metadata CRC error detected at N, xfs_attr3_leaf block N/N";
        "attr.leaf.magic" Error "the magic of a leaf",
            repair "Metadata corruption detected at N, xfs_da3_node block N/N";
        "attr.leaf.uuid" Error "the volume's UUID",
            repair "Metadata corruption detected at N, xfs_attr3_leaf block N/N";
        "attr.leaf.bno" Error "the block's own address",
            repair "Metadata corruption detected at N, xfs_attr3_leaf block N/N";
        "attr.leaf.owner" Error "the inode's number",
            repair "expected owner inode N, got N, attr block N";
        "attr.leaf.lsn" Error "the LSN is not ahead of the journal's head",
            repair "Maximum metadata LSN (N:N) is ahead of log (N:N).";
        "attr.leaf.forw" Error "the right sibling is the right neighbour",
            repair "attribute block used/count inconsistency - N/N";
        "attr.leaf.back" Error "the left sibling is the left neighbour",
            repair "would clear forw/back pointers in block N for attributes in inode N";
        "attr.leaf.count" Error Warning
            "a leaf has entries, and they fit; a warning where it is the whole tree",
            repair "Metadata corruption detected at N, xfs_attr3_leaf block N/N";
        "attr.leaf.firstused" Error "names and values begin at `firstused`",
            repair "Metadata corruption detected at N, xfs_attr3_leaf block N/N";
        "attr.leaf.usedbytes" Error "the number of bytes of names and values",
            repair "- would reset usedbytes cnt from N to N in block N of attribute fork of N";
        "attr.leaf.freemap" Error Warning
            "the listed free space is free; a warning where it is not all of it",
            repair "Metadata corruption detected at N, xfs_attr3_leaf block N/N";
        "attr.leaf.order" Error "the hashes of a leaf ascend",
            repair "Metadata corruption detected at N, xfs_attr3_leaf block N/N";
        "attr.leaf.hashval" Error "an entry's hash is that of its name",
            repair "bad hashvalue for attribute entry N in attr block N, inode N";
        "attr.leaf.flags" Error "known flags, one namespace",
            repair "unknown flags N in attribute entry #N in attr block N, inode N";
        "attr.leaf.nameidx" Error "an entry leads to a name in the block",
            repair "Metadata corruption detected at N, xfs_attr3_leaf block N/N";
        "attr.leaf.namelen" Error "a name fits the block and is not empty",
            repair "Metadata corruption detected at N, xfs_attr3_leaf block N/N";
        "attr.leaf.overlap" Error "names and values do not overlap",
            repair "multiply claimed byte N in da block",
            brings ["attr.dup"];
        "attr.leaf.valueblk" Error "a remote value is mapped",
            repair "Metadata corruption detected at N, xfs_attr3_leaf block N/N";
        "attr.leaf.valuelen" Error "a remote value is at most 64 KiB long",
            repair "remote block for attributes of inode N is missing";
        "attr.leaf.incomplete" Error "each attribute was finished",
            repair "attribute entry #N in attr block N, inode N is INCOMPLETE";
        "attr.unreached" Warning "each block of the attribute fork is reached",
            repair "attribute block used/count inconsistency - N/N",
            brings ["da.forw"];
        "attr.remote.crc" Error "the checksum of a block of a value",
            repair "Metadata CRC error detected at N, xfs_attr3_rmt block N/N";
        "attr.remote.magic" Error "the magic of a block of a value",
            repair "Metadata corruption detected at N, xfs_attr3_rmt block N/N";
        "attr.remote.uuid" Error "the volume's UUID",
            repair "Metadata corruption detected at N, xfs_attr3_rmt block N/N";
        "attr.remote.bno" Error "the block's own address",
            repair "Metadata corruption detected at N, xfs_attr3_rmt block N/N";
        "attr.remote.owner" Error "the inode's number";
        "attr.remote.lsn" Error "the LSN is all ones: values are not logged";
        "attr.remote.offset" Error "the position of the part in the value";
        "attr.remote.bytes" Error "the length of the part";
        "parent.value" Error "a parent pointer's value is an inode number and a generation",
            repair "would delete garbage parent pointer extended attributes in ino N",
            brings ["parent.mismatch"];
        "parent.mismatch" Error
            "an inode has a parent pointer for each entry that names it, and no other",
            repair "would update ino N parent pointer (ino N gen N name 'pieces') -> (ino N gen";
    }
}
