//! A tree in the making: layers change it entry by entry, then it is numbered and becomes a
//! [`Tree`].
//!
//! Names and inodes are separate here, as on disk. An inode that lost a name to a later layer keeps
//! its other names, and one without names is left out when the tree is numbered.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::Arc;

use xfskit_format::timestamp::Timestamp;

use super::budget::{Budget, INODE};
use super::content::{ContentLocation, Stores};
use super::node_id::NodeId;
use super::tree::{ContentId, Kind, Meta, Node, Notes, Text, Tree, Xattr, XattrsId};
use super::{SourceError, xattr};

/// Opaque whiteout: nothing of lower layers is seen in its directory.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// What the name of a whiteout begins with.
const WHITEOUT: &[u8] = b".wh.";

/// The number of an inode in its [`Draft`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct InodeId(u32);

/// The type of an inode, with its content.
#[derive(Clone, Debug)]
pub(super) enum DraftKind {
    Dir,
    File { size: u64, content: ContentId },
    Symlink(Box<[u8]>),
    Char { major: u32, minor: u32 },
    Block { major: u32, minor: u32 },
    Fifo,
    Socket,
}

#[derive(Debug)]
struct Inode {
    meta: Meta,
    xattrs: XattrsId,
    form: Form,
    /// The last layer that has it, or something below it.
    layer: u16,
    /// A directory that no layer lists: it exists because of its contents.
    is_implied: bool,
}

/// [`DraftKind`], with a directory's entries.
#[derive(Debug)]
enum Form {
    Dir(u32),
    Other(DraftKind),
}

/// Names to inodes.
type Entries = BTreeMap<Box<[u8]>, InodeId>;

/// The tree in the making.
#[derive(Debug)]
pub(super) struct Draft {
    inodes: Vec<Inode>,
    dirs: Vec<Entries>,
    /// The layer that is applied.
    layer: u16,
    pub(super) xattrs: Interned<Arc<[Xattr]>>,
    locations: Interned<ContentLocation>,
    pub(super) stores: Stores,
    pub(super) notes: Notes,
    /// The path to the directory of the last member, because the next member is mostly in the same
    /// one. Empty once a name was changed.
    recent: DirPath,
}

/// The path to a directory.
#[derive(Clone, Debug, Default)]
struct DirPath {
    /// The names in the archive.
    names: Vec<Vec<u8>>,
    /// The directories from the root on, after symbolic links, so that `..` in a link's target can
    /// go up.
    dirs: Vec<InodeId>,
    /// Number of symbolic links followed.
    links: u32,
}

impl DirPath {
    fn last(&self) -> InodeId {
        self.dirs.last().copied().unwrap_or(Draft::ROOT)
    }
}

/// Values, many of which are equal: each is stored once and numbered.
#[derive(Debug)]
pub(super) struct Interned<T> {
    values: Vec<T>,
    numbers: HashMap<T, u32>,
}

impl<T: Clone + Eq + std::hash::Hash> Interned<T> {
    pub(super) fn new(values: Vec<T>) -> Self {
        let numbers = values.iter().cloned().zip(0..).collect();
        Self { values, numbers }
    }

    /// Returns the number of `value`; `None` if there are no more 32-bit numbers.
    pub(super) fn number(&mut self, value: T) -> Option<u32> {
        if let Some(&number) = self.numbers.get(&value) {
            return Some(number);
        }
        let number = self.push(value.clone())?;
        self.numbers.insert(value, number);
        Some(number)
    }

    /// Adds `value` under a number of its own, without looking for an equal one.
    fn push(&mut self, value: T) -> Option<u32> {
        let number = u32::try_from(self.values.len()).ok()?;
        self.values.push(value);
        Some(number)
    }

    pub(super) fn into_values(self) -> Vec<T> {
        self.values
    }
}

/// Returns the error of more entries than a [`Tree`] can number.
fn too_many(path: &[u8]) -> SourceError {
    SourceError::Unfit { path: path.to_vec(), what: "more than 2^32 of a kind in one tree".into() }
}

/// Number of symbolic links on one path that Linux allows.
const LINKS_MAX: u32 = 40;

