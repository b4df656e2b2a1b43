//! Both sides do the same; what differs is told.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_core::{Error as Core, OpenOptions, Volume};
use xfskit_mkfs::{DeviceFacts, Options, Stamp};
use xfskit_units::{ByteLen, Ino, Uuid};
use xfskit_vfs::{Clock, Error, Fs, NewNode, RenameMode, SetAttr, SetMode, Timestamp};

use crate::mem::{Id, Kind, Mem, Refusal};
use crate::op::Op;

/// A difference between the two sides.
pub type Difference = String;

/// A volume to try on: mkfs options, one per `-x y` pair, and its size.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Options as mkfs.xfs takes them: `("-m", "rmapbt=0")`.
    pub options: &'static [(&'static str, &'static str)],
    /// Bytes.
    pub size: u64,
}

/// A volume and its model.
#[derive(Debug)]
pub struct Pair {
    dev: Arc<MemDevice>,
    fs: Option<Arc<Fs>>,
    mem: Mem,
    /// Inode numbers of the model's nodes.
    inos: HashMap<Id, Ino>,
    refused: usize,
}

/// A new volume of this shape.
///
/// # Panics
/// Where it cannot be made.
pub fn make(shape: Shape) -> Arc<MemDevice> {
    let dev = Arc::new(MemDevice::new(ByteLen(shape.size)));
    let mut options = Options::default();
    for (option, argument) in shape.options {
        options.sub(option, argument).unwrap();
    }
    let stamp =
        Stamp { uuid: Uuid::from_u128(7), seconds: 1_600_000_000, nanoseconds: 0, generation: 9 };
    let plan = xfskit_mkfs::plan(&options, &DeviceFacts::of(&*dev, None), stamp).unwrap();
    xfskit_mkfs::make(&*dev, None, &plan).unwrap();
    dev
}

/// Opens for writing.
///
/// # Panics
/// Where that fails.
pub fn open(dev: &Arc<MemDevice>) -> Fs {
    let options = OpenOptions { write: true, cache_bytes: 4 << 20, ..OpenOptions::default() };
    let volume = Volume::open(Arc::clone(dev) as Arc<dyn BlockDevice>, &options).unwrap();
    let now = std::sync::atomic::AtomicI64::new(1_700_000_000);
    let tick = move || now.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    Fs::with_clock(volume, Clock::new(move || Timestamp { sec: tick(), nsec: 5 }))
}

impl Pair {
    /// A new volume of this shape, and the model of an empty one.
    pub fn new(shape: Shape) -> Self {
        let dev = make(shape);
        let fs = open(&dev);
        let root = fs.volume().geo().rootino;
        Self::below(dev, Arc::new(fs), root)
    }

    /// The model of the empty directory `root`: mode 0755, owner and group 0. Others may have the volume open, too,
    /// and change it outside of that directory; then [`Op::Reopen`] must not be asked for.
    pub fn below(dev: Arc<MemDevice>, fs: Arc<Fs>, root: Ino) -> Self {
        Self {
            dev,
            fs: Some(fs),
            mem: Mem::default(),
            inos: HashMap::from([(0, root)]),
            refused: 0,
        }
    }

    fn fs(&self) -> &Fs {
        self.fs.as_ref().expect("open between operations")
    }

    /// The device.
    pub fn device(&self) -> &Arc<MemDevice> {
        &self.dev
    }

