//! Fields of a file, for JSON, for CSV, for a line.

use std::fmt::Write as _;

use clap::ValueEnum;
use serde::ser::{Serialize, SerializeMap, Serializer};
use xfskit::{Metadata, Timestamp};

use crate::exit::Failure;
use crate::grammar::rows::{Field, Rows};
use crate::out::Out;
use crate::show::{self, Named};

/// The form of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Json,
    Csv,
    /// Fields with tabs between them.
    Text,
}

/// Writes files as rows.
#[derive(Debug)]
pub(crate) struct Writer {
    form: Form,
    fields: Vec<Field>,
    epoch: bool,
}

impl Rows {
    /// Returns a writer if fields, JSON or CSV are requested, and writes the header of CSV. Without
    /// `paths` there is no path field.
    pub(crate) fn writer(&self, paths: bool, out: &Out) -> Result<Option<Writer>, Failure> {
        let form = match (out.json(), self.csv, self.fields.is_empty()) {
            (true, true, _) => return Err(Failure::cannot("--json and --csv: one of them")),
            (true, false, _) => Form::Json,
            (false, true, _) => Form::Csv,
            (false, false, false) => Form::Text,
            (false, false, true) if self.epoch => {
                return Err(Failure::cannot("--epoch is for --json, --csv and --fields"));
            }
            (false, false, true) => return Ok(None),
        };
        if !paths && self.fields.contains(&Field::Path) {
            return Err(Failure::cannot("--fields path: an inode does not know its path")
                .hint("`xfskit find --fields path,ino TARGET` lists paths."));
        }
        let mut fields = self.fields.clone();
        if fields.is_empty() {
            fields.extend(Field::value_variants());
            fields.retain(|field| paths || *field != Field::Path);
        }
        if form == Form::Csv {
            let names: Vec<String> = fields.iter().map(|field| field.name()).collect();
            out.line(names.join(","))?;
        }
        Ok(Some(Writer { form, fields, epoch: self.epoch }))
    }
}

impl Writer {
    /// Adds the line of a file.
    pub(crate) fn write(&self, path: &[u8], file: &Metadata, out: &Out, lines: &mut Vec<u8>) {
        if self.form == Form::Json {
            let path = self.fields.contains(&Field::Path).then_some(Named("path", path));
            let row = Row { path, fields: Fields { file, of: &self.fields, epoch: self.epoch } };
            // Numbers and words always serialise.
            lines.extend(serde_json::to_vec(&row).unwrap_or_default());
        } else {
            for (at, field) in self.fields.iter().enumerate() {
                if at > 0 {
                    lines.push(if self.form == Form::Csv { b',' } else { b'\t' });
                }
                match (field, self.form) {
                    (Field::Path, Form::Csv) => lines.extend(csv(path)),
                    (Field::Path, _) => lines.extend(out.name(path)),
                    (field, _) => lines.extend(word(*field, file, self.epoch).into_bytes()),
                }
            }
        }
        lines.push(b'\n');
    }
}

/// Formats a path for CSV, in quotes if necessary.
fn csv(path: &[u8]) -> Vec<u8> {
    if !path.iter().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r')) {
        return path.to_vec();
    }
    let mut text = b"\"".to_vec();
    for &byte in path {
        text.extend(if byte == b'"' { &b"\"\""[..] } else { std::slice::from_ref(&byte) });
    }
    text.push(b'"');
    text
}

/// Formats one field of a file; empty if the file does not have it.
fn word(field: Field, file: &Metadata, epoch: bool) -> String {
    let time = |time: Timestamp| {
        if epoch { seconds(time) } else { show::time_full(time.sec, time.nsec) }
    };
    match field {
        Field::Path => String::new(),
        Field::Ino => file.ino().to_string(),
        Field::Type => {
            let word = serde_json::to_value(file.file_type()).unwrap_or_default();
            word.as_str().unwrap_or_default().to_owned()
        }
        Field::Mode => octal(file.mode()),
        Field::Nlink => file.nlink().to_string(),
        Field::Uid => file.uid().to_string(),
        Field::Gid => file.gid().to_string(),
        Field::Projid => file.project().to_string(),
        Field::Size => file.len().to_string(),
        Field::Blocks => file.blocks().to_string(),
        Field::Rdev => file.rdev().map(|(a, b)| format!("{a}:{b}")).unwrap_or_default(),
        Field::Atime => time(file.atime()),
        Field::Mtime => time(file.mtime()),
        Field::Ctime => time(file.ctime()),
        Field::Btime => file.btime().map(time).unwrap_or_default(),
        Field::Generation => file.generation().to_string(),
        Field::Flags => file.flags().to_string(),
        Field::Flags2 => file.flags2().to_string(),
        Field::Nextents => file.extent_count().to_string(),
        Field::Anextents => file.attr_extent_count().to_string(),
    }
}

