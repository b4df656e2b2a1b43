//! Floor 2: Linux md arrays as block devices.
//!
//! An array is a [`BlockDevice`](xfskit_block::BlockDevice) made from members (files, devices,
//! other arrays), some of which may be missing. Filesystem floors see the trait and never this
//! crate. `3-target` opens the name `md:MEMBER,MEMBER,…` as an array.
//!
//! | module | what |
//! | --- | --- |
//! | [`layout`] | levels and layouts, by md's numbers and mdadm's names; where each chunk lies |
//! | [`geometry`] | the numbers of one array, checked; [`Slot`]: the member of one role |
//! | [`array`](mod@array) | the device: reads, reconstruction, writes |
//!
//! Metadata on the members:
//!
//! | module | what |
//! | --- | --- |
//! | [`superblock`] | 0.90 and 1.0 to 1.2: found, decoded, verified, encoded |
//! | [`bitmap`] | the write-intent bitmap |
//! | [`bad_blocks`] | the bad-block log |
//! | [`ppl`] | the partial parity log |
//! | [`journal`] | the journal device |
//! | [`assemble`](mod@assemble) | from members to an array; fresh, stale and missing members |
//! | [`guess`](mod@guess) | arrays without superblocks, found by the XFS volume on them |
//! | [`reshape`] | an array that stopped half-way through a reshape |
//! | [`create`](mod@create) | new arrays |
//!
//! `BlockDevice::alternatives` tells the buffer cache how many other ways an array has to obtain
//! bytes whose checksum is wrong.

pub mod array;
pub mod assemble;
pub mod bad_blocks;
pub mod bitmap;
pub mod create;
pub mod geometry;
pub mod guess;
pub mod journal;
pub mod layout;
pub mod ppl;
pub mod reshape;
pub mod superblock;

pub use array::Array;
pub use assemble::{Assembly, Member, assemble, assemble_by_force};
pub use geometry::{Geometry, GeometryError, Replacement, Slot};
pub use layout::{Layout, Level, Raid0Layout, Raid5Layout, Raid6Layout, Raid10Layout};
