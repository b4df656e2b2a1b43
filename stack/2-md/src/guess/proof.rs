//! Proof: which order of the members that nothing testifies for is right.
//!
//! On a RAID6 with a member to spare, members are taken away and computed again: in the right order what
//! is computed is what stood there. Elsewhere the volume's headers have to come out whole, which on
//! RAID5 does not depend on the order of members that no header lies on.

use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_units::{ArraySector, ByteOffset};

use super::evidence::{Home, Placement, Volume};
use super::{Given, Guess};
use crate::array::Array;
use crate::assemble::Member;
use crate::layout::parity::{Part, Row};

/// Members that are tried in every order.
const FREE_MAX: usize = 5;
/// Rows that are computed again, and rows that are looked at to find some that hold something.
const ROWS: usize = 16;
const LOOK: u64 = 4096;
/// Groups of the volume whose headers are looked at.
const GROUPS: u64 = 16;

type Order = [Option<usize>];

/// Settles the order of the members that the votes left open, where that can be done. Answers how many
/// of the volume's landmarks are where they should be in the array that results.
pub(super) fn settle(
    guess: &mut Guess,
    members: &Given,
    volume: &Volume,
    placement: &Placement,
) -> usize {
    let rows = rows(guess, members);
    let landmarks =
        |guess: &Guess, order: &Order| landmarks(guess, order, members, volume, placement);
    if guess.open.len() > FREE_MAX {
        return landmarks(guess, &guess.order);
    }
    let worth = |order: &Order| {
        if rows.is_empty() {
            landmarks(guess, order)
        } else {
            usize::from(computes(guess, order, members, &rows))
        }
    };
    let mut best: (usize, Vec<Vec<Option<usize>>>) = (0, Vec::new());
    permute(&mut guess.order.clone(), &guess.open, 0, &mut |order| {
        let worth = worth(order);
        if worth > best.0 {
            best = (worth, Vec::new());
        }
        // Two missing members look the same.
        if worth == best.0 && worth > 0 && !best.1.iter().any(|known| known == order) {
            best.1.push(order.to_vec());
        }
    });
    match best.1.as_slice() {
        [only] => {
            guess.order.clone_from(only);
            guess.certain = true;
        }
        // What was voted for does not compute.
        [] if !rows.is_empty() => return 0,
        _ => {}
    }
    landmarks(guess, &guess.order)
}

/// The array by `guess`, with its members in `order`, those in `without` left out.
fn array(guess: &Guess, order: &Order, members: &Given, without: &[usize]) -> Option<Array> {
    let member = |(role, i): (usize, &Option<usize>)| {
        let device = members.get(i.filter(|_| !without.contains(&role))?)?.clone()?;
        Some(Member { name: String::new(), device })
    };
    let slots: Vec<Option<Member>> = order.iter().enumerate().map(member).collect();
    guess.bare.open(&slots).ok()
}

/// How many landmarks of the volume are where they should be.
fn landmarks(
    guess: &Guess,
    order: &Order,
    members: &Given,
    volume: &Volume,
    placement: &Placement,
) -> usize {
    let Some(array) = array(guess, order, members, &[]) else { return 0 };
    let is_there = |at: &ArraySector| {
        let mut sector = [0; 512];
        let Some(place) = placement.sector(Home::Volume(*at)) else { return false };
        let read = array.read_at(ByteOffset(place.0.saturating_mul(512)), &mut sector);
        read.is_ok() && volume.home(&sector) == Some(*at)
    };
    volume.landmarks(GROUPS).iter().filter(|at| is_there(at)).count()
}

/// True where every member that is there is computed from the others as it is.
fn computes(guess: &Guess, order: &Order, members: &Given, rows: &[u64]) -> bool {
    let n = order.len();
    let missing = order.iter().filter(|member| member.is_none()).count();
    (0..n).filter(|role| order[*role].is_some()).all(|role| {
        let mut without = vec![role];
        without.extend((missing == 0).then_some((role + 1) % n));
        let Some(array) = array(guess, order, members, &without) else { return false };
        rows.iter().all(|stripe| {
            let Some(row) = Row::new(guess.bare.layout, n, *stripe) else { return false };
            let Part::Data(d) = row.part(role) else { return true };
            let chunk = stripe.saturating_mul(row.data_disks() as u64).saturating_add(d as u64);
            let at = chunk.saturating_mul(guess.bare.chunk.byte_len().0);
            let mut computed = [0; 512];
            let read = array.read_at(ByteOffset(at), &mut computed);
            let device = order[role].and_then(|i| members.get(i)?.as_ref());
            read.is_ok() && device.and_then(|d| first(guess, d, *stripe)) == Some(computed)
        })
    })
}

/// The first sector of a row on a member.
fn first(guess: &Guess, device: &Arc<dyn BlockDevice>, stripe: u64) -> Option<[u8; 512]> {
    let at = guess.bare.offset.0.checked_add(stripe.checked_mul(guess.bare.chunk.0)?)?;
    let mut sector = [0; 512];
    device.read_at(ByteOffset(at.checked_mul(512)?), &mut sector).ok()?;
    Some(sector)
}

/// Rows in which something stands, for a RAID6 with a member to spare.
fn rows(guess: &Guess, members: &Given) -> Vec<u64> {
    let n = members.len();
    let raid6 = Row::new(guess.bare.layout, n, 0).is_some_and(|row| row.q.is_some());
    if !raid6 || members.iter().flatten().count() + 1 < n {
        return Vec::new();
    }
    let holds = |stripe: &u64| {
        let sectors = members.iter().flatten().filter_map(|device| first(guess, device, *stripe));
        sectors.filter(|sector| *sector != [0; 512]).count() > 2
    };
    (0..LOOK).filter(holds).take(ROWS).collect()
}

/// Shows every order of the members in `roles` to `see`.
fn permute(order: &mut [Option<usize>], roles: &[usize], from: usize, see: &mut dyn FnMut(&Order)) {
    if from == roles.len() {
        return see(order);
    }
    for i in from..roles.len() {
        order.swap(roles[from], roles[i]);
        permute(order, roles, from + 1, see);
        order.swap(roles[from], roles[i]);
    }
}
