//! Proof: finding the order of members without evidence.
//!
//! On a RAID6 with a spare member, members are left out and computed again: with the right order
//! the result equals what they hold. On other levels the volume's headers must be readable. On
//! RAID5 this does not depend on the order of members without headers.

use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_units::{ArraySector, ByteOffset};

use super::evidence::{Address, Placement, Volume};
use super::{Guess, MemberDevices};
use crate::array::Array;
use crate::assemble::Member;
use crate::layout::parity::{Part, StripeLayout};

/// At most this many members are tried in every order.
const FREE_MAX: usize = 5;
/// Stripes that are computed again, and stripes that are searched for some that are not empty.
const STRIPES: usize = 16;
const SEARCHED_STRIPES: u64 = 4096;
/// Groups of the volume whose headers are checked.
const GROUPS: u64 = 16;

type Order = [Option<usize>];

/// Finds the order of the members that the votes left open, if possible. Returns how many of the
/// volume's landmarks are in place in the resulting array.
pub(super) fn resolve_order(
    guess: &mut Guess,
    members: &MemberDevices,
    volume: &Volume,
    placement: &Placement,
) -> usize {
    let rows = rows(guess, members);
    let landmarks =
        |guess: &Guess, order: &Order| landmarks(guess, order, members, volume, placement);
    if guess.open.len() > FREE_MAX {
        return landmarks(guess, &guess.order);
    }
    let score = |order: &Order| {
        if rows.is_empty() {
            landmarks(guess, order)
        } else {
            usize::from(computes(guess, order, members, &rows))
        }
    };
    let mut best: (usize, Vec<Vec<Option<usize>>>) = (0, Vec::new());
    permute(&mut guess.order.clone(), &guess.open, 0, &mut |order| {
        let score = score(order);
        if score > best.0 {
            best = (score, Vec::new());
        }
        // Two missing members are interchangeable.
        if score == best.0 && score > 0 && !best.1.iter().any(|known| known == order) {
            best.1.push(order.to_vec());
        }
    });
    match best.1.as_slice() {
        [only] => {
            guess.order.clone_from(only);
            guess.certain = true;
        }
        // The order by votes contradicts parity.
        [] if !rows.is_empty() => return 0,
        _ => {}
    }
    landmarks(guess, &guess.order)
}

/// Opens the array of `guess` with its members in `order`, without the roles in `without`.
fn array(
    guess: &Guess,
    order: &Order,
    members: &MemberDevices,
    without: &[usize],
) -> Option<Array> {
    let member = |(role, i): (usize, &Option<usize>)| {
        let device = members.get(i.filter(|_| !without.contains(&role))?)?.clone()?;
        Some(Member { name: String::new(), device })
    };
    let slots: Vec<Option<Member>> = order.iter().enumerate().map(member).collect();
    guess.manual.open(&slots).ok()
}

/// Returns how many landmarks of the volume are in place.
fn landmarks(
    guess: &Guess,
    order: &Order,
    members: &MemberDevices,
    volume: &Volume,
    placement: &Placement,
) -> usize {
    let Some(array) = array(guess, order, members, &[]) else { return 0 };
    let is_there = |at: &ArraySector| {
        let mut sector = [0; 512];
        let Some(place) = placement.sector(Address::Volume(*at)) else { return false };
        let read = array.read_at(ByteOffset(place.0.saturating_mul(512)), &mut sector);
        read.is_ok() && volume.address(&sector) == Some(*at)
    };
    volume.landmarks(GROUPS).iter().filter(|at| is_there(at)).count()
}

/// Returns true if every present member, computed from the others, equals what it holds.
fn computes(guess: &Guess, order: &Order, members: &MemberDevices, rows: &[u64]) -> bool {
    let n = order.len();
    let missing = order.iter().filter(|member| member.is_none()).count();
    (0..n).filter(|role| order[*role].is_some()).all(|role| {
        let mut without = vec![role];
        without.extend((missing == 0).then_some((role + 1) % n));
        let Some(array) = array(guess, order, members, &without) else { return false };
        rows.iter().all(|stripe| {
            let Some(map) = StripeLayout::new(guess.manual.layout, n, *stripe) else {
                return false;
            };
            let Part::Data(d) = map.part(role) else { return true };
            let chunk = stripe.saturating_mul(map.data_disks() as u64).saturating_add(d as u64);
            let at = chunk.saturating_mul(guess.manual.chunk.byte_len().0);
            let mut computed = [0; 512];
            let read = array.read_at(ByteOffset(at), &mut computed);
            let device = order[role].and_then(|i| members.get(i)?.as_ref());
            read.is_ok() && device.and_then(|d| first(guess, d, *stripe)) == Some(computed)
        })
    })
}

/// Returns the first sector of a stripe on a member.
fn first(guess: &Guess, device: &Arc<dyn BlockDevice>, stripe: u64) -> Option<[u8; 512]> {
    let at = guess.manual.offset.0.checked_add(stripe.checked_mul(guess.manual.chunk.0)?)?;
    let mut sector = [0; 512];
    device.read_at(ByteOffset(at.checked_mul(512)?), &mut sector).ok()?;
    Some(sector)
}

/// Returns stripes that are not empty, for a RAID6 with a spare member.
fn rows(guess: &Guess, members: &MemberDevices) -> Vec<u64> {
    let n = members.len();
    let raid6 = StripeLayout::new(guess.manual.layout, n, 0).is_some_and(|map| map.q.is_some());
    if !raid6 || members.iter().flatten().count() + 1 < n {
        return Vec::new();
    }
    let holds = |stripe: &u64| {
        let sectors = members.iter().flatten().filter_map(|device| first(guess, device, *stripe));
        sectors.filter(|sector| *sector != [0; 512]).count() > 2
    };
    (0..SEARCHED_STRIPES).filter(holds).take(STRIPES).collect()
}

/// Calls `visit` with every order of the members in `roles`.
fn permute(
    order: &mut [Option<usize>],
    roles: &[usize],
    from: usize,
    visit: &mut dyn FnMut(&Order),
) {
    if from == roles.len() {
        return visit(order);
    }
    for i in from..roles.len() {
        order.swap(roles[from], roles[i]);
        permute(order, roles, from + 1, visit);
        order.swap(roles[from], roles[i]);
    }
}
