//! Guessing what members are whose superblocks are gone, by the XFS volume on them.
//!
//! [`evidence`] finds pieces of the array that say where they belong. A candidate (level, layout,
//! chunk) says at which sector of a member such a piece ought to lie, and in which role. The distance
//! between that sector and where it was found is the data offset: the right candidate has one for
//! all pieces. Then every piece votes: the member it lies on has the role that the candidate says.
//! Copies in parity (where the rest of a stripe is zero) vote too, and are outvoted.
//!
//! Members that nothing testifies for fill the roles that are left. Which of them has which shows
//! where parity is right, or, with members missing, where the volume's headers come out whole
//! (`proof`). What even that leaves open is in the order given, and the guess says that it is not
//! certain.

pub mod evidence;
mod proof;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_units::{ArraySector, Sectors};

use crate::assemble::Bare;
use crate::layout::mirror::Raid10;
use crate::layout::parity::Row;
use crate::layout::{Layout, Raid0Layout, Raid5Layout, Raid6Layout, Raid10Layout};
use evidence::{Volume, Witness, volume, witnesses};

/// Chunks that are tried, in sectors: 4 KiB to 4 MiB.
const CHUNKS: std::ops::RangeInclusive<u32> = 3..=13;
/// Candidates that explain equally much of which each is looked into.
const TIED_MAX: usize = 16;
/// Members that nobody said are missing.
const MORE_MAX: usize = 2;
/// Chunks of an array of unknown size, for layouts whose copies do not depend on it.
const ENDLESS: u64 = 1 << 40;

/// The members as they were given; `None` for one that is missing.
pub type Given = [Option<Arc<dyn BlockDevice>>];

/// One way in which the members make an array.
#[derive(Clone, Debug, PartialEq)]
pub struct Guess {
    /// Level, layout, chunk, offset.
    pub bare: Bare,
    /// For each role the member, by its place among those given.
    pub order: Vec<Option<usize>>,
    /// Pieces of the volume that lie where they should.
    pub right: usize,
    /// Pieces that were found.
    pub found: usize,
    /// True where nothing is left to chance: every member has its role by evidence or parity.
    pub certain: bool,
    /// Roles whose members have no evidence for them.
    open: Vec<usize>,
}

/// All layouts that are tried, the more usual first.
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

/// What `members` may make, the best guess first, with others that explain as much. `None` stands for
/// a member that is missing; where none is said to be, and what was found does not all lie where it should, it is
/// tried whether one or two more explain more of it. At most `limit` bytes of each member are looked at.
pub fn guess(members: &Given, limit: u64) -> Vec<Guess> {
    let there: Vec<usize> = (0..members.len()).filter(|i| members[*i].is_some()).collect();
    let devices: Vec<&dyn BlockDevice> = members.iter().flatten().map(|device| &**device).collect();
    let Some(volume) = volume(&devices, limit) else { return Vec::new() };
    let mut found = witnesses(&devices, &volume, limit);
    for witness in &mut found {
        witness.member = there[witness.member];
    }
    let mut best = guess_of(members, &found, &volume);
    let explains = |guesses: &[Guess]| guesses.first().map_or(0, |guess| guess.right);
    if there.len() == members.len() {
        for more in 1..=MORE_MAX {
            let with: Vec<_> =
                members.iter().cloned().chain(std::iter::repeat_n(None, more)).collect();
            if explains(&best) < found.len() {
                let other = guess_of(&with, &found, &volume);
                best = if explains(&other) > explains(&best) { other } else { best };
            }
        }
    }
    best
}

/// What exactly these members may make.
fn guess_of(members: &Given, found: &[Witness], volume: &Volume) -> Vec<Guess> {
    let missing = members.iter().filter(|member| member.is_none()).count();
    let n = u32::try_from(members.len()).unwrap_or(u32::MAX);
    let mut guesses: Vec<Guess> = Vec::new();
    // RAID10 bears more where they hold different chunks.
    let bears = |layout: &Layout| {
        matches!(layout, Layout::Raid10(_)) || layout.tolerates(n) as usize >= missing
    };
    for layout in layouts().filter(bears) {
        let mut chunks: Vec<Sectors> = CHUNKS.map(|log| Sectors(1 << log)).collect();
        if layout == Layout::Raid1 {
            chunks = vec![Sectors(0)];
        }
        guesses.extend(chunks.into_iter().filter_map(|chunk| weigh(members, layout, chunk, found)));
    }
    let best = guesses.iter().map(|guess| guess.right).max().unwrap_or(0);
    guesses.retain(|guess| guess.right == best && best > 0);
    if guesses.len() > TIED_MAX {
        return guesses;
    }
    let mut proven: Vec<(usize, Guess)> = guesses
        .into_iter()
        .map(|mut guess| (proof::settle(&mut guess, members, volume), guess))
        .collect();
    let most = proven.iter().map(|(headers, _)| *headers).max().unwrap_or(0);
    proven.retain(|(headers, _)| *headers == most);
    // What is certain leaves no room for what is not.
    let certain = proven.iter().any(|(_, guess)| guess.certain);
    proven.into_iter().map(|(_, guess)| guess).filter(|guess| guess.certain || !certain).collect()
}

