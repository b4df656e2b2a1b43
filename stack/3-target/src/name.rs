//! The grammar of targets.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use xfskit_units::ByteLen;

use crate::array::{ArrayName, cut_part};
use crate::error::{Error, Result};
use crate::size;

/// Where the bytes are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// A file or a block device.
    File(PathBuf),
    /// Memory, all zeroes, of this size in bytes.
    Memory(ByteLen),
    /// An md array.
    Array(Box<ArrayName>),
    /// Another target, which is only read: writes go to this file. (An array's own name says so itself.)
    Overlay(PathBuf, Box<Base>),
}

/// Before a target whose writes go to a file.
pub(crate) const OVERLAY: &str = "overlay=";

/// A part of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// `p2`: the partition of this number, as Linux counts them, from 1.
    Partition(u32),
    /// `lv:vg/root`: a logical volume of a volume group.
    Volume {
        /// The volume group.
        group: String,
        /// The volume in it.
        volume: String,
    },
}

/// A name for a device: where, and which part of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Where the bytes are.
    pub base: Base,
    /// Which part of them; `None` for all.
    pub part: Option<Part>,
}

impl Target {
    /// Reads a name. Nothing is opened or looked up.
    ///
    /// A `#` begins a part only where one of the known forms follows; else it belongs to the file's
    /// name. Brackets around a target change nothing but hold it together: `[md:a,b]#p1`.
    ///
    /// # Errors
    /// Where the name is empty, its size is none, or an array has no members.
    pub fn parse(name: &str) -> Result<Self> {
        Self::parse_within(name, 0)
    }

    /// [`parse`](Self::parse) for a member of so many arrays within each other.
    pub(crate) fn parse_within(name: &str, depth: usize) -> Result<Self> {
        if name.is_empty() {
            return Err(Error::BadName { name: name.into(), why: "it is empty" });
        }
        if let Some(members) = name.strip_prefix("md:") {
            if members.is_empty() {
                return Err(Error::BadName { name: name.into(), why: "it is empty" });
            }
            let (array, part) = ArrayName::parse(members, depth)?;
            return Ok(Self { base: Base::Array(Box::new(array)), part });
        }
        if let Some((path, below)) = name.strip_prefix(OVERLAY).and_then(|n| n.split_once(':')) {
            return Self::parse_within(below, depth)?.with_overlay(path);
        }
        if let Some(text) = name.strip_prefix("mem:") {
            return Ok(Self { base: Base::Memory(size::parse(text)?), part: None });
        }
        let (path, part) = match cut_part(name) {
            Some((path, part)) => (path, Some(part)),
            None => (name, None),
        };
        if let Some(inner) = path.strip_prefix('[').and_then(|path| path.strip_suffix(']')) {
            let target = Self::parse_within(inner, depth)?;
            return match (target.part, part) {
                (None, part) | (part, None) => Ok(Self { base: target.base, part }),
                _ => Err(Error::BadName { name: name.into(), why: "a part has no parts" }),
            };
        }
        Ok(Self { base: Base::File(path.into()), part })
    }

    /// The same target, writes to which go to the file at `path`, made where it does not exist.
    ///
    /// # Errors
    /// Where they go to a file already, or the path cannot stand in a name.
    pub fn with_overlay(self, path: &str) -> Result<Self> {
        let bad = |why| Err(Error::BadName { name: format!("{OVERLAY}{path}"), why });
        if path.is_empty() || path.contains([',', ':']) {
            return bad("an overlay's path is not empty and has no comma and no colon");
        }
        let base = match self.base {
            Base::Array(array) if array.overlay.is_none() => {
                Base::Array(Box::new(ArrayName { overlay: Some(path.into()), ..*array }))
            }
            Base::Array(_) | Base::Overlay(..) => return bad("writes go to an overlay already"),
            below => Base::Overlay(path.into(), Box::new(below)),
        };
        Ok(Self { base, part: self.part })
    }

    /// The same array, by force: stale members are taken where there are not enough others, and doubtful
    /// parity is believed.
    ///
    /// # Errors
    /// Where it is no array, or one without superblocks: those are what is overruled.
    pub fn with_force(self) -> Result<Self> {
        let bad = |why| Err(Error::BadName { name: self.to_string(), why });
        match &self.base {
            Base::Array(array) if array.manual.is_none() => {
                let base = Base::Array(Box::new(ArrayName { force: true, ..(**array).clone() }));
                Ok(Self { base, part: self.part })
            }
            Base::Array(_) => bad("an array without superblocks has nothing that force overrules"),
            _ => bad("only an array is taken by force"),
        }
    }

