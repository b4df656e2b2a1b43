//! Finds the structures on the volume.

use xfskit_block::{FileDevice, OpenMode};
use xfskit_format::agbtree::{self, Tree};
use xfskit_format::bytes::{be16, be32, be64};
use xfskit_format::inode::{Dinode, Format};
use xfskit_format::log::record::RecordHeader;
use xfskit_format::{Fork, Layout, bmbt};
use xfskit_inspect::{headers, trees};
use xfskit_log::Log;
use xfskit_units::{AgBlock, AgNumber, FsBlock, Ino, index};

use crate::base::Base;
use crate::fields::{self, Field};
use crate::populate::Inodes;

/// The checksum of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// A CRC of the whole structure, at this byte of it.
    At(usize),
    /// That of a journal record with so many header blocks.
    Record(usize),
}

impl Checksum {
    /// Makes the checksum right.
    pub fn update(self, object: &mut [u8]) {
        match self {
            Self::At(field) => xfskit_crc::update(object, field),
            Self::Record(headers) => xfskit_format::log::record::sum(object, headers),
        }
    }

    /// Returns the byte of the field.
    pub fn offset(self) -> usize {
        match self {
            Self::At(field) => field,
            Self::Record(_) => 32,
        }
    }
}

/// A structure on the volume.
#[derive(Clone, Debug)]
pub struct Structure {
    /// Its name.
    pub name: String,
    /// Its first byte on the volume.
    pub offset: u64,
    /// Its length in bytes: all that the checksum covers.
    pub len: usize,
    /// Its checksum.
    pub checksum: Checksum,
    /// Its fields.
    pub fields: Vec<Field>,
}

type Found<T> = Result<T, String>;

/// Returns all structures.
///
/// # Errors
/// One was not made, or cannot be read.
pub fn all(base: &Base, inodes: &Inodes) -> Found<Vec<Structure>> {
    let mut finder = Finder { base, inodes, found: Vec::new() };
    finder.headers()?;
    for tree in Tree::ALL.into_iter().filter(|tree| tree.exists(&base.geo)) {
        finder.tree(tree)?;
    }
    finder.inodes()?;
    finder.extent_maps()?;
    finder.directories()?;
    finder.attributes()?;
    finder.journal()?;
    Ok(finder.found)
}

struct Finder<'b> {
    base: &'b Base,
    inodes: &'b Inodes,
    found: Vec<Structure>,
}

/// Byte of the forks in an inode of version 3.
const LITERAL: usize = 176;

