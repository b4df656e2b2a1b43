//! Floor 6: a volume as a filesystem.
//!
//! [`Fs`] offers a [`Volume`](xfskit_core::Volume) through paths, names and bytes. Damage is
//! reported with its path and does not hide the rest. Every change is atomic.
//!
//! | read in this order | what |
//! | --- | --- |
//! | [`fs`] | [`Fs`]: inodes, directories, links, attributes |
//! | [`stat`] | [`Stat`]: the metadata of one file |
//! | [`statfs`] | [`Statfs`]: size and free space of the volume |
//! | [`path`] | resolves a path to an inode, with or without symbolic links |
//! | [`walk`] | walks a tree entry by entry, sorted |
//! | `ncheck` | finds the paths of inodes, by parent pointers or by a scan of all directories |
//! | [`visited`] | directories that a walk entered, so that none is entered twice |
//! | [`listing`] | lists a directory, portion by portion |
//! | [`sweep`] | visits a tree as fast as the device allows, in the order of the disk |
//! | [`content`] | locations of content, and reading it |
//! | [`reader`] | reads a file's content as a stream |
//! | [`change`] | changes names, links, owners, times and attributes |
//! | [`error`] | errors, and the errno of each |

pub mod change;
pub mod content;
pub mod error;
pub mod fs;
pub mod listing;
mod names;
mod ncheck;
pub mod path;
pub mod reader;
pub mod stat;
pub mod statfs;
pub mod sweep;
pub mod visited;
pub mod walk;
mod xattr;

pub use change::Clock;
pub use change::handle::{AtEnd, FileHandle, Handle};
pub use change::hold::{Hold, InodeHold};
pub use change::make::NewNode;
pub use change::rename::RenameMode;
pub use change::set::{Privileges, SetAttr};
pub use content::{FileMap, Lost, Piece, ReadAhead, ReadError};
pub use error::{Error, Result};
pub use fs::{Entry, Fs, Portion, WHOLE_MAX, Xattr};
pub use listing::{DirListing, Listing};
pub use ncheck::{InodePaths, InodeState, PathsFound};
pub use path::{Follow, join};
pub use reader::{FileReader, Reader};
pub use stat::Stat;
pub use statfs::Statfs;
pub use sweep::{Child, Visitor};
pub use visited::Visited;
pub use walk::{TreeWalk, Walk, WalkEntry, WalkFault};
pub use xfskit_core::Inode;
pub use xfskit_core::attr::change::SetMode;
pub use xfskit_core::file::Seek;
pub use xfskit_format::inode::FileType;
pub use xfskit_format::timestamp::Timestamp;
pub use xfskit_units::Ino;
