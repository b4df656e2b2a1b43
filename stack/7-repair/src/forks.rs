//! Both forks of an inode, laid out again.

use std::collections::BTreeSet;

use xfskit_block::BlockDevice;
use xfskit_bulk::bmbt::Shape;
use xfskit_format::attr::forkoff::{self, DataNeed};
use xfskit_format::bmbt::{self, Extent};
use xfskit_format::inode::{self, Dinode, Format, InodeMut};
use xfskit_units::{AgNumber, ByteOffset, Daddr, Geometry, Ino};

use crate::core_fields::set_counters;
use crate::error::{Error, Result};
use crate::room::Room;
use crate::view::daddr;

/// The content of a fork.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// Nothing: there is no such fork.
    None,
    /// Bytes in the inode.
    Local(Vec<u8>),
    /// A device number.
    Device(Vec<u8>),
    /// Blocks.
    Mapped(Vec<Extent>),
}

/// The content of both forks.
#[derive(Clone, Debug)]
pub(crate) struct Forks {
    pub data: Content,
    pub attr: Content,
    /// `forkoff` of the inode, where the attributes need one of their own.
    pub forkoff: Option<u8>,
}

impl Content {
    /// Returns what a data fork with this content needs of the inode.
    pub(crate) fn need(&self, geo: &Geometry) -> DataNeed {
        match self {
            Self::Device(_) => DataNeed::Device,
            Self::None => DataNeed::Inline(0),
            Self::Local(bytes) => DataNeed::Inline(bytes.len()),
            Self::Mapped(extents) => {
                let len = extents.len() * size_of::<bmbt::Rec>();
                let fits = len <= forkoff::data_max(geo);
                if fits { DataNeed::Inline(len) } else { DataNeed::Btree }
            }
        }
    }

    fn extents(&self) -> &[Extent] {
        if let Self::Mapped(extents) = self { extents } else { &[] }
    }
}

/// Where inodes are written.
pub(crate) struct Writer<'w, 'r> {
    pub dev: &'w dyn BlockDevice,
    pub geo: &'r Geometry,
    pub room: Room<'r>,
    /// The inodes that were written.
    pub written: BTreeSet<Ino>,
}

impl Writer<'_, '_> {
    /// Lays both forks of inode `ino` out again, whose core is in `bytes`, and writes it.
    ///
    /// # Errors
    /// [`Error::NoBlocks`]; [`Error::NoFit`] if both forks do not fit the inode.
    pub(crate) fn write(&mut self, ino: Ino, bytes: &mut [u8], forks: &Forks) -> Result<()> {
        let literal = forkoff::literal_len(self.geo);
        let forkoff = self.forkoff(bytes, forks).ok_or(Error::NoFit { ino: ino.0 })?;
        let boundary = if forkoff == 0 { literal } else { usize::from(forkoff) * 8 };
        let (data_format, data, data_blocks) = self.fork(ino, &forks.data, boundary)?;
        let attr_room = literal.saturating_sub(boundary);
        let (attr_format, attr, attr_blocks) = self.fork(ino, &forks.attr, attr_room)?;
        if data.len() > boundary || attr.len() > attr_room {
            return Err(Error::NoFit { ino: ino.0 });
        }
        let Some(inode) = InodeMut::new(bytes) else { return Ok(()) };
        inode.literal.fill(0);
        inode.literal[..data.len()].copy_from_slice(&data);
        if !attr.is_empty() {
            inode.literal[boundary..boundary + attr.len()].copy_from_slice(&attr);
        }
        let core = &mut inode.core.core;
        core.forkoff = forkoff;
        core.format = data_format as u8;
        core.aformat = attr_format as u8;
        let counts = [&forks.data, &forks.attr].map(|content| content.extents().len() as u64);
        if !set_counters(bytes, counts, data_blocks + attr_blocks) {
            return Err(Error::NoFit { ino: ino.0 });
        }
        inode::stamp(bytes);
        self.written.insert(ino);
        self.put(self.geo.ino_to_byte(ino), bytes)
    }

    /// Writes bytes at a place.
    pub(crate) fn put(&self, at: Option<ByteOffset>, bytes: &[u8]) -> Result<()> {
        if let Some(at) = at {
            self.dev.write_at(at, bytes)?;
        }
        Ok(())
    }

    /// Writes a structure of whole blocks to its place in a map.
    pub(crate) fn put_mapped(&self, map: &[Extent], fileoff: u64, bytes: &[u8]) -> Result<()> {
        for (at, block) in (fileoff..).zip(bytes.chunks(self.geo.blocksize())) {
            self.put(daddr(self.geo, map, at).map(Daddr::byte_offset), block)?;
        }
        Ok(())
    }

    /// Returns the group of an inode, near which its blocks are.
    pub(crate) fn near(&self, ino: Ino) -> AgNumber {
        self.geo.ino_split(ino).map_or(AgNumber(0), |(agno, _)| agno)
    }

    /// Returns where the attribute fork begins: where it does now, if both forks fit.
    fn forkoff(&self, bytes: &[u8], forks: &Forks) -> Option<u8> {
        let want = match &forks.attr {
            Content::None => return Some(0),
            Content::Local(list) => list.len(),
            Content::Device(_) => return None,
            Content::Mapped(extents) => extents.len() * size_of::<bmbt::Rec>(),
        };
        let need = forks.data.need(self.geo);
        let now = Dinode::parse(bytes, self.geo).map_or(0, |inode| inode.forkoff());
        let room = forkoff::literal_len(self.geo).saturating_sub(usize::from(now) * 8);
        let data_fits = match need {
            DataNeed::Inline(len) => len <= usize::from(now) * 8,
            DataNeed::Device => now == 1,
            DataNeed::Btree => now > 0,
        };
        let mapped = matches!(forks.attr, Content::Mapped(_));
        if forks.forkoff.is_none() && now > 0 && data_fits && (mapped || want <= room) {
            return Some(now);
        }
        let least = if mapped { 0 } else { want };
        forks.forkoff.or_else(|| forkoff::choose(self.geo, need, least.max(36)))
    }

    /// Returns the format of a fork, its bytes in the inode, and its blocks; writes its btree.
    fn fork(&mut self, ino: Ino, content: &Content, room: usize) -> Result<(Format, Vec<u8>, u64)> {
        let extents = match content {
            Content::None => return Ok((Format::Extents, Vec::new(), 0)),
            Content::Local(bytes) => return Ok((Format::Local, bytes.clone(), 0)),
            Content::Device(bytes) => return Ok((Format::Dev, bytes.clone(), 0)),
            Content::Mapped(extents) => extents,
        };
        let shape = Shape::new(self.geo, room, extents.len());
        let near = self.near(ino);
        let places = self.room.blocks(near, shape.blocks())?;
        for (place, block) in places.iter().zip(shape.load(self.geo, ino, extents, &places)) {
            self.put(self.geo.fsb_to_byte(*place), &block)?;
        }
        let mapped: u64 = extents.iter().map(|extent| extent.blockcount.0).sum();
        Ok((shape.format(), shape.fork(extents, &places), mapped + places.len() as u64))
    }
}
