//! Finding the geometry of members without superblocks, by the XFS volume on them.
//!
//! [`evidence`] finds blocks that carry their own address in the array or in the volume. The volume
//! may lie in a partition or a logical volume (`xfskit_target::evidence` finds them). A candidate
//! (level, layout, chunk, placement of the volume) tells at which sector of a member such a block
//! should lie, and in which role. The distance between that sector and the sector where the block
//! was found is the data offset; the right candidate has the same data offset for all blocks. Each
//! block then votes: its member has the role that the candidate predicts.
//!
//! Three things speak against a candidate: blocks astray (found where it does not put them),
//! samples in which the members do not agree as it predicts, and headers of the volume that are not
//! where they should be. The candidates with the fewest contradictions are returned. All orders of
//! members that fit equally well are returned; a caller that opens the volume may tell more.
//!
//! | module | what |
//! | --- | --- |
//! | [`evidence`] | blocks with their own address |
//! | `shape` | the levels, layouts and chunks that are tried |
//! | `votes` | the roles that blocks give to members |
//! | `redundancy` | whether members agree |
//! | `proof` | orders that votes leave open, and the volume's headers |
//! | `twins` | guesses by which the volume lies in the same places |
//! | `steps` | the progress of all this, and a request to end it |

pub mod evidence;
mod proof;
mod redundancy;
mod shape;
mod steps;
mod twins;
mod votes;

use std::ops::ControlFlow;
use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_units::Sectors;

use crate::assemble::ManualGeometry;
use evidence::{Address, FoundBlock, FoundBlocks, Placement, ScanProgress, Volume, Volumes, scan};
pub use redundancy::Agreement;
use redundancy::Samples;
use shape::{Place, Shape, most_common, shapes};
use steps::Steps;
use votes::Votes;

/// Blocks by which candidates are selected, before all blocks are used.
const SCREENED: usize = 512;
/// At most this many candidates are examined further.
const CANDIDATES_MAX: usize = 256;
/// At most this many guesses are returned.
const GUESSES_MAX: usize = 1024;

/// Guesses, the best first.
#[derive(Clone, Debug, Default)]
pub struct Guesses {
    /// Those with the fewest contradictions.
    pub best: Vec<Guess>,
    /// Guesses that are not among them, because they are too many, and have no more contradictions
    /// than the last that is.
    pub omitted: usize,
}

/// The members in the order given; `None` for a missing one.
pub type MemberDevices = [Option<Arc<dyn BlockDevice>>];

/// One way in which the members may form an array.
#[derive(Clone, Debug, PartialEq)]
pub struct Guess {
    /// Level, layout, chunk, offset.
    pub manual: ManualGeometry,
    /// The part of the array with the volume, as written after the `#` of a target; empty for the
    /// whole array.
    pub part: String,
    /// For each role the member, by its index among those given.
    pub order: Vec<Option<usize>>,
    /// Number of blocks at the predicted place.
    pub right: usize,
    /// Number of blocks found, without copies in parity.
    pub found: usize,
    /// How well the members agree in samples.
    pub agreement: Agreement,
    /// Headers of the volume that are not where they should be.
    pub headers_missing: usize,
    /// No other order of the members fits as well.
    pub certain: bool,
    /// Roles whose members may be others.
    pub open: Vec<usize>,
    /// Other orders of the members that may fit as well and are not returned, because they are too
    /// many; the same number in each guess with this geometry.
    pub orders_omitted: usize,
}

impl Guess {
    /// Returns the number of blocks that lie where they should not.
    pub fn astray(&self) -> usize {
        self.found.saturating_sub(self.right)
    }

    /// Returns how much speaks against the guess. A sample that one wrong member explains speaks
    /// less against it than others.
    pub fn contradictions(&self) -> usize {
        let Agreement { wrong, located, .. } = self.agreement;
        self.astray() + 2 * wrong + located + self.headers_missing
    }
}

/// Everything that [`guess()`] uses.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The volume.
    pub volume: Volume,
    /// Blocks of the volume, and blocks that locate it in the array.
    pub found: Vec<FoundBlock>,
    /// Possible locations of the volume in the array.
    pub placements: Vec<Placement>,
}

