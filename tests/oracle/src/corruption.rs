//! Single corrupt fields on an otherwise sound volume. `xfs_db` writes them with valid checksums.
//! Each is listed with the result of `xfs_repair -n` 6.13.

use std::os::unix::fs::MetadataExt;

use crate::image::{Image, Mount, Scratch};
use crate::matrix::{Case, named};
use crate::tools::Xfsprogs;
use crate::trees::{self, Shape};

/// The result of `xfs_repair -n` for an injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Reports it: exits with 1.
    Detects,
    /// Misses it: exits with 0. The kernel may still fail on it.
    Misses,
}

/// One corrupt field.
#[derive(Clone, Copy, Debug)]
pub struct InjectedFault {
    /// Dotted name of the field.
    pub name: &'static str,
    /// The `xfs_db` commands, separated by `; `. `{PATH}` stands for the inode number of that file.
    pub commands: &'static str,
    /// The result of `xfs_repair -n` 6.13.
    pub repair: Repair,
}

/// The volume that takes the faults. It has all features of xfsprogs 6.13, all corner cases, and
/// blocks of 1 KiB, so that every tree is tall.
pub const VOLUME: &str = "parent-block-1k";

/// Makes the volume. Returns `None`, with a note, if the machine cannot.
pub fn volume(scratch: &Scratch) -> Option<Image<'_>> {
    let plain = named(VOLUME);
    let case = Case { shape: Shape { tall: true, ..plain.shape }, ..plain };
    let image = case.filled(scratch)?;
    let mount = case.mount(&image, scratch, "")?;
    trees::tall_groups(mount.path(), &case.shape).expect("the kernel makes tall trees");
    mount.unmount().expect("unmount");
    Some(image)
}

impl InjectedFault {
    /// Returns the `xfs_db` commands with the inode numbers of `inodes` filled in.
    pub fn commands_for(&self, inodes: &Mount) -> Vec<String> {
        self.commands.split("; ").map(|command| fill_in(command, inodes)).collect()
    }

    /// Writes the fault to `image`.
    pub fn write(&self, tools: &Xfsprogs, image: &Image, commands: &[String]) {
        let (write, path) = commands.split_last().expect("at least one command");
        let write = differing(tools, image, path, write);
        let commands: Vec<&str> = path.iter().chain([&write]).map(String::as_str).collect();
        let output = tools.db(image, true, &commands).expect(self.name);
        // xfs_db always exits with 0, but prints each field that it has written.
        assert!(output.contains(" = "), "{}: xfs_db wrote nothing: {output}", self.name);
    }
}

/// Returns the `write` command, with the next higher number if the field at `path` already holds
/// the given one. The kernel chooses where trees lie, so a value that is wrong on one volume may be
/// right on another.
fn differing(tools: &Xfsprogs, image: &Image, path: &[String], write: &str) -> String {
    let (rest, value) = write.rsplit_once(' ').expect("a value");
    let field = rest.rsplit(' ').next().expect("a field");
    let print = format!("print {field}");
    let commands: Vec<&str> = path.iter().map(String::as_str).chain([print.as_str()]).collect();
    let present = tools.db(image, false, &commands).expect(&print);
    match (present.trim().rsplit_once(" = "), value.parse::<u64>()) {
        (Some((_, same)), Ok(number)) if same == value => format!("{rest} {}", number + 1),
        _ => write.to_owned(),
    }
}

fn fill_in(command: &str, inodes: &Mount) -> String {
    let Some((before, rest)) = command.split_once('{') else { return command.to_owned() };
    let (path, after) = rest.split_once('}').expect("a closing brace");
    let ino = inodes.path().join(path).symlink_metadata().expect(path).ino();
    format!("{before}{ino}{after}")
}

const fn detected(name: &'static str, commands: &'static str) -> InjectedFault {
    InjectedFault { name, commands, repair: Repair::Detects }
}

const fn missed(name: &'static str, commands: &'static str) -> InjectedFault {
    InjectedFault { name, commands, repair: Repair::Misses }
}