    /// Does `op` on both sides.
    ///
    /// # Errors
    /// Where one side answers what the other does not.
    pub fn step(&mut self, op: &Op) -> Result<(), Difference> {
        let dirs = self.mem.dirs();
        let dir = |n: u32| dirs[n as usize % dirs.len()];
        let all = self.mem.reachable();
        let node = |n: u32| all[n as usize % all.len()];
        match *op {
            Op::MakeFile { dir: d, name } => {
                let new = NewNode::file(0o640).owner(name, 7);
                self.make_node(dir(d), name, Kind::File(vec![]), &new)
            }
            Op::MakeDir { dir: d, name } => {
                let new = NewNode::directory(0o755).owner(3, name);
                self.make_node(dir(d), name, Kind::Dir(BTreeMap::new()), &new)
            }
            Op::Symlink { dir: d, name, len } => {
                let target = vec![b'a' + (len % 26).to_be_bytes()[3]; len as usize];
                let new = NewNode::symlink(&target);
                self.make_node(dir(d), name, Kind::Symlink(target), &new)
            }
            Op::Special { dir: d, name, minor } => {
                let mode = xfskit_vfs::FileType::CharDevice.mode() | 0o600;
                let new = NewNode { mode, rdev: Some((5, minor)), ..NewNode::default() };
                self.make_node(dir(d), name, Kind::Device(5, minor), &new)
            }
            Op::Link { node: n, dir: d, name } => self.link(node(n), dir(d), name),
            Op::Unlink { dir: d, entry } => self.remove(dir(d), entry, false),
            Op::Rmdir { dir: d, entry } => self.remove(dir(d), entry, true),
            Op::Rename { from, entry, to, name, mode } => {
                self.rename(dir(from), entry, dir(to), name, mode)
            }
            Op::SetAttr { node: n, perm, uid } => self.set_attr(node(n), perm, uid),
            Op::SetXattr { node: n, name, len } => self.set_xattr(node(n), name, len),
            Op::RemoveXattr { node: n, entry } => self.remove_xattr(node(n), entry),
            Op::Write { node: n, offset, len, fill } => self.write(node(n), offset, len, fill),
            Op::Truncate { node: n, size } => self.truncate(node(n), size),
            Op::Sync => self.fs().sync().map_err(|error| format!("sync: {error}")),
            Op::Reopen => self.reopen(),
        }
    }

    /// Operations that found no space, and changed nothing.
    pub fn refused(&self) -> usize {
        self.refused
    }

    fn is_full<T>(&mut self, answer: &Result<T, Error>) -> bool {
        let full = matches!(answer, Err(Error::Core(Core::NoSpace(_))));
        self.refused += usize::from(full);
        full
    }

    fn ino(&self, id: Id) -> Ino {
        self.inos[&id]
    }

    fn make_node(&mut self, dir: Id, n: u32, kind: Kind, new: &NewNode) -> Result<(), Difference> {
        let name = name_of(n);
        let ours = self.fs().make(self.ino(dir), &name, new);
        if self.is_full(&ours) {
            return Ok(());
        }
        let id = self.mem.nodes.len();
        let theirs = self.mem.make(dir, &name, kind, new.mode & 0o7777, (new.uid, new.gid));
        if let Ok(ino) = ours {
            self.inos.insert(id, ino);
        }
        agree("make", &ours.map(drop), theirs)
    }

    fn link(&mut self, id: Id, dir: Id, n: u32) -> Result<(), Difference> {
        let name = name_of(n);
        let ours = self.fs().link(self.ino(id), self.ino(dir), &name);
        if self.is_full(&ours) {
            return Ok(());
        }
        agree("link", &ours, self.mem.link(id, dir, &name))
    }

    fn entry(&self, dir: Id, n: u32) -> Vec<u8> {
        let entries = self.mem.entries(dir);
        let at = n as usize % entries.len().max(1);
        entries.keys().nth(at).cloned().unwrap_or_else(|| b"nothing".to_vec())
    }

    fn remove(&mut self, dir: Id, n: u32, is_dir: bool) -> Result<(), Difference> {
        let (name, at) = (self.entry(dir, n), self.ino(dir));
        let (ours, theirs) = if is_dir {
            (self.fs().rmdir(at, &name), self.mem.rmdir(dir, &name))
        } else {
            (self.fs().unlink(at, &name), self.mem.unlink(dir, &name))
        };
        agree("remove", &ours, theirs)
    }

    fn rename(
        &mut self,
        from: Id,
        n: u32,
        to: Id,
        name: u32,
        mode: RenameMode,
    ) -> Result<(), Difference> {
        let (old, new) = (self.entry(from, n), name_of(name));
        let ours = self.fs().rename(self.ino(from), &old, self.ino(to), &new, mode);
        if self.is_full(&ours) {
            return Ok(());
        }
        agree("rename", &ours, self.mem.rename((from, &old), (to, &new), mode))
    }

