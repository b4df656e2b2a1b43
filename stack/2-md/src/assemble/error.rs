//! Why members make no array, and what to do.

use crate::array::OpenError;
use crate::geometry::GeometryError;
use crate::superblock::Corruption;

/// Why members make no array that can run. Each names the member it is about.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No member was named.
    #[error("no member was named [md.nothing]")]
    Nothing,
    /// A member cannot be read.
    #[error("{name}: {source}")]
    Device {
        /// The member.
        name: String,
        /// What it answered.
        #[source]
        source: xfskit_block::Error,
    },
    /// A member has no superblock.
    #[error("{name}: no md superblock [md.superblock]")]
    NoSuperblock {
        /// The member.
        name: String,
    },
    /// A member's superblock cannot be true.
    #[error("{name}: superblock: {corruption}")]
    Corruption {
        /// The member.
        name: String,
        /// What is wrong with it.
        corruption: Corruption,
    },
    /// Two members are of different arrays.
    #[error("{one} belongs to array {uuid}, {other} to array {other_uuid} [md.set_uuid]")]
    DifferentArrays {
        /// A member.
        one: String,
        /// Its array.
        uuid: String,
        /// Another member.
        other: String,
        /// Its array.
        other_uuid: String,
    },
    /// Two names for one member, or a member and its copy.
    #[error("{one} and {other} are the same member [md.duplicate]")]
    Duplicate {
        /// A member.
        one: String,
        /// The same member.
        other: String,
    },
    /// Two members claim one role.
    #[error("{one} and {other} both have role {role} [md.role]")]
    RoleTaken {
        /// The role.
        role: u32,
        /// A member.
        one: String,
        /// Another member.
        other: String,
    },
    /// Two members are equally new, and each says that the other failed: the array was run in two
    /// halves.
    #[error(
        "{one} and {other} each say that the other failed, with {events} events both [md.split]"
    )]
    SplitBrain {
        /// A member.
        one: String,
        /// A member of the other half.
        other: String,
        /// How often both changed.
        events: u64,
    },
    /// Two fresh members disagree about the array.
    #[error("{one} and {other} disagree about {field}: {found} and {expected} [md.disagree]")]
    Disagree {
        /// A member.
        one: String,
        /// Another member.
        other: String,
        /// The superblock's field.
        field: &'static str,
        /// What `one` says.
        found: String,
        /// What `other` says.
        expected: String,
    },
    /// The superblock's numbers make no array.
    #[error("{name}: {source}")]
    Geometry {
        /// The member whose superblock was believed.
        name: String,
        /// What is wrong with them.
        #[source]
        source: GeometryError,
    },
    /// More is missing than the level bears.
    #[error(
        "{level} of {raid_disks} cannot run without {}{} [md.missing]",
        roles(.missing),
        stale(.left_out)
    )]
    TooManyMissing {
        /// The level.
        level: String,
        /// How many roles there are.
        raid_disks: u32,
        /// The roles that nobody serves.
        missing: Vec<usize>,
        /// Members that were named but left out.
        left_out: Vec<String>,
    },
    /// The journal is full of data that wait for their parity, and a member is missing.
    #[error(
        "the journal has no room for the parity of the data that wait in it, and without that a crash would lose \
         what the missing members hold [md.journal.full]"
    )]
    JournalFull,
    /// The array does not start.
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl Error {
    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoSuperblock { .. } => {
                "`xfskit md examine` looks for superblocks. Where they are gone, `xfskit md guess` \
                 finds order and layout of the members."
            }
            Self::Corruption { .. } => "Leave this member out; the others may do without it.",
            Self::DifferentArrays { .. } => "Name the members of one array only.",
            Self::Duplicate { .. } => "Name only one of the two.",
            Self::RoleTaken { .. } | Self::Disagree { .. } => {
                "One of the two does not belong here: leave it out. `xfskit md examine` shows what \
                 they say."
            }
            Self::SplitBrain { .. } => {
                "The array was run in two halves. Name the members of the half that you want."
            }
            Self::TooManyMissing { .. } => "Name the missing members as well.",
            Self::JournalFull => {
                "Name the missing members as well. Reading does not need the room; --force writes without it."
            }
            Self::Open(OpenError::TooSmall { .. }) => {
                "Was the copy of this member cut off? Leave it out where the others may do without."
            }
            Self::Geometry { source: GeometryError::LayoutUnspecified, .. } => {
                "Say so in the target: md:level=0,layout=original,chunk=…:MEMBERS, or \
                 layout=alternate."
            }
            Self::Nothing | Self::Device { .. } | Self::Geometry { .. } | Self::Open(_) => {
                return None;
            }
        })
    }
}

fn roles(missing: &[usize]) -> String {
    let numbers: Vec<String> = missing.iter().map(usize::to_string).collect();
    let word = if missing.len() == 1 { "role" } else { "roles" };
    format!("{word} {}", numbers.join(", "))
}

fn stale(left_out: &[String]) -> String {
    if left_out.is_empty() { String::new() } else { format!("; left out: {}", left_out.join(", ")) }
}
