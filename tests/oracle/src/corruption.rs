//! Single wrong fields on an otherwise healthy volume, written with `xfs_db`, checksums made right
//! again; and what `xfs_repair -n` and `xfskit check` say about each.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

use crate::image::{Image, Mount, Scratch};
use crate::matrix::{Case, named};
use crate::tools::Xfsprogs;
use crate::trees::{self, Shape};

/// What `xfs_repair -n` makes of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Exits with 1.
    Sees,
    /// Exits with 0: the kernel may still fail on it.
    Blind,
}

/// One wrong field.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Where it is, dotted.
    pub name: &'static str,
    /// What goes there, as `xfs_db` commands divided by `; `. `{PATH}` is that file's inode number.
    pub commands: &'static str,
    /// The verdict of `xfs_repair -n`, 6.1 and 6.13.
    pub repair: Repair,
    /// The check of `xfskit check` that names it.
    pub due: &'static str,
}

/// The volume the faults are written to: blocks of 1 KiB, so that every tree is tall, all features
/// of xfsprogs 6.13, every corner.
pub const VOLUME: &str = "parent-block-1k";
/// The same without what xfsprogs 6.1 does not know.
pub const OLDER_VOLUME: &str = "block-1k";

/// Bytes behind the address of a block in which `xfs_db` may write: no block is longer.
const BLOCK_MAX: usize = 1 << 16;

/// Makes the volume of that name. `None`, with a note, where this machine cannot.
pub fn volume<'s>(scratch: &'s Scratch, name: &str) -> Option<Image<'s>> {
    let plain = named(name);
    let case = Case { shape: Shape { tall: true, ..plain.shape }, ..plain };
    let image = case.filled(scratch)?;
    let mount = case.mount(&image, scratch, "")?;
    trees::tall_groups(mount.path(), &case.shape).expect("the kernel makes tall trees");
    mount.unmount().expect("unmount");
    Some(image)
}

impl Fault {
    /// The `xfs_db` commands with the inode numbers of `image` filled in.
    pub fn commands_for(&self, inodes: &Mount) -> Vec<String> {
        self.commands.split("; ").map(|command| fill_in(command, inodes)).collect()
    }

    /// Writes the fault. Dropping the answer takes it back.
    pub fn write<'i>(&self, tools: &Xfsprogs, image: &'i Image, commands: &[String]) -> Damage<'i> {
        let (write, path) = commands.split_last().expect("at least one command");
        let (write, damage) = differing(tools, image, path, write);
        let commands: Vec<&str> = path.iter().chain([&write]).map(String::as_str).collect();
        let said = tools.db(image, true, &commands).expect(self.name);
        // xfs_db exits with 0 whatever happens, but repeats what it has written.
        assert!(said.contains(" = "), "{}: xfs_db wrote nothing: {said}", self.name);
        damage
    }
}

/// A fault in its place, and the bytes that were there before.
#[derive(Debug)]
pub struct Damage<'i> {
    image: &'i Image<'i>,
    at: u64,
    before: Vec<u8>,
}

impl Drop for Damage<'_> {
    fn drop(&mut self) {
        let file = File::options().write(true).open(self.image.path());
        file.and_then(|file| file.write_all_at(&self.before, self.at)).expect("taken back");
    }
}

/// `write`, with the next number where the field at `path` holds the given one already (the kernel
/// places trees where it likes, and what is wrong on one volume is right on another); and the bytes there.
fn differing<'i>(
    tools: &Xfsprogs,
    image: &'i Image,
    path: &[String],
    write: &str,
) -> (String, Damage<'i>) {
    let (rest, value) = write.rsplit_once(' ').expect("a value");
    let field = rest.rsplit(' ').next().expect("a field");
    let print = format!("print {field}");
    let commands = path.iter().map(String::as_str).chain([print.as_str(), "daddr"]);
    let said = tools.db(image, false, &commands.collect::<Vec<_>>()).expect(&print);
    let (present, place) = said.trim().rsplit_once('\n').expect("two answers");
    let daddr = place.rsplit(' ').next().and_then(|daddr| daddr.parse::<u64>().ok());
    let at = 512 * daddr.expect("an address");
    let mut before = vec![0; BLOCK_MAX];
    File::open(image.path())
        .and_then(|file| file.read_exact_at(&mut before, at))
        .expect("the bytes there");
    let write = match (present.trim().rsplit_once(" = "), value.parse::<u64>()) {
        (Some((_, same)), Ok(number)) if same == value => format!("{rest} {}", number + 1),
        _ => write.to_owned(),
    };
    (write, Damage { image, at, before })
}

