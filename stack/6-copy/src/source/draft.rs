//! A tree in the making: layers change it entry by entry, then it is numbered and becomes a
//! [`Tree`].
//!
//! Here names and inodes are apart, as on disk: an inode that lost a name to a later layer lives on
//! under its other names, and one that lost all is left behind when the tree is numbered.

use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::sync::Arc;

use xfskit_format::timestamp::Timestamp;

use super::budget::{Budget, INODE};
use super::content::{Place, Stores};
use super::tree::{ContentId, Kind, Meta, Node, NodeId, Notes, Text, Tree, Xattr, XattrsId};
use super::{SourceError, xattr};

/// Opaque whiteout: nothing of lower layers is seen in its directory.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// What the name of a whiteout begins with.
const WHITEOUT: &[u8] = b".wh.";

/// The number of an inode in its [`Draft`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct InodeId(u32);

/// What an inode is to be.
#[derive(Clone, Debug)]
pub(super) enum What {
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
    /// The last layer that had something to say of it, or of what is below.
    layer: u16,
    /// A directory that no layer lists: it is there for what is in it.
    is_implied: bool,
}

/// [`What`], with the place of a directory's entries.
#[derive(Debug)]
enum Form {
    Dir(u32),
    Other(What),
}

/// Names to inodes.
type Entries = BTreeMap<Box<[u8]>, InodeId>;

/// The tree in the making.
#[derive(Debug)]
pub(super) struct Draft {
    inodes: Vec<Inode>,
    dirs: Vec<Entries>,
    /// The one being laid over the others.
    layer: u16,
    pub(super) xattrs: Interned<Arc<[Xattr]>>,
    places: Interned<Place>,
    pub(super) stores: Stores,
    pub(super) notes: Notes,
    /// The way to the directory of the last member: the next one mostly lies there too. Empty once
    /// a name leads elsewhere.
    recent: Way,
}

/// The way to a directory.
#[derive(Clone, Debug, Default)]
struct Way {
    /// As an archive says it.
    names: Vec<Vec<u8>>,
    /// Below the root, symbolic links followed: so that `..` in a link's target can go up again.
    dirs: Vec<InodeId>,
    /// Symbolic links followed.
    links: u32,
}

impl Way {
    fn last(&self) -> InodeId {
        self.dirs.last().copied().unwrap_or(Draft::ROOT)
    }
}

/// Values of which many are equal, each kept once and numbered.
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

    /// The number of `value`; `None` where 32 bits have no more numbers.
    pub(super) fn number(&mut self, value: T) -> Option<u32> {
        if let Some(&number) = self.numbers.get(&value) {
            return Some(number);
        }
        let number = self.push(value.clone())?;
        self.numbers.insert(value, number);
        Some(number)
    }

    /// A number of its own for `value`, whose like will not come again.
    fn push(&mut self, value: T) -> Option<u32> {
        let number = u32::try_from(self.values.len()).ok()?;
        self.values.push(value);
        Some(number)
    }

    pub(super) fn into_values(self) -> Vec<T> {
        self.values
    }
}

/// More than a [`Tree`] can number.
fn too_many(path: &[u8]) -> SourceError {
    SourceError::Unfit { path: path.to_vec(), what: "more than 2^32 of a kind in one tree".into() }
}

/// Symbolic links on one path, as Linux counts them.
const LINKS_MAX: u32 = 40;

impl Draft {
    pub(super) const ROOT: InodeId = InodeId(0);

    /// An empty root.
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
            places: Interned::new(Vec::new()),
            stores: Stores::default(),
            notes: Notes::default(),
            recent: Way::default(),
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

    /// Keeps a set of attributes, sorted by namespace and name. Returns its number, and the
    /// bytes of memory that it takes: none where an equal one is kept already.
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

    /// Keeps the place of a content.
    pub(super) fn keep_place(
        &mut self,
        path: &[u8],
        place: Place,
    ) -> Result<ContentId, SourceError> {
        let number = match place {
            Place::Hole | Place::Disk { .. } => self.places.number(place),
            place => self.places.push(place),
        };
        number.map(ContentId).ok_or_else(|| too_many(path))
    }

    /// Gives directory `dir` the metadata of a later layer.
    pub(super) fn set(&mut self, dir: InodeId, meta: Meta, xattrs: XattrsId) {
        let inode = &mut self.inodes[dir.0 as usize];
        (inode.meta, inode.xattrs, inode.layer) = (meta, xattrs, self.layer);
        inode.is_implied = false;
    }

