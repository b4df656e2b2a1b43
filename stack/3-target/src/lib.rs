//! Floor 3: from a name to a device.
//!
//! A target is what the user writes where a volume is meant:
//!
//! | name | what |
//! | --- | --- |
//! | `IMAGE`, `/dev/sdb1` | a file or a block device, whole |
//! | `mem:SIZE` | a sparse device in memory, all zeroes |
//! | `IMAGE#p2` | partition 2 of an MBR or GPT disk |
//! | `IMAGE#lv:vg/root` | the logical volume `root` of group `vg`, whose physical volumes lie in IMAGE |
//! | `md:MEMBER,MEMBER,…` | an md array; [`array`](mod@array) has the whole grammar |
//! | `[TARGET]#p2` | brackets hold a target together |
//!
//! [`Target::parse`] reads a name, [`open()`] makes it a device, [`discover`] says what parts a disk
//! has. A disk that is no volume itself but has parts is refused with their names.
//!
//! The tables of a disk come from anywhere, so their readers ([`partition`], [`lvm`]) are our own:
//! the crates there are take a count of entries from the disk for the size of an allocation, or
//! follow a chain of extended partitions for as long as it goes on. Ours bound both.
//!
//! | module | what |
//! | --- | --- |
//! | [`size`] | `500T`, `20 GiB`: sizes, read and printed |
//! | [`name`] | the grammar of targets |
//! | [`array`](mod@array) | the grammar of arrays; patterns; members become arrays |
//! | [`open`](mod@open) | names become devices; what a disk holds |
//! | `fingerprint` | what a device is and in which state, for overlays |
//! | [`nested`] | an array and those within it, each by itself |
//! | [`evidence`] | arrays without superblocks: where volumes lie in them |
//! | [`partition`] | MBR with logical partitions, GPT |
//! | [`lvm`] | LVM2: labels, metadata, linear volumes |

pub mod array;
mod bytes;
mod error;
pub mod evidence;
mod fingerprint;
mod glob;
mod linear;
pub mod lvm;
pub mod name;
pub mod nested;
pub mod open;
pub mod partition;
pub mod size;

pub use array::ArrayName;
pub use error::{Error, Result};
pub use evidence::find_evidence;
pub use name::{Base, Part, Target};
pub use nested::{Nested, is_reshaped, open_nested, place_above, places_in_part};
pub use open::overlay_warnings;
pub use open::{
    Found, assemble, create, discover, members, open, open_array, open_unchecked, part_of, pieces,
};
