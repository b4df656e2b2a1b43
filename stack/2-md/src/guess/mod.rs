//! Finding the geometry of members without superblocks, by the XFS volume on them.
//!
//! [`evidence`] finds blocks that carry their own address in the array or in the volume. The volume
//! may lie in a partition or a logical volume (`xfskit_target::evidence` finds them). A candidate
//! (level, layout, chunk, placement of the volume) tells at which sector of a member such a block
//! should lie, and in which role. The distance between that sector and the sector where the block
//! was found is the data offset; the right candidate has the same data offset for all blocks. Each
//! block then votes: its member has the role that the candidate predicts. Copies in parity (where
//! the rest of a stripe is zero) vote too, and are outvoted.
//!
//! Members without evidence fill the remaining roles. Their order is found by checking parity or,
//! with members missing, by checking the volume's headers (`proof`). If the order remains open, it
//! is the order given, and the guess is not certain.

pub mod evidence;
mod proof;

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_units::{ArraySector, Sectors};

use crate::assemble::ManualGeometry;
use crate::layout::mirror::Raid10;
use crate::layout::parity::{Part, StripeLayout};
use crate::layout::{Layout, Raid0Layout, Raid5Layout, Raid6Layout, Raid10Layout};
use evidence::{Address, FoundBlock, FoundBlocks, Placement, Volume, Volumes, scan};

/// Chunks that are tried, as powers of two of sectors: 4 KiB to 4 MiB.
const CHUNKS: std::ops::RangeInclusive<u32> = 3..=13;
/// At most this many equally good candidates are examined further.
const TIED_MAX: usize = 16;
/// Chunks of an array of unknown size, for layouts whose copies do not depend on it.
const UNKNOWN_CHUNKS: u64 = 1 << 40;

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
    /// Number of blocks found, without those in parity.
    pub found: usize,
    /// Every member has its role by evidence or by parity.
    pub certain: bool,
    /// Roles whose members have no evidence for them.
    pub open: Vec<usize>,
}

/// Returns all layouts that are tried, the more common first.
fn layouts() -> impl Iterator<Item = Layout> {
    let raid6 = Raid6Layout::ALL.iter().copied().map(Layout::Raid6);
    let raid5 = Raid5Layout::ALL.iter().copied().map(Layout::Raid5);
    let raid10 = ["n2", "n3", "o2", "o3"].into_iter().filter_map(Raid10Layout::from_name);
    let usual = [
        Layout::Raid6(Raid6Layout::LeftSymmetric),
        Layout::Raid5(Raid5Layout::LeftSymmetric),
        Layout::Raid1,
        Layout::Raid0(Raid0Layout::Original),
    ];
    usual
        .into_iter()
        .chain(raid6.chain(raid5).filter(move |l| !usual.contains(l)))
        .chain(raid10.map(Layout::Raid10))
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
                found.push(FoundBlock { address, member, at });
            }
        });
        Some(Self { volume, found: found.into_kept(), placements: vec![Placement::whole()] })
    }
}

/// Returns the arrays that exactly these members may form, `None` for a missing one: for each
/// placement the guesses that explain most of the blocks, provided that they explain half of them.
/// The best guesses come first.
pub fn guess(members: &MemberDevices, evidence: &Evidence) -> Vec<Guess> {
    let mut guesses: Vec<Guess> = evidence
        .placements
        .iter()
        .flat_map(|placement| guess_at(members, evidence, placement))
        .collect();
    guesses.retain(|guess| guess.right * 2 >= guess.found);
    guesses.sort_by_key(|guess| std::cmp::Reverse((guess.right, guess.certain)));
    guesses
}

/// Returns the guesses for one placement of the volume.
fn guess_at(members: &MemberDevices, evidence: &Evidence, placement: &Placement) -> Vec<Guess> {
    let missing = members.iter().filter(|member| member.is_none()).count();
    let n = u32::try_from(members.len()).unwrap_or(u32::MAX);
    let mut guesses: Vec<Guess> = Vec::new();
    // RAID10 tolerates more missing members if they hold different chunks.
    let tolerated = |layout: &Layout| {
        matches!(layout, Layout::Raid10(_)) || layout.tolerates(n) as usize >= missing
    };
    for layout in layouts().filter(tolerated) {
        let mut chunks: Vec<Sectors> = CHUNKS.map(|log| Sectors(1 << log)).collect();
        if layout == Layout::Raid1 {
            chunks = vec![Sectors(0)];
        }
        let scored = chunks
            .into_iter()
            .filter_map(|chunk| score(members, layout, chunk, evidence, placement));
        guesses.extend(scored);
    }
    let best = guesses.iter().map(|guess| guess.right).max().unwrap_or(0);
    guesses.retain(|guess| guess.right == best && best > 0);
    if guesses.len() > TIED_MAX {
        return guesses;
    }
    let mut proven: Vec<(usize, Guess)> = guesses
        .into_iter()
        .map(|mut guess| {
            (proof::resolve_order(&mut guess, members, &evidence.volume, placement), guess)
        })
        .collect();
    let most = proven.iter().map(|(headers, _)| *headers).max().unwrap_or(0);
    proven.retain(|(headers, _)| *headers == most);
    // A certain guess excludes uncertain ones.
    let certain = proven.iter().any(|(_, guess)| guess.certain);
    let kept = proven.into_iter().map(|(_, guess)| guess).filter(|g| g.certain || !certain);
    kept.map(|guess| without_parity(guess, evidence)).collect()
}

