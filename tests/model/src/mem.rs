//! The model: a filesystem as maps. It is slow and small, and simple enough to be checked by
//! reading.

use std::collections::BTreeMap;

use crate::content::{Content, between};
use crate::operation::{New, Operation, Time, TwoFileOp};

/// Index of a node. The root is 0.
pub type Id = usize;

/// Properties of the volume on which results depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Size of a filesystem block, in bytes.
    pub block: u64,
    /// Whether the volume supports reflink.
    pub reflink: bool,
    /// Whether the volume supports exchange-range.
    pub exchange: bool,
}

/// The type of a node, with its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File(Content),
    /// A directory: names and nodes.
    Dir(BTreeMap<Vec<u8>, Id>),
    /// A symbolic link: its target.
    Symlink(Vec<u8>),
    /// A named pipe.
    Fifo,
    /// A character device: major and minor number.
    Device(u32, u32),
}

impl Kind {
    /// Returns an empty file.
    pub fn file() -> Self {
        Self::File(Content::default())
    }

    /// Returns an empty directory.
    pub fn dir() -> Self {
        Self::Dir(BTreeMap::new())
    }
}

/// One inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// File type and content.
    pub kind: Kind,
    /// Permission bits.
    pub perm: u16,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Link count.
    pub nlink: u32,
    /// Extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Access time, if an operation set it.
    pub atime: Option<Time>,
    /// Modification time, if an operation set it and no later change made it unknown.
    pub mtime: Option<Time>,
    /// The parent, of a directory.
    pub up: Id,
}

impl Node {
    /// Returns a new node with one link (two for a directory).
    pub fn new(kind: Kind, perm: u16, owner: (u32, u32), up: Id) -> Self {
        let nlink = if matches!(kind, Kind::Dir(_)) { 2 } else { 1 };
        Self { kind, perm, owner, nlink, xattrs: BTreeMap::new(), atime: None, mtime: None, up }
    }
}

/// Why an operation fails. All sides must report the same error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpError {
    /// The name exists.
    Exists,
    /// The name or attribute does not exist.
    NoEntry,
    /// The directory has entries.
    NotEmpty,
    /// Any other invalid operation, for example on a directory, or one that moves a directory below
    /// itself.
    Invalid,
    /// No space. The model itself never runs out of space.
    NoSpace,
    /// An error that the operation does not justify.
    Failed(String),
}

/// The model filesystem.
#[derive(Clone, Debug)]
pub struct Mem {
    /// Properties of the volume.
    pub facts: Facts,
    /// All nodes ever created. Nodes without links have been removed.
    pub nodes: Vec<Node>,
    /// The volume label, if an operation set it.
    pub label: Option<Vec<u8>>,
}

/// Result of an operation.
pub type OpResult<T = ()> = Result<T, OpError>;

impl Mem {
    /// Returns an empty filesystem.
    pub fn new(facts: Facts) -> Self {
        let root = Node::new(Kind::dir(), 0o755, (0, 0), 0);
        Self { facts, nodes: vec![root], label: None }
    }

    /// Applies `op`.
    ///
    /// # Errors
    /// The operation is invalid; then the model is unchanged.
    pub fn apply(&mut self, operation: &Operation) -> OpResult {
        match operation {
            Operation::Make { dir, name, new }
            | Operation::Unnamed { dir, name: Some(name), new } => self.make(*dir, name, new),
            Operation::Unnamed { name: None, .. } | Operation::Fsync { .. } | Operation::Sync => {
                Ok(())
            }
            Operation::Link { node, dir, name } => self.link(*node, *dir, name),
            Operation::Unlink { dir, name } => self.unlink(*dir, name),
            Operation::Rmdir { dir, name } => self.rmdir(*dir, name),
            Operation::Rename { from, old, to, new, mode } => {
                self.rename((*from, old), (*to, new), *mode)
            }
            Operation::SetPerm { node, perm } => {
                if matches!(self.nodes[*node].kind, Kind::Symlink(_)) {
                    return Err(OpError::Invalid);
                }
                self.nodes[*node].perm = *perm;
                Ok(())
            }
            Operation::SetOwner { node, owner } => {
                self.nodes[*node].owner = *owner;
                Ok(())
            }
            Operation::SetTimes { node, atime, mtime } => {
                let node = &mut self.nodes[*node];
                (node.atime, node.mtime) = (Some(*atime), Some(*mtime));
                Ok(())
            }
            Operation::SetXattr { node, name, value } => self.set_xattr(*node, name, value),
            Operation::RemoveXattr { node, name } => self.remove_xattr(*node, name),
            Operation::Label(label) => {
                self.label = Some(label.clone());
                Ok(())
            }
            Operation::Write { node, offset, bytes } => self.change(*node, |content, facts| {
                content.write(*offset, bytes, facts);
                Ok(())
            }),
            Operation::Truncate { node, size } => self.change(*node, |content, facts| {
                content.resize(*size, facts);
                Ok(())
            }),
            Operation::Fallocate { node, how, range } => {
                self.change(*node, |content, facts| content.fallocate(*how, range, facts))
            }
            Operation::TwoFile { node, offset, other, source, how } => {
                let (to, from) = (self.content(*node), self.content(*other));
                let same = node == other;
                let (to, from) = between(*how, (to, *offset), (from, source), same, &self.facts)?;
                if matches!(how, TwoFileOp::ExchangeRange | TwoFileOp::Exchange) {
                    self.put_content(*other, from);
                }
                self.put_content(*node, to);
                Ok(())
            }
        }
    }

