//! Directories: listing them, and finding a name.
//!
//! A [`Dir`] is an open directory. It remembers where its blocks lie, so that many look-ups cost
//! one reading of the extent map; [`Volume::lookup`] and [`Volume::readdir`] open one for a single
//! use.
//!
//! *Listing goes on where it can.* A block that cannot be read, or fails its checks, is told to the
//! caller as an `Err` between the entries. If the block still says that it is this directory's, the
//! entries in it that are whole come out all the same.
//!
//! Changing one is the business of the modules beside this: `names` and `node` know the forms and how
//! they turn into one another, on any fork; `tx` gives them the fork of an inode in a transaction
//! ([`Tx::dir_create`](crate::Tx::dir_create) and its kin); `room` remembers, for large directories,
//! which data block has room.

pub(crate) mod fork;
mod leaves;
#[cfg(test)]
mod memory;
pub(crate) mod names;
#[cfg(test)]
mod names_tests;
mod node;
pub(crate) mod room;
#[cfg(test)]
pub(crate) mod testing;
mod tx;

use std::ops::ControlFlow;

use xfskit_format::dir::data::{Data, Form, salvage};
use xfskit_format::dir::leaf::{Leaf, LeafEntry};
use xfskit_format::dir::sf::Sf;
use xfskit_format::dir::{self, DataPtr, Entry};
use xfskit_format::inode::{Dinode, FileType, Format};
use xfskit_format::{Ctx, Fork, Layout, bytes, hash, inode};
use xfskit_units::{FileOff, Geometry, Ino};

use crate::bmap::ExtentList;
use crate::da::DaFork;
use crate::error::{Error, Result};
use crate::inode::Inode;
use crate::volume::Volume;

/// Data blocks announced to the device at once.
const READ_AHEAD: usize = 64;

/// One name, as a listing tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// 1 to 255 bytes, without slash and NUL.
    pub name: &'a [u8],
    /// What it names.
    pub ino: Ino,
    /// What that is, where the volume keeps types in its directories (FTYPE).
    pub ftype: Option<FileType>,
    /// Where a later listing goes on behind this entry. Stays good while the directory changes.
    pub cookie: u64,
}

/// What a listing calls for each entry, and for each part that it cannot read.
pub type EachEntry<'e> = dyn FnMut(Result<DirEntry<'_>>) -> ControlFlow<()> + 'e;

/// An open directory.
#[derive(Debug)]
pub struct Dir<'a> {
    core: Dinode<'a>,
    da: DaFork<'a>,
}

fn file_type(filetype: Option<u8>) -> Option<FileType> {
    filetype.and_then(FileType::from_ftype)
}

impl Volume {
    /// Opens the directory `inode`.
    ///
    /// # Errors
    /// [`Error::NotDirectory`], [`Error::Device`], [`Error::Corrupt`].
    pub fn open_dir<'a>(&'a self, inode: &'a Inode) -> Result<Dir<'a>> {
        let (core, ino) = (inode.core(), inode.ino());
        if !core.is_dir() {
            return Err(Error::NotDirectory(ino));
        }
        Ok(Dir { core, da: DaFork::open(self, inode, Fork::Data)? })
    }

    /// Lists the directory `inode` from `cookie` on (0: from the start), "." and ".." included.
    /// See [`Dir::read`].
    ///
    /// # Errors
    /// As [`open_dir`](Self::open_dir); what is wrong inside goes to `each`.
    pub fn readdir(&self, inode: &Inode, cookie: u64, each: &mut EachEntry<'_>) -> Result<()> {
        self.open_dir(inode)?.read(cookie, each);
        Ok(())
    }

    /// What `name` is in the directory `inode`; `None` where it has no such name.
    ///
    /// # Errors
    /// [`Error::NotDirectory`], [`Error::Device`], [`Error::Corrupt`].
    pub fn lookup(&self, inode: &Inode, name: &[u8]) -> Result<Option<(Ino, Option<FileType>)>> {
        self.open_dir(inode)?.lookup(name)
    }
}

