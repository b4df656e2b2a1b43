//! Other owners than those of the volume: a map of ids between the volume and the mount.
//!
//! A range of a map is written as for `X-mount.idmap` of mount(8): `TYPE:VOLUME:SHOWN:COUNT`. The
//! mount shows VOLUME and the ids behind it as SHOWN and the ids behind that, COUNT of them. `u`
//! maps users, `g` groups, `b` or no type both. Users are shown as they are if no range is for
//! users, and so are groups.
//!
//! 1. A map is a bijection: its ranges overlap neither in the volume nor as shown.
//! 2. An id of the volume outside of all ranges is shown as `UNMAPPED`, which the kernel takes for
//!    no id. It treats the file as on idmapped mounts of its own: the owner reads as 65534 and is
//!    equal to no user, and the file can be changed only after both its owners were.
//! 3. An id outside of all shown ranges does not get into the volume.
//!
//! | module | what |
//! | --- | --- |
//! | `mapped` | operations with a map before them |
//! | `xattr` | ids in ACLs and capabilities |

mod mapped;
mod xattr;

use std::fmt;
use std::str::FromStr;

pub(crate) use mapped::Mapped;

/// The id that is none: `(uid_t)-1` of system calls.
pub(crate) const UNMAPPED: u32 = u32::MAX;
/// Ranges of users and of groups at most, as in a user namespace of Linux.
const RANGES_MAX: usize = 340;

/// A map of owners between a volume and its mount.
///
/// ```
/// # fn main() -> Result<(), xfskit_fuse::IdMapError> {
/// // Files of root are shown as files of user and group 1000; all others have no owner.
/// let map: xfskit_fuse::IdMap = "b:0:1000:1".parse()?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdMap {
    users: Ids,
    groups: Ids,
}

/// Why a map is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdMapError {
    /// It is not written as ranges are.
    #[error("{0:?} is neither `user` nor TYPE:VOLUME:SHOWN:COUNT with a TYPE of u, g or b")]
    Form(String),
    /// It has no id, or ids that do not exist.
    #[error("{0}: a range has at least one id, and none above 4294967294")]
    Bounds(String),
    /// Two ranges would map one id of the volume.
    #[error("{0} and {1} have the same ids of the volume")]
    OverlapInVolume(String, String),
    /// Two ids of the volume would be shown as one.
    #[error("{0} and {1} show the same ids")]
    OverlapAsShown(String, String),
    /// `user` stands beside ranges.
    #[error("`user` maps every id, and has no range beside it")]
    Mixed,
    /// There are more ranges than a map has.
    #[error("a map has at most {RANGES_MAX} ranges of users and of groups")]
    TooMany,
}

/// A map of users, or one of groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Ids {
    /// All ids are shown as they are.
    #[default]
    Same,
    /// Root's id and this one take each other's place.
    Exchanged(u32),
    /// Ids of these ranges are mapped.
    Ranges(Vec<Range>),
}

/// `count` ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    volume: u32,
    shown: u32,
    count: u32,
}

impl Range {
    /// Returns what is as far behind `to` as `id` is behind `from`, if that is in the range.
    fn translated(self, id: u32, from: u32, to: u32) -> Option<u32> {
        let behind = id.checked_sub(from).filter(|&behind| behind < self.count)?;
        to.checked_add(behind)
    }

    fn overlaps(self, other: Self, first: impl Fn(Self) -> u32) -> bool {
        let ends = |range: Self| u64::from(first(range)) + u64::from(range.count);
        u64::from(first(self)) < ends(other) && u64::from(first(other)) < ends(self)
    }

    fn is_within_bounds(self) -> bool {
        let end = u64::from(self.volume.max(self.shown)) + u64::from(self.count);
        self.count > 0 && end <= u64::from(UNMAPPED)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.volume, self.shown, self.count)
    }
}

impl Ids {
    /// Returns how id `id` of the volume is shown; `None` outside of all ranges.
    fn shown(&self, id: u32) -> Option<u32> {
        match self {
            Self::Ranges(ranges) => {
                ranges.iter().find_map(|range| range.translated(id, range.volume, range.shown))
            }
            _ => Some(self.exchanged(id)),
        }
    }