/// Where sector `at` of the array lies: role, and sector from the member's data offset.
fn places(layout: Layout, n: usize, chunk: Sectors, at: ArraySector) -> Vec<(usize, u64)> {
    if layout == Layout::Raid1 {
        return (0..n).map(|role| (role, at.0)).collect();
    }
    let (c, off) = (at.0 / chunk.0, at.0 % chunk.0);
    let row = |data: u64| (c / data, usize::try_from(c % data).unwrap_or(0));
    match layout {
        Layout::Raid10(layout) => {
            let map = Raid10::new(layout, u32::try_from(n).unwrap_or(u32::MAX), ENDLESS);
            map.copies(c).map(|copy| (copy.role, copy.chunk * chunk.0 + off)).collect()
        }
        Layout::Raid0(_) => {
            let (stripe, d) = row(n as u64);
            vec![(d, stripe * chunk.0 + off)]
        }
        _ => {
            let Some(data) = Row::new(layout, n, 0).map(|row| row.data_disks()) else {
                return Vec::new();
            };
            let (stripe, d) = row(data as u64);
            let role = Row::new(layout, n, stripe).map_or(0, |row| row.data_role(d));
            vec![(role, stripe * chunk.0 + off)]
        }
    }
}

/// True where the layout can have so many members.
fn possible(layout: Layout, n: usize) -> bool {
    match layout {
        Layout::Raid10(layout) => n >= layout.copies() as usize,
        Layout::Raid6(_) => (4..=255).contains(&n),
        Layout::Raid5(_) => n >= 3,
        _ => n >= 2,
    }
}

/// What the witnesses say about one candidate.
fn weigh(members: &Given, layout: Layout, chunk: Sectors, found: &[Witness]) -> Option<Guess> {
    let n = members.len();
    possible(layout, n).then_some(())?;
    let homes: Vec<Vec<(usize, u64)>> =
        found.iter().map(|witness| places(layout, n, chunk, witness.sector)).collect();
    let mut offsets: HashMap<u64, usize> = HashMap::new();
    for (witness, places) in found.iter().zip(&homes) {
        let distances: HashSet<u64> =
            places.iter().filter_map(|(_, at)| witness.at.0.checked_sub(*at)).collect();
        for offset in distances {
            *offsets.entry(offset).or_default() += 1;
        }
    }
    // Of equally many the smallest.
    let offset = offsets.into_iter().max_by_key(|(offset, n)| (*n, u64::MAX - offset))?.0;
    let mut votes: HashMap<(usize, usize), usize> = HashMap::new();
    for (witness, places) in found.iter().zip(&homes) {
        let here = |(_, at): &&(usize, u64)| witness.at.0.checked_sub(*at) == Some(offset);
        for (role, _) in places.iter().filter(here) {
            *votes.entry((witness.member, *role)).or_default() += 1;
        }
    }
    let (order, right, open) = elect(members, &votes);
    let bare = Bare { layout, chunk, offset: Sectors(offset), size: None };
    let right = if layout == Layout::Raid1 { right.min(found.len()) } else { right };
    let unseated = open.len() - members.iter().filter(|member| member.is_none()).count();
    let certain = unseated == 0 || open.len() == 1;
    Some(Guess { bare, order, right, found: found.len(), certain, open })
}

/// Gives each role to the member with the most votes for it. Also how many votes came true, and the
/// roles for which there was none.
fn elect(
    members: &Given,
    votes: &HashMap<(usize, usize), usize>,
) -> (Vec<Option<usize>>, usize, Vec<usize>) {
    let mut ballots: Vec<_> = votes.iter().map(|(who, count)| (*count, *who)).collect();
    ballots.sort_by_key(|(count, who)| (usize::MAX - count, *who));
    let mut order: Vec<Option<usize>> = vec![None; members.len()];
    let (mut right, mut seated) = (0, HashSet::new());
    for (count, (member, role)) in ballots {
        if order[role].is_none() && seated.insert(member) {
            order[role] = Some(member);
            right += count;
        }
    }
    let open = (0..order.len()).filter(|role| order[*role].is_none()).collect();
    let mut rest = (0..members.len()).filter(|i| members[*i].is_some() && !seated.contains(i));
    for role in order.iter_mut().filter(|role| role.is_none()) {
        *role = rest.next();
    }
    (order, right, open)
}
