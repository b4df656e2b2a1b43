//! The layouts of a level. Numbers are md's (`layout` of a superblock), names are mdadm's.

use std::fmt;

/// Defines an enum of layouts with md's number, mdadm's name and mdadm's short name of each.
macro_rules! layouts {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $number:literal, $long:literal, $short:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// All layouts, in the order of md's numbers.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns md's number.
            pub const fn number(self) -> u32 {
                match self { $(Self::$variant => $number,)* }
            }

            /// Returns the layout of md's number; `None` for unused numbers.
            pub const fn from_number(number: u32) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)* _ => None }
            }

            /// Returns mdadm's name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $long,)* }
            }

            /// Returns the layout of mdadm's name or short name.
            pub fn from_name(name: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|layout| {
                    layout.name() == name || match layout { $(Self::$variant => $short == name,)* }
                })
            }
        }
    };
}

layouts! {
    /// How the zones of a RAID0 of unequal members are striped.
    Raid0Layout {
        /// Unspecified. Sufficient if all members have one size.
        Unspecified = 0, "dangerous", "unspecified";
        /// By the absolute number of the chunk (kernels before 3.14).
        Original = 1, "original", "original";
        /// By the number of the chunk within its zone (kernels 3.14 to 5.3).
        Alternate = 2, "alternate", "alternate";
    }
}

layouts! {
    /// RAID5's rotation. "Left": parity moves from the last member down. "Symmetric": data starts
    /// behind the parity and wraps around.
    Raid5Layout {
        /// Parity from the last member down, data in role order.
        LeftAsymmetric = 0, "left-asymmetric", "la";
        /// Parity from the first member up, data in role order.
        RightAsymmetric = 1, "right-asymmetric", "ra";
        /// Parity from the last member down, data from behind it. mdadm's default.
        LeftSymmetric = 2, "left-symmetric", "ls";
        /// Parity from the first member up, data from behind it.
        RightSymmetric = 3, "right-symmetric", "rs";
        /// Parity always on the first member.
        ParityFirst = 4, "parity-first", "pf";
        /// Parity always on the last member, as RAID4.
        ParityLast = 5, "parity-last", "pl";
    }
}

layouts! {
    /// RAID6's rotation, and the order in which data takes part in Q.
    Raid6Layout {
        /// P from the last member down, Q behind it, data in role order.
        LeftAsymmetric = 0, "left-asymmetric", "la";
        /// P from the first member up, Q behind it, data in role order.
        RightAsymmetric = 1, "right-asymmetric", "ra";
        /// P from the last member down, Q behind it, data from behind Q. mdadm's default.
        LeftSymmetric = 2, "left-symmetric", "ls";
        /// P from the first member up, Q behind it, data from behind Q.
        RightSymmetric = 3, "right-symmetric", "rs";
        /// P on the first, Q on the second member.
        ParityFirst = 4, "parity-first", "pf";
        /// P on the last but one, Q on the last member.
        ParityLast = 5, "parity-last", "pl";
        /// DDF: P from the first member up, data and exponents by role.
        DdfZeroRestart = 8, "ddf-zero-restart", "ddf-zero-restart";
        /// DDF: P from the last but one member down, data and exponents by role.
        DdfNRestart = 9, "ddf-N-restart", "ddf-n-restart";
        /// DDF: Q before P, data from behind P, exponents by role.
        DdfNContinue = 10, "ddf-N-continue", "ddf-n-continue";
        /// RAID5 left-asymmetric over all but the last member, which holds Q.
        LeftAsymmetric6 = 16, "left-asymmetric-6", "la-6";
        /// RAID5 right-asymmetric over all but the last member, which holds Q.
        RightAsymmetric6 = 17, "right-asymmetric-6", "ra-6";
        /// RAID5 left-symmetric over all but the last member, which holds Q.
        LeftSymmetric6 = 18, "left-symmetric-6", "ls-6";
        /// RAID5 right-symmetric over all but the last member, which holds Q.
        RightSymmetric6 = 19, "right-symmetric-6", "rs-6";
        /// RAID5 parity-first over all but the last member, which holds Q.
        ParityFirst6 = 20, "parity-first-6", "pf-6";
    }
}

/// RAID10's copies: how many, and how far from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Raid10Layout {
    near: u8,
    far: u8,
    offset: bool,
    far_sets: u8,
}

impl Raid10Layout {
    /// Two copies side by side: mdadm's default, `near=2`.
    pub const NEAR_2: Self = Self { near: 2, far: 1, offset: false, far_sets: 0 };

    /// Returns the layout with `near` copies side by side times `far` copies far apart (or, with
    /// `offset`, in the next stripe). Returns `None` if either is 0, or `offset` lacks far copies.
    pub const fn new(near: u8, far: u8, offset: bool) -> Option<Self> {
        Self::with_far_sets(near, far, offset, 0)
    }

    const fn with_far_sets(near: u8, far: u8, offset: bool, far_sets: u8) -> Option<Self> {
        if near == 0 || far == 0 || (offset && far < 2) || far_sets > 2 {
            return None;
        }
        Some(Self { near, far, offset, far_sets })
    }

    /// Returns the layout of md's number: near in bits 0 to 7, far in 8 to 15, offset in 16, far
    /// sets from 17.
    pub fn from_number(number: u32) -> Option<Self> {
        let [near, far, ..] = number.to_le_bytes();
        let far_sets = u8::try_from(number >> 17).ok()?;
        Self::with_far_sets(near, far, number & 0x1_0000 != 0, far_sets)
    }

    /// Returns md's number.
    pub const fn number(self) -> u32 {
        u32::from_le_bytes([self.near, self.far, 0, 0])
            | if self.offset { 0x1_0000 } else { 0 }
            | (self.far_sets as u32) << 17
    }

    /// Returns the layout of mdadm's name: `n2`, `f2`, `o2`, `near=2`, or several with commas.
    pub fn from_name(name: &str) -> Option<Self> {
        let (mut near, mut far, mut offset) = (1, 1, false);
        for part in name.split(',').map(str::trim) {
            let digits = part.trim_start_matches(|c: char| !c.is_ascii_digit());
            let count = digits.parse::<u8>().ok()?;
            match part.strip_suffix(digits)? {
                "n" | "near=" => near = count,
                "f" | "far=" => far = count,
                "o" | "offset=" => (far, offset) = (count, true),
                _ => return None,
            }
        }
        Self::new(near, far, offset)
    }

    /// Returns the number of copies on neighbouring members.
    pub const fn near(self) -> u32 {
        self.near as u32
    }

    /// Returns the number of far copies of that arrangement.
    pub const fn far(self) -> u32 {
        self.far as u32
    }

    /// Returns true if the far copies lie in the stripes right behind.
    pub const fn offset(self) -> bool {
        self.offset
    }

    /// Returns how far copies rotate. 0: over all members (mdadm's default). 1: within sets of
    /// `raid_disks / far` members. 2: within sets of `near * far` members.
    pub const fn far_sets(self) -> u32 {
        self.far_sets as u32
    }

    /// Returns the number of copies of each chunk.
    pub const fn copies(self) -> u32 {
        self.near() * self.far()
    }
}

impl fmt::Display for Raid10Layout {
    /// Formats the layout as `mdadm --examine` does: `near=2`, `far=2`, `offset=2`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.offset { "offset" } else { "far" };
        match (self.near, self.far) {
            (near, 1) => write!(f, "near={near}"),
            (1, far) => write!(f, "{word}={far}"),
            (near, far) => write!(f, "near={near}, {word}={far}"),
        }
    }
}
