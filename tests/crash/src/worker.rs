//! One thread's work below a directory of its own: random operations, each noted in its diary.

use std::ops::Range;
use std::sync::Arc;

use xfskit_block::RecordingDevice;
use xfskit_vfs::{
    Entry, Error, FileType, Fs, Handle, Hold, Ino, NewNode, RenameMode, SetAttr, SetMode,
};

use crate::diary::Diary;
use crate::pattern;
use crate::random::Random;
use crate::tree::{self, Key};

/// Something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// A new file.
    Make,
    /// A new directory, below the home alone.
    MakeDir,
    /// A new symbolic link, short or long.
    Symlink,
    /// A name goes, whatever it names.
    Remove,
    /// A file gets a further name.
    Link,
    /// A name changes, perhaps in the place of another.
    Rename,
    /// Two names change places.
    Swap,
    /// Mode and owner.
    SetAttr,
    /// An attribute, small or large.
    SetXattr,
    /// An attribute goes.
    RemoveXattr,
    /// Content is written: inside, at the end, behind it.
    Write,
    /// A file becomes shorter or longer.
    Truncate,
    /// A range becomes a hole.
    Punch,
    /// A range is zeroed.
    Zero,
    /// A range gets space.
    Preallocate,
    /// A range goes, and what is behind it moves up.
    Collapse,
    /// Room is made within a file.
    Insert,
    /// A file gets the blocks of another.
    Share,
    /// Shared blocks become own ones.
    Unshare,
    /// Content is copied between files.
    Copy,
    /// Two files exchange content.
    Exchange,
    /// A file loses its last name while it is open, and is written to.
    Orphan,
    /// The oldest such file is closed.
    Release,
}

/// What a worker likes to do.
#[derive(Clone, Copy, Debug)]
pub struct Taste {
    /// What it does, how often when it builds up, and how often when it tears down.
    pub deeds: &'static [(Deed, usize, usize)],
    /// Operations until it turns from building up to tearing down, or back.
    pub tide: usize,
    /// Names it uses.
    pub names: usize,
    /// Longest name.
    pub name_max: usize,
    /// Subdirectories it works in, beside its home.
    pub dirs: usize,
    /// Largest content, in bytes.
    pub content: u64,
    /// Largest value of an attribute, in bytes.
    pub value: usize,
    /// Of so many operations one is followed by a sync of some kind.
    pub sync_one_in: usize,
}

/// Files that are kept open without a name at most.
const ORPHANS: usize = 5;

/// A thread at work.
pub struct Worker<'f> {
    number: u16,
    fs: &'f Fs,
    recorder: &'f RecordingDevice,
    home: Ino,
    taste: Taste,
    random: Random,
    diary: Diary,
    orphans: Vec<(Handle<'f>, Hold<'f>)>,
    /// What is in its home.
    entries: Vec<(Vec<u8>, Ino)>,
}

