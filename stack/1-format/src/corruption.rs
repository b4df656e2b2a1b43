//! Corruption as data: which check failed, where, what was expected, what was found.

use serde::Serialize;
use std::borrow::Cow;
use std::fmt;

use xfskit_units::{
    AgBlock, AgIno, AgNumber, DaBlock, Daddr, ExtLen, FileOff, FsBlock, Ino, Lsn, RfsBlock,
    Sectors, Uuid,
};

pub use crate::checks::{CheckId, Severity};

/// One of the forks of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fork {
    /// File content.
    Data,
    /// Extended attributes.
    Attr,
}

/// A value as reports print it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A number, shown in decimal.
    Number(u64),
    /// A signed number.
    Signed(i64),
    /// A number that reports print in hexadecimal: a magic, a checksum, a mask.
    Hex(#[serde(serialize_with = "as_hex")] u64),
    /// A UUID.
    Uuid(Uuid),
    /// A text.
    Text(Cow<'static, str>),
    /// The problem as a sentence of its own: reports print it instead of the check's field.
    Sentence(Cow<'static, str>),
    /// A missing value.
    Missing,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn as_hex<S: serde::Serializer>(n: &u64, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(&format_args!("{n:#x}"))
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => write!(f, "{n}"),
            Self::Signed(n) => write!(f, "{n}"),
            Self::Hex(n) => write!(f, "{n:#x}"),
            Self::Uuid(u) => write!(f, "{u}"),
            Self::Text(t) | Self::Sentence(t) => f.write_str(t),
            Self::Missing => f.write_str("nothing"),
        }
    }
}

macro_rules! value_from {
    ($($ty:ty => |$v:ident| $e:expr;)*) => {
        $(impl From<$ty> for Value {
            fn from($v: $ty) -> Self {
                $e
            }
        })*
    };
}
value_from! {
    u8 => |v| Self::Number(v.into());
    u16 => |v| Self::Number(v.into());
    u32 => |v| Self::Number(v.into());
    u64 => |v| Self::Number(v);
    usize => |v| Self::Number(v as u64);
    i64 => |v| Self::Signed(v);
    bool => |v| Self::Text(if v { "true" } else { "false" }.into());
    &'static str => |v| Self::Text(v.into());
    String => |v| Self::Text(v.into());
    Uuid => |v| Self::Uuid(v);
    Lsn => |v| Self::Text(v.to_string().into());
    AgNumber => |v| Self::Number(v.0.into());
    AgBlock => |v| Self::Number(v.0.into());
    AgIno => |v| Self::Number(v.0.into());
    ExtLen => |v| Self::Number(v.0.into());
    DaBlock => |v| Self::Number(v.0.into());
    FsBlock => |v| Self::Number(v.0);
    RfsBlock => |v| Self::Number(v.0);
    FileOff => |v| Self::Number(v.0);
    Ino => |v| Self::Number(v.0);
    Daddr => |v| Self::Number(v.0);
}

/// The value that a check expected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Expected {
    /// Exactly this.
    Exactly(Value),
    /// At most this.
    AtMost(Value),
    /// At least this.
    AtLeast(Value),
    /// A value of a range, both ends included.
    Between(Value, Value),
    /// A value described in words.
    Described(Cow<'static, str>),
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exactly(v) => write!(f, "{v}"),
            Self::AtMost(v) => write!(f, "at most {v}"),
            Self::AtLeast(v) => write!(f, "at least {v}"),
            Self::Between(a, b) => write!(f, "{a} to {b}"),
            Self::Described(t) => f.write_str(t),
        }
    }
}

/// The location of a finding. Only known fields are set; reports leave out the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Location {
    /// Type of the structure, as engineers call it: "AGF", "bnobt block", "inode", "dir leaf".
    pub what: &'static str,
    /// Allocation group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agno: Option<AgNumber>,
    /// Block within the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agbno: Option<AgBlock>,
    /// Address on the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub daddr: Option<Daddr>,
    /// Length on the device, in 512-byte units; 0 when not known.
    #[serde(skip_serializing_if = "no_sectors")]
    pub sectors: Sectors,
    /// Inode it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ino: Option<Ino>,
    /// Fork of that inode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fork: Option<Fork>,
    /// Position in that fork, in filesystem blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fileoff: Option<FileOff>,
    /// Record or entry of the block, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde's signature
fn no_sectors(s: &Sectors) -> bool {
    s.0 == 0
}

