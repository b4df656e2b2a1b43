//! Builds a whole directory.
//!
//! ```text
//! fork offset  0           32 GiB                        64 GiB
//!              names …     root, leaves, lower nodes …   free index …
//! ```
//!
//! The form is the smallest that holds the names. Names are stored in the order in which they are
//! given, "." and ".." first. Entries are distributed evenly over the leaves.

use std::ops::Range;

use xfskit_format::da_edit::{self, Identity};
use xfskit_format::dir::leaf::{Kind, LeafEntry, leaf_max};
use xfskit_format::dir::{
    self, DataPtr, Entry, NAME_MAX, block_edit, data_edit, free_edit, free_max, leaf_edit, sf_edit,
};
use xfskit_format::inode::FileType;
use xfskit_format::{Fork, Layout, da, hash};
use xfskit_units::geometry::DIR_LEAF_OFFSET;
use xfskit_units::{ByteLen, DaBlock, Daddr, FileOff, Geometry, Ino};
use zerocopy::big_endian::U16;

/// A name to be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewEntry<'a> {
    /// 1 to 255 bytes, without slash and NUL; neither "." nor "..".
    pub name: &'a [u8],
    /// The inode of the name.
    pub ino: Ino,
    /// The inode's type.
    pub ftype: FileType,
}

impl<'a> NewEntry<'a> {
    fn at(&self, geo: &Geometry, offset: usize) -> Entry<'a> {
        Entry {
            inumber: self.ino,
            name: self.name,
            filetype: geo.features.ftype().then_some(self.ftype.ftype()),
            offset: u16::try_from(offset).unwrap_or(u16::MAX),
        }
    }
}

/// The reason why a directory cannot be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The entry of this index has a name that no directory can hold.
    #[error("name {0} is empty, too long, \".\" or \"..\", or holds a slash or a NUL")]
    Name(usize),
    /// The entries of these two indexes have one name.
    #[error("names {0} and {1} are the same")]
    Duplicate(usize, usize),
    /// More names than a directory can hold.
    #[error("the names take more than the 32 GiB that a directory can have")]
    TooMany,
}

/// The form of a planned directory.
#[derive(Debug)]
pub enum DirPlan<'a> {
    /// These bytes, in the inode: format local, `di_size` is their number.
    Short(Vec<u8>),
    /// Blocks of the data fork. Format extents or btree.
    Blocks(Box<DirBlocks<'a>>),
}

/// A part of a directory's data fork, all of it mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Its first block.
    pub start: FileOff,
    /// Its length in filesystem blocks, a multiple of [`dirblkfsbs`](Geometry::dirblkfsbs). May be
    /// 0.
    pub blocks: u32,
}

impl<'a> DirPlan<'a> {
    /// Plans the directory `ino` below `parent`, whose data fork has `room` bytes in the inode.
    ///
    /// # Errors
    /// [`PlanError`].
    pub fn new(
        geo: &'a Geometry,
        ino: Ino,
        parent: Ino,
        entries: Vec<NewEntry<'a>>,
        room: usize,
    ) -> Result<Self, PlanError> {
        if let Some(bad) = entries.iter().position(|entry| !valid(entry.name)) {
            return Err(PlanError::Name(bad));
        }
        let by_hash = sort(geo, &entries)?;
        let data = Packed::new(geo, &entries).ok_or(PlanError::TooMany)?;
        let one_block = data.starts.len() == 1
            && data.end + block_edit::table_len(entries.len() + 2) <= geo.dirblksize();
        if one_block {
            let listed = list(geo, &entries, Layout::V5.dir_first_entry);
            if sf_edit::len(parent, listed.clone()) <= room
                && let Some(bytes) = sf_edit::build(parent, listed)
            {
                return Ok(Self::Short(bytes));
            }
        }
        let mut blocks = DirBlocks {
            geo,
            ino,
            parent,
            entries,
            starts: data.starts,
            bests: data.bests,
            lents: vec![],
            form: Form::Block,
        };
        if !one_block {
            blocks.index(&by_hash);
        }
        Ok(Self::Blocks(Box::new(blocks)))
    }
}