    /// Makes `name` in `dir`; a directory that is there already keeps what it holds, all else that
    /// is there gives way.
    pub(super) fn put(
        &mut self,
        dir: InodeId,
        name: &[u8],
        meta: Meta,
        xattrs: XattrsId,
        what: What,
    ) -> Result<InodeId, SourceError> {
        check_name(name)?;
        if let What::Symlink(target) = &what {
            xattr::check_target(name, target)?;
        }
        let form = if let What::Dir = what {
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
            self.recent = Way::default();
        }
        Ok(())
    }

    /// What follows lies over all that is there.
    pub(super) fn begin_layer(&mut self) -> Result<(), SourceError> {
        self.layer = self.layer.checked_add(1).ok_or_else(|| too_many(b"/"))?;
        self.recent = Way::default();
        Ok(())
    }

    fn is_of_this_layer(&self, inode: InodeId) -> bool {
        self.inode(inode).layer == self.layer
    }

    /// Obeys the whiteout `name` in `dir` where `obey` is set, and counts it otherwise. Returns true
    /// if it was obeyed: then it is no file of the tree. Other names change nothing.
    pub(super) fn take_whiteout(&mut self, dir: InodeId, name: &[u8], obey: bool) -> bool {
        let Some(hidden) = name.strip_prefix(WHITEOUT) else { return false };
        match obey {
            false => self.notes.whiteouts += 1,
            true if name == OPAQUE => self.prune(dir),
            true => self.hide(dir, hidden),
        }
        obey
    }

    /// Removes what lower layers have as `name` in `dir`, with all below it.
    fn hide(&mut self, dir: InodeId, name: &[u8]) {
        self.recent = Way::default();
        match self.lookup(dir, name) {
            Some(there) if self.is_of_this_layer(there) => self.prune(there),
            Some(_) => self.remove(dir, name),
            None => {}
        }
    }

    /// Removes `name` from `dir`.
    pub(super) fn remove(&mut self, dir: InodeId, name: &[u8]) {
        self.recent = Way::default();
        if let Some(entries) = self.entries(dir) {
            entries.remove(name);
        }
    }