impl Finder<'_> {
    fn add(&mut self, name: &str, at: (u64, usize), crc: usize, fields: Vec<Field>) {
        let (offset, len) = at;
        let checksum = Checksum::At(crc);
        self.found.push(Structure { name: name.to_owned(), offset, len, checksum, fields });
    }

    fn header(&self, agno: u32, index: u32) -> (u64, usize) {
        let geo = &self.base.geo;
        (geo.ag_header_daddr(AgNumber(agno), index).0 * 512, geo.sectsize())
    }

    fn headers(&mut self) -> Found<()> {
        for (name, agno) in [("sb.primary", 0), ("sb.secondary", 1)] {
            let mut list = Vec::new();
            fields::inspect(&mut list, headers::SB);
            self.add(name, self.header(agno, 0), 224, list);
        }
        let mut agf = Vec::new();
        fields::inspect(&mut agf, headers::AGF);
        self.add("agf", self.header(0, 1), 216, agf);
        let mut agi = Vec::new();
        fields::inspect(&mut agi, headers::AGI);
        fields::inspect(&mut agi, headers::AGI_TAIL);
        for bucket in [0, 63] {
            fields::bytes(&mut agi, format!("unlinked[{bucket}]"), 40 + 4 * bucket, 4);
        }
        self.add("agi", self.header(0, 2), 312, agi);
        let agf = self.base.bytes(self.header(0, 1).0, 512)?;
        let mut agfl = Vec::new();
        fields::inspect(&mut agfl, headers::AGFL);
        for at in [40, 44].map(|at| be32(&agf, at).unwrap_or(0)) {
            fields::bytes(&mut agfl, format!("bno[{at}]"), 36 + 4 * at as usize, 4);
        }
        self.add("agfl", self.header(0, 3), 32, agfl);
        Ok(())
    }

    fn block(&self, agno: u32, agbno: u32) -> (u64, usize) {
        let geo = &self.base.geo;
        (geo.agb_to_daddr(AgNumber(agno), AgBlock(agbno)).0 * 512, geo.blocksize())
    }

    /// Adds the root of the tree in group 0, and a leaf below it.
    fn tree(&mut self, tree: Tree) -> Found<()> {
        let geo = &self.base.geo;
        let (header, root) = match tree {
            Tree::Bno => (1, 16),
            Tree::Cnt => (1, 20),
            Tree::Rmap => (1, 24),
            Tree::Refcount => (1, 88),
            Tree::Ino => (2, 20),
            Tree::Fino => (2, 328),
        };
        let bytes = self.base.bytes(self.header(0, header).0, 512)?;
        let mut agbno = be32(&bytes, root).unwrap_or(0);
        let start = Layout::of(geo).short_header;
        let mut part = "root";
        loop {
            let at = self.block(0, agbno);
            let block = self.base.bytes(at.0, at.1)?;
            let level = be16(&block, 4).unwrap_or(0);
            let count = usize::from(be16(&block, 6).unwrap_or(0));
            let max = tree.maxrecs(geo, level);
            let mut list = Vec::new();
            fields::inspect(&mut list, trees::SHORT);
            fields::inspect(&mut list, trees::SHORT_V5);
            if level == 0 {
                fields::tree_records(&mut list, tree, start, count.min(max));
            } else {
                fields::tree_children(&mut list, tree, start, count.min(max), max);
            }
            let name = format!("{}.{part}", tree.ids().tree);
            self.add(&name, at, agbtree::CRC_OFFSET, list);
            if level == 0 {
                return Ok(());
            }
            agbno = be32(&block, start + tree.key_len() * max).unwrap_or(0);
            part = if level == 1 { "leaf" } else { "node" };
        }
    }

    fn inode(&self, path: &str) -> Found<((u64, usize), Vec<u8>)> {
        let geo = &self.base.geo;
        let ino = *self.inodes.get(path).ok_or_else(|| format!("{path} was not made"))?;
        let offset = geo.ino_to_byte(Ino(ino)).ok_or("an inode outside of the volume")?.0;
        let bytes = self.base.bytes(offset, geo.inodesize())?;
        Ok(((offset, geo.inodesize()), bytes))
    }

    fn inodes(&mut self) -> Found<()> {
        for (name, path) in [
            ("inode.file", "f_extents"),
            ("inode.dir", "d_block"),
            ("inode.symlink", "l_remote"),
            ("inode.device", "s_char"),
        ] {
            let mut list = Vec::new();
            fields::rows(&mut list, "", 0, fields::INODE);
            if path == "s_char" {
                fields::bytes(&mut list, "u3.dev".into(), LITERAL, 4);
            }
            let (at, _) = self.inode(path)?;
            self.add(name, at, 100, list);
        }
        let mut list = Vec::new();
        let (at, bytes) = self.inode("l_local")?;
        let size = be64(&bytes, 56).unwrap_or(0);
        fields::bytes(&mut list, "u3.symlink".into(), LITERAL, index(size));
        self.add("symlink.local", at, 100, list);
        Ok(())
    }

    fn extent_maps(&mut self) -> Found<()> {
        let geo = &self.base.geo;
        for (name, path) in [("extents.file", "f_extents"), ("extents.unwritten", "f_unwritten")] {
            let (at, bytes) = self.inode(path)?;
            let inode = Dinode::parse(&bytes, geo).ok_or("an inode")?;
            let mut list = Vec::new();
            fields::extents(&mut list, "u3.bmx", LITERAL, index(inode.nextents()));
            self.add(name, at, 100, list);
        }
        for (kind, path) in [("file", "f_btree"), ("dir", "d_btree")] {
            let (at, bytes) = self.inode(path)?;
            let inode = Dinode::parse(&bytes, geo).ok_or("an inode")?;
            if inode.format() != Some(Format::Btree) {
                return Err(format!("{path} has no btree, but {:?}", inode.format()));
            }
            let count = usize::from(be16(&bytes, LITERAL + 2).unwrap_or(0));
            let max = bmbt::root_maxrecs(inode.data_fork().len());
            let mut list = Vec::new();
            fields::bytes(&mut list, "u3.bmbt.level".into(), LITERAL, 2);
            fields::bytes(&mut list, "u3.bmbt.numrecs".into(), LITERAL + 2, 2);
            fields::long_children(&mut list, LITERAL + 4, count, max);
            self.add(&format!("bmbt.root.{kind}"), at, 100, list);
            let child = be64(&bytes, LITERAL + 4 + 8 * max).unwrap_or(0);
            self.bmbt_block(&format!("bmbt.leaf.{kind}"), child)?;
        }
        Ok(())
    }

    fn fsblock(&self, fsbno: u64) -> Found<u64> {
        let byte = self.base.geo.fsb_to_byte(FsBlock(fsbno));
        byte.map(|byte| byte.0).ok_or_else(|| format!("block {fsbno} outside of the volume"))
    }

    fn bmbt_block(&mut self, name: &str, fsbno: u64) -> Found<()> {
        let geo = &self.base.geo;
        let at = (self.fsblock(fsbno)?, geo.blocksize());
        let block = self.base.bytes(at.0, at.1)?;
        let count = usize::from(be16(&block, 6).unwrap_or(0));
        let start = Layout::of(geo).long_header;
        let mut list = Vec::new();
        fields::inspect(&mut list, trees::LONG);
        fields::inspect(&mut list, trees::LONG_V5);
        if be16(&block, 4) == Some(0) {
            fields::extents(&mut list, "recs", start, count);
        } else {
            fields::long_children(&mut list, start, count, bmbt::maxrecs(geo));
        }
        self.add(name, at, bmbt::CRC_OFFSET, list);
        Ok(())
    }

    /// Returns the blocks of a fork: those of `width` file blocks that begin an extent or lie
    /// `width` further, with their first byte on the volume.
    fn fork_blocks(&self, path: &str, fork: Fork, width: u64) -> Found<Vec<(u64, Vec<u8>)>> {
        let geo = &self.base.geo;
        let (_, bytes) = self.inode(path)?;
        let inode = Dinode::parse(&bytes, geo).ok_or("an inode")?;
        if inode.fork_format(fork) != Some(Format::Extents) {
            return Err(format!("{path}: {fork:?} fork in {:?}", inode.fork_format(fork)));
        }
        let room = inode.fork(fork).unwrap_or(&[]);
        let mut blocks = Vec::new();
        for record in bmbt::records(room, index(inode.fork_nextents(fork))) {
            let extent = record.decode();
            let whole = extent.blockcount.0 / width * width;
            for step in (0..whole).step_by(index(width)) {
                let at = self.fsblock(extent.startblock.0 + step)?;
                blocks.push((at, self.base.bytes(at, geo.blocksize() * index(width))?));
            }
        }
        Ok(blocks)
    }

    /// Adds the first block of a fork with this magic at byte `at`, or fails.
    fn with_magic(
        blocks: &[(u64, Vec<u8>)],
        at: usize,
        magic: &[u8],
        name: &str,
    ) -> Found<(u64, Vec<u8>)> {
        let has = |bytes: &[u8]| bytes.get(at..at + magic.len()) == Some(magic);
        let found = blocks.iter().find(|(_, bytes)| has(bytes));
        found.cloned().ok_or_else(|| format!("{name}: none was made"))
    }

    fn directories(&mut self) -> Found<()> {
        let (at, bytes) = self.inode("d_short")?;
        let mut list = Vec::new();
        short_directory(&mut list, &bytes);
        self.add("dir.short", at, 100, list);
        let width = u64::from(self.base.geo.dirblkfsbs());
        let blocks = self.fork_blocks("d_block", Fork::Data, width)?;
        let (at, block) = Self::with_magic(&blocks, 0, b"XDB3", "dir.block")?;
        let mut list = Vec::new();
        data_block(&mut list, &block);
        let tail = block.len() - 8;
        let count = be32(&block, tail).unwrap_or(0) as usize;
        for i in [0, count / 2] {
            let entry = tail - 8 * (count - i);
            fields::bytes(&mut list, format!("leaf[{i}].hashval"), entry, 4);
            fields::bytes(&mut list, format!("leaf[{i}].address"), entry + 4, 4);
        }
        fields::bytes(&mut list, "tail.count".into(), tail, 4);
        fields::bytes(&mut list, "tail.stale".into(), tail + 4, 4);
        self.add("dir.block", (at, block.len()), 4, list);
        let leaf = self.fork_blocks("d_leaf", Fork::Data, width)?;
        let node = self.fork_blocks("d_node", Fork::Data, width)?;
        let (at, block) = Self::with_magic(&leaf, 0, b"XDD3", "dir.data")?;
        let mut list = Vec::new();
        data_block(&mut list, &block);
        self.add("dir.data", (at, block.len()), 4, list);
        for (name, blocks, magic) in [
            ("dir.leaf", &leaf, [0x3d, 0xf1]),
            ("dir.leafn", &node, [0x3d, 0xff]),
            ("dir.node", &node, [0x3e, 0xbe]),
        ] {
            let (at, block) = Self::with_magic(blocks, 8, &magic, name)?;
            let mut list = Vec::new();
            fields::rows(&mut list, "", 0, fields::DA);
            hash_block(&mut list, name, &block);
            self.add(name, (at, block.len()), 12, list);
        }
        let (at, block) = Self::with_magic(&node, 0, b"XDF3", "dir.free")?;
        let mut list = Vec::new();
        fields::rows(&mut list, "", 0, fields::DIR_FREE);
        self.add("dir.free", (at, block.len()), 4, list);
        Ok(())
    }

    fn attributes(&mut self) -> Found<()> {
        let (at, bytes) = self.inode("a_short")?;
        let start = LITERAL + 8 * usize::from(bytes.get(82).copied().unwrap_or(0));
        let mut list = Vec::new();
        for (name, byte, len) in [
            ("a.hdr.totsize", 0, 2),
            ("a.hdr.count", 2, 1),
            ("a.list[0].namelen", 4, 1),
            ("a.list[0].valuelen", 5, 1),
            ("a.list[0].flags", 6, 1),
            ("a.list[0].name", 7, 8),
        ] {
            fields::bytes(&mut list, name.into(), start + byte, len);
        }
        self.add("attr.short", at, 100, list);
        let leaf = self.fork_blocks("a_leaf", Fork::Attr, 1)?;
        let node = self.fork_blocks("a_node", Fork::Attr, 1)?;
        let remote = self.fork_blocks("a_remote", Fork::Attr, 1)?;
        for (name, blocks, magic) in [
            ("attr.leaf", &leaf, [0x3b, 0xee]),
            ("attr.node", &node, [0x3e, 0xbe]),
            ("attr.leaf.remote", &remote, [0x3b, 0xee]),
        ] {
            let (at, block) = Self::with_magic(blocks, 8, &magic, name)?;
            let mut list = Vec::new();
            fields::rows(&mut list, "", 0, fields::DA);
            if name == "attr.node" {
                fields::rows(&mut list, "", 0, fields::DA_NODE);
            } else {
                attr_leaf(&mut list, &block, name == "attr.leaf.remote");
            }
            self.add(name, (at, block.len()), 12, list);
        }
        let target = self.fork_blocks("l_remote", Fork::Data, 1)?;
        for (name, blocks, magic) in
            [("attr.remote", &remote, b"XARM"), ("symlink.remote", &target, b"XSLM")]
        {
            let (at, block) = Self::with_magic(blocks, 0, magic, name)?;
            let mut list = Vec::new();
            fields::rows(&mut list, "", 0, fields::REMOTE);
            self.add(name, (at, block.len()), 12, list);
        }
        Ok(())
    }

    /// Adds the newest record of the journal.
    fn journal(&mut self) -> Found<()> {
        let geo = &self.base.geo;
        let device = FileDevice::open(self.base.path(), OpenMode::ReadOnly);
        let device = device.map_err(|why| why.to_string())?;
        let start = geo.log_daddr().ok_or("no journal in the volume")?;
        let log = Log::open(&device, start, geo).map_err(|why| why.to_string())?;
        let at = log.last_record().ok_or("no record in the journal")?;
        let offset = start.0 * 512 + u64::from(at.0) * 512;
        let head = self.base.bytes(offset, 512)?;
        let header = RecordHeader::parse(&head).ok_or("no header of a record")?;
        let (headers, len) = (header.header_blocks(), 512 * header.blocks());
        let mut list = Vec::new();
        fields::rows(&mut list, "h_", 0, fields::LOG);
        let checksum = Checksum::Record(headers);
        self.found.push(Structure { name: "log".into(), offset, len, checksum, fields: list });
        Ok(())
    }
}