fn valid(name: &[u8]) -> bool {
    (1..=NAME_MAX).contains(&name.len())
        && name != b"."
        && name != b".."
        && !name.iter().any(|&byte| byte == b'/' || byte == 0)
}

/// Returns the hashes of `entries` with their indexes, in order; fails if two names are equal.
fn sort(geo: &Geometry, entries: &[NewEntry<'_>]) -> Result<Vec<(u32, u32)>, PlanError> {
    let mut list = Vec::with_capacity(entries.len());
    for (index, entry) in entries.iter().enumerate() {
        let index = u32::try_from(index).map_err(|_| PlanError::TooMany)?;
        list.push((hash::dir_hash(geo, entry.name), index));
    }
    list.sort_unstable();
    for run in list.chunk_by(|a, b| a.0 == b.0).filter(|run| run.len() > 1) {
        let name = |index: u32| hash::folded(geo, entries[index as usize].name);
        let mut run: Vec<u32> = run.iter().map(|(_, index)| *index).collect();
        run.sort_by(|a, b| name(*a).cmp(&name(*b)).then(a.cmp(b)));
        if let Some(pair) = run.windows(2).find(|pair| name(pair[0]) == name(pair[1])) {
            return Err(PlanError::Duplicate(pair[0] as usize, pair[1] as usize));
        }
    }
    Ok(list)
}

/// Returns `entries` one behind the other from byte `first` of a block on.
fn list<'a, 'e>(
    geo: &'e Geometry,
    entries: &'e [NewEntry<'a>],
    first: usize,
) -> impl Iterator<Item = Entry<'a>> + Clone + use<'a, 'e> {
    entries.iter().scan(first, |offset, entry| {
        let at = *offset;
        *offset += dir::entry_len(geo, entry.name.len());
        Some(entry.at(geo, at))
    })
}

/// Names distributed to data blocks.
struct Packed {
    /// For each block the index of its first entry.
    starts: Vec<u32>,
    /// For each block the unused space at its end, in bytes.
    bests: Vec<U16>,
    /// Byte behind the last entry of the last block.
    end: usize,
}

impl Packed {
    fn new(geo: &Geometry, entries: &[NewEntry<'_>]) -> Option<Self> {
        let block = geo.dirblksize();
        let rest = |end: usize| U16::new(u16::try_from(block - end).unwrap_or(u16::MAX));
        let mut packed = Self { starts: vec![0], bests: vec![], end: Layout::V5.dir_first_entry };
        for (index, entry) in entries.iter().enumerate() {
            let len = dir::entry_len(geo, entry.name.len());
            if packed.end + len > block {
                packed.bests.push(rest(packed.end));
                packed.starts.push(u32::try_from(index).ok()?);
                packed.end = Layout::V5.dir_data_header;
            }
            packed.end += len;
        }
        packed.bests.push(rest(packed.end));
        let most = DIR_LEAF_OFFSET / block as u64;
        (packed.starts.len() as u64 <= most).then_some(packed)
    }
}

/// The form of a directory with blocks.
#[derive(Debug)]
enum Form {
    Block,
    Leaf,
    /// With the levels of the tree, leaves first; the last has one block, the root.
    Node(Vec<Level>),
}

/// One level of the tree.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// The first of its blocks, in directory blocks from 32 GiB; the others follow.
    first: u32,
    /// Number of blocks.
    blocks: u32,
    /// Number of children (of leaves: entries), distributed evenly.
    below: u32,
}

impl Level {
    /// Returns the children of block `index`.
    fn children(&self, index: u32) -> Range<u32> {
        let cut = |index: u32| {
            let cut = u64::from(self.below) * u64::from(index) / u64::from(self.blocks.max(1));
            u32::try_from(cut).unwrap_or(u32::MAX)
        };
        cut(index)..cut(index.saturating_add(1))
    }
}

fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}

/// A directory that has blocks of its own.
#[derive(Debug)]
pub struct DirBlocks<'a> {
    geo: &'a Geometry,
    ino: Ino,
    parent: Ino,
    entries: Vec<NewEntry<'a>>,
    /// For each data block the index of its first entry.
    starts: Vec<u32>,
    /// For each data block its longest unused space, in bytes.
    bests: Vec<U16>,
    /// All hash entries in order; empty in block form.
    lents: Vec<LeafEntry>,
    form: Form,
}

