//! Copies a tree, or a stream, into an existing volume.
//!
//! Existing directories are filled. An existing file is replaced only when the new one is complete:
//! the new one is made under another name and then renamed. A directory never replaces a file, nor
//! a file a directory. A copy that ends early leaves only whole files.

use std::io::{self, Read};
use std::ops::ControlFlow;

use serde::Serialize;
use xfskit_units::Ino;
use xfskit_vfs::{Error, FileType, Fs, NewNode, RenameMode, SetAttr, SetMode, join};

use crate::readahead::ReadAhead;
use crate::source::{Kind, Labels, Meta, NodeId, Owners, Segment, SourceError, Tree};
use crate::xattrs::copy_xattrs;

/// Number of bytes written at once.
const PIECE: usize = 1 << 20;
/// The attribute with a program's capabilities.
const CAPABILITY: &[u8] = b"security.capability";

/// Where a tree is copied to.
#[derive(Clone, Copy, Debug)]
pub struct Destination<'d> {
    /// The directory that becomes the tree's root.
    pub dir: Ino,
    /// Its path in the volume.
    pub path: &'d [u8],
    /// Another name for the root's only child.
    pub name: Option<&'d [u8]>,
    /// Sets mode, owner, times and attributes of the directory to those of the tree's root.
    pub set_root: bool,
}

/// Changes to the tree's metadata.
#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    /// Owners, by path in the volume.
    pub owners: Option<Owners>,
    /// SELinux labels, by path in the volume.
    pub labels: Option<Labels>,
}

/// Counts of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Put {
    /// Names, existing directories included.
    pub names: u64,
    /// Bytes of content.
    pub bytes: u64,
}

/// The reason why a copy ended early. What was copied before stays.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PutError {
    /// The source cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The stream cannot be read.
    #[error("the stream: {0}")]
    Stream(io::Error),
    /// The volume refused a change.
    #[error("{}", about(path, error))]
    Volume {
        /// Path in the volume.
        path: Vec<u8>,
        /// The error.
        error: Error,
    },
    /// A directory is in the way of something else, or something else in the way of a directory.
    #[error("{}: {}", String::from_utf8_lossy(path), if *is_dir {
        "a directory is there, and what should go there is none"
    } else {
        "a file is there, and a directory should go there"
    })]
    Clash {
        /// Path in the volume.
        path: Vec<u8>,
        /// True if a directory is in the way.
        is_dir: bool,
    },
    /// A directory would be copied below itself.
    #[error("{}: a directory cannot be copied below itself", String::from_utf8_lossy(path))]
    BelowItself {
        /// Path in the volume that the copy would have.
        path: Vec<u8>,
    },
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
}

impl PutError {
    /// Returns the same error with `path`.
    #[must_use]
    pub fn at(self, path: &[u8]) -> Self {
        match self {
            Self::Volume { error, .. } => Self::Volume { path: path.to_vec(), error },
            Self::Clash { is_dir, .. } => Self::Clash { path: path.to_vec(), is_dir },
            other => other,
        }
    }
}

/// Formats an error with the path before it, unless the error has it already.
fn about(path: &[u8], error: &Error) -> String {
    let (path, text) = (String::from_utf8_lossy(path), error.to_string());
    if text.starts_with(&format!("{path}: ")) { text } else { format!("{path}: {text}") }
}

/// Called after each name and piece with the counts so far; may stop the copy.
pub type OnPut<'a> = &'a dyn Fn(Put) -> ControlFlow<()>;

/// Writes bytes at an offset of a file.
type Writer<'w> = dyn FnMut(u64, &[u8]) -> Result<(), PutError> + 'w;

/// Copies `tree` into the volume.
///
/// # Errors
/// [`PutError`]. What was copied before it stays.
pub fn put(
    fs: &Fs,
    tree: &Tree,
    to: &Destination<'_>,
    options: &PutOptions,
    on_put: OnPut<'_>,
) -> Result<Put, PutError> {
    ReadAhead::with(tree, |ahead| {
        let inos = vec![None; tree.len()];
        Copy { fs, tree, ahead, to, options, on_put, inos, done: Put::default() }.all()
    })
}

