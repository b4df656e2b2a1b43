//! Plans one inode: the contents of its forks, and their formats.
//!
//! The formats depend on each other. A symbolic link or a small directory is in the inode only if
//! the attributes leave space. The number of extents decides whether an extent map becomes a btree,
//! and the blocks given decide the number of extents. So the order is: the content's blocks, then
//! the attributes', then those of the maps. The caller supplies the blocks: the plan takes them
//! from free space, and the writer, which plans the same inode again, from the plan's record.

use std::borrow::Cow;

use xfskit_bulk::attr::{AttrForm, AttrPlan, NewAttr, PlanError};
use xfskit_bulk::bmbt::{self, Shape};
use xfskit_bulk::dir::{DirBlocks, DirPlan, NewEntry};
use xfskit_format::Layout;
use xfskit_format::attr::Namespace;
use xfskit_format::attr::forkoff::{self, DataNeed};
use xfskit_format::bmbt::Extent;
use xfskit_format::inode::FileType;
use xfskit_mkfs::Plan;
use xfskit_units::{FilBlks, FileOff, FsBlock, Geometry, Ino};

use super::BuildError;
use super::inode_order::{InodeOrder, Part};
use super::space::Run;
use crate::source::{Kind, NodeId, Tree};

/// Allocates blocks for one purpose.
pub(super) type AllocBlocks<'g> = &'g mut dyn FnMut(u64) -> Result<Vec<Run>, BuildError>;

/// The content of a data fork.
#[derive(Debug)]
pub(super) enum Content<'a> {
    /// Bytes in the inode: a small directory, a target.
    Local(Cow<'a, [u8]>),
    /// A device number; 0 for a pipe or a socket.
    Device(u32),
    /// A directory's blocks.
    Dir(Box<DirBlocks<'a>>),
    /// A long target's blocks.
    Target(&'a [u8]),
    /// A file's blocks.
    File {
        /// Size in bytes.
        size: u64,
    },
}

/// An extent map, and its own blocks.
#[derive(Debug)]
pub(super) struct Map {
    pub(super) extents: Vec<Extent>,
    pub(super) shape: Shape,
    pub(super) places: Vec<FsBlock>,
}

/// One inode with all its blocks.
#[derive(Debug)]
pub(super) struct InodePlan<'a> {
    pub(super) id: NodeId,
    pub(super) ino: Ino,
    pub(super) content: Content<'a>,
    pub(super) data: Map,
    pub(super) attrs: AttrPlan<'a>,
    pub(super) attr: Map,
}

/// The inputs of all inodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanInput<'a> {
    pub(super) tree: &'a Tree,
    pub(super) plan: &'a Plan,
    pub(super) inode_order: &'a InodeOrder,
}

/// Returns the bytes of both forks.
fn literal(geo: &Geometry) -> usize {
    geo.inodesize() - Layout::V5.inode_core
}

/// Returns the generation of inode `ino`, a hash of the volume's UUID, because there is no
/// randomness here. The root directory's is 0, as mkfs makes it.
pub(super) fn generation(plan: &Plan, ino: Ino) -> u32 {
    if ino == plan.geometry.rootino {
        return 0;
    }
    let (high, low) = plan.stamp.uuid.as_u64_pair();
    let mixed = mix(high ^ mix(low ^ mix(ino.0)));
    u32::try_from(mixed >> 32).unwrap_or(0)
}

/// Spreads every bit over all (the finalizer of splitmix64).
fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// Returns the type of node `id`, or its target's if it is a hard link.
pub(super) fn file_type(tree: &Tree, id: NodeId) -> FileType {
    match tree.node(tree.inode(id)).kind {
        Kind::Dir { .. } => FileType::Directory,
        Kind::File { .. } | Kind::HardLink(_) => FileType::Regular,
        Kind::Symlink { .. } => FileType::Symlink,
        Kind::Char { .. } => FileType::CharDevice,
        Kind::Block { .. } => FileType::BlockDevice,
        Kind::Fifo => FileType::Fifo,
        Kind::Socket => FileType::Socket,
    }
}

