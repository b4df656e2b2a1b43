//! Why members make no array, and what to do about it.

use crate::array::OpenError;
use crate::geometry::GeometryError;
use crate::superblock::Corruption;

/// Why members make no array that can run. Each error names the member it is about.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No member was given.
    #[error("no member was named [md.nothing]")]
    Nothing,
    /// A member cannot be read.
    #[error("{name}: {source}")]
    Device {
        /// The member.
        name: String,
        /// The error of the device.
        #[source]
        source: xfskit_block::Error,
    },
    /// A member has no superblock.
    #[error("{name}: no md superblock [md.superblock]")]
    NoSuperblock {
        /// The member.
        name: String,
    },
    /// A member's superblock has an impossible field.
    #[error("{name}: superblock: {corruption}")]
    Corruption {
        /// The member.
        name: String,
        /// The field.
        corruption: Corruption,
    },
    /// Two members belong to different arrays.
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
        /// The other name of that member.
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
        /// Events of both.
        events: u64,
    },
    /// A device with more events than the array that runs.
    #[error(
        "{name} has {own} events, more than the array that runs ({array}: {events}) [md.ahead]"
    )]
    Ahead {
        /// The device.
        name: String,
        /// Its events.
        own: u64,
        /// A member of the array.
        array: String,
        /// Events of the array.
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
        /// The value that `one` has.
        found: String,
        /// The value that `other` has.
        expected: String,
    },
    /// The superblock's numbers make no array.
    #[error("{name}: {source}")]
    Geometry {
        /// The member whose superblock was used.
        name: String,
        /// The problem.
        #[source]
        source: GeometryError,
    },
    /// More roles are missing than the level tolerates.
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
        /// The roles without a member.
        missing: Vec<usize>,
        /// Members that were given but left out.
        left_out: Vec<String>,
    },
    /// The journal is full of data that wait for their parity, and a member is missing.
    #[error(
        "the journal has no space for the parity of the data in it, and without that a crash would lose \
         data of the missing members [md.journal.full]"
    )]
    JournalFull,
    /// The array cannot run.
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl Error {
    /// Returns what to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoSuperblock { .. } => {
                "`xfskit md examine` looks for superblocks. If they are lost, `xfskit md guess` \
                 finds order and layout of the members."
            }
            Self::Corruption { .. } => "Leave this member out; the array may run without it.",
            Self::DifferentArrays { .. } => "Name the members of one array only.",
            Self::Ahead { .. } => {
                "The array was used with it meanwhile. Stop the array, and compare the members by \
                 `xfskit md examine`."
            }
            Self::Duplicate { .. } => "Name only one of the two.",
            Self::RoleTaken { .. } | Self::Disagree { .. } => {
                "One of the two does not belong to this array: leave it out. `xfskit md examine` \
                 shows their superblocks."
            }
            Self::SplitBrain { .. } => {
                "The array was run in two halves. Name the members of one half only."
            }
            Self::TooManyMissing { .. } => "Name the missing members as well.",
            Self::JournalFull => {
                "Name the missing members as well. Reading does not need the space; --force writes without it."
            }
            Self::Open(OpenError::TooSmall { .. }) => {
                "The copy of this member may be truncated. Leave it out if the array can run without it."
            }
            Self::Geometry { source: GeometryError::LayoutUnspecified, .. } => {
                "Give the layout in the target: md:level=0,layout=original,chunk=…:MEMBERS, or \
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
