//! Named values, printed as `xfs_db` prints them and as JSON.

use std::fmt;

use serde_json::{Map, Value, json};
use xfskit_format::timestamp::Timestamp;

/// One value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A decimal number.
    Dec(u64),
    /// A decimal number with a sign.
    Signed(i64),
    /// A hexadecimal number. 0 prints without its prefix, as in C.
    Hex(u64),
    /// An octal number with a leading zero: a file's mode.
    Octal(u64),
    /// No block, no inode.
    Null,
    /// A field that this volume's features leave unused.
    Unused,
    /// Text that is printed as it is: a UUID, a date.
    Text(String),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dec(n) => write!(f, "{n}"),
            Self::Signed(n) => write!(f, "{n}"),
            Self::Hex(0) | Self::Octal(0) => f.write_str("0"),
            Self::Hex(n) => write!(f, "{n:#x}"),
            Self::Octal(n) => write!(f, "0{n:o}"),
            Self::Null => f.write_str("null"),
            Self::Unused => Ok(()),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl Scalar {
    /// Converts the value to JSON.
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Dec(n) | Self::Hex(n) | Self::Octal(n) => json!(n),
            Self::Signed(n) => json!(n),
            Self::Null | Self::Unused => Value::Null,
            Self::Text(text) => json!(text),
        }
    }
}

/// The value of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// One value.
    Scalar(Scalar),
    /// One value and a remark: `1 (local)`.
    Remark(Scalar, &'static str),
    /// Bytes that are usually text.
    Quoted(Vec<u8>),
    /// Values with their indexes, the first of them `first`.
    List {
        /// Index of the first value.
        first: usize,
        /// The values.
        values: Vec<Scalar>,
        /// Zeroes are not printed.
        skip_zero: bool,
    },
    /// Records with the same columns.
    Table {
        /// Index of the first record.
        first: usize,
        /// Names of the columns.
        columns: &'static [&'static str],
        /// One vector a record.
        rows: Vec<Vec<Scalar>>,
    },
    /// A line of its own, without a name: part of a hex dump, a heading.
    Line(String),
}

/// A structure, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dump {
    /// Names and values, in the order of the structure.
    pub fields: Vec<(String, Item)>,
}

impl Dump {
    /// Adds one value.
    pub fn scalar(&mut self, name: impl Into<String>, value: Scalar) {
        self.fields.push((name.into(), Item::Scalar(value)));
    }

    /// Adds a decimal number.
    pub fn dec(&mut self, name: impl Into<String>, value: impl Into<u64>) {
        self.scalar(name, Scalar::Dec(value.into()));
    }

    /// Adds a hexadecimal number.
    pub fn hex(&mut self, name: impl Into<String>, value: impl Into<u64>) {
        self.scalar(name, Scalar::Hex(value.into()));
    }

    /// Adds an item.
    pub fn item(&mut self, name: impl Into<String>, item: Item) {
        self.fields.push((name.into(), item));
    }

    /// Adds a heading.
    pub fn heading(&mut self, text: impl Into<String>) {
        self.item("", Item::Line(text.into()));
    }

    /// Adds a table, unless it is empty.
    pub fn table(
        &mut self,
        name: impl Into<String>,
        first: usize,
        columns: &'static [&'static str],
        rows: Vec<Vec<Scalar>>,
    ) {
        if !rows.is_empty() {
            self.item(name, Item::Table { first, columns, rows });
        }
    }

    /// Adds a list, unless it is empty.
    pub fn list(&mut self, name: &str, first: usize, values: Vec<Scalar>, skip_zero: bool) {
        if !values.is_empty() {
            self.item(name, Item::List { first, values, skip_zero });
        }
    }

    /// Adds a date and its nanoseconds.
    pub fn time(&mut self, name: &str, time: Timestamp) {
        self.scalar(format!("{name}.sec"), Scalar::Text(date(time.sec)));
        self.dec(format!("{name}.nsec"), time.nsec);
    }

    /// Appends all fields of `other`.
    pub fn append(&mut self, other: Self) {
        self.fields.extend(other.fields);
    }

    /// Converts the dump to JSON: an object with the names in order, or, if there are headings, an
    /// array of objects.
    pub fn to_json(&self) -> Value {
        let mut parts: Vec<Value> = Vec::new();
        let mut part = Map::new();
        for (name, item) in &self.fields {
            match item {
                Item::Line(text) if name.is_empty() => {
                    if !part.is_empty() {
                        parts.push(Value::Object(std::mem::take(&mut part)));
                    }
                    part.insert("what".into(), json!(text));
                }
                _ => {
                    part.insert(name.clone(), item.to_json());
                }
            }
        }
        parts.push(Value::Object(part));
        if parts.len() == 1 { parts.remove(0) } else { Value::Array(parts) }
    }
}