/// Maps `parts` of a fork to `runs` of blocks, and returns the map.
fn lay(parts: &[Part], runs: &[Run]) -> Vec<Extent> {
    let mut extents = Vec::with_capacity(parts.len().max(runs.len()));
    let mut runs = runs.iter().copied();
    let mut run = Run { start: FsBlock(0), len: 0 };
    for part in parts {
        let (mut at, mut left) = (part.start.0, part.len.0);
        while left > 0 {
            if run.len == 0 {
                let Some(next) = runs.next() else { return extents };
                run = next;
            }
            let len = u32::try_from(left).unwrap_or(u32::MAX).min(run.len);
            bmbt::append(&mut extents, FileOff(at), run.start, len.into());
            run = Run { start: FsBlock(run.start.0 + u64::from(len)), len: run.len - len };
            (at, left) = (at + u64::from(len), left - u64::from(len));
        }
    }
    extents
}

/// Returns one part from the beginning on.
fn first_blocks(blocks: u64) -> Vec<Part> {
    if blocks == 0 {
        return Vec::new();
    }
    vec![Part { start: FileOff(0), len: FilBlks(blocks) }]
}

impl Map {
    /// Returns the map of `parts`, on blocks from `alloc`.
    fn laid(parts: &[Part], alloc: AllocBlocks<'_>) -> Result<Vec<Extent>, BuildError> {
        let blocks = parts.iter().map(|part| part.len.0).sum();
        Ok(lay(parts, &alloc(blocks)?))
    }

    /// Plans the map of `extents` in a fork of `capacity` bytes.
    fn new(
        geo: &Geometry,
        extents: Vec<Extent>,
        room: usize,
        alloc: AllocBlocks<'_>,
    ) -> Result<Self, BuildError> {
        let shape = Shape::new(geo, room, extents.len());
        let runs = alloc(shape.blocks() as u64)?;
        let block = |run: Run| (run.start.0..run.start.0 + u64::from(run.len)).map(FsBlock);
        Ok(Self { extents, shape, places: runs.into_iter().flat_map(block).collect() })
    }

    /// Returns the number of blocks that are mapped, and of the map itself.
    pub(super) fn blocks(&self) -> u64 {
        let mapped: u64 = self.extents.iter().map(|extent| extent.blockcount.0).sum();
        mapped + self.places.len() as u64
    }
}

