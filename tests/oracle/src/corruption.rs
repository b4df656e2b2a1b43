//! Single wrong fields on an otherwise healthy volume, written with `xfs_db`, checksums made right
//! again; and what `xfs_repair -n` and `xfskit check` say about each.

use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};

use xfskit_test_support::image::{Image, Mount, Scratch};
use xfskit_test_support::matrix::{Case, named};
use xfskit_test_support::tools::Xfsprogs;
use xfskit_test_support::trees::{self, Shape};

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
    /// Whether `xfs_repair -n` reports it, 6.1 and 6.13.
    pub repair: Repair,
    /// The check of `xfskit check` that names it.
    pub due: &'static str,
}

/// The volume that takes the faults. It has all features of xfsprogs 6.13, all corner cases, and
/// blocks of 1 KiB, so that every tree is tall.
pub const VOLUME: &str = "parent-block-1k";
/// The volume without features that xfsprogs 6.1 does not know.
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

impl InjectedFault {
    /// Returns the `xfs_db` commands with the inode numbers of `inodes` filled in.
    pub fn commands_for(&self, inodes: &Mount) -> Vec<String> {
        self.commands.split("; ").map(|command| fill_in(command, inodes)).collect()
    }

    /// Writes the fault. Dropping the answer takes it back. `None` where the volume has no such
    /// field, because a tree is not as tall as the table has it.
    ///
    /// # Panics
    /// If `xfs_db` writes nothing for another reason.
    pub fn write<'i>(
        &self,
        tools: &Xfsprogs,
        image: &'i Image,
        commands: &[String],
    ) -> Option<Damage<'i>> {
        let (write, path) = commands.split_last().expect("at least one command");
        let (write, damage) = differing(tools, image, path, write);
        let commands: Vec<&str> = path.iter().chain([&write]).map(String::as_str).collect();
        let said = tools.db(image, true, &commands).expect(self.name);
        // xfs_db exits with 0 whatever happens, but repeats what it has written.
        let absent = said.contains("field ") && said.contains(" not found");
        assert!(absent || said.contains(" = "), "{}: xfs_db wrote nothing: {said}", self.name);
        (!absent).then_some(damage)
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
/// places trees where it likes, and what is wrong on one volume is right on another); and the bytes
/// there.
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
const fn detected(name: &'static str, commands: &'static str) -> InjectedFault {
    InjectedFault { name, commands, repair: Repair::Detects, due: name }
}

const fn missed(name: &'static str, commands: &'static str) -> InjectedFault {
    InjectedFault { repair: Repair::Misses, ..detected(name, commands) }
}

impl InjectedFault {
    /// Expects the check `due`.
    const fn by(self, due: &'static str) -> Self {
        Self { due, ..self }
    }
}

