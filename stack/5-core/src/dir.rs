//! Directories: listing them, and looking up a name.
//!
//! A [`Dir`] is an open directory. It keeps its extent map, so that many look-ups read the map
//! once. [`Volume::lookup`] reads only the part of the map that leads to one name.
//!
//! *Listing continues after damage.* A block that cannot be read, or fails its checks, is passed to
//! the caller as an `Err` between the entries. If the block's header names this directory, the
//! intact entries in it are listed nonetheless.
//!
//! The modules below this one change directories. `names` and `node` implement the forms and the
//! conversions between them, on any fork. `tx` gives them the fork of an inode in a transaction
//! ([`Tx::dir_create`](crate::Tx::dir_create) and the functions beside it). `cache` and `direct`
//! are caches for large directories: free space in data blocks, and leaves of the hash tree.

mod direct;
pub(crate) mod fork;
pub mod index;
mod leaves;
mod lookup;
pub(crate) mod names;
mod node;
#[cfg(test)]
mod testing;
mod tx;

use std::ops::ControlFlow;

use xfskit_format::bmbt::Extent;
use xfskit_format::dir::data::{Data, Form, salvage};
use xfskit_format::dir::sf::Sf;
use xfskit_format::dir::{self, DataPtr, Entry};
use xfskit_format::inode::{Dinode, FileType};
use xfskit_format::{Ctx, Fork, Layout, VerifyResult, bytes, inode};
use xfskit_trans::Shared;
use xfskit_units::{ByteLen, FileOff, Geometry, Ino};

use crate::bmap::ExtentList;
use crate::da::DaFork;
use crate::error::{Error, Result};
use crate::inode::Inode;
use crate::volume::Volume;
use lookup::Lookup;

/// Number of data blocks that are read ahead at once.
const READ_AHEAD: usize = 64;

/// One name of a listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirEntry<'a> {
    /// 1 to 255 bytes, without slash and NUL.
    pub name: &'a [u8],
    /// The inode of the name.
    pub ino: Ino,
    /// The inode's type, if the volume keeps types in its directories (FTYPE).
    pub ftype: Option<FileType>,
    /// The cookie with which a later listing continues behind this entry. It stays valid while the
    /// directory changes.
    pub cookie: u64,
}

/// The callback of a listing. It is called for each entry, and for each part that cannot be read.
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

    /// Lists the directory `inode` from `cookie` on (0: from the start), "." and ".." included. See
    /// [`Dir::read`]. If its extent map is damaged, the blocks that the rest maps are listed.
    ///
    /// # Errors
    /// [`Error::NotDirectory`]; damage of the directory is passed to `each`.
    pub fn readdir(&self, inode: &Inode, cookie: u64, each: &mut EachEntry<'_>) -> Result<()> {
        let dir = match self.open_dir(inode) {
            Ok(dir) => dir,
            Err(error @ (Error::Corrupt(_) | Error::Device(_))) => {
                // A listing in portions reports it once.
                if cookie == 0 && each(Err(error)).is_break() {
                    return Ok(());
                }
                Dir { core: inode.core(), da: DaFork::salvage(self, inode, Fork::Data) }
            }
            Err(error) => return Err(error),
        };
        dir.read(cookie, each);
        Ok(())
    }

    /// Returns the inode and type of `name` in the directory `inode`, or `None` if there is no such
    /// name.
    ///
    /// # Errors
    /// [`Error::NotDirectory`], [`Error::Device`], [`Error::Corrupt`].
    pub fn lookup(&self, inode: &Inode, name: &[u8]) -> Result<Option<(Ino, Option<FileType>)>> {
        self.lookup_kept(inode, name, None)
    }

    /// Looks up a name like [`lookup`](Self::lookup), in a directory that [`share`](Self::share)
    /// locks in the state of `inode`. The locations of its blocks are cached.
    ///
    /// # Errors
    /// As [`lookup`](Self::lookup).
    pub fn lookup_kept(
        &self,
        inode: &Inode,
        name: &[u8],
        kept: Option<&Shared>,
    ) -> Result<Option<(Ino, Option<FileType>)>> {
        let core = inode.core();
        if !core.is_dir() {
            return Err(Error::NotDirectory(inode.ino()));
        }
        let da = DaFork::on_demand(
            self,
            inode,
            Fork::Data,
            kept.is_some() || !self.space().is_writable(),
        )?;
        Lookup { core: &core, da: &da }.lookup(name)
    }
}

