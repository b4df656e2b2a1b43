//! The write side: adds, removes and changes names, and converts the directory to the form that
//! fits.
//!
//! ```text
//!         no space in the inode       no space in the block       no space in the leaf
//!   short ──────────────────────▶ block ─────────────────▶ leaf ──────────────────────▶ node
//!         ◀──────────────────────       ◀─────────────────      ◀──────────────────────
//!          fits the inode              one data block,             one leaf, and the free
//!                                      table fits behind           index fits behind it
//! ```
//!
//! 1. A name in the data space never moves, whatever the form.
//! 2. Every change leaves all tables exact: `bestfree`, `bests`, hash leaves, the hashes in nodes.
//! 3. A data block without names is freed. The first one, with "." and "..", never is.
//! 4. An error leaves a change half done: the caller's transaction is undone.

use std::ops::Range;

use xfskit_format::da_edit::Identity;
use xfskit_format::dir::data::Data;
use xfskit_format::dir::leaf::{Kind, Leaf, LeafEntry};
use xfskit_format::dir::sf::Sf;
use xfskit_format::dir::{self, DataPtr, Entry, NULLDATAOFF, block_edit, data_edit, leaf_edit};
use xfskit_format::inode::FileType;
use xfskit_format::{Ctx, Fork, Image, Layout, Location, VerifyResult, da, hash};
use xfskit_units::{FileOff, Geometry, Ino};

use crate::dir::fork::{DirFork, data_at, dataptr};
use crate::dir_cache::FreeSpaceIndex;
use crate::error::{Error, Result};

/// The target of a name: inode and type.
pub(crate) type EntryTarget = (Ino, FileType);

/// The form of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Short,
    Block,
    Leaf,
    Node,
}

/// A name's entry, found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryPosition {
    /// The data block.
    pub(crate) at: FileOff,
    pub(crate) offset: u16,
    pub(crate) target: EntryTarget,
}

/// A directory, for changes.
#[derive(Debug)]
pub(crate) struct Names<'d, F> {
    pub(crate) geo: &'d Geometry,
    pub(crate) ino: Ino,
    pub(crate) fork: &'d mut F,
    pub(crate) free_index: &'d mut FreeSpaceIndex,
}

fn target_of(entry: &Entry<'_>) -> EntryTarget {
    let ftype = entry.filetype.and_then(FileType::from_ftype);
    (entry.inumber, ftype.unwrap_or(FileType::Unknown))
}

/// Fails for a name that no directory can hold.
fn verify_name(name: &[u8]) -> Result<()> {
    if name.len() > dir::NAME_MAX {
        return Err(Error::NameTooLong("a name has at most 255 bytes"));
    }
    let bad = name.is_empty() || name == b"." || name == b"..";
    // All bytes are examined, which takes fewer steps than to stop at the first bad one.
    if bad || name.iter().filter(|byte| matches!(byte, b'/' | 0)).count() > 0 {
        return Err(Error::Limit("a name is not empty, \".\" or \"..\", nor has it slash or NUL"));
    }
    Ok(())
}

