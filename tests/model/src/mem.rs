//! The model: a filesystem as maps. Slow, small, obviously right.

use std::collections::BTreeMap;

use crate::content::{Content, between};
use crate::deed::{Between, Deed, New, Time};

/// Number of a node; the root is 0.
pub type Id = usize;

/// What a volume can do, as far as answers depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Bytes of a block.
    pub block: u64,
    /// Files may share blocks.
    pub reflink: bool,
    /// They may exchange content.
    pub exchange: bool,
}

/// What a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Content, byte by byte.
    File(Content),
    /// Names.
    Dir(BTreeMap<Vec<u8>, Id>),
    /// Target.
    Symlink(Vec<u8>),
    /// Named pipe.
    Fifo,
    /// Character device.
    Device(u32, u32),
}

impl Kind {
    /// An empty file.
    pub fn file() -> Self {
        Self::File(Content::default())
    }

    /// An empty directory.
    pub fn dir() -> Self {
        Self::Dir(BTreeMap::new())
    }
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
    /// When it was read last, where that was said.
    pub atime: Option<Time>,
    /// When its content changed last, where that was said and is still true.
    pub mtime: Option<Time>,
    /// Of a directory: the one above.
    pub up: Id,
}

impl Node {
    /// A new node, linked once.
    pub fn new(kind: Kind, perm: u16, owner: (u32, u32), up: Id) -> Self {
        let nlink = if matches!(kind, Kind::Dir(_)) { 2 } else { 1 };
        Self { kind, perm, owner, nlink, xattrs: BTreeMap::new(), atime: None, mtime: None, up }
    }
}

/// Why somebody refuses: what everybody must answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The name exists.
    Exists,
    /// It does not.
    NoEntry,
    /// The directory has entries.
    NotEmpty,
    /// A directory is in the way, or below itself, or anything else that makes no sense.
    Senseless,
    /// There is no space: the model has always some.
    NoSpace,
    /// Something went wrong that nothing justifies.
    Failed(String),
}

/// The filesystem.
#[derive(Clone, Debug)]
pub struct Mem {
    /// What the volume can do.
    pub facts: Facts,
    /// All nodes ever; those without links are gone.
    pub nodes: Vec<Node>,
    /// The label of the volume, where it was set.
    pub label: Option<Vec<u8>>,
}

/// The answer: how many bytes were copied, where it was about that.
pub type Answer<T = ()> = Result<T, Refusal>;

impl Mem {
    /// An empty filesystem.
    pub fn new(facts: Facts) -> Self {
        let root = Node::new(Kind::dir(), 0o755, (0, 0), 0);
        Self { facts, nodes: vec![root], label: None }
    }

    /// Does it.
    ///
    /// # Errors
    /// Where it makes no sense: then nothing has changed.
    pub fn apply(&mut self, deed: &Deed) -> Answer {
        match deed {
            Deed::Make { dir, name, new } | Deed::Unnamed { dir, name: Some(name), new } => {
                self.make(*dir, name, new)
            }
            Deed::Unnamed { name: None, .. } | Deed::Fsync { .. } | Deed::Sync => Ok(()),
            Deed::Link { node, dir, name } => self.link(*node, *dir, name),
            Deed::Unlink { dir, name } => self.unlink(*dir, name),
            Deed::Rmdir { dir, name } => self.rmdir(*dir, name),
            Deed::Rename { from, old, to, new, mode } => {
                self.rename((*from, old), (*to, new), *mode)
            }
            Deed::SetPerm { node, perm } => {
                if matches!(self.nodes[*node].kind, Kind::Symlink(_)) {
                    return Err(Refusal::Senseless);
                }
                self.nodes[*node].perm = *perm;
                Ok(())
            }
            Deed::SetOwner { node, owner } => {
                self.nodes[*node].owner = *owner;
                Ok(())
            }
            Deed::SetTimes { node, atime, mtime } => {
                let node = &mut self.nodes[*node];
                (node.atime, node.mtime) = (Some(*atime), Some(*mtime));
                Ok(())
            }
            Deed::SetXattr { node, name, value } => self.set_xattr(*node, name, value),
            Deed::RemoveXattr { node, name } => self.remove_xattr(*node, name),
            Deed::Label(label) => {
                self.label = Some(label.clone());
                Ok(())
            }
            Deed::Write { node, offset, bytes } => self.change(*node, |content, facts| {
                content.write(*offset, bytes, facts);
                Ok(())
            }),
            Deed::Truncate { node, size } => self.change(*node, |content, facts| {
                content.resize(*size, facts);
                Ok(())
            }),
            Deed::Reshape { node, how, range } => {
                self.change(*node, |content, facts| content.reshape(*how, range, facts))
            }
            Deed::Between { node, offset, other, source, how } => {
                let (to, from) = (self.content(*node), self.content(*other));
                let same = node == other;
                let (to, from) = between(*how, (to, *offset), (from, source), same, &self.facts)?;
                if matches!(how, Between::ExchangeRange | Between::Exchange) {
                    self.put_content(*other, from);
                }
                self.put_content(*node, to);
                Ok(())
            }
        }
    }

