//! RAID4, 5 and 6: what each member holds in one stripe.
//!
//! A stripe is one chunk at the same offset of every member. It holds `data_disks` chunks of data,
//! P, and on RAID6 Q. The layouts differ in the roles of P and Q, the order of data around them,
//! and the power of the generator with which each data chunk contributes to Q.

use xfskit_parity::Located;

use crate::layout::{Layout, Raid5Layout, Raid6Layout};

/// What one member holds in one stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The stripe's data chunk of this number, counted in array order from 0.
    Data(usize),
    /// The sum of the data.
    P,
    /// The sum of the data, each times its power of the generator.
    Q,
}

/// The order of data around the parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// Data `d` on role `(start + d) % modulus`.
    Wrap { start: usize, modulus: usize },
    /// Data in role order, skipping `width` roles at `at`.
    Skip { at: usize, width: usize },
}

/// The roles of one stripe: P, Q, and the data chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripeLayout {
    disks: usize,
    /// The role that holds P.
    pub p: usize,
    /// The role that holds Q, on RAID6.
    pub q: Option<usize>,
    order: Order,
    exponent_is_role: bool,
}

impl StripeLayout {
    /// Returns the layout of stripe `stripe` (counted from 0) on `disks` members; `None` if the
    /// layout has no parity.
    pub fn new(layout: Layout, disks: usize, stripe: u64) -> Option<Self> {
        match layout {
            Layout::Raid4 => Some(Self::raid5(Raid5Layout::ParityLast, disks, stripe)),
            Layout::Raid5(layout) => Some(Self::raid5(layout, disks, stripe)),
            Layout::Raid6(layout) => Some(Self::raid6(layout, disks, stripe)),
            Layout::Linear | Layout::Raid0(_) | Layout::Raid1 | Layout::Raid10(_) => None,
        }
    }

    fn raid5(layout: Raid5Layout, disks: usize, stripe: u64) -> Self {
        let (up, down) = turns(stripe, disks);
        let wrap = |start| Order::Wrap { start, modulus: disks };
        let (p, order) = match layout {
            Raid5Layout::LeftAsymmetric => (down, Order::Skip { at: down, width: 1 }),
            Raid5Layout::RightAsymmetric => (up, Order::Skip { at: up, width: 1 }),
            Raid5Layout::LeftSymmetric => (down, wrap(down + 1)),
            Raid5Layout::RightSymmetric => (up, wrap(up + 1)),
            Raid5Layout::ParityFirst => (0, wrap(1)),
            Raid5Layout::ParityLast => (disks - 1, wrap(0)),
        };
        Self { disks, p, q: None, order, exponent_is_role: false }
    }

    fn raid6(layout: Raid6Layout, disks: usize, stripe: u64) -> Self {
        use Raid6Layout as L;
        let (up, down) = turns(stripe, disks);
        let wrap = |start| Order::Wrap { start, modulus: disks };
        // P at `p`, Q behind it, data in role order around the two.
        let around = |p: usize| {
            let skip = Order::Skip { at: p, width: 2 };
            if p == disks - 1 { (p, 0, wrap(1)) } else { (p, p + 1, skip) }
        };
        // A RAID5 over all but the last member, which holds Q.
        let beside = |layout| {
            let raid5 = Self::raid5(layout, disks - 1, stripe);
            (raid5.p, disks - 1, raid5.order)
        };
        let (p, q, order) = match layout {
            L::LeftAsymmetric => around(down),
            L::RightAsymmetric | L::DdfZeroRestart => around(up),
            L::LeftSymmetric => (down, (down + 1) % disks, wrap(down + 2)),
            L::RightSymmetric => (up, (up + 1) % disks, wrap(up + 2)),
            L::ParityFirst => (0, 1, wrap(2)),
            L::ParityLast => (disks - 2, disks - 1, wrap(0)),
            L::DdfNRestart => around(turns(stripe + 1, disks).1),
            L::DdfNContinue => (down, (down + disks - 1) % disks, wrap(down + 1)),
            L::LeftAsymmetric6 => beside(Raid5Layout::LeftAsymmetric),
            L::RightAsymmetric6 => beside(Raid5Layout::RightAsymmetric),
            L::LeftSymmetric6 => beside(Raid5Layout::LeftSymmetric),
            L::RightSymmetric6 => beside(Raid5Layout::RightSymmetric),
            L::ParityFirst6 => beside(Raid5Layout::ParityFirst),
        };
        let exponent_is_role =
            matches!(layout, L::DdfZeroRestart | L::DdfNRestart | L::DdfNContinue);
        Self { disks, p, q: Some(q), order, exponent_is_role }
    }

    /// Returns the number of data chunks in the stripe.
    pub fn data_disks(&self) -> usize {
        self.disks - 1 - usize::from(self.q.is_some())
    }

    /// Returns the role of data chunk `d`, which is less than [`data_disks`](Self::data_disks).
    pub fn data_role(&self, d: usize) -> usize {
        match self.order {
            Order::Wrap { start, modulus } => (start + d) % modulus,
            Order::Skip { at, width } => d + if d >= at { width } else { 0 },
        }
    }

