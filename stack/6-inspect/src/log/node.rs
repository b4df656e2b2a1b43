//! The output as a tree: a name, fields, and child nodes. The same tree prints as text and JSON.

use std::fmt;

use serde::ser::{Serialize, SerializeMap, Serializer};
use xfskit_units::Lsn;

use crate::dump::Scalar;

/// A named node.
#[derive(Clone, Debug)]
pub(super) struct Node {
    name: &'static str,
    fields: Vec<(&'static str, Scalar)>,
    children: Vec<Node>,
}

/// Makes a number that is printed in hexadecimal.
pub(super) fn hex(n: impl Into<u64>) -> Scalar {
    Scalar::Hex(n.into())
}

/// Makes text of any bytes: printable ASCII as it is, the rest as `\xNN`.
pub(super) fn escaped(bytes: &[u8]) -> Scalar {
    Scalar::Text(bytes.escape_ascii().to_string())
}

/// Makes hexadecimal digits of any bytes.
pub(super) fn digits(bytes: &[u8]) -> Scalar {
    let digit = |n: u8| char::from_digit(n.into(), 16).unwrap_or('?');
    Scalar::Text(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect())
}

macro_rules! field_from {
    ($($ty:ty => |$v:ident| $e:expr;)*) => {
        $(impl From<$ty> for Scalar {
            fn from($v: $ty) -> Self {
                $e
            }
        })*
    };
}
field_from! {
    u8 => |v| Self::Dec(v.into());
    u16 => |v| Self::Dec(v.into());
    u32 => |v| Self::Dec(v.into());
    u64 => |v| Self::Dec(v);
    usize => |v| Self::Dec(v as u64);
    i32 => |v| Self::Signed(v.into());
    &str => |v| Self::Text(v.into());
    String => |v| Self::Text(v);
    Lsn => |v| Self::Text(v.to_string());
}

impl Node {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, fields: Vec::new(), children: Vec::new() }
    }

    /// Adds a field.
    pub(super) fn field(mut self, name: &'static str, value: impl Into<Scalar>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// Adds a child node.
    pub(super) fn child(mut self, child: Self) -> Self {
        self.children.push(child);
        self
    }

    /// Adds child nodes.
    pub(super) fn children(mut self, children: impl IntoIterator<Item = Self>) -> Self {
        self.children.extend(children);
        self
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
        write!(f, "{:width$}{}:", "", self.name, width = 4 * depth)?;
        for (name, value) in &self.fields {
            write!(f, " {name} {value}")?;
        }
        writeln!(f)?;
        self.children.iter().try_for_each(|child| child.write(f, depth + 1))
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("what", self.name)?;
        for (name, value) in &self.fields {
            map.serialize_entry(name, &value.to_json())?;
        }
        if !self.children.is_empty() {
            map.serialize_entry("parts", &self.children)?;
        }
        map.end()
    }
}
