//! Floor 8: XFS volumes from Rust, package `xfskit`.
//!
//! Opens, reads and changes XFS volumes in user space: image files, block devices, partitions,
//! logical volumes, Linux md arrays (with members missing, too) and memory. No kernel driver and no
//! root privileges are needed. [`Volume`] has the calls of [`std::fs`] as methods, [`File`] is what
//! [`std::fs::File`] is, and the names mean the same.
//!
//! # Read
//!
//! Opening and reading never write: a dirty journal is replayed in memory.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::io::{BufRead, BufReader};
//!
//! let volume = xfskit::Volume::open("disk.img#p2")?;
//! for entry in volume.read_dir("/etc")? {
//!     println!("{}", entry?.file_name().display());
//! }
//! let fstab = volume.read_to_string("/etc/fstab")?;
//! let passwd = BufReader::new(volume.open_file("/etc/passwd")?);
//! println!("{} users, fstab has {} bytes", passwd.lines().count(), fstab.len());
//! # Ok(()) }
//! ```
//!
//! # Damage
//!
//! Damage in one place does not hide the rest. [`ReadDir`], [`WalkDir`] and [`Xattrs`] give it as
//! items, with what can be read around it; the [`Error`] has the path and the
//! [finding](Error::corruption).
//!
//! ```no_run
//! # fn main() -> Result<(), xfskit::Error> {
//! # let volume = xfskit::Volume::open("disk.img")?;
//! for entry in volume.walk_dir("/home")? {
//!     match entry {
//!         Ok(file) => println!("{} {}", file.metadata().len(), file.path().display()),
//!         Err(error) => eprintln!("{error} ({:?})", error.kind()),
//!     }
//! }
//! # Ok(()) }
//! ```
//!
//! # Change
//!
//! A volume that is open for writing is changed from as many threads as there are. Each change
//! happens as a whole or not at all. It is durable after [`File::sync_all`], [`Volume::sync`] or
//! [`Volume::close`].
//!
//! ```
//! use std::io::Write;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = std::env::temp_dir().join(format!("xfskit-doc-{}", std::process::id()));
//! # let image = dir.as_path();
//! let volume = xfskit::Mkfs::new().size(300 << 20).create(image)?;
//! volume.create_dir_all("/srv/www")?;
//! volume.write("/srv/www/index.html", "<p>Hello</p>")?;
//! volume.rename("/srv/www/index.html", "/srv/www/home.html")?;
//! volume.copy("/srv/www/home.html", "/srv/copy")?; // shares the blocks
//!
//! let mut log = volume.create("/srv/log")?;
//! writeln!(log, "a line")?;
//! log.sync_all()?;
//! drop(log);
//! volume.close()?;
//! # std::fs::remove_file(image)?;
//! # Ok(()) }
//! ```
//!
//! # Where to go on
//!
//! | | |
//! | --- | --- |
//! | [`Volume`] | every operation on paths |
//! | [`VolumeOptions`] | for writing, with an external log, without recovery, with less memory |
//! | [`File`], [`OpenOptions`] | content: streams, reads and writes at an offset, holes, reflinks |
//! | [`Metadata`], [`Permissions`], [`FileTimes`], [`Acl`], [`Xattr`] | metadata of a file |
//! | [`ReadDir`], [`WalkDir`], [`WalkDirs`] | directories and trees |
//! | [`WalkParallel`], [`Bulkstat`] | everything, as fast as the device allows |
//! | [`NewFile`] | files of every type created, with their owner |
//! | [`Mkfs`], [`Build`] | volumes made: empty, or from a tree or a tar archive |
//! | [`Put`], [`Extract`], [`CopyTree`] | trees copied in, out, within; [`Problem`]s on the way |
//! | [`Check`] | a volume checked, finding by finding |
//! | [`Repair`] | a volume repaired, after a plan; [`undo`] takes it back |
//! | [`Salvage`] | all that can be read of a damaged volume, copied out |
//! | [`FindPaths`], [`FindOwners`] | the paths of inodes, the owners of blocks |
//! | [`Undelete`] | removed files found, copied out, given back in place |
//! | [`Metadump`], [`RestoreMetadump`] | the metadata of a volume in a file, and back |
//! | [`target`] | names of devices, the devices, what a disk holds |
//! | [`md`] | arrays: made, examined, managed, rebuilt, compared |
//! | [`Superblock`], [`Journal`], [`inspect`] | what the disk holds, structure by structure |
//! | [`compat`] | which kernels and boot loaders can read a volume |
//! | `Mount` | a volume as a mounted filesystem (feature `mount`) |
//! | [`Snapshot`] | the devices of a mounted volume at one moment |
//! | [`Error`], [`ErrorKind`] | what can go wrong |
//! | [`raw`] | the floors below, without any promise |
//!
//! `examples/` has programs of ten lines for the usual jobs.
//!
//! # Features
//!
//! All of the above needs a device and nothing else of the machine, but for one builder behind a
//! feature that is off by default: `mount` serves volumes as mounted filesystems, by FUSE. What
//! else needs more than a device, such as a server, is added in the same way.

