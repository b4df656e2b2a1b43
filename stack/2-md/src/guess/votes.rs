//! Votes: which member has which role, by the blocks found on it.
//!
//! Where the rest of a stripe is zero, P holds a copy of the stripe's only data, and Q may. Such a
//! copy votes too: its member may have the role of the data or the role of the parity.

use std::ops::ControlFlow;

use super::MemberDevices;
use super::evidence::FoundBlock;
use super::shape::{Place, Shape};
use crate::layout::parity::Part;

/// Receives an order of the members, and whether each of its roles has its member.
type Visitor<'v> = dyn FnMut(&[Option<usize>], bool) -> ControlFlow<()> + 'v;

/// Most members whose roles are exchanged in pairs to find an order that explains more.
const EXCHANGED_MAX: usize = 64;
/// At most this many roles are given a member in a search for orders, over all orders.
const STEPS_MAX: usize = 1 << 20;

/// The numbers of blocks that vote for each pair of member and role.
pub(super) struct Votes {
    members: usize,
    /// Blocks that are data of the role.
    data: Vec<usize>,
    /// Blocks that are copies in the role's parity.
    parity: Vec<usize>,
    /// Blocks in all.
    found: usize,
}

impl Votes {
    /// Counts what the blocks vote for. Each belongs at one of its places.
    pub(super) fn new(shape: &Shape, offset: u64, blocks: &[(&FoundBlock, &[Place])]) -> Self {
        let n = shape.members;
        let mut votes =
            Self { members: n, data: vec![0; n * n], parity: vec![0; n * n], found: blocks.len() };
        for (block, places) in blocks {
            let is_here = |at: u64| block.at.0.checked_sub(at) == Some(offset);
            for (role, at) in places.iter().filter(|(_, at)| is_here(*at)) {
                votes.data[block.member * n + role] += 1;
                let Some(stripe) = shape.stripe(*at) else { continue };
                for role in (0..n).filter(|role| !matches!(stripe.part(*role), Part::Data(_))) {
                    votes.parity[block.member * n + role] += 1;
                }
            }
        }
        votes
    }

    fn of(&self, votes: &[usize], member: Option<usize>, role: usize) -> usize {
        member.map_or(0, |member| votes[member * self.members + role])
    }

    /// Returns how many of the blocks on a member are explained if it has this role.
    fn worth(&self, member: Option<usize>, role: usize) -> usize {
        self.of(&self.data, member, role) + self.of(&self.parity, member, role)
    }

    /// Returns how many blocks an order explains.
    pub(super) fn explained(&self, order: &[Option<usize>]) -> usize {
        order.iter().enumerate().map(|(role, member)| self.worth(*member, role)).sum()
    }

    /// Returns how many blocks are at their place in an order, and how many of all are not mere
    /// copies in parity.
    pub(super) fn count(&self, order: &[Option<usize>]) -> (usize, usize) {
        let sum = |votes: &[usize]| -> usize {
            let roles = order.iter().enumerate();
            roles.map(|(role, member)| self.of(votes, *member, role)).sum()
        };
        let (right, copies) = (sum(&self.data), sum(&self.parity));
        (right, self.found.saturating_sub(copies).max(right))
    }

    /// Gives each role to the member with the most votes for it, those by data first, and then
    /// exchanges members while that explains more.
    pub(super) fn assign_roles(&self, devices: &MemberDevices) -> Vec<Option<usize>> {
        let n = self.members;
        let mut order: Vec<Option<usize>> = vec![None; n];
        let mut assigned = vec![false; n];
        for votes in [&self.data, &self.parity] {
            let mut pairs: Vec<usize> = (0..n * n).filter(|pair| votes[*pair] > 0).collect();
            pairs.sort_by_key(|pair| (std::cmp::Reverse(votes[*pair]), *pair));
            for (member, role) in pairs.into_iter().map(|pair| (pair / n, pair % n)) {
                if order[role].is_none() && !assigned[member] {
                    order[role] = Some(member);
                    assigned[member] = true;
                }
            }
        }
        let mut rest = (0..n).filter(|i| devices[*i].is_some() && !assigned[*i]);
        for role in order.iter_mut().filter(|role| role.is_none()) {
            *role = rest.next();
        }
        if n <= EXCHANGED_MAX {
            // Every exchange explains more than before, so this ends.
            while let Some((a, b)) = pairs(n).find(|(a, b)| self.gain(&order, *a, *b) > 0) {
                order.swap(a, b);
            }
        }
        order
    }

    /// Returns the roles whose members can be exchanged at no loss. `is_same` tells that two roles
    /// hold the same.
    pub(super) fn open_roles(
        &self,
        order: &[Option<usize>],
        is_same: impl Fn(usize, usize) -> bool,
    ) -> Vec<usize> {
        let differ = |a: usize, b: usize| {
            a != b && (order[a].is_some() || order[b].is_some()) && !is_same(a, b)
        };
        let is_open =
            |a: usize| (0..order.len()).any(|b| differ(a, b) && self.gain(order, a, b) == 0);
        (0..order.len()).filter(|role| is_open(*role)).collect()
    }

