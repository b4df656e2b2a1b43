//! Floor 6: what programs ask of a filesystem.
//!
//! [`Fs`] is a [`Volume`](xfskit_core::Volume) seen through paths, names and bytes. Damage in one
//! place is told with its path and does not hide the rest; a change happens as a whole or not at
//! all.
//!
//! | read in this order | what |
//! | --- | --- |
//! | [`fs`] | [`Fs`]: inodes, directories, links, attributes |
//! | [`stat`] | [`Stat`]: what is known about one file |
//! | [`statfs`] | [`Statfs`]: what is known about all of it |
//! | [`path`] | from a path to an inode, symbolic links followed or not |
//! | [`walk`] | a tree entry by entry, sorted |
//! | [`visited`] | which directories a walk entered: none twice |
//! | [`listing`] | a directory, portion by portion |
//! | [`sweep`] | a tree as fast as the device gives it, in the order of the disk |
//! | [`content`] | where content lies, and reading it |
//! | [`reader`] | a file's content as a stream |
//! | [`change`] | names, links, owners, times and attributes changed |
//! | [`error`] | what can go wrong, and the errno of each |

pub mod change;
pub mod content;
pub mod error;
pub mod fs;
pub mod listing;
mod names;
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
pub use change::set::SetAttr;
pub use content::{FileMap, Piece, ReadAhead, ReadError};
pub use error::{Error, Result};
pub use fs::{Entry, Fs, Portion, WHOLE_MAX, Xattr};
pub use listing::{DirListing, Listing};
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