/// Adds the fields of a short-form directory with entries of 32-bit inode numbers.
fn short_directory(list: &mut Vec<Field>, inode: &[u8]) {
    for (name, byte, len) in [("count", 0, 1), ("i8count", 1, 1), ("parent.i4", 2, 4)] {
        fields::bytes(list, format!("u3.sfdir3.hdr.{name}"), LITERAL + byte, len);
    }
    let mut at = LITERAL + 6;
    for i in 0..2 {
        let namelen = usize::from(inode.get(at).copied().unwrap_or(0));
        for (name, byte, len) in [
            ("namelen", 0, 1),
            ("offset", 1, 2),
            ("name", 3, namelen),
            ("filetype", 3 + namelen, 1),
            ("inumber.i4", 4 + namelen, 4),
        ] {
            fields::bytes(list, format!("u3.sfdir3.list[{i}].{name}"), at + byte, len);
        }
        at += 8 + namelen;
    }
}

/// Adds the fields of a directory data block: its header, `.`, `..` and two more entries.
fn data_block(list: &mut Vec<Field>, block: &[u8]) {
    fields::rows(list, "", 0, fields::DIR_DATA);
    let mut at = 64;
    for i in 0..4 {
        let namelen = usize::from(block.get(at + 8).copied().unwrap_or(0));
        let len = (8 + 1 + namelen + 1 + 2usize).next_multiple_of(8);
        for (name, byte, len) in [
            ("inumber", 0, 8),
            ("namelen", 8, 1),
            ("name", 9, namelen),
            ("filetype", 9 + namelen, 1),
            ("tag", len - 2, 2),
        ] {
            fields::bytes(list, format!("u[{i}].{name}"), at + byte, len);
        }
        at += len;
    }
}