impl<'a> Dir<'a> {
    fn geo(&self) -> &'a Geometry {
        self.da.geo()
    }

    /// Its inode number.
    pub fn ino(&self) -> Ino {
        self.da.ino
    }

    /// Where its blocks lie; nothing for a short form.
    pub fn extents(&self) -> &ExtentList {
        &self.da.extents
    }

    /// The short form, judged, and a context for complaints about it; `None` in other forms.
    fn short_form(&self) -> Option<(&'a [u8], Ctx<'a>)> {
        if self.core.fork_format(Fork::Data) != Some(Format::Local) {
            return None;
        }
        let fork = self.core.fork(Fork::Data).unwrap_or(&[]);
        let size = usize::try_from(self.core.size().0).unwrap_or(usize::MAX);
        let at = inode::location(self.geo(), self.ino()).fork(Fork::Data);
        Some((fork.get(..size).unwrap_or(fork), self.da.vol.ctx(at)))
    }

    // ---- listing -----------------------------------------------------------------------------

    /// Lists the directory from `cookie` on (0: from the start), "." and ".." included, until
    /// `each` breaks. Damage is told to `each` as well, in its place, and the listing goes on.
    pub fn read(&self, cookie: u64, each: &mut EachEntry<'_>) {
        let _stopped = match self.short_form() {
            Some((fork, ctx)) => self.read_short(fork, &ctx, cookie, each),
            None => self.read_blocks(cookie, each),
        };
    }

    fn read_short(
        &self,
        fork: &[u8],
        ctx: &Ctx<'_>,
        cookie: u64,
        each: &mut EachEntry<'_>,
    ) -> ControlFlow<()> {
        if let Err(fault) = Sf::verify(fork, ctx) {
            each(Err(fault.into()))?;
        }
        let Some(sf) = Sf::parse(fork, self.geo()) else { return ControlFlow::Continue(()) };
        let dot = Layout::of(self.geo()).dir_data_header;
        let dots = [(&b"."[..], self.ino()), (b"..", sf.parent)];
        let mut offset = dot;
        for (name, inumber) in dots {
            let filetype = self.geo().features.ftype().then_some(FileType::Directory.ftype());
            let at = u16::try_from(offset).unwrap_or(u16::MAX);
            self.tell(
                &Entry { inumber, name, filetype, offset: at },
                FileOff(0),
                cookie,
                ctx,
                each,
            )?;
            offset = offset.saturating_add(dir::entry_len(self.geo(), name.len()));
        }
        sf.entries().try_for_each(|entry| self.tell(&entry, FileOff(0), cookie, ctx, each))
    }

    /// Passes `entry` of the data block at `fileoff` on, where it is not before `cookie`.
    #[inline]
    fn tell(
        &self,
        entry: &Entry<'_>,
        fileoff: FileOff,
        cookie: u64,
        ctx: &Ctx<'_>,
        each: &mut EachEntry<'_>,
    ) -> ControlFlow<()> {
        let start = DataPtr::new(self.geo(), fileoff, entry.offset.into()).unwrap_or_default();
        if u64::from(start.0) < cookie {
            return ControlFlow::Continue(());
        }
        if let Err(fault) = entry.verify_name(ctx) {
            return each(Err(fault.into()));
        }
        let len = dir::entry_len(self.geo(), entry.name.len()) as u64 / 8;
        each(Ok(DirEntry {
            name: entry.name,
            ino: entry.inumber,
            ftype: file_type(entry.filetype),
            cookie: u64::from(start.0).saturating_add(len),
        }))
    }

    fn read_blocks(&self, cookie: u64, each: &mut EachEntry<'_>) -> ControlFlow<()> {
        let first =
            u32::try_from(cookie).map_or(FileOff(u64::MAX), |c| DataPtr(c).fileoff(self.geo()));
        let mut blocks = self.data_blocks(first).peekable();
        while blocks.peek().is_some() {
            let group: Vec<FileOff> = blocks.by_ref().take(READ_AHEAD).collect();
            self.da.read_ahead(group.iter().copied());
            for fileoff in group {
                self.read_block(fileoff, cookie, each)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// The mapped data blocks from the one at `first` on, as far as the directory's size reaches.
    fn data_blocks(&self, first: FileOff) -> impl Iterator<Item = FileOff> {
        let geo = self.geo();
        let unit = u64::from(geo.dirblkfsbs());
        let end = geo.bytes_to_blocks(self.core.size()).min(geo.dir_leafblk().0.into());
        let mut next = first.0;
        self.da.extents.as_slice().iter().flat_map(move |extent| {
            // Pieces of one directory block may be several extents: begin behind what was met.
            let start = (extent.startoff.0 / unit * unit).max(next);
            let stop = extent.end().0.min(end);
            next = next.max(stop.next_multiple_of(unit));
            (start..stop).step_by(usize::try_from(unit).unwrap_or(1)).map(FileOff)
        })
    }

    fn read_block(
        &self,
        fileoff: FileOff,
        cookie: u64,
        each: &mut EachEntry<'_>,
    ) -> ControlFlow<()> {
        let ctx = self.da.vol.ctx(self.da.at("directory block", fileoff));
        let verify = |bytes: &[u8], ctx: &Ctx<'_>| Data::verify(bytes, ctx, None).map(drop);
        match self.da.read("directory block", fileoff, &verify) {
            Ok(buf) => {
                let Some(data) = Data::parse(&buf, self.geo()) else {
                    return ControlFlow::Continue(());
                };
                data.entries().try_for_each(|e| self.tell(&e, fileoff, cookie, &ctx, each))
            }
            Err(err) => {
                let corrupt = matches!(err, Error::Corrupt(_));
                each(Err(err))?;
                if !corrupt {
                    return ControlFlow::Continue(());
                }
                self.salvage_block(fileoff, cookie, &ctx, each)
            }
        }
    }

    /// The whole entries of a block that failed its checks, if it says that it is ours.
    fn salvage_block(
        &self,
        fileoff: FileOff,
        cookie: u64,
        ctx: &Ctx<'_>,
        each: &mut EachEntry<'_>,
    ) -> ControlFlow<()> {
        let raw = self.da.extents.map_dir_block(self.geo(), fileoff);
        let raw = raw.and_then(|map| self.da.vol.cache().read_raw(&map).ok());
        match raw {
            Some(raw) if self.is_ours(&raw) => salvage(&raw, self.geo())
                .try_for_each(|entry| self.tell(&entry, fileoff, cookie, ctx, each)),
            _ => ControlFlow::Continue(()),
        }
    }

    /// True where a block that failed its checks still says that it holds this directory's names.
    fn is_ours(&self, block: &[u8]) -> bool {
        let owner_ok = !self.geo().v5() || bytes::be64(block, 40) == Some(self.ino().0);
        owner_ok && Form::of(block, self.geo()).is_some()
    }

    // ---- look-up -----------------------------------------------------------------------------

    /// What `name` is; `None` where the directory has no such name.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn lookup(&self, name: &[u8]) -> Result<Option<(Ino, Option<FileType>)>> {
        if name == b"." {
            return Ok(Some((self.ino(), Some(FileType::Directory))));
        }
        match self.short_form() {
            Some((fork, ctx)) => {
                let sf = Sf::verify(fork, &ctx)?;
                if name == b".." {
                    return Ok(Some((sf.parent, Some(FileType::Directory))));
                }
                let found = sf.entries().find(|e| hash::same_name(self.geo(), e.name, name));
                Ok(found.map(|e| (e.inumber, file_type(e.filetype))))
            }
            None => self.lookup_hashed(name),
        }
    }

    fn lookup_hashed(&self, name: &[u8]) -> Result<Option<(Ino, Option<FileType>)>> {
        let hash = hash::dir_hash(self.geo(), name);
        let leafblk = FileOff(self.geo().dir_leafblk().0.into());
        if self.da.extents.lookup(leafblk).is_none() {
            return self.lookup_in_block(name, hash);
        }
        let mut next = self.da.leaf_for(hash)?;
        let mut budget = self.da.budget();
        while let Some(block) = next.take() {
            let Some(leaf) = Leaf::parse(&block.buf, self.geo()) else { break };
            for &entry in leaf.run(hash) {
                if let Some(found) = self.entry_matches(entry, name)? {
                    return Ok(Some(found));
                }
            }
            // Equal hashes may go on in the next leaf.
            budget = budget.saturating_sub(1);
            if leaf.last_hash() == Some(hash) && budget > 0 {
                next = self.da.next_leaf(leaf.info.forw.get())?;
            }
        }
        Ok(None)
    }

    fn lookup_in_block(&self, name: &[u8], hash: u32) -> Result<Option<(Ino, Option<FileType>)>> {
        let verify =
            |bytes: &[u8], ctx: &Ctx<'_>| Data::verify(bytes, ctx, Some(Form::Block)).map(drop);
        let buf = self.da.read("directory block", FileOff(0), &verify)?;
        let Some(data) = Data::parse(&buf, self.geo()) else { return Ok(None) };
        let live = dir::leaf::run(data.bleaf, hash).iter().filter_map(LeafEntry::dataptr);
        let mut entries = live.filter_map(|ptr| data.entry_at(ptr.offset(self.geo())));
        let found = entries.find(|e| hash::same_name(self.geo(), e.name, name));
        Ok(found.map(|e| (e.inumber, file_type(e.filetype))))
    }

    /// The entry that a hash entry points at, if it is called `name`.
    fn entry_matches(
        &self,
        entry: LeafEntry,
        name: &[u8],
    ) -> Result<Option<(Ino, Option<FileType>)>> {
        let Some(ptr) = entry.dataptr() else { return Ok(None) };
        let fileoff = ptr.fileoff(self.geo());
        let verify =
            |bytes: &[u8], ctx: &Ctx<'_>| Data::verify(bytes, ctx, Some(Form::Data)).map(drop);
        let buf = self.da.read("directory block", fileoff, &verify)?;
        let data = Data::parse(&buf, self.geo());
        let found = data.and_then(|data| data.entry_at(ptr.offset(self.geo())));
        let found = found.filter(|e| hash::same_name(self.geo(), e.name, name));
        Ok(found.map(|e| (e.inumber, file_type(e.filetype))))
    }
}