/// Discounts the blocks found in parity. Parity equals a data block whose neighbours in the stripe
/// are zero.
fn without_parity(mut guess: Guess, evidence: &Evidence) -> Guess {
    let n = guess.order.len();
    let is_parity = |block: &&FoundBlock| {
        let role = guess.order.iter().position(|member| *member == Some(block.member))?;
        let at = block.at.0.checked_sub(guess.manual.offset.0)?;
        let map = StripeLayout::new(guess.manual.layout, n, at.checked_div(guess.manual.chunk.0)?)?;
        Some(!matches!(map.part(role), Part::Data(_)))
    };
    let in_parity = evidence.found.iter().filter(|w| is_parity(w).unwrap_or(false)).count();
    guess.found = guess.found.saturating_sub(in_parity).max(guess.right);
    guess
}

/// Returns where sector `at` of the array lies: role, and sector from the member's data offset.
fn places(layout: Layout, n: usize, chunk: Sectors, at: ArraySector) -> Vec<(usize, u64)> {
    if layout == Layout::Raid1 {
        return (0..n).map(|role| (role, at.0)).collect();
    }
    let (c, off) = (at.0 / chunk.0, at.0 % chunk.0);
    let position = |data: u64| (c / data, usize::try_from(c % data).unwrap_or(0));
    match layout {
        Layout::Raid10(layout) => {
            let map = Raid10::new(layout, u32::try_from(n).unwrap_or(u32::MAX), UNKNOWN_CHUNKS);
            map.copies(c).map(|copy| (copy.role, copy.chunk * chunk.0 + off)).collect()
        }
        Layout::Raid0(_) => {
            let (stripe, d) = position(n as u64);
            vec![(d, stripe * chunk.0 + off)]
        }
        _ => {
            let Some(data) = StripeLayout::new(layout, n, 0).map(|map| map.data_disks()) else {
                return Vec::new();
            };
            let (stripe, d) = position(data as u64);
            let role = StripeLayout::new(layout, n, stripe).map_or(0, |map| map.data_role(d));
            vec![(role, stripe * chunk.0 + off)]
        }
    }
}

/// Returns true if the layout can have so many members.
fn possible(layout: Layout, n: usize) -> bool {
    match layout {
        Layout::Raid10(layout) => n >= layout.copies() as usize,
        Layout::Raid6(_) => (4..=255).contains(&n),
        Layout::Raid5(_) => n >= 3,
        _ => n >= 2,
    }
}

/// Scores one candidate by the blocks found.
fn score(
    members: &MemberDevices,
    layout: Layout,
    chunk: Sectors,
    evidence: &Evidence,
    placement: &Placement,
) -> Option<Guess> {
    let (n, found) = (members.len(), &evidence.found);
    possible(layout, n).then_some(())?;
    let address = |block: &FoundBlock| {
        let sector = placement.sector(block.address);
        sector.map_or_else(Vec::new, |sector| places(layout, n, chunk, sector))
    };
    let addresses: Vec<Vec<(usize, u64)>> = found.iter().map(address).collect();
    let mut offsets: HashMap<u64, usize> = HashMap::new();
    for (block, places) in found.iter().zip(&addresses) {
        let distances: HashSet<u64> =
            places.iter().filter_map(|(_, at)| block.at.0.checked_sub(*at)).collect();
        for offset in distances {
            *offsets.entry(offset).or_default() += 1;
        }
    }
    // Of equal counts the smallest offset.
    let offset = offsets.into_iter().max_by_key(|(offset, n)| (*n, u64::MAX - offset))?.0;
    let mut votes: HashMap<(usize, usize), usize> = HashMap::new();
    for (block, places) in found.iter().zip(&addresses) {
        let here = |(_, at): &&(usize, u64)| block.at.0.checked_sub(*at) == Some(offset);
        for (role, _) in places.iter().filter(here) {
            *votes.entry((block.member, *role)).or_default() += 1;
        }
    }
    let (order, right, open) = assign_roles_by_votes(members, &votes);
    let manual = ManualGeometry { layout, chunk, offset: Sectors(offset), size: None };
    let right = if layout == Layout::Raid1 { right.min(found.len()) } else { right };
    let unassigned = open.len() - members.iter().filter(|member| member.is_none()).count();
    let certain = unassigned == 0 || open.len() == 1;
    let part = placement.part.clone();
    Some(Guess { manual, part, order, right, found: found.len(), certain, open })
}

/// Gives each role to the member with the most votes for it. Also returns the votes that came true,
/// and the roles without votes.
fn assign_roles_by_votes(
    members: &MemberDevices,
    votes: &HashMap<(usize, usize), usize>,
) -> (Vec<Option<usize>>, usize, Vec<usize>) {
    let mut ballots: Vec<_> = votes.iter().map(|(pair, count)| (*count, *pair)).collect();
    ballots.sort_by_key(|(count, pair)| (usize::MAX - count, *pair));
    let mut order: Vec<Option<usize>> = vec![None; members.len()];
    let (mut right, mut assigned) = (0, HashSet::new());
    for (count, (member, role)) in ballots {
        if order[role].is_none() && assigned.insert(member) {
            order[role] = Some(member);
            right += count;
        }
    }
    let open = (0..order.len()).filter(|role| order[*role].is_none()).collect();
    let mut rest = (0..members.len()).filter(|i| members[*i].is_some() && !assigned.contains(i));
    for role in order.iter_mut().filter(|role| role.is_none()) {
        *role = rest.next();
    }
    (order, right, open)
}