impl Draft {
    pub(super) const ROOT: InodeId = InodeId(0);

    /// Makes an empty root.
    pub(super) fn new() -> Self {
        let meta = Meta { perm: 0o755, ..Meta::default() };
        let root = Inode {
            meta,
            xattrs: XattrsId::default(),
            form: Form::Dir(0),
            layer: 0,
            is_implied: true,
        };
        Self {
            inodes: vec![root],
            dirs: vec![Entries::new()],
            layer: 0,
            xattrs: Interned::new(vec![Arc::from([])]),
            locations: Interned::new(Vec::new()),
            stores: Stores::default(),
            notes: Notes::default(),
            recent: DirPath::default(),
        }
    }

    fn inode(&self, id: InodeId) -> &Inode {
        &self.inodes[id.0 as usize]
    }

    fn entries(&mut self, dir: InodeId) -> Option<&mut Entries> {
        match self.inode(dir).form {
            Form::Dir(entries) => self.dirs.get_mut(entries as usize),
            Form::Other(_) => None,
        }
    }

    pub(super) fn lookup(&self, dir: InodeId, name: &[u8]) -> Option<InodeId> {
        match self.inode(dir).form {
            Form::Dir(entries) => self.dirs[entries as usize].get(name).copied(),
            Form::Other(_) => None,
        }
    }

    pub(super) fn is_dir(&self, id: InodeId) -> bool {
        matches!(self.inode(id).form, Form::Dir(_))
    }

    /// Adds a set of attributes, sorted by namespace and name. Returns its number, and the bytes of
    /// memory that it takes: none if an equal one exists.
    pub(super) fn keep_xattrs(
        &mut self,
        path: &[u8],
        xattrs: Vec<Xattr>,
    ) -> Result<(XattrsId, u64), SourceError> {
        if xattrs.is_empty() {
            return Ok((XattrsId::default(), 0));
        }
        let size = |xattr: &Xattr| size_of::<Xattr>() + xattr.name.len() + xattr.value.len();
        let (bytes, before) = (xattrs.iter().map(size).sum::<usize>(), self.xattrs.values.len());
        let id = self.xattrs.number(xattrs.into()).ok_or_else(|| too_many(path))?;
        let is_new = self.xattrs.values.len() > before;
        Ok((XattrsId(id), if is_new { bytes as u64 } else { 0 }))
    }

    /// Adds the location of a content.
    pub(super) fn add_location(
        &mut self,
        path: &[u8],
        place: ContentLocation,
    ) -> Result<ContentId, SourceError> {
        let number = match place {
            ContentLocation::Hole | ContentLocation::Disk { .. } => self.locations.number(place),
            place => self.locations.push(place),
        };
        number.map(ContentId).ok_or_else(|| too_many(path))
    }

    /// Sets the metadata of directory `dir` from a later layer.
    pub(super) fn set(&mut self, dir: InodeId, meta: Meta, xattrs: XattrsId) {
        let inode = &mut self.inodes[dir.0 as usize];
        (inode.meta, inode.xattrs, inode.layer) = (meta, xattrs, self.layer);
        inode.is_implied = false;
    }

    /// Makes `name` in `dir`. An existing directory keeps its entries; anything else is replaced.
    pub(super) fn put(
        &mut self,
        dir: InodeId,
        name: &[u8],
        meta: Meta,
        xattrs: XattrsId,
        what: DraftKind,
    ) -> Result<InodeId, SourceError> {
        check_name(name)?;
        if let DraftKind::Symlink(target) = &what {
            xattr::check_target(name, target)?;
        }
        let form = if let DraftKind::Dir = what {
            if let Some(there) = self.lookup(dir, name).filter(|&there| self.is_dir(there)) {
                self.set(there, meta, xattrs);
                return Ok(there);
            }
            let entries = u32::try_from(self.dirs.len()).map_err(|_| too_many(name))?;
            self.dirs.push(Entries::new());
            Form::Dir(entries)
        } else {
            Form::Other(what)
        };
        let id = u32::try_from(self.inodes.len()).map(InodeId).map_err(|_| too_many(name))?;
        self.inodes.push(Inode { meta, xattrs, form, layer: self.layer, is_implied: false });
        self.link(dir, name, id)?;
        Ok(id)
    }