mod about;
mod acl;
pub mod allocator;
mod attributes;
mod below_volume;
mod build;
mod builder;
mod bulkstat;
mod cancel_device;
mod cause;
mod check;
pub mod compat;
mod dir;
mod error;
mod extract;
mod file;
mod find_owners;
mod find_paths;
mod given_back;
pub mod inspect;
mod journal;
mod lost_found;
pub mod md;
mod metadata;
mod metadump;
mod mkfs;
#[cfg(feature = "mount")]
mod mount;
mod names;
mod node;
mod notice;
mod open_options;
mod paths;
mod progress;
mod put;
pub mod raw;
mod remove_all;
mod repair;
mod restore;
mod salvage;
mod shared;
mod snapshot;
mod superblock;
pub mod target;
mod time;
mod undelete;
mod volume;
mod volume_options;
mod walk;
mod walk_dirs;
mod walk_parallel;
mod xattr;

pub use about::{Group, HealLog};
pub use acl::{Acl, AclEntry, AclTag};
pub use build::{Build, Built};
pub use bulkstat::{Bulkstat, BulkstatEntry};
pub use check::{Check, Checked};
pub use dir::{DirEntry, ReadDir};
pub use error::{Error, ErrorKind, Result};
pub use extract::{Extract, Extracted};
pub use file::{Extent, ExtentMap, File, FileFork};
pub use find_owners::{BlockOwner, BlockRange, FindOwners, OwnedBlocks, OwnersFound};
pub use find_paths::{FindPaths, InodePaths, InodeState, PathsFound};
pub use journal::{Journal, JournalState};
pub use metadata::{FileTimes, FileType, Metadata, Permissions};
pub use metadump::{
    JournalHandling, Metadump, MetadumpContent, MetadumpFormat, MetadumpInfo, MetadumpJournal,
    MetadumpPhase, MetadumpReport, MetadumpWarning, MetadumpWarningKind, PreparedMetadump,
    RestoreMetadump, RestoredMetadump,
};
pub use mkfs::{Mkfs, MkfsPlan};
#[cfg(feature = "mount")]
pub use mount::{
    Carried, Carrier, IdMap, IdMapError, Mount, Mounted, OptionError, RequestKind, Requests,
};
pub use node::NewFile;
pub use notice::{Notice, Problem, ProblemKind};
pub use open_options::OpenOptions;
pub use progress::{CancelToken, Progress};
pub use put::{Copied, CopyTree, Put};
pub use repair::{
    AcceptLoss, ChangedFile, FileChange, LostJournal, PreparedRepair, Repair, RepairPhase,
    RepairPlan, RepairStep, RepairStepKind, Repaired, Unaccounted, UndoFile, Undone, undo,
};
pub use restore::RestoredFile;
pub use salvage::{Damage, Salvage, Salvaged};
pub use snapshot::Snapshot;
pub use superblock::Superblock;
pub use undelete::{
    Confidence, CopiedOut, LostRange, LostReason, RemovedExtent, RemovedFile, RemovedFiles,
    RemovedSize, Undelete, UndeletePhase,
};
pub use volume::Volume;
pub use volume_options::VolumeOptions;
pub use walk::{WalkDir, WalkEntry};
pub use walk_dirs::{DirContents, WalkDirs};
pub use walk_parallel::{FoundEntry, WalkParallel};
pub use xattr::{Xattr, Xattrs};
pub use xfskit_check::{Finding, Healing, Phase as CheckPhase, Report as CheckReport, Severity};
pub use xfskit_copy::SkippedCount;
pub use xfskit_copy::build::BuildError;
pub use xfskit_copy::source::{Limit, SourceError, Unread};
pub use xfskit_copy::stdin::Stdin;
pub use xfskit_core::superblock::SecondarySuperblock;
pub use xfskit_core::uuid::NewUuid;
pub use xfskit_core::{Closed, Healed, JournalOptions, LockStats, Orphan, Replay, Stats};
pub use xfskit_format::Corruption;
pub use xfskit_format::corruption::CheckId;
pub use xfskit_mkfs::{Error as MkfsError, Summary};
pub use xfskit_units::Uuid;
pub use xfskit_vfs::{RenameMode, SetMode as SetXattrMode, Statfs, Timestamp};