impl DirBlocks<'_> {
    /// Makes the hash entries, and plans the tree above them.
    fn index(&mut self, by_hash: &[(u32, u32)]) {
        let geo = self.geo;
        let fsbs = u64::from(geo.dirblkfsbs());
        let mut addresses = Vec::with_capacity(self.entries.len());
        for db in 0..self.starts.len() {
            let first = FileOff(db as u64 * fsbs);
            let ptr = |entry: Entry<'_>| DataPtr::new(geo, first, entry.offset.into());
            addresses.extend(self.listed(db).map(|entry| ptr(entry).unwrap_or_default()));
        }
        let dots = block_edit::dots(geo, self.ino, self.parent);
        let dot = |e: Entry<'_>| {
            let ptr = DataPtr::new(geo, FileOff(0), e.offset.into()).unwrap_or_default();
            leaf_edit::entry(hash::dir_hash(geo, e.name), ptr)
        };
        let named = by_hash.iter().map(|(hash, i)| leaf_edit::entry(*hash, addresses[*i as usize]));
        self.lents = named.collect();
        for lent in dots.map(dot) {
            let at = self.lents.partition_point(|e| e.hashval.get() <= lent.hashval.get());
            self.lents.insert(at, lent);
        }
        let leaf = Layout::V5.dir_leaf_header + size_of_val(&self.lents[..]);
        let single = leaf + size_of_val(&self.bests[..]) + 4 <= geo.dirblksize();
        self.form = if single { Form::Leaf } else { Form::Node(self.levels()) };
    }

    fn levels(&self) -> Vec<Level> {
        let mut below = count(self.lents.len());
        let mut blocks = below.div_ceil(count(leaf_max(self.geo)));
        let mut levels = vec![Level { first: 1, blocks, below }];
        let mut next = 1 + blocks;
        while blocks > 1 {
            below = blocks;
            blocks = below.div_ceil(count(da::node_max(self.geo, Fork::Data)));
            levels.push(Level { first: next, blocks, below });
            next += blocks;
        }
        // The root is first, everything else behind it.
        if let Some(root) = levels.last_mut() {
            root.first = 0;
        }
        levels
    }

    /// Returns `di_size`.
    pub fn size(&self) -> ByteLen {
        ByteLen(self.starts.len() as u64 * self.geo.dirblksize() as u64)
    }

    /// Returns the three parts of the fork: names, hash tree, free index.
    pub fn spaces(&self) -> [Space; 3] {
        let (tree, free) = match &self.form {
            Form::Block => (0, 0),
            Form::Leaf => (1, 0),
            Form::Node(levels) => {
                let tree = levels.iter().map(|level| level.blocks).sum();
                (tree, count(self.starts.len().div_ceil(free_max(self.geo))))
            }
        };
        let space = |start: u32, dir_blocks: u32| Space {
            start: FileOff(start.into()),
            blocks: dir_blocks.saturating_mul(self.geo.dirblkfsbs()),
        };
        [
            space(0, count(self.starts.len())),
            space(self.geo.dir_leafblk().0, tree),
            space(self.geo.dir_freeblk().0, free),
        ]
    }

    /// Returns the finished bytes of the directory block that begins at `fileoff` of the fork, and
    /// at `daddr` on the device; its LSN is 0.
    ///
    /// # Panics
    /// If no directory block begins there.
    pub fn fill(&self, fileoff: FileOff, daddr: Daddr) -> Vec<u8> {
        let id = Identity { owner: self.ino, daddr };
        let spaces = self.spaces();
        let part = spaces.iter().position(|space| {
            fileoff.since(space.start).is_some_and(|at| at < space.blocks.into())
        });
        let part = part.expect("a block of the directory");
        let number = (fileoff.0 - spaces[part].start.0) >> self.geo.dirblklog;
        let number = u32::try_from(number).unwrap_or(u32::MAX);
        let mut block = vec![0; self.geo.dirblksize()];
        match (part, &self.form) {
            (0, Form::Block) => self.fill_block_form(&mut block, id),
            (0, _) => self.fill_data(&mut block, id, number as usize),
            (1, Form::Node(levels)) => self.fill_tree(&mut block, id, levels, number),
            (1, _) => {
                leaf_edit::init(&mut block, Kind::LeafN, self.geo, id, &self.lents);
                leaf_edit::to_leaf1(&mut block, self.geo, &self.bests);
            }
            _ => {
                let max = free_max(self.geo);
                let first = number as usize * max;
                let bests = &self.bests[first..self.bests.len().min(first + max)];
                free_edit::init(&mut block, self.geo, id, count(first), bests);
            }
        }
        if part == 1 {
            da_edit::stamp(&mut block);
        } else {
            data_edit::stamp(&mut block);
        }
        block
    }

    /// Returns the names of data block `db`, without "." and "..".
    fn listed(&self, db: usize) -> impl Iterator<Item = Entry<'_>> + Clone {
        let first = self.starts[db] as usize;
        let end = self.starts.get(db + 1).map_or(self.entries.len(), |end| *end as usize);
        let layout = &Layout::V5;
        let offset = if db == 0 { layout.dir_first_entry } else { layout.dir_data_header };
        list(self.geo, &self.entries[first..end], offset)
    }

    /// Returns the names of data block `db`, with "." and "..".
    fn all(&self, db: usize) -> impl Iterator<Item = Entry<'_>> + Clone {
        let dots = block_edit::dots(self.geo, self.ino, self.parent);
        dots.into_iter().filter(move |_| db == 0).chain(self.listed(db))
    }

    fn fill_block_form(&self, block: &mut Vec<u8>, id: Identity) {
        let entries: Vec<_> = self.all(0).collect();
        block_edit::build(block, self.geo, id, &entries);
    }

    fn fill_data(&self, block: &mut Vec<u8>, id: Identity, db: usize) {
        data_edit::init(block, self.geo, id);
        for entry in self.all(db) {
            data_edit::place(block, self.geo, &entry);
        }
    }

    fn fill_tree(&self, block: &mut Vec<u8>, id: Identity, levels: &[Level], number: u32) {
        let place = levels.iter().enumerate().find_map(|(height, level)| {
            let index = number.checked_sub(level.first)?;
            (index < level.blocks).then_some((height, index))
        });
        let Some((height, index)) = place else { return };
        let level = levels[height];
        let children = level.children(index);
        if height == 0 {
            let lents = &self.lents[children.start as usize..children.end as usize];
            leaf_edit::init(block, Kind::LeafN, self.geo, id, lents);
        } else {
            da_edit::init_node(block, self.geo, id, u16::try_from(height).unwrap_or(u16::MAX));
            let below = levels[height - 1].first;
            let child = |kid: u32| {
                da_edit::child(self.last_hash(levels, height - 1, kid), self.dablk(below + kid))
            };
            let children: Vec<_> = children.map(child).collect();
            let fits = da_edit::splice_children(block, self.geo, Fork::Data, 0, 0, &children);
            debug_assert!(fits, "nodes are planned to fit");
        }
        if let Some(before) = index.checked_sub(1) {
            da_edit::set_back(block, self.dablk(level.first + before));
        }
        if index + 1 < level.blocks {
            da_edit::set_forw(block, self.dablk(level.first + index + 1));
        }
    }

    /// Returns the fork offset of directory block `number` of the tree.
    fn dablk(&self, number: u32) -> DaBlock {
        self.geo.dir_leafblk().saturating_add(number.saturating_mul(self.geo.dirblkfsbs()))
    }

    /// Returns the last hash below block `index` of the level `height`.
    fn last_hash(&self, levels: &[Level], height: usize, index: u32) -> u32 {
        let below = levels[..=height].iter().rev();
        let end = below.fold(index, |index, level| level.children(index).end.saturating_sub(1));
        self.lents.get(end as usize).map_or(0, |lent| lent.hashval.get())
    }
}

#[cfg(test)]
mod tests;