    /// The whole of what this target is a part of.
    pub fn whole(&self) -> Self {
        Self { base: self.base.clone(), part: None }
    }
}

impl Part {
    /// Reads what follows the `#`; `None` where it is no part's name.
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(volume) = text.strip_prefix("lv:") {
            let (group, volume) = volume.split_once('/')?;
            return (is_lvm_name(group) && is_lvm_name(volume))
                .then(|| Self::Volume { group: group.into(), volume: volume.into() });
        }
        let digits = text.strip_prefix('p')?;
        let plain = digits.bytes().all(|b| b.is_ascii_digit()) && !digits.starts_with('0');
        plain.then(|| digits.parse().ok().map(Self::Partition))?
    }
}

/// True for what LVM takes as the name of a group or volume.
fn is_lvm_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"+_.-".contains(&b))
}

impl FromStr for Target {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self> {
        Self::parse(name)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Partition(number) => write!(f, "p{number}"),
            Self::Volume { group, volume } => write!(f, "lv:{group}/{volume}"),
        }
    }
}

impl fmt::Display for Base {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Memory(size) => write!(f, "mem:{size}"),
            Self::Array(array) => write!(f, "{array}"),
            Self::Overlay(path, below) => write!(f, "{OVERLAY}{}:{below}", path.display()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.base {
            Base::Array(array) if self.part.is_some() => write!(f, "[{array}]")?,
            base => write!(f, "{base}")?,
        }
        self.part.as_ref().map_or(Ok(()), |part| write!(f, "#{part}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_parses_and_prints_back() {
        let file = |path: &str| Base::File(path.into());
        let lv = Part::Volume { group: "vg0".into(), volume: "root-a".into() };
        for (name, base, part) in [
            ("/dev/sdb", file("/dev/sdb"), None),
            ("a b.img", file("a b.img"), None),
            ("mem:1048576", Base::Memory(ByteLen(1 << 20)), None),
            ("disk.img#p2", file("disk.img"), Some(Part::Partition(2))),
            ("disk#1.img#p12", file("disk#1.img"), Some(Part::Partition(12))),
            ("disk.img#lv:vg0/root-a", file("disk.img"), Some(lv)),
            (
                "overlay=changes:disk.img#p2",
                Base::Overlay("changes".into(), Box::new(file("disk.img"))),
                Some(Part::Partition(2)),
            ),
            // No part's name: it belongs to the file's.
            ("#p2", file("#p2"), None),
            ("disk#px", file("disk#px"), None),
            ("disk#p0", file("disk#p0"), None),
            ("disk#p", file("disk#p"), None),
            ("disk#p99999999999", file("disk#p99999999999"), None),
            ("disk#lv:vg0", file("disk#lv:vg0"), None),
            ("disk#lv:vg0/a/b", file("disk#lv:vg0/a/b"), None),
        ] {
            let target = Target::parse(name).unwrap();
            assert_eq!(target, Target { base, part }, "{name}");
            assert_eq!(target.to_string(), name);
        }
    }

    #[test]
    fn what_is_no_target_says_why() {
        assert!(matches!(Target::parse(""), Err(Error::BadName { .. })));
        assert!(matches!(Target::parse("mem:lots"), Err(Error::Size(_))));
        for name in ["overlay=a:overlay=b:c", "overlay=a:md:overlay=b:c,d", "overlay=:c"] {
            assert!(matches!(Target::parse(name), Err(Error::BadName { .. })), "{name}");
        }
    }

    #[test]
    fn what_is_taken_by_force_or_aside_says_so_in_its_name() {
        let named = |name: &str| Target::parse(name).unwrap();
        let aside = |name: &str| named(name).with_overlay("o").unwrap().to_string();
        assert_eq!(aside("disk.img#p1"), "overlay=o:disk.img#p1");
        assert_eq!(aside("md:force:a,b#p1"), "[md:force,overlay=o:a,b]#p1");
        assert_eq!(named("overlay=o:md:a,b").to_string(), "md:overlay=o:a,b");
        assert_eq!(named("md:a,b").with_force().unwrap().to_string(), "md:force:a,b");
        for name in ["disk.img", "overlay=o:disk.img", "md:level=1:a,b"] {
            assert!(matches!(named(name).with_force(), Err(Error::BadName { .. })), "{name}");
        }
        for path in ["", "a,b", "a:b"] {
            assert!(named("disk.img").with_overlay(path).is_err(), "{path}");
        }
    }
}