/// Copies `stream` into the file `name` of directory `dir`, and returns its length in bytes. An
/// existing file is replaced. `new` has the metadata of the new one. Attributes and ACL of the old
/// file are kept, except capabilities, because writing a file clears them.
///
/// # Errors
/// [`PutError`]. Nothing has changed then.
pub fn put_stream(
    fs: &Fs,
    (dir, name): (Ino, &[u8]),
    stream: &mut dyn Read,
    new: &NewNode,
    on_put: OnPut<'_>,
) -> Result<u64, PutError> {
    let at = |error| PutError::Volume { path: name.to_vec(), error };
    let there = entry(fs, dir, name).map_err(at)?;
    if there.is_some_and(|(_, is_dir)| is_dir) {
        return Err(PutError::Clash { path: name.to_vec(), is_dir: true });
    }
    let mut at_byte = 0;
    replace(fs, (dir, name), there.is_some(), new, at, |ino| {
        let handle = fs.open(ino).map_err(at)?;
        let mut piece = vec![0; PIECE];
        loop {
            let len = match stream.read(&mut piece) {
                Ok(0) => break,
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                Err(error) => return Err(PutError::Stream(error)),
            };
            handle.write(at_byte, &piece[..len]).map_err(at)?;
            at_byte += len as u64;
            if on_put(Put { names: 0, bytes: at_byte }).is_break() {
                return Err(PutError::Stopped);
            }
        }
        handle.close().map_err(at)?;
        let Some((old, _)) = there else { return Ok(()) };
        let is_file = fs.inode(old).map_err(at)?.core().file_type() == Some(FileType::Regular);
        let stays = |name: &[u8]| is_file && name != CAPABILITY;
        copy_xattrs(fs, old, ino, stays).map_err(at)
    })?;
    Ok(at_byte)
}

/// Makes `new` under a temporary name, has it filled, and only then renames it to `name`. On an
/// error the directory is unchanged.
pub(crate) fn replace(
    fs: &Fs,
    (dir, name): (Ino, &[u8]),
    is_there: bool,
    new: &NewNode,
    at: impl Fn(Error) -> PutError,
    fill: impl FnOnce(Ino) -> Result<(), PutError>,
) -> Result<Ino, PutError> {
    let aside = is_there.then(|| format!(".xfskit.{}", std::process::id()).into_bytes());
    let first = aside.as_deref().unwrap_or(name);
    let ino = fs.make(dir, first, new).map_err(&at)?;
    let filled = fill(ino).and_then(|()| {
        if !is_there {
            return Ok(());
        }
        fs.rename(dir, first, dir, name, RenameMode::Replace).map_err(&at)
    });
    if let Err(error) = filled {
        // If the unlink fails too, the first error is the cause.
        let _ = fs.unlink(dir, first);
        return Err(error);
    }
    Ok(ino)
}

/// Returns the inode of `name` in `dir`, and whether it is a directory.
pub(crate) fn entry(fs: &Fs, dir: Ino, name: &[u8]) -> xfskit_vfs::Result<Option<(Ino, bool)>> {
    let Some((ino, _)) = fs.volume().lookup(&fs.inode(dir)?, name)? else { return Ok(None) };
    Ok(Some((ino, fs.inode(ino)?.core().is_dir())))
}

/// A running copy.
struct Copy<'c> {
    fs: &'c Fs,
    tree: &'c Tree,
    ahead: &'c ReadAhead<'c>,
    to: &'c Destination<'c>,
    options: &'c PutOptions,
    on_put: OnPut<'c>,
    /// The inode of each node.
    inos: Vec<Option<Ino>>,
    done: Put,
}

