//! Inodes, read one by one.
//!
//! The unit of inode I/O is the *cluster*: up to 16 KiB and more of consecutive inodes, one buffer
//! in the cache, judged as a whole when it is read. Where one inode of a cluster is beyond help, its
//! neighbours are not: each is then read and judged on its own.
//!
//! Whoever wants all inodes of a volume is better served by [`bulkstat`](Volume::bulkstat).

use std::sync::Arc;

use xfskit_format::inode::{self, Dinode};
use xfskit_format::{Ctx, Layout, VerifyResult};
use xfskit_trans::{Buf, BufMap, InodeLocation, Shared};
use xfskit_units::{AgBlock, AgIno, AgNumber, Daddr, Geometry, Ino, Sectors, index};

use crate::error::{Error, Result};
use crate::volume::Volume;

/// One inode in use, verified when it was read. A copy: it does not follow later changes.
#[derive(Clone, Debug)]
pub struct Inode {
    ino: Ino,
    bytes: Arc<Buf>,
    layout: &'static Layout,
}

impl Inode {
    /// Inode `ino`, whose verified bytes these are.
    pub(crate) fn new(ino: Ino, bytes: Arc<Buf>, geo: &Geometry) -> Self {
        Self { ino, bytes, layout: Layout::of(geo) }
    }

    /// Its number.
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// What it says.
    ///
    /// # Panics
    /// Never: the bytes were verified when the inode was made.
    pub fn core(&self) -> Dinode<'_> {
        Dinode::from_core(&self.bytes, self.layout).expect("a verified inode has a core")
    }

    /// The same inode, its bytes changed by `edit`; they have no checksum then.
    pub(crate) fn with(&self, edit: impl FnOnce(&mut [u8])) -> Self {
        let mut bytes = self.bytes.to_vec();
        edit(&mut bytes);
        Self { bytes: bytes.into(), ..*self }
    }

    /// True where `other` is a copy of the same file, maybe of another time: the number of a removed file is given to others.
    pub fn is_same_file(&self, other: &Self) -> bool {
        self.ino == other.ino && self.core().generation() == other.core().generation()
    }

    /// All its bytes, as they stand on disk.
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
    /// Inode `ino`, which must be in use.
    ///
    /// # Errors
    /// [`Error::NoInode`] where it is free or cannot exist, [`Error::Device`], [`Error::Corrupt`].
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

    /// The bytes of inode `ino`, in use or free, verified, from its cluster: not what a transaction may
    /// have made of it since.
    pub(crate) fn read_dinode(&self, ino: Ino) -> Result<Arc<Buf>> {
        self.read_dinode_at(ino, &self.inode_home(ino)?)
    }

    /// The same for an inode that is written at `home`.
    pub(crate) fn read_dinode_at(&self, ino: Ino, home: &InodeLocation) -> Result<Arc<Buf>> {
        if self.engine.is_some()
            && let Some(cluster) = self.cache().untaken(home)
        {
            return Ok(cluster.image(self.geo(), home.offset, self.geo().inodesize()));
        }
        let (agno, agino) = self.locate(ino)?;
        let (buf, offset) = match self.read_cluster(agno, agino) {
            Err(Error::Corrupt(_)) => self.read_alone(ino)?,
            found => found?,
        };
        let bytes = buf.get(offset..).and_then(|bytes| bytes.get(..self.geo().inodesize()));
        let short = || self.ctx(inode::location(self.geo(), ino)).short("inode.magic", buf.len());
        Ok(bytes.ok_or_else(short)?.into())
    }

    /// Where inode `ino` is written in place.
    ///
    /// # Errors
    /// [`Error::NoInode`] where it cannot exist.
    pub fn inode_home(&self, ino: Ino) -> Result<InodeLocation> {
        let (agno, agino) = self.locate(ino)?;
        let cluster = self.cluster_of(agno, agino);
        let ahead = agino.since(self.geo().agb_to_agino(cluster.agbno)).unwrap_or(0);
        let offset = index(u64::from(ahead) << self.geo().inodelog);
        Ok(InodeLocation { cluster: self.cluster_range(cluster), offset })
    }

    /// Keeps inode `ino` as it is, its directory or attribute blocks too, while the answer lives; `None` on a volume
    /// that is open for reading, where nothing changes. The caller is in no transaction.
    ///
    /// # Errors
    /// [`Error::NoInode`] where it cannot exist, [`Error::Device`], [`Error::Corrupt`].
    pub fn share(&self, ino: Ino) -> Result<Option<Shared>> {
        let Some(engine) = &self.engine else { return Ok(None) };
        let home = self.inode_home(ino)?;
        Ok(Some(engine.inodes().share(ino, &home, || self.read_dinode_at(ino, &home))?))
    }

    /// Inode `ino` as it was committed last: from memory where a transaction knows it. `None` on a volume
    /// that is open for reading.
    fn live_dinode(&self, ino: Ino) -> Result<Option<Arc<Buf>>> {
        let Some(engine) = &self.engine else { return Ok(None) };
        let home = self.inode_home(ino)?;
        Ok(Some(engine.inodes().read(ino, &home, || self.read_dinode_at(ino, &home))?))
    }

    /// Announces the clusters of many inodes to the device, near ones together.
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

    /// Many inodes, their clusters read ahead together. Entry `i` of the answer belongs to
    /// `inos[i]`.
    pub fn iget_many(&self, inos: &[Ino]) -> Vec<Result<Inode>> {
        self.read_ahead_inodes(inos);
        inos.iter().map(|&ino| self.iget(ino)).collect()
    }

    /// Group and number within it of an inode that can exist.
    fn locate(&self, ino: Ino) -> Result<(AgNumber, AgIno)> {
        match self.geo().ino_split(ino) {
            Some((agno, agino)) if self.geo().valid_agino(agno, agino) => Ok((agno, agino)),
            _ => Err(Error::NoInode(ino)),
        }
    }

    /// The cluster of an inode. Where clusters are not aligned, its start is written in the inode
    /// btree only, and the inode's own block has to do.
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

    /// The cluster of an inode, all of whose inodes passed, and where in it the inode begins, in
    /// bytes.
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

    /// The sectors around one inode, and where in them it begins, in bytes.
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
        // Inodes of 256 bytes share their sector with another, which may have been the one that was judged.
        verify(&buf, &ctx)?;
        Ok((buf, offset))
    }
}

/// Judges every inode of a cluster that begins with inode `first`.
fn verify_all(bytes: &[u8], ctx: &Ctx<'_>, first: Ino) -> VerifyResult {
    for (ino, inode) in (first.0..).map(Ino).zip(bytes.chunks_exact(ctx.geo.inodesize())) {
        Dinode::verify(inode, &ctx.at(inode::location(ctx.geo, ino)), ino)?;
    }
    Ok(())
}