impl Item {
    fn to_json(&self) -> Value {
        match self {
            Self::Scalar(value) => value.to_json(),
            Self::Remark(value, remark) => json!({ "value": value.to_json(), "is": remark }),
            Self::Quoted(bytes) => json!(String::from_utf8_lossy(bytes)),
            Self::List { values, .. } => values.iter().map(Scalar::to_json).collect(),
            Self::Table { columns, rows, .. } => {
                let object = |row: &Vec<Scalar>| -> Value {
                    let cells = columns.iter().zip(row);
                    Value::Object(cells.map(|(c, v)| ((*c).to_owned(), v.to_json())).collect())
                };
                rows.iter().map(object).collect()
            }
            Self::Line(text) => json!(text),
        }
    }
}

/// Returns `name[3-17]`, or `name[3]` for a single index.
fn ranged(name: &str, first: usize, count: usize) -> String {
    match count {
        0 | 1 => format!("{name}[{first}]"),
        n => format!("{name}[{first}-{}]", first + n - 1),
    }
}

impl fmt::Display for Dump {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, item) in &self.fields {
            match item {
                Item::Scalar(value) => writeln!(f, "{name} = {value}")?,
                Item::Remark(value, remark) => writeln!(f, "{name} = {value} ({remark})")?,
                Item::Quoted(bytes) => writeln!(f, "{name} = \"{}\"", Escaped(bytes))?,
                Item::List { first, values, skip_zero } => {
                    write!(f, "{} =", ranged(name, *first, values.len()))?;
                    for (i, value) in values.iter().enumerate() {
                        match value {
                            value if values.len() == 1 => write!(f, " {value}")?,
                            Scalar::Hex(0) if *skip_zero => {}
                            value => write!(f, " {}:{value}", first + i)?,
                        }
                    }
                    writeln!(f)?;
                }
                Item::Table { first, columns, rows } => {
                    write!(f, "{} = [{}]", ranged(name, *first, rows.len()), columns.join(","))?;
                    for (i, row) in rows.iter().enumerate() {
                        let cells: Vec<String> = row.iter().map(Scalar::to_string).collect();
                        write!(f, " \n{}:[{}]", first + i, cells.join(","))?;
                    }
                    writeln!(f)?;
                }
                Item::Line(text) => writeln!(f, "{text}")?,
            }
        }
        Ok(())
    }
}

/// Bytes printed as in a C string: unprintable ones in octal.
struct Escaped<'a>(&'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &byte in self.0 {
            match byte {
                b'"' | b'\\' => write!(f, "\\{}", char::from(byte))?,
                0x20..=0x7e => write!(f, "{}", char::from(byte))?,
                _ => write!(f, "\\{byte:03o}")?,
            }
        }
        Ok(())
    }
}

/// Formats a date as `ctime` does, in UTC: `Sat Nov 21 10:16:53 2026`.
fn date(sec: i64) -> String {
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, rest) = (sec.div_euclid(86_400), sec.rem_euclid(86_400));
    let (year, month, day) = Timestamp { sec, nsec: 0 }.date();
    let weekday = WEEKDAYS[usize::try_from(days.rem_euclid(7)).unwrap_or(0)];
    let month = MONTHS[usize::from(month).saturating_sub(1)];
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{weekday} {month} {day:2} {hour:02}:{minute:02}:{second:02} {year}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(date(1_795_256_213), "Sat Nov 21 10:16:53 2026");
        assert_eq!(date(-2_147_483_648), "Fri Dec 13 20:45:52 1901");
        assert_eq!(date(951_782_400), "Tue Feb 29 00:00:00 2000");
    }

    #[test]
    fn tables_and_lists_print_as_xfs_db_does() {
        let mut dump = Dump::default();
        let row = |a, b| vec![Scalar::Dec(a), Scalar::Dec(b)];
        dump.table("recs", 1, &["startblock", "blockcount"], vec![row(13, 3), row(24, 5)]);
        let values = [0x10, 0, 0x20].map(Scalar::Hex).to_vec();
        dump.list("fbests", 0, values, true);
        dump.item("name", Item::Quoted(b"a\"\x01".to_vec()));
        let text = "recs[1-2] = [startblock,blockcount] \n1:[13,3] \n2:[24,5]\n\
                    fbests[0-2] = 0:0x10 2:0x20\nname = \"a\\\"\\001\"\n";
        assert_eq!(dump.to_string(), text);
    }
}