fn fill_in(command: &str, inodes: &Mount) -> String {
    let Some((before, rest)) = command.split_once('{') else { return command.to_owned() };
    let (path, after) = rest.split_once('}').expect("a closing brace");
    let ino = inodes.path().join(path).symlink_metadata().expect(path).ino();
    format!("{before}{ino}{after}")
}

/// A fault that both tools see; the check that names it has its name.
const fn seen(name: &'static str, commands: &'static str) -> Fault {
    Fault { name, commands, repair: Repair::Sees, due: name }
}

const fn blind(name: &'static str, commands: &'static str) -> Fault {
    Fault { repair: Repair::Blind, ..seen(name, commands) }
}

impl Fault {
    /// The same, named by the check `due`.
    const fn by(self, due: &'static str) -> Self {
        Self { due, ..self }
    }
}

/// All of them.
pub const FAULTS: &[Fault] = &[
    // Superblocks.
    seen("sb.fdblocks", "sb 0; write -d fdblocks 60000"),
    seen("sb.icount", "sb 0; write -d icount 64"),
    seen("sb.ifree", "sb 0; write -d ifree 1"),
    seen("sb.rootino", "sb 0; write -d rootino 128"),
    seen("sb.inprogress", "sb 0; write -d inprogress 1"),
    seen("sb.secondary.agblocks", "sb 1; write -d agblocks 131071").by("sb.agblocks"),
    seen("sb.secondary.dblocks", "sb 2; write -d dblocks 524287").by("sb.dblocks"),
    seen("sb.secondary.features_ro_compat", "sb 1; write -d features_ro_compat 7").by("sb.features_ro_compat"),
    blind("sb.secondary.rootino", "sb 1; write -d rootino 192").by("sb.rootino"),
    seen("sb.secondary.blocklog", "sb 1; write -d blocklog 11").by("sb.blocklog"),
    seen("sb.secondary.versionnum", "sb 1; write -d versionnum 0xb4a4").by("sb.versionnum"),
    seen("sb.secondary.gquotino", "sb 1; write -d gquotino 99").by("sb.gquotino"),
    seen("sb.agblocks", "sb 0; write -d agblocks 131071"),
    seen("sb.dblocks", "sb 0; write -d dblocks 524287"),
    seen("sb.secondary.crc", "sb 3; write -c icount 5").by("sb.crc"),
    // Heads of the groups.
    seen("agf.freeblks", "agf 0; write -d freeblks 5"),
    seen("agf.longest", "agf 1; write -d longest 5"),
    seen("agf.btreeblks", "agf 1; write -d btreeblks 77"),
    seen("agf.flcount", "agf 1; write -d flcount 3"),
    seen("agf.rmapblocks", "agf 1; write -d rmapblocks 96"),
    seen("agf.refcntblocks", "agf 1; write -d refcntblocks 96"),
    seen("agf.fllast", "agf 1; write -d fllast 100").by("agf.flcount"),
    seen("agf.length", "agf 1; write -d length 131071"),
    seen("agf.seqno", "agf 1; write -d seqno 2"),
    seen("agf.bnolevel", "agf 1; write -d bnolevel 1").by("bnobt.level"),
    seen("agf.crc", "agf 1; write -c longest 5"),
    seen("agi.count", "agi 0; write -d count 64"),
    seen("agi.freecount", "agi 0; write -d freecount 1"),
    seen("agi.ino_blocks", "agi 0; write -d ino_blocks 9"),
    seen("agi.fino_blocks", "agi 0; write -d fino_blocks 9"),
    blind("agi.newino", "agi 0; write -d newino 12345"),
    seen("agi.unlinked", "agi 0; write -d unlinked[5] 69"),
    // Free space.
    seen(
        "bnobt.rec.blockcount",
        "agf 0; addr bnoroot; addr ptrs[1]; addr ptrs[1]; write -d recs[3].blockcount 3",
    ).by("bnobt.overlap"),
    seen(
        "bnobt.rec.startblock",
        "agf 0; addr bnoroot; addr ptrs[1]; addr ptrs[1]; write -d recs[3].startblock 950",
    ).by("bnobt.order"),
    seen("bnobt.numrecs", "agf 0; addr bnoroot; addr ptrs[1]; addr ptrs[1]; write -d numrecs 87").by("bnobt.order"),
    seen("bnobt.level", "agf 0; addr bnoroot; addr ptrs[1]; addr ptrs[1]; write -d level 1"),
    seen("bnobt.bno", "agf 0; addr bnoroot; addr ptrs[1]; addr ptrs[1]; write -d bno 7"),
    seen(
        "bnobt.uuid",
        "agf 0; addr bnoroot; addr ptrs[1]; write -d uuid 00000000-0000-0000-0000-000000000001",
    ),
    blind("bnobt.key", "agf 0; addr bnoroot; addr ptrs[1]; write -d keys[3].startblock 1369"),
    blind("bnobt.key.root", "agf 0; addr bnoroot; write -d keys[2].startblock 10711").by("bnobt.key"),
    blind(
        "bnobt.leftsib",
        "agf 0; addr bnoroot; addr ptrs[1]; addr ptrs[2]; write -d leftsib 30435",
    ),
    blind(
        "bnobt.rightsib",
        "agf 0; addr bnoroot; addr ptrs[1]; addr ptrs[1]; write -d rightsib 30435",
    ),
    seen(
        "cntbt.rec.blockcount",
        "agf 0; addr cntroot; addr ptrs[1]; addr ptrs[1]; write -d recs[3].blockcount 3",
    ).by("cntbt.order"),
    blind("cntbt.key", "agf 0; addr cntroot; addr ptrs[1]; write -d keys[3].startblock 1369"),
    blind(
        "cntbt.rightsib",
        "agf 0; addr cntroot; addr ptrs[1]; addr ptrs[1]; write -d rightsib 30435",
    ),
    // Inode trees.
    seen("inobt.rec.freecount", "agi 0; addr root; addr ptrs[1]; write -d recs[2].freecount 3").by("inobt.freecount"),
    seen("inobt.rec.free", "agi 0; addr root; addr ptrs[1]; write -d recs[2].free 4").by("inobt.free"),
    seen("inobt.rec.startino", "agi 0; addr root; addr ptrs[1]; write -d recs[4].startino 256").by("inode.magic"),
    seen("inobt.rec.count", "agi 0; addr root; addr ptrs[1]; write -d recs[2].count 32").by("inobt.count"),
    seen("inobt.rec.holemask", "agi 0; addr root; addr ptrs[1]; write -d recs[2].holemask 255").by("inobt.holemask"),
    blind("inobt.key", "agi 0; addr root; write -d keys[2].startino 63616"),
    blind("inobt.rightsib", "agi 0; addr root; addr ptrs[1]; write -d rightsib 0xffffffff"),
    seen("finobt.rec.freecount", "agi 0; addr free_root; write -d recs[1].freecount 9").by("finobt.freecount"),
    seen("finobt.rec.free", "agi 0; addr free_root; write -d recs[1].free 0x1f").by("finobt.freecount"),
    // Owners and shared space.
    seen(
        "rmapbt.rec.owner",
        "agf 0; addr rmaproot; addr ptrs[1]; addr ptrs[1]; write -d recs[17].owner 404",
    ).by("rmapbt.missing"),
    seen(
        "rmapbt.rec.blockcount",
        "agf 0; addr rmaproot; addr ptrs[1]; addr ptrs[1]; write -d recs[17].blockcount 3",
    ).by("rmapbt.extent"),
    seen(
        "rmapbt.rec.offset",
        "agf 0; addr rmaproot; addr ptrs[1]; addr ptrs[1]; write -d recs[17].offset 1",
    ).by("rmapbt.missing"),
    seen(
        "rmapbt.rec.extentflag",
        "agf 0; addr rmaproot; addr ptrs[1]; addr ptrs[1]; write -d recs[17].extentflag 1",
    ).by("rmapbt.extent"),
    seen(
        "rmapbt.rec.attrfork",
        "agf 0; addr rmaproot; addr ptrs[1]; addr ptrs[1]; write -d recs[17].attrfork 1",
    ).by("rmapbt.missing"),
    seen("rmapbt.key.low", "agf 0; addr rmaproot; write -d keys[3].startblock 2318").by("rmapbt.key"),
    seen("rmapbt.key.high", "agf 0; addr rmaproot; write -d keys[3].startblock_hi 2320").by("rmapbt.high_key"),
    blind(
        "rmapbt.rightsib",
        "agf 0; addr rmaproot; addr ptrs[1]; addr ptrs[1]; write -d rightsib 30733",
    ),
    seen(
        "refcntbt.rec.refcount",
        "agf 1; addr refcntroot; addr ptrs[1]; write -d recs[3].refcount 5",
    ).by("refcountbt.count"),
    seen(
        "refcntbt.rec.blockcount",
        "agf 1; addr refcntroot; addr ptrs[1]; write -d recs[3].blockcount 2",
    ).by("refcountbt.count"),
    seen(
        "refcntbt.rec.cowflag",
        "agf 1; addr refcntroot; addr ptrs[1]; write -d recs[3].cowflag 1",
    ).by("refcountbt.cow"),
    blind("refcntbt.key", "agf 1; addr refcntroot; write -d keys[2].startblock 34120").by("refcountbt.key"),
    blind(
        "refcntbt.rightsib",
        "agf 1; addr refcntroot; addr ptrs[1]; write -d rightsib 0xffffffff",
    ).by("refcountbt.rightsib"),
    // Inodes.
    seen("inode.magic", "inode {files/sizes/100}; write -d core.magic 0"),
    seen("inode.crc", "inode {files/sizes/100}; write -c core.size 99"),
    seen("inode.version", "inode {files/sizes/100}; write -d core.version 2"),
    seen("inode.inumber", "inode {files/sizes/100}; write -d v3.inumber 131"),
    seen("inode.nlink", "inode {files/sizes/100}; write -d core.nlinkv2 2"),
    seen("inode.nlink.directory", "inode {directories/sizes}; write -d core.nlinkv2 20").by("inode.nlink"),
    seen("inode.nblocks", "inode {files/sizes/8192}; write -d core.nblocks 9"),
    seen("inode.nextents", "inode {files/many-extents/9}; write -d core.nextents 8").by("inode.nblocks"),
    seen("inode.naextents", "inode {attributes/counts/30}; write -d core.naextents 9"),
    seen("inode.forkoff", "inode {attributes/counts/30}; write -d core.forkoff 60"),
    seen("inode.format", "inode {files/sizes/8192}; write -d core.format 3").by("inode.nextents.btree"),
    seen("inode.size.directory", "inode {directories/sizes/links100}; write -d core.size 1024").by("inode.size"),
    seen("inode.size.symlink", "inode {files/symlinks/1023}; write -d core.size 1000").by("symlink.bytes"),
    seen("inode.mode", "inode {files/sizes/8192}; write -d core.mode 040644").by("dir.entry.ftype"),
    seen("inode.mode.none", "inode {files/sizes/8192}; write -d core.mode 0").by("inode.mode"),
    seen("inode.mode.fifo", "inode {files/sizes/8192}; write -d core.mode 010644").by("inode.format"),
    seen("inode.nextents.blank", "inode {files/sizes/8192}; write -d core.nextents 3").by("inode.nextents"),
    seen("inode.flags.rtinherit", "inode {files/sizes/8192}; write -d core.rtinherit 1").by("inode.flags.directory"),
    seen("inode.flags.projinherit", "inode {files/symlinks/1023}; write -d core.projinherit 1").by("inode.flags.directory"),
    seen("inode.flags.nosymlinks", "inode {files/sizes/8192}; write -d core.nosymlinks 1").by("inode.flags.directory"),
    seen("inode.flags.newrtbm", "inode {directories/sizes}; write -d core.newrtbm 1"),
    seen("inode.next_unlinked", "inode {files/sizes/8192}; write -d next_unlinked 77"),
    seen("inode.reflink.missing", "inode {files/shared/clone3}; write -d v3.reflink 0").by("inode.reflink"),
    seen("inode.realtime", "inode {files/sizes/8192}; write -d core.realtime 1").by("inode.flags.realtime"),
    seen("inode.extsize", "inode {files/sizes/8192}; write -d core.extsize 4").by("inode.extsize.unused"),
    seen("inode.gen", "inode {directories/sizes}; write -d core.gen 1").by("parent.mismatch"),
    seen("bmx.startblock", "inode {files/sizes/8192}; write -d u3.bmx[0].startblock 99999999").by("bmbt.rec.startblock"),
    seen("bmx.blockcount", "inode {files/sizes/8192}; write -d u3.bmx[0].blockcount 7").by("inode.nblocks"),
    seen("bmx.order", "inode {files/many-extents/9}; write -d u3.bmx[3].startoff 1").by("bmbt.rec.order"),
    seen(
        "bmbt.root.key",
        "inode {files/many-extents/12000}; write -d u3.bmbt.keys[2].startoff 6964",
    ).by("bmbt.key"),
    seen(
        "bmbt.key",
        "inode {files/many-extents/12000}; addr u3.bmbt.ptrs[1]; write -d keys[3].startoff 238",
    ),
    seen(
        "bmbt.rightsib",
        "inode {files/many-extents/12000}; addr u3.bmbt.ptrs[1]; addr ptrs[1]; write -d rightsib 0xffffffffffffffff",
    ),
    seen(
        "bmbt.owner",
        "inode {files/many-extents/12000}; addr u3.bmbt.ptrs[1]; addr ptrs[1]; write -d owner 900",
    ),
    seen(
        "bmbt.rec",
        "inode {files/many-extents/12000}; addr u3.bmbt.ptrs[1]; addr ptrs[1]; write -d recs[3].blockcount 2",
    ).by("inode.nblocks"),
    // Directories.
    seen(
        "dir.sf.inumber",
        "inode {directories/sizes/links3}; write -d u3.sfdir3.list[0].inumber.i4 67391",
    ).by("inode.nlink"),
    seen("dir.sf.parent", "inode {directories/sizes/links3}; write -d u3.sfdir3.hdr.parent.i4 64").by("dir.dotdot"),
    seen(
        "dir.sf.filetype",
        "inode {directories/sizes/links3}; write -d u3.sfdir3.list[0].filetype 2",
    ).by("dir.entry.ftype"),
    seen(
        "dir.sf.offset",
        "inode {directories/sizes/links3}; write -d u3.sfdir3.list[1].offset 0x58",
    ),
    seen("dir.sf.count", "inode {directories/sizes/links3}; write -d u3.sfdir3.hdr.count 2").by("dir.sf.size"),
    seen(
        "dir.sf.namelen",
        "inode {directories/sizes/links3}; write -d u3.sfdir3.list[0].namelen 0",
    ),
    seen(
        "dir.sf.name.slash",
        "inode {directories/sizes/links3}; write -d u3.sfdir3.list[0].name \"a/\"",
    ).by("dir.name"),
    seen(
        "dir.sf.name.twice",
        "inode {directories/sizes/links3}; write -d u3.sfdir3.list[0].name \"f1\"",
    ).by("dir.dup"),
    seen(
        "dir.block.inumber",
        "inode {directories/sizes/links100}; dblock 0; write -d bu[3].inumber 67391",
    ).by("inode.nlink"),
    seen(
        "dir.block.dot",
        "inode {directories/sizes/links100}; dblock 0; write -d bu[0].inumber 64",
    ).by("dir.data.dot"),
    seen(
        "dir.block.dotdot",
        "inode {directories/sizes/links100}; dblock 0; write -d bu[1].inumber 64",
    ).by("dir.dotdot"),
    seen(
        "dir.block.filetype",
        "inode {directories/sizes/links100}; dblock 0; write -d bu[4].filetype 2",
    ).by("dir.entry.ftype"),
    seen("dir.block.tag", "inode {directories/sizes/links100}; dblock 0; write -d bu[4].tag 0x88").by("dir.data.tag"),
    seen(
        "dir.block.namelen",
        "inode {directories/sizes/links100}; dblock 0; write -d bu[4].namelen 200",
    ).by("dir.data.tag"),
    seen(
        "dir.block.name",
        "inode {directories/sizes/links100}; dblock 0; write -d bu[4].name \"f/\"",
    ).by("dir.block.hashval"),
    seen(
        "dir.block.bestfree",
        "inode {directories/sizes/links100}; dblock 0; write -d bhdr.bestfree[0].length 0x600",
    ).by("dir.data.bestfree"),
    seen(
        "dir.block.owner",
        "inode {directories/sizes/links100}; dblock 0; write -d bhdr.hdr.owner 64",
    ).by("dir.data.owner"),
    seen(
        "dir.block.leaf.hashval",
        "inode {directories/sizes/links100}; dblock 0; write -d bleaf[5].hashval 0x3335",
    ).by("dir.block.order"),
    seen(
        "dir.block.leaf.address",
        "inode {directories/sizes/links100}; dblock 0; write -d bleaf[5].address 0x10",
    ).by("dir.block.hashval"),
    seen(
        "dir.block.tail.stale",
        "inode {directories/sizes/links100}; dblock 0; write -d btail.stale 1",
    ).by("dir.block.stale"),
    seen(
        "dir.leaf.hashval",
        "inode {directories/sizes/links300}; dblock 33554432; write -d lents[3].hashval 0x3332",
    ).by("dir.leaf.missing"),
    seen(
        "dir.leaf.address",
        "inode {directories/sizes/links300}; dblock 33554432; write -d lents[3].address 0x10",
    ).by("dir.leaf.missing"),
    seen(
        "dir.leaf.stale",
        "inode {directories/sizes/links300}; dblock 33554432; write -d lhdr.stale 1",
    ),
    seen(
        "dir.leaf.bests",
        "inode {directories/sizes/links300}; dblock 33554432; write -d lbests[1] 0xca8",
    ),
    seen(
        "dir.data.bestfree",
        "inode {directories/sizes/links300}; dblock 4; write -d dhdr.bestfree[0].length 0xc98",
    ),
    seen(
        "dir.node.hashval",
        "inode {directories/sizes/links20000}; dblock 33554432; write -d nbtree[3].hashval 0x160c1806",
    ).by("da.leaf.hashval"),
    seen(
        "dir.node.before",
        "inode {directories/sizes/links20000}; dblock 33554432; write -d nbtree[3].before 33554452",
    ).by("da.node.before"),
    seen(
        "dir.leafn.forw",
        "inode {directories/sizes/links20000}; dblock 33554440; write -d lhdr.info.hdr.forw 0",
    ).by("dir.leaf.forw"),
    seen(
        "dir.free.bests",
        "inode {directories/sizes/links20000}; dblock 67108864; write -d fbests[117] 0xeb0",
    ),
    seen(
        "dir.free.nused",
        "inode {directories/sizes/links20000}; dblock 67108864; write -d fhdr.nused 100",
    ),
    seen(
        "dir.free.firstdb",
        "inode {directories/sizes/links20000}; dblock 67108864; write -d fhdr.firstdb 7",
    ),
    // Attributes.
    seen("attr.sf.count", "inode {files/sizes/100}; write -d a.sfattr.hdr.count 2"),
    seen("attr.sf.totsize", "inode {files/sizes/100}; write -d a.sfattr.hdr.totsize 30"),
    seen("attr.sf.namelen", "inode {files/sizes/100}; write -d a.sfattr.list[0].namelen 200").by("attr.sf.count"),
    seen(
        "attr.leaf.hashval",
        "inode {attributes/counts/300}; ablock 1; write -d entries[3].hashval 0x1db955c1",
    ),
    seen(
        "attr.leaf.nameidx",
        "inode {attributes/counts/300}; ablock 1; write -d entries[3].nameidx 960",
    ).by("attr.leaf.namelen"),
    seen(
        "attr.leaf.usedbytes",
        "inode {attributes/counts/300}; ablock 1; write -d hdr.usedbytes 300",
    ),
    // A lower `firstused`, or less in `freemap`, is what Linux itself leaves after a split.
    seen(
        "attr.leaf.firstused",
        "inode {attributes/counts/300}; ablock 1; write -d hdr.firstused 1000",
    ),
    blind(
        "attr.leaf.freemap",
        "inode {attributes/counts/300}; ablock 1; write -d hdr.freemap[0].base 80",
    ),
    seen(
        "attr.leaf.namelen",
        "inode {attributes/counts/300}; ablock 1; write -d nvlist[1].namelen 0",
    ),
    seen("attr.leaf.forw", "inode {attributes/counts/300}; ablock 1; write -d hdr.info.hdr.forw 0"),
    blind("attr.leaf.owner", "inode {attributes/counts/300}; ablock 1; write -d hdr.info.owner 64"),
    seen(
        "attr.node.hashval",
        "inode {attributes/counts/300}; ablock 0; write -d btree[3].hashval 0x55711d59",
    ).by("da.leaf.hashval"),
    seen(
        "attr.node.before",
        "inode {attributes/counts/300}; ablock 0; write -d btree[3].before 62",
    ).by("da.node.before"),
    // Parent pointers.
    seen(
        "parent.inumber",
        "inode {files/sizes/100}; write -d a.sfattr.list[0].parent_dir.inumber 64",
    ).by("parent.mismatch"),
    seen("parent.gen", "inode {files/sizes/100}; write -d a.sfattr.list[0].parent_dir.gen 64").by("parent.mismatch"),
    seen("parent.name", "inode {files/sizes/100}; write -d a.sfattr.list[0].name \"101\"").by("parent.mismatch"),
    // Symbolic links.
    seen("symlink.owner", "inode {files/symlinks/1023}; dblock 0; write -d owner 64"),
    seen("symlink.bytes", "inode {files/symlinks/1023}; dblock 0; write -d bytes 1000"),
    seen("symlink.offset", "inode {files/symlinks/1023}; dblock 0; write -d offset 8"),
];