    /// Marks the modification times of the files that `op` names as unknown.
    pub fn forget_mtime(&mut self, operation: &Operation) {
        match operation {
            Operation::Fallocate { node, .. } => self.nodes[*node].mtime = None,
            Operation::TwoFile { node, other, .. } => {
                self.nodes[*node].mtime = None;
                self.nodes[*other].mtime = None;
            }
            _ => {}
        }
    }

    /// Returns the entries of directory `dir`.
    ///
    /// # Panics
    /// If `dir` is not a directory.
    pub fn entries(&self, dir: Id) -> &BTreeMap<Vec<u8>, Id> {
        match &self.nodes[dir].kind {
            Kind::Dir(entries) => entries,
            other => panic!("{dir} is no directory but {other:?}"),
        }
    }

    fn entries_mut(&mut self, dir: Id) -> &mut BTreeMap<Vec<u8>, Id> {
        match &mut self.nodes[dir].kind {
            Kind::Dir(entries) => entries,
            other => panic!("{dir} is no directory but {other:?}"),
        }
    }

    fn is_dir(&self, id: Id) -> bool {
        matches!(self.nodes[id].kind, Kind::Dir(_))
    }

    /// Returns whether the node is a regular file.
    pub fn is_file(&self, id: Id) -> bool {
        matches!(self.nodes[id].kind, Kind::File(_))
    }

    /// Returns the size of a regular file, in bytes.
    ///
    /// # Panics
    /// If the node is not a regular file.
    pub fn size(&self, id: Id) -> u64 {
        self.content(id).bytes.len() as u64
    }

    /// Returns the content of a regular file.
    ///
    /// # Panics
    /// If the node is not a regular file.
    pub fn content(&self, id: Id) -> &Content {
        match &self.nodes[id].kind {
            Kind::File(content) => content,
            other => panic!("{id} is no file but {other:?}"),
        }
    }

    fn put_content(&mut self, id: Id, content: Content) {
        self.nodes[id].kind = Kind::File(content);
        self.nodes[id].mtime = None;
    }

    fn change(&mut self, id: Id, how: impl Fn(&mut Content, &Facts) -> OpResult) -> OpResult {
        let mut content = self.content(id).clone();
        how(&mut content, &self.facts)?;
        self.put_content(id, content);
        Ok(())
    }

    /// Returns one path of each reachable node, from the root, without a leading slash.
    pub fn paths(&self) -> BTreeMap<Id, Vec<u8>> {
        let mut paths = BTreeMap::from([(0, Vec::new())]);
        for dir in self.dirs() {
            let above = paths[&dir].clone();
            for (name, id) in self.entries(dir) {
                let slash: &[u8] = if above.is_empty() { b"" } else { b"/" };
                paths.entry(*id).or_insert_with(|| [&above, slash, name].concat());
            }
        }
        paths
    }

    /// Returns all reachable directories, the root first.
    pub fn dirs(&self) -> Vec<Id> {
        let mut found = vec![0];
        let mut at = 0;
        while at < found.len() {
            let below = self.entries(found[at]).values().copied();
            found.extend(below.filter(|&id| self.is_dir(id)));
            at += 1;
        }
        found
    }

