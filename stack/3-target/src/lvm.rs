//! LVM2: the volume groups whose physical volumes lie on a disk, and where their logical volumes
//! lie.
//!
//! A physical volume carries a label in one of its first four sectors ("LABELONE", type "LVM2
//! 001"), which refers to its header: its own id, and the locations of its metadata areas. A
//! metadata area begins with a header of 512 bytes that refers to a text in a ring buffer. The text
//! describes the whole volume group, with physical and logical volumes in nested sections. Every
//! physical volume may carry the text; the one with the highest `seqno` is valid.
//!
//! Only linear volumes are opened: segments of type `striped` over one stripe, which LVM calls
//! linear. All other types are refused by name.
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
pub use label::{PhysicalVolume, label_at, physical_volume};
