//! One thread that runs random operations below a directory of its own and records each in its
//! history.

use std::ops::Range;
use std::sync::Arc;

use xfskit_block::RecordingDevice;
use xfskit_test_support::Random;
use xfskit_vfs::{
    Entry, Error, FileType, Fs, Handle, Hold, Ino, NewNode, RenameMode, SetAttr, SetMode,
};

use crate::history::History;
use crate::pattern;
use crate::tree::{self, Key};

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Creates a file.
    Make,
    /// Creates a directory, directly below the worker's directory.
    MakeDir,
    /// Creates a symbolic link, short or long.
    Symlink,
    /// Removes a name of any type.
    Remove,
    /// Links a file again.
    Link,
    /// Renames, sometimes over another entry.
    Rename,
    /// Exchanges two names.
    Swap,
    /// Sets mode and owner.
    SetAttr,
    /// Sets an attribute, small or large.
    SetXattr,
    /// Removes an attribute.
    RemoveXattr,
    /// Writes content: inside, at the end, or beyond it.
    Write,
    /// Truncates or extends a file.
    Truncate,
    /// Punches a hole.
    Punch,
    /// Zeroes a range.
    Zero,
    /// Preallocates a range.
    Preallocate,
    /// Collapses a range.
    Collapse,
    /// Inserts a range.
    Insert,
    /// Shares the blocks of another file (reflink).
    Share,
    /// Unshares blocks.
    Unshare,
    /// Copies content between files.
    Copy,
    /// Exchanges the content of two files.
    Exchange,
    /// Unlinks the last name of an open file, and writes to the file.
    Orphan,
    /// Closes the oldest such file.
    Release,
}

/// The mix of operations of a worker.
#[derive(Clone, Copy, Debug)]
pub struct OpMix {
    /// The operations, each with its weight while the tree grows and while it shrinks.
    pub operations: &'static [(Operation, usize, usize)],
    /// Operations until growth turns to shrinking, or back.
    pub phase_len: usize,
    /// Number of different names.
    pub names: usize,
    /// Longest name, in bytes.
    pub name_max: usize,
    /// Number of subdirectories, besides the worker's directory.
    pub dirs: usize,
    /// Largest content, in bytes.
    pub content: u64,
    /// Largest attribute value, in bytes.
    pub value: usize,
    /// One operation in this many is followed by a sync of some kind.
    pub sync_one_in: usize,
}

/// Most unlinked files that are kept open.
const ORPHANS: usize = 5;

/// A worker.
pub struct Worker<'f> {
    number: u16,
    fs: &'f Fs,
    recorder: &'f RecordingDevice,
    own_dir: Ino,
    mix: OpMix,
    random: Random,
    history: History,
    orphans: Vec<(Handle<'f>, Hold<'f>)>,
    /// The entries of its directory.
    entries: Vec<(Vec<u8>, Ino)>,
}

impl<'f> Worker<'f> {
    /// Starts below `dir`.
    ///
    /// # Panics
    /// If the tree cannot be read.
    pub fn new(
        number: u16,
        fs: &'f Fs,
        recorder: &'f RecordingDevice,
        own_dir: Ino,
        mix: OpMix,
        random: Random,
    ) -> Self {
        let history = History::new(tree::names(fs, own_dir).expect("a tree"));
        Self {
            number,
            fs,
            recorder,
            own_dir,
            mix,
            random,
            history,
            orphans: Vec::new(),
            entries: Vec::new(),
        }
    }

