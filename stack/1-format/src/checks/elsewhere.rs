//! Checks that `check` never prints: those of journal replay, of changes, and of readers that
//! stop at the first damage.

use super::table;

table! {
    "Journal replay" {
        "log.attri.attr_filter" "the namespace of a logged attribute change";
        "log.attri.igen" "the generation of the inode of a logged attribute change";
        "log.attri.len" "the length of a logged attribute change";
        "log.attri.name" "the name of a logged attribute change";
        "log.attri.new_name" "the new name of a logged attribute change";
        "log.attri.new_value" "the new value of a logged attribute change";
        "log.attri.old_name" "the old name of a logged attribute change";
        "log.attri.op_flags" "the operation of a logged attribute change";
        "log.attri.value" "the value of a logged attribute change";
        "log.buf.blkno" "a logged buffer lies in the volume, outside the journal";
        "log.buf.format" "the type of a logged buffer";
        "log.buf.len" "the length of a logged buffer";
        "log.buf.map" "the map of the logged chunks of a buffer";
        "log.buf.map_size" "the length of that map";
        "log.buf.next_unlinked" "a logged list of unlinked inodes";
        "log.buf.region" "the regions of a logged buffer";
        "log.bui.flags" "the flags of a logged change of a map";
        "log.bui.mapped" "the extent of a logged change of a map is mapped";
        "log.cui.flags" "the flags of a logged change of reference counts";
        "log.cui.reflink" "a logged change of reference counts needs the feature";
        "log.dquot.len" "the length of a logged quota record";
        "log.dquot.size" "the number of regions of a logged quota record";
        "log.icreate.agbno" "the position of logged new inodes";
        "log.icreate.count" "the number of logged new inodes";
        "log.icreate.isize" "the size of logged new inodes";
        "log.icreate.len" "the length of the item of logged new inodes";
        "log.icreate.length" "the number of blocks of logged new inodes";
        "log.inode.asize" "the length of a logged attribute fork";
        "log.inode.boffset" "the position of a logged inode in its buffer";
        "log.inode.broot" "the logged root of a map";
        "log.inode.core" "the logged core of an inode";
        "log.inode.disk_magic" "the magic of the inode that replay changes";
        "log.inode.dsize" "the length of a logged data fork";
        "log.inode.fields" "the fields of a logged inode";
        "log.inode.fork" "a logged fork fits its inode";
        "log.inode.forkoff" "the fork offset of a logged inode";
        "log.inode.format" "the item of a logged inode";
        "log.inode.len" "the length of the buffer of a logged inode";
        "log.inode.magic" "the magic of a logged inode";
        "log.inode.size" "the number of regions of a logged inode";
        "log.inode.version" "the version of a logged inode";
        "log.intent.extent" "the extent of an intent is blocks of one group";
        "log.intent.ino" "the inode of an intent exists";
        "log.intent.len" "the length of an intent";
        "log.intent.nextents" "the number of extents of an intent";
        "log.item.size" "the number of regions of an item";
        "log.item.type" "the type of an item";
        "log.quotaoff.len" "the length of a logged end of quota";
        "log.rui.flags" "the flags of a logged change of reverse mappings";
        "log.trans.len" "the length of a transaction header";
        "log.trans.magic" "the magic of a transaction header";
        "log.xmi.flags" "the flags of a logged exchange";
        "log.xmi.igen" "the generation of a file of a logged exchange";
        "log.xmi.len" "the length of a logged exchange";
    }
    "Readers and changes" {
        "attr.acl" "a stored ACL is whole";
        "attr.parent.flags" "a parent pointer was finished";
        "attr.parent.ino" "a parent pointer has an inode number";
        "attr.parent.loop" "parent pointers lead to the root";
        "attr.parent.name" "a parent pointer's name has no slash and no NUL";
        "attr.parent.valuelen" "the length of a parent pointer";
        "block.place" "a block is written to an address of the volume";
        "bmbt.progress" "a change of a map makes progress";
        "da.back" "the left sibling of the block that a change unlinks";
        "da.blocks" "a fork has no more blocks than the volume";
        "da.map" "a block of the fork is mapped, or not, as a reader or change needs it";
        "finobt.startino" "a chunk is in the finobt when a change needs it";
        "inode.naextents.count" "the number of extents that a reader found in the attribute fork";
        "inode.nextents.count" "the number of extents that a reader found in the data fork";
        "refcountbt.staging" "a staging extent is recorded when a change ends it";
        "rtsb.crc" "the checksum of the realtime superblock";
        "rtsb.magicnum" "the magic of the realtime superblock";
        "rtsb.meta_uuid" "the metadata UUID of the realtime superblock";
        "rtsb.pad" "the padding of the realtime superblock";
        "rtsb.rest" "the rest of the realtime superblock's block is zero";
        "rtsb.uuid" "the UUID of the realtime superblock";
        "sb.device-size" "the device is as long as the superblock says";
        "symlink.blocks" "the target of a symbolic link has no more blocks than it needs";
    }
}