/// All injected faults.
pub const INJECTED_FAULTS: &[InjectedFault] = &[
    // Superblocks.
    detected("sb.fdblocks", "sb 0; write -d fdblocks 60000"),
    detected("sb.icount", "sb 0; write -d icount 64"),
    detected("sb.ifree", "sb 0; write -d ifree 1"),
    detected("sb.rootino", "sb 0; write -d rootino 128"),
    detected("sb.inprogress", "sb 0; write -d inprogress 1"),
    detected("sb.secondary.agblocks", "sb 1; write -d agblocks 131071"),
    detected("sb.secondary.dblocks", "sb 2; write -d dblocks 524287"),
    detected("sb.secondary.features_ro_compat", "sb 1; write -d features_ro_compat 7"),
    missed("sb.secondary.rootino", "sb 1; write -d rootino 192"),
    detected("sb.secondary.crc", "sb 3; write -c icount 5"),
    // AG headers.
    detected("agf.freeblks", "agf 0; write -d freeblks 5"),
    detected("agf.longest", "agf 1; write -d longest 5"),
    detected("agf.btreeblks", "agf 1; write -d btreeblks 77"),
    detected("agf.flcount", "agf 1; write -d flcount 3"),
    detected("agf.rmapblocks", "agf 1; write -d rmapblocks 96"),
    detected("agf.refcntblocks", "agf 1; write -d refcntblocks 96"),
    detected("agf.length", "agf 1; write -d length 131071"),
    detected("agf.seqno", "agf 1; write -d seqno 2"),
    detected("agf.bnolevel", "agf 1; write -d bnolevel 1"),
    detected("agf.crc", "agf 1; write -c longest 5"),
    detected("agi.count", "agi 0; write -d count 64"),
    detected("agi.freecount", "agi 0; write -d freecount 1"),
    detected("agi.ino_blocks", "agi 0; write -d ino_blocks 9"),
    detected("agi.fino_blocks", "agi 0; write -d fino_blocks 9"),
    missed("agi.newino", "agi 0; write -d newino 12345"),
    detected("agi.unlinked", "agi 0; write -d unlinked[5] 69"),
    // Free space.
    detected(
        "bnobt.rec.blockcount",
        "agf 0; addr bnoroot; addr ptrs[1]; addr ptrs[1]; write -d recs[3].blockcount 3",
    ),
    detected(
        "bnobt.rec.startblock",
        "agf 0; addr bnoroot; addr ptrs[1]; addr ptrs[1]; write -d recs[3].startblock 950",
    ),
    detected(
        "bnobt.numrecs",
        "agf 0; addr bnoroot; addr ptrs[1]; addr ptrs[1]; write -d numrecs 87",
    ),
    detected("bnobt.level", "agf 0; addr bnoroot; addr ptrs[1]; addr ptrs[1]; write -d level 1"),
    detected("bnobt.bno", "agf 0; addr bnoroot; addr ptrs[1]; addr ptrs[1]; write -d bno 7"),
    detected(
        "bnobt.uuid",
        "agf 0; addr bnoroot; addr ptrs[1]; write -d uuid 00000000-0000-0000-0000-000000000001",
    ),
    missed("bnobt.key", "agf 0; addr bnoroot; addr ptrs[1]; write -d keys[3].startblock 1369"),
    missed("bnobt.key.root", "agf 0; addr bnoroot; write -d keys[2].startblock 10711"),
    missed(
        "bnobt.leftsib",
        "agf 0; addr bnoroot; addr ptrs[1]; addr ptrs[2]; write -d leftsib 30435",
    ),
    missed(
        "bnobt.rightsib",
        "agf 0; addr bnoroot; addr ptrs[1]; addr ptrs[1]; write -d rightsib 30435",
    ),
    detected(
        "cntbt.rec.blockcount",
        "agf 0; addr cntroot; addr ptrs[1]; addr ptrs[1]; write -d recs[3].blockcount 3",
    ),
    missed("cntbt.key", "agf 0; addr cntroot; addr ptrs[1]; write -d keys[3].startblock 1369"),
    missed(
        "cntbt.rightsib",
        "agf 0; addr cntroot; addr ptrs[1]; addr ptrs[1]; write -d rightsib 30435",
    ),
    // Inode btrees.
    detected("inobt.rec.freecount", "agi 0; addr root; addr ptrs[1]; write -d recs[2].freecount 3"),
    detected("inobt.rec.free", "agi 0; addr root; addr ptrs[1]; write -d recs[2].free 4"),
    detected("inobt.rec.startino", "agi 0; addr root; addr ptrs[1]; write -d recs[4].startino 256"),
    detected("inobt.rec.count", "agi 0; addr root; addr ptrs[1]; write -d recs[2].count 32"),
    detected("inobt.rec.holemask", "agi 0; addr root; addr ptrs[1]; write -d recs[2].holemask 255"),
    missed("inobt.key", "agi 0; addr root; write -d keys[2].startino 63616"),
    missed("inobt.rightsib", "agi 0; addr root; addr ptrs[1]; write -d rightsib 0xffffffff"),
    detected("finobt.rec.freecount", "agi 0; addr free_root; write -d recs[1].freecount 9"),
    detected("finobt.rec.free", "agi 0; addr free_root; write -d recs[1].free 0x1f"),
    // Reverse mappings and reference counts.
    detected(
        "rmapbt.rec.owner",
        "agf 0; addr rmaproot; addr ptrs[1]; addr ptrs[1]; write -d recs[17].owner 404",
    ),
    detected(
        "rmapbt.rec.blockcount",
        "agf 0; addr rmaproot; addr ptrs[1]; addr ptrs[1]; write -d recs[17].blockcount 3",
    ),
    detected(
        "rmapbt.rec.offset",
        "agf 0; addr rmaproot; addr ptrs[1]; addr ptrs[1]; write -d recs[17].offset 1",
    ),
    detected(
        "rmapbt.rec.extentflag",
        "agf 0; addr rmaproot; addr ptrs[1]; addr ptrs[1]; write -d recs[17].extentflag 1",
    ),
    detected(
        "rmapbt.rec.attrfork",
        "agf 0; addr rmaproot; addr ptrs[1]; addr ptrs[1]; write -d recs[17].attrfork 1",
    ),
    detected("rmapbt.key.low", "agf 0; addr rmaproot; write -d keys[3].startblock 2318"),
    detected("rmapbt.key.high", "agf 0; addr rmaproot; write -d keys[3].startblock_hi 2320"),
    missed(
        "rmapbt.rightsib",
        "agf 0; addr rmaproot; addr ptrs[1]; addr ptrs[1]; write -d rightsib 30733",
    ),
    detected(
        "refcntbt.rec.refcount",
        "agf 1; addr refcntroot; addr ptrs[1]; write -d recs[3].refcount 5",
    ),
    detected(
        "refcntbt.rec.blockcount",
        "agf 1; addr refcntroot; addr ptrs[1]; write -d recs[3].blockcount 2",
    ),
    detected(
        "refcntbt.rec.cowflag",
        "agf 1; addr refcntroot; addr ptrs[1]; write -d recs[3].cowflag 1",
    ),
    missed("refcntbt.key", "agf 1; addr refcntroot; write -d keys[2].startblock 34120"),
    missed(
        "refcntbt.rightsib",
        "agf 1; addr refcntroot; addr ptrs[1]; write -d rightsib 0xffffffff",
    ),
    // Inodes.
    detected("inode.magic", "inode {files/sizes/100}; write -d core.magic 0"),
    detected("inode.crc", "inode {files/sizes/100}; write -c core.size 99"),
    detected("inode.version", "inode {files/sizes/100}; write -d core.version 2"),
    detected("inode.inumber", "inode {files/sizes/100}; write -d v3.inumber 131"),
    detected("inode.nlink", "inode {files/sizes/100}; write -d core.nlinkv2 2"),
    detected("inode.nlink.directory", "inode {directories/sizes}; write -d core.nlinkv2 20"),
    detected("inode.nblocks", "inode {files/sizes/8192}; write -d core.nblocks 9"),
    detected("inode.nextents", "inode {files/many-extents/9}; write -d core.nextents 8"),
    detected("inode.naextents", "inode {attributes/counts/30}; write -d core.naextents 2"),
    detected("inode.forkoff", "inode {attributes/counts/30}; write -d core.forkoff 60"),
    detected("inode.format", "inode {files/sizes/8192}; write -d core.format 3"),
    detected("inode.size.directory", "inode {directories/sizes/links100}; write -d core.size 1024"),
    detected("inode.size.symlink", "inode {files/symlinks/1023}; write -d core.size 1000"),
    detected("inode.mode", "inode {files/sizes/8192}; write -d core.mode 040644"),
    detected("inode.next_unlinked", "inode {files/sizes/8192}; write -d next_unlinked 77"),
    detected("inode.reflink.missing", "inode {files/shared/clone3}; write -d v3.reflink 0"),
    detected("inode.realtime", "inode {files/sizes/8192}; write -d core.realtime 1"),
    detected("inode.extsize", "inode {files/sizes/8192}; write -d core.extsize 4"),
    detected("inode.gen", "inode {directories/sizes}; write -d core.gen 1"),
    detected("bmx.startblock", "inode {files/sizes/8192}; write -d u3.bmx[0].startblock 99999999"),
    detected("bmx.blockcount", "inode {files/sizes/8192}; write -d u3.bmx[0].blockcount 7"),
    detected("bmx.order", "inode {files/many-extents/9}; write -d u3.bmx[3].startoff 1"),
    detected(
        "bmbt.root.key",
        "inode {files/many-extents/12000}; write -d u3.bmbt.keys[2].startoff 6964",
    ),
    detected(
        "bmbt.key",
        "inode {files/many-extents/12000}; addr u3.bmbt.ptrs[1]; write -d keys[3].startoff 238",
    ),
    detected(
        "bmbt.rightsib",
        "inode {files/many-extents/12000}; addr u3.bmbt.ptrs[1]; addr ptrs[1]; write -d rightsib 0xffffffffffffffff",
    ),
    detected(
        "bmbt.owner",
        "inode {files/many-extents/12000}; addr u3.bmbt.ptrs[1]; addr ptrs[1]; write -d owner 900",
    ),
    detected(
        "bmbt.rec",
        "inode {files/many-extents/12000}; addr u3.bmbt.ptrs[1]; addr ptrs[1]; write -d recs[3].blockcount 2",
    ),
    // Directories.
    detected(
        "dir.sf.inumber",
        "inode {directories/sizes/links3}; write -d u3.sfdir3.list[0].inumber.i4 67391",
    ),
    detected(
        "dir.sf.parent",
        "inode {directories/sizes/links3}; write -d u3.sfdir3.hdr.parent.i4 64",
    ),
    detected(
        "dir.sf.filetype",
        "inode {directories/sizes/links3}; write -d u3.sfdir3.list[0].filetype 2",
    ),
    detected(
        "dir.sf.offset",
        "inode {directories/sizes/links3}; write -d u3.sfdir3.list[1].offset 0x58",
    ),
    detected("dir.sf.count", "inode {directories/sizes/links3}; write -d u3.sfdir3.hdr.count 2"),
    detected(
        "dir.sf.namelen",
        "inode {directories/sizes/links3}; write -d u3.sfdir3.list[0].namelen 0",
    ),
    detected(
        "dir.sf.name.slash",
        "inode {directories/sizes/links3}; write -d u3.sfdir3.list[0].name \"a/\"",
    ),
    detected(
        "dir.sf.name.twice",
        "inode {directories/sizes/links3}; write -d u3.sfdir3.list[0].name \"f1\"",
    ),
    detected(
        "dir.block.inumber",
        "inode {directories/sizes/links100}; dblock 0; write -d bu[3].inumber 67391",
    ),
    detected(
        "dir.block.dot",
        "inode {directories/sizes/links100}; dblock 0; write -d bu[0].inumber 64",
    ),
    detected(
        "dir.block.dotdot",
        "inode {directories/sizes/links100}; dblock 0; write -d bu[1].inumber 64",
    ),
    detected(
        "dir.block.filetype",
        "inode {directories/sizes/links100}; dblock 0; write -d bu[4].filetype 2",
    ),
    detected(
        "dir.block.tag",
        "inode {directories/sizes/links100}; dblock 0; write -d bu[4].tag 0x88",
    ),
    detected(
        "dir.block.namelen",
        "inode {directories/sizes/links100}; dblock 0; write -d bu[4].namelen 200",
    ),
    detected(
        "dir.block.name",
        "inode {directories/sizes/links100}; dblock 0; write -d bu[4].name \"f/\"",
    ),
    detected(
        "dir.block.bestfree",
        "inode {directories/sizes/links100}; dblock 0; write -d bhdr.bestfree[0].length 0x600",
    ),
    detected(
        "dir.block.owner",
        "inode {directories/sizes/links100}; dblock 0; write -d bhdr.hdr.owner 64",
    ),
    detected(
        "dir.block.leaf.hashval",
        "inode {directories/sizes/links100}; dblock 0; write -d bleaf[5].hashval 0x3335",
    ),
    detected(
        "dir.block.leaf.address",
        "inode {directories/sizes/links100}; dblock 0; write -d bleaf[5].address 0x10",
    ),
    detected(
        "dir.block.tail.stale",
        "inode {directories/sizes/links100}; dblock 0; write -d btail.stale 1",
    ),
    detected(
        "dir.leaf.hashval",
        "inode {directories/sizes/links300}; dblock 33554432; write -d lents[3].hashval 0x3332",
    ),
    detected(
        "dir.leaf.address",
        "inode {directories/sizes/links300}; dblock 33554432; write -d lents[3].address 0x10",
    ),
    detected(
        "dir.leaf.stale",
        "inode {directories/sizes/links300}; dblock 33554432; write -d lhdr.stale 1",
    ),
    detected(
        "dir.leaf.bests",
        "inode {directories/sizes/links300}; dblock 33554432; write -d lbests[1] 0xca8",
    ),
    detected(
        "dir.data.bestfree",
        "inode {directories/sizes/links300}; dblock 4; write -d dhdr.bestfree[0].length 0xc98",
    ),
    detected(
        "dir.node.hashval",
        "inode {directories/sizes/links20000}; dblock 33554432; write -d nbtree[3].hashval 0x160c1806",
    ),
    detected(
        "dir.node.before",
        "inode {directories/sizes/links20000}; dblock 33554432; write -d nbtree[3].before 33554452",
    ),
    detected(
        "dir.leafn.forw",
        "inode {directories/sizes/links20000}; dblock 33554440; write -d lhdr.info.hdr.forw 0",
    ),
    detected(
        "dir.free.bests",
        "inode {directories/sizes/links20000}; dblock 67108864; write -d fbests[117] 0xeb0",
    ),
    detected(
        "dir.free.nused",
        "inode {directories/sizes/links20000}; dblock 67108864; write -d fhdr.nused 100",
    ),
    detected(
        "dir.free.firstdb",
        "inode {directories/sizes/links20000}; dblock 67108864; write -d fhdr.firstdb 7",
    ),
    // Attributes.
    detected("attr.sf.count", "inode {files/sizes/100}; write -d a.sfattr.hdr.count 2"),
    detected("attr.sf.totsize", "inode {files/sizes/100}; write -d a.sfattr.hdr.totsize 30"),
    detected("attr.sf.namelen", "inode {files/sizes/100}; write -d a.sfattr.list[0].namelen 200"),
    detected(
        "attr.leaf.hashval",
        "inode {attributes/counts/300}; ablock 1; write -d entries[3].hashval 0x1db955c1",
    ),
    detected(
        "attr.leaf.nameidx",
        "inode {attributes/counts/300}; ablock 1; write -d entries[3].nameidx 960",
    ),
    detected(
        "attr.leaf.usedbytes",
        "inode {attributes/counts/300}; ablock 1; write -d hdr.usedbytes 300",
    ),
    // A lower `firstused`, or less in `freemap`, is not corrupt: Linux itself leaves that after a
    // split.
    detected(
        "attr.leaf.firstused",
        "inode {attributes/counts/300}; ablock 1; write -d hdr.firstused 1000",
    ),
    missed(
        "attr.leaf.freemap",
        "inode {attributes/counts/300}; ablock 1; write -d hdr.freemap[0].base 80",
    ),
    detected(
        "attr.leaf.namelen",
        "inode {attributes/counts/300}; ablock 1; write -d nvlist[1].namelen 0",
    ),
    detected(
        "attr.leaf.forw",
        "inode {attributes/counts/300}; ablock 1; write -d hdr.info.hdr.forw 0",
    ),
    missed(
        "attr.leaf.owner",
        "inode {attributes/counts/300}; ablock 1; write -d hdr.info.owner 64",
    ),
    detected(
        "attr.node.hashval",
        "inode {attributes/counts/300}; ablock 0; write -d btree[3].hashval 0x55711d59",
    ),
    detected(
        "attr.node.before",
        "inode {attributes/counts/300}; ablock 0; write -d btree[3].before 62",
    ),
    // Parent pointers.
    detected(
        "parent.inumber",
        "inode {files/sizes/100}; write -d a.sfattr.list[0].parent_dir.inumber 64",
    ),
    detected("parent.gen", "inode {files/sizes/100}; write -d a.sfattr.list[0].parent_dir.gen 64"),
    detected("parent.name", "inode {files/sizes/100}; write -d a.sfattr.list[0].name \"101\""),
    // Symbolic links.
    detected("symlink.owner", "inode {files/symlinks/1023}; dblock 0; write -d owner 64"),
    detected("symlink.bytes", "inode {files/symlinks/1023}; dblock 0; write -d bytes 1000"),
    detected("symlink.offset", "inode {files/symlinks/1023}; dblock 0; write -d offset 8"),
];