    /// The content of what `deed` is about may have got another date.
    pub fn forget_mtime(&mut self, deed: &Deed) {
        match deed {
            Deed::Reshape { node, .. } => self.nodes[*node].mtime = None,
            Deed::Between { node, other, .. } => {
                self.nodes[*node].mtime = None;
                self.nodes[*other].mtime = None;
            }
            _ => {}
        }
    }

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

    /// Whether it is a regular file.
    pub fn is_file(&self, id: Id) -> bool {
        matches!(self.nodes[id].kind, Kind::File(_))
    }

    /// Bytes of a regular file.
    ///
    /// # Panics
    /// Where it is none.
    pub fn size(&self, id: Id) -> u64 {
        self.content(id).bytes.len() as u64
    }

    /// The content of a regular file.
    ///
    /// # Panics
    /// Where it is none.
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

    fn change(&mut self, id: Id, how: impl Fn(&mut Content, &Facts) -> Answer) -> Answer {
        let mut content = self.content(id).clone();
        how(&mut content, &self.facts)?;
        self.put_content(id, content);
        Ok(())
    }

    /// One of the paths of each node that can be reached, from the root, without a slash at the beginning.
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

    fn make(&mut self, dir: Id, name: &[u8], new: &New) -> Answer {
        if self.entries(dir).contains_key(name) {
            return Err(Refusal::Exists);
        }
        let id = self.nodes.len();
        let mut node = Node::new(new.kind.clone(), new.perm, new.owner, dir);
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
        self.enter(dir, name, id);
        Ok(())
    }

    /// A directory gets an entry, or another one of that name.
    fn enter(&mut self, dir: Id, name: &[u8], id: Id) {
        self.entries_mut(dir).insert(name.to_vec(), id);
        self.nodes[dir].mtime = None;
    }

    /// It loses one.
    fn leave(&mut self, dir: Id, name: &[u8]) {
        self.entries_mut(dir).remove(name);
        self.nodes[dir].mtime = None;
    }

    /// Linux keeps attributes for users on files and directories only.
    fn set_xattr(&mut self, id: Id, name: &[u8], value: &[u8]) -> Answer {
        let for_users = matches!(self.nodes[id].kind, Kind::File(_) | Kind::Dir(_));
        if name.starts_with(b"user.") && !for_users {
            return Err(Refusal::Senseless);
        }
        self.nodes[id].xattrs.insert(name.to_vec(), value.to_vec());
        Ok(())
    }

    fn remove_xattr(&mut self, id: Id, name: &[u8]) -> Answer {
        self.nodes[id].xattrs.remove(name).map(drop).ok_or(Refusal::NoEntry)
    }

    fn link(&mut self, id: Id, dir: Id, name: &[u8]) -> Answer {
        if self.is_dir(id) {
            return Err(Refusal::Senseless);
        }
        if self.entries(dir).contains_key(name) {
            return Err(Refusal::Exists);
        }
        self.enter(dir, name, id);
        self.nodes[id].nlink += 1;
        Ok(())
    }

    fn unlink(&mut self, dir: Id, name: &[u8]) -> Answer {
        let id = *self.entries(dir).get(name).ok_or(Refusal::NoEntry)?;
        if self.is_dir(id) {
            return Err(Refusal::Senseless);
        }
        self.leave(dir, name);
        self.nodes[id].nlink -= 1;
        Ok(())
    }

    fn rmdir(&mut self, dir: Id, name: &[u8]) -> Answer {
        let id = *self.entries(dir).get(name).ok_or(Refusal::NoEntry)?;
        if !self.is_dir(id) {
            return Err(Refusal::Senseless);
        }
        if !self.entries(id).is_empty() {
            return Err(Refusal::NotEmpty);
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
    ) -> Answer {
        use xfskit_vfs::RenameMode::{Exchange, NoReplace};
        let id = *self.entries(from).get(from_name).ok_or(Refusal::NoEntry)?;
        let there = self.entries(to).get(to_name).copied();
        match mode {
            NoReplace if there.is_some() => return Err(Refusal::Exists),
            Exchange if there.is_none() => return Err(Refusal::NoEntry),
            _ if there == Some(id) => return Ok(()),
            _ => {}
        }
        if self.is_dir(id) && self.is_below(id, to) {
            return Err(Refusal::Senseless);
        }
        match (there, mode) {
            (Some(other), Exchange) => {
                if self.is_dir(other) && self.is_below(other, from) {
                    return Err(Refusal::Senseless);
                }
                self.enter(from, from_name, other);
                self.enter(to, to_name, id);
                self.moved(id, from, to);
                self.moved(other, to, from);
                return Ok(());
            }
            (Some(other), _) => match (self.is_dir(id), self.is_dir(other)) {
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
        self.leave(from, from_name);
        self.enter(to, to_name, id);
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
