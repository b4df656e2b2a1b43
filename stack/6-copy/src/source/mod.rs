//! Trees to be put into a volume, read from where they are: a directory, a tar archive, or several
//! of them in layers.
//!
//! [`read_tree`] answers with a [`Tree`]: every name with its metadata, sorted and numbered the
//! same way each time, so that whoever writes the volume can plan all of it first. Contents stay
//! where they are and are read on demand, from any number of threads.
//!
//! | module | what |
//! | --- | --- |
//! | [`tree`] | the result: nodes, names, metadata, attributes |
//! | [`budget`] | what archives may take: memory, content, work |
//! | [`content`] | what files hold: data and holes, wherever it lies |
//! | [`owner`] | owners that differ from the source's |
//! | [`label`] | SELinux labels by path |

use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;

use xfskit_format::timestamp::Timestamp;

use crate::stdin::Stdin;

pub mod budget;
pub mod content;
pub mod label;
pub mod owner;
pub mod tree;

mod disk;
mod draft;
mod tar;
mod walk;
mod xattr;

#[cfg(test)]
mod tests;

use budget::Budget;
use draft::Draft;

pub use budget::Limit;
pub use content::{Content, Segment};
pub use label::Labels;
pub use owner::{MapError, Owners};
pub use tree::{Kind, Meta, Node, NodeId, Notes, Tree, Xattr};

/// Where one layer of a tree comes from. Later layers lie over earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A directory, with everything below it; mounts below are entered, symbolic links are not.
    Dir(PathBuf),
    /// One name of a directory, be it a file, a link or a tree, as the only name of the root.
    Name(PathBuf),
    /// A tar archive: plain, or compressed with gzip, zstd or xz.
    Tar(PathBuf),
    /// A tar archive on standard input.
    Stdin,
}

impl Source {
    /// The source that an argument of a command names: `-` is standard input, a directory is
    /// itself, and all else should be an archive.
    pub fn named(name: PathBuf) -> Self {
        if name.as_os_str() == "-" {
            Self::Stdin
        } else if name.is_dir() {
            Self::Dir(name)
        } else {
            Self::Tar(name)
        }
    }
}

/// How a tree is read.
#[derive(Clone, Debug, Default)]
pub struct SourceOptions {
    /// Obey the whiteouts of OCI layers (`.wh.NAME` removes NAME, `.wh..wh..opq` empties its
    /// directory) instead of taking them for files.
    pub whiteouts: bool,
    /// Files left out wherever a directory holds them: the image being written.
    pub exclude: Vec<PathBuf>,
    /// SOURCE_DATE_EPOCH: later times become this one, and access times, which differ with every
    /// reading, become the modification times.
    pub epoch: Option<Timestamp>,
    /// Owners that differ from the source's.
    pub owners: Option<Owners>,
    /// SELinux labels to set.
    pub labels: Option<Labels>,
    /// Where compressed and streamed archives are unpacked to, in a file without a name. The
    /// system's directory for temporary files where `None`.
    pub spool_dir: Option<PathBuf>,
    /// Directory whose `passwd` and `group` tell the numbers of users and groups that an archive's
    /// ACLs name (GNU tar writes names; owners of files always go by number). `/etc` where `None`.
    pub accounts: Option<PathBuf>,
    /// Fail where something cannot be read and would be left out ([`Notes::left_out`]).
    pub strict: bool,
    /// Memory that names and attributes of archives may take, in bytes. Where `None` it goes by the
    /// archives' size and the machine's memory ([`budget`]).
    pub memory_limit: Option<u64>,
    /// Bytes of content that archives may bring; `None` for any number.
    pub content_limit: Option<u64>,
    /// What [`Source::Stdin`] reads, and who may end the wait for it, and for archives that are
    /// named pipes.
    pub stdin: Stdin,
}

/// How far the reading is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Names found so far.
    pub names: u64,
    /// Bytes of archives read so far, as they come (compressed).
    pub bytes: u64,
}

