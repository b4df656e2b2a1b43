//! Levels and their layouts, by md's numbers and mdadm's names.
//!
//! | module | what |
//! | --- | --- |
//! | [`named`] | RAID0's, RAID5's and RAID6's algorithms, RAID10's geometry |
//! | [`concat`](mod@concat) | where linear and RAID0 keep each byte |
//! | [`mirror`] | where RAID10 keeps the copies of each chunk |
//! | [`parity`] | what each member holds in one row of RAID4, 5 and 6 |

use std::fmt;

pub mod concat;
pub mod mirror;
pub mod named;
pub mod parity;

pub use named::{Raid0Layout, Raid5Layout, Raid6Layout, Raid10Layout};

/// How an array arranges its content, without the details of [`Layout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// Members one behind the other.
    Linear,
    /// Chunks striped over the members, no redundancy.
    Raid0,
    /// Every member holds all data.
    Raid1,
    /// One parity chunk per stripe, always on the last member.
    Raid4,
    /// One parity chunk per stripe, rotating.
    Raid5,
    /// Two parity chunks per stripe, P and Q.
    Raid6,
    /// Every chunk on several members, striped.
    Raid10,
}

impl Level {
    /// All levels.
    pub const ALL: [Self; 7] = [
        Self::Linear,
        Self::Raid0,
        Self::Raid1,
        Self::Raid4,
        Self::Raid5,
        Self::Raid6,
        Self::Raid10,
    ];

    /// Returns the number in a superblock's `level`.
    pub const fn number(self) -> i32 {
        match self {
            Self::Linear => -1,
            Self::Raid0 => 0,
            Self::Raid1 => 1,
            Self::Raid4 => 4,
            Self::Raid5 => 5,
            Self::Raid6 => 6,
            Self::Raid10 => 10,
        }
    }

    /// Returns the level of a superblock's `level`; `None` for multipath, faulty, container and
    /// others.
    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.number() == number)
    }

    /// Returns mdadm's name: `raid5`, `linear`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Raid0 => "raid0",
            Self::Raid1 => "raid1",
            Self::Raid4 => "raid4",
            Self::Raid5 => "raid5",
            Self::Raid6 => "raid6",
            Self::Raid10 => "raid10",
        }
    }

    /// Returns the level of a name that mdadm accepts: `raid5`, `5`, `stripe`, `mirror`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "stripe" => Some(Self::Raid0),
            "mirror" => Some(Self::Raid1),
            _ => Self::ALL.into_iter().find(|level| {
                level.name() == name
                    || (*level != Self::Linear && level.name().strip_prefix("raid") == Some(name))
            }),
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A level with its layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Members one behind the other, in role order.
    Linear,
    /// RAID0; the layout matters only where members differ in size.
    Raid0(Raid0Layout),
    /// RAID1.
    Raid1,
    /// RAID4: parity on the last role.
    Raid4,
    /// RAID5.
    Raid5(Raid5Layout),
    /// RAID6.
    Raid6(Raid6Layout),
    /// RAID10.
    Raid10(Raid10Layout),
}

impl Layout {
    /// Returns the layout that mdadm gives a new array by default.
    pub const fn default_of(level: Level) -> Self {
        match level {
            Level::Linear => Self::Linear,
            Level::Raid0 => Self::Raid0(Raid0Layout::Original),
            Level::Raid1 => Self::Raid1,
            Level::Raid4 => Self::Raid4,
            Level::Raid5 => Self::Raid5(Raid5Layout::LeftSymmetric),
            Level::Raid6 => Self::Raid6(Raid6Layout::LeftSymmetric),
            Level::Raid10 => Self::Raid10(Raid10Layout::NEAR_2),
        }
    }

    /// Returns the layout of `level` with mdadm's name `name`: `left-symmetric`, `ls`,
    /// `ddf-N-restart`, `n2`, `far=2`, `alternate`. Linear, RAID1 and RAID4 have no layouts, so
    /// every name is unknown.
    pub fn from_name(level: Level, name: &str) -> Option<Self> {
        match level {
            Level::Linear | Level::Raid1 | Level::Raid4 => None,
            Level::Raid0 => Raid0Layout::from_name(name).map(Self::Raid0),
            Level::Raid5 => Raid5Layout::from_name(name).map(Self::Raid5),
            Level::Raid6 => Raid6Layout::from_name(name).map(Self::Raid6),
            Level::Raid10 => Raid10Layout::from_name(name).map(Self::Raid10),
        }
    }

    /// Returns the level.
    pub const fn level(self) -> Level {
        match self {
            Self::Linear => Level::Linear,
            Self::Raid0(_) => Level::Raid0,
            Self::Raid1 => Level::Raid1,
            Self::Raid4 => Level::Raid4,
            Self::Raid5(_) => Level::Raid5,
            Self::Raid6(_) => Level::Raid6,
            Self::Raid10(_) => Level::Raid10,
        }
    }

    /// Returns the number in a superblock's `layout`; 0 for levels without layouts.
    pub const fn number(self) -> u32 {
        match self {
            Self::Linear | Self::Raid1 | Self::Raid4 => 0,
            Self::Raid0(layout) => layout.number(),
            Self::Raid5(layout) => layout.number(),
            Self::Raid6(layout) => layout.number(),
            Self::Raid10(layout) => layout.number(),
        }
    }

    /// Returns the name as `mdadm --examine` prints it (`left-symmetric`, `near=2`); `None` for
    /// levels without layouts.
    pub fn name(self) -> Option<String> {
        match self {
            Self::Linear | Self::Raid1 | Self::Raid4 => None,
            Self::Raid0(layout) => Some(layout.name().into()),
            Self::Raid5(layout) => Some(layout.name().into()),
            Self::Raid6(layout) => Some(layout.name().into()),
            Self::Raid10(layout) => Some(layout.to_string()),
        }
    }

    /// Returns how many of `raid_disks` members may be missing, whichever they are.
    pub fn tolerates(self, raid_disks: u32) -> u32 {
        match self {
            Self::Linear | Self::Raid0(_) => 0,
            Self::Raid1 => raid_disks.saturating_sub(1),
            Self::Raid4 | Self::Raid5(_) => 1,
            Self::Raid6(_) => 2,
            Self::Raid10(layout) => layout.copies().saturating_sub(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_round_trip() {
        for level in Level::ALL {
            assert_eq!(Level::from_number(level.number()), Some(level));
            assert_eq!(Level::from_name(level.name()), Some(level));
            for number in (0..64).chain([0x102, 0x201, 0x10201, 0x103, 0x202, 0x1_0202, 0x2_0201]) {
                let Ok(layout) = Layout::from_numbers(level.number(), number) else { continue };
                let Some(name) = layout.name() else { continue };
                assert_eq!(layout.number(), number);
                if number & 0x2_0000 == 0 {
                    assert_eq!(Layout::from_name(level, &name), Some(layout), "{name}");
                }
            }
        }
        assert_eq!(Level::from_name("5"), Some(Level::Raid5));
        assert_eq!(Level::from_name("near"), None);
    }

    #[test]
    fn numbers_that_md_does_not_use_are_refused() {
        assert!(Layout::from_numbers(-4, 0).is_err());
        for number in [6, 7, 11, 15, 21, 256] {
            assert!(Layout::from_numbers(6, number).is_err(), "{number}");
        }
        assert!(Layout::from_numbers(5, 6).is_err());
        for number in [0, 0x100, 0x002, 0x10002, 0x80102] {
            assert!(Layout::from_numbers(10, number).is_err(), "{number:#x}");
        }
    }
}
