//! Allocation groups: headers, btrees, and the use of each block.

use super::table;

table! {
    "AGF" {
        "agf.crc" Error "the checksum of the sector";
        "agf.magicnum" Error "the magic `XAGF`";
        "agf.versionnum" Error "version 1";
        "agf.seqno" Error "the group's own number";
        "agf.uuid" Error "the volume's UUID";
        "agf.lsn" Error "the LSN is not ahead of the journal's head";
        "agf.length" Error "the length of the group";
        "agf.bnoroot" Error "the root of the bnobt is a block of the group";
        "agf.cntroot" Error "the root of the cntbt is a block of the group";
        "agf.rmaproot" Error "the root of the rmapbt is a block of the group";
        "agf.refcntroot" Error "the root of the refcountbt is a block of the group";
        "agf.bnolevel" Error "the number of levels of the bnobt is possible";
        "agf.cntlevel" Error "the number of levels of the cntbt is possible";
        "agf.rmaplevel" Error "the number of levels of the rmapbt is possible";
        "agf.refcntlevel" Error "the number of levels of the refcountbt is possible";
        "agf.flfirst" Error "the first slot of the free list exists";
        "agf.fllast" Error "the last slot of the free list exists";
        "agf.flcount" Error "the length of the free list is that from `flfirst` to `fllast`";
        "agf.freeblks" Error "the number of free blocks is the sum of the free extents";
        "agf.longest" Error "the longest free extent";
        "agf.btreeblks" Error "the number of blocks of bnobt, cntbt and rmapbt without their roots";
        "agf.rmapblocks" Error "the number of blocks of the rmapbt";
        "agf.refcntblocks" Error "the number of blocks of the refcountbt";
        "agf.reserve" Warning "the group has as many free blocks as its own trees may need";
        "agf.spare64" Warning "the reserved bytes are 0";
    }
    "AGFL" {
        "agfl.crc" Error "the checksum of the sector";
        "agfl.magicnum" Error "the magic `XAFL`";
        "agfl.seqno" Error "the group's own number";
        "agfl.uuid" Error "the volume's UUID";
        "agfl.lsn" Error "the LSN is not ahead of the journal's head";
        "agfl.bno" Error "each entry is a block of the group";
    }
    "AGI" {
        "agi.crc" Error "the checksum of the sector";
        "agi.magicnum" Error "the magic `XAGI`";
        "agi.versionnum" Error "version 1";
        "agi.seqno" Error "the group's own number";
        "agi.uuid" Error "the volume's UUID";
        "agi.lsn" Error "the LSN is not ahead of the journal's head";
        "agi.length" Error "the length of the group";
        "agi.root" Error "the root of the inobt is a block of the group";
        "agi.level" Error "the number of levels of the inobt is possible";
        "agi.free_root" Error "the root of the finobt is a block of the group";
        "agi.free_level" Error "the number of levels of the finobt is possible";
        "agi.count" Error "the number of allocated inodes is the sum of the inobt";
        "agi.freecount" Error "the number of free inodes is the sum of the inobt";
        "agi.ino_blocks" Error "the number of blocks of the inobt";
        "agi.fino_blocks" Error "the number of blocks of the finobt";
        "agi.newino" Warning "the hint of the newest chunk is the first inode of a block, or none";
        "agi.dirino" Warning "the unused second hint is the first inode of a block, or none";
        "agi.unlinked" Error "the unlinked lists: empty on a clean volume, else of unlinked inodes";
    }
    "bnobt: free space by block" {
        "bnobt.crc" Error "the checksum of a block";
        "bnobt.magic" Error "the magic of a block";
        "bnobt.uuid" Error "the volume's UUID in a block";
        "bnobt.bno" Error "a block's own address";
        "bnobt.owner" Error "the group's number in a block";
        "bnobt.lsn" Error "the LSN is not ahead of the journal's head";
        "bnobt.level" Error "a block is one level below its parent";
        "bnobt.numrecs" Error Warning
            "a block is half full at least and not overfull; a warning for a root with one child";
        "bnobt.leftsib" Error "the left sibling is the left neighbour";
        "bnobt.rightsib" Error "the right sibling is the right neighbour";
        "bnobt.order" Error "records ascend, across blocks too";
        "bnobt.rec" Error "a record is an extent of the group";
        "bnobt.key" Error Warning
            "a key is the first below its child; a warning where only its length differs";
        "bnobt.ptr" Error "a pointer leads to a block of the group";
        "bnobt.adjacent" Error "no two free extents touch";
        "bnobt.overlap" Error "no two free extents overlap";
    }
    "cntbt: free space by size" {
        "cntbt.crc" Error "the checksum of a block";
        "cntbt.magic" Error "the magic of a block";
        "cntbt.uuid" Error "the volume's UUID in a block";
        "cntbt.bno" Error "a block's own address";
        "cntbt.owner" Error "the group's number in a block";
        "cntbt.lsn" Error "the LSN is not ahead of the journal's head";
        "cntbt.level" Error "a block is one level below its parent";
        "cntbt.numrecs" Error Warning
            "a block is half full at least and not overfull; a warning for a root with one child";
        "cntbt.leftsib" Error "the left sibling is the left neighbour";
        "cntbt.rightsib" Error "the right sibling is the right neighbour";
        "cntbt.order" Error "records ascend, across blocks too";
        "cntbt.rec" Error "a record is an extent of the group";
        "cntbt.key" Error "a key is the first below its child";
        "cntbt.ptr" Error "a pointer leads to a block of the group";
        "cntbt.missing" Error "each free extent of the bnobt is in the cntbt";
        "cntbt.extra" Error "each free extent of the cntbt is in the bnobt";
    }
    "inobt: inode chunks" {
        "inobt.crc" Error "the checksum of a block";
        "inobt.magic" Error "the magic of a block";
        "inobt.uuid" Error "the volume's UUID in a block";
        "inobt.bno" Error "a block's own address";
        "inobt.owner" Error "the group's number in a block";
        "inobt.lsn" Error "the LSN is not ahead of the journal's head";
        "inobt.level" Error "a block is one level below its parent";
        "inobt.numrecs" Error Warning
            "a block is half full at least and not overfull; a warning for a root with one child";
        "inobt.leftsib" Error "the left sibling is the left neighbour";
        "inobt.rightsib" Error "the right sibling is the right neighbour";
        "inobt.order" Error "records ascend, across blocks too";
        "inobt.rec" Error "a record is a chunk of the group";
        "inobt.key" Error "a key is the first below its child";
        "inobt.ptr" Error "a pointer leads to a block of the group";
        "inobt.align" Error "a chunk is aligned as the superblock says";
        "inobt.overlap" Error "chunks do not overlap";
        "inobt.count" Error "the number of inodes is that of the hole mask";
        "inobt.holemask" Error "the inodes of holes are marked as free";
        "inobt.freecount" Error "the number of free inodes is that of the mask";
        "inobt.chunk" Error "inodes are where a record has a chunk";
        "inobt.free" Error "an inode is free in the mask if and only if its mode is 0";
    }
    "finobt: chunks with free inodes" {
        "finobt.crc" Error "the checksum of a block";
        "finobt.magic" Error "the magic of a block";
        "finobt.uuid" Error "the volume's UUID in a block";
        "finobt.bno" Error "a block's own address";
        "finobt.owner" Error "the group's number in a block";
        "finobt.lsn" Error "the LSN is not ahead of the journal's head";
        "finobt.level" Error "a block is one level below its parent";
        "finobt.numrecs" Error Warning
            "a block is half full at least and not overfull; a warning for a root with one child";
        "finobt.leftsib" Error "the left sibling is the left neighbour";
        "finobt.rightsib" Error "the right sibling is the right neighbour";
        "finobt.order" Error "records ascend, across blocks too";
        "finobt.rec" Error "a record is possible, and a copy of the inobt's";
        "finobt.key" Error "a key is the first below its child";
        "finobt.ptr" Error "a pointer leads to a block of the group";
        "finobt.align" Error "a chunk is aligned as the superblock says";
        "finobt.overlap" Error "chunks do not overlap";
        "finobt.count" Error "the number of inodes is that of the hole mask";
        "finobt.holemask" Error "the inodes of holes are marked as free";
        "finobt.freecount" Error "the number of free inodes is that of the mask";
        "finobt.missing" Error "each chunk with free inodes has a record";
        "finobt.extra" Error "only chunks with free inodes have a record";
    }
    "rmapbt: reverse mappings" {
        "rmapbt.crc" Error "the checksum of a block";
        "rmapbt.magic" Error "the magic of a block";
        "rmapbt.uuid" Error "the volume's UUID in a block";
        "rmapbt.bno" Error "a block's own address";
        "rmapbt.owner" Error "the group's number in a block";
        "rmapbt.lsn" Error "the LSN is not ahead of the journal's head";
        "rmapbt.level" Error "a block is one level below its parent";
        "rmapbt.numrecs" Error Warning
            "a block is half full at least and not overfull; a warning for a root with one child";
        "rmapbt.leftsib" Error "the left sibling is the left neighbour";
        "rmapbt.rightsib" Error "the right sibling is the right neighbour";
        "rmapbt.order" Error "records ascend, across blocks too";
        "rmapbt.rec" Error "a record is an extent of the group with a possible owner";
        "rmapbt.key" Error "a key is the first below its child";
        "rmapbt.ptr" Error "a pointer leads to a block of the group";
        "rmapbt.high_key" Error "a high key is the highest end below its child";
        "rmapbt.extent" Error "a mapping has the length and state of the extent in use";
        "rmapbt.missing" Error "each extent in use has its mapping";
        "rmapbt.extra" Error "each mapping has its extent in use";
    }
    "refcountbt: reference counts" {
        "refcountbt.crc" Error "the checksum of a block";
        "refcountbt.magic" Error "the magic of a block";
        "refcountbt.uuid" Error "the volume's UUID in a block";
        "refcountbt.bno" Error "a block's own address";
        "refcountbt.owner" Error "the group's number in a block";
        "refcountbt.lsn" Error "the LSN is not ahead of the journal's head";
        "refcountbt.level" Error "a block is one level below its parent";
        "refcountbt.numrecs" Error Warning
            "a block is half full at least and not overfull; a warning for a root with one child";
        "refcountbt.leftsib" Error "the left sibling is the left neighbour";
        "refcountbt.rightsib" Error "the right sibling is the right neighbour";
        "refcountbt.order" Error "records ascend, across blocks too";
        "refcountbt.rec" Error "a record is an extent of the group";
        "refcountbt.key" Error "a key is the first below its child";
        "refcountbt.ptr" Error "a pointer leads to a block of the group";
        "refcountbt.overlap" Error "records do not overlap";
        "refcountbt.adjacent" Error "neighbours with one count are one record";
        "refcountbt.refcount" Error "a shared extent is counted twice at least";
        "refcountbt.cow" Error "a staging extent is counted once";
        "refcountbt.cow-leftover" Error "no staging extent is left on a clean volume";
        "refcountbt.count" Error "an extent's count and length are those of the files that map it";
        "refcountbt.missing" Error "each shared extent has its record";
        "refcountbt.extra" Error "each record has its shared extent";
    }
    "Blocks" {
        "block.claimed-twice" Error "a block has one owner, unless files share it";
        "block.free-but-used" Error "a block in use is not listed as free";
        "block.leaked" Error "a block is in use or free";
    }
}