    /// Returns the id of the volume that is shown as `id`; `None` outside of all ranges.
    fn in_volume(&self, id: u32) -> Option<u32> {
        match self {
            Self::Ranges(ranges) => {
                ranges.iter().find_map(|range| range.translated(id, range.shown, range.volume))
            }
            _ => Some(self.exchanged(id)),
        }
    }

    fn exchanged(&self, id: u32) -> u32 {
        match self {
            Self::Exchanged(other) if id == 0 => *other,
            Self::Exchanged(other) if id == *other => 0,
            _ => id,
        }
    }

    fn add(&mut self, kind: char, range: Range) -> Result<(), IdMapError> {
        let texts = |other: &Range| (format!("{kind}:{range}"), format!("{kind}:{other}"));
        let ranges = match self {
            Self::Exchanged(_) => return Err(IdMapError::Mixed),
            Self::Ranges(ranges) => ranges,
            Self::Same => {
                *self = Self::Ranges(vec![range]);
                return Ok(());
            }
        };
        if let Some(other) = ranges.iter().find(|other| range.overlaps(**other, |of| of.volume)) {
            let (range, other) = texts(other);
            return Err(IdMapError::OverlapInVolume(other, range));
        }
        if let Some(other) = ranges.iter().find(|other| range.overlaps(**other, |of| of.shown)) {
            let (range, other) = texts(other);
            return Err(IdMapError::OverlapAsShown(other, range));
        }
        if ranges.len() >= RANGES_MAX {
            return Err(IdMapError::TooMany);
        }
        ranges.push(range);
        Ok(())
    }
}

impl IdMap {
    /// Returns the map that exchanges root's ids with those of the caller: what root owns in the
    /// volume is shown as the caller's, new files of the caller are root's in the volume, and all
    /// other ids are shown as they are.
    pub fn user() -> Self {
        let (uid, gid) = (rustix::process::getuid(), rustix::process::getgid());
        let exchanged = |id| if id == 0 { Ids::Same } else { Ids::Exchanged(id) };
        Self { users: exchanged(uid.as_raw()), groups: exchanged(gid.as_raw()) }
    }

    /// Adds the ranges of `text`, with blanks between them, or `user`.
    ///
    /// # Errors
    /// A range is not written as ranges are, or overlaps another; `user` is not alone.
    pub fn add(&mut self, text: &str) -> Result<(), IdMapError> {
        if text.trim().is_empty() {
            return Err(IdMapError::Form(text.to_owned()));
        }
        for word in text.split_ascii_whitespace() {
            self.add_one(word)?;
        }
        Ok(())
    }

    fn add_one(&mut self, word: &str) -> Result<(), IdMapError> {
        if word == "user" {
            if *self != Self::default() && *self != Self::user() {
                return Err(IdMapError::Mixed);
            }
            *self = Self::user();
            return Ok(());
        }
        let (kind, range) = parse(word)?;
        if matches!(kind, 'u' | 'b') {
            self.users.add('u', range)?;
        }
        if matches!(kind, 'g' | 'b') {
            self.groups.add('g', range)?;
        }
        Ok(())
    }
}

impl FromStr for IdMap {
    type Err = IdMapError;

    fn from_str(text: &str) -> Result<Self, IdMapError> {
        let mut map = Self::default();
        map.add(text)?;
        Ok(map)
    }
}