    /// Removes from `dir`, and from what remains below it, all that lower layers have put there.
    fn prune(&mut self, dir: InodeId) {
        self.recent = Way::default();
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

    /// The inode that `names` lead to, following symbolic links within the tree but for the last.
    pub(super) fn find(
        &self,
        names: &[Vec<u8>],
        budget: &mut Budget<'_>,
    ) -> Result<Option<InodeId>, SourceError> {
        let Some((name, above)) = names.split_last() else { return Ok(Some(Self::ROOT)) };
        let mut way = self.known(above);
        for name in &above[way.names.len()..] {
            if !self.step(&mut way, name, budget)? {
                return Ok(None);
            }
        }
        Ok(self.lookup(way.last(), name))
    }

    /// As much of the way along `names` as the last one has in common, where that one is a part of
    /// it.
    fn known(&self, names: &[Vec<u8>]) -> Way {
        if names.starts_with(&self.recent.names) { self.recent.clone() } else { Way::default() }
    }

    /// Extends `way`, which leads to a directory, to the directory `name` in it, following symbolic
    /// links; false where there is none. Up from the root is the root.
    fn step(
        &self,
        way: &mut Way,
        name: &[u8],
        budget: &mut Budget<'_>,
    ) -> Result<bool, SourceError> {
        let mut names = vec![name];
        while let Some(name) = names.pop() {
            budget.work(1)?;
            if name == b".." {
                way.dirs.pop();
                continue;
            }
            let Some(next) = self.lookup(way.last(), name) else { return Ok(false) };
            match &self.inode(next).form {
                Form::Dir(_) => way.dirs.push(next),
                Form::Other(What::Symlink(target)) => {
                    way.links += 1;
                    if way.links > LINKS_MAX {
                        return Ok(false);
                    }
                    if target.first() == Some(&b'/') {
                        way.dirs.clear();
                    }
                    names.extend(parts(target).rev());
                }
                Form::Other(_) => return Ok(false),
            }
        }
        way.names.push(name.to_vec());
        Ok(true)
    }

    /// The directory that `names` lead to, which this layer has something in, of time `mtime`. What
    /// is missing of the way is made, with permissions 0755, of user 0, and gets its time in
    /// [`finish`](Self::finish). `None` where something else is in the way.
    pub(super) fn dir_at(
        &mut self,
        names: &[Vec<u8>],
        mtime: Timestamp,
        budget: &mut Budget<'_>,
    ) -> Result<Option<InodeId>, SourceError> {
        let mut way = self.known(names);
        for name in &names[way.names.len()..] {
            let at = way.last();
            if self.step(&mut way, name, budget)? {
                continue;
            }
            if self.lookup(at, name).is_some() {
                return Ok(None);
            }
            budget.keep(INODE + name.len() as u64)?;
            let meta = Meta { perm: 0o755, mtime, atime: mtime, ..Meta::default() };
            let made = self.put(at, name, meta, XattrsId::default(), What::Dir)?;
            self.inodes[made.0 as usize].is_implied = true;
            way.dirs.push(made);
            way.names.push(name.clone());
        }
        for dir in way.dirs.iter().chain([&Self::ROOT]) {
            self.inodes[dir.0 as usize].layer = self.layer;
        }
        let dir = way.last();
        self.recent = way;
        Ok(Some(dir))
    }

    /// Bytes of content that archives have brought and that can be reached, and how many inodes
    /// were looked at.
    pub(super) fn content(&self) -> (u64, u64) {
        let mut seen = vec![false; self.inodes.len()];
        let (mut open, mut bytes) = (vec![Self::ROOT], 0);
        while let Some(inode) = open.pop() {
            match &self.inode(inode).form {
                Form::Dir(entries) => open.extend(self.dirs[*entries as usize].values()),
                Form::Other(What::File { size, content })
                    if !std::mem::replace(&mut seen[inode.0 as usize], true) =>
                {
                    bytes += self.places.values[content.0 as usize].stored(*size);
                }
                Form::Other(_) => {}
            }
        }
        (bytes, self.inodes.len() as u64)
    }

    /// Gives directories that no archive lists the time of the newest of what is in them, from
    /// below. Where nothing is left in one it keeps the time of what it was made for.
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

    /// Numbers what can be reached from the root.
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
                    if let Form::Other(What::Symlink(target)) = &self.inode(inode).form {
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
        tree.places = self.places.into_values();
        tree.stores = self.stores;
        tree.notes = self.notes;
        Ok(tree)
    }

    /// Gives `node` what `inode` has; where a directory's children are is still to come.
    fn node(&self, inode: InodeId, node: &mut Node) {
        let Inode { meta, xattrs, form, .. } = self.inode(inode);
        (node.meta, node.xattrs, node.nlink) = (*meta, *xattrs, 1);
        node.kind = match form {
            Form::Dir(_) | Form::Other(What::Dir) => {
                node.nlink = 2;
                Kind::Dir { first: 0, count: 0 }
            }
            Form::Other(What::File { size, content }) => {
                Kind::File { size: *size, content: *content }
            }
            // Checked when it was put.
            Form::Other(What::Symlink(target)) => {
                Kind::Symlink { len: u16::try_from(target.len()).unwrap_or(u16::MAX) }
            }
            &Form::Other(What::Char { major, minor }) => Kind::Char { major, minor },
            &Form::Other(What::Block { major, minor }) => Kind::Block { major, minor },
            Form::Other(What::Fifo) => Kind::Fifo,
            Form::Other(What::Socket) => Kind::Socket,
        };
    }
}

/// A node to be filled in.
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

/// Keeps `bytes`, at most 65535 of them, in `text`.
fn keep(text: &mut Vec<u8>, bytes: &[u8]) -> Result<Text, SourceError> {
    let at = u32::try_from(text.len()).map_err(|_| too_many(bytes))?;
    let len = u16::try_from(bytes.len()).map_err(|_| too_many(bytes))?;
    text.extend_from_slice(bytes);
    Ok(Text { at, len })
}

/// The names of a path: what is between slashes, without `.` and nothing.
pub(super) fn parts(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|&b| b == b'/').filter(|part| !part.is_empty() && part != b".")
}

/// Refuses what cannot be a name (invariant 4 of [`tree`](super::tree)).
fn check_name(name: &[u8]) -> Result<(), SourceError> {
    let what = match name {
        b"" | b"." | b".." => "no name for a file",
        _ if name.contains(&b'/') || name.contains(&0) => "a name with a slash or a zero in it",
        _ if name.len() > xfskit_format::dir::NAME_MAX => "longer than the 255 bytes of a name",
        _ => return Ok(()),
    };
    Err(SourceError::Unfit { path: name.to_vec(), what: what.into() })
}
