//! LVM2: which volume groups have their physical volumes on a disk, and where their volumes lie.
//!
//! A physical volume carries a label in one of its first four sectors ("LABELONE", type
//! "LVM2 001"), which leads to its header: its own id, and where its metadata areas are. A metadata
//! area begins with a header of 512 bytes that leads to a text in a ring buffer: the whole volume
//! group, physical and logical volumes, in nested sections. Every physical volume may carry the
//! text; the one with the highest `seqno` is right.
//!
//! Only linear volumes are opened: segments of type `striped` over one stripe, which is what LVM
//! calls linear. All other types are refused by name.
//!
//! | module | what |
//! | --- | --- |
//! | [`label`] | labels, headers and metadata areas: bytes of a physical volume to its text |
//! | [`text`] | the syntax of the text |
//! | [`group`] | its meaning: volume groups, volumes and their extents |

pub mod group;
pub mod label;
pub mod text;

pub use group::{Group, Volume, groups};
pub use label::{PhysicalVolume, physical_volume};
