//! Allocation groups: headers, btrees, and the use of each block.

use super::table;

table! {
    "AGF" {
        "agf.crc" Error "the checksum of the sector",
            repair "Metadata CRC error detected at N, xfs_agf block N/N";
        "agf.magicnum" Error "the magic `XAGF`",
            repair "Metadata corruption detected at N, xfs_agf block N/N";
        "agf.versionnum" Error "version 1",
            repair "Metadata corruption detected at N, xfs_agf block N/N";
        "agf.seqno" Error "the group's own number",
            repair "Metadata corruption detected at N, xfs_agf block N/N";
        "agf.uuid" Error "the volume's UUID",
            repair "Metadata corruption detected at N, xfs_agf block N/N";
        "agf.lsn" Error "the LSN is not ahead of the journal's head",
            repair "Maximum metadata LSN (N:N) is ahead of log (N:N).";
        "agf.length" Error "the length of the group",
            repair "Metadata corruption detected at N, xfs_agf block N/N";
        "agf.bnoroot" Error "the root of the bnobt is a block of the group",
            repair "bad agbno N for btbno root, agno N";
        "agf.cntroot" Error "the root of the cntbt is a block of the group",
            repair "bad agbno N for btbcnt root, agno N";
        "agf.rmaproot" Error "the root of the rmapbt is a block of the group",
            repair "bad agbno N for rmapbt root, agno N";
        "agf.refcntroot" Error "the root of the refcountbt is a block of the group",
            repair "bad agbno N for refcntbt root, agno N";
        "agf.bnolevel" Error "the number of levels of the bnobt is possible",
            repair "Metadata corruption detected at N, xfs_agf block N/N";
        "agf.cntlevel" Error "the number of levels of the cntbt is possible",
            repair "Metadata corruption detected at N, xfs_agf block N/N";
        "agf.rmaplevel" Error "the number of levels of the rmapbt is possible",
            repair "Metadata corruption detected at N, xfs_agf block N/N";
        "agf.refcntlevel" Error "the number of levels of the refcountbt is possible",
            repair "Metadata corruption detected at N, xfs_agf block N/N";
        "agf.flfirst" Error "the first slot of the free list exists",
            repair "Metadata corruption detected at N, xfs_agf block N/N";
        "agf.fllast" Error "the last slot of the free list exists",
            repair "Metadata corruption detected at N, xfs_agf block N/N";
        "agf.flcount" Error "the length of the free list is that from `flfirst` to `fllast`",
            repair "freeblk count N != flcount N in ag N";
        "agf.freeblks" Error "the number of free blocks is the sum of the free extents",
            repair "Metadata corruption detected at N, xfs_agf block N/N";
        "agf.longest" Error "the longest free extent",
            repair "agf_longest N, counted N in ag N";
        "agf.btreeblks" Error "the number of blocks of bnobt, cntbt and rmapbt without their roots",
            repair "agf_btreeblks N, counted N in ag N";
        "agf.rmapblocks" Error "the number of blocks of the rmapbt",
            repair "bad rmapbt block count N, saw N";
        "agf.refcntblocks" Error "the number of blocks of the refcountbt",
            repair "bad refcountbt block count N, saw N";
        "agf.reserve" Warning "the group has as many free blocks as its own trees may need",
            brings ["agf.btreeblks" "agf.freeblks" "agf.longest" "block.leaked" "bnobt.numrecs"
                "bnobt.rightsib" "cntbt.extra" "rmapbt.extra" "sb.fdblocks"];
        "agf.spare64" Warning "the reserved bytes are 0";
    }
    "AGFL" {
        "agfl.crc" Error "the checksum of the sector",
            repair "Metadata CRC error detected at N, xfs_agfl block N/N";
        "agfl.magicnum" Error "the magic `XAFL`",
            repair "Metadata corruption detected at N, xfs_agfl block N/N";
        "agfl.seqno" Error "the group's own number",
            repair "Metadata corruption detected at N, xfs_agfl block N/N";
        "agfl.uuid" Error "the volume's UUID",
            repair "Metadata corruption detected at N, xfs_agfl block N/N";
        "agfl.lsn" Error "the LSN is not ahead of the journal's head",
            repair "Maximum metadata LSN (N:N) is ahead of log (N:N).";
        "agfl.bno" Error "each entry is a block of the group",
            repair "Metadata corruption detected at N, xfs_agfl block N/N";
    }
    "AGI" {
        "agi.crc" Error "the checksum of the sector",
            repair "Metadata CRC error detected at N, xfs_agi block N/N";
        "agi.magicnum" Error "the magic `XAGI`",
            repair "Metadata corruption detected at N, xfs_agi block N/N";
        "agi.versionnum" Error "version 1",
            repair "Metadata corruption detected at N, xfs_agi block N/N";
        "agi.seqno" Error "the group's own number",
            repair "Metadata corruption detected at N, xfs_agi block N/N";
        "agi.uuid" Error "the volume's UUID",
            repair "Metadata corruption detected at N, xfs_agi block N/N";
        "agi.lsn" Error "the LSN is not ahead of the journal's head",
            repair "Maximum metadata LSN (N:N) is ahead of log (N:N).";
        "agi.length" Error "the length of the group",
            repair "Metadata corruption detected at N, xfs_agi block N/N";
        "agi.root" Error "the root of the inobt is a block of the group",
            repair "bad agbno N for inobt root, agno N";
        "agi.level" Error "the number of levels of the inobt is possible",
            repair "Metadata corruption detected at N, xfs_agi block N/N";
        "agi.free_root" Error "the root of the finobt is a block of the group",
            repair "bad agbno N for finobt root, agno N";
        "agi.free_level" Error "the number of levels of the finobt is possible",
            repair "Metadata corruption detected at N, xfs_agi block N/N";
        "agi.count" Error "the number of allocated inodes is the sum of the inobt",
            repair "agi_count N, counted N in ag N";
        "agi.freecount" Error "the number of free inodes is the sum of the inobt",
            repair "agi_freecount N, counted N in ag N";
        "agi.ino_blocks" Error "the number of blocks of the inobt",
            repair "bad inobt block count N, saw N";
        "agi.fino_blocks" Error "the number of blocks of the finobt",
            repair "bad finobt block count N, saw N";
        "agi.newino" Warning "the hint of the newest chunk is the first inode of a block, or none";
        "agi.dirino" Warning "the unused second hint is the first inode of a block, or none";
        "agi.unlinked" Error "the unlinked lists: empty on a clean volume, else of unlinked inodes",
            repair "agi unlinked bucket N is N in ag N (inode=N)";
    }
    "bnobt: free space by block" {
        "bnobt.crc" Error "the checksum of a block",
            repair "Metadata CRC error detected at N, xfs_bnobt block N/N";
        "bnobt.magic" Error "the magic of a block",
            repair "Metadata corruption detected at N, xfs_bnobt block N/N";
        "bnobt.uuid" Error "the volume's UUID in a block",
            repair "Metadata corruption detected at N, xfs_bnobt block N/N";
        "bnobt.bno" Error "a block's own address",
            repair "Metadata corruption detected at N, xfs_bnobt block N/N";
        "bnobt.owner" Error "the group's number in a block",
            repair "Metadata corruption detected at N, xfs_bnobt block N/N";
        "bnobt.lsn" Error "the LSN is not ahead of the journal's head",
            repair "Maximum metadata LSN (N:N) is ahead of log (N:N).";
        "bnobt.level" Error "a block is one level below its parent",
            repair "expected level N got N in btbno block N/N";
        "bnobt.numrecs" Error Warning
            "a block is half full at least and not overfull; a warning for a root with one child",
            repair "Metadata corruption detected at N, xfs_bnobt block N/N";
        "bnobt.leftsib" Error "the left sibling is the left neighbour";
        "bnobt.rightsib" Error "the right sibling is the right neighbour";
        "bnobt.order" Error "records ascend, across blocks too",
            repair "out-of-order bno btree record N (N N) block N/N",
            brings ["block.free-but-used" "block.leaked" "bnobt.overlap" "cntbt.extra"
                "cntbt.missing"];
        "bnobt.rec" Error "a record is an extent of the group",
            repair "invalid length N in record N of bno btree block N/N",
            brings ["agf.freeblks" "block.leaked" "cntbt.extra" "sb.fdblocks"];
        "bnobt.key" Error Warning
            "a key is the first below its child; a warning where only its length differs";
        "bnobt.ptr" Error "a pointer leads to a block of the group",
            repair "bad btree pointer (N) in bnobt block N/N";
        "bnobt.adjacent" Error "no two free extents touch",
            repair "data fork in ino N claims free block N",
            brings ["agf.freeblks" "block.free-but-used" "cntbt.extra" "cntbt.missing"
                "sb.fdblocks"];
        "bnobt.overlap" Error "no two free extents overlap",
            repair "out-of-order bno btree record N (N N) block N/N",
            brings ["agf.freeblks" "block.free-but-used" "cntbt.extra" "cntbt.missing"
                "sb.fdblocks"];
    }
    "cntbt: free space by size" {
        "cntbt.crc" Error "the checksum of a block",
            repair "Metadata CRC error detected at N, xfs_cntbt block N/N";
        "cntbt.magic" Error "the magic of a block",
            repair "Metadata corruption detected at N, xfs_cntbt block N/N";
        "cntbt.uuid" Error "the volume's UUID in a block",
            repair "Metadata corruption detected at N, xfs_cntbt block N/N";
        "cntbt.bno" Error "a block's own address",
            repair "Metadata corruption detected at N, xfs_cntbt block N/N";
        "cntbt.owner" Error "the group's number in a block",
            repair "Metadata corruption detected at N, xfs_cntbt block N/N";
        "cntbt.lsn" Error "the LSN is not ahead of the journal's head",
            repair "Maximum metadata LSN (N:N) is ahead of log (N:N).";
        "cntbt.level" Error "a block is one level below its parent",
            repair "expected level N got N in btcnt block N/N";
        "cntbt.numrecs" Error Warning
            "a block is half full at least and not overfull; a warning for a root with one child",
            repair "Metadata corruption detected at N, xfs_cntbt block N/N";
        "cntbt.leftsib" Error "the left sibling is the left neighbour";
        "cntbt.rightsib" Error "the right sibling is the right neighbour";
        "cntbt.order" Error "records ascend, across blocks too";
        "cntbt.rec" Error "a record is an extent of the group",
            repair "invalid start block N in record N of cnt btree block N/N",
            brings ["cntbt.missing" "cntbt.order"];
        "cntbt.key" Error "a key is the first below its child";
        "cntbt.ptr" Error "a pointer leads to a block of the group",
            repair "bad btree pointer (N) in cntbt block N/N";
        "cntbt.missing" Error "each free extent of the bnobt is in the cntbt",
            repair "agf_freeblks N, counted N in ag N";
        "cntbt.extra" Error "each free extent of the cntbt is in the bnobt",
            repair "data fork in ino N claims free block N",
            brings ["cntbt.missing"];
    }
    "inobt: inode chunks" {
        "inobt.crc" Error "the checksum of a block",
            repair "Metadata CRC error detected at N, xfs_inobt block N/N";
        "inobt.magic" Error "the magic of a block",
            repair "Metadata corruption detected at N, xfs_inobt block N/N";
        "inobt.uuid" Error "the volume's UUID in a block",
            repair "Metadata corruption detected at N, xfs_inobt block N/N";
        "inobt.bno" Error "a block's own address",
            repair "Metadata corruption detected at N, xfs_inobt block N/N";
        "inobt.owner" Error "the group's number in a block",
            repair "Metadata corruption detected at N, xfs_inobt block N/N";
        "inobt.lsn" Error "the LSN is not ahead of the journal's head",
            repair "Maximum metadata LSN (N:N) is ahead of log (N:N).";
        "inobt.level" Error "a block is one level below its parent",
            repair "expected level N got N in inobt block N/N";
        "inobt.numrecs" Error Warning
            "a block is half full at least and not overfull; a warning for a root with one child",
            repair "Metadata corruption detected at N, xfs_inobt block N/N";
        "inobt.leftsib" Error "the left sibling is the left neighbour";
        "inobt.rightsib" Error "the right sibling is the right neighbour";
        "inobt.order" Error "records ascend, across blocks too",
            repair "out-of-order ino btree record N (N) block N/N",
            brings ["agi.count" "block.leaked" "dir.entry.free" "inobt.overlap" "rmapbt.extent"
                "rmapbt.extra" "rmapbt.missing" "sb.icount"];
        "inobt.rec" Error "a record is a chunk of the group",
            repair "bad starting inode # (N (N N)) in inobt rec, skipping rec",
            brings ["agi.count" "agi.freecount" "block.leaked" "dir.entry.free" "finobt.extra"
                "inode.nlink" "rmapbt.extra" "sb.icount" "sb.ifree"];
        "inobt.key" Error "a key is the first below its child";
        "inobt.ptr" Error "a pointer leads to a block of the group",
            repair "bad btree pointer (N) in inobt block N/N";
        "inobt.align" Error "a chunk is aligned as the superblock says",
            repair "badly aligned inobt rec (starting inode = N)",
            brings ["block.claimed-twice" "dir.entry.free" "finobt.extra" "finobt.missing"
                "inobt.free" "inode.crc" "inode.magic" "rmapbt.missing"];
        "inobt.overlap" Error "chunks do not overlap",
            repair "out-of-order ino btree record N (N) block N/N",
            brings ["agi.count" "block.leaked" "dir.entry.free" "inobt.align" "rmapbt.extent"
                "rmapbt.extra" "rmapbt.missing" "sb.icount"];
        "inobt.count" Error "the number of inodes is that of the hole mask",
            repair "invalid inode count, inode chunk N/N, count N ninodes N",
            brings ["finobt.rec"];
        "inobt.holemask" Error "the inodes of holes are marked as free",
            repair "ir_holemask/ir_free mismatch, inobt chunk N/N, holemask N free N",
            brings ["agi.count" "agi.freecount" "block.leaked" "dir.entry.free" "finobt.extra"
                "inobt.count" "inobt.freecount" "rmapbt.extent" "sb.icount" "sb.ifree"];
        "inobt.freecount" Error "the number of free inodes is that of the mask",
            repair "ir_freecount/free mismatch, inode chunk N/N, freecount N nfree N";
        "inobt.chunk" Error "inodes are where a record has a chunk",
            repair "inode chunk claims used block, inobt block - agno N, bno N, inopb N",
            brings ["block.free-but-used" "dir.entry.free" "finobt.extra" "finobt.missing"
                "inode.nlink" "rmapbt.missing"];
        "inobt.free" Error "an inode is free in the mask if and only if its mode is 0",
            repair "ir_freecount/free mismatch, inode chunk N/N, freecount N nfree N",
            brings ["agi.freecount" "finobt.rec" "inobt.freecount" "sb.ifree"];
    }
    "finobt: chunks with free inodes" {
        "finobt.crc" Error "the checksum of a block",
            repair "Metadata CRC error detected at N, xfs_finobt block N/N";
        "finobt.magic" Error "the magic of a block",
            repair "Metadata corruption detected at N, xfs_finobt block N/N";
        "finobt.uuid" Error "the volume's UUID in a block",
            repair "Metadata corruption detected at N, xfs_finobt block N/N";
        "finobt.bno" Error "a block's own address",
            repair "Metadata corruption detected at N, xfs_finobt block N/N";
        "finobt.owner" Error "the group's number in a block",
            repair "Metadata corruption detected at N, xfs_finobt block N/N";
        "finobt.lsn" Error "the LSN is not ahead of the journal's head",
            repair "Maximum metadata LSN (N:N) is ahead of log (N:N).";
        "finobt.level" Error "a block is one level below its parent",
            repair "expected level N got N in finobt block N/N";
        "finobt.numrecs" Error Warning
            "a block is half full at least and not overfull; a warning for a root with one child",
            repair "Metadata corruption detected at N, xfs_finobt block N/N";
        "finobt.leftsib" Error "the left sibling is the left neighbour";
        "finobt.rightsib" Error "the right sibling is the right neighbour";
        "finobt.order" Error "records ascend, across blocks too",
            repair "out-of-order fino btree record N (N) block N/N",
            brings ["finobt.missing" "finobt.overlap"];
        "finobt.rec" Error "a record is possible, and a copy of the inobt's",
            repair "finobt ir_freecount/free mismatch, inode chunk N/N, freecount N nfree N",
            brings ["finobt.freecount"];
        "finobt.key" Error "a key is the first below its child";
        "finobt.ptr" Error "a pointer leads to a block of the group",
            repair "bad btree pointer (N) in finobt block N/N";
        "finobt.align" Error "a chunk is aligned as the superblock says",
            repair "badly aligned finobt rec (starting inode = N)",
            brings ["finobt.extra" "finobt.missing"];
        "finobt.overlap" Error "chunks do not overlap",
            repair "out-of-order fino btree record N (N) block N/N",
            brings ["finobt.align" "finobt.missing"];
        "finobt.count" Error "the number of inodes is that of the hole mask",
            repair "invalid inode count, inode chunk N/N, count N ninodes N",
            brings ["finobt.rec"];
        "finobt.holemask" Error "the inodes of holes are marked as free",
            repair "sparse inode chunk claims inode block, finobt block - agno N, bno N, inopb N",
            brings ["finobt.count" "finobt.freecount" "finobt.rec"];
        "finobt.freecount" Error "the number of free inodes is that of the mask",
            repair "finobt ir_freecount/free mismatch, inode chunk N/N, freecount N nfree N",
            brings ["finobt.rec"];
        "finobt.missing" Error "each chunk with free inodes has a record",
            repair "agi_freecount N, counted N in ag N finobt";
        "finobt.extra" Error "only chunks with free inodes have a record",
            repair "Inode allocation btrees are too corrupted, skipping phases 6 and 7",
            brings ["finobt.key" "finobt.missing"];
    }
    "rmapbt: reverse mappings" {
        "rmapbt.crc" Error "the checksum of a block",
            repair "Metadata CRC error detected at N, xfs_rmapbt block N/N";
        "rmapbt.magic" Error "the magic of a block",
            repair "Metadata corruption detected at N, xfs_rmapbt block N/N";
        "rmapbt.uuid" Error "the volume's UUID in a block",
            repair "Metadata corruption detected at N, xfs_rmapbt block N/N";
        "rmapbt.bno" Error "a block's own address",
            repair "Metadata corruption detected at N, xfs_rmapbt block N/N";
        "rmapbt.owner" Error "the group's number in a block",
            repair "Metadata corruption detected at N, xfs_rmapbt block N/N";
        "rmapbt.lsn" Error "the LSN is not ahead of the journal's head",
            repair "Maximum metadata LSN (N:N) is ahead of log (N:N).";
        "rmapbt.level" Error "a block is one level below its parent",
            repair "expected level N got N in btrmap block N/N";
        "rmapbt.numrecs" Error Warning
            "a block is half full at least and not overfull; a warning for a root with one child",
            repair "Metadata corruption detected at N, xfs_rmapbt block N/N";
        "rmapbt.leftsib" Error "the left sibling is the left neighbour";
        "rmapbt.rightsib" Error "the right sibling is the right neighbour";
        "rmapbt.order" Error "records ascend, across blocks too",
            repair "out-of-order rmap btree record N (N N N N) block N/N",
            brings ["rmapbt.extra" "rmapbt.missing"];
        "rmapbt.rec" Error "a record is an extent of the group with a possible owner",
            repair "invalid length N in record N of rmap btree block N/N";
        "rmapbt.key" Error "a key is the first below its child",
            repair "Missing reverse-mapping record for (N/N) unwritten len N owner N off N";
        "rmapbt.ptr" Error "a pointer leads to a block of the group",
            repair "bad btree pointer (N) in rmapbt block N/N",
            brings ["rmapbt.leftsib"];
        "rmapbt.high_key" Error "a high key is the highest end below its child";
        "rmapbt.extent" Error "a mapping has the length and state of the extent in use",
            repair "unknown block (N,N-N) mismatch on rmap tree, state - N,fffffffffffffff8";
        "rmapbt.missing" Error "each extent in use has its mapping",
            repair "Missing reverse-mapping record for (N/N) len N owner N off N",
            brings ["rmapbt.extra"];
        "rmapbt.extra" Error "each mapping has its extent in use",
            repair "Missing reverse-mapping record for (N/N) len N owner N off N",
            brings ["rmapbt.missing"];
    }
    "refcountbt: reference counts" {
        "refcountbt.crc" Error "the checksum of a block",
            repair "Metadata CRC error detected at N, xfs_refcountbt block N/N";
        "refcountbt.magic" Error "the magic of a block",
            repair "Metadata corruption detected at N, xfs_refcountbt block N/N";
        "refcountbt.uuid" Error "the volume's UUID in a block",
            repair "Metadata corruption detected at N, xfs_refcountbt block N/N";
        "refcountbt.bno" Error "a block's own address",
            repair "Metadata corruption detected at N, xfs_refcountbt block N/N";
        "refcountbt.owner" Error "the group's number in a block",
            repair "Metadata corruption detected at N, xfs_refcountbt block N/N";
        "refcountbt.lsn" Error "the LSN is not ahead of the journal's head",
            repair "Maximum metadata LSN (N:N) is ahead of log (N:N).";
        "refcountbt.level" Error "a block is one level below its parent",
            repair "expected level N got N in refcount btree block N/N";
        "refcountbt.numrecs" Error Warning
            "a block is half full at least and not overfull; a warning for a root with one child",
            repair "Metadata corruption detected at N, xfs_refcountbt block N/N";
        "refcountbt.leftsib" Error "the left sibling is the left neighbour";
        "refcountbt.rightsib" Error "the right sibling is the right neighbour";
        "refcountbt.order" Error "records ascend, across blocks too",
            repair "out-of-order refcount btree record N (N N) block N/N",
            brings ["refcountbt.extra" "refcountbt.missing" "refcountbt.overlap"];
        "refcountbt.rec" Error "a record is an extent of the group",
            repair "invalid length N in record N of refcount btree block N/N";
        "refcountbt.key" Error "a key is the first below its child",
            repair "Incorrect reference count: saw (N/N) len N nlinks N; should be (N/N) len N";
        "refcountbt.ptr" Error "a pointer leads to a block of the group",
            repair "bad btree pointer (N) in refcountbt block N/N";
        "refcountbt.overlap" Error "records do not overlap",
            repair "out-of-order refcount btree record N (N N) block N/N",
            brings ["refcountbt.count"];
        "refcountbt.adjacent" Error "neighbours with one count are one record",
            repair "record N in block (N/N) of refcount tree should be merged with previous",
            brings ["refcountbt.count"];
        "refcountbt.refcount" Error "a shared extent is counted twice at least",
            repair "leftover CoW extent has invalid startblock in record N of refcount btree";
        "refcountbt.cow" Error "a staging extent is counted once",
            repair "leftover CoW extent has incorrect refcount in record N of refcount btree",
            brings ["block.claimed-twice" "refcountbt.cow-leftover" "rmapbt.missing"];
        "refcountbt.cow-leftover" Error "no staging extent is left on a clean volume",
            repair "extent (N/N) len N claimed, state is N",
            brings ["block.claimed-twice" "refcountbt.missing" "rmapbt.missing"];
        "refcountbt.count" Error "an extent's count and length are those of the files that map it",
            repair "Incorrect reference count: saw (N/N) len N nlinks N; should be (N/N) len N";
        "refcountbt.missing" Error "each shared extent has its record",
            repair "record N in block (N/N) of refcount tree should be merged with previous",
            brings ["refcountbt.adjacent" "refcountbt.extra"];
        "refcountbt.extra" Error "each record has its shared extent",
            repair "record N in block (N/N) of refcount tree should be merged with previous",
            brings ["refcountbt.adjacent" "refcountbt.missing"];
    }
    "Blocks" {
        "block.claimed-twice" Error "a block has one owner, unless files share it",
            repair "Metadata corruption detected at N, xfs_bnobt block N/N",
            brings ["bnobt.magic"];
        "block.free-but-used" Error "a block in use is not listed as free",
            brings ["agf.freeblks" "bnobt.key" "cntbt.extra" "cntbt.missing" "sb.fdblocks"];
        "block.leaked" Error "a block is in use or free",
            repair "free space (N,N-N) only seen by one free space btree",
            brings ["agf.freeblks" "cntbt.extra" "cntbt.missing" "sb.fdblocks"];
    }
}