    /// Runs `steps` operations.
    ///
    /// # Panics
    /// If the volume fails.
    pub fn work(mut self, steps: usize) -> History {
        for step in 0..steps {
            let grows = (step / self.mix.phase_len).is_multiple_of(2);
            let operation = self.choose(grows);
            self.history.begin(self.recorder.event_count());
            self.history.describe(format!("{operation:?}"));
            if let Err(error) = self.perform(operation) {
                // An operation may fail (no space, no such name, not empty), but not with EIO or
                // EUCLEAN.
                assert!(![5, 117].contains(&error.errno()), "{operation:?}: {error}");
            }
            let entries = self.inos(self.own_dir);
            let dir_changed = entries != self.entries;
            self.entries = entries;
            self.history.end(tree::names(self.fs, self.own_dir).expect("a tree"), dir_changed);
            if self.random.one_in(self.mix.sync_one_in) {
                self.make_durable();
            }
        }
        self.history
    }

    fn choose(&mut self, grows: bool) -> Operation {
        let weight = |&(_, up, down): &(Operation, usize, usize)| if grows { up } else { down };
        let mut left: usize = self.random.below(self.mix.operations.iter().map(weight).sum());
        for entry in self.mix.operations {
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
                self.history.synced(self.recorder.event_count());
            }
            1 => self.fs.volume().engine().expect("writable").write_back().expect("written back"),
            2 => {
                self.fs.fsync(self.own_dir).expect("synced");
                self.history.dir_synced(self.recorder.event_count());
            }
            _ => {
                let Some(file) = self.some_file() else { return };
                self.fs.open(file).and_then(|handle| handle.fsync()).expect("synced");
                let key = tree::key(self.fs, file).expect("an inode");
                self.history.synced_file(key, self.recorder.event_count());
            }
        }
    }

    fn perform(&mut self, operation: Operation) -> Result<(), Error> {
        let fs = self.fs;
        let dir = self.some_dir();
        let (new, found) = (self.name(), self.some_entry(dir));
        match (operation, found) {
            (Operation::Make, _) => {
                let ino = fs.make(dir, &new, &NewNode::file(0o644))?;
                self.history.content(tree::key(fs, ino)?, Arc::default());
                Ok(())
            }
            (Operation::MakeDir, _) => {
                let name = format!("dir{}", self.random.below(self.mix.dirs.max(1)));
                fs.make(self.own_dir, name.as_bytes(), &NewNode::directory(0o755)).map(drop)
            }
            (Operation::Symlink, _) => {
                let target = vec![b't'; 1 + self.random.below(900)];
                fs.make(dir, &new, &NewNode::symlink(&target)).map(drop)
            }
            (Operation::Remove, Some(entry)) if entry.file_type == FileType::Directory => {
                fs.rmdir(dir, &entry.name)
            }
            (Operation::Remove, Some(entry)) => fs.unlink(dir, &entry.name),
            (Operation::Link, Some(entry)) => fs.link(entry.ino, self.some_dir(), &new),
            (Operation::Rename, Some(entry)) if entry.file_type == FileType::Directory => Ok(()),
            (Operation::Rename, Some(entry)) => {
                fs.rename(dir, &entry.name, self.some_dir(), &new, RenameMode::Replace)
            }
            (Operation::Swap, Some(entry)) => {
                let to = self.some_dir();
                let Some(other) = self.some_entry(to) else { return Ok(()) };
                fs.rename(dir, &entry.name, to, &other.name, RenameMode::Exchange)
            }
            (Operation::SetAttr, Some(entry)) => {
                let perm = 0o600 + self.random.below(64);
                let set = SetAttr { perm: Some(perm), uid: Some(7), ..SetAttr::default() };
                fs.set_attr(entry.ino, &set)
            }
            (Operation::SetXattr, Some(entry)) => {
                let longest = [16, 200, self.mix.value][self.random.below(3)];
                let value = vec![b'v'; self.random.below(longest)];
                fs.set_xattr(entry.ino, &self.xattr(), &value, SetMode::Any)
            }
            (Operation::RemoveXattr, Some(entry)) => fs.remove_xattr(entry.ino, &self.xattr()),
            (Operation::Orphan, Some(entry)) if entry.file_type == FileType::Regular => {
                self.orphan(dir, &entry)
            }
            (Operation::Release, _) => {
                if !self.orphans.is_empty() {
                    self.orphans.remove(0);
                }
                Ok(())
            }
            (operation, _) => match self.some_file() {
                Some(file) => self.change(operation, file),
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
        // The content of a file with other names is still verified.
        if self.fs.inode(entry.ino)?.core().nlink() == 0 {
            // Writes in place, which shows if a crash brings the name back.
            self.change(Operation::Write, entry.ino)?;
            self.orphans.push((handle, hold));
        }
        Ok(())
    }

    /// Changes the content of a file, and records the new content.
    fn change(&mut self, operation: Operation, file: Ino) -> Result<(), Error> {
        let key = tree::key(self.fs, file)?;
        let handle = self.fs.open(file)?;
        let mut content = self.known(key);
        match operation {
            Operation::Write => {
                let at = self.place(content.len());
                let len = self.length();
                let op = u16::try_from(self.history.len()).expect("few operations");
                let tag = self.number << 12 | u16::try_from(file.0 & 0xfff).expect("12 bits");
                let bytes = pattern::fill(tag, op, at, len);
                self.history.describe(format!("write {file} {at}+{len}"));
                handle.write(at, &bytes)?;
                put(&mut content, at, &bytes);
            }
            Operation::Truncate => {
                let size = self.place(content.len());
                self.history.describe(format!("truncate {file} {size}"));
                handle.truncate(size)?;
                content.resize(length(size), 0);
            }
            Operation::Punch => {
                let range = self.range(content.len());
                self.history.describe(format!("punch {file} {range:?}"));
                handle.punch(range.clone())?;
                zero(&mut content, &range, false);
            }
            Operation::Zero | Operation::Preallocate => {
                let (range, keep) = (self.range(content.len()), self.random.one_in(2));
                self.history.describe(format!("{operation:?} {file} {range:?} {keep}"));
                if operation == Operation::Zero {
                    handle.zero(range.clone(), keep)?;
                    zero(&mut content, &range, !keep);
                } else {
                    handle.preallocate(range.clone(), keep)?;
                    if !keep {
                        content.resize(content.len().max(length(range.end)), 0);
                    }
                }
            }
            Operation::Collapse => {
                let range = self.blocks(content.len());
                self.history.describe(format!("collapse {file} {range:?}"));
                handle.collapse(range.clone())?;
                content.drain(length(range.start)..length(range.end));
            }
            Operation::Insert => {
                let range = self.blocks(content.len());
                self.history.describe(format!("insert {file} {range:?}"));
                handle.insert(range.clone())?;
                let (at, len) = (length(range.start), length(range.end - range.start));
                content.splice(at..at, std::iter::repeat_n(0, len));
            }
            Operation::Unshare => {
                let range = self.range(content.len());
                self.history.describe(format!("unshare {file} {range:?}"));
                handle.unshare(range)?;
            }
            Operation::Share | Operation::Copy | Operation::Exchange => {
                return self.between(operation, key, &handle);
            }
            _ => return Ok(()),
        }
        self.note(key, &handle, content)
    }

    /// Changes a file together with a second one.
    fn between(
        &mut self,
        operation: Operation,
        key: Key,
        handle: &Handle<'f>,
    ) -> Result<(), Error> {
        let Some(source) = self.some_file().filter(|&source| source != key.0) else {
            return Ok(());
        };
        let other = tree::key(self.fs, source)?;
        let from = self.fs.open(source)?;
        let (mut content, mut theirs) = (self.known(key), self.known(other));
        match operation {
            Operation::Share => {
                let range = self.blocks(theirs.len());
                let at = self.block(content.len());
                self.history.describe(format!("share {source} {range:?} to {} {at}", key.0));
                handle.share(at, &from, range.clone())?;
                put(&mut content, at, &theirs[length(range.start)..length(range.end)]);
            }
            Operation::Copy => {
                let mut range = self.range(theirs.len());
                range.end = range.end.min(theirs.len() as u64);
                let at = self.place(content.len());
                self.history.describe(format!("copy {source} {range:?} to {} {at}", key.0));
                let done = handle.copy_range(at, &from, range.clone())?;
                let start = length(range.start).min(theirs.len());
                put(&mut content, at, &theirs[start..][..length(done)]);
            }
            _ => {
                self.history.describe(format!("exchange {source} {}", key.0));
                handle.exchange(&from)?;
                std::mem::swap(&mut content, &mut theirs);
                self.note(other, &from, theirs)?;
            }
        }
        self.note(key, handle, content)
    }

    fn known(&self, key: Key) -> Vec<u8> {
        self.history.current(key).map(|content| content.to_vec()).unwrap_or_default()
    }

    /// Records the new content of a file.
    fn note(&mut self, key: Key, handle: &Handle<'_>, content: Vec<u8>) -> Result<(), Error> {
        let mut found = vec![0; content.len() + 1];
        let len = handle.read(0, &mut found)?;
        assert!(
            found[..len] == content,
            "{key:?}: a read before any crash returns other content than written"
        );
        self.history.content(key, Arc::new(content));
        Ok(())
    }

    /// Returns an offset for a write: within the content, at its end, or beyond it.
    fn place(&mut self, len: usize) -> u64 {
        match self.random.below(4) {
            0 => len as u64,
            1 => self.random.below(self.mix.content),
            _ => self.random.below(len as u64 + 1),
        }
        .min(self.mix.content)
    }

    fn length(&mut self) -> usize {
        let most = [100, 5000, 40_000][self.random.below(3)].min(length(self.mix.content));
        1 + self.random.below(most)
    }

    fn range(&mut self, len: usize) -> Range<u64> {
        let start = self.place(len);
        start..start + self.length() as u64
    }

    fn blocksize(&self) -> u64 {
        1 << self.fs.volume().geo().blocklog
    }

    /// Returns the offset of a block, at most one block beyond the end.
    fn block(&mut self, len: usize) -> u64 {
        let blocks = len as u64 / self.blocksize() + 1;
        self.random.below(blocks) * self.blocksize()
    }

    /// Returns a range of whole blocks within the content, possibly empty.
    fn blocks(&mut self, len: usize) -> Range<u64> {
        let blocks = len as u64 / self.blocksize();
        let start = self.random.below(blocks + 1);
        let end = start + self.random.below(blocks - start + 1);
        start * self.blocksize()..end * self.blocksize()
    }

    fn name(&mut self) -> Vec<u8> {
        let number = self.random.below(self.mix.names);
        let name = format!("name-{number}-");
        let len = name.len() + [0, 0, 20, 200][number % 4];
        format!("{name:x<0$}", len.min(self.mix.name_max).max(name.len())).into_bytes()
    }

    fn xattr(&mut self) -> Vec<u8> {
        let number = self.random.below(self.mix.names.min(60));
        format!("trusted.{number}{}", "x".repeat(number * 3)).into_bytes()
    }

    fn inos(&self, dir: Ino) -> Vec<(Vec<u8>, Ino)> {
        self.entries(dir).into_iter().map(|entry| (entry.name, entry.ino)).collect()
    }

    fn entries(&self, dir: Ino) -> Vec<Entry> {
        self.fs.inode(dir).map(|inode| self.fs.read_dir(&inode).entries).unwrap_or_default()
    }

    /// Returns the worker's directory or one of its subdirectories.
    fn some_dir(&mut self) -> Ino {
        if self.mix.dirs == 0 || self.random.one_in(4) {
            return self.own_dir;
        }
        let mut dirs = self.entries(self.own_dir);
        dirs.retain(|entry| entry.file_type == FileType::Directory);
        if dirs.is_empty() { self.own_dir } else { dirs[self.random.below(dirs.len())].ino }
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

/// Writes `bytes` into `content`, which grows as needed.
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