/// Adds the fields of a directory's leaf or node after the header.
fn hash_block(list: &mut Vec<Field>, name: &str, block: &[u8]) {
    if name == "dir.node" {
        return fields::rows(list, "", 0, fields::DA_NODE);
    }
    fields::rows(list, "", 0, fields::DIR_LEAF);
    let count = usize::from(be16(block, 56).unwrap_or(0));
    for i in [0, count / 2] {
        fields::bytes(list, format!("ents[{i}].hashval"), 64 + 8 * i, 4);
        fields::bytes(list, format!("ents[{i}].address"), 68 + 8 * i, 4);
    }
    if name == "dir.leaf" {
        let tail = block.len() - 4;
        let bests = be32(block, tail).unwrap_or(0) as usize;
        fields::bytes(list, "tail.bestcount".into(), tail, 4);
        fields::bytes(list, "bests[0]".into(), tail - 2 * bests, 2);
    }
}

/// Adds the fields of an attribute leaf after the header, and those of its first name.
fn attr_leaf(list: &mut Vec<Field>, block: &[u8], remote: bool) {
    let count = usize::from(be16(block, 56).unwrap_or(0));
    let rows = fields::ATTR_LEAF.iter().filter(|row| count > 1 || !row.0.starts_with("entries[1]"));
    let rows: Vec<_> = rows.copied().collect();
    fields::rows(list, "", 0, &rows);
    let name = usize::from(be16(block, 84).unwrap_or(0));
    let parts: &[(&str, usize, usize)] = if remote {
        &[("valueblk", 0, 4), ("valuelen", 4, 4), ("namelen", 8, 1), ("name", 9, 8)]
    } else {
        &[("valuelen", 0, 2), ("namelen", 2, 1), ("name", 3, 8)]
    };
    for (part, byte, len) in parts {
        fields::bytes(list, format!("nvlist[0].{part}"), name + byte, *len);
    }
}