/// Why a tree could not be read. Every one names the place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A call on a file or directory of the source failed.
    #[error("{}: {error}", String::from_utf8_lossy(path))]
    Io {
        /// Which.
        path: Vec<u8>,
        /// What the system said.
        error: io::Error,
    },
    /// The caller may not read it.
    #[error(
        "{}: permission denied; run as root, or leave it out of the tree",
        String::from_utf8_lossy(path)
    )]
    Denied {
        /// Which.
        path: Vec<u8>,
    },
    /// XFS has no place for this.
    #[error("{}: {what}", String::from_utf8_lossy(path))]
    Unfit {
        /// Which.
        path: Vec<u8>,
        /// What is too long, too large, or too many.
        what: String,
    },
    /// Linux does not list its attributes: XFS can hold more.
    #[error(
        "{}: its attributes' names are longer than the 65536 bytes that Linux lists; of them only its ACLs, \
         capabilities and label are copied",
        String::from_utf8_lossy(path)
    )]
    TooManyXattrs {
        /// Whose.
        path: Vec<u8>,
    },
    /// A file is not any more what it was when the tree was read.
    #[error("{}: changed while it was read", String::from_utf8_lossy(path))]
    Changed {
        /// Which.
        path: Vec<u8>,
    },
    /// An archive is damaged, or none.
    #[error("{archive}: at byte {at} of the archive: {what}")]
    Archive {
        /// Which archive.
        archive: String,
        /// Where the header (or the data) in question begins, in bytes of the uncompressed archive.
        at: u64,
        /// What is wrong.
        what: String,
    },
    /// An archive takes more than it may.
    #[error("{archive}: at byte {at} of the archive: {}{limit}", with_colon(path))]
    Limit {
        /// Which archive.
        archive: String,
        /// How far it was read, in bytes of the uncompressed archive.
        at: u64,
        /// Which member; empty where its name is not known yet.
        path: Vec<u8>,
        /// Which limit.
        limit: Limit,
    },
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
}

/// A path in front of a message.
fn with_colon(path: &[u8]) -> String {
    if path.is_empty() { String::new() } else { format!("{}: ", String::from_utf8_lossy(path)) }
}

impl From<Limit> for SourceError {
    /// The place is filled in where it is known.
    fn from(limit: Limit) -> Self {
        Self::Limit { archive: String::new(), at: 0, path: Vec::new(), limit }
    }
}

impl SourceError {
    /// The error of a call on `path`.
    pub(crate) fn io(path: &[u8], error: impl Into<io::Error>) -> Self {
        let error = error.into();
        if error.kind() == io::ErrorKind::PermissionDenied {
            return Self::Denied { path: path.to_vec() };
        }
        Self::Io { path: path.to_vec(), error }
    }
}

/// Told how far the reading is, now and then; may stop it.
pub type OnProgress<'a> = &'a (dyn Fn(Progress) -> ControlFlow<()> + Sync);

/// Reads a tree, layer upon layer.
///
/// # Errors
/// Where a source cannot be read, or holds what XFS cannot.
pub fn read_tree(
    sources: &[Source],
    options: &SourceOptions,
    on_progress: OnProgress<'_>,
) -> Result<Tree, SourceError> {
    let exclude: Vec<(u64, u64)> =
        options.exclude.iter().filter_map(|path| disk::identity(path)).collect();
    let spool_dir = options.spool_dir.clone().unwrap_or_else(std::env::temp_dir);
    let (strict, whiteouts) = (options.strict, options.whiteouts);
    let mut draft = Draft::new();
    let mut budget = Budget::new(options, on_progress);
    for source in sources {
        draft.begin_layer()?;
        match source {
            Source::Dir(path) => {
                let number = draft.stores.next_dir()?;
                let root = disk::Root::open(path)?;
                let walk = walk::Start {
                    root: &root,
                    number,
                    only: None,
                    exclude: &exclude,
                    strict,
                    whiteouts,
                };
                walk::walk(&mut draft, &walk, &mut budget.progress, on_progress)?;
                draft.stores.dirs.push(root);
            }
            Source::Name(path) => {
                let number = draft.stores.next_dir()?;
                let (dir, name) = disk::split(path)?;
                let root = disk::Root::open(dir)?;
                let walk = walk::Start {
                    root: &root,
                    number,
                    only: Some(name),
                    exclude: &exclude,
                    strict,
                    whiteouts,
                };
                walk::walk(&mut draft, &walk, &mut budget.progress, on_progress)?;
                draft.stores.dirs.push(root);
            }
            Source::Tar(path) => {
                let input = tar::Input::open(path, &spool_dir, &options.stdin, &mut budget)?;
                tar::read(&mut draft, input, options)?;
            }
            Source::Stdin => {
                let name = "standard input".to_owned();
                let stdin = options.stdin.clone();
                let input = tar::Input::stream(name, stdin, &spool_dir, &mut budget)?;
                tar::read(&mut draft, input, options)?;
            }
        }
    }
    let mut tree = draft.finish()?;
    if let Some(epoch) = options.epoch {
        tree.clamp_times(epoch);
    }
    if let Some(owners) = &options.owners {
        owners.apply(&mut tree);
    }
    if let Some(labels) = &options.labels {
        labels.apply(&mut tree)?;
    }
    Ok(tree)
}
