//! The xfskit side: operations go through the library.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::sync::Arc;

use xfskit_core::Error as Core;
use xfskit_format::inode::FileType;
use xfskit_units::Ino;
use xfskit_vfs::{Error, Fs, Handle, NewNode, SetAttr, SetMode, Stat, Timestamp};

use crate::mem::{Facts, Id, Kind, Mem, Node, OpError, OpResult};
use crate::operation::{Fallocate, New, Operation, Time, TwoFileOp};

/// A description of how two sides differ.
pub type Difference = String;

/// A directory tree of a volume that xfskit has open.
#[derive(Debug)]
pub struct Ours {
    fs: Arc<Fs>,
    /// Inode numbers of the model's nodes.
    inos: HashMap<Id, Ino>,
}

impl Ours {
    /// Returns the tree below the empty directory `root`.
    pub fn below(fs: Arc<Fs>, root: Ino) -> Self {
        Self { fs, inos: HashMap::from([(0, root)]) }
    }

    /// Returns the tree of a volume that holds the nodes of `mem`. Each node is looked up by its
    /// path.
    ///
    /// # Errors
    /// The first node that is missing.
    pub fn find(fs: Arc<Fs>, mem: &Mem) -> Result<Self, Difference> {
        let root = fs.volume().geo().rootino;
        let mut side = Self::below(fs, root);
        for dir in mem.dirs() {
            let above = side.inode(dir)?;
            for (name, &id) in mem.entries(dir) {
                let found = side.fs.lookup(&above, name).map_err(|e| format!("look up: {e}"))?;
                let ino = found.ok_or_else(|| format!("{} is gone", name.escape_ascii()))?;
                let known = *side.inos.entry(id).or_insert(ino);
                same("inode", &ino, &known)?;
            }
        }
        Ok(side)
    }

    /// Returns the properties of the volume.
    pub fn facts(&self) -> Facts {
        let geo = self.fs.volume().geo();
        Facts {
            block: 1 << geo.blocklog,
            reflink: geo.features.reflink(),
            exchange: geo.features.exchange(),
        }
    }

    /// Returns the filesystem.
    pub fn fs(&self) -> &Fs {
        &self.fs
    }

    /// Reopens the volume with `open` and keeps the inode numbers.
    pub fn reopened(
        self,
        open: impl FnOnce(Fs) -> Result<Fs, Difference>,
    ) -> Result<Self, Difference> {
        let fs = Arc::into_inner(self.fs).ok_or("close: others have the volume open")?;
        Ok(Self { fs: Arc::new(open(fs)?), inos: self.inos })
    }

    /// Returns the filesystem, to close it.
    ///
    /// # Errors
    /// The filesystem is still shared with another owner.
    pub fn into_fs(self) -> Result<Fs, Difference> {
        Arc::into_inner(self.fs).ok_or_else(|| "close: others have the volume open".into())
    }

    fn ino(&self, id: Id) -> Ino {
        self.inos[&id]
    }

    fn inode(&self, id: Id) -> Result<xfskit_vfs::Inode, Difference> {
        self.fs.inode(self.ino(id)).map_err(|error| format!("node {id}: {error}"))
    }

    /// Applies `op`. A node that it creates gets the id `fresh`. Returns the number of bytes
    /// copied, or 0 if it copies nothing.
    ///
    /// # Errors
    /// The operation failed; then nothing has changed.
    pub fn apply(&mut self, operation: &Operation, fresh: Id) -> OpResult<u64> {
        match operation {
            Operation::Make { dir, name, new } => {
                let made = self.fs.make(self.ino(*dir), name, &node_of(new));
                return self.made(made, fresh);
            }
            Operation::Unnamed { dir, name, new } => {
                let made = self.unnamed(self.ino(*dir), name.as_deref(), new);
                return self.made(made, fresh);
            }
            _ => {}
        }
        self.change(operation).map_err(op_error)
    }

    fn made(&mut self, made: Result<Ino, Error>, fresh: Id) -> OpResult<u64> {
        self.inos.insert(fresh, made.map_err(op_error)?);
        Ok(0)
    }

    fn unnamed(&self, dir: Ino, name: Option<&[u8]>, new: &New) -> Result<Ino, Error> {
        let hold = self.fs.make_unnamed(dir, &node_of(new))?;
        if let Kind::File(content) = &new.kind {
            self.fs.write(hold.ino(), 0, &content.bytes)?;
        }
        if let Some(name) = name {
            self.fs.link(hold.ino(), dir, name)?;
        }
        Ok(hold.ino())
    }

