//! Proof: the orders of members that votes leave open, and what the volume's headers say of them.

use std::collections::HashSet;
use std::ops::ControlFlow;

use xfskit_block::BlockDevice;
use xfskit_units::{ArraySector, ByteOffset};

use super::evidence::{Address, Placement, Volume};
use super::redundancy::{Agreement, Samples};
use super::shape::Shape;
use super::steps::Steps;
use super::votes::Votes;
use super::{Guess, MemberDevices};
use crate::assemble::Member;
use crate::layout::Layout;

/// At most this many orders of one shape are compared with the samples: all those of six members.
const ORDERS_TRIED: usize = 720;
/// At most this many orders of all shapes are compared with the samples; of each shape at least one
/// is.
pub(super) const TRIES: usize = 10_000;
/// At most this many more orders of one shape are counted: as many as seven members have.
const ORDERS_COUNTED: usize = 5040;
/// At most this many orders of one shape are kept.
const ORDERS_MAX: usize = 128;
/// Groups of the volume whose headers are checked.
const GROUPS: u64 = 16;

/// Orders of the members that explain equally much.
pub(super) struct Orders {
    /// The orders with which the members agree best.
    pub(super) best: Vec<Vec<Option<usize>>>,
    /// How well the members agree in the best of them.
    pub(super) agreement: Agreement,
    /// Roles that votes leave open.
    pub(super) open: Vec<usize>,
    /// Orders that may be as good and are not among the best, because they are too many. At
    /// [`ORDERS_COUNTED`], or where the search for orders did not end, there may be more.
    pub(super) omitted: usize,
}

/// Returns the orders that the votes leave, of these those with which the members agree best.
/// `tries` is how many may still be compared with the samples.
pub(super) fn orders(
    shape: &Shape,
    offset: u64,
    votes: &Votes,
    devices: &MemberDevices,
    samples: &Samples<'_>,
    tries: &mut usize,
    steps: &Steps<'_>,
) -> ControlFlow<(), Orders> {
    let first = in_groups(shape, votes.assign_roles(devices));
    let groups = groups(shape);
    let is_same = |a: usize, b: usize| groups.iter().any(|g| g.contains(&a) && g.contains(&b));
    let open = votes.open_roles(&first, is_same);
    let agreement = |order: &[Option<usize>]| samples.agreement(shape, offset, order);
    let (mut candidates, mut seen, mut untried) = (Vec::new(), HashSet::new(), 0);
    let limit = (*tries).clamp(1, ORDERS_TRIED);
    let flow = votes.visit_orders(&first, &open, &mut |order| {
        steps.poll()?;
        let order = in_groups(shape, order.to_vec());
        match seen.insert(order.clone()) {
            false => {}
            true if candidates.len() < limit => candidates.push((agreement(&order), order)),
            true => untried += 1,
        }
        if untried < ORDERS_COUNTED { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    steps.poll()?;
    let untried = if flow.is_break() { untried.max(1) } else { untried };
    *tries = tries.saturating_sub(candidates.len());
    candidates.sort_by_key(|(agreement, _)| (agreement.wrong, agreement.located));
    let best = candidates.first().map_or_else(Agreement::default, |(agreement, _)| *agreement);
    // A member that is partly wrong leaves disagreement in every order.
    candidates.retain(|(agreement, _)| agreement.wrong <= best.wrong + best.wrong / 10);
    let omitted = untried + candidates.len().saturating_sub(ORDERS_MAX);
    candidates.truncate(ORDERS_MAX);
    let orders = candidates.into_iter().map(|(_, order)| order).collect();
    ControlFlow::Continue(Orders { best: orders, agreement: best, open, omitted })
}

/// Returns the roles that hold the same, and whose members can therefore be exchanged.
fn groups(shape: &Shape) -> Vec<Vec<usize>> {
    let size = match shape.layout {
        Layout::Raid1 => shape.members,
        Layout::Raid10(layout)
            if layout.far() == 1 && shape.members.is_multiple_of(layout.near() as usize) =>
        {
            layout.near() as usize
        }
        _ => return Vec::new(),
    };
    let roles: Vec<usize> = (0..shape.members).collect();
    roles.chunks(size).map(<[usize]>::to_vec).collect()
}

/// Returns the order with the members of each group as they were given.
fn in_groups(shape: &Shape, mut order: Vec<Option<usize>>) -> Vec<Option<usize>> {
    for group in groups(shape) {
        order[group[0]..group[0] + group.len()].sort_by_key(|member| (member.is_none(), *member));
    }
    order
}

/// Returns how many headers of the volume are not where they should be.
pub(super) fn missing_headers(
    guess: &Guess,
    devices: &MemberDevices,
    volume: &Volume,
    placement: &Placement,
) -> usize {
    let landmarks = volume.landmarks(GROUPS);
    let member = |i: &Option<usize>| {
        Some(Member { name: String::new(), device: devices.get((*i)?)?.clone()? })
    };
    let slots: Vec<Option<Member>> = guess.order.iter().map(member).collect();
    let Ok(array) = guess.manual.open(&slots) else { return landmarks.len() };
    let is_there = |at: &ArraySector| {
        let mut sector = [0; 512];
        let Some(place) = placement.sector(Address::Volume(*at)) else { return false };
        let read = array.read_at(ByteOffset(place.0.saturating_mul(512)), &mut sector);
        read.is_ok() && volume.address(&sector) == Some(*at)
    };
    landmarks.iter().filter(|at| !is_there(at)).count()
}