impl Copy<'_> {
    fn check_stop(&self) -> Result<(), PutError> {
        match (self.on_put)(self.done) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(PutError::Stopped),
        }
    }

    fn all(mut self) -> Result<Put, PutError> {
        self.inos[0] = Some(self.to.dir);
        for id in self.tree.ids().skip(1) {
            match self.name(id) {
                Err(PutError::Source(_)) if self.tree.is_gone(self.tree.inode(id)) => continue,
                done => done?,
            }
            self.done.names += 1;
            self.check_stop()?;
        }
        // After their contents, which change their times.
        for id in self.tree.ids().rev() {
            let is_dir = matches!(self.tree.node(id).kind, Kind::Dir { .. });
            if let Some(ino) = self.inos[id.index()].filter(|_| is_dir)
                && (id != NodeId::ROOT || self.to.set_root)
            {
                self.set_metadata(id, ino)?;
            }
        }
        Ok(self.done)
    }

    /// Returns the path of a node in the volume.
    fn path(&self, id: NodeId) -> Vec<u8> {
        let below = self.tree.path(id);
        match self.to.name {
            _ if below.is_empty() => self.to.path.to_vec(),
            Some(name) => {
                let first = below.iter().position(|&b| b == b'/').unwrap_or(below.len());
                [&join(self.to.path, name), &below[first..]].concat()
            }
            None => join(self.to.path, &below),
        }
    }

    fn at(&self, id: NodeId) -> impl Fn(Error) -> PutError + '_ {
        move |error| PutError::Volume { path: self.path(id), error }
    }

    /// Copies one name.
    fn name(&mut self, id: NodeId) -> Result<(), PutError> {
        let node = self.tree.node(id);
        let Some(dir) = self.inos[node.parent.index()] else { return Ok(()) };
        let renamed = self.to.name.filter(|_| node.parent == NodeId::ROOT);
        let name = renamed.unwrap_or_else(|| self.tree.name(id));
        let there = entry(self.fs, dir, name).map_err(self.at(id))?;
        let is_dir = matches!(node.kind, Kind::Dir { .. });
        let ino = match there {
            Some((_, was_dir)) if was_dir != is_dir => {
                return Err(PutError::Clash { path: self.path(id), is_dir: was_dir });
            }
            Some((ino, true)) => ino,
            _ => self.make(id, dir, name, there.map(|(ino, _)| ino))?,
        };
        self.inos[id.index()] = Some(ino);
        Ok(())
    }

    /// Makes a node's inode, or adds a name to the inode it has.
    fn make(
        &mut self,
        id: NodeId,
        dir: Ino,
        name: &[u8],
        there: Option<Ino>,
    ) -> Result<Ino, PutError> {
        let fs = self.fs;
        if let Kind::HardLink(target) = self.tree.node(id).kind {
            let Some(ino) = self.inos[target.index()] else {
                return Err(SourceError::Changed { path: self.tree.path(id) }.into());
            };
            if there == Some(ino) {
                return Ok(ino);
            }
            if there.is_some() {
                fs.unlink(dir, name).map_err(self.at(id))?;
            }
            fs.link(ino, dir, name).map_err(self.at(id))?;
            return Ok(ino);
        }
        let new = self.new_node(id);
        let is_dir = matches!(self.tree.node(id).kind, Kind::Dir { .. });
        if is_dir {
            return fs.make(dir, name, &new).map_err(self.at(id));
        }
        let mut bytes = self.done.bytes;
        let made = replace(fs, (dir, name), there.is_some(), &new, self.at(id), |ino| {
            bytes = self.fill(id, ino)?;
            self.set_metadata(id, ino)
        })?;
        self.done.bytes = bytes;
        Ok(made)
    }

    /// Returns the properties of a new inode for a node.
    fn new_node(&self, id: NodeId) -> NewNode {
        let meta = self.meta(id);
        let (file_type, rdev) = match self.tree.node(id).kind {
            Kind::Dir { .. } => (FileType::Directory, None),
            Kind::Symlink { .. } => (FileType::Symlink, None),
            Kind::Char { major, minor } => (FileType::CharDevice, Some((major, minor))),
            Kind::Block { major, minor } => (FileType::BlockDevice, Some((major, minor))),
            Kind::Fifo => (FileType::Fifo, None),
            Kind::Socket => (FileType::Socket, None),
            Kind::File { .. } | Kind::HardLink(_) => (FileType::Regular, None),
        };
        let target = (file_type == FileType::Symlink).then(|| self.tree.target(id).to_vec());
        let mode = file_type.mode() | meta.perm;
        let (uid, gid) = (meta.uid, meta.gid);
        NewNode { mode, uid, gid, rdev, target, brings_acls: true, ..NewNode::default() }
    }

    /// Copies the content of a node without its holes. Returns the bytes of all contents so far.
    fn fill(&self, id: NodeId, ino: Ino) -> Result<u64, PutError> {
        let mut done = self.done;
        let Kind::File { size, .. } = self.tree.node(id).kind else { return Ok(done.bytes) };
        if size == 0 {
            return Ok(done.bytes);
        }
        let at = self.at(id);
        let handle = self.fs.open(ino).map_err(&at)?;
        let mut write = |offset: u64, piece: &[u8]| {
            handle.write(offset, piece).map_err(&at)?;
            done.bytes += piece.len() as u64;
            match (self.on_put)(done) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(PutError::Stopped),
            }
        };
        let segments = match self.ahead.take(id)? {
            Some(whole) => {
                whole.parts().try_for_each(|(segment, part)| write(segment.offset, part))?;
                whole.segments
            }
            None => self.in_pieces(id, &mut write)?,
        };
        if self.tree.is_gone(id) {
            return Err(SourceError::Changed { path: self.tree.path(id) }.into());
        }
        let copied = self.tree.copied_size(id);
        if copied < size || segments.last().map_or(0, |segment| segment.end()) < size {
            handle.truncate(copied).map_err(&at)?;
        }
        handle.close().map_err(&at)?;
        Ok(done.bytes)
    }

    /// Copies a large file piece by piece. Returns the ranges with data.
    fn in_pieces(&self, id: NodeId, write: &mut Writer<'_>) -> Result<Vec<Segment>, PutError> {
        let (content, segments) = (self.tree.open(id)?, self.tree.segments(id)?);
        let mut piece = Vec::new();
        for segment in &segments {
            let mut offset = segment.offset;
            while offset < segment.end() {
                let len = usize::try_from(segment.end() - offset).unwrap_or(PIECE).min(PIECE);
                piece.resize(len, 0);
                content.read_at(offset, &mut piece)?;
                write(offset, &piece)?;
                offset += len as u64;
            }
        }
        Ok(segments)
    }

    /// Returns mode, owner and times for a node.
    fn meta(&self, id: NodeId) -> Meta {
        let mut meta = self.tree.node(id).meta;
        if let Some(owners) = &self.options.owners {
            owners.set_owner(&self.path(id), &mut meta);
        }
        meta
    }

    /// Sets an inode's metadata to that of its node. Times come last.
    fn set_metadata(&self, id: NodeId, ino: Ino) -> Result<(), PutError> {
        let (node, fs) = (self.tree.node(id), self.fs);
        for xattr in self.tree.xattrs(id) {
            fs.set_stored_xattr(ino, xattr.namespace, &xattr.name, &xattr.value, SetMode::Any)
                .map_err(self.at(id))?;
        }
        if let Some(labels) = &self.options.labels
            && let Some(label) = labels.label(&self.path(id), &node.kind)?
        {
            fs.set_xattr(ino, b"security.selinux", label, SetMode::Any).map_err(self.at(id))?;
        }
        let meta = self.meta(id);
        let set = SetAttr {
            perm: Some(meta.perm),
            uid: Some(meta.uid),
            gid: Some(meta.gid),
            atime: Some(meta.atime),
            mtime: Some(meta.mtime),
            ..SetAttr::default()
        };
        fs.set_attr(ino, &set).map_err(self.at(id))
    }
}
