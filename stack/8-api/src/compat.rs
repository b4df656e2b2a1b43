//! Which kernels and boot loaders can use a volume: see [`Superblock::compatibility`] and
//! [`Mkfs::readers`].
//!
//! [`Superblock::compatibility`]: crate::Superblock::compatibility
//! [`Mkfs::readers`]: crate::Mkfs::readers

pub use xfskit_mkfs::compat::{Access, Compatibility, Kind, LeftOut, Stop, Target, UnknownTarget};