    /// Calls `visit` with each order of the members in the `open` roles that explains at least as
    /// much as `first`, until it breaks. Breaks, too, where votes for many roles leave more to try
    /// than [`STEPS_MAX`] roles.
    pub(super) fn visit_orders(
        &self,
        first: &[Option<usize>],
        open: &[usize],
        visit: &mut dyn FnMut(&[Option<usize>]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let best = |role: usize| {
            let members = open.iter().map(|other| self.worth(first[*other], role));
            members.max().unwrap_or(0)
        };
        // The most that the roles from each one on can explain.
        let mut most = vec![0; open.len() + 1];
        for i in (0..open.len()).rev() {
            most[i] = most[i + 1] + best(open[i]);
        }
        let needed = open.iter().map(|role| self.worth(first[*role], *role)).sum();
        let mut steps = 0;
        self.visit_from(&mut first.to_vec(), open, &most, needed, &mut |order, is_complete| {
            steps += 1;
            match (is_complete, steps > STEPS_MAX) {
                (_, true) => ControlFlow::Break(()),
                (true, false) => visit(order),
                (false, false) => ControlFlow::Continue(()),
            }
        })
    }

    /// Tries every member of the roles in `open` for the first of them, if `needed` blocks can
    /// still be explained. `most` has how many the roles from each one on explain at most. `visit`
    /// receives every order, and whether all of its roles have their member.
    fn visit_from(
        &self,
        order: &mut [Option<usize>],
        open: &[usize],
        most: &[usize],
        needed: usize,
        visit: &mut Visitor<'_>,
    ) -> ControlFlow<()> {
        if needed > most[0] {
            return ControlFlow::Continue(());
        }
        visit(order, open.is_empty())?;
        let Some((role, rest)) = open.split_first() else { return ControlFlow::Continue(()) };
        for i in 0..open.len() {
            // Missing members are all the same.
            let is_missing = |other: &usize| order[*other].is_none();
            if is_missing(&open[i]) && open[..i].iter().any(is_missing) {
                continue;
            }
            order.swap(*role, open[i]);
            let needed = needed.saturating_sub(self.worth(order[*role], *role));
            let flow = self.visit_from(order, rest, &most[1..], needed, visit);
            order.swap(*role, open[i]);
            flow?;
        }
        ControlFlow::Continue(())
    }

    /// Returns how much more is explained if two roles exchange their members.
    fn gain(&self, order: &[Option<usize>], a: usize, b: usize) -> i64 {
        let worth = |at_a, at_b| self.worth(at_a, a) + self.worth(at_b, b);
        let (now, then) = (worth(order[a], order[b]), worth(order[b], order[a]));
        i64::try_from(then).unwrap_or(0) - i64::try_from(now).unwrap_or(0)
    }
}

fn pairs(n: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..n).flat_map(|a| (0..a).map(move |b| (b, a)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the orders that explain as much as `first`, of members of which `data` tells the
    /// roles.
    fn orders(data: Vec<usize>, first: &[Option<usize>]) -> Vec<Vec<Option<usize>>> {
        let members = first.len();
        let votes = Votes { members, data, parity: vec![0; members * members], found: 0 };
        let (mut orders, open) = (Vec::new(), (0..members).collect::<Vec<_>>());
        let flow = votes.visit_orders(first, &open, &mut |order| {
            orders.push(order.to_vec());
            ControlFlow::Continue(())
        });
        assert!(flow.is_continue());
        orders
    }

    #[test]
    fn every_order_that_explains_as_much_is_visited_once() {
        let first: Vec<Option<usize>> = (0..7).map(Some).collect();
        let all = orders(vec![0; 49], &first);
        let different: std::collections::HashSet<_> = all.iter().collect();
        assert_eq!((all.len(), different.len(), &all[0]), (5040, 5040, &first));

        // Member 3 was found in role 3; members 5 and 6 are missing.
        let mut data = vec![0; 49];
        data[3 * 7 + 3] = 9;
        let first = [Some(0), Some(1), Some(2), Some(3), Some(4), None, None];
        let some = orders(data, &first);
        let different: std::collections::HashSet<_> = some.iter().collect();
        assert_eq!((some.len(), different.len()), (720 / 2, 720 / 2));
        assert!(some.iter().all(|order| order[3] == Some(3)));
    }

    #[test]
    fn a_search_ends_where_one_member_would_explain_most_in_every_role() {
        // Member 0 explains ten blocks in each role, so no order of the others can be excluded
        // until it is complete. None but the first explains as much.
        let n = 20;
        let votes = |i: usize| match (i / n, i % n) {
            (0, _) => 10,
            (member, role) => usize::from(member == role),
        };
        let votes = Votes {
            members: n,
            data: (0..n * n).map(votes).collect(),
            parity: vec![0; n * n],
            found: 0,
        };
        let (first, open): (Vec<_>, Vec<_>) = (0..n).map(|i| (Some(i), i)).unzip();
        let mut orders = 0;
        let flow = votes.visit_orders(&first, &open, &mut |_| {
            orders += 1;
            ControlFlow::Continue(())
        });
        assert!(flow.is_break() && orders > 0, "{orders} orders");
    }
}
