//! Linux md arrays: made, examined, managed, rebuilt and compared, without the kernel's driver.
//!
//! An array is a [target](crate::target) as any other: `md:MEMBER,MEMBER,…` is read and changed
//! through [`Volume`](crate::Volume). This module is about the members.
//!
//! | | |
//! | --- | --- |
//! | [`Create`] | a new array |
//! | [`examine`] | the superblock of each member |
//! | [`Array`], [`ArrayOptions`] | the array of its members; fails, adds, replaces members |
//! | [`Guess`] | the array of members whose superblocks are lost |
//! | [`Rebuild`] | members that lack data are filled |
//! | [`Scrub`] | members are compared |
//! | [`Compare`] | members are compared, and the volume on them shows which are wrong |
//! | [`VerifiedArray`] | what is read is compared with the array's redundancy |
//!
//! The numbers of superblocks are in [`Sectors`] of 512 bytes, as md has them; all others are in
//! bytes.

mod array;
mod compare;
mod create;
mod guess;
mod new_device;
mod running;
mod stack;
mod superblock;
mod sync;
mod verify;

pub use array::{Array, ArrayOptions, Member};
pub use compare::{Compare, Compared, Resolved, ResolvedPage};
pub use create::{Create, Created};
pub use guess::{Candidate, Confidence, Guess, GuessStep, Guessed, WithMissing};
pub use new_device::NewDevices;
pub use stack::DoubtfulContent;
pub use superblock::{
    BitmapInfo, DeviceEntry, Examined, Format, FormatV1, FormatV090, PplInfo, Superblock, examine,
};
pub use sync::{Corrected, Rebuild, Rebuilt, Scrub, Scrubbed, SyncAction};
pub use verify::{Doubtful, VerifiedArray, VerifyReport};
pub use xfskit_md::array::scrub::Mismatch;
pub use xfskit_md::assemble::Freshness;
pub use xfskit_md::create::BitmapOption;
pub use xfskit_md::superblock::{Corruption as SuperblockCorruption, Reshape, Role, Time, Version};
pub use xfskit_md::{Layout, Level, Raid0Layout, Raid5Layout, Raid6Layout, Raid10Layout};
pub use xfskit_units::{ArraySector, Daddr, MemberSector, Sectors, SyncSector};

use xfskit_units::Uuid;

use crate::Result;
use crate::cause::array::ArrayError;

/// Formats a UUID as md does: four words in hexadecimal.
pub fn format_uuid(uuid: [u8; 16]) -> String {
    xfskit_md::superblock::hex(uuid)
}

/// Parses a UUID: 32 hexadecimal digits, in groups as md's or as those of others.
///
/// # Errors
/// [`InvalidInput`](crate::ErrorKind::InvalidInput) where it is not one.
pub fn parse_uuid(text: &str) -> Result<[u8; 16]> {
    let digits: String = text.chars().filter(|c| !matches!(c, ':' | '-' | '.')).collect();
    let uuid = Uuid::parse_str(&digits).map_err(|_| ArrayError::Uuid(text.to_owned()).error())?;
    Ok(*uuid.as_bytes())
}