/// Fails if `size`, that of a directory, is not the end of its last data block, or if it has no
/// hash tree and not one block. Linux then refuses a directory of one block, and finds no name
/// where the tree is missing; it lists others by their blocks, whatever the size. `data_end` and
/// `end` are the ends of the last extent of names and of the last of all.
fn verify_size(ctx: &Ctx<'_>, size: ByteLen, data_end: FileOff, end: FileOff) -> VerifyResult {
    let geo = ctx.geo;
    let leafblk = u64::from(geo.dir_leafblk().0);
    let unit = u64::from(geo.dirblkfsbs());
    let end = if end.0 <= leafblk { unit } else { data_end.0.min(leafblk) };
    ctx.eq("inode.size", end.next_multiple_of(unit) << geo.blocklog, size.0)
}

impl<'a> Dir<'a> {
    fn geo(&self) -> &'a Geometry {
        self.da.geo()
    }

    /// Returns the inode number of the directory.
    pub fn ino(&self) -> Ino {
        self.da.ino
    }

    /// Returns the extents of the directory's blocks; empty for a short form.
    pub fn extents(&self) -> &ExtentList {
        &self.da.extents
    }

    fn names(&self) -> Lookup<'_, 'a, ExtentList> {
        Lookup { core: &self.core, da: &self.da }
    }

    /// Returns the inode and type of `name`, or `None` if the directory has no such name.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn lookup(&self, name: &[u8]) -> Result<Option<(Ino, Option<FileType>)>> {
        self.names().lookup(name)
    }

    /// Lists the directory from `cookie` on (0: from the start), "." and ".." included, until
    /// `each` breaks. Damage is passed to `each` as well, in its position, and the listing
    /// continues.
    pub fn read(&self, cookie: u64, each: &mut EachEntry<'_>) {
        let _stopped = match self.names().short_form() {
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

    /// Passes `entry` of the data block at `fileoff` to `each`, unless it is before `cookie`.
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
        let named = entry.verify_name(ctx).and_then(|()| self.verify_dots(entry, fileoff, ctx));
        if let Err(fault) = named {
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

    /// Fails if "." or ".." is anywhere but in its own position, at the directory's beginning. Such
    /// an entry has overwritten another name.
    #[inline]
    fn verify_dots(&self, entry: &Entry<'_>, fileoff: FileOff, ctx: &Ctx<'_>) -> VerifyResult {
        let dot = Layout::of(self.geo()).dir_data_header;
        let place = match entry.name {
            b"." => dot,
            b".." => dot.saturating_add(dir::entry_len(self.geo(), 1)),
            _ => return Ok(()),
        };
        let there = fileoff.0 == 0 && usize::from(entry.offset) == place;
        ctx.require(
            "dir.dots",
            there,
            "\".\" and \"..\" once, first",
            String::from_utf8_lossy(entry.name).into_owned(),
        )
    }

    fn read_blocks(&self, cookie: u64, each: &mut EachEntry<'_>) -> ControlFlow<()> {
        if cookie == 0
            && let Err(fault) = self.verify_size()
        {
            each(Err(fault.into()))?;
        }
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

    fn verify_size(&self) -> VerifyResult {
        let leafblk = self.geo().dir_leafblk().0.into();
        let data = self.da.extents.as_slice();
        let below = data.partition_point(|extent| extent.startoff.0 < leafblk);
        let data_end = data[..below].last().map_or(FileOff::ZERO, Extent::end);
        let ctx = self.da.vol.ctx(inode::location(self.geo(), self.ino()));
        verify_size(&ctx, self.core.size(), data_end, self.da.extents.end())
    }

    /// Returns the mapped data blocks from the one at `first` on.
    fn data_blocks(&self, first: FileOff) -> impl Iterator<Item = FileOff> {
        let geo = self.geo();
        let unit = u64::from(geo.dirblkfsbs());
        let end = u64::from(geo.dir_leafblk().0);
        let mut next = first.0;
        self.da.extents.as_slice().iter().flat_map(move |extent| {
            // Pieces of one directory block may be several extents: begin behind the previous
            // block.
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

    /// Returns the intact entries of a block that failed its checks, if the block's header names
    /// this directory.
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
                .filter(|entry| self.geo().valid_ino(entry.inumber))
                .try_for_each(|entry| self.tell(&entry, fileoff, cookie, ctx, each)),
            _ => ControlFlow::Continue(()),
        }
    }

    /// Returns true if a block that failed its checks still names this directory as its owner.
    fn is_ours(&self, block: &[u8]) -> bool {
        let owner_ok = !self.geo().v5() || bytes::be64(block, 40) == Some(self.ino().0);
        owner_ok && Form::of(block, self.geo()).is_some()
    }
}