    fn change(&self, operation: &Operation) -> Result<u64, Error> {
        let fs = &self.fs;
        match operation {
            Operation::Make { .. } | Operation::Unnamed { .. } => {}
            Operation::Link { node, dir, name } => {
                fs.link(self.ino(*node), self.ino(*dir), name)?;
            }
            Operation::Unlink { dir, name } => fs.unlink(self.ino(*dir), name)?,
            Operation::Rmdir { dir, name } => fs.rmdir(self.ino(*dir), name)?,
            Operation::Rename { from, old, to, new, mode } => {
                fs.rename(self.ino(*from), old, self.ino(*to), new, *mode)?;
            }
            Operation::SetPerm { node, perm } => {
                let inode = fs.inode(self.ino(*node))?;
                if inode.core().file_type() == Some(FileType::Symlink) {
                    return Err(Core::Limit("Linux does not change modes of symbolic links").into());
                }
                let set = SetAttr { perm: Some(*perm), ..SetAttr::default() };
                fs.set_attr(self.ino(*node), &set)?;
            }
            Operation::SetOwner { node, owner: (uid, gid) } => {
                let set = SetAttr { uid: Some(*uid), gid: Some(*gid), ..SetAttr::default() };
                fs.set_attr(self.ino(*node), &set)?;
            }
            Operation::SetTimes { node, atime, mtime } => {
                let stamp = |(sec, nsec): Time| Some(Timestamp { sec, nsec });
                let (atime, mtime) = (stamp(*atime), stamp(*mtime));
                let set = SetAttr { atime, mtime, ..SetAttr::default() };
                fs.set_attr(self.ino(*node), &set)?;
            }
            Operation::SetXattr { node, name, value } => {
                fs.set_xattr(self.ino(*node), name, value, SetMode::Any)?;
            }
            Operation::RemoveXattr { node, name } => fs.remove_xattr(self.ino(*node), name)?,
            Operation::Write { node, offset, bytes } => {
                fs.write(self.ino(*node), *offset, bytes)?;
            }
            Operation::Truncate { node, size } => fs.truncate(self.ino(*node), *size)?,
            Operation::Fallocate { node, how, range } => {
                let handle = fs.open(self.ino(*node))?;
                fallocate(&handle, *how, range.clone())?;
                handle.close()?;
            }
            Operation::TwoFile { node, offset, other, source, how } => {
                let (to, from) = (fs.open(self.ino(*node))?, fs.open(self.ino(*other))?);
                let mut copied = 0;
                match how {
                    TwoFileOp::Share => to.share(*offset, &from, source.clone())?,
                    TwoFileOp::Copy => copied = to.copy_range(*offset, &from, source.clone())?,
                    TwoFileOp::ExchangeRange => {
                        let len = source.end - source.start;
                        to.exchange_range(*offset..*offset + len, &from, source.start)?;
                    }
                    TwoFileOp::Exchange => to.exchange(&from)?,
                }
                to.close()?;
                from.close()?;
                return Ok(copied);
            }
            Operation::Label(label) => fs.volume().set_label(label)?,
            Operation::Fsync { node } => fs.fsync(self.ino(*node))?,
            Operation::Sync => fs.sync()?,
        }
        Ok(0)
    }

    /// Compares the whole tree with the model.
    ///
    /// # Errors
    /// The first difference.
    pub fn compare(&self, mem: &Mem) -> Result<(), Difference> {
        for dir in mem.dirs() {
            let portion = self.fs.read_dir(&self.inode(dir)?);
            if let Some(error) = portion.errors.first() {
                return Err(format!("directory {dir}: {error}"));
            }
            let ours: BTreeMap<_, _> =
                portion.entries.into_iter().map(|entry| (entry.name, entry.ino)).collect();
            let entries = mem.entries(dir).iter();
            let theirs: BTreeMap<_, _> =
                entries.map(|(name, id)| (name.clone(), self.ino(*id))).collect();
            same(&format!("entries of {dir}"), &ours, &theirs)?;
        }
        mem.reachable().into_iter().try_for_each(|id| self.compare_node(id, &mem.nodes[id]))
    }

    fn compare_node(&self, id: Id, node: &Node) -> Result<(), Difference> {
        let inode = self.inode(id)?;
        compare_stat(id, node, &self.fs.stat(&inode))?;
        let (xattrs, errors) = self.fs.xattrs(&inode);
        if let Some(error) = errors.first() {
            return Err(format!("xattrs of {id}: {error}"));
        }
        let xattrs: BTreeMap<_, _> = xattrs.into_iter().map(|x| (x.name, x.value)).collect();
        same(&format!("xattrs of {id}"), &xattrs, &node.xattrs)?;
        match &node.kind {
            Kind::File(content) => {
                let mut ours = vec![0xee; content.bytes.len() + 1];
                let len = self.fs.read(inode.ino(), 0, &mut ours).map_err(|e| e.to_string())?;
                ours.truncate(len);
                same_bytes(id, &ours, &content.bytes)?;
                let map = self.fs.file_map(&inode).map_err(|error| error.to_string())?;
                let data = map.data().into_iter().map(|range| range.start.0..range.end.0);
                may_hold(id, &content.data, data, self.facts().block)
            }
            Kind::Symlink(target) => {
                let ours = self.fs.read_link(&inode).map_err(|error| error.to_string())?;
                same(&format!("target of {id}"), &ours, target)
            }
            Kind::Dir(_) | Kind::Device(..) | Kind::Fifo => Ok(()),
        }
    }
}

