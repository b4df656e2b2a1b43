//! Directories, attributes, and the hash btree that both use.

use super::table;

table! {
    "Hash btree" {
        "da.node.crc" Error "the checksum of a node";
        "da.node.magic" Error "the magic of a node";
        "da.node.uuid" Error "the volume's UUID";
        "da.node.bno" Error "the block's own address";
        "da.node.owner" Error "the inode's number";
        "da.node.lsn" Error "the LSN is not ahead of the journal's head";
        "da.node.level" Error "a node is one level below its parent";
        "da.node.count" Error "a node has a child at least, and fits";
        "da.node.forw" Error "the right sibling is the right neighbour";
        "da.node.back" Error "the left sibling is the left neighbour";
        "da.node.order" Error "the hashes of a node ascend";
        "da.node.before" Error "a child is a block of the tree, entered once";
        "da.node.hashval" Error "a node's hash is the last of the block below";
        "da.leaf.order" Error "the hashes of leaves ascend from block to block";
        "da.forw" Error "the last block of a level has no right sibling";
        "da.hole" Error "a child is mapped";
    }
    "Directories" {
        "dir.name" Error "a name is not empty, and has no slash and no NUL";
        "dir.dup" Error "each name once in a directory";
        "dir.dots" Error "`.` and `..` once, first";
        "dir.dotdot" Error "`..` names the parent";
        "dir.parents" Error "a directory has one parent, the root none";
        "dir.cycle" Error "a directory is below the root";
        "dir.entry.free" Error "an entry names an inode in use";
        "dir.entry.ftype" Error "the type in an entry is that of the inode";
        "dir.entry.metadata" Error "no entry names a file that the superblock names";
        "dir.sf.count" Error "a short form has as many entries as it counts";
        "dir.sf.i8count" Error "the number of long inode numbers";
        "dir.sf.parent" Error "the parent is an inode number";
        "dir.sf.namelen" Error "a name is not empty";
        "dir.sf.offset" Error "the positions of entries ascend and fit a block";
        "dir.sf.inumber" Error "an entry has an inode number";
        "dir.sf.filetype" Error "the type in an entry exists";
        "dir.sf.size" Error "a short form ends with its last entry";
        "dir.data.crc" Error "the checksum of a data block";
        "dir.data.magic" Error "the magic of a data block";
        "dir.data.uuid" Error "the volume's UUID";
        "dir.data.bno" Error "the block's own address";
        "dir.data.owner" Error "the inode's number";
        "dir.data.lsn" Error "the LSN is not ahead of the journal's head";
        "dir.data.bestfree" Error "the list of the three longest unused spaces";
        "dir.data.tag" Error "each entry and unused space ends with its own offset";
        "dir.data.unused" Error "no two unused spaces touch";
        "dir.data.length" Error "an unused space fits the block";
        "dir.data.namelen" Error "a name fits the block and is not empty";
        "dir.data.inumber" Error "an entry has an inode number";
        "dir.data.filetype" Error "the type in an entry exists";
        "dir.data.dot" Error "`.` comes first and names the directory";
        "dir.data.dotdot" Error "`..` comes second";
        "dir.data.empty" Warning "a data block has an entry";
        "dir.block.count" Error "the hash table of a block fits, and has an entry for each name";
        "dir.block.order" Error "the hashes of a block ascend";
        "dir.block.stale" Error "the number of stale hash entries";
        "dir.block.hashval" Error "each name of a block has its hash entry";
        "dir.leaf.crc" Error "the checksum of a leaf";
        "dir.leaf.magic" Error "the magic of a leaf";
        "dir.leaf.uuid" Error "the volume's UUID";
        "dir.leaf.bno" Error "the block's own address";
        "dir.leaf.owner" Error "the inode's number";
        "dir.leaf.lsn" Error "the LSN is not ahead of the journal's head";
        "dir.leaf.forw" Error "the right sibling is the right neighbour";
        "dir.leaf.back" Error "the left sibling is the left neighbour";
        "dir.leaf.count" Error "the entries of a leaf fit";
        "dir.leaf.stale" Error "the number of stale hash entries";
        "dir.leaf.order" Error "the hashes of a leaf ascend";
        "dir.leaf.address" Error "a hash entry leads to a data block of the directory";
        "dir.leaf.bestcount" Error "the table of free space fits the leaf";
        "dir.leaf.bests" Error "the table of free space is that of the data blocks";
        "dir.leaf.missing" Error "each name has its hash entry";
        "dir.leaf.extra" Error "each hash entry has its name";
        "dir.leaf.dup" Error "each name has one hash entry";
        "dir.leaf.unreached" Error "each block of the hash btree is reached";
        "dir.free.crc" Error "the checksum of a block of the free index";
        "dir.free.magic" Error "the magic of a block of the free index";
        "dir.free.uuid" Error "the volume's UUID";
        "dir.free.bno" Error "the block's own address";
        "dir.free.owner" Error "the inode's number";
        "dir.free.lsn" Error "the LSN is not ahead of the journal's head";
        "dir.free.firstdb" Error "the first data block of a free index block";
        "dir.free.nvalid" Error "the entries of a free index block fit";
        "dir.free.nused" Error "the number of entries in use";
        "dir.free.bests" Error "the free index is that of the data blocks";
        "dir.free.missing" Error "the free index covers all data blocks";
        "dir.free.unreached" Error "a directory with one leaf has no free index";
    }
    "Attributes" {
        "attr.name" Error "a name has no NUL, and that of a parent pointer no slash";
        "attr.dup" Error "each name once in a namespace";
        "attr.sf.totsize" Error "a short form is as long as its entries";
        "attr.sf.count" Error "a short form has as many entries as it counts";
        "attr.sf.namelen" Error "a name fits the short form and is not empty";
        "attr.sf.valuelen" Error "a value fits the short form";
        "attr.sf.flags" Error "known flags, one namespace";
        "attr.leaf.crc" Error "the checksum of a leaf";
        "attr.leaf.magic" Error "the magic of a leaf";
        "attr.leaf.uuid" Error "the volume's UUID";
        "attr.leaf.bno" Error "the block's own address";
        "attr.leaf.owner" Error "the inode's number";
        "attr.leaf.lsn" Error "the LSN is not ahead of the journal's head";
        "attr.leaf.forw" Error "the right sibling is the right neighbour";
        "attr.leaf.back" Error "the left sibling is the left neighbour";
        "attr.leaf.count" Error Warning
            "a leaf has entries, and they fit; a warning where it is the whole tree";
        "attr.leaf.firstused" Error "names and values begin at `firstused`";
        "attr.leaf.usedbytes" Error "the number of bytes of names and values";
        "attr.leaf.freemap" Error Warning
            "the listed free space is free; a warning where it is not all of it";
        "attr.leaf.order" Error "the hashes of a leaf ascend";
        "attr.leaf.hashval" Error "an entry's hash is that of its name";
        "attr.leaf.flags" Error "known flags, one namespace";
        "attr.leaf.nameidx" Error "an entry leads to a name in the block";
        "attr.leaf.namelen" Error "a name fits the block and is not empty";
        "attr.leaf.overlap" Error "names and values do not overlap";
        "attr.leaf.valueblk" Error "a remote value is mapped";
        "attr.leaf.valuelen" Error "a remote value is at most 64 KiB long";
        "attr.leaf.incomplete" Warning "each attribute was finished";
        "attr.unreached" Warning "each block of the attribute fork is reached";
        "attr.remote.crc" Error "the checksum of a block of a value";
        "attr.remote.magic" Error "the magic of a block of a value";
        "attr.remote.uuid" Error "the volume's UUID";
        "attr.remote.bno" Error "the block's own address";
        "attr.remote.owner" Error "the inode's number";
        "attr.remote.lsn" Error "the LSN is not ahead of the journal's head";
        "attr.remote.offset" Error "the position of the part in the value";
        "attr.remote.bytes" Error "the length of the part";
        "parent.value" Error "a parent pointer's value is an inode number and a generation";
        "parent.mismatch" Error
            "an inode has a parent pointer for each entry that names it, and no other";
    }
}