    /// Makes `name` in `dir` a name of `inode`.
    pub(super) fn link(
        &mut self,
        dir: InodeId,
        name: &[u8],
        inode: InodeId,
    ) -> Result<(), SourceError> {
        check_name(name)?;
        self.inodes[inode.0 as usize].layer = self.layer;
        let entries = self.entries(dir);
        if entries.is_some_and(|entries| entries.insert(name.into(), inode).is_some()) {
            self.recent = DirPath::default();
        }
        Ok(())
    }

    /// Begins a layer: later entries replace those of earlier layers.
    pub(super) fn begin_layer(&mut self) -> Result<(), SourceError> {
        self.layer = self.layer.checked_add(1).ok_or_else(|| too_many(b"/"))?;
        self.recent = DirPath::default();
        Ok(())
    }

    fn is_of_this_layer(&self, inode: InodeId) -> bool {
        self.inode(inode).layer == self.layer
    }

    /// Obeys the whiteout `name` in `dir` where `obey` is set, and counts it otherwise. Returns
    /// true if it was obeyed: then it is no file of the tree. Other names change nothing.
    pub(super) fn take_whiteout(&mut self, dir: InodeId, name: &[u8], obey: bool) -> bool {
        let Some(hidden) = name.strip_prefix(WHITEOUT) else { return false };
        match obey {
            false => self.notes.whiteouts += 1,
            true if name == OPAQUE => self.prune(dir),
            true => self.hide(dir, hidden),
        }
        obey
    }

    /// Removes the entry `name` of `dir` that lower layers made, with everything below it.
    fn hide(&mut self, dir: InodeId, name: &[u8]) {
        self.recent = DirPath::default();
        match self.lookup(dir, name) {
            Some(there) if self.is_of_this_layer(there) => self.prune(there),
            Some(_) => self.remove(dir, name),
            None => {}
        }
    }

    /// Removes `name` from `dir`.
    pub(super) fn remove(&mut self, dir: InodeId, name: &[u8]) {
        self.recent = DirPath::default();
        if let Some(entries) = self.entries(dir) {
            entries.remove(name);
        }
    }

    /// Removes all entries of lower layers from `dir`, and from what remains below it.
    fn prune(&mut self, dir: InodeId) {
        self.recent = DirPath::default();
        let mut open = vec![dir];
        while let Some(dir) = open.pop() {
            let mut entries = self.entries(dir).map(mem::take).unwrap_or_default();
            entries.retain(|_, &mut inode| self.is_of_this_layer(inode));
            open.extend(entries.values().filter(|&&inode| self.is_dir(inode)));
            if let Some(there) = self.entries(dir) {
                *there = entries;
            }
        }
    }

    /// Looks up the inode of `names`, following symbolic links within the tree except for the last.
    pub(super) fn find(
        &self,
        names: &[Vec<u8>],
        budget: &mut Budget<'_>,
    ) -> Result<Option<InodeId>, SourceError> {
        let Some((name, above)) = names.split_last() else { return Ok(Some(Self::ROOT)) };
        let mut path = self.known(above);
        for name in &above[path.names.len()..] {
            if !self.step(&mut path, name, budget)? {
                return Ok(None);
            }
        }
        Ok(self.lookup(path.last(), name))
    }

    /// Returns the common part of the last path and `names`.
    fn known(&self, names: &[Vec<u8>]) -> DirPath {
        if names.starts_with(&self.recent.names) { self.recent.clone() } else { DirPath::default() }
    }