    /// Returns what `role`, less than the number of members, holds.
    pub fn part(&self, role: usize) -> Part {
        if role == self.p {
            return Part::P;
        }
        if Some(role) == self.q {
            return Part::Q;
        }
        match self.order {
            Order::Wrap { start, modulus } => {
                Part::Data((role + modulus - start % modulus) % modulus)
            }
            Order::Skip { at, width } => Part::Data(if role > at { role - width } else { role }),
        }
    }

    /// Returns the power of the generator with which data chunk `d` contributes to Q. md counts
    /// data chunks upwards from behind Q; DDF uses the role itself.
    pub fn exponent(&self, d: usize) -> usize {
        let role = self.data_role(d);
        let Some(q) = self.q else { return d };
        if self.exponent_is_role {
            return role;
        }
        let behind_q = |role: usize| (role + self.disks - (q + 1) % self.disks) % self.disks;
        let position = behind_q(role);
        position - usize::from(behind_q(self.p) < position)
    }

    /// Returns the only role whose error explains the errors of P and Q, if there is one.
    pub fn wrong_role(&self, p_error: &[u8], q_error: &[u8]) -> Option<usize> {
        match xfskit_parity::locate(p_error, q_error) {
            Located::P => Some(self.p),
            Located::Q => self.q,
            Located::Data(exponent) => (0..self.data_disks())
                .find(|d| self.exponent(*d) == exponent)
                .map(|d| self.data_role(d)),
            Located::Nothing | Located::Several => None,
        }
    }

    /// Returns one more than the largest exponent in a stripe.
    pub fn exponents(&self) -> usize {
        if self.exponent_is_role { self.disks } else { self.data_disks() }
    }
}

/// Returns the role of a stripe's rotation, counted up from the first role and down from the last.
#[allow(clippy::cast_possible_truncation)] // a remainder of a usize
fn turns(stripe: u64, disks: usize) -> (usize, usize) {
    let up = (stripe % disks as u64) as usize;
    (up, disks - 1 - up)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(layout: Layout, disks: usize, stripe: u64) -> String {
        let map = StripeLayout::new(layout, disks, stripe).unwrap();
        let part = |role| match map.part(role) {
            Part::Data(d) => format!("D{d}"),
            part => format!("{part:?}"),
        };
        (0..disks).map(part).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn stripes_are_laid_out_as_in_the_kernel() {
        let raid5 = Layout::Raid5(Raid5Layout::LeftSymmetric);
        assert_eq!(picture(raid5, 4, 1), "D1 D2 P D0");
        assert_eq!(picture(raid5, 4, 3), "P D0 D1 D2");
        for (layout, rows) in [
            (Raid6Layout::LeftSymmetric, ["Q D0 D1 D2 P", "D0 D1 D2 P Q", "D1 D2 P Q D0"]),
            (Raid6Layout::LeftAsymmetric, ["Q D0 D1 D2 P", "D0 D1 D2 P Q", "D0 D1 P Q D2"]),
            (Raid6Layout::RightSymmetric, ["P Q D0 D1 D2", "D2 P Q D0 D1", "D1 D2 P Q D0"]),
            (Raid6Layout::DdfNContinue, ["D0 D1 D2 Q P", "D1 D2 Q P D0", "D2 Q P D0 D1"]),
        ] {
            for (stripe, expected) in (0..).zip(rows) {
                assert_eq!(
                    picture(Layout::Raid6(layout), 5, stripe),
                    expected,
                    "{layout:?} {stripe}"
                );
            }
        }
    }

    #[test]
    fn every_role_has_one_part_and_every_exponent_occurs_once() {
        let raid5 = Raid5Layout::ALL.iter().map(|layout| Layout::Raid5(*layout));
        let raid6 = Raid6Layout::ALL.iter().map(|layout| Layout::Raid6(*layout));
        for layout in raid5.chain(raid6).chain([Layout::Raid4]) {
            for (disks, stripe) in (4..9).flat_map(|n| (0..40).map(move |s| (n, s))) {
                let map = StripeLayout::new(layout, disks, stripe).unwrap();
                let mut exponents = vec![false; map.exponents()];
                for d in 0..map.data_disks() {
                    assert_eq!(map.part(map.data_role(d)), Part::Data(d), "{layout:?} {map:?}");
                    assert!(!std::mem::replace(&mut exponents[map.exponent(d)], true));
                }
                let parities = (0..disks).filter(|r| !matches!(map.part(*r), Part::Data(_)));
                assert_eq!(parities.count(), disks - map.data_disks());
            }
        }
    }

    #[test]
    fn exponents_follow_the_role_behind_q_and_not_the_order_of_data() {
        let map = StripeLayout::new(Layout::Raid6(Raid6Layout::LeftAsymmetric), 5, 2).unwrap();
        assert_eq!((map.q, map.exponent(2), map.exponent(0), map.exponent(1)), (Some(3), 0, 1, 2));
        let ddf = StripeLayout::new(Layout::Raid6(Raid6Layout::DdfNContinue), 5, 1).unwrap();
        assert_eq!((0..3).map(|d| ddf.exponent(d)).collect::<Vec<_>>(), [4, 0, 1]);
    }
}