impl Evidence {
    /// Collects the evidence for a volume that begins where the array does. Scans at most `limit`
    /// bytes of each member.
    pub fn of_whole(members: &MemberDevices, limit: u64) -> Option<Self> {
        let mut volumes = Volumes::default();
        let on = |_, _| ControlFlow::Continue(());
        let _never_ends = scan(members, limit, &on, &mut |_, _, bytes| volumes.visit(bytes));
        let volume = volumes.best()?;
        let mut found = FoundBlocks::default();
        let _never_ends = scan(members, limit, &on, &mut |member, at, bytes| {
            if let Some(address) = volume.address(bytes).map(Address::Volume) {
                found.push(FoundBlock { address, member, at }, bytes);
            }
        });
        Some(Self { volume, found: found.into_kept(), placements: vec![Placement::whole()] })
    }
}

/// A shape, a placement and a data offset that explain blocks.
struct Candidate<'a> {
    shape: Shape,
    placement: &'a Placement,
    offset: u64,
    /// Blocks that are not explained.
    astray: usize,
}

/// Returns the arrays that exactly these members may form, `None` for a missing one: those with the
/// fewest contradictions first. Each explains at least half of the blocks.
///
/// `progress` receives how many geometries are compared and how many are known to be left. Where it
/// breaks, the search ends at once.
pub fn guess(
    members: &MemberDevices,
    evidence: &Evidence,
    progress: &ScanProgress<'_>,
) -> ControlFlow<(), Guesses> {
    let steps = Steps::new(progress);
    let samples = Samples::new(members, &evidence.found, &steps)?;
    let mut tries = proof::TRIES;
    let mut guesses: Vec<(Guess, &Placement)> = Vec::new();
    let candidates = candidates(members, evidence, &steps)?;
    steps.expect(candidates.len());
    for candidate in &candidates {
        steps.advance()?;
        let orders = guesses_of(candidate, members, evidence, &samples, &mut tries, &steps)?;
        let explains_half = orders.into_iter().filter(|guess| guess.right * 2 >= guess.found);
        guesses.extend(explains_half.map(|guess| (guess, candidate.placement)));
    }
    guesses.sort_by_key(|(guess, _)| guess.contradictions());
    let last = guesses.get(GUESSES_MAX - 1).map(|(guess, _)| guess.contradictions());
    let rest = guesses.iter().skip(GUESSES_MAX);
    let omitted = rest.take_while(|(guess, _)| Some(guess.contradictions()) == last).count();
    guesses.truncate(GUESSES_MAX);
    steps.expect(guesses.len());
    for (guess, placement) in &mut guesses {
        steps.advance()?;
        guess.headers_missing = proof::missing_headers(guess, members, &evidence.volume, placement);
    }
    twins::remove_worse(&mut guesses, &evidence.volume);
    let mut best: Vec<Guess> = guesses.into_iter().map(|(guess, _)| guess).collect();
    best.sort_by_key(|guess| (guess.contradictions(), guess.part.is_empty(), !guess.certain));
    ControlFlow::Continue(Guesses { best, omitted })
}

/// Returns the candidates that leave the fewest blocks unexplained, or hardly more.
fn candidates<'a>(
    members: &MemberDevices,
    evidence: &'a Evidence,
    steps: &Steps<'_>,
) -> ControlFlow<(), Vec<Candidate<'a>>> {
    let missing = members.iter().filter(|member| member.is_none()).count();
    let shapes = shapes(members.len(), missing, &evidence.found);
    let step = evidence.found.len().div_ceil(SCREENED).max(1);
    let some: Vec<&FoundBlock> = evidence.found.iter().step_by(step).collect();
    let all: Vec<&FoundBlock> = evidence.found.iter().collect();
    let mut screened = Vec::new();
    steps.expect(shapes.len() * evidence.placements.len());
    for placement in &evidence.placements {
        for shape in &shapes {
            steps.advance()?;
            screened.extend(candidate(shape, placement, members, &some));
        }
    }
    retain_best(&mut screened, some.len() / 20 + 2);
    let mut candidates = Vec::new();
    steps.expect(screened.len());
    for Candidate { shape, placement, .. } in &screened {
        steps.advance()?;
        candidates.extend(candidate(shape, placement, members, &all));
    }
    retain_best(&mut candidates, all.len() / 50 + 2);
    candidates.truncate(CANDIDATES_MAX);
    ControlFlow::Continue(candidates)
}

