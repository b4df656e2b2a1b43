//! The model: a filesystem as maps. Slow, small, obviously right.

use std::collections::BTreeMap;

/// Number of a node; the root is 0.
pub type Id = usize;

/// What a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Content, byte by byte.
    File(Vec<u8>),
    /// Names.
    Dir(BTreeMap<Vec<u8>, Id>),
    /// Target.
    Symlink(Vec<u8>),
    /// Named pipe.
    Fifo,
    /// Character device.
    Device(u32, u32),
}

/// One inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it is.
    pub kind: Kind,
    /// Permissions.
    pub perm: u16,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Links.
    pub nlink: u32,
    /// Extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Of a directory: the one above.
    pub up: Id,
}

impl Node {
    /// A new node, linked once.
    pub fn new(kind: Kind, perm: u16, owner: (u32, u32), up: Id) -> Self {
        let nlink = if matches!(kind, Kind::Dir(_)) { 2 } else { 1 };
        Self { kind, perm, owner, nlink, xattrs: BTreeMap::new(), up }
    }
}

/// Why the model refuses: what the volume must answer too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The name exists.
    Exists,
    /// It does not.
    NoEntry,
    /// The directory has entries.
    NotEmpty,
    /// A directory is in the way, or below itself, or anything else that makes no sense.
    Senseless,
}

/// The filesystem.
#[derive(Clone, Debug)]
pub struct Mem {
    /// All nodes ever; those without links are gone.
    pub nodes: Vec<Node>,
}

impl Default for Mem {
    fn default() -> Self {
        Self { nodes: vec![Node::new(Kind::Dir(BTreeMap::new()), 0o755, (0, 0), 0)] }
    }
}

type Answer<T = ()> = Result<T, Refusal>;

impl Mem {
    /// The names in directory `dir`.
    ///
    /// # Panics
    /// Where it is none.
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

    /// All directories that can be reached, the root first.
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

    /// All nodes that can be reached, each once.
    pub fn reachable(&self) -> Vec<Id> {
        let mut found = vec![0];
        for dir in self.dirs() {
            found.extend(self.entries(dir).values().copied());
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// See [`Fs::make`](xfskit_vfs::Fs::make).
    ///
    /// # Errors
    /// Where the name exists.
    pub fn make(
        &mut self,
        dir: Id,
        name: &[u8],
        kind: Kind,
        perm: u16,
        owner: (u32, u32),
    ) -> Answer {
        if self.entries(dir).contains_key(name) {
            return Err(Refusal::Exists);
        }
        let id = self.nodes.len();
        let mut node = Node::new(kind, perm, owner, dir);
        let is_dir = matches!(node.kind, Kind::Dir(_));
        if is_dir {
            self.nodes[dir].nlink += 1;
        }
        // A directory with the setgid bit hands down its group, and to directories the bit.
        let above = &self.nodes[dir];
        if above.perm & 0o2000 != 0 {
            node.owner.1 = above.owner.1;
            node.perm |= if is_dir { 0o2000 } else { 0 };
        }
        self.nodes.push(node);
        self.entries_mut(dir).insert(name.to_vec(), id);
        Ok(())
    }

    /// See [`Fs::link`](xfskit_vfs::Fs::link).
    ///
    /// # Errors
    /// Where the name exists, or the node is a directory.
    pub fn link(&mut self, id: Id, dir: Id, name: &[u8]) -> Answer {
        if self.is_dir(id) {
            return Err(Refusal::Senseless);
        }
        if self.entries(dir).contains_key(name) {
            return Err(Refusal::Exists);
        }
        self.entries_mut(dir).insert(name.to_vec(), id);
        self.nodes[id].nlink += 1;
        Ok(())
    }

    /// See [`Fs::unlink`](xfskit_vfs::Fs::unlink).
    ///
    /// # Errors
    /// Where there is no such name, or it is a directory's.
    pub fn unlink(&mut self, dir: Id, name: &[u8]) -> Answer {
        let id = *self.entries(dir).get(name).ok_or(Refusal::NoEntry)?;
        if self.is_dir(id) {
            return Err(Refusal::Senseless);
        }
        self.entries_mut(dir).remove(name);
        self.nodes[id].nlink -= 1;
        Ok(())
    }

    /// See [`Fs::rmdir`](xfskit_vfs::Fs::rmdir).
    ///
    /// # Errors
    /// Where there is no such name, it is no directory's, or that is not empty.
    pub fn rmdir(&mut self, dir: Id, name: &[u8]) -> Answer {
        let id = *self.entries(dir).get(name).ok_or(Refusal::NoEntry)?;
        if !self.is_dir(id) {
            return Err(Refusal::Senseless);
        }
        if !self.entries(id).is_empty() {
            return Err(Refusal::NotEmpty);
        }
        self.entries_mut(dir).remove(name);
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

    /// See [`Fs::rename`](xfskit_vfs::Fs::rename).
    ///
    /// # Errors
    /// As `rename(2)`.
    pub fn rename(
        &mut self,
        (from, from_name): (Id, &[u8]),
        (to, to_name): (Id, &[u8]),
        mode: xfskit_vfs::RenameMode,
    ) -> Answer {
        use xfskit_vfs::RenameMode::{Exchange, NoReplace, Replace};
        let id = *self.entries(from).get(from_name).ok_or(Refusal::NoEntry)?;
        let there = self.entries(to).get(to_name).copied();
        if there == Some(id) {
            return Ok(());
        }
        if self.is_dir(id) && self.is_below(id, to) {
            return Err(Refusal::Senseless);
        }
        match (there, mode) {
            (Some(_), NoReplace) => return Err(Refusal::Exists),
            (None, Exchange) => return Err(Refusal::NoEntry),
            (Some(other), Exchange) => {
                if self.is_dir(other) && self.is_below(other, from) {
                    return Err(Refusal::Senseless);
                }
                self.entries_mut(from).insert(from_name.to_vec(), other);
                self.entries_mut(to).insert(to_name.to_vec(), id);
                self.moved(id, from, to);
                self.moved(other, to, from);
                return Ok(());
            }
            (Some(other), Replace) => match (self.is_dir(id), self.is_dir(other)) {
                (true, false) | (false, true) => return Err(Refusal::Senseless),
                (true, true) if !self.entries(other).is_empty() => {
                    return Err(Refusal::NotEmpty);
                }
                (true, true) => {
                    self.nodes[to].nlink -= 1;
                    self.nodes[other].nlink = 0;
                }
                (false, false) => self.nodes[other].nlink -= 1,
            },
            (None, _) => {}
        }
        self.entries_mut(from).remove(from_name);
        self.entries_mut(to).insert(to_name.to_vec(), id);
        self.moved(id, from, to);
        Ok(())
    }

    fn moved(&mut self, id: Id, from: Id, to: Id) {
        if self.is_dir(id) {
            self.nodes[id].up = to;
            self.nodes[from].nlink -= 1;
            self.nodes[to].nlink += 1;
        }
    }
}