fn fallocate(
    handle: &Handle<'_>,
    how: Fallocate,
    range: std::ops::Range<u64>,
) -> Result<(), Error> {
    match how {
        Fallocate::Punch => handle.punch(range),
        Fallocate::Zero { keep_size } => handle.zero(range, keep_size),
        Fallocate::Preallocate { keep_size } => handle.preallocate(range, keep_size),
        Fallocate::Collapse => handle.collapse(range),
        Fallocate::Insert => handle.insert(range),
        Fallocate::Unshare => handle.unshare(range),
    }
}

fn node_of(new: &New) -> NewNode {
    let of = |file_type: FileType| NewNode {
        mode: file_type.mode() | new.perm,
        uid: new.owner.0,
        gid: new.owner.1,
        ..NewNode::default()
    };
    match &new.kind {
        Kind::File(_) => of(FileType::Regular),
        Kind::Dir(_) => of(FileType::Directory),
        Kind::Symlink(target) => NewNode { target: Some(target.clone()), ..of(FileType::Symlink) },
        Kind::Fifo => of(FileType::Fifo),
        Kind::Device(major, minor) => {
            NewNode { rdev: Some((*major, *minor)), ..of(FileType::CharDevice) }
        }
    }
}

fn op_error(error: Error) -> OpError {
    match error {
        Error::Core(Core::Exists) => OpError::Exists,
        Error::Core(Core::NoEntry) => OpError::NoEntry,
        Error::Core(Core::NotEmpty) => OpError::NotEmpty,
        Error::Core(Core::NoSpace(_)) => OpError::NoSpace,
        Error::Core(
            Core::NotDirectory(_)
            | Core::IsDirectory(_)
            | Core::NotFile(_)
            | Core::Limit(_)
            | Core::FileTooLarge(_)
            | Core::NameTooLong(_)
            | Core::AttrName
            | Core::AttrValue
            | Core::TooManyLinks
            | Core::NotPermitted(_)
            | Core::Unsupported(_),
        ) => OpError::Invalid,
        other => OpError::Failed(other.to_string()),
    }
}

fn compare_stat(id: Id, node: &Node, stat: &Stat) -> Result<(), Difference> {
    same(&format!("perm of {id}"), &(stat.mode & 0o7777), &node.perm)?;
    same(&format!("owner of {id}"), &(stat.uid, stat.gid), &node.owner)?;
    same(&format!("nlink of {id}"), &stat.nlink, &node.nlink)?;
    for (what, ours, expected) in
        [("atime", stat.atime, node.atime), ("mtime", stat.mtime, node.mtime)]
    {
        let ours = expected.map(|_| (ours.sec, ours.nsec));
        same(&format!("{what} of {id}"), &ours, &expected)?;
    }
    if let Kind::Device(major, minor) = node.kind {
        same(&format!("rdev of {id}"), &stat.rdev, &Some((major, minor)))?;
    }
    Ok(())
}

/// Compares two values; `what` names them in the error.
///
/// # Errors
/// The difference.
pub fn same<T: PartialEq + Debug>(what: &str, ours: &T, theirs: &T) -> Result<(), Difference> {
    if ours == theirs {
        return Ok(());
    }
    Err(format!("{what}: {ours:?}, expected {theirs:?}"))
}

pub(crate) fn same_bytes(id: Id, ours: &[u8], theirs: &[u8]) -> Result<(), Difference> {
    if ours == theirs {
        return Ok(());
    }
    let at = ours.iter().zip(theirs).position(|(a, b)| a != b);
    Err(format!("content of {id}: {} and {} bytes, differ at {at:?}", ours.len(), theirs.len()))
}

/// Checks that data lies only in blocks where the model allows it.
pub(crate) fn may_hold(
    id: Id,
    allowed: &[bool],
    found: impl IntoIterator<Item = std::ops::Range<u64>>,
    block: u64,
) -> Result<(), Difference> {
    for range in found {
        for at in range.start / block..range.end.div_ceil(block) {
            let allowed = usize::try_from(at).ok().and_then(|at| allowed.get(at));
            if allowed != Some(&true) {
                return Err(format!("block {at} of {id} holds data, expected a hole"));
            }
        }
    }
    Ok(())
}
