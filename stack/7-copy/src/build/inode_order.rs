//! The order of all inodes, their groups and numbers.
//!
//! Directories are walked depth first, in the order of their names. Each is numbered, then the
//! files in it, then everything below it. Groups are filled one after the other, each to the same
//! fraction of its capacity. So a directory's files are in its group, and neighbours in the tree
//! are neighbours on the disk.

use std::collections::HashMap;

use xfskit_bulk::btree::Shape;
use xfskit_format::agbtree::Tree as Btree;
use xfskit_format::inobt::INODES_PER_CHUNK;
use xfskit_mkfs::group_space::GroupSpace;
use xfskit_mkfs::layout::{AgLayout, Extent};
use xfskit_units::{AgBlock, AgIno, AgNumber, ExtLen, FilBlks, FileOff, Geometry, Ino};

use super::BuildError;
use super::space::Space;
use crate::source::{Kind, NodeId, Segment, Tree};

/// Inodes of a volume that are not in the tree: the two of the realtime device.
pub(super) const REALTIME_INODES: u32 = 2;

/// Consecutive blocks of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first block.
    pub start: FileOff,
    /// Number of blocks; not 0.
    pub len: FilBlks,
}

/// The inodes of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupInodes {
    /// Index of the first inode in the order.
    pub first: usize,
    /// Number of inodes.
    pub count: usize,
    /// Their chunks: one extent.
    pub chunks: Option<Extent>,
}

/// All inodes.
#[derive(Debug)]
pub struct InodeOrder {
    /// The node of each inode, in the order of the inodes on the device.
    pub order: Vec<NodeId>,
    /// The inode number of each of them.
    pub inos: Vec<Ino>,
    /// By group.
    pub groups: Vec<GroupInodes>,
    /// For each node of the tree the index of its inode in the order.
    places: Vec<u32>,
    /// Parts with data of files that have holes.
    sparse: HashMap<NodeId, Box<[Part]>>,
    /// Hard links, by the node that has the inode.
    links: Vec<(NodeId, NodeId)>,
}

/// Returns the whole blocks that cover `segments`.
fn parts(geo: &Geometry, segments: &[Segment]) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for segment in segments {
        let start = segment.offset >> geo.blocklog;
        let end = segment.end().div_ceil(1 << geo.blocklog);
        match parts.last_mut() {
            Some(last) if last.start.0 + last.len.0 >= start => last.len.0 = end - last.start.0,
            _ => parts.push(Part { start: FileOff(start), len: FilBlks(end - start) }),
        }
    }
    parts
}

impl InodeOrder {
    /// Numbers all inodes of `tree`, and takes the space of their chunks from `space`.
    ///
    /// # Errors
    /// [`BuildError::NoSpace`]; [`BuildError::Source`] if a file cannot be read.
    pub fn take(tree: &Tree, geo: &Geometry, space: &mut Space<'_>) -> Result<Self, BuildError> {
        let mut inode_order = Self {
            order: Vec::with_capacity(tree.len()),
            inos: Vec::with_capacity(tree.len()),
            groups: Vec::new(),
            places: vec![u32::MAX; tree.len()],
            sparse: sparse(tree, geo)?,
            links: links(tree),
        };
        let mut deal = GroupAssignment::new(&inode_order, tree, geo, space);
        let mut agnos = Vec::with_capacity(tree.len());
        let mut stack = vec![NodeId::ROOT];
        let mut order = Vec::with_capacity(tree.len());
        while let Some(dir) = stack.pop() {
            deal.next_directory();
            order.push(dir);
            agnos.push(deal.place(dir)?);
            let below = stack.len();
            for child in tree.children(dir) {
                match tree.node(child).kind {
                    Kind::Dir { .. } => stack.push(child),
                    Kind::HardLink(_) => {}
                    _ => {
                        order.push(child);
                        agnos.push(deal.place(child)?);
                    }
                }
            }
            stack[below..].reverse();
        }
        inode_order.number(geo, space, order, &agnos)?;
        for id in tree.ids() {
            if let Kind::HardLink(target) = tree.node(id).kind {
                inode_order.places[id.index()] = inode_order.places[target.index()];
            }
        }
        Ok(inode_order)
    }

