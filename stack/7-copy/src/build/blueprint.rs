//! The plan of a volume with a tree.

use xfskit_format::agbtree::Tree as AgTree;
use xfskit_format::reserve::{self, SET_ASIDE, TreeBlocks};
use xfskit_format::timestamp::{SEC_MAX_BIGTIME, SEC_MAX_LEGACY, SEC_MIN};
use xfskit_mkfs::Plan;
use xfskit_mkfs::group::{Group, Totals};
use xfskit_units::{ByteLen, FsBlock, Geometry};

use super::BuildError;
use super::groups::Owners;
use super::inode_order::InodeOrder;
use super::inode_plan::{InodePlan, PlanInput};
use super::space::{Run, Space};
use crate::source::{Kind, NodeId, Tree};

/// A volume with a tree, planned to the last byte except the contents of files.
#[derive(Debug)]
pub struct Blueprint<'a> {
    pub(super) tree: &'a Tree,
    pub(super) plan: &'a Plan,
    pub(super) inode_order: InodeOrder,
    /// Blocks of all inodes, in their order.
    runs: Vec<Run>,
    /// For each inode, and after the last one, the index of its first run.
    firsts: Vec<u32>,
    pub(super) groups: Vec<Group>,
    pub(super) totals: Totals,
    /// Free bytes of the finished volume, as its users see them.
    pub(super) free: u64,
    /// Notes for the user, in whole sentences.
    pub notes: Vec<String>,
}

impl<'a> Blueprint<'a> {
    /// Plans `tree` in the volume `plan`.
    ///
    /// # Errors
    /// [`BuildError::NoSpace`] if it does not fit, [`BuildError::Unfit`] if the volume cannot hold
    /// something, [`BuildError::Source`] if a file cannot be read.
    pub fn new(tree: &'a Tree, plan: &'a Plan) -> Result<Self, BuildError> {
        let geo = &plan.geometry;
        let mut space = Space::new(geo);
        let inode_order = InodeOrder::take(tree, geo, &mut space)?;
        let plan_input = PlanInput { tree, plan, inode_order: &inode_order };
        let mut placed = Placed::default();
        let mut owners = Owners::new(geo);
        let (mut missing, mut has_attrs) = (0u64, false);
        for place in 0..inode_order.order.len() {
            let near = inode_order.agno(place);
            placed.firsts.push(placed.next());
            let inode_plan = plan_input.inode_plan(place, &mut |blocks| {
                let runs = space.alloc(near, blocks).unwrap_or_else(|| {
                    // Count on, to report how much is missing.
                    missing += blocks;
                    Vec::new()
                });
                placed.add(&runs);
                Ok(runs)
            });
            match inode_plan {
                Ok(inode_plan) => {
                    has_attrs |= inode_plan.attrs.forkoff != 0;
                    owners.add(&inode_plan);
                }
                Err(_) if missing > 0 => {}
                Err(error) => return Err(error),
            }
        }
        placed.firsts.push(placed.next());
        if missing > 0 {
            // A request that was too large may have left some blocks.
            let more = missing.saturating_sub(space.budget()).max(1);
            return Err(BuildError::NoSpace { more: more << geo.blocklog });
        }
        let groups = owners.into_groups(&inode_order, space);
        let free = free_for_linux(geo, &groups) << geo.blocklog;
        let totals = Totals::filled(geo, &groups, has_attrs);
        let notes = notes(tree, plan, &totals);
        let Placed { runs, firsts } = placed;
        Ok(Self { tree, plan, inode_order, runs, firsts, groups, totals, free, notes })
    }