/// Parses a range, with the kind of ids that it maps.
fn parse(word: &str) -> Result<(char, Range), IdMapError> {
    let form = || IdMapError::Form(word.to_owned());
    let (kind, numbers) = match word.split_once(':') {
        Some(("u", numbers)) => ('u', numbers),
        Some(("g", numbers)) => ('g', numbers),
        Some(("b", numbers)) => ('b', numbers),
        _ => ('b', word),
    };
    let mut fields = numbers.split(':');
    let mut number = || {
        let field = fields.next().filter(|field| field.bytes().all(|c| c.is_ascii_digit()));
        let field = field.filter(|field| !field.is_empty()).ok_or_else(form)?;
        field.parse::<u32>().map_err(|_| IdMapError::Bounds(word.to_owned()))
    };
    let range = Range { volume: number()?, shown: number()?, count: number()? };
    if fields.next().is_some() {
        return Err(form());
    }
    if !range.is_within_bounds() {
        return Err(IdMapError::Bounds(word.to_owned()));
    }
    Ok((kind, range))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> IdMap {
        text.parse().unwrap()
    }

    fn refused(text: &str) -> String {
        text.parse::<IdMap>().unwrap_err().to_string()
    }

    #[test]
    fn ids_of_a_range_are_mapped_both_ways_and_others_not_at_all() {
        let map = map("u:0:1000:1 g:5:100000:10");
        assert_eq!(map.users.shown(0), Some(1000));
        assert_eq!(map.users.in_volume(1000), Some(0));
        assert_eq!(map.users.shown(1), None);
        assert_eq!(map.users.in_volume(0), None);
        assert_eq!(map.groups.shown(5), Some(100_000));
        assert_eq!(map.groups.shown(14), Some(100_009));
        assert_eq!(map.groups.shown(15), None);
        assert_eq!(map.groups.shown(4), None);
        assert_eq!(map.groups.in_volume(100_009), Some(14));
    }

    #[test]
    fn a_range_without_a_type_is_for_users_and_groups() {
        assert_eq!(map("3:4:5"), map("b:3:4:5"));
        assert_eq!(map("3:4:5"), map("u:3:4:5 g:3:4:5"));
    }

    #[test]
    fn groups_are_shown_as_they_are_if_only_users_are_mapped() {
        let map = map("u:0:1000:1");
        assert_eq!(map.groups.shown(7), Some(7));
        assert_eq!(map.groups.in_volume(0), Some(0));
    }

    #[test]
    fn every_id_can_be_mapped_but_the_one_that_is_none() {
        let map = map("0:0:4294967295");
        assert_eq!(map.users.shown(u32::MAX - 1), Some(u32::MAX - 1));
        assert_eq!(map.users.shown(u32::MAX), None);
        assert!(refused("0:1:4294967295").contains("none above"));
        assert!(refused("4294967295:0:1").contains("none above"));
        assert!(refused("4294967296:0:1").contains("none above"));
        assert!(refused("0:0:0").contains("at least one"));
    }

    #[test]
    fn ranges_that_overlap_are_refused_by_name() {
        let said = refused("u:0:1000:10 u:9:5000:1");
        assert_eq!(said, "u:0:1000:10 and u:9:5000:1 have the same ids of the volume");
        let said = refused("g:0:1000:10 b:20:1009:1");
        assert_eq!(said, "g:0:1000:10 and g:20:1009:1 show the same ids");
        // Users and groups do not meet, nor do neighbours.
        map("u:0:1000:10 g:0:1000:10 u:10:1010:10 u:20:990:10");
    }

    #[test]
    fn what_is_no_range_is_refused_by_name() {
        for text in ["", " ", "x", "u:1:2", "u:1:2:3:4", "x:1:2:3", "u:-1:2:3", "u:+1:2:3", "::"] {
            assert!(matches!(text.parse::<IdMap>(), Err(IdMapError::Form(_))), "{text}");
        }
        let many: Vec<String> = (0..=RANGES_MAX).map(|n| format!("u:{n}:{n}:1")).collect();
        assert_eq!(many.join(" ").parse::<IdMap>(), Err(IdMapError::TooMany));
    }

    #[test]
    fn two_ids_are_exchanged_and_all_others_stay() {
        let ids = Ids::Exchanged(1000);
        for (one, other) in [(0, 1000), (1000, 0), (1, 1), (u32::MAX, u32::MAX)] {
            assert_eq!(ids.shown(one), Some(other));
            assert_eq!(ids.in_volume(other), Some(one));
        }
        let map = IdMap { users: ids.clone(), groups: ids };
        assert_eq!(map.clone().add("u:1:2:3"), Err(IdMapError::Mixed));
        assert_eq!("u:7:8:9".parse::<IdMap>().unwrap().add("user"), Err(IdMapError::Mixed));
    }
}