/// Retains the candidates that leave at most so many more blocks unexplained than the best; the
/// best come first.
fn retain_best(candidates: &mut Vec<Candidate<'_>>, more: usize) {
    let least = candidates.iter().map(|candidate| candidate.astray).min().unwrap_or(0);
    candidates.retain(|candidate| candidate.astray <= least + more);
    candidates.sort_by_key(|candidate| candidate.astray);
}

/// Returns the places of each block, all in one list, with the end of each block's.
fn places_of(
    shape: &Shape,
    placement: &Placement,
    found: &[&FoundBlock],
) -> (Vec<Place>, Vec<usize>) {
    let (mut places, mut ends) = (Vec::with_capacity(found.len()), Vec::new());
    for block in found {
        if let Some(sector) = placement.sector(block.address) {
            shape.add_places(sector, &mut places);
        }
        ends.push(places.len());
    }
    (places, ends)
}

/// Pairs each block with its places.
fn with_places<'a>(
    found: &[&'a FoundBlock],
    (places, ends): &'a (Vec<Place>, Vec<usize>),
) -> Vec<(&'a FoundBlock, &'a [Place])> {
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let ranges = starts.zip(ends);
    found.iter().zip(ranges).map(|(block, (start, end))| (*block, &places[start..*end])).collect()
}

/// Returns the candidate of this shape and placement, with the data offset that explains most
/// blocks; of equals the smallest.
fn candidate<'a>(
    shape: &Shape,
    placement: &'a Placement,
    members: &MemberDevices,
    found: &[&FoundBlock],
) -> Option<Candidate<'a>> {
    let places = places_of(shape, placement, found);
    let blocks = with_places(found, &places);
    let mut offsets = Vec::with_capacity(blocks.len());
    for (block, places) in &blocks {
        let start = offsets.len();
        for offset in places.iter().filter_map(|(_, at)| block.at.0.checked_sub(*at)) {
            if !offsets[start..].contains(&offset) {
                offsets.push(offset);
            }
        }
    }
    let (offset, _) = *most_common(offsets).first()?;
    let votes = Votes::new(shape, offset, &blocks);
    let explained = votes.explained(&votes.assign_roles(members));
    let astray = found.len().saturating_sub(explained);
    Some(Candidate { shape: *shape, placement, offset, astray })
}

/// Returns the guesses of a candidate: one for each order of the members that fits equally well.
fn guesses_of(
    candidate: &Candidate<'_>,
    members: &MemberDevices,
    evidence: &Evidence,
    samples: &Samples<'_>,
    tries: &mut usize,
    steps: &Steps<'_>,
) -> ControlFlow<(), Vec<Guess>> {
    let Candidate { shape, placement, offset, .. } = candidate;
    let found: Vec<&FoundBlock> = evidence.found.iter().collect();
    let places = places_of(shape, placement, &found);
    let votes = Votes::new(shape, *offset, &with_places(&found, &places));
    let proof::Orders { best: orders, agreement, open, omitted } =
        proof::orders(shape, *offset, &votes, members, samples, tries, steps)?;
    let differ = |role: &usize| orders.iter().any(|order| order[*role] != orders[0][*role]);
    let is_open = |role: &usize| differ(role) || omitted > 0 && open.contains(role);
    let open: Vec<usize> = (0..members.len()).filter(is_open).collect();
    let Shape { layout, chunk, .. } = *shape;
    // What the members' sizes tell need not be said.
    let sizes = members.iter().flatten().map(|device| device.size().0 / 512);
    let whole = Sectors(sizes.min().unwrap_or(0).saturating_sub(*offset));
    let size = shape.size.filter(|size| shape.per_copy(*size) != shape.per_copy(whole));
    let manual = ManualGeometry { layout, chunk, offset: Sectors(*offset), size };
    let guess = |order: &Vec<Option<usize>>| {
        let (right, found) = votes.count(order);
        Guess {
            manual,
            part: placement.part.clone(),
            order: order.clone(),
            right,
            found,
            agreement,
            headers_missing: 0,
            certain: open.is_empty(),
            open: open.clone(),
            orders_omitted: omitted,
        }
    };
    ControlFlow::Continue(orders.iter().map(guess).collect())
}
