//! What is printed: a name, fields, and nodes below it. One shape for text and JSON.

use std::fmt;

use serde::ser::{Serialize, SerializeMap, Serializer};
use xfskit_units::Lsn;

/// Something with a name.
#[derive(Clone, Debug)]
pub(super) struct Node {
    name: &'static str,
    fields: Vec<(&'static str, Field)>,
    children: Vec<Node>,
}

/// What a field says.
#[derive(Clone, Debug)]
pub(super) enum Field {
    Number(u64),
    Signed(i64),
    Hex(u64),
    Octal(u16),
    Text(String),
}

/// A number that people read in hexadecimal.
pub(super) fn hex(n: impl Into<u64>) -> Field {
    Field::Hex(n.into())
}

/// Any bytes as text: printable ASCII as it is, the rest as `\xNN`.
pub(super) fn escaped(bytes: &[u8]) -> Field {
    Field::Text(bytes.escape_ascii().to_string())
}

/// Any bytes as hexadecimal digits.
pub(super) fn digits(bytes: &[u8]) -> Field {
    let digit = |n: u8| char::from_digit(n.into(), 16).unwrap_or('?');
    Field::Text(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect())
}

macro_rules! field_from {
    ($($ty:ty => |$v:ident| $e:expr;)*) => {
        $(impl From<$ty> for Field {
            fn from($v: $ty) -> Self {
                $e
            }
        })*
    };
}
field_from! {
    u8 => |v| Self::Number(v.into());
    u16 => |v| Self::Number(v.into());
    u32 => |v| Self::Number(v.into());
    u64 => |v| Self::Number(v);
    usize => |v| Self::Number(v as u64);
    i32 => |v| Self::Signed(v.into());
    &str => |v| Self::Text(v.into());
    String => |v| Self::Text(v);
    Lsn => |v| Self::Text(v.to_string());
}

impl Node {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, fields: Vec::new(), children: Vec::new() }
    }

    /// … with a field more.
    pub(super) fn field(mut self, name: &'static str, value: impl Into<Field>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// … with a node more below it.
    pub(super) fn child(mut self, child: Self) -> Self {
        self.children.push(child);
        self
    }

    /// … with these nodes below it.
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

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => write!(f, "{n}"),
            Self::Signed(n) => write!(f, "{n}"),
            Self::Hex(n) => write!(f, "{n:#x}"),
            Self::Octal(n) => write!(f, "0{n:o}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, 0)
    }
}

impl Serialize for Field {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(n) | Self::Hex(n) => s.serialize_u64(*n),
            Self::Signed(n) => s.serialize_i64(*n),
            Self::Octal(n) => s.serialize_u16(*n),
            Self::Text(text) => s.serialize_str(text),
        }
    }
}

impl Serialize for Node {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut map = s.serialize_map(None)?;
        map.serialize_entry("what", self.name)?;
        for (name, value) in &self.fields {
            map.serialize_entry(name, value)?;
        }
        if !self.children.is_empty() {
            map.serialize_entry("parts", &self.children)?;
        }
        map.end()
    }
}
