//! Trees to copy into a volume, read from a directory, a tar archive, or several of them in layers.
//!
//! [`read_tree`] returns a [`Tree`]: every name with its metadata, sorted and numbered the same way
//! each time, so that the writer can plan the whole volume first. Contents stay in the source and
//! are read on demand, from any number of threads.
//!
//! | module | what |
//! | --- | --- |
//! | [`tree`] | the result: nodes, names, metadata, attributes |
//! | [`budget`] | limits on archives: memory, content, work |
//! | [`content`] | the contents of files: data and holes |
//! | [`owner`] | changes of owners |
//! | [`label`] | SELinux labels by path |

use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;

use xfskit_format::timestamp::Timestamp;

use crate::stdin::Stdin;

pub mod budget;
pub mod content;
pub mod label;
mod node_id;
pub mod owner;
pub mod tree;

mod disk;
mod draft;
mod tar;
mod unread;
mod walk;
mod xattr;

use budget::Budget;
use draft::Draft;

pub use budget::Limit;
pub use content::{Content, Segment};
pub use label::Labels;
pub use node_id::NodeId;
pub use owner::{MapError, Owners};
pub use tree::{Kind, Meta, Node, Notes, Tree, Xattr};
pub use unread::Unread;

/// The source of one layer of a tree. Later layers replace entries of earlier ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A directory with everything below it. Mounts below it are entered, symbolic links are not.
    Dir(PathBuf),
    /// One name of a directory (a file, a link or a tree) as the only name of the root.
    Name(PathBuf),
    /// A tar archive: plain, or compressed with gzip, zstd or xz.
    Tar(PathBuf),
    /// A tar archive on standard input.
    Stdin,
}

impl Source {
    /// Returns the source that a command's argument names: `-` is standard input, a directory is
    /// itself, and anything else is an archive.
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

/// Options of reading a tree.
#[derive(Clone, Debug, Default)]
pub struct SourceOptions {
    /// Applies the whiteouts of OCI layers (`.wh.NAME` removes NAME, `.wh..wh..opq` empties its
    /// directory) instead of copying them as files.
    pub whiteouts: bool,
    /// Files that are left out wherever they are found: the image being written.
    pub exclude: Vec<PathBuf>,
    /// SOURCE_DATE_EPOCH: later times are set to this one, and access times, which every reading
    /// changes, to the modification times.
    pub epoch: Option<Timestamp>,
    /// Changes of owners.
    pub owners: Option<Owners>,
    /// SELinux labels to set.
    pub labels: Option<Labels>,
    /// Directory for an unnamed file with the unpacked contents of compressed and streamed
    /// archives. `None` is the system's directory for temporary files.
    pub spool_dir: Option<PathBuf>,
    /// Directory with the `passwd` and `group` that map names in an archive's ACLs to numbers (GNU
    /// tar writes names there; owners of files are always numbers). `None` is `/etc`.
    pub accounts: Option<PathBuf>,
    /// Fails if something cannot be read and would be left out ([`Notes::left_out`]).
    pub strict: bool,
    /// Memory for names and attributes of archives, in bytes. With `None` it depends on the
    /// archives' size and the machine's memory ([`budget`]).
    pub memory_limit: Option<u64>,
    /// Bytes of content that archives may bring; `None` for any number.
    pub content_limit: Option<u64>,
    /// The input of [`Source::Stdin`]. It also ends the wait for archives that are named pipes.
    pub stdin: Stdin,
}

/// Progress of the reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Names found so far.
    pub names: u64,
    /// Bytes of archives read so far (compressed).
    pub bytes: u64,
}

/// The reason why a tree could not be read. Each variant names a path or an archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// A call on a file or directory of the source failed.
    #[error("{}: {error}", String::from_utf8_lossy(path))]
    Io {
        /// Path of the file or directory.
        path: Vec<u8>,
        /// The error of the system.
        error: io::Error,
    },
    /// The caller may not read the file.
    #[error(
        "{}: permission denied; run as root, or leave it out of the tree",
        String::from_utf8_lossy(path)
    )]
    Denied {
        /// Path of the file.
        path: Vec<u8>,
    },
    /// XFS cannot hold this.
    #[error("{}: {what}", String::from_utf8_lossy(path))]
    Unfit {
        /// Path of the file.
        path: Vec<u8>,
        /// The property that is too long, too large, or too many.
        what: String,
    },
    /// Linux does not list the attributes of a file, because there are more than it can list.
    #[error(
        "{}: its attributes' names are longer than the 65536 bytes that Linux lists; of them only its ACLs, \
         capabilities and label are copied",
        String::from_utf8_lossy(path)
    )]
    TooManyXattrs {
        /// Path of the file.
        path: Vec<u8>,
    },
    /// A file changed after the tree was read.
    #[error("{}: changed while it was read", String::from_utf8_lossy(path))]
    Changed {
        /// Path of the file.
        path: Vec<u8>,
    },
    /// The archive is damaged, or the input is not an archive.
    #[error("{archive}: at byte {at} of the archive: {what}")]
    Archive {
        /// Name of the archive.
        archive: String,
        /// First byte of the header (or the data) in question, in the uncompressed archive.
        at: u64,
        /// The problem.
        what: String,
    },
    /// An archive exceeds a limit.
    #[error("{archive}: at byte {at} of the archive: {}{limit}", with_colon(path))]
    Limit {
        /// Name of the archive.
        archive: String,
        /// Bytes of the uncompressed archive read so far.
        at: u64,
        /// Path of the member; empty if its name is not known yet.
        path: Vec<u8>,
        /// The limit.
        limit: Limit,
    },
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
}

/// Formats a path in front of a message.
fn with_colon(path: &[u8]) -> String {
    if path.is_empty() { String::new() } else { format!("{}: ", String::from_utf8_lossy(path)) }
}

impl From<Limit> for SourceError {
    /// Archive, byte and member are filled in by the reader.
    fn from(limit: Limit) -> Self {
        Self::Limit { archive: String::new(), at: 0, path: Vec::new(), limit }
    }
}

impl SourceError {
    /// Returns the path of the file that the error is about; empty if it is about an archive.
    pub fn path(&self) -> &[u8] {
        match self {
            Self::Io { path, .. }
            | Self::Denied { path }
            | Self::Unfit { path, .. }
            | Self::TooManyXattrs { path }
            | Self::Changed { path }
            | Self::Limit { path, .. } => path,
            Self::Archive { .. } | Self::Stopped => &[],
        }
    }

    /// Returns the error of a call on `path`.
    pub(crate) fn io(path: &[u8], error: impl Into<io::Error>) -> Self {
        let error = error.into();
        if error.kind() == io::ErrorKind::PermissionDenied {
            return Self::Denied { path: path.to_vec() };
        }
        Self::Io { path: path.to_vec(), error }
    }
}

/// Called now and then with the progress of the reading; may stop it.
pub type OnProgress<'a> = &'a (dyn Fn(Progress) -> ControlFlow<()> + Sync);

/// Reads a tree, layer by layer.
///
/// # Errors
/// A source cannot be read, or has something that XFS cannot hold.
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
    tree.unread.strict = strict;
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

#[cfg(test)]
mod tests;