    fn set_attr(&mut self, id: Id, perm: u16, uid: u32) -> Result<(), Difference> {
        let set = SetAttr { perm: Some(perm), uid: Some(uid), ..SetAttr::default() };
        let ours = self.fs().set_attr(self.ino(id), &set);
        let node = &mut self.mem.nodes[id];
        (node.perm, node.owner.0) = (perm, uid);
        agree("set_attr", &ours, Ok(()))
    }

    fn set_xattr(&mut self, id: Id, n: u32, len: u32) -> Result<(), Difference> {
        let name = format!("user.x{n}{}", "y".repeat(n as usize * 5)).into_bytes();
        let value = vec![n.to_be_bytes()[3]; len as usize];
        let ours = self.fs().set_xattr(self.ino(id), &name, &value, SetMode::Any);
        if self.is_full(&ours) {
            return Ok(());
        }
        self.mem.nodes[id].xattrs.insert(name, value);
        agree("set_xattr", &ours, Ok(()))
    }

    fn remove_xattr(&mut self, id: Id, n: u32) -> Result<(), Difference> {
        let xattrs = &mut self.mem.nodes[id].xattrs;
        let name = xattrs.keys().nth(n as usize % xattrs.len().max(1)).cloned();
        let name = name.unwrap_or_else(|| b"user.nothing".to_vec());
        let theirs = xattrs.remove(&name).map(drop).ok_or(Refusal::NoEntry);
        agree("remove_xattr", &self.fs().remove_xattr(self.ino(id), &name), theirs)
    }

    fn write(&mut self, id: Id, offset: u32, len: u32, fill: u8) -> Result<(), Difference> {
        if !matches!(self.mem.nodes[id].kind, Kind::File(_)) {
            return Ok(());
        }
        let bytes: Vec<u8> = (0..len).map(|i| fill.wrapping_add(i.to_be_bytes()[3])).collect();
        let ours = self.fs().write(self.ino(id), offset.into(), &bytes);
        if self.is_full(&ours) {
            return Ok(());
        }
        if let Kind::File(content) = &mut self.mem.nodes[id].kind {
            let (start, end) = (offset as usize, (offset + len) as usize);
            if len > 0 {
                content.resize(content.len().max(end), 0);
                content[start..end].copy_from_slice(&bytes);
            }
        }
        agree("write", &ours, Ok(()))
    }

    fn truncate(&mut self, id: Id, size: u32) -> Result<(), Difference> {
        if !matches!(self.mem.nodes[id].kind, Kind::File(_)) {
            return Ok(());
        }
        let ours = self.fs().truncate(self.ino(id), size.into());
        if self.is_full(&ours) {
            return Ok(());
        }
        if let Kind::File(content) = &mut self.mem.nodes[id].kind {
            content.resize(size as usize, 0);
        }
        agree("truncate", &ours, Ok(()))
    }

    /// Closes, lets the judge look, and opens again.
    fn reopen(&mut self) -> Result<(), Difference> {
        self.close()?;
        self.fs = Some(Arc::new(open(&self.dev)));
        self.compare()
    }

    /// Closes, and lets the judge look.
    ///
    /// # Errors
    /// What the judge finds.
    pub fn close(&mut self) -> Result<(), Difference> {
        if let Some(fs) = self.fs.take() {
            let fs = Arc::into_inner(fs).ok_or("close: others have the volume open")?;
            fs.close().map_err(|error| format!("close: {error}"))?;
        }
        judge(&self.dev)
    }

    /// Compares both trees, everything of them.
    ///
    /// # Errors
    /// The first difference.
    pub fn compare(&self) -> Result<(), Difference> {
        for dir in self.mem.dirs() {
            let fs = self.fs();
            let inode = fs.inode(self.ino(dir)).map_err(|error| format!("{dir}: {error}"))?;
            let portion = fs.read_dir(&inode);
            if let Some(error) = portion.errors.first() {
                return Err(format!("directory {dir}: {error}"));
            }
            let ours: BTreeMap<_, _> =
                portion.entries.into_iter().map(|entry| (entry.name, entry.ino)).collect();
            let entries = self.mem.entries(dir);
            let theirs: BTreeMap<_, _> =
                entries.iter().map(|(name, id)| (name.clone(), self.ino(*id))).collect();
            same(&format!("entries of {dir}"), &ours, &theirs)?;
        }
        self.mem.reachable().into_iter().try_for_each(|id| self.compare_node(id))
    }

