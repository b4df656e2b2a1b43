//! Floor 6: copies the metadata of a volume to a file, and a file back to an image.
//!
//! The files are those of `xfs_metadump` and `xfs_mdrestore`, in both of their formats
//! (`docs/format/metadump.md`). A [`Dump`] walks the structures of a volume, which may be damaged:
//! a block that fails its verifier is copied too, and a pointer that leads nowhere is a
//! [`Warning`]. Content of files is never copied. Names are obfuscated so that their hashes stay,
//! which keeps directories and attributes valid.
//!
//! | read in this order | content |
//! | --- | --- |
//! | [`format`](mod@format) | the two file formats: header, flags, addresses |
//! | [`writer`], [`reader`] | files written and read as streams |
//! | [`names`] | obfuscation of names |
//! | [`runs`] | ranges of blocks with a use |
//! | `clean` | blocks without stale bytes and clear names |
//! | `walk`, `forks` | where the metadata of a volume lies |
//! | `ordered` | pieces of work on several threads, with results in order |
//! | `copy` | ranges of blocks read, cleaned and written |
//! | `journal` | the journal: cleared, replayed or copied |
//! | [`dump`] | a volume copied to a file |
//! | [`restore`] | a file copied to a device |
//! | [`mode`] | what to do with the journal, and what was done |
//! | [`report`], [`error`] | counts and warnings; what can go wrong |
#![warn(clippy::unwrap_used)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod clean;
mod copy;
pub mod dump;
pub mod error;
mod forks;
pub mod format;
mod journal;
pub mod mode;
pub mod names;
mod ordered;
pub mod reader;
pub mod report;
pub mod restore;
pub mod runs;
mod walk;
pub mod writer;

pub use dump::{Dump, Prepared, Watch};
pub use error::{Error, Result};
pub use format::{Content, FileFormat};
pub use mode::{Handling, JournalMode};
pub use reader::Reader;
pub use report::{Phase, Progress, Report, Silent, Warning, WarningKind};
pub use restore::{Restore, Restored, Targets};
