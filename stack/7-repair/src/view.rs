//! What a repair reads of files: inodes, blocks of forks.

use std::collections::BTreeMap;

use xfskit_block::BlockDevice;
use xfskit_check::{ForkMap, Survey, fork_map};
use xfskit_format::bmbt::{Extent, MAX_BLOCKCOUNT};
use xfskit_format::inobt::Chunk;
use xfskit_format::inode::{self, Dinode, FileType};
use xfskit_format::{Ctx, Fork, Location, rmap};
use xfskit_units::{Daddr, FilBlks, FileOff, FsBlock, Geometry, Ino};

use crate::error::Result;
use crate::unclaimed::Unclaimed;

/// The volume as a survey found it, on its device.
#[derive(Clone, Copy)]
pub(crate) struct View<'r> {
    pub dev: &'r dyn BlockDevice,
    pub geo: &'r Geometry,
    pub survey: &'r Survey,
    /// Blocks that nothing claims, where they were looked for.
    pub unclaimed: Option<&'r Unclaimed>,
}

impl<'r> View<'r> {
    /// Returns the bytes of inode `ino`; `None` if the volume has no such place.
    pub(crate) fn inode(&self, ino: Ino) -> Result<Option<Vec<u8>>> {
        let Some(at) = self.geo.ino_to_byte(ino) else { return Ok(None) };
        let mut bytes = vec![0; self.geo.inodesize()];
        self.dev.read_at(at, &mut bytes)?;
        Ok(Some(bytes))
    }