    /// Extends `path`, which leads to a directory, by the directory `name` in it, following
    /// symbolic links. Returns false if there is none. The parent of the root is the root.
    fn step(
        &self,
        path: &mut DirPath,
        name: &[u8],
        budget: &mut Budget<'_>,
    ) -> Result<bool, SourceError> {
        let mut names = vec![name];
        while let Some(name) = names.pop() {
            budget.work(1)?;
            if name == b".." {
                path.dirs.pop();
                continue;
            }
            let Some(next) = self.lookup(path.last(), name) else { return Ok(false) };
            match &self.inode(next).form {
                Form::Dir(_) => path.dirs.push(next),
                Form::Other(DraftKind::Symlink(target)) => {
                    path.links += 1;
                    if path.links > LINKS_MAX {
                        return Ok(false);
                    }
                    if target.first() == Some(&b'/') {
                        path.dirs.clear();
                    }
                    names.extend(parts(target).rev());
                }
                Form::Other(_) => return Ok(false),
            }
        }
        path.names.push(name.to_vec());
        Ok(true)
    }

    /// Looks up the directory of `names`, in which this layer has an entry of time `mtime`. Missing
    /// directories are made, with permissions 0755, of user 0, and get their times in
    /// [`finish`](Self::finish). Returns `None` if something else is in the way.
    pub(super) fn dir_at(
        &mut self,
        names: &[Vec<u8>],
        mtime: Timestamp,
        budget: &mut Budget<'_>,
    ) -> Result<Option<InodeId>, SourceError> {
        let mut path = self.known(names);
        for name in &names[path.names.len()..] {
            let at = path.last();
            if self.step(&mut path, name, budget)? {
                continue;
            }
            if self.lookup(at, name).is_some() {
                return Ok(None);
            }
            budget.keep(INODE + name.len() as u64)?;
            let meta = Meta { perm: 0o755, mtime, atime: mtime, ..Meta::default() };
            let made = self.put(at, name, meta, XattrsId::default(), DraftKind::Dir)?;
            self.inodes[made.0 as usize].is_implied = true;
            path.dirs.push(made);
            path.names.push(name.clone());
        }
        for dir in path.dirs.iter().chain([&Self::ROOT]) {
            self.inodes[dir.0 as usize].layer = self.layer;
        }
        let dir = path.last();
        self.recent = path;
        Ok(Some(dir))
    }

    /// Returns the bytes of content from archives that are still reachable, and the number of
    /// inodes that were visited.
    pub(super) fn content(&self) -> (u64, u64) {
        let mut seen = vec![false; self.inodes.len()];
        let (mut open, mut bytes) = (vec![Self::ROOT], 0);
        while let Some(inode) = open.pop() {
            match &self.inode(inode).form {
                Form::Dir(entries) => open.extend(self.dirs[*entries as usize].values()),
                Form::Other(DraftKind::File { size, content })
                    if !std::mem::replace(&mut seen[inode.0 as usize], true) =>
                {
                    bytes += self.locations.values[content.0 as usize].stored(*size);
                }
                Form::Other(_) => {}
            }
        }
        (bytes, self.inodes.len() as u64)
    }

    /// Sets the time of directories that no archive lists to the newest time in them, from the
    /// bottom up. A directory that is empty by now keeps the time of the entry it was made for.
    fn date_implied(&mut self) {
        let mut order = vec![Self::ROOT];
        let mut at = 0;
        while let Some(&dir) = order.get(at) {
            if let Form::Dir(entries) = self.inode(dir).form {
                let below = self.dirs[entries as usize].values().copied();
                order.extend(below.filter(|&inode| self.is_dir(inode)));
            }
            at += 1;
        }
        for dir in order.into_iter().rev() {
            let Form::Dir(entries) = self.inode(dir).form else { continue };
            let times = self.dirs[entries as usize].values().map(|&id| self.inode(id).meta.mtime);
            if let Some(newest) = times.max().filter(|_| self.inode(dir).is_implied) {
                let meta = &mut self.inodes[dir.0 as usize].meta;
                (meta.mtime, meta.atime) = (newest, newest);
            }
        }
    }

