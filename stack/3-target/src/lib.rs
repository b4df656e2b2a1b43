//! Floor 3: from a name to a device.
//!
//! A target is the name of a volume on the command line:
//!
//! | name | what |
//! | --- | --- |
//! | `IMAGE`, `/dev/sdb1` | a file or a block device, whole |
//! | `mem:SIZE` | a sparse device in memory, all zeroes |
//! | `IMAGE#p2` | partition 2 of an MBR or GPT disk |
//! | `IMAGE#lv:vg/root` | the logical volume `root` of group `vg`, with physical volumes in IMAGE |
//! | `md:MEMBER,MEMBER,…` | an md array; [`grammar`] has the whole grammar |
//! | `[TARGET]#p2` | brackets group a target |
//!
//! [`Target::parse`] parses a name, [`open()`] opens it, [`discover()`] lists the parts of a disk.
//! A disk that is not a volume itself but has parts is refused with their names.
//!
//! The tables of a disk are untrusted, so their parsers ([`partition`], [`lvm`]) are our own.
//! Existing crates use an entry count from the disk as the size of an allocation, or follow a chain
//! of extended partitions without a limit. These parsers bound both.
//!
//! | module | what |
//! | --- | --- |
//! | [`size`] | `500T`, `20 GiB`: sizes, parsed and printed |
//! | [`name`] | the names of targets and arrays |
//! | [`grammar`] | their grammar |
//! | [`discover`](mod@discover) | the parts of a disk |
//! | [`open`](mod@open) | opening names as devices |
//! | `fingerprint` | what a device is and its state, for overlays |
//! | [`nested`] | an array and the arrays within it, each by itself |
//! | [`evidence`] | arrays without superblocks: where volumes lie in them |
//! | [`partition`] | MBR with logical partitions, GPT |
//! | [`lvm`] | LVM2: labels, metadata, linear volumes |

mod bytes;
pub mod discover;
mod error;
pub mod evidence;
mod fingerprint;
mod glob;
pub mod grammar;
mod linear;
pub mod lvm;
pub mod name;
pub mod nested;
pub mod open;
pub mod partition;
pub mod size;

pub use discover::{Found, discover};
pub use error::{Error, Result};
pub use evidence::find_evidence;
pub use name::{ArrayName, Base, Part, Target};
pub use nested::{Nested, is_reshaped, open_nested, range_in_outer, ranges_in_part};
pub use open::{
    LiveArray, assemble, create, files, members, open, open_array, open_live, open_unchecked,
    overlay_warnings, part_of, pieces,
};
