//! Superblocks, the journal, and what the device itself fails.

use super::table;

table! {
    "Superblocks" {
        "sb.crc" Error "the checksum of the sector";
        "sb.magicnum" Error "the magic `XFSB`";
        "sb.versionnum" Error Warning
            "version and feature bits; a warning where only ATTR is missing";
        "sb.refused" Error
            "the primary can be read where a copy can: it asks for no unknown feature";
        "sb.uuid" Warning "the UUID of a copy is that of the primary";
        "sb.lsn" Error "the LSN is not ahead of the journal's head";
        "sb.blocksize" Error
            "the block size is two to the power of `blocklog`, and that of all copies";
        "sb.blocklog" Error "the logarithm of the block size: 9 to 16, and that of all copies";
        "sb.sectsize" Error
            "the sector size is two to the power of `sectlog`, and that of all copies";
        "sb.sectlog" Error "the logarithm of the sector size: 9 to 15, and that of all copies";
        "sb.inodesize" Error
            "the inode size is two to the power of `inodelog`, and that of all copies";
        "sb.inodelog" Error "the logarithm of the inode size: 8 to 11, and that of all copies";
        "sb.inopblock" Error
            "the number of inodes of a block follows from both sizes, and is that of all copies";
        "sb.inopblog" Error "the logarithm of the inodes of a block, the same in all copies";
        "sb.dirblklog" Error Warning
            "directory blocks of at most 64 KiB; a warning where a copy differs";
        "sb.dblocks" Error Fatal
            "the volume's length fits the groups; fatal where the device is shorter";
        "sb.agblocks" Error "the length of a group is possible, and that of all copies";
        "sb.agblklog" Error
            "the logarithm of the group's length, rounded up, the same in all copies";
        "sb.agcount" Error
            "the number of groups follows from both lengths, and is that of all copies";
        "sb.rblocks" Error "the number of realtime blocks is that of all copies";
        "sb.rextents" Error
            "the number of realtime extents follows from `rblocks`, and is that of all copies";
        "sb.rextsize" Error "the size of a realtime extent: 4 KiB to 1 GiB, and that of all copies";
        "sb.rextslog" Error "the logarithm of the number of realtime extents";
        "sb.rbmblocks" Error "the length of the realtime bitmap follows from `rextents`";
        "sb.logstart" Error "the journal lies in one group, where all copies have it";
        "sb.logblocks" Error "the journal's length is possible, and that of all copies";
        "sb.logsectlog" Error "the logarithm of the journal's sector size fits the feature SECTOR";
        "sb.logsectsize" Error "the journal's sector size is two to the power of `logsectlog`";
        "sb.logsunit" Error "the journal's stripe unit: whole blocks, at most 256 KiB";
        "sb.unit" Error "the stripe unit is set if and only if the bit DALIGN is";
        "sb.width" Error "the stripe width is a multiple of the unit";
        "sb.inoalignmt" Error "the alignment of inode chunks, the same in all copies";
        "sb.spino_align" Error "the alignment of sparse chunks, the same in all copies";
        "sb.imax_pct" Error Warning
            "at most 100 percent for inodes; a warning where a copy differs from the primary";
        "sb.flags" Error "the byte `flags` is 0";
        "sb.shared_vn" Error "the byte `shared_vn` is 0";
        "sb.inprogress" Error "mkfs has finished";
        "sb.features2" Error "`features2` is that of all copies, and that of `bad_features2`";
        "sb.bad_features2" Warning "the second copy of `features2` is filled in";
        "sb.features_compat" Error "the compatible features are those of all copies";
        "sb.features_ro_compat" Error Warning
            "read-only compatible features, as in all copies; a warning for unknown bits";
        "sb.features_incompat" Error
            "the incompatible features are those of all copies, and none asks for repair";
        "sb.features_log_incompat" Warning
            "no journal feature is left on a clean volume, in any copy";
        "sb.qflags" Error "the quota flags exist in this version, and accounting has a quota inode";
        "sb.rootino" Error Fatal Warning
            "a number (error) of a directory in use (fatal), also in copies (warning)";
        "sb.metadirino" Fatal "the root of the metadata directories is a directory in use";
        "sb.rbmino" Error Warning
            "the realtime bitmap is a regular file in use; a warning where a copy differs";
        "sb.rsumino" Error Warning
            "the realtime summary is a regular file in use; a warning where a copy differs";
        "sb.uquotino" Error "the user quota file is a regular file in use, or none";
        "sb.gquotino" Error "the group quota file is a regular file in use, or none";
        "sb.pquotino" Error "the project quota file is a regular file in use, or none";
        "sb.icount" Error "the number of allocated inodes is the sum over all groups";
        "sb.ifree" Error "the number of free inodes is the sum over all groups";
        "sb.fdblocks" Error "the number of free blocks is the sum over all groups";
        "sb.frextents" Error "the number of free realtime extents is the count of the bitmap";
        "sb.tail" Error "the sector behind the last field is zero";
    }
    "Journal" {
        "log.device" Warning Error
            "the journal's device is given (a warning where not), and long enough";
        "log.blocks" Error "the journal has two sectors at least";
        "log.dirty" Warning "no change waits for replay";
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
        "log.record.end" Error "the records end where the head is";
        "log.op.header" Error "an operation header is whole";
        "log.op.clientid" Error "the client of an operation: transaction or log";
        "log.op.len" Error "an operation fits into its record";
        "log.op.flags" Error "operations open, continue and commit transactions in order";
        "log.trans.open" Error "at most 4096 transactions are open at once";
        "log.trans.bytes" Error "a transaction is at most 256 MiB long";
    }
    "Device" {
        "device.read" Fatal "the device returns the bytes";
        "scrub.copy" Error
            "every copy of a block is the same: with `--scrub`, or where some differ";
    }
}