    /// Numbers everything that can be reached from the root.
    pub(super) fn finish(mut self) -> Result<Tree, SourceError> {
        self.date_implied();
        let mut tree = Tree::empty();
        let mut first_names = vec![None; self.inodes.len()];
        self.node(Self::ROOT, &mut tree.nodes[0]);
        let mut open = vec![(NodeId::ROOT, Self::ROOT)];
        while let Some((node, dir)) = open.pop() {
            let entries = self.entries(dir).map(mem::take).unwrap_or_default();
            let number = |count: usize| u32::try_from(count).map_err(|_| too_many(b"/"));
            let first = number(tree.nodes.len())?;
            let count = number(entries.len())?;
            tree.nodes[node.index()].kind = Kind::Dir { first, count };
            number(tree.nodes.len() + entries.len())?;
            let mut dirs = Vec::new();
            for (id, (name, inode)) in (first..).map(NodeId).zip(entries) {
                let mut made = Node { parent: node, name: keep(&mut tree.text, &name)?, ..blank() };
                let first_name: &mut Option<NodeId> = &mut first_names[inode.0 as usize];
                if let Some(target) = *first_name {
                    made.kind = Kind::HardLink(target);
                    tree.nodes[target.index()].nlink += 1;
                } else {
                    *first_name = Some(id);
                    self.node(inode, &mut made);
                    if let Form::Other(DraftKind::Symlink(target)) = &self.inode(inode).form {
                        made.target = keep(&mut tree.text, target)?;
                    }
                    if self.is_dir(inode) {
                        tree.nodes[node.index()].nlink += 1;
                        dirs.push((id, inode));
                    }
                }
                tree.nodes.push(made);
            }
            open.extend(dirs.into_iter().rev());
        }
        tree.xattrs = self.xattrs.into_values();
        tree.locations = self.locations.into_values();
        tree.stores = self.stores;
        tree.notes = self.notes;
        Ok(tree)
    }

    /// Fills `node` from `inode`, except a directory's children.
    fn node(&self, inode: InodeId, node: &mut Node) {
        let Inode { meta, xattrs, form, .. } = self.inode(inode);
        (node.meta, node.xattrs, node.nlink) = (*meta, *xattrs, 1);
        node.kind = match form {
            Form::Dir(_) | Form::Other(DraftKind::Dir) => {
                node.nlink = 2;
                Kind::Dir { first: 0, count: 0 }
            }
            Form::Other(DraftKind::File { size, content }) => {
                Kind::File { size: *size, content: *content }
            }
            // The length was checked by `put`.
            Form::Other(DraftKind::Symlink(target)) => {
                Kind::Symlink { len: u16::try_from(target.len()).unwrap_or(u16::MAX) }
            }
            &Form::Other(DraftKind::Char { major, minor }) => Kind::Char { major, minor },
            &Form::Other(DraftKind::Block { major, minor }) => Kind::Block { major, minor },
            Form::Other(DraftKind::Fifo) => Kind::Fifo,
            Form::Other(DraftKind::Socket) => Kind::Socket,
        };
    }
}

/// Returns an empty node.
fn blank() -> Node {
    Node {
        kind: Kind::Fifo,
        meta: Meta::default(),
        nlink: 0,
        parent: NodeId::ROOT,
        name: Text::default(),
        target: Text::default(),
        xattrs: XattrsId::default(),
    }
}

/// Adds `bytes`, at most 65535 of them, to `text`.
fn keep(text: &mut Vec<u8>, bytes: &[u8]) -> Result<Text, SourceError> {
    let at = u32::try_from(text.len()).map_err(|_| too_many(bytes))?;
    let len = u16::try_from(bytes.len()).map_err(|_| too_many(bytes))?;
    text.extend_from_slice(bytes);
    Ok(Text { at, len })
}

/// Splits a path into names, without empty ones and `.`.
pub(super) fn parts(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|&b| b == b'/').filter(|part| !part.is_empty() && part != b".")
}

/// Refuses a name that is not valid (invariant 4 of [`tree`](super::tree)).
fn check_name(name: &[u8]) -> Result<(), SourceError> {
    let what = match name {
        b"" | b"." | b".." => "no name for a file",
        _ if name.contains(&b'/') || name.contains(&0) => "a name with a slash or a zero in it",
        _ if name.len() > xfskit_format::dir::NAME_MAX => "longer than the 255 bytes of a name",
        _ => return Ok(()),
    };
    Err(SourceError::Unfit { path: name.to_vec(), what: what.into() })
}
