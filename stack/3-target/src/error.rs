//! Errors of parsing and opening a target.

use crate::discover::Found;
use crate::name::Target;
use crate::size;

/// Why a target could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The name does not follow the grammar.
    #[error("`{name}` is not a target: {why}")]
    BadName {
        /// The name as given.
        name: String,
        /// The problem with it.
        why: &'static str,
    },
    /// The size in `mem:SIZE` is invalid.
    #[error(transparent)]
    Size(#[from] size::Error),
    /// A pattern among the members of an array matches no file.
    #[error("`{0}` matches no file")]
    NoMatch(String),
    /// The members make no array.
    #[error(transparent)]
    Array(#[from] xfskit_md::assemble::Error),
    /// The array can be read but not written.
    #[error("{target} cannot be written: {why}")]
    NotWritable {
        /// The target.
        target: String,
        /// The reason.
        why: String,
    },
    /// The device failed, or could not be opened.
    #[error(transparent)]
    Device(#[from] xfskit_block::Error),
    /// The target is not a volume but has parts, or it has no part of that name.
    #[error("{what}{}", listing(.base, .found))]
    WhichPart {
        /// The problem, as a clause: "disk.img is a partitioned disk".
        what: String,
        /// The target without its part.
        base: String,
        /// The parts there are.
        found: Vec<Found>,
    },
    /// The part exists, but its kind cannot be read.
    #[error("{target}: {why}")]
    Unsupported {
        /// The target.
        target: Target,
        /// Its kind.
        why: String,
    },
}

impl Error {
    /// Returns what to do about it, if there is advice.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::BadName { .. } => {
                "A target is a file, a block device, IMAGE#pN, IMAGE#lv:VG/LV, md:MEMBER,MEMBER,… \
                 or mem:SIZE."
            }
            Self::NoMatch(_) => "Check the pattern; quote it from the shell.",
            Self::Array(error) => return error.hint().map(str::to_owned),
            Self::NotWritable { .. } => return None,
            Self::Size(_) => "Write for example mem:512M or mem:1.5G.",
            Self::WhichPart { found, .. } if !found.is_empty() => "Name one of them as the target.",
            Self::WhichPart { base, .. } => {
                return Some(format!("`xfskit targets {base}` lists its partitions and volumes."));
            }
            Self::Device(error) => return error.hint(),
            Self::Unsupported { .. } => {
                "Let LVM on a Linux machine activate the volume and name its device."
            }
        };
        Some(hint.into())
    }
}

/// The result of parsing or opening a target.
pub type Result<T> = std::result::Result<T, Error>;

fn listing(base: &str, found: &[Found]) -> String {
    if found.is_empty() {
        return "; it has no parts".into();
    }
    let lines = found.iter().map(|part| format!("\n  {base}#{part}"));
    format!("; its parts are:{}", lines.collect::<String>())
}
