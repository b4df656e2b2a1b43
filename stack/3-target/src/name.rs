//! The grammar of targets.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use xfskit_units::ByteLen;

use crate::array::{ArrayName, cut_part};
use crate::error::{Error, Result};
use crate::size;

/// The location of the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Base {
    /// A file or a block device.
    File(PathBuf),
    /// Memory, all zeroes, of this size in bytes.
    Memory(ByteLen),
    /// An md array.
    Array(Box<ArrayName>),
    /// Another target that is only read: writes go to this file. An array has an overlay in its own
    /// name.
    Overlay(PathBuf, Box<Base>),
}

/// The prefix of a target with an overlay.
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
    /// The location of the bytes.
    pub base: Base,
    /// The part; `None` for all.
    pub part: Option<Part>,
}

impl Target {
    /// Parses a name. Opens nothing.
    ///
    /// A `#` begins a part only if a valid part follows; otherwise it belongs to the file's name.
    /// Brackets group a target and change nothing else: `[md:a,b]#p1`.
    ///
    /// # Errors
    /// Returns an error if the name is empty, its size is invalid, or an array has no members.
    pub fn parse(name: &str) -> Result<Self> {
        Self::parse_within(name, 0)
    }

    /// Parses a name at this nesting depth of arrays; see [`parse`](Self::parse).
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
                _ => Err(Error::BadName { name: name.into(), why: "a part cannot have a part" }),
            };
        }
        Ok(Self { base: Base::File(path.into()), part })
    }

    /// Returns the target with an overlay: writes go to the file at `path`, which is created if it
    /// does not exist.
    ///
    /// # Errors
    /// Returns an error if the target has an overlay already, or the path cannot be part of a name.
    pub fn with_overlay(self, path: &str) -> Result<Self> {
        let bad = |why| Err(Error::BadName { name: format!("{OVERLAY}{path}"), why });
        if path.is_empty() || path.contains([',', ':']) {
            return bad("an overlay's path must not be empty or contain a comma or colon");
        }
        let base = match self.base {
            Base::Array(array) if array.overlay.is_none() => {
                Base::Array(Box::new(ArrayName { overlay: Some(path.into()), ..*array }))
            }
            Base::Array(_) | Base::Overlay(..) => return bad("the target already has an overlay"),
            below => Base::Overlay(path.into(), Box::new(below)),
        };
        Ok(Self { base, part: self.part })
    }

    /// Returns the array with the force option: stale members are used where there are too few
    /// fresh ones, and untrusted parity is used.
    ///
    /// # Errors
    /// Returns an error if the target is not an array, or an array without superblocks, which are
    /// what force overrides.
    pub fn with_force(self) -> Result<Self> {
        let bad = |why| Err(Error::BadName { name: self.to_string(), why });
        match &self.base {
            Base::Array(array) if array.manual.is_none() => {
                let base = Base::Array(Box::new(ArrayName { force: true, ..(**array).clone() }));
                Ok(Self { base, part: self.part })
            }
            Base::Array(_) => bad("force has no effect on an array without superblocks"),
            _ => bad("force applies to arrays only"),
        }
    }

    /// Returns the target without its part.
    pub fn whole(&self) -> Self {
        Self { base: self.base.clone(), part: None }
    }
}

impl Part {
    /// Parses the text after the `#`. Returns `None` if it is not a part.
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

/// Returns true for a valid name of a volume group or volume.
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
            // Not a part: it belongs to the file's name.
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
    fn an_invalid_target_name_reports_why() {
        assert!(matches!(Target::parse(""), Err(Error::BadName { .. })));
        assert!(matches!(Target::parse("mem:lots"), Err(Error::Size(_))));
        for name in ["overlay=a:overlay=b:c", "overlay=a:md:overlay=b:c,d", "overlay=:c"] {
            assert!(matches!(Target::parse(name), Err(Error::BadName { .. })), "{name}");
        }
    }

    #[test]
    fn force_and_overlay_are_part_of_the_name() {
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
