//! The fields of a file that a command prints, and the form of its rows.

use clap::{Args, ValueEnum};

/// One field of a file. Named as in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "lower")]
pub(crate) enum Field {
    Path,
    Ino,
    Type,
    Mode,
    Nlink,
    Uid,
    Gid,
    Projid,
    Size,
    Blocks,
    Rdev,
    Atime,
    Mtime,
    Ctime,
    Btime,
    Generation,
    Flags,
    Flags2,
    Nextents,
    Anextents,
}

impl Field {
    /// Returns the name, as in JSON.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// The fields to print and their form. Shared by the commands that list files for programs.
#[derive(Clone, Debug, Args)]
pub(crate) struct Rows {
    /// Print only these fields, in this order, separated by commas: path, ino, type, mode, nlink,
    /// uid, gid, projid, size, blocks, rdev, atime, mtime, ctime, btime, generation, flags, flags2,
    /// nextents, anextents
    #[arg(long, value_name = "FIELD,…", value_delimiter = ',', hide_possible_values = true)]
    pub fields: Vec<Field>,
    /// Print comma-separated values, the names of the fields first
    #[arg(long)]
    pub csv: bool,
    /// Print times as numbers: seconds since 1970
    #[arg(long)]
    pub epoch: bool,
}