impl Location {
    /// Makes the location of a structure called `what`, with nothing else known.
    pub fn of(what: &'static str) -> Self {
        Self { what, ..Self::default() }
    }
    /// Adds the group.
    pub fn ag(self, agno: AgNumber) -> Self {
        Self { agno: Some(agno), ..self }
    }
    /// Adds the block within the group.
    pub fn agb(self, agbno: AgBlock) -> Self {
        Self { agbno: Some(agbno), ..self }
    }
    /// Adds the address on the device, and the length.
    pub fn daddr(self, daddr: Daddr, sectors: Sectors) -> Self {
        Self { daddr: Some(daddr), sectors, ..self }
    }
    /// Adds the inode.
    pub fn ino(self, ino: Ino) -> Self {
        Self { ino: Some(ino), ..self }
    }
    /// Adds the fork of the inode.
    pub fn fork(self, fork: Fork) -> Self {
        Self { fork: Some(fork), ..self }
    }
    /// Adds the block within the fork.
    pub fn fileoff(self, fileoff: FileOff) -> Self {
        Self { fileoff: Some(fileoff), ..self }
    }
    /// Adds the record or entry, counted from 0.
    pub fn index(self, index: usize) -> Self {
        Self { index: u32::try_from(index).ok(), ..self }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        match self.ino {
            Some(ino) if self.what == "inode" => write!(f, " {ino}")?,
            Some(ino) => write!(f, " of inode {ino}")?,
            None => {}
        }
        match self.fork {
            Some(Fork::Attr) => f.write_str(", attribute fork")?,
            Some(Fork::Data) => f.write_str(", data fork")?,
            None => {}
        }
        if let Some(off) = self.fileoff {
            write!(f, " block {off}")?;
        }
        match (self.agno, self.agbno) {
            (Some(ag), Some(agbno)) => write!(f, " {ag}/{agbno}")?,
            (Some(ag), None) => write!(f, " {ag}")?,
            _ => {}
        }
        if let Some(index) = self.index {
            write!(f, " entry {index}")?;
        }
        if let Some(daddr) = self.daddr {
            write!(f, " (daddr {daddr}")?;
            match self.sectors.0 {
                0 => {}
                1 => f.write_str(", 1 sector")?,
                n => write!(f, ", {n} sectors")?,
            }
            f.write_str(")")?;
        }
        Ok(())
    }
}

/// A failed check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Corruption {
    /// The check that failed.
    pub check: CheckId,
    /// The location.
    pub at: Location,
    /// The expected value.
    pub expected: Expected,
    /// The value found.
    pub found: Value,
}

/// Last words of ids that tell a rule apart from others of the same field.
const RULES: [&str; 10] =
    ["btree", "dir", "free", "local", "max", "nofork", "none", "rt", "unused", "zero"];

impl Corruption {
    /// Returns the field that the check's id names: `nblocks` of `inode.nblocks.none`.
    fn field(&self) -> &'static str {
        let id = self.check.0;
        let field = id.split_once('.').map_or(id, |(_, field)| field);
        match field.rsplit_once('.') {
            Some((field, rule)) if RULES.contains(&rule) => field,
            _ => field,
        }
    }
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = self.field();
        let Self { check, at, expected, found } = self;
        match (field, found) {
            (_, Value::Sentence(sentence)) => write!(f, "{at}: {sentence} [{check}]"),
            (_, Value::Missing) if field.ends_with("missing") => {
                write!(f, "{at}: {expected} is missing [{check}]")
            }
            (_, Value::Missing) => {
                write!(f, "{at}: {field} is missing, expected {expected} [{check}]")
            }
            ("missing" | "extra", _) => {
                write!(f, "{at}: {field}: {found}, expected {expected} [{check}]")
            }
            _ => write!(f, "{at}: {field} is {found}, expected {expected} [{check}]"),
        }
    }
}

impl std::error::Error for Corruption {}

/// The result of a verifier. The corruption is boxed because it is rare and large.
pub type VerifyResult<T = ()> = Result<T, Box<Corruption>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_location_expected_and_found_value() {
        let fault = Corruption {
            check: CheckId::new("agf.flcount"),
            at: Location::of("AGF").ag(AgNumber(3)).daddr(Daddr(786_433), Sectors(1)),
            expected: Expected::AtMost(119u32.into()),
            found: 4096u32.into(),
        };
        assert_eq!(
            fault.to_string(),
            "AGF 3 (daddr 786433, 1 sector): flcount is 4096, expected at most 119 [agf.flcount]"
        );
    }
}
