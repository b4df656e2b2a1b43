//! Floor 6: find the owners of blocks.
//!
//! [`owners`] returns what each block of some ranges belongs to: free space, the volume's own
//! structures, or a place in a file. A group with an rmapbt is asked there: the answer costs a few
//! blocks. In other groups one scan of the whole volume serves all ranges together.
//!
//! Damage is a warning, and does not hide the rest. Where an rmapbt is damaged, the scan takes its
//! place. Where something that may own blocks cannot be read, a block without an owner is
//! [`Owner::Unknown`], else it is [`Owner::Leaked`]: a leak.
//!
//! | read in this order | contents |
//! | --- | --- |
//! | [`owner`] | [`Owner`]: the kinds of owners; [`Owned`]: a run of blocks with one owner |
//! | `wanted` | the blocks that are asked for |
//! | `group` | what groups use themselves: headers, free list, btrees, inodes, the journal |
//! | `rmap` | owners by the rmapbt |
//! | `files` | owners by a scan of all inodes |

mod files;
mod group;
pub mod owner;
mod rmap;
mod wanted;

use std::ops::{ControlFlow, Range};

use xfskit_core::Volume;
use xfskit_format::agbtree::Tree;
use xfskit_units::{AgBlock, AgNumber, ExtLen};

pub use owner::{Owned, Owner};
pub use xfskit_core::Warnings;

use wanted::Wanted;

/// Number of runs before a run among which the one that it continues is looked for: as many files
/// may share the blocks before.
const NEAR: usize = 16;

/// Options of a search.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Number of threads of a scan; at least 1.
    pub threads: usize,
    /// Scans the volume even where it has an rmapbt.
    pub scan: bool,
    /// Receives the progress of a scan: the inodes that were visited, and all inodes in use. A
    /// break ends the search.
    pub progress: &'a (dyn Fn(u64, u64) -> ControlFlow<()> + Sync),
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { threads: 1, scan: false, progress: &|_, _| ControlFlow::Continue(()) }
    }
}

/// Some blocks of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgRange {
    /// The group.
    pub agno: AgNumber,
    /// Its blocks (agbno).
    pub blocks: Range<u32>,
}

/// The result of a search.
#[derive(Debug, Default)]
pub struct Found {
    /// For each range its owners, in the order of the blocks. Every block has at least one; a
    /// shared block has several.
    pub owned: Vec<Vec<Owned>>,
    /// Damage that the search met.
    pub warnings: Warnings,
    /// False if the search was ended by its [`Options::progress`].
    pub complete: bool,
}

/// Returns the owners of all blocks of `ranges`. Blocks behind the end of a group are left out.
pub fn owners(volume: &Volume, ranges: &[AgRange], options: &Options<'_>) -> Found {
    let geo = volume.geo();
    let mut wanted = Wanted::new(geo, ranges);
    let (mut found, mut warnings) = (Vec::new(), Warnings::default());
    // Blocks without an owner in a group are known to have none if all of it was read.
    let mut known = true;
    if !options.scan && geo.features.rmapbt() {
        wanted.retain(|agno, blocks| match rmap::owners(volume, agno, blocks) {
            Ok(owned) => {
                found.extend(owned);
                false
            }
            Err(error) => {
                warnings.add(error);
                true
            }
        });
    }
    let mut complete = true;
    if !wanted.is_empty() {
        for agno in wanted.groups() {
            known &= group::collect(volume, agno, &wanted, &mut found, &mut warnings);
        }
        let files = files::collect(volume, &wanted, options, &mut found, &mut warnings);
        complete = files.complete;
        known &= files.known;
    }
    found.sort_unstable();
    let owned = ranges.iter().map(|range| cut(geo, range, &found, known)).collect();
    Found { owned, warnings, complete }
}

/// Returns the parts of `found`, which is sorted, within `range`, and the gaps between them.
fn cut(geo: &xfskit_units::Geometry, range: &AgRange, found: &[Owned], known: bool) -> Vec<Owned> {
    let agno = range.agno;
    let end = range.blocks.end.min(geo.ag_length(agno));
    let ownerless = if known { Owner::Leaked } else { Owner::Unknown };
    let mut owned: Vec<Owned> = Vec::new();
    let mut covered = range.blocks.start;
    let first = found.partition_point(|piece| piece.agno < agno);
    for piece in found[first..].iter().take_while(|piece| piece.agno == agno) {
        let Some(piece) = piece.clip(range.blocks.start..end) else { continue };
        if piece.start.0 > covered {
            owned.push(Owned::new(agno, covered..piece.start.0, ownerless));
        }
        covered = covered.max(piece.end());
        match owned.iter_mut().rev().take(NEAR).find(|last| last.takes_in(&piece)) {
            Some(last) => last.len = ExtLen(last.len.0.saturating_add(piece.len.0)),
            None => owned.push(piece),
        }
    }
    if covered < end {
        owned.push(Owned::new(agno, covered..end, ownerless));
    }
    owned
}

/// Returns true if `tree` of a group is one that lists its blocks in the AGF.
fn is_agf_tree(tree: Tree) -> bool {
    !matches!(tree, Tree::Ino | Tree::Fino)
}

/// Returns a range of one block.
fn single(agbno: AgBlock) -> Range<u32> {
    agbno.0..agbno.0.saturating_add(1)
}
