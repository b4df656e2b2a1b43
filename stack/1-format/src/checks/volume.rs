//! Superblocks, the journal, and what the device itself fails.

use super::table;

table! {
    "Superblocks" {
        "sb.crc" Error "the checksum of the sector",
            repair "bad primary superblock - bad CRC in superblock !!!";
        "sb.magicnum" Error "the magic `XFSB`",
            repair "bad primary superblock - bad magic number !!!";
        "sb.versionnum" Error Warning
            "version and feature bits; a warning where only ATTR is missing",
            repair "bad primary superblock - bad or unsupported version !!!";
        "sb.refused" Error
            "the primary can be read where a copy can: it asks for no unknown feature";
        "sb.uuid" Warning "the UUID of a copy is that of the primary";
        "sb.lsn" Error "the LSN is not ahead of the journal's head";
        "sb.blocksize" Error
            "the block size is two to the power of `blocklog`, and that of all copies",
            repair "SB sanity check failed";
        "sb.blocklog" Error "the logarithm of the block size: 9 to 16, and that of all copies",
            repair "Inode block alignment (N) must match chunk size (N) for sparse inodes.";
        "sb.sectsize" Error
            "the sector size is two to the power of `sectlog`, and that of all copies",
            repair "SB sanity check failed";
        "sb.sectlog" Error "the logarithm of the sector size: 9 to 15, and that of all copies",
            repair "SB sanity check failed";
        "sb.inodesize" Error
            "the inode size is two to the power of `inodelog`, and that of all copies",
            repair "Inode block alignment (N) must match chunk size (N) for sparse inodes.";
        "sb.inodelog" Error "the logarithm of the inode size: 8 to 11, and that of all copies",
            repair "SB sanity check failed";
        "sb.inopblock" Error
            "the number of inodes of a block follows from both sizes, and is that of all copies",
            repair "SB sanity check failed";
        "sb.inopblog" Error "the logarithm of the inodes of a block, the same in all copies",
            repair "SB sanity check failed";
        "sb.dirblklog" Error Warning
            "directory blocks of at most 64 KiB; a warning where a copy differs",
            repair "bad primary superblock - inconsistent directory geometry information !!!";
        "sb.dblocks" Error Fatal
            "the volume's length fits the groups; fatal where the device is shorter",
            repair "primary/secondary superblock N conflict - AG superblock geometry info";
        "sb.agblocks" Error "the length of a group is possible, and that of all copies",
            repair "bad primary superblock - inconsistent filesystem geometry information !!!";
        "sb.agblklog" Error
            "the logarithm of the group's length, rounded up, the same in all copies",
            repair "SB sanity check failed";
        "sb.agcount" Error
            "the number of groups follows from both lengths, and is that of all copies",
            repair "SB sanity check failed";
        "sb.rblocks" Error "the number of realtime blocks is that of all copies",
            repair "realtime geometry check failed";
        "sb.rextents" Error
            "the number of realtime extents follows from `rblocks`, and is that of all copies",
            repair "realtime zeroed geometry check failed";
        "sb.rextsize" Error "the size of a realtime extent: 4 KiB to 1 GiB, and that of all copies",
            repair "primary/secondary superblock N conflict - AG superblock geometry info";
        "sb.rextslog" Error "the logarithm of the number of realtime extents",
            repair "realtime zeroed geometry check failed";
        "sb.rbmblocks" Error "the length of the realtime bitmap follows from `rextents`",
            repair "realtime zeroed geometry check failed";
        "sb.logstart" Error "the journal lies in one group, where all copies have it",
            repair "primary/secondary superblock N conflict - AG superblock geometry info";
        "sb.logblocks" Error "the journal's length is possible, and that of all copies",
            repair "primary/secondary superblock N conflict - AG superblock geometry info";
        "sb.logsectlog" Error "the logarithm of the journal's sector size fits the feature SECTOR",
            repair "log sector size in bytes/log2 (N/N) are not zero";
        "sb.logsectsize" Error "the journal's sector size is two to the power of `logsectlog`",
            repair "log sector size in bytes/log2 (N/N) are not zero";
        "sb.logsunit" Error "the journal's stripe unit: whole blocks, at most 256 KiB",
            repair "log stripe unit N bytes must be a multiple of block size";
        "sb.unit" Error "the stripe unit is set if and only if the bit DALIGN is",
            repair "SB stripe alignment sanity check failed";
        "sb.width" Error "the stripe width is a multiple of the unit",
            repair "invalid stripe width (N) and stripe unit of N";
        "sb.inoalignmt" Error "the alignment of inode chunks, the same in all copies",
            repair "Inode block alignment (N) must match chunk size (N) for sparse inodes.";
        "sb.spino_align" Error "the alignment of sparse chunks, the same in all copies",
            repair "Sparse inode alignment (N) is invalid, must be integer factor of (N).";
        "sb.imax_pct" Error Warning
            "at most 100 percent for inodes; a warning where a copy differs from the primary",
            repair "bad primary superblock - maximum indicated percentage of inodes > N% !!!";
        "sb.flags" Error "the byte `flags` is 0",
            repair "bad flags field in superblock N";
        "sb.shared_vn" Error "the byte `shared_vn` is 0, in copies too",
            repair "SB sanity check failed";
        "sb.inprogress" Error "mkfs has finished",
            repair "bad primary superblock - filesystem mkfs-in-progress bit set !!!";
        "sb.features2" Error "`features2` is that of all copies, and that of `bad_features2`",
            repair "Superblock has unknown features enabled or corrupted feature masks.";
        "sb.bad_features2" Warning "the second copy of `features2` is filled in";
        "sb.features_compat" Error "the compatible features are those of all copies",
            repair "Superblock has unknown compatible features (N) enabled.";
        "sb.features_ro_compat" Error Warning
            "read-only compatible features, as in all copies; a warning for unknown bits",
            repair "Superblock has unknown compat/rocompat/incompat features (N/N/N).";
        "sb.features_incompat" Error
            "the incompatible features are those of all copies, and none asks for repair",
            repair "Sparse inode alignment (N) should be zero.";
        "sb.features_log_incompat" Error Warning
            "no journal feature is left on a clean volume, in any copy; a warning for known bits",
            repair "would sync log incompat feature in AG N super, N != N";
        "sb.qflags" Error "the quota flags exist in this version, and accounting has a quota inode",
            repair "Version N of Super block has XFS_OQUOTA bits.";
        "sb.rootino" Error Fatal Warning
            "a number (error) of a directory in use (fatal), also in copies (warning)",
            repair "sb root inode value N inconsistent with calculated value N",
            brings ["agi.magicnum" "inode.magic"];
        "sb.metadirino" Fatal "the root of the metadata directories is a directory in use",
            repair "xfs_repair: Failed to load metadir root directory, error N";
        "sb.rbmino" Error Warning
            "the realtime bitmap is a regular file in use; a warning where a copy differs";
        "sb.rsumino" Error Warning
            "the realtime summary is a regular file in use; a warning where a copy differs";
        "sb.uquotino" Error "the user quota file is a regular file in use, or none",
            repair "non-null user quota inode field in superblock N";
        "sb.gquotino" Error "the group quota file is a regular file in use, or none",
            repair "non-null group quota inode field in superblock N";
        "sb.pquotino" Error "the project quota file is a regular file in use, or none",
            repair "non-null project quota inode field in superblock N";
        "sb.icount" Error "the number of allocated inodes is the sum over all groups",
            repair "sb_icount N, counted N";
        "sb.ifree" Error "the number of free inodes is the sum over all groups",
            repair "sb_ifree N, counted N";
        "sb.fdblocks" Error "the number of free blocks is the sum over all groups",
            repair "sb_fdblocks N, counted N";
        "sb.frextents" Error "the number of free realtime extents is the count of the bitmap",
            repair "realtime zeroed geometry check failed";
        "sb.tail" Error "the sector behind the last field is zero",
            repair "would zero unused portion of secondary superblock (AG #N)";
    }
    "Journal" {
        "log.device" Warning Error
            "the journal's device is given (a warning where not), and long enough",
            repair "fatal error -- This filesystem has an external log.  Specify log device with",
            brings ["block.leaked" "rmapbt.extra"];
        "log.blocks" Error "the journal has two sectors at least",
            unplanted "no volume has a journal of one sector";
        "log.dirty" Warning "no change waits for replay";
        "log.cycle" Error
            "the first block has the cycle of the head, or one beside it: the head is found by it",
            repair "Log inconsistent or not a log (last==N, first!=N)";
        "log.record.magicno" Error "a record header where one must be";
        "log.record.version" Error "the version of a record: 1 or 2";
        "log.record.fmt" Error
            "the byte order of a record: that of Linux on little-endian machines";
        "log.record.fs_uuid" Error "the volume's UUID in a record";
        "log.record.size" Error "the size of journal buffers in a record: at most 256 KiB";
        "log.record.len" Error "the length of a record fits its buffers";
        "log.record.lsn" Error "a record's LSN is its own position";
        "log.record.cycle" Error "a record's cycle is that of its LSN";
        "log.record.tail_lsn" Error "the tail lies at most one cycle behind the head";
        "log.record.crc" Error "the checksum of a record that replay needs";
        "log.record.end" Error "the records end where the head is",
            unplanted "the search for the head takes such a record for a torn one";
        "log.op.header" Error "an operation header is whole";
        "log.op.clientid" Error "the client of an operation: transaction or log";
        "log.op.len" Error "an operation fits into its record";
        "log.op.flags" Error "operations open, continue and commit transactions in order";
        "log.trans.open" Error "at most 4096 transactions are open at once",
            unplanted "takes 4097 transactions; a test of `2-log` makes them";
        "log.trans.bytes" Error "a transaction is at most 256 MiB long",
            unplanted "takes a journal of more than 256 MiB";
    }
    "Device" {
        "device.read" Fatal "the device returns the bytes";
        "scrub.copy" Error
            "every copy of a block is the same: with `--scrub`, or where some differ";
    }
}