    pub(super) fn plan_input(&self) -> PlanInput<'_> {
        PlanInput { tree: self.tree, plan: self.plan, inode_order: &self.inode_order }
    }

    /// Returns the blocks of inode `index`.
    pub(super) fn runs(&self, place: usize) -> &[Run] {
        &self.runs[self.firsts[place] as usize..self.firsts[place + 1] as usize]
    }

    /// Returns inode `index` as it was planned.
    pub(super) fn inode_plan(&self, place: usize) -> Result<InodePlan<'_>, BuildError> {
        let mut runs = self.runs(place).iter().copied();
        let mut rest: Option<Run> = None;
        self.plan_input().inode_plan(place, &mut |blocks| {
            let (mut given, mut left) = (Vec::new(), blocks);
            while left > 0 {
                let Some(run) = rest.take().or_else(|| runs.next()) else { break };
                let len = u32::try_from(left).unwrap_or(u32::MAX).min(run.len);
                given.push(Run { len, ..run });
                let behind =
                    Run { start: FsBlock(run.start.0 + u64::from(len)), len: run.len - len };
                rest = (behind.len > 0).then_some(behind);
                left -= u64::from(len);
            }
            Ok(given)
        })
    }

    /// Returns the number of inodes of the tree.
    pub fn inodes(&self) -> u64 {
        self.inode_order.order.len() as u64
    }

    /// Returns the size of the volume.
    pub fn data_bytes(&self) -> ByteLen {
        self.plan.geometry.data_bytes()
    }

    /// Returns the free bytes of the finished volume, as its users see them.
    pub fn free_bytes(&self) -> u64 {
        self.free
    }
}

/// Returns the free blocks that Linux lets users of these groups have, without its reserves.
fn free_for_linux(geo: &Geometry, groups: &[Group]) -> u64 {
    let of_group = |group: &Group| {
        let blocks = |tree| {
            let places = group.trees.iter().find(|(known, _)| *known == tree);
            places.map_or(0, |(_, places)| places.len() as u64)
        };
        let have = TreeBlocks {
            refcount: blocks(AgTree::Refcount),
            fino: blocks(AgTree::Fino),
            rmap: blocks(AgTree::Rmap),
        };
        let free = u64::from(group.freeblks()) + group.agfl.len() as u64;
        let withheld = reserve::growth(geo, group.agno, &have) + SET_ASIDE;
        // A group that is short takes from the others.
        i128::from(free) - i128::from(withheld)
    };
    let free = groups.iter().map(of_group).sum::<i128>() - i128::from(reserve::pool(geo));
    u64::try_from(free).unwrap_or(0)
}

/// Runs of all inodes so far.
#[derive(Default)]
struct Placed {
    runs: Vec<Run>,
    firsts: Vec<u32>,
}

impl Placed {
    fn next(&self) -> u32 {
        u32::try_from(self.runs.len()).unwrap_or(u32::MAX)
    }

    /// Adds runs to the last inode. A run that continues its last one extends that.
    fn add(&mut self, runs: &[Run]) {
        let begun = self.firsts.last().copied().unwrap_or(0) as usize;
        for run in runs {
            let own = self.runs.len() > begun;
            match self.runs.last_mut().filter(|_| own) {
                Some(last) if last.start.0 + u64::from(last.len) == run.start.0 => {
                    last.len += run.len;
                }
                _ => self.runs.push(*run),
            }
        }
    }
}

/// Returns notes for the user, in whole sentences.
fn notes(tree: &Tree, plan: &Plan, totals: &Totals) -> Vec<String> {
    let mut notes = Vec::new();
    let bigtime = plan.geometry.features.bigtime();
    let range = SEC_MIN..=if bigtime { SEC_MAX_BIGTIME } else { SEC_MAX_LEGACY };
    let outside = |id: &NodeId| {
        let node = tree.node(*id);
        let times = [node.meta.mtime, node.meta.atime];
        !matches!(node.kind, Kind::HardLink(_)) && times.iter().any(|t| !range.contains(&t.sec))
    };
    let outside = tree.ids().filter(outside).count();
    if outside > 0 {
        let last = if bigtime { 2486 } else { 2038 };
        notes.push(format!(
            "{outside} files have times outside of what the volume can store (1901 to {last}); they \
             get the nearest"
        ));
    }
    let geo = &plan.geometry;
    if reserve::inodes_max(geo).is_some_and(|most| totals.icount > most) {
        notes.push(format!(
            "the tree's inodes take more than {} percent of the volume: Linux will add no more, \
             unless -i maxpct= allows it",
            geo.imax_pct
        ));
    }
    notes
}