    /// Returns the context in which inode `ino` is verified.
    pub(crate) fn ctx(&self, ino: Ino) -> Ctx<'r> {
        Ctx::new(self.geo, inode::location(self.geo, ino))
    }

    /// Returns the map of a fork of `inode`.
    pub(crate) fn map(&self, inode: &Dinode<'_>, ino: Ino, fork: Fork) -> ForkMap {
        fork_map(self.dev, self.geo, inode, ino, fork)
    }

    /// Returns the map of a fork as the rmapbts of all groups have it; `None` if one of them cannot
    /// be read, or what they have is no map.
    pub(crate) fn recorded_map(&self, ino: Ino, fork: Fork) -> Option<Vec<Extent>> {
        let mut extents = Vec::new();
        for group in &self.survey.groups {
            for rec in group.recorded_files.as_ref()? {
                let offset = rec.offset.get();
                let is_attr = offset & rmap::OFF_ATTR_FORK != 0;
                if rec.owner.get() != ino.0
                    || offset & rmap::OFF_BMBT_BLOCK != 0
                    || is_attr != (fork == Fork::Attr)
                {
                    continue;
                }
                extents.push(Extent {
                    startoff: FileOff(offset & rmap::OFF_MASK),
                    startblock: self.geo.agb_to_fsb(group.agno, rec.start()),
                    blockcount: FilBlks(rec.len().0.into()),
                    unwritten: offset & rmap::OFF_UNWRITTEN != 0,
                });
            }
        }
        extents.sort_unstable_by_key(|extent| extent.startoff);
        let apart = extents.windows(2).all(|pair| pair[0].end() <= pair[1].startoff);
        let fits = extents.iter().all(|extent| extent.blockcount.0 <= MAX_BLOCKCOUNT);
        Some(extents).filter(|_| apart && fits)
    }

    /// Returns true if a free-space btree has a block as free.
    pub(crate) fn is_free(&self, fsbno: FsBlock) -> bool {
        let Some((agno, agbno)) = self.geo.fsb_split(fsbno) else { return false };
        let group = self.survey.groups.iter().find(|group| group.agno == agno);
        let free = group.and_then(|group| group.recorded_free.as_deref()).unwrap_or(&[]);
        let behind = free.partition_point(|run| run.start <= agbno.0);
        behind.checked_sub(1).and_then(|at| free.get(at)).is_some_and(|run| agbno.0 < run.end())
    }

    /// Returns true if a chunk has inode `ino` as in use.
    pub(crate) fn is_used(&self, ino: Ino) -> bool {
        let Some((agno, agino)) = self.geo.ino_split(ino) else { return false };
        let Some(group) = self.survey.groups.iter().find(|group| group.agno == agno) else {
            return false;
        };
        let behind = group.chunks.partition_point(|chunk| chunk.startino <= agino);
        let chunk = behind.checked_sub(1).and_then(|at| group.chunks.get(at));
        let bit = chunk.and_then(|chunk| Some((agino.since(chunk.startino)?, chunk)));
        bit.is_some_and(|(bit, chunk)| bit < 64 && chunk.used() >> bit & 1 == 1)
    }

    /// Returns the type of inode `ino`; `None` if it is free or damaged.
    pub(crate) fn kind(&self, ino: Ino) -> Result<Option<FileType>> {
        if !self.is_used(ino) {
            return Ok(None);
        }
        let bytes = self.inode(ino)?;
        let verified = bytes.as_ref().map(|bytes| Dinode::verify(bytes, &self.ctx(ino), ino));
        Ok(verified.and_then(std::result::Result::ok).and_then(|inode| inode.file_type()))
    }

    /// Returns all inodes that chunks have as in use, in order.
    pub(crate) fn used_inodes(&self) -> impl Iterator<Item = Ino> + 'r {
        let geo = self.geo;
        self.survey.groups.iter().flat_map(move |group| {
            let inodes = group.chunks.iter().flat_map(|chunk: &Chunk| {
                let used = chunk.used();
                (0u32..64).filter(move |bit| used >> bit & 1 == 1).map(|bit| (chunk.startino, bit))
            });
            inodes.map(move |(start, bit)| {
                let agino = xfskit_units::AgIno(start.0.saturating_add(bit));
                geo.agino_to_ino(group.agno, agino)
            })
        })
    }

    /// Reads `len` bytes of a fork from file block `fileoff` on; `None` where a part is not mapped.
    pub(crate) fn read_mapped(
        &self,
        map: &[Extent],
        fileoff: u64,
        len: usize,
    ) -> Result<Option<Vec<u8>>> {
        let mut bytes = vec![0; len];
        for (at, block) in (fileoff..).zip(bytes.chunks_mut(self.geo.blocksize())) {
            let Some(daddr) = self.daddr(map, at) else { return Ok(None) };
            self.dev.read_at(daddr.byte_offset(), block)?;
        }
        Ok(Some(bytes))
    }

    /// Returns the place of file block `fileoff`.
    pub(crate) fn daddr(&self, map: &[Extent], fileoff: u64) -> Option<Daddr> {
        daddr(self.geo, map, fileoff)
    }

    /// Returns the location of a block of a fork.
    pub(crate) fn block(&self, map: &[Extent], ino: Ino, fork: Fork, fileoff: u64) -> Location {
        let at = Location::of("block").ino(ino).fork(fork).fileoff(FileOff(fileoff));
        match self.daddr(map, fileoff) {
            Some(daddr) => at.daddr(daddr, xfskit_units::Sectors(0)),
            None => at,
        }
    }
}

/// Returns the place of file block `fileoff` of a map.
pub(crate) fn daddr(geo: &Geometry, map: &[Extent], fileoff: u64) -> Option<Daddr> {
    geo.fsb_to_daddr(block_of(map, FileOff(fileoff))?)
}

/// Returns the block that a map has for file block `fileoff`.
pub(crate) fn block_of(map: &[Extent], fileoff: FileOff) -> Option<FsBlock> {
    let behind = map.partition_point(|extent| extent.startoff <= fileoff);
    map.get(behind.checked_sub(1)?)?.block_at(fileoff)
}

/// A name of an inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub dir: Ino,
    /// Of the directory.
    pub generation: u32,
    pub name: Vec<u8>,
    /// The type of the inode, as the entry has it.
    pub kind: Option<FileType>,
}

/// The names of inodes.
pub(crate) type Links = BTreeMap<Ino, Vec<Link>>;

impl Link {
    /// Returns the name as reports show it: the number of the directory before it.
    pub(crate) fn shown(&self) -> String {
        format!("{:?} of directory {}", String::from_utf8_lossy(&self.name), self.dir)
    }
}