/// Formats type and permissions as chmod and find's `%m` do, with the type in front.
fn octal(mode: u32) -> String {
    format!("{mode:07o}")
}

/// Formats a time in seconds since 1970, to the nanosecond.
fn seconds(time: Timestamp) -> String {
    let all = i128::from(time.sec) * 1_000_000_000 + i128::from(time.nsec);
    let mut text = String::from(if all < 0 { "-" } else { "" });
    let all = all.unsigned_abs();
    // Writing to a string cannot fail.
    let _ = write!(text, "{}.{:09}", all / 1_000_000_000, all % 1_000_000_000);
    text
}

#[derive(serde::Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    path: Option<Named<'a>>,
    #[serde(flatten)]
    fields: Fields<'a>,
}

/// Fields of a file for JSON, without its path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    /// The metadata.
    pub file: &'a Metadata,
    of: &'a [Field],
    epoch: bool,
}

impl<'a> Fields<'a> {
    /// Returns all fields.
    pub(crate) fn all(file: &'a Metadata) -> Self {
        Self { file, of: Field::value_variants(), epoch: false }
    }
}

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { file, of, epoch } = *self;
        let mut map = serializer.serialize_map(None)?;
        for &field in of {
            let name = field.name();
            match field {
                Field::Path => {}
                Field::Ino => map.serialize_entry(&name, &file.ino())?,
                Field::Type => map.serialize_entry(&name, &file.file_type())?,
                Field::Mode => map.serialize_entry(&name, &octal(file.mode()))?,
                Field::Rdev => {
                    if let Some(rdev) = file.rdev() {
                        map.serialize_entry(&name, &rdev)?;
                    }
                }
                Field::Atime => map.serialize_entry(&name, &Time(file.atime(), epoch))?,
                Field::Mtime => map.serialize_entry(&name, &Time(file.mtime(), epoch))?,
                Field::Ctime => map.serialize_entry(&name, &Time(file.ctime(), epoch))?,
                Field::Btime => {
                    if let Some(time) = file.btime() {
                        map.serialize_entry(&name, &Time(time, epoch))?;
                    }
                }
                Field::Nlink => map.serialize_entry(&name, &file.nlink())?,
                Field::Uid => map.serialize_entry(&name, &file.uid())?,
                Field::Gid => map.serialize_entry(&name, &file.gid())?,
                Field::Projid => map.serialize_entry(&name, &file.project())?,
                Field::Size => map.serialize_entry(&name, &file.len())?,
                Field::Blocks => map.serialize_entry(&name, &file.blocks())?,
                Field::Generation => map.serialize_entry(&name, &file.generation())?,
                Field::Flags => map.serialize_entry(&name, &file.flags())?,
                Field::Flags2 => map.serialize_entry(&name, &file.flags2())?,
                Field::Nextents => map.serialize_entry(&name, &file.extent_count())?,
                Field::Anextents => map.serialize_entry(&name, &file.attr_extent_count())?,
            }
        }
        map.end()
    }
}

/// A time for JSON: seconds and nanoseconds, or one number.
struct Time(Timestamp, bool);

impl Serialize for Time {
    #[allow(clippy::cast_precision_loss)] // a fraction of a microsecond, as every reader of JSON has it
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(time, as_number) = self;
        if !as_number {
            return time.serialize(serializer);
        }
        serializer.serialize_f64(time.sec as f64 + f64::from(time.nsec) / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_are_negative_numbers() {
        let text = |sec, nsec| seconds(Timestamp { sec, nsec });
        assert_eq!(text(-1, 500_000_000), "-0.500000000");
        assert_eq!(text(1_700_000_000, 7), "1700000000.000000007");
    }

    #[test]
    fn a_path_in_csv_is_quoted_where_it_has_to_be() {
        assert_eq!(csv(b"/plain name"), b"/plain name");
        assert_eq!(csv(b"/a,\"b\""), b"\"/a,\"\"b\"\"\"");
    }
}