impl<'f> Worker<'f> {
    /// Begins below `home`.
    ///
    /// # Panics
    /// Where the tree cannot be read.
    pub fn new(
        number: u16,
        fs: &'f Fs,
        recorder: &'f RecordingDevice,
        home: Ino,
        taste: Taste,
        random: Random,
    ) -> Self {
        let diary = Diary::new(tree::names(fs, home).expect("a tree"));
        Self {
            number,
            fs,
            recorder,
            home,
            taste,
            random,
            diary,
            orphans: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// Does `steps` operations.
    ///
    /// # Panics
    /// Where the volume breaks.
    pub fn work(mut self, steps: usize) -> Diary {
        for step in 0..steps {
            let builds = (step / self.taste.tide).is_multiple_of(2);
            let deed = self.choose(builds);
            self.diary.begin(self.recorder.event_count());
            self.diary.tell(format!("{deed:?}"));
            if let Err(error) = self.perform(deed) {
                // No space, no such name, not empty: nothing was done.
                assert!(![5, 117].contains(&error.errno()), "{deed:?}: {error}");
            }
            let entries = self.inos(self.home);
            let home_changed = entries != self.entries;
            self.entries = entries;
            self.diary.end(tree::names(self.fs, self.home).expect("a tree"), home_changed);
            if self.random.one_in(self.taste.sync_one_in) {
                self.make_durable();
            }
        }
        self.diary
    }

    fn choose(&mut self, builds: bool) -> Deed {
        let weight = |&(_, up, down): &(Deed, usize, usize)| if builds { up } else { down };
        let mut left = self.random.below(self.taste.deeds.iter().map(weight).sum());
        for entry in self.taste.deeds {
            match left.checked_sub(weight(entry)) {
                Some(rest) => left = rest,
                None => return entry.0,
            }
        }
        unreachable!("below the sum")
    }

    fn make_durable(&mut self) {
        match self.random.below(4) {
            0 => {
                self.fs.sync().expect("synced");
                self.diary.synced(self.recorder.event_count());
            }
            1 => self.fs.volume().engine().expect("writable").write_back().expect("written back"),
            2 => {
                self.fs.fsync(self.home).expect("synced");
                self.diary.forced(self.recorder.event_count());
            }
            _ => {
                let Some(file) = self.some_file() else { return };
                self.fs.open(file).and_then(|handle| handle.fsync()).expect("synced");
                let key = tree::key(self.fs, file).expect("an inode");
                self.diary.synced_file(key, self.recorder.event_count());
            }
        }
    }

    fn perform(&mut self, deed: Deed) -> Result<(), Error> {
        let fs = self.fs;
        let dir = self.some_dir();
        let (new, found) = (self.name(), self.some_entry(dir));
        match (deed, found) {
            (Deed::Make, _) => {
                let ino = fs.make(dir, &new, &NewNode::file(0o644))?;
                self.diary.content(tree::key(fs, ino)?, Arc::default());
                Ok(())
            }
            (Deed::MakeDir, _) => {
                let name = format!("dir{}", self.random.below(self.taste.dirs.max(1)));
                fs.make(self.home, name.as_bytes(), &NewNode::directory(0o755)).map(drop)
            }
            (Deed::Symlink, _) => {
                let target = vec![b't'; 1 + self.random.below(900)];
                fs.make(dir, &new, &NewNode::symlink(&target)).map(drop)
            }
            (Deed::Remove, Some(entry)) if entry.file_type == FileType::Directory => {
                fs.rmdir(dir, &entry.name)
            }
            (Deed::Remove, Some(entry)) => fs.unlink(dir, &entry.name),
            (Deed::Link, Some(entry)) => fs.link(entry.ino, self.some_dir(), &new),
            (Deed::Rename, Some(entry)) if entry.file_type == FileType::Directory => Ok(()),
            (Deed::Rename, Some(entry)) => {
                fs.rename(dir, &entry.name, self.some_dir(), &new, RenameMode::Replace)
            }
            (Deed::Swap, Some(entry)) => {
                let to = self.some_dir();
                let Some(other) = self.some_entry(to) else { return Ok(()) };
                fs.rename(dir, &entry.name, to, &other.name, RenameMode::Exchange)
            }
            (Deed::SetAttr, Some(entry)) => {
                let perm = 0o600 + u16::try_from(self.random.below(64)).expect("small");
                let set = SetAttr { perm: Some(perm), uid: Some(7), ..SetAttr::default() };
                fs.set_attr(entry.ino, &set)
            }
            (Deed::SetXattr, Some(entry)) => {
                let longest = [16, 200, self.taste.value][self.random.below(3)];
                let value = vec![b'v'; self.random.below(longest)];
                fs.set_xattr(entry.ino, &self.xattr(), &value, SetMode::Any)
            }
            (Deed::RemoveXattr, Some(entry)) => fs.remove_xattr(entry.ino, &self.xattr()),
            (Deed::Orphan, Some(entry)) if entry.file_type == FileType::Regular => {
                self.orphan(dir, &entry)
            }
            (Deed::Release, _) => {
                if !self.orphans.is_empty() {
                    self.orphans.remove(0);
                }
                Ok(())
            }
            (deed, _) => match self.some_file() {
                Some(file) => self.change(deed, file),
                None => Ok(()),
            },
        }
    }

    fn orphan(&mut self, dir: Ino, entry: &Entry) -> Result<(), Error> {
        if self.orphans.len() >= ORPHANS {
            return Ok(());
        }
        let (handle, hold) = (self.fs.open(entry.ino)?, self.fs.hold(entry.ino));
        self.fs.unlink(dir, &entry.name)?;
        // Where it has other names its content is looked at further on.
        if self.fs.inode(entry.ino)?.core().nlink() == 0 {
            // In place, and seen again where a crash brings back the name.
            self.change(Deed::Write, entry.ino)?;
            self.orphans.push((handle, hold));
        }
        Ok(())
    }

    /// Changes the content of a file, and notes what it must be then.
    fn change(&mut self, deed: Deed, file: Ino) -> Result<(), Error> {
        let key = tree::key(self.fs, file)?;
        let handle = self.fs.open(file)?;
        let mut content = self.known(key);
        match deed {
            Deed::Write => {
                let at = self.place(content.len());
                let len = self.length();
                let op = u16::try_from(self.diary.len()).expect("few operations");
                let tag = self.number << 12 | u16::try_from(file.0 & 0xfff).expect("12 bits");
                let bytes = pattern::fill(tag, op, at, len);
                self.diary.tell(format!("write {file} {at}+{len}"));
                handle.write(at, &bytes)?;
                put(&mut content, at, &bytes);
            }
            Deed::Truncate => {
                let size = self.place(content.len());
                self.diary.tell(format!("truncate {file} {size}"));
                handle.truncate(size)?;
                content.resize(length(size), 0);
            }
            Deed::Punch => {
                let range = self.range(content.len());
                self.diary.tell(format!("punch {file} {range:?}"));
                handle.punch(range.clone())?;
                zero(&mut content, &range, false);
            }
            Deed::Zero | Deed::Preallocate => {
                let (range, keep) = (self.range(content.len()), self.random.one_in(2));
                self.diary.tell(format!("{deed:?} {file} {range:?} {keep}"));
                if deed == Deed::Zero {
                    handle.zero(range.clone(), keep)?;
                    zero(&mut content, &range, !keep);
                } else {
                    handle.preallocate(range.clone(), keep)?;
                    if !keep {
                        content.resize(content.len().max(length(range.end)), 0);
                    }
                }
            }
            Deed::Collapse => {
                let range = self.blocks(content.len());
                self.diary.tell(format!("collapse {file} {range:?}"));
                handle.collapse(range.clone())?;
                content.drain(length(range.start)..length(range.end));
            }
            Deed::Insert => {
                let range = self.blocks(content.len());
                self.diary.tell(format!("insert {file} {range:?}"));
                handle.insert(range.clone())?;
                let (at, len) = (length(range.start), length(range.end - range.start));
                content.splice(at..at, std::iter::repeat_n(0, len));
            }
            Deed::Unshare => {
                let range = self.range(content.len());
                self.diary.tell(format!("unshare {file} {range:?}"));
                handle.unshare(range)?;
            }
            Deed::Share | Deed::Copy | Deed::Exchange => {
                return self.between(deed, key, &handle);
            }
            _ => return Ok(()),
        }
        self.note(key, &handle, content)
    }

    /// The same with another file beside.
    fn between(&mut self, deed: Deed, key: Key, handle: &Handle<'f>) -> Result<(), Error> {
        let Some(source) = self.some_file().filter(|&source| source != key.0) else {
            return Ok(());
        };
        let other = tree::key(self.fs, source)?;
        let from = self.fs.open(source)?;
        let (mut content, mut theirs) = (self.known(key), self.known(other));
        match deed {
            Deed::Share => {
                let range = self.blocks(theirs.len());
                let at = self.block(content.len());
                self.diary.tell(format!("share {source} {range:?} to {} {at}", key.0));
                handle.share(at, &from, range.clone())?;
                put(&mut content, at, &theirs[length(range.start)..length(range.end)]);
            }
            Deed::Copy => {
                let mut range = self.range(theirs.len());
                range.end = range.end.min(theirs.len() as u64);
                let at = self.place(content.len());
                self.diary.tell(format!("copy {source} {range:?} to {} {at}", key.0));
                let done = handle.copy_range(at, &from, range.clone())?;
                let start = length(range.start).min(theirs.len());
                put(&mut content, at, &theirs[start..][..length(done)]);
            }
            _ => {
                self.diary.tell(format!("exchange {source} {}", key.0));
                handle.exchange(&from)?;
                std::mem::swap(&mut content, &mut theirs);
                self.note(other, &from, theirs)?;
            }
        }
        self.note(key, handle, content)
    }

    fn known(&self, key: Key) -> Vec<u8> {
        self.diary.current(key).map(|content| content.to_vec()).unwrap_or_default()
    }

    /// The file has this content now.
    fn note(&mut self, key: Key, handle: &Handle<'_>, content: Vec<u8>) -> Result<(), Error> {
        let mut found = vec![0; content.len() + 1];
        let len = handle.read(0, &mut found)?;
        assert!(found[..len] == content, "{key:?}: read before any crash is not what was written");
        self.diary.content(key, Arc::new(content));
        Ok(())
    }

    /// Where something may begin: within what is there, at its end, or behind it.
    fn place(&mut self, len: usize) -> u64 {
        match self.random.below(4) {
            0 => len as u64,
            1 => self.random.number() % self.taste.content,
            _ => self.random.number() % (len as u64 + 1),
        }
        .min(self.taste.content)
    }

    fn length(&mut self) -> usize {
        let most = [100, 5000, 40_000][self.random.below(3)].min(length(self.taste.content));
        1 + self.random.below(most)
    }

    fn range(&mut self, len: usize) -> Range<u64> {
        let start = self.place(len);
        start..start + self.length() as u64
    }

    fn blocksize(&self) -> u64 {
        1 << self.fs.volume().geo().blocklog
    }

    /// A block's beginning, at most one behind the end.
    fn block(&mut self, len: usize) -> u64 {
        let blocks = len as u64 / self.blocksize() + 1;
        self.random.number() % blocks * self.blocksize()
    }

    /// Some whole blocks within the content, or none.
    fn blocks(&mut self, len: usize) -> Range<u64> {
        let blocks = len as u64 / self.blocksize();
        let start = self.random.number() % (blocks + 1);
        let end = start + self.random.number() % (blocks - start + 1);
        start * self.blocksize()..end * self.blocksize()
    }

    fn name(&mut self) -> Vec<u8> {
        let number = self.random.below(self.taste.names);
        let name = format!("name-{number}-");
        let len = name.len() + [0, 0, 20, 200][number % 4];
        format!("{name:x<0$}", len.min(self.taste.name_max).max(name.len())).into_bytes()
    }

    fn xattr(&mut self) -> Vec<u8> {
        let number = self.random.below(self.taste.names.min(60));
        format!("trusted.{number}{}", "x".repeat(number * 3)).into_bytes()
    }

    fn inos(&self, dir: Ino) -> Vec<(Vec<u8>, Ino)> {
        self.entries(dir).into_iter().map(|entry| (entry.name, entry.ino)).collect()
    }

    fn entries(&self, dir: Ino) -> Vec<Entry> {
        self.fs.inode(dir).map(|inode| self.fs.read_dir(&inode).entries).unwrap_or_default()
    }

    /// The home or a directory in it.
    fn some_dir(&mut self) -> Ino {
        if self.taste.dirs == 0 || self.random.one_in(4) {
            return self.home;
        }
        let mut dirs = self.entries(self.home);
        dirs.retain(|entry| entry.file_type == FileType::Directory);
        if dirs.is_empty() { self.home } else { dirs[self.random.below(dirs.len())].ino }
    }

    fn some_entry(&mut self, dir: Ino) -> Option<Entry> {
        let entries = self.entries(dir);
        (!entries.is_empty()).then(|| entries[self.random.below(entries.len())].clone())
    }

    fn some_file(&mut self) -> Option<Ino> {
        let dir = self.some_dir();
        let mut files = self.entries(dir);
        files.retain(|entry| entry.file_type == FileType::Regular);
        (!files.is_empty()).then(|| files[self.random.below(files.len())].ino)
    }
}

fn length(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a small file")
}

/// Writes `bytes` into `content`, which grows with them.
fn put(content: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let (at, end) = (length(at), length(at) + bytes.len());
    content.resize(content.len().max(end), 0);
    content[at..end].copy_from_slice(bytes);
}

fn zero(content: &mut Vec<u8>, range: &Range<u64>, grows: bool) {
    if grows {
        content.resize(content.len().max(length(range.end)), 0);
    }
    let end = length(range.end).min(content.len());
    content[length(range.start).min(end)..end].fill(0);
}