    /// Assigns chunks to each group and a number to each inode. Groups ascend in `agnos`.
    fn number(
        &mut self,
        geo: &Geometry,
        space: &mut Space<'_>,
        order: Vec<NodeId>,
        agnos: &[AgNumber],
    ) -> Result<(), BuildError> {
        for agno in geo.ags() {
            let first = agnos.partition_point(|other| *other < agno);
            let count = agnos.partition_point(|other| *other <= agno) - first;
            let chunks = take_chunks(geo, space, agno, count).map_err(|NoContiguousSpace| {
                BuildError::NoSpace { more: (count as u64) << geo.inodelog }
            })?;
            // The inode btree has no reservation of its own.
            let records =
                chunks.map_or(0, |chunks| chunks.len.0 << geo.inopblog) / INODES_PER_CHUNK;
            let btree = Shape::new(geo, Btree::Ino, records as usize).blocks();
            let group = &mut space.groups[agno.0 as usize];
            group.budget = group.budget.saturating_sub(btree);
            let slot = chunks.map_or(0, |chunks| geo.agb_to_agino(chunks.start).0);
            for index in 0..count {
                let rank = u32::try_from(index).unwrap_or(u32::MAX);
                // The realtime inodes follow the root directory.
                let skip = if agno.0 == 0 && index > 0 { REALTIME_INODES } else { 0 };
                let agino = AgIno(slot + rank + skip);
                self.inos.push(geo.agino_to_ino(agno, agino));
            }
            self.groups.push(GroupInodes { first, count, chunks });
        }
        for (place, id) in order.iter().enumerate() {
            self.places[id.index()] = u32::try_from(place).unwrap_or(u32::MAX);
        }
        self.order = order;
        Ok(())
    }

    /// Returns the inode number of node `id`.
    pub fn ino(&self, id: NodeId) -> Ino {
        self.inos[self.places[id.index()] as usize]
    }

    /// Returns the group of inode `index` of the order.
    pub fn agno(&self, place: usize) -> AgNumber {
        let behind = self.groups.partition_point(|group| group.first <= place);
        // Groups without inodes begin where the next one does.
        let found = self.groups[..behind].iter().rposition(|group| group.count > 0);
        AgNumber(u32::try_from(found.unwrap_or(0)).unwrap_or(0))
    }

    /// Returns the parts of file `id` of `size` bytes that have data.
    pub fn parts(&self, geo: &Geometry, id: NodeId, size: u64) -> Vec<Part> {
        match self.sparse.get(&id) {
            Some(parts) => parts.to_vec(),
            None if size == 0 => Vec::new(),
            None => parts(geo, &[Segment { offset: 0, len: size }]),
        }
    }

    /// Returns the other names of the inode of `id`.
    pub fn other_names(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        let first = self.links.partition_point(|(target, _)| *target < id);
        self.links[first..]
            .iter()
            .take_while(move |(target, _)| *target == id)
            .map(|(_, name)| *name)
    }
}

fn sparse(tree: &Tree, geo: &Geometry) -> Result<HashMap<NodeId, Box<[Part]>>, BuildError> {
    let mut sparse = HashMap::new();
    for id in tree.ids() {
        if let Kind::File { size, .. } = tree.node(id).kind {
            let segments = tree.segments(id)?;
            let dense = size == 0 || matches!(segments[..], [s] if s.offset == 0 && s.len == size);
            if !dense {
                sparse.insert(id, parts(geo, &segments).into_boxed_slice());
            }
        }
    }
    Ok(sparse)
}

fn links(tree: &Tree) -> Vec<(NodeId, NodeId)> {
    let link = |id: NodeId| match tree.node(id).kind {
        Kind::HardLink(target) => Some((target, id)),
        _ => None,
    };
    let mut links: Vec<_> = tree.ids().filter_map(link).collect();
    links.sort_unstable();
    links
}

/// A group has no space for its chunks in one extent.
struct NoContiguousSpace;

/// Returns the number of inodes in one inode chunk's blocks.
fn chunk_inodes(geo: &Geometry) -> u32 {
    geo.chunk_blocks() << geo.inopblog
}

