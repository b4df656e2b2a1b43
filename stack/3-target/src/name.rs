//! The names of targets, and how they print. [`Target::parse`] reads them.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use xfskit_md::assemble::ManualGeometry;
use xfskit_units::{ByteLen, Sectors};

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

/// Option for assembly by force.
pub(crate) const FORCE: &str = "force";
/// In place of a missing member.
pub(crate) const MISSING: &str = "missing";

/// An array, named by its members.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrayName {
    /// The geometry, if superblocks are not to be read.
    pub manual: Option<ManualGeometry>,
    /// Stale members are used where there are too few fresh ones, and untrusted parity is used.
    pub force: bool,
    /// The overlay file that receives writes; members stay unchanged.
    pub overlay: Option<PathBuf>,
    /// The members, `None` for a missing one.
    pub members: Vec<Option<Target>>,
}

impl Target {
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

    /// Splits a name and the part behind it, if it ends with one.
    pub(crate) fn cut(text: &str) -> Option<(&str, Self)> {
        let (rest, part) = text.rsplit_once('#')?;
        (!rest.is_empty()).then_some(())?;
        Self::parse(part).map(|part| (rest, part))
    }
}

/// Returns true for a valid name of a volume group or volume.
fn is_lvm_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"+_.-".contains(&b))
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

/// Sectors in the form that the grammar of arrays has.
struct Shown(Sectors);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.byte_len() {
            ByteLen(bytes) if bytes.is_multiple_of(1024) => write!(f, "{}K", bytes / 1024),
            bytes => write!(f, "{bytes}"),
        }
    }
}

impl fmt::Display for ArrayName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("md:")?;
        let overlay = self.overlay.as_ref().map(|path| format!("{OVERLAY}{}", path.display()));
        let options: Vec<String> =
            self.force.then(|| FORCE.to_owned()).into_iter().chain(overlay).collect();
        if !options.is_empty() {
            write!(f, "{}:", options.join(","))?;
        }
        if let Some(ManualGeometry { layout, chunk, offset, size }) = &self.manual {
            write!(f, "level={}", layout.level())?;
            if let Some(name) = layout.name() {
                write!(f, ",layout={}", name.replace(", ", "+").replace(',', "+"))?;
            }
            write!(f, ",chunk={},offset={}", Shown(*chunk), Shown(*offset))?;
            size.map_or(Ok(()), |size| write!(f, ",size={}", Shown(size)))?;
            f.write_str(":")?;
        }
        let has_part = |member: &Option<Target>| member.as_ref().is_some_and(|m| m.part.is_some());
        let alone = self.members.iter().filter(|member| has_part(member)).count() == 1;
        for (i, member) in self.members.iter().enumerate() {
            f.write_str(if i == 0 { "" } else { "," })?;
            let Some(target) = member else {
                f.write_str(MISSING)?;
                continue;
            };
            let name = target.to_string();
            let reads_on = ["md:", OVERLAY].iter().any(|prefix| name.starts_with(prefix));
            let quoted = name.contains(',') || reads_on || (alone && has_part(member));
            if quoted { write!(f, "[{name}]")? } else { f.write_str(&name)? }
        }
        Ok(())
    }
}