    fn compare_node(&self, id: Id) -> Result<(), Difference> {
        let (fs, node) = (self.fs(), &self.mem.nodes[id]);
        let inode = fs.inode(self.ino(id)).map_err(|error| format!("node {id}: {error}"))?;
        let core = inode.core();
        same(&format!("perm of {id}"), &(core.mode() & 0o7777), &node.perm)?;
        same(&format!("owner of {id}"), &(core.uid(), core.gid()), &node.owner)?;
        same(&format!("nlink of {id}"), &core.nlink(), &node.nlink)?;
        let (xattrs, errors) = fs.xattrs(&inode);
        if let Some(error) = errors.first() {
            return Err(format!("xattrs of {id}: {error}"));
        }
        let xattrs: BTreeMap<_, _> = xattrs.into_iter().map(|x| (x.name, x.value)).collect();
        same(&format!("xattrs of {id}"), &xattrs, &node.xattrs)?;
        match &node.kind {
            Kind::File(content) => {
                let mut ours = vec![0xee; content.len() + 1];
                let len = fs.read(inode.ino(), 0, &mut ours).map_err(|error| error.to_string())?;
                ours.truncate(len);
                if ours != *content {
                    let at = ours.iter().zip(content).position(|(a, b)| a != b);
                    let (a, b) = (ours.len(), content.len());
                    return Err(format!("content of {id}: {a} and {b} bytes, differ at {at:?}"));
                }
                Ok(())
            }
            Kind::Symlink(target) => {
                let ours = fs.read_link(&inode).map_err(|error| error.to_string())?;
                same(&format!("target of {id}"), &ours, target)
            }
            Kind::Device(major, minor) => {
                same(&format!("rdev of {id}"), &core.rdev(), &Some((*major, *minor)))
            }
            Kind::Dir(_) | Kind::Fifo => Ok(()),
        }
    }
}

/// What the judge has to say of the volume on `dev`.
///
/// # Errors
/// Its first findings.
pub fn judge(dev: &Arc<MemDevice>) -> Result<(), Difference> {
    let mut first = None;
    let mut note = |finding: xfskit_check::Finding| {
        first.get_or_insert_with(|| format!("check: {finding:?}"));
    };
    let report = xfskit_check::check(&**dev, None, &xfskit_check::Options::default(), &mut note);
    match (report, first) {
        (Err(error), _) => Err(format!("check: {error}")),
        (_, Some(first)) => Err(first),
        (Ok(_), None) => Ok(()),
    }
}

/// A name: short or long, some the beginning of others.
fn name_of(n: u32) -> Vec<u8> {
    let mut name = format!("n{n}").into_bytes();
    name.resize(name.len() + (n as usize * 37) % 90, b'x');
    name
}

fn same<T: PartialEq + Debug>(what: &str, ours: &T, theirs: &T) -> Result<(), Difference> {
    if ours == theirs {
        return Ok(());
    }
    Err(format!("{what}: {ours:?}, expected {theirs:?}"))
}

/// Both sides succeed, or refuse for the same reason.
fn agree(
    what: &str,
    ours: &Result<(), Error>,
    theirs: Result<(), Refusal>,
) -> Result<(), Difference> {
    let refused = ours.as_ref().err().map(|error| match error {
        Error::Core(Core::Exists) => Some(Refusal::Exists),
        Error::Core(Core::NoEntry) => Some(Refusal::NoEntry),
        Error::Core(Core::NotEmpty) => Some(Refusal::NotEmpty),
        Error::Core(Core::NotDirectory(_) | Core::NotFile(_) | Core::Limit(_)) => {
            Some(Refusal::Senseless)
        }
        _ => None,
    });
    let same = match (refused, theirs) {
        (None, Ok(())) => true,
        (Some(Some(ours)), Err(theirs)) => ours == theirs,
        _ => false,
    };
    if same { Ok(()) } else { Err(format!("{what}: {ours:?}, expected {theirs:?}")) }
}