/// All injected faults.
pub const INJECTED_FAULTS: &[InjectedFault] = &[
    // Superblocks.
    detected("sb.fdblocks", "sb 0; write -d fdblocks 60000"),
    detected("sb.icount", "sb 0; write -d icount 64"),
    detected("sb.ifree", "sb 0; write -d ifree 1"),
    detected("sb.rootino", "sb 0; write -d rootino 128"),
    detected("sb.inprogress", "sb 0; write -d inprogress 1"),
    detected("sb.secondary.agblocks", "sb 1; write -d agblocks 131071").by("sb.agblocks"),
    detected("sb.secondary.dblocks", "sb 2; write -d dblocks 524287").by("sb.dblocks"),
    detected("sb.secondary.features_ro_compat", "sb 1; write -d features_ro_compat 7").by("sb.features_ro_compat"),
    missed("sb.secondary.rootino", "sb 1; write -d rootino 192").by("sb.rootino"),
    detected("sb.secondary.blocklog", "sb 1; write -d blocklog 11").by("sb.blocklog"),
    detected("sb.secondary.versionnum", "sb 1; write -d versionnum 0xb4a4").by("sb.versionnum"),
    detected("sb.secondary.gquotino", "sb 1; write -d gquotino 99").by("sb.gquotino"),
    detected("sb.agblocks", "sb 0; write -d agblocks 131071"),
    detected("sb.dblocks", "sb 0; write -d dblocks 524287"),
    detected("sb.secondary.crc", "sb 3; write -c icount 5").by("sb.crc"),
    // Heads of the groups.
    detected("agf.freeblks", "agf 0; write -d freeblks 5"),
    detected("agf.longest", "agf 1; write -d longest 5"),
    detected("agf.btreeblks", "agf 1; write -d btreeblks 77"),
    detected("agf.flcount", "agf 1; write -d flcount 3"),
    detected("agf.rmapblocks", "agf 1; write -d rmapblocks 96"),
    detected("agf.refcntblocks", "agf 1; write -d refcntblocks 96"),
    detected("agf.fllast", "agf 1; write -d fllast 100").by("agf.flcount"),
    detected("agf.length", "agf 1; write -d length 131071"),
    detected("agf.seqno", "agf 1; write -d seqno 2"),
    detected("agf.bnolevel", "agf 1; write -d bnolevel 1").by("bnobt.level"),
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
    ).by("bnobt.overlap"),
    detected(
        "bnobt.rec.startblock",
        "agf 0; addr bnoroot; addr ptrs[1]; addr ptrs[1]; write -d recs[3].startblock 950",
    ).by("bnobt.order"),
    detected("bnobt.numrecs", "agf 0; addr bnoroot; addr ptrs[1]; addr ptrs[1]; write -d numrecs 87"),
    detected("bnobt.level", "agf 0; addr bnoroot; addr ptrs[1]; addr ptrs[1]; write -d level 1"),
    detected("bnobt.bno", "agf 0; addr bnoroot; addr ptrs[1]; addr ptrs[1]; write -d bno 7"),
    detected(
        "bnobt.uuid",
        "agf 0; addr bnoroot; addr ptrs[1]; write -d uuid 00000000-0000-0000-0000-000000000001",
    ),
    missed("bnobt.key", "agf 0; addr bnoroot; addr ptrs[1]; write -d keys[3].startblock 1369"),
    missed("bnobt.key.root", "agf 0; addr bnoroot; write -d keys[2].startblock 10711").by("bnobt.key"),
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
    ).by("cntbt.order"),
    missed("cntbt.key", "agf 0; addr cntroot; addr ptrs[1]; write -d keys[3].startblock 1369"),
    missed(
        "cntbt.rightsib",
        "agf 0; addr cntroot; addr ptrs[1]; addr ptrs[1]; write -d rightsib 30435",
    ),
    // Inode trees.
    detected("inobt.rec.freecount", "agi 0; addr root; addr ptrs[1]; write -d recs[2].freecount 3").by("inobt.freecount"),
    detected("inobt.rec.free", "agi 0; addr root; addr ptrs[1]; write -d recs[2].free 4").by("inobt.free"),
    detected("inobt.rec.startino", "agi 0; addr root; addr ptrs[1]; write -d recs[4].startino 256").by("inobt.chunk"),
    detected("inobt.rec.count", "agi 0; addr root; addr ptrs[1]; write -d recs[2].count 32").by("inobt.count"),
    detected("inobt.rec.holemask", "agi 0; addr root; addr ptrs[1]; write -d recs[2].holemask 255").by("inobt.holemask"),
    missed("inobt.key", "agi 0; addr root; write -d keys[2].startino 63616"),
    missed("inobt.rightsib", "agi 0; addr root; addr ptrs[1]; write -d rightsib 0xffffffff"),
    detected("finobt.rec.freecount", "agi 0; addr free_root; write -d recs[1].freecount 9").by("finobt.freecount"),
    detected("finobt.rec.free", "agi 0; addr free_root; write -d recs[1].free 0x1f").by("finobt.freecount"),
    // Owners and shared space.
    detected(
        "rmapbt.rec.owner",
        "agf 0; addr rmaproot; addr ptrs[1]; addr ptrs[1]; write -d recs[17].owner 404",
    ).by("rmapbt.missing"),
    detected(
        "rmapbt.rec.blockcount",
        "agf 0; addr rmaproot; addr ptrs[1]; addr ptrs[1]; write -d recs[17].blockcount 3",
    ).by("rmapbt.extent"),
    detected(
        "rmapbt.rec.offset",
        "agf 0; addr rmaproot; addr ptrs[1]; addr ptrs[1]; write -d recs[17].offset 1",
    ).by("rmapbt.missing"),
    detected(
        "rmapbt.rec.extentflag",
        "agf 0; addr rmaproot; addr ptrs[1]; addr ptrs[1]; write -d recs[17].extentflag 1",
    ).by("rmapbt.extent"),
    detected(
        "rmapbt.rec.attrfork",
        "agf 0; addr rmaproot; addr ptrs[1]; addr ptrs[1]; write -d recs[17].attrfork 1",
    ).by("rmapbt.missing"),
    detected("rmapbt.key.low", "agf 0; addr rmaproot; write -d keys[3].startblock 2318").by("rmapbt.key"),
    detected("rmapbt.key.high", "agf 0; addr rmaproot; write -d keys[3].startblock_hi 2320").by("rmapbt.high_key"),
    missed(
        "rmapbt.rightsib",
        "agf 0; addr rmaproot; addr ptrs[1]; addr ptrs[1]; write -d rightsib 30733",
    ),
    detected(
        "refcntbt.rec.refcount",
        "agf 1; addr refcntroot; addr ptrs[1]; write -d recs[3].refcount 5",
    ).by("refcountbt.count"),
    detected(
        "refcntbt.rec.blockcount",
        "agf 1; addr refcntroot; addr ptrs[1]; write -d recs[3].blockcount 2",
    ).by("refcountbt.count"),
    detected(
        "refcntbt.rec.cowflag",
        "agf 1; addr refcntroot; addr ptrs[1]; write -d recs[3].cowflag 1",
    ).by("refcountbt.cow"),
    detected("refcntbt.key", "agf 1; addr refcntroot; write -d keys[2].startblock 34120").by("refcountbt.key"),
    missed(
        "refcntbt.rightsib",
        "agf 1; addr refcntroot; addr ptrs[1]; write -d rightsib 0xffffffff",
    ).by("refcountbt.rightsib"),
    // Inodes.
    detected("inode.magic", "inode {files/sizes/100}; write -d core.magic 0"),
    detected("inode.crc", "inode {files/sizes/100}; write -c core.size 99"),
    detected("inode.version", "inode {files/sizes/100}; write -d core.version 2"),
    detected("inode.inumber", "inode {files/sizes/100}; write -d v3.inumber 131"),
    detected("inode.nlink", "inode {files/sizes/100}; write -d core.nlinkv2 2"),
    detected("inode.nlink.directory", "inode {directories/sizes}; write -d core.nlinkv2 20").by("inode.nlink"),
    detected("inode.nblocks", "inode {files/sizes/8192}; write -d core.nblocks 9"),
    detected("inode.nextents", "inode {files/many-extents/9}; write -d core.nextents 8").by("inode.nblocks"),
    detected("inode.naextents", "inode {attributes/counts/30}; write -d core.naextents 9"),
    detected("inode.forkoff", "inode {attributes/counts/30}; write -d core.forkoff 60"),
    detected("inode.format", "inode {files/sizes/8192}; write -d core.format 3"),
    detected("inode.size.directory", "inode {directories/sizes/links100}; write -d core.size 1024").by("inode.size"),
    detected("inode.size.symlink", "inode {files/symlinks/1023}; write -d core.size 1000").by("symlink.bytes"),
    detected("inode.mode", "inode {files/sizes/8192}; write -d core.mode 040644").by("dir.entry.ftype"),
    detected("inode.mode.none", "inode {files/sizes/8192}; write -d core.mode 0").by("inode.mode"),
    detected("inode.mode.fifo", "inode {files/sizes/8192}; write -d core.mode 010644").by("inode.format"),
    detected("inode.nextents.blank", "inode {files/sizes/8192}; write -d core.nextents 3").by("inode.nextents"),
    detected("inode.flags.rtinherit", "inode {files/sizes/8192}; write -d core.rtinherit 1").by("inode.flags.directory"),
    detected("inode.flags.projinherit", "inode {files/symlinks/1023}; write -d core.projinherit 1").by("inode.flags.directory"),
    detected("inode.flags.nosymlinks", "inode {files/sizes/8192}; write -d core.nosymlinks 1").by("inode.flags.directory"),
    detected("inode.flags.newrtbm", "inode {directories/sizes}; write -d core.newrtbm 1"),
    detected("inode.next_unlinked", "inode {files/sizes/8192}; write -d next_unlinked 77"),
    detected("inode.reflink.missing", "inode {files/shared/clone3}; write -d v3.reflink 0").by("inode.reflink"),
    detected("inode.realtime", "inode {files/sizes/8192}; write -d core.realtime 1").by("inode.flags.realtime"),
    detected("inode.extsize", "inode {files/sizes/8192}; write -d core.extsize 4").by("inode.extsize.unused"),
    detected("inode.gen", "inode {directories/sizes}; write -d core.gen 1").by("parent.mismatch"),
    detected("bmx.startblock", "inode {files/sizes/8192}; write -d u3.bmx[0].startblock 99999999").by("bmbt.rec.startblock"),
    detected("bmx.blockcount", "inode {files/sizes/8192}; write -d u3.bmx[0].blockcount 7").by("inode.nblocks"),
    detected("bmx.order", "inode {files/many-extents/9}; write -d u3.bmx[3].startoff 1").by("bmbt.rec.order"),
    detected(
        "bmbt.root.key",
        "inode {files/many-extents/12000}; write -d u3.bmbt.keys[2].startoff 6964",
    ).by("bmbt.key"),
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
    ).by("inode.nblocks"),
    // Directories.
    detected(
        "dir.sf.inumber",
        "inode {directories/sizes/links3}; write -d u3.sfdir3.list[0].inumber.i4 67391",
    ).by("inode.nlink"),
    detected("dir.sf.parent", "inode {directories/sizes/links3}; write -d u3.sfdir3.hdr.parent.i4 64").by("dir.dotdot"),
    detected(
        "dir.sf.filetype",
        "inode {directories/sizes/links3}; write -d u3.sfdir3.list[0].filetype 2",
    ).by("dir.entry.ftype"),
    detected(
        "dir.sf.offset",
        "inode {directories/sizes/links3}; write -d u3.sfdir3.list[1].offset 0x58",
    ),
    detected("dir.sf.count", "inode {directories/sizes/links3}; write -d u3.sfdir3.hdr.count 2").by("dir.sf.size"),
    detected(
        "dir.sf.namelen",
        "inode {directories/sizes/links3}; write -d u3.sfdir3.list[0].namelen 0",
    ),
    detected(
        "dir.sf.name.slash",
        "inode {directories/sizes/links3}; write -d u3.sfdir3.list[0].name \"a/\"",
    ).by("dir.name"),
    detected(
        "dir.sf.name.twice",
        "inode {directories/sizes/links3}; write -d u3.sfdir3.list[0].name \"f1\"",
    ).by("dir.dup"),
    detected(
        "dir.block.inumber",
        "inode {directories/sizes/links100}; dblock 0; write -d bu[3].inumber 67391",
    ).by("inode.nlink"),
    detected(
        "dir.block.dot",
        "inode {directories/sizes/links100}; dblock 0; write -d bu[0].inumber 64",
    ).by("dir.data.dot"),
    detected(
        "dir.block.dotdot",
        "inode {directories/sizes/links100}; dblock 0; write -d bu[1].inumber 64",
    ).by("dir.dotdot"),
    detected(
        "dir.block.filetype",
        "inode {directories/sizes/links100}; dblock 0; write -d bu[4].filetype 2",
    ).by("dir.entry.ftype"),
    detected("dir.block.tag", "inode {directories/sizes/links100}; dblock 0; write -d bu[4].tag 0x88").by("dir.data.tag"),
    detected(
        "dir.block.namelen",
        "inode {directories/sizes/links100}; dblock 0; write -d bu[4].namelen 200",
    ).by("dir.data.namelen"),
    detected(
        "dir.block.name",
        "inode {directories/sizes/links100}; dblock 0; write -d bu[4].name \"f/\"",
    ).by("dir.name"),
    detected(
        "dir.block.bestfree",
        "inode {directories/sizes/links100}; dblock 0; write -d bhdr.bestfree[0].length 0x600",
    ).by("dir.data.bestfree"),
    detected(
        "dir.block.owner",
        "inode {directories/sizes/links100}; dblock 0; write -d bhdr.hdr.owner 64",
    ).by("dir.data.owner"),
    detected(
        "dir.block.leaf.hashval",
        "inode {directories/sizes/links100}; dblock 0; write -d bleaf[5].hashval 0x3335",
    ).by("dir.block.order"),
    detected(
        "dir.block.leaf.address",
        "inode {directories/sizes/links100}; dblock 0; write -d bleaf[5].address 0x10",
    ).by("dir.block.hashval"),
    detected(
        "dir.block.tail.stale",
        "inode {directories/sizes/links100}; dblock 0; write -d btail.stale 1",
    ).by("dir.block.stale"),
    detected(
        "dir.leaf.hashval",
        "inode {directories/sizes/links300}; dblock 33554432; write -d lents[3].hashval 0x3332",
    ).by("dir.leaf.missing"),
    detected(
        "dir.leaf.address",
        "inode {directories/sizes/links300}; dblock 33554432; write -d lents[3].address 0x10",
    ).by("dir.leaf.missing"),
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
    ).by("da.node.hashval"),
    detected(
        "dir.node.before",
        "inode {directories/sizes/links20000}; dblock 33554432; write -d nbtree[3].before 33554452",
    ).by("da.node.before"),
    detected(
        "dir.leafn.forw",
        "inode {directories/sizes/links20000}; dblock 33554440; write -d lhdr.info.hdr.forw 0",
    ).by("dir.leaf.forw"),
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
    ).by("da.node.hashval"),
    detected(
        "attr.node.before",
        "inode {attributes/counts/300}; ablock 0; write -d btree[3].before 62",
    ).by("da.node.before"),
    // Parent pointers.
    detected(
        "parent.inumber",
        "inode {files/sizes/100}; write -d a.sfattr.list[0].parent_dir.inumber 64",
    ).by("parent.mismatch"),
    detected("parent.gen", "inode {files/sizes/100}; write -d a.sfattr.list[0].parent_dir.gen 64").by("parent.mismatch"),
    detected("parent.name", "inode {files/sizes/100}; write -d a.sfattr.list[0].name \"101\"").by("parent.mismatch"),
    // Symbolic links.
    detected("symlink.owner", "inode {files/symlinks/1023}; dblock 0; write -d owner 64"),
    detected("symlink.bytes", "inode {files/symlinks/1023}; dblock 0; write -d bytes 1000"),
    detected("symlink.offset", "inode {files/symlinks/1023}; dblock 0; write -d offset 8"),
];
