//! Inodes, their extent maps, symbolic links, and the files that the superblock names.

use super::table;

table! {
    "Inodes" {
        "inode.crc" Error "the checksum of the inode";
        "inode.magic" Error "the magic `IN`";
        "inode.version" Error "version 3, or 1 and 2 on volumes of version 4";
        "inode.inumber" Error "the inode's own number";
        "inode.uuid" Error "the volume's UUID";
        "inode.lsn" Error "the LSN is not ahead of the journal's head";
        "inode.mode" Error "the type of a file, in an inode in use";
        "inode.onlink" Error "the old link count is 0";
        "inode.metatype" Error "the type of a file of the metadata directories exists";
        "inode.nlink" Error "the link count is the number of entries that name the inode";
        "inode.disconnected" Error "an inode in use is named by an entry";
        "inode.next_unlinked" Error "only an unlinked inode is on a list";
        "inode.size" Error "the size fits the type, and the last block of a directory";
        "inode.size.zero" Error "a directory or symbolic link has content";
        "inode.size.local" Error "content in the inode fits into it";
        "inode.size.dir" Error "a directory in blocks is too large for its inode";
        "inode.nblocks" Error "the number of blocks is that of both maps";
        "inode.nblocks.none" Error "an inode without extents has no blocks";
        "inode.nblocks.free" Error "a free inode has no blocks";
        "inode.nextents" Error "the number of extents is that of the map";
        "inode.nextents.local" Error "content in the inode has no extents";
        "inode.nextents.btree" Error "a map in a btree is too large for the inode";
        "inode.nextents.dir" Error "a directory has no more extents than blocks";
        "inode.naextents" Error "the number of extents of the attribute fork is that of its map";
        "inode.naextents.local" Error "attributes in the inode have no extents";
        "inode.naextents.btree" Error "an attribute map in a btree is too large for the inode";
        "inode.naextents.nofork" Error "an inode without attribute fork has no extents there";
        "inode.nrext64_pad" Error "the old extent counters are 0 with NREXT64";
        "inode.v3_pad" Error "the large extent counter is 0 without NREXT64";
        "inode.format" Error "the format of the content fits the type";
        "inode.aformat" Error "the format of the attributes exists";
        "inode.aformat.nofork" Error "an inode without attribute fork has format 0 or 2 there";
        "inode.forkoff" Error "the attribute fork leaves room for both";
        "inode.flags" Error "only known flags";
        "inode.flags.directory" Error "flags of directories are on directories only";
        "inode.flags.newrtbm" Error "the flag NEWRTBM is on the realtime bitmap only";
        "inode.flags.realtime" Error "a realtime file needs a realtime device";
        "inode.flags.extsz" Error "the flag EXTSIZE is on regular files only";
        "inode.flags.extszinherit" Error "the flag EXTSZINHERIT is on directories only";
        "inode.extsize" Error "an extent size hint is not 0";
        "inode.extsize.unused" Error "no hint without its flag";
        "inode.extsize.rt" Error "a hint is whole realtime extents";
        "inode.extsize.max" Error "a hint is at most half a group";
        "inode.flags2" Error "only known flags";
        "inode.flags2.bigtime" Error "large timestamps need the feature";
        "inode.flags2.reflink" Error "only regular files share blocks, with the feature";
        "inode.flags2.cowextsz" Error
            "the flag COWEXTSIZE is on files and directories that can share";
        "inode.flags2.nrext64" Error "large extent counters need the feature";
        "inode.flags2.metadata" Error "the flag METADATA needs the feature METADIR";
        "inode.cowextsize" Error "a copy-on-write hint is not 0";
        "inode.cowextsize.unused" Error "no copy-on-write hint without its flag";
        "inode.cowextsize.max" Error "a copy-on-write hint is at most half a group";
        "inode.reflink" Error "a file that shares blocks has the flag";
        "inode.metadata.mode" Error "a metadata file is a file or directory without permissions";
        "inode.metadata.uid" Error "a metadata file belongs to user 0";
        "inode.metadata.gid" Error "a metadata file belongs to group 0";
        "inode.metadata.dmevmask" Error "a metadata file has no DMAPI events";
        "inode.metadata.dmstate" Error "a metadata file has no DMAPI state";
        "inode.metadata.flags" Error "a metadata file has the flags that keep programs out";
        "inode.metadata.dax" Error "a metadata file does not ask for DAX";
        "inode.atime" Error "the nanoseconds of the access time";
        "inode.mtime" Error "the nanoseconds of the modification time";
        "inode.ctime" Error "the nanoseconds of the change time";
        "inode.crtime" Error "the nanoseconds of the creation time";
        "inode.pad2" Warning "the reserved bytes are 0";
    }
    "Extent maps" {
        "bmdr.level" Error "the levels below the root in the inode are possible";
        "bmdr.numrecs" Error "the root in the inode has a child at least, and fits";
        "bmdr.keys" Error "the keys of the root ascend";
        "bmdr.ptrs" Error "the pointers of the root lead to blocks of the volume";
        "bmbt.crc" Error "the checksum of a block";
        "bmbt.magic" Error "the magic of a block";
        "bmbt.uuid" Error "the volume's UUID in a block";
        "bmbt.bno" Error "a block's own address";
        "bmbt.owner" Error "the inode's number in a block";
        "bmbt.lsn" Error "the LSN is not ahead of the journal's head";
        "bmbt.level" Error "a block is one level below its parent";
        "bmbt.numrecs" Error "a block is half full at least, and not overfull";
        "bmbt.leftsib" Error "the left sibling is the left neighbour";
        "bmbt.rightsib" Error "the right sibling is the right neighbour";
        "bmbt.keys" Error "the keys of a block ascend";
        "bmbt.ptrs" Error "the pointers of a block lead to blocks of the volume";
        "bmbt.ptr" Error "a block is entered once";
        "bmbt.key" Error "a key is the first below its child";
        "bmbt.rec.blockcount" Error "an extent is not empty";
        "bmbt.rec.startblock" Error "an extent lies in one group, after its headers";
        "bmbt.rec.state" Error "only contents of regular files are unwritten";
        "bmbt.rec.order" Error "extents ascend in the file";
    }
    "Symbolic links" {
        "symlink.crc" Error "the checksum of a block";
        "symlink.magic" Error "the magic `XSLM`";
        "symlink.uuid" Error "the volume's UUID";
        "symlink.bno" Error "the block's own address";
        "symlink.owner" Error "the inode's number";
        "symlink.lsn" Error "the LSN is not ahead of the journal's head";
        "symlink.offset" Error "the position of the part in the target";
        "symlink.bytes" Error "the length of the part";
        "symlink.length" Error "the parts are as long as the inode says";
        "symlink.target" Error "a target has no NUL";
    }
    "Quota" {
        "dquot.crc" Error "the checksum of a record";
        "dquot.magic" Error "the magic `DQ`";
        "dquot.uuid" Error "the volume's UUID";
        "dquot.lsn" Error "the LSN is not ahead of the journal's head";
        "dquot.version" Error "version 1";
        "dquot.type" Error "the type is that of the file";
        "dquot.type.bigtime" Error "large timestamps need the feature";
        "dquot.id" Error "the number is that of the position";
    }
    "Realtime" {
        "rtbitmap.hole" Error "the realtime bitmap has all its blocks";
    }
}
