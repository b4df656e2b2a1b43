//! Inodes, read one by one.
//!
//! The unit of inode I/O is the *cluster*: 16 KiB or more of consecutive inodes. A cluster is one
//! buffer in the cache and is verified as a whole when it is read. If one inode of a cluster is
//! corrupt or cannot be read, its neighbours need not be: each is then read and verified alone.
//!
//! To read all inodes of a volume, use [`bulkstat`](Volume::bulkstat).

use std::sync::Arc;

use xfskit_format::inode::{self, Dinode};
use xfskit_format::{Ctx, Layout, VerifyResult};
use xfskit_trans::{Buf, BufMap, InodeLocation, Shared};
use xfskit_units::{AgBlock, AgIno, AgNumber, Daddr, Geometry, Ino, Sectors, index};

use crate::error::{Error, Result};
use crate::volume::Volume;

/// One inode in use, verified when it was read. This is a copy that does not follow later changes.
#[derive(Clone, Debug)]
pub struct Inode {
    ino: Ino,
    bytes: Arc<Buf>,
    layout: &'static Layout,
}

impl Inode {
    /// Makes inode `ino` from its verified bytes.
    pub(crate) fn new(ino: Ino, bytes: Arc<Buf>, geo: &Geometry) -> Self {
        Self { ino, bytes, layout: Layout::of(geo) }
    }

    /// Returns the inode number.
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// Returns the inode's core.
    ///
    /// # Panics
    /// Never: the bytes were verified when the inode was made.
    pub fn core(&self) -> Dinode<'_> {
        Dinode::from_core(&self.bytes, self.layout).expect("a verified inode has a core")
    }

    /// Returns a copy of the inode whose bytes are changed by `edit`. Its checksum is not valid.
    pub(crate) fn with(&self, edit: impl FnOnce(&mut [u8])) -> Self {
        let mut bytes = self.bytes.to_vec();
        edit(&mut bytes);
        Self { bytes: bytes.into(), ..*self }
    }

    /// Returns true if `other` is a copy of the same file, possibly from another time. An inode
    /// number alone does not tell, because the number of a removed file is reused.
    pub fn is_same_file(&self, other: &Self) -> bool {
        self.ino == other.ino && self.core().generation() == other.core().generation()
    }

    /// Returns all bytes of the inode, as on disk.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The blocks that are read together with one inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cluster {
    agno: AgNumber,
    agbno: AgBlock,
    blocks: u32,
}

impl Volume {
    /// Returns inode `ino`, which must be in use.
    ///
    /// # Errors
    /// [`Error::NoInode`] if it is free or cannot exist, [`Error::Device`], [`Error::Corrupt`].
    pub fn iget(&self, ino: Ino) -> Result<Inode> {
        let geo = self.geo();
        let bytes = match self.live_dinode(ino)? {
            Some(live) => live,
            None => self.read_dinode(ino)?,
        };
        let inode = Inode::new(ino, bytes, geo);
        if inode.core().is_free() {
            return Err(Error::NoInode(ino));
        }
        Ok(inode)
    }

    /// Returns the verified bytes of inode `ino`, in use or free, from its cluster. Changes by
    /// later transactions may not be in them.
    pub(crate) fn read_dinode(&self, ino: Ino) -> Result<Arc<Buf>> {
        self.read_dinode_at(ino, &self.inode_home(ino)?)
    }

    /// Returns the verified bytes of the inode at `home`, like [`read_dinode`](Self::read_dinode).
    pub(crate) fn read_dinode_at(&self, ino: Ino, home: &InodeLocation) -> Result<Arc<Buf>> {
        if self.space().is_writable()
            && let Some(cluster) = self.cache().unmaterialized_cluster(home)
        {
            return Ok(cluster.image(self.geo(), home.offset, self.geo().inodesize()));
        }
        let (agno, agino) = self.locate(ino)?;
        let (buf, offset) = match self.read_cluster(agno, agino) {
            Err(Error::Corrupt(_) | Error::Device(_)) => self.read_alone(ino)?,
            found => found?,
        };
        let bytes = buf.get(offset..).and_then(|bytes| bytes.get(..self.geo().inodesize()));
        let short = || self.ctx(inode::location(self.geo(), ino)).short("inode.magic", buf.len());
        Ok(bytes.ok_or_else(short)?.into())
    }

    /// Returns the disk location of inode `ino`.
    ///
    /// # Errors
    /// [`Error::NoInode`] if it cannot exist.
    pub fn inode_home(&self, ino: Ino) -> Result<InodeLocation> {
        let (agno, agino) = self.locate(ino)?;
        let cluster = self.cluster_of(agno, agino);
        let ahead = agino.since(self.geo().agb_to_agino(cluster.agbno)).unwrap_or(0);
        let offset = index(u64::from(ahead) << self.geo().inodelog);
        Ok(InodeLocation { cluster: self.cluster_range(cluster), offset })
    }