    /// Returns all reachable nodes, each once.
    pub fn reachable(&self) -> Vec<Id> {
        let mut found = vec![0];
        for dir in self.dirs() {
            found.extend(self.entries(dir).values().copied());
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    fn make(&mut self, dir: Id, name: &[u8], new: &New) -> OpResult {
        if self.entries(dir).contains_key(name) {
            return Err(OpError::Exists);
        }
        let id = self.nodes.len();
        let mut node = Node::new(new.kind.clone(), new.perm, new.owner, dir);
        let is_dir = matches!(node.kind, Kind::Dir(_));
        if is_dir {
            self.nodes[dir].nlink += 1;
        }
        // A setgid directory passes on its group, and to directories the bit as well.
        let above = &self.nodes[dir];
        if above.perm & 0o2000 != 0 {
            node.owner.1 = above.owner.1;
            node.perm |= if is_dir { 0o2000 } else { 0 };
        }
        self.nodes.push(node);
        self.enter(dir, name, id);
        Ok(())
    }

    /// Adds an entry to `dir`, or replaces the entry of that name.
    fn enter(&mut self, dir: Id, name: &[u8], id: Id) {
        self.entries_mut(dir).insert(name.to_vec(), id);
        self.nodes[dir].mtime = None;
    }

    /// Removes an entry from `dir`.
    fn leave(&mut self, dir: Id, name: &[u8]) {
        self.entries_mut(dir).remove(name);
        self.nodes[dir].mtime = None;
    }

    /// Sets an attribute. Linux keeps `user` attributes on files and directories only.
    fn set_xattr(&mut self, id: Id, name: &[u8], value: &[u8]) -> OpResult {
        let for_users = matches!(self.nodes[id].kind, Kind::File(_) | Kind::Dir(_));
        if name.starts_with(b"user.") && !for_users {
            return Err(OpError::Invalid);
        }
        self.nodes[id].xattrs.insert(name.to_vec(), value.to_vec());
        Ok(())
    }

    fn remove_xattr(&mut self, id: Id, name: &[u8]) -> OpResult {
        self.nodes[id].xattrs.remove(name).map(drop).ok_or(OpError::NoEntry)
    }

    fn link(&mut self, id: Id, dir: Id, name: &[u8]) -> OpResult {
        if self.is_dir(id) {
            return Err(OpError::Invalid);
        }
        if self.entries(dir).contains_key(name) {
            return Err(OpError::Exists);
        }
        self.enter(dir, name, id);
        self.nodes[id].nlink += 1;
        Ok(())
    }

    fn unlink(&mut self, dir: Id, name: &[u8]) -> OpResult {
        let id = *self.entries(dir).get(name).ok_or(OpError::NoEntry)?;
        if self.is_dir(id) {
            return Err(OpError::Invalid);
        }
        self.leave(dir, name);
        self.nodes[id].nlink -= 1;
        Ok(())
    }

    fn rmdir(&mut self, dir: Id, name: &[u8]) -> OpResult {
        let id = *self.entries(dir).get(name).ok_or(OpError::NoEntry)?;
        if !self.is_dir(id) {
            return Err(OpError::Invalid);
        }
        if !self.entries(id).is_empty() {
            return Err(OpError::NotEmpty);
        }
        self.leave(dir, name);
        self.nodes[dir].nlink -= 1;
        self.nodes[id].nlink = 0;
        Ok(())
    }

    fn is_below(&self, id: Id, mut at: Id) -> bool {
        loop {
            if at == id {
                return true;
            }
            if at == 0 {
                return false;
            }
            at = self.nodes[at].up;
        }
    }

    fn rename(
        &mut self,
        (from, from_name): (Id, &[u8]),
        (to, to_name): (Id, &[u8]),
        mode: xfskit_vfs::RenameMode,
    ) -> OpResult {
        use xfskit_vfs::RenameMode::{Exchange, NoReplace};
        let id = *self.entries(from).get(from_name).ok_or(OpError::NoEntry)?;
        let there = self.entries(to).get(to_name).copied();
        match mode {
            NoReplace if there.is_some() => return Err(OpError::Exists),
            Exchange if there.is_none() => return Err(OpError::NoEntry),
            _ if there == Some(id) => return Ok(()),
            _ => {}
        }
        if self.is_dir(id) && self.is_below(id, to) {
            return Err(OpError::Invalid);
        }
        match (there, mode) {
            (Some(other), Exchange) => {
                if self.is_dir(other) && self.is_below(other, from) {
                    return Err(OpError::Invalid);
                }
                self.enter(from, from_name, other);
                self.enter(to, to_name, id);
                self.moved(id, from, to);
                self.moved(other, to, from);
                if from != to {
                    self.replaced_parents([id, other]);
                }
                return Ok(());
            }
            (Some(other), _) => match (self.is_dir(id), self.is_dir(other)) {
                (true, false) | (false, true) => return Err(OpError::Invalid),
                (true, true) if !self.entries(other).is_empty() => {
                    return Err(OpError::NotEmpty);
                }
                (true, true) => {
                    self.nodes[to].nlink -= 1;
                    self.nodes[other].nlink = 0;
                }
                (false, false) => self.nodes[other].nlink -= 1,
            },
            (None, _) => {}
        }
        self.leave(from, from_name);
        self.enter(to, to_name, id);
        self.moved(id, from, to);
        Ok(())
    }

    /// Forgets when the content of exchanged directories changed: their `..` just did.
    fn replaced_parents(&mut self, ids: [Id; 2]) {
        for id in ids {
            if self.is_dir(id) {
                self.nodes[id].mtime = None;
            }
        }
    }

    fn moved(&mut self, id: Id, from: Id, to: Id) {
        if self.is_dir(id) {
            self.nodes[id].up = to;
            self.nodes[from].nlink -= 1;
            self.nodes[to].nlink += 1;
        }
    }
}