/// Takes the chunks for `count` inodes of group `agno`. In group 0 they follow the first chunk,
/// which exists already and has two more inodes.
fn take_chunks(
    geo: &Geometry,
    space: &mut Space<'_>,
    agno: AgNumber,
    count: usize,
) -> Result<Option<Extent>, NoContiguousSpace> {
    let count = u32::try_from(count).map_err(|_| NoContiguousSpace)?;
    let group = &mut space.groups[agno.0 as usize];
    let blocks = |count: u32| count.div_ceil(chunk_inodes(geo)) * geo.chunk_blocks();
    if let Some(first) = AgLayout::of(geo, agno).chunk {
        let all = blocks(count.saturating_add(REALTIME_INODES)).max(first.len.0);
        let more = all - first.len.0;
        if more > 0 {
            let behind = Extent { start: AgBlock(first.end()), len: ExtLen(more) };
            group.take_at(behind).ok_or(NoContiguousSpace)?;
        }
        return Ok(Some(Extent { len: ExtLen(all), ..first }));
    }
    if count == 0 {
        return Ok(None);
    }
    let align = geo.inoalignmt.max(geo.cluster_align()).max(1);
    group.take(blocks(count), align).map(Some).ok_or(NoContiguousSpace)
}

/// Assigns inodes to groups.
struct GroupAssignment<'a> {
    inode_order: &'a InodeOrder,
    tree: &'a Tree,
    geo: &'a Geometry,
    /// Blocks that the groups can hold, up to and including each.
    capacity: Vec<u64>,
    /// Maximum number of inodes of each group.
    most: Vec<u64>,
    /// Blocks of all inodes, and of those assigned so far.
    total: u64,
    dealt: u64,
    agno: usize,
    inodes: u64,
}

impl<'a> GroupAssignment<'a> {
    fn new(
        inode_order: &'a InodeOrder,
        tree: &'a Tree,
        geo: &'a Geometry,
        space: &Space<'_>,
    ) -> Self {
        let sum = |sum: &mut u64, group: u32| {
            *sum += u64::from(group);
            Some(*sum)
        };
        let budgets = space.groups.iter().map(|group| group.budget);
        let most = |(agno, group): (AgNumber, &GroupSpace)| {
            let longest = group.free.iter().map(|free| free.len.0).max().unwrap_or(0);
            let first = AgLayout::of(geo, agno).chunk.map_or(0, |chunk| chunk.len.0);
            let blocks = u64::from(longest.min(group.budget)) + u64::from(first);
            (blocks << geo.inopblog).saturating_sub(2 * u64::from(chunk_inodes(geo)))
        };
        let mut deal = Self {
            inode_order,
            tree,
            geo,
            capacity: budgets.scan(0, sum).collect(),
            most: geo.ags().zip(&space.groups).map(most).collect(),
            total: 0,
            dealt: 0,
            agno: 0,
            inodes: 0,
        };
        deal.total = tree.ids().map(|id| deal.weight(id)).sum();
        deal
    }

    /// Returns an estimate of the space of `id`, in sixteenths of a block.
    fn weight(&self, id: NodeId) -> u64 {
        let node = self.tree.node(id);
        let name = self.tree.name(id).len() as u64 + 24;
        let inode = 16 << self.geo.inodelog >> self.geo.blocklog;
        let names = (name << 4) >> self.geo.blocklog;
        let blocks = match node.kind {
            Kind::HardLink(_) => return names,
            Kind::File { size, .. } => match self.inode_order.sparse.get(&id) {
                Some(parts) => parts.iter().map(|part| part.len.0).sum(),
                None => size.div_ceil(1 << self.geo.blocklog),
            },
            _ => 0,
        };
        inode + names + (blocks << 4)
    }

    /// Begins a directory: in the next group if this one is full.
    fn next_directory(&mut self) {
        let all = self.capacity.last().copied().unwrap_or(0);
        while self.agno + 1 < self.capacity.len() {
            let share = u128::from(self.total) * u128::from(self.capacity[self.agno]);
            if u128::from(self.dealt) * u128::from(all) < share {
                break;
            }
            self.next_group();
        }
    }

    fn next_group(&mut self) {
        self.agno += 1;
        self.inodes = 0;
    }

    /// Returns the group of the next inode, that of `id`.
    fn place(&mut self, id: NodeId) -> Result<AgNumber, BuildError> {
        while self.inodes >= self.most[self.agno] {
            if self.agno + 1 == self.most.len() {
                let left = self.tree.len() as u64 - self.inodes.min(self.tree.len() as u64);
                return Err(BuildError::NoSpace { more: left << self.geo.inodelog });
            }
            self.next_group();
        }
        self.inodes += 1;
        self.dealt += self.weight(id);
        Ok(AgNumber(u32::try_from(self.agno).unwrap_or(0)))
    }
}