    /// Locks inode `ino` shared, including its directory and attribute blocks, until the returned
    /// guard is dropped. Returns `None` on a volume that is open for reading, where nothing
    /// changes. The caller must not be in a transaction.
    ///
    /// # Errors
    /// [`Error::NoInode`] if it cannot exist, [`Error::Device`], [`Error::Corrupt`].
    pub fn share(&self, ino: Ino) -> Result<Option<Shared>> {
        let Ok(engine) = self.engine() else { return Ok(None) };
        let home = self.inode_home(ino)?;
        Ok(Some(engine.inodes().share(ino, &home, || self.read_dinode_at(ino, &home))?))
    }

    /// Returns the last committed state of inode `ino`, from memory if a transaction has it.
    /// Returns `None` on a volume that is open for reading.
    fn live_dinode(&self, ino: Ino) -> Result<Option<Arc<Buf>>> {
        let Ok(engine) = self.engine() else { return Ok(None) };
        let home = self.inode_home(ino)?;
        Ok(Some(engine.inodes().read(ino, &home, || self.read_dinode_at(ino, &home))?))
    }

    /// Starts read-ahead of the clusters of many inodes, merging neighbouring ones.
    pub fn read_ahead_inodes(&self, inos: &[Ino]) {
        let mut wanted: Vec<(Daddr, Sectors)> = inos
            .iter()
            .filter_map(|&ino| {
                let (agno, agino) = self.locate(ino).ok()?;
                let cluster = self.cluster_of(agno, agino);
                Some(self.cluster_range(cluster))
            })
            .collect();
        wanted.dedup();
        self.cache().read_ahead(&wanted);
    }

    /// Returns many inodes, with read-ahead of their clusters. Result `i` belongs to `inos[i]`.
    pub fn iget_many(&self, inos: &[Ino]) -> Vec<Result<Inode>> {
        self.read_ahead_inodes(inos);
        inos.iter().map(|&ino| self.iget(ino)).collect()
    }

    /// Returns the group of an inode, and its number within the group, if the inode can exist.
    fn locate(&self, ino: Ino) -> Result<(AgNumber, AgIno)> {
        match self.geo().ino_split(ino) {
            Some((agno, agino)) if self.geo().valid_agino(agno, agino) => Ok((agno, agino)),
            _ => Err(Error::NoInode(ino)),
        }
    }

    /// Returns the cluster of an inode. If clusters are not aligned, only the inode btree records
    /// their start. The inode's own block is used then.
    fn cluster_of(&self, agno: AgNumber, agino: AgIno) -> Cluster {
        let geo = self.geo();
        let agbno = geo.agino_to_agb(agino);
        let blocks = geo.cluster_blocks();
        if geo.cluster_align().is_multiple_of(blocks) {
            Cluster { agno, agbno: AgBlock(agbno.0 - agbno.0 % blocks), blocks }
        } else {
            Cluster { agno, agbno, blocks: 1 }
        }
    }

    fn cluster_range(&self, cluster: Cluster) -> (Daddr, Sectors) {
        let geo = self.geo();
        let len = Sectors(geo.block_sectors().0 * u64::from(cluster.blocks));
        (geo.agb_to_daddr(cluster.agno, cluster.agbno), len)
    }

    /// Returns the cluster of an inode, with all its inodes verified, and the inode's byte offset
    /// in it.
    fn read_cluster(&self, agno: AgNumber, agino: AgIno) -> Result<(Arc<Buf>, usize)> {
        let geo = self.geo();
        let cluster = self.cluster_of(agno, agino);
        let first = geo.agb_to_agino(cluster.agbno);
        let (daddr, len) = self.cluster_range(cluster);
        let first_ino = geo.agino_to_ino(agno, first);
        let ctx = self.ctx(inode::location(geo, first_ino));
        let verify = |bytes: &[u8], ctx: &Ctx<'_>| verify_all(bytes, ctx, first_ino);
        let buf = self.cache().read(&BufMap::single(daddr, len), &ctx, &verify)?;
        let ahead = agino.since(first).unwrap_or(0);
        Ok((buf, index(u64::from(ahead) << geo.inodelog)))
    }

    /// Returns the sectors around one inode, and the inode's byte offset in them.
    fn read_alone(&self, ino: Ino) -> Result<(Arc<Buf>, usize)> {
        let geo = self.geo();
        let start = geo.ino_to_byte(ino).ok_or(Error::NoInode(ino))?.0;
        let offset = index(start % 512);
        let len = Sectors(geo.inodesize().div_ceil(512) as u64);
        let ctx = self.ctx(inode::location(geo, ino));
        let verify = |bytes: &[u8], ctx: &Ctx<'_>| {
            Dinode::verify(bytes.get(offset..).unwrap_or(&[]), ctx, ino).map(drop)
        };
        let map = BufMap::single(Daddr(start / 512), len);
        let buf = self.cache().read(&map, &ctx, &verify)?;
        // Inodes of 256 bytes share their sector with another, which may be the one that was
        // verified.
        verify(&buf, &ctx)?;
        Ok((buf, offset))
    }
}

/// Verifies every inode of a cluster that begins with inode `first`.
fn verify_all(bytes: &[u8], ctx: &Ctx<'_>, first: Ino) -> VerifyResult {
    for (ino, inode) in (first.0..).map(Ino).zip(bytes.chunks_exact(ctx.geo.inodesize())) {
        Dinode::verify(inode, &ctx.at(inode::location(ctx.geo, ino)), ino)?;
    }
    Ok(())
}