impl<'a> PlanInput<'a> {
    pub(super) fn geo(&self) -> &'a Geometry {
        &self.plan.geometry
    }

    /// Plans inode `index` of the order, with blocks from `alloc`.
    pub(super) fn inode_plan(
        &self,
        place: usize,
        alloc: AllocBlocks<'_>,
    ) -> Result<InodePlan<'a>, BuildError> {
        let geo = self.geo();
        let (id, ino) = (self.inode_order.order[place], self.inode_order.inos[place]);
        let attrs = self.attrs(id);
        let room = if attrs.is_empty() { literal(geo) } else { forkoff::data_max(geo) };
        let content = self.content(id, ino, room)?;
        let extents = Map::laid(&self.parts(id, &content), alloc)?;
        let attrs = self.attr_plan(id, ino, attrs, &content, extents.len())?;
        let blocks = match &attrs.form {
            AttrForm::Blocks(blocks) => blocks.blocks().into(),
            AttrForm::None | AttrForm::Short(_) => 0,
        };
        let attr_extents = Map::laid(&first_blocks(blocks), alloc)?;
        self.check_counts(id, &attr_extents)?;
        let boundary = match attrs.forkoff {
            0 => literal(geo),
            forkoff => usize::from(forkoff) * 8,
        };
        let data = Map::new(geo, extents, boundary, alloc)?;
        let attr = Map::new(geo, attr_extents, literal(geo) - boundary, alloc)?;
        Ok(InodePlan { id, ino, content, data, attrs, attr })
    }

    fn content(&self, id: NodeId, ino: Ino, room: usize) -> Result<Content<'a>, BuildError> {
        let (tree, geo) = (self.tree, self.geo());
        let unfit = |what: &str| BuildError::unfit(tree, id, what);
        Ok(match tree.node(id).kind {
            Kind::Dir { .. } => match self.dir(id, ino, room)? {
                DirPlan::Short(bytes) => Content::Local(bytes.into()),
                DirPlan::Blocks(blocks) => Content::Dir(blocks),
            },
            Kind::Symlink { .. } => {
                let target = tree.target(id);
                if target.len() <= room.min(literal(geo)) {
                    Content::Local(target.into())
                } else {
                    Content::Target(target)
                }
            }
            Kind::Char { major, minor } | Kind::Block { major, minor } => {
                if major >= 1 << 14 || minor >= 1 << 18 {
                    return Err(unfit("device numbers are below 16384 (major) and 262144 (minor)"));
                }
                Content::Device((major << 18) | minor)
            }
            Kind::Fifo | Kind::Socket => Content::Device(0),
            Kind::File { size, .. } if size > i64::MAX as u64 => {
                return Err(unfit("a file has at most 2^63 - 1 bytes"));
            }
            Kind::File { size, .. } => Content::File { size },
            Kind::HardLink(_) => return Err(unfit("a further name has no inode")),
        })
    }

    fn dir(&self, id: NodeId, ino: Ino, room: usize) -> Result<DirPlan<'a>, BuildError> {
        let tree = self.tree;
        let entry = |child: NodeId| NewEntry {
            name: tree.name(child),
            ino: self.inode_order.ino(child),
            ftype: file_type(tree, child),
        };
        let entries = tree.children(id).map(entry).collect();
        let parent = self.inode_order.ino(tree.node(id).parent);
        DirPlan::new(self.geo(), ino, parent, entries, room)
            .map_err(|error| BuildError::unfit(tree, id, error.to_string()))
    }

    /// Returns the attributes of node `id`: its own, its parent pointers, and for the root the
    /// volume's.
    fn attrs(&self, id: NodeId) -> Vec<NewAttr<'a>> {
        let tree = self.tree;
        let own = tree.xattrs(id).iter().map(|xattr| NewAttr {
            namespace: xattr.namespace,
            name: Cow::Borrowed(&xattr.name),
            value: Cow::Borrowed(&xattr.value),
        });
        let mut attrs: Vec<_> = own.collect();
        if id == NodeId::ROOT {
            let name = xfskit_mkfs::inodes::AUTOFSCK;
            let wanted = self.plan.autofsck.filter(|_| {
                !attrs.iter().any(|a| a.namespace == Namespace::Trusted && *a.name == *name)
            });
            attrs.extend(wanted.map(|wanted| NewAttr {
                namespace: Namespace::Trusted,
                name: name.into(),
                value: wanted.value().as_bytes().into(),
            }));
        } else if self.geo().features.parent() {
            let more = (tree.node(id).nlink > 1).then(|| self.inode_order.other_names(id));
            attrs.extend([id].into_iter().chain(more.into_iter().flatten()).map(|name| {
                let parent = self.inode_order.ino(tree.node(name).parent);
                NewAttr::parent(parent, generation(self.plan, parent), tree.name(name))
            }));
        }
        attrs
    }

    /// Returns the parts of the data fork that need blocks.
    fn parts(&self, id: NodeId, content: &Content<'_>) -> Vec<Part> {
        match content {
            Content::Local(_) | Content::Device(_) => Vec::new(),
            Content::Dir(blocks) => blocks
                .spaces()
                .into_iter()
                .filter(|space| space.blocks > 0)
                .map(|space| Part { start: space.start, len: FilBlks(space.blocks.into()) })
                .collect(),
            Content::Target(target) => {
                let payload = self.geo().blocksize() - Layout::V5.symlink_header;
                first_blocks(target.len().div_ceil(payload) as u64)
            }
            Content::File { size } => self.inode_order.parts(self.geo(), id, *size),
        }
    }

    fn attr_plan(
        &self,
        id: NodeId,
        ino: Ino,
        attrs: Vec<NewAttr<'a>>,
        content: &Content<'_>,
        extents: usize,
    ) -> Result<AttrPlan<'a>, BuildError> {
        let geo = self.geo();
        let inline = extents * xfskit_format::bmbt::REC_LEN;
        let need = match content {
            Content::Device(_) => DataNeed::Device,
            Content::Local(bytes) => DataNeed::Inline(bytes.len()),
            _ if inline <= forkoff::data_max(geo) => DataNeed::Inline(inline),
            _ => DataNeed::Btree,
        };
        AttrPlan::new(geo, ino, attrs, need)
            .map_err(|error: PlanError| BuildError::unfit(self.tree, id, error.to_string()))
    }

    /// Checks the number of extents of the attribute fork: without large counters it is at most
    /// 2^15 - 1.
    fn check_counts(&self, id: NodeId, attr: &[Extent]) -> Result<(), BuildError> {
        if !self.geo().features.nrext64() && attr.len() > i16::MAX.unsigned_abs().into() {
            let what = "its attributes take more extents than a volume without nrext64 can count";
            return Err(BuildError::unfit(self.tree, id, what));
        }
        Ok(())
    }
}