impl<F: DirFork> Names<'_, F> {
    // ---- look-ups ----------------------------------------------------------------------------

    /// Makes an empty directory below `parent`.
    pub(crate) fn init(&mut self, parent: Ino) {
        *self.free_index = FreeSpaceIndex::default();
        self.fork.set_short(&dir::sf::empty(parent));
    }

    /// Returns the target of `name`.
    pub(crate) fn lookup(&mut self, name: &[u8]) -> Result<Option<EntryTarget>> {
        if name == b"." {
            return Ok(Some((self.ino, FileType::Directory)));
        }
        if self.fork.short().is_some() {
            return self.short_lookup(name);
        }
        Ok(self.find(name)?.map(|position| position.target))
    }

    /// Returns the entry of `name`, in a form that is not short.
    fn find(&mut self, name: &[u8]) -> Result<Option<EntryPosition>> {
        if let Some(direct) = self.direct(name)? {
            return Ok(self.direct_find(&direct, name)?.map(|(_, position)| position));
        }
        match self.form()? {
            Form::Short => Ok(None),
            Form::Block => self.block_find(name),
            Form::Leaf => Ok(self.leaf_find(name)?.map(|(_, position)| position)),
            Form::Node => Ok(self.node_find(self.hash(name), name)?.1.map(|found| found.position)),
        }
    }

    /// Adds `name`, which must not exist.
    pub(crate) fn create(&mut self, name: &[u8], target: EntryTarget) -> Result<()> {
        verify_name(name)?;
        let entry = self.entry(name, target);
        if let Some(direct) = self.direct(name)? {
            return self.direct_create(&direct, &entry);
        }
        match self.form()? {
            Form::Short => self.short_create(&entry),
            Form::Block if self.block_find(name)?.is_some() => Err(Error::Exists),
            Form::Block => self.block_create(&entry),
            Form::Leaf if self.leaf_find(name)?.is_some() => Err(Error::Exists),
            Form::Leaf => self.leaf_create(&entry),
            Form::Node => {
                let hash = self.hash(name);
                match self.node_find(hash, name)? {
                    (_, Some(_)) => Err(Error::Exists),
                    (path, None) => self.node_create(&entry, hash, path),
                }
            }
        }
    }

    /// Removes `name`, and returns its target.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Result<EntryTarget> {
        verify_name(name)?;
        if let Some(direct) = self.direct(name)? {
            return self.direct_remove(&direct, name);
        }
        match self.form()? {
            Form::Short => self.short_remove(name),
            Form::Block => self.block_remove(name),
            Form::Leaf => self.leaf_remove(name),
            Form::Node => self.node_remove(name),
        }
    }

    /// Redirects `name`, which may be "..", and returns the former target.
    pub(crate) fn replace(&mut self, name: &[u8], target: EntryTarget) -> Result<EntryTarget> {
        if self.fork.short().is_some() {
            return self.short_replace(name, target);
        }
        let position = self.find(name)?.ok_or(Error::NoEntry)?;
        let Entry { inumber, filetype, .. } = self.entry(name, target);
        data_edit::replace(&mut self.fork.image(position.at)?, position.offset, inumber, filetype);
        Ok(position.target)
    }

    /// Returns true if there are no names but "." and "..".
    pub(crate) fn is_empty(&mut self) -> Result<bool> {
        let geo = self.geo;
        match self.form()? {
            Form::Short => Ok(self.sf()?.count == 0),
            Form::Block => {
                let data = parse_data(self.fork.bytes(FileOff(0))?, geo)?;
                Ok(data.entries().nth(2).is_none())
            }
            Form::Leaf => {
                let root = self.root();
                Ok(leaf_edit::live_count(&parse_leaf(self.fork.bytes(root)?, geo)?) <= 2)
            }
            Form::Node => self.node_is_empty(),
        }
    }

    // ---- all forms ---------------------------------------------------------------------------

    /// Returns the form.
    pub(crate) fn form(&mut self) -> Result<Form> {
        if self.fork.short().is_some() {
            return Ok(Form::Short);
        }
        let root = self.root();
        let one_block = self.fork.size() == self.geo.dirblksize() as u64;
        if one_block && !self.fork.is_mapped(root)? {
            return Ok(Form::Block);
        }
        let single = da::magic(self.fork.bytes(root)?) == Some(Layout::V5.dir_leaf1_magic);
        Ok(if single { Form::Leaf } else { Form::Node })
    }

    /// Returns the offset of the only leaf, or of the root of the hash tree.
    pub(crate) fn root(&self) -> FileOff {
        FileOff(self.geo.dir_leafblk().0.into())
    }

    pub(crate) fn entry<'n>(&self, name: &'n [u8], (inumber, ftype): EntryTarget) -> Entry<'n> {
        let filetype = self.geo.features.ftype().then_some(ftype.ftype());
        Entry { inumber, name, filetype, offset: 0 }
    }

    pub(crate) fn len_of(&self, entry: &Entry<'_>) -> usize {
        dir::entry_len(self.geo, entry.name.len())
    }

    pub(crate) fn hash(&self, name: &[u8]) -> u32 {
        hash::dir_hash(self.geo, name)
    }

    pub(crate) fn id(&mut self, at: FileOff) -> Result<Identity> {
        Ok(Identity { owner: self.ino, daddr: self.fork.daddr(at)? })
    }

    pub(crate) fn ctx(&self, what: &'static str, at: FileOff) -> Ctx<'_> {
        let at = Location::of(what).ino(self.ino).fork(Fork::Data).fileoff(at);
        Ctx::new(self.geo, at)
    }

    /// Fails unless `ok`: the directory's tables do not agree.
    pub(crate) fn agree(&self, check: &'static str, at: FileOff, ok: bool) -> VerifyResult {
        if ok {
            return Ok(());
        }
        let ctx = self.ctx("directory block", at);
        ctx.require(check, false, "what the rest of the directory says", "something else")
    }

    /// Returns the number of data blocks, holes included.
    pub(crate) fn data_blocks(&self) -> u32 {
        let blocks = self.fork.size() / self.geo.dirblksize() as u64;
        u32::try_from(blocks).unwrap_or(u32::MAX)
    }

    pub(crate) fn set_data_blocks(&mut self, blocks: u32) {
        self.fork.set_size(u64::from(blocks) * self.geo.dirblksize() as u64);
    }

    /// Maps data block `db`, all of it unused.
    pub(crate) fn new_data_block(&mut self, db: u32) -> Result<()> {
        let at = data_at(self.geo, db);
        if at.0 >= self.geo.dir_leafblk().0.into() {
            return Err(Error::Full("a directory's names take at most 32 GiB"));
        }
        self.fork.map(at)?;
        let id = self.id(at)?;
        data_edit::init(&mut self.fork.image(at)?, self.geo, id);
        if db >= self.data_blocks() {
            self.set_data_blocks(db + 1);
        }
        Ok(())
    }

    /// Adds `entry` to data block `db`, which has space for it. Returns its position, and the
    /// block's longest unused space afterwards.
    pub(crate) fn add_to(&mut self, db: u32, entry: &Entry<'_>) -> Result<(DataPtr, u16)> {
        let (geo, at) = (self.geo, data_at(self.geo, db));
        let mut image = self.fork.image(at)?;
        let offset = data_edit::add(&mut image, geo, entry);
        let best = data_edit::longest(image.bytes());
        drop(image);
        self.agree("dir.leaf.bests", at, offset.is_some())?;
        Ok((dataptr(geo, at, offset.unwrap_or(0))?, best))
    }

    /// Removes the entry of `name` from its data block, and frees the block if nothing is left in
    /// it. Returns the longest unused space, [`NULLDATAOFF`] for no block.
    pub(crate) fn take_from(&mut self, position: &EntryPosition, name: &[u8]) -> Result<u16> {
        let (geo, at) = (self.geo, position.at);
        let mut image = self.fork.image(at)?;
        data_edit::remove(&mut image, geo, position.offset, name.len());
        let best = data_edit::longest(image.bytes());
        drop(image);
        if best == data_edit::longest_when_empty(geo) && at != FileOff(0) {
            self.fork.unmap(at)?;
            return Ok(NULLDATAOFF);
        }
        Ok(best)
    }

    /// Returns index and position of the first entry of `run`, in the leaf at `leaf`, whose name is
    /// `name`.
    pub(crate) fn first_match(
        &mut self,
        leaf: FileOff,
        run: Range<usize>,
        name: &[u8],
    ) -> Result<Option<(usize, EntryPosition)>> {
        let geo = self.geo;
        for index in run {
            let entry = parse_leaf(self.fork.bytes(leaf)?, geo)?.lents.get(index);
            let Some(ptr) = entry.and_then(LeafEntry::dataptr) else { continue };
            let at = ptr.fileoff(geo);
            let entry = parse_data(self.fork.bytes(at)?, geo)?.entry_at(ptr.offset(geo));
            let found =
                entry.map(|e| (hash::same_name(geo, e.name, name), e.offset, target_of(&e)));
            let Some((same, offset, target)) = found else {
                self.agree("dir.leaf.address", at, false)?;
                continue;
            };
            if same {
                return Ok(Some((index, EntryPosition { at, offset, target })));
            }
        }
        Ok(None)
    }

    // ---- short form --------------------------------------------------------------------------

    fn sf(&self) -> Result<Sf<'_>> {
        let bytes = self.fork.short().unwrap_or(&[]);
        Ok(Sf::verify(bytes, &self.ctx("directory", FileOff(0)))?)
    }

    fn short_lookup(&self, name: &[u8]) -> Result<Option<EntryTarget>> {
        let sf = self.sf()?;
        if name == b".." {
            return Ok(Some((sf.parent, FileType::Directory)));
        }
        let mut entries = sf.entries();
        let found = entries.find(|e| hash::same_name(self.geo, e.name, name));
        Ok(found.map(|e| target_of(&e)))
    }

    fn short_create(&mut self, entry: &Entry<'_>) -> Result<()> {
        if self.short_lookup(entry.name)?.is_some() {
            return Err(Error::Exists);
        }
        match dir::sf_edit::add(&self.sf()?, self.geo, *entry) {
            Some(bytes) if bytes.len() <= self.fork.capacity() => {
                self.fork.set_short(&bytes);
                Ok(())
            }
            _ => {
                self.short_to_block()?;
                self.block_create(entry)
            }
        }
    }

    fn short_remove(&mut self, name: &[u8]) -> Result<EntryTarget> {
        let target = self.short_lookup(name)?.ok_or(Error::NoEntry)?;
        let bytes = dir::sf_edit::remove(&self.sf()?, self.geo, name);
        self.fork.set_short(&bytes.ok_or(Error::NoEntry)?);
        Ok(target)
    }

    fn short_replace(&mut self, name: &[u8], target: EntryTarget) -> Result<EntryTarget> {
        let old = self.short_lookup(name)?.ok_or(Error::NoEntry)?;
        let Entry { inumber, filetype, .. } = self.entry(name, target);
        match dir::sf_edit::replace(&self.sf()?, self.geo, name, inumber, filetype) {
            Some(bytes) if bytes.len() <= self.fork.capacity() => {
                self.fork.set_short(&bytes);
                Ok(old)
            }
            _ => {
                self.short_to_block()?;
                self.replace(name, target)
            }
        }
    }

    /// Moves the names from the inode into a block.
    pub(crate) fn short_to_block(&mut self) -> Result<()> {
        let (geo, first) = (self.geo, FileOff(0));
        let bytes = self.fork.short().unwrap_or(&[]).to_vec();
        let sf = Sf::verify(&bytes, &Ctx::new(geo, Location::of("directory").ino(self.ino)))?;
        self.fork.leave_inode();
        self.fork.map(first)?;
        self.set_data_blocks(1);
        let id = self.id(first)?;
        block_edit::from_sf(&mut self.fork.image(first)?, geo, id, &sf);
        Ok(())
    }

    // ---- block form --------------------------------------------------------------------------

    fn block_find(&mut self, name: &[u8]) -> Result<Option<EntryPosition>> {
        let (geo, hash) = (self.geo, self.hash(name));
        let data = parse_data(self.fork.bytes(FileOff(0))?, geo)?;
        let run = dir::leaf::run(data.bleaf, hash);
        let mut entries = run
            .iter()
            .filter_map(LeafEntry::dataptr)
            .filter_map(|ptr| data.entry_at(ptr.offset(geo)));
        let found = entries.find(|e| hash::same_name(geo, e.name, name));
        Ok(found.map(|e| EntryPosition { at: FileOff(0), offset: e.offset, target: target_of(&e) }))
    }

    fn block_create(&mut self, entry: &Entry<'_>) -> Result<()> {
        let geo = self.geo;
        if block_edit::add(&mut self.fork.image(FileOff(0))?, geo, entry).is_some() {
            return Ok(());
        }
        self.block_to_leaf()?;
        self.leaf_create(entry)
    }

    fn block_remove(&mut self, name: &[u8]) -> Result<EntryTarget> {
        let position = self.block_find(name)?.ok_or(Error::NoEntry)?;
        block_edit::remove(&mut self.fork.image(position.at)?, self.geo, position.offset, name);
        self.block_to_short()?;
        Ok(position.target)
    }

    /// Moves the names into the inode, if they fit there.
    fn block_to_short(&mut self) -> Result<()> {
        let (geo, capacity) = (self.geo, self.fork.capacity());
        let data = parse_data(self.fork.bytes(FileOff(0))?, geo)?;
        if let Some(bytes) = block_edit::to_sf(&data, capacity) {
            self.fork.unmap(FileOff(0))?;
            self.fork.set_short(&bytes);
        }
        Ok(())
    }

    /// Moves the hash table to a block of its own.
    fn block_to_leaf(&mut self) -> Result<()> {
        let (geo, root) = (self.geo, self.root());
        let table = parse_data(self.fork.bytes(FileOff(0))?, geo)?.bleaf.to_vec();
        self.fork.map(root)?;
        let id = self.id(root)?;
        leaf_edit::init(&mut self.fork.image(root)?, Kind::Leaf1, geo, id, &table);
        data_edit::from_block_form(&mut self.fork.image(FileOff(0))?, geo);
        let best = data_edit::longest(self.fork.bytes(FileOff(0))?);
        self.set_leaf_best(0, best)
    }

    // ---- leaf form ---------------------------------------------------------------------------

    fn leaf_find(&mut self, name: &[u8]) -> Result<Option<(usize, EntryPosition)>> {
        let (root, hash) = (self.root(), self.hash(name));
        let run = parse_leaf(self.fork.bytes(root)?, self.geo)?.run_range(hash);
        self.first_match(root, run, name)
    }

    fn leaf_create(&mut self, entry: &Entry<'_>) -> Result<()> {
        let (geo, root, need) = (self.geo, self.root(), self.len_of(entry));
        let leaf = parse_leaf(self.fork.bytes(root)?, geo)?;
        let fits = |best: u16| best != NULLDATAOFF && usize::from(best) >= need;
        let old = leaf.lbests.iter().position(|best| fits(best.get()));
        let hole = || leaf.lbests.iter().position(|best| best.get() == NULLDATAOFF);
        let index = old.or_else(hole).unwrap_or(leaf.lbests.len());
        let db = u32::try_from(index).unwrap_or(u32::MAX);
        let (room, growth) = (leaf_edit::room(&leaf, geo), leaf_edit::best_growth(&leaf, index));
        let stale = usize::from(leaf.stale) * size_of::<LeafEntry>();
        let takes = growth + if stale > 0 { 0 } else { size_of::<LeafEntry>() };
        if takes > room {
            if growth + size_of::<LeafEntry>() > room + stale {
                let hash = self.hash(entry.name);
                let path = self.leaf_to_node(hash)?;
                return self.node_create(entry, hash, path);
            }
            leaf_edit::compact(&mut self.fork.image(root)?, geo);
        }
        if old.is_none() {
            self.new_data_block(db)?;
        }
        let (ptr, best) = self.add_to(db, entry)?;
        self.set_leaf_best(db, best)?;
        let lent = leaf_edit::entry(self.hash(entry.name), ptr);
        let took = leaf_edit::insert(&mut self.fork.image(root)?, geo, lent);
        Ok(self.agree("dir.leaf.count", root, took)?)
    }

    fn set_leaf_best(&mut self, db: u32, best: u16) -> Result<()> {
        let root = self.root();
        let done = leaf_edit::set_best(&mut self.fork.image(root)?, self.geo, db as usize, best);
        Ok(self.agree("dir.leaf.bestcount", root, done)?)
    }

    fn leaf_remove(&mut self, name: &[u8]) -> Result<EntryTarget> {
        let (geo, root) = (self.geo, self.root());
        let (index, position) = self.leaf_find(name)?.ok_or(Error::NoEntry)?;
        let best = self.take_from(&position, name)?;
        leaf_edit::remove(&mut self.fork.image(root)?, geo, index);
        let db = DataPtr::new(geo, position.at, 0).map_or(0, |ptr| ptr.db(geo));
        self.set_leaf_best(db, best)?;
        if best == NULLDATAOFF && db + 1 == self.data_blocks() {
            let left = parse_leaf(self.fork.bytes(root)?, geo)?.lbests.len();
            self.set_data_blocks(u32::try_from(left).unwrap_or(u32::MAX));
        }
        self.leaf_to_block()?;
        Ok(position.target)
    }

    /// Moves the hash table behind the names, if there is one data block with space for it.
    pub(crate) fn leaf_to_block(&mut self) -> Result<()> {
        let (geo, root) = (self.geo, self.root());
        let leaf = parse_leaf(self.fork.bytes(root)?, geo)?;
        if leaf.lbests.len() != 1 {
            return Ok(());
        }
        // Most leaves are seen to be too large without a look at the names.
        let best = leaf.lbests.first().map_or(0, |best| usize::from(best.get()));
        if block_edit::table_len(leaf_edit::live_count(&leaf)) > best {
            return Ok(());
        }
        let live = leaf_edit::live(leaf.lents);
        if block_edit::from_data(&mut self.fork.image(FileOff(0))?, geo, &live) {
            self.fork.unmap(root)?;
            self.block_to_short()?;
        }
        Ok(())
    }
}

pub(crate) fn parse_data<'b>(bytes: &'b [u8], geo: &Geometry) -> Result<Data<'b>> {
    Data::parse(bytes, geo).ok_or_else(|| {
        let ctx = Ctx::new(geo, Location::of("directory block"));
        ctx.short("dir.data.magic", bytes.len()).into()
    })
}

pub(crate) fn parse_leaf<'b>(bytes: &'b [u8], geo: &Geometry) -> Result<Leaf<'b>> {
    Leaf::parse(bytes, geo).ok_or_else(|| {
        let ctx = Ctx::new(geo, Location::of("directory leaf"));
        ctx.short("dir.leaf.magic", bytes.len()).into()
    })
}

#[cfg(test)]
mod tests;
