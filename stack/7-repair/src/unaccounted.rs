//! Files that a repair would lose or change without a word of it in the plan.

use std::fmt;

use serde::Serialize;
use xfskit_units::Ino;

/// Files that are named.
const NAMED_MAX: usize = 16;

/// What a repair would lose or change without a word of it in the plan. It is a defect of this
/// program; nothing is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Unaccounted {
    /// Number of files.
    pub files: u64,
    /// The first of them.
    pub first: Vec<ChangedFile>,
    /// Number of entries of directories.
    pub names: u64,
}

/// A file that a repair would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedFile {
    /// Its inode.
    pub inode: u64,
    /// Its path before the repair, if one is known.
    pub path: Option<String>,
    /// The change.
    pub change: Change,
}

/// How a repair would change a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It could not be reached any more.
    Gone,
    /// It would have another type or size, or its content would be in other blocks.
    Content,
    /// Its attributes would be others, or in other blocks.
    Attributes,
    /// Blocks that were copied would have other bytes.
    Bytes,
}

impl Unaccounted {
    /// Returns true if there is nothing.
    pub fn is_empty(&self) -> bool {
        self.files == 0 && self.names == 0
    }

    pub(crate) fn add(&mut self, ino: Ino, change: Change) {
        self.files += 1;
        if self.first.len() < NAMED_MAX {
            self.first.push(ChangedFile { inode: ino.0, path: None, change });
        }
    }
}

impl fmt::Display for Unaccounted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} files", self.files)?;
        if self.names > 0 {
            write!(f, " and {} names", self.names)?;
        }
        f.write_str(" would be lost or changed, which the plan does not say")?;
        for (n, file) in self.first.iter().enumerate() {
            f.write_str(if n == 0 { ": " } else { ", " })?;
            write!(f, "{file}")?;
        }
        if self.files > self.first.len() as u64 {
            f.write_str(", and more")?;
        }
        Ok(())
    }
}

impl fmt::Display for ChangedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "inode {}", self.inode)?;
        if let Some(path) = &self.path {
            write!(f, " ({path})")?;
        }
        f.write_str(match self.change {
            Change::Gone => " is gone",
            Change::Content => " has other content",
            Change::Attributes => " has other attributes",
            Change::Bytes => " has other bytes in copied blocks",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_files_are_named() {
        let mut found = Unaccounted::default();
        assert!(found.is_empty());
        (0..20).for_each(|ino| found.add(Ino(ino), Change::Gone));
        found.first[0].path = Some("/a".into());
        let text = found.to_string();
        assert!(text.starts_with("20 files would be lost or changed"), "{text}");
        assert!(text.contains(": inode 0 (/a) is gone, inode 1 is gone,"), "{text}");
        assert!(text.ends_with("inode 15 is gone, and more"), "{text}");
        let names = Unaccounted { names: 2, ..Unaccounted::default() };
        assert!(!names.is_empty() && names.to_string().starts_with("0 files and 2 names would"));
    }
}
