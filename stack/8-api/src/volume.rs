//! A volume, by paths.

use crate::units;
use crate::vfs::{self, Entry, FileType, Follow, Fs, Stat, Walk, Xattr};
use crate::{Result, core};

/// How often a path is resolved again whose inode goes again and again before it is used.
const RESOLUTIONS: usize = 1000;

fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// `error` of `operation` on `path`. An inode that is gone stays what it is: the path is resolved
/// again.
fn of(error: vfs::Error, operation: &'static str, path: &[u8]) -> vfs::Error {
    if error.is_stale() { error } else { error.at(operation, path) }
}

/// Makes the directory that the first `end` bytes of `path` name, unless it is there.
fn make_dir(fs: &Fs, path: &[u8], end: usize, new: &vfs::NewNode) -> vfs::Result<()> {
    let way = &path[..end];
    let made = match fs.resolve(way, Follow::Yes) {
        Err(vfs::Error::NotFound { .. }) => {
            let (dir, name) = fs.hold_parent(way)?;
            fs.make(dir.ino(), &name, new).map(drop)
        }
        Ok(there) if there.core().is_dir() => return Ok(()),
        Ok(_) => Err(core::Error::Exists.into()),
        Err(error) => return Err(error),
    };
    match made {
        Err(vfs::Error::Core(core::Error::Exists)) => {
            let is_dir = fs.resolve(way, Follow::Yes).is_ok_and(|there| there.core().is_dir());
            let is_last = path[end..].iter().all(|&b| b == b'/');
            match (is_dir, is_last) {
                // Another thread made it meanwhile.
                (true, _) => Ok(()),
                (false, true) => Err(core::Error::Exists.into()),
                (false, false) => Err(vfs::Error::NotDirectory { path: shown(way) }),
            }
        }
        made => made,
    }
}

/// A volume, by paths. Paths are absolute; they need not be UTF-8.
///
/// Dropped, one that is open for writing closes itself: [`close`](Self::close) does the same and
/// says how that went. In a thread that unwinds from a panic it is [abandoned](Self::abandon): what
/// the panic left half done is not written.
#[derive(Debug)]
pub struct Volume {
    /// `None` once it is closed.
    fs: Option<Fs>,
}

impl Drop for Volume {
    fn drop(&mut self) {
        let Some(fs) = self.fs.take() else { return };
        if std::thread::panicking() || fs.volume().engine().is_err() {
            return;
        }
        if let Err(error) = fs.close() {
            tracing::error!(%error, "the volume could not be closed: changes since the last sync may be lost");
        }
    }
}

impl Volume {
    pub(crate) fn new(fs: Fs) -> Self {
        Self { fs: Some(fs) }
    }

    /// The filesystem below, for everything that is not here.
    pub fn fs(&self) -> &Fs {
        self.fs.as_ref().expect("open until it is closed")
    }

    /// Runs `work` for `operation` on `path`. Where an inode goes between the resolution of its
    /// path and its use, the path is resolved again: it names another then, or nothing.
    fn at<'v, T>(
        &'v self,
        operation: &'static str,
        path: &[u8],
        work: impl Fn(&'v Fs) -> vfs::Result<T>,
    ) -> Result<T> {
        let changes = self.fs().volume().engine().is_ok();
        let mut answer = work(self.fs());
        for _ in 0..RESOLUTIONS {
            match &answer {
                Err(error) if changes && error.is_stale() => answer = work(self.fs()),
                _ => break,
            }
        }
        answer.map_err(|error| error.by_path(path).at(operation, path).into())
    }

    /// The names in a directory, in its own order, without `.` and `..`.
    ///
    /// # Errors
    /// Where `path` is no directory, or the directory is damaged ([`Fs::read_dir`] gives the sound
    /// part of one).
    pub fn read_dir(&self, path: impl AsRef<[u8]>) -> Result<Vec<Entry>> {
        let path = path.as_ref();
        self.at("list", path, |fs| {
            let portion = fs.read_dir(&fs.resolve(path, Follow::Yes)?);
            portion.errors.into_iter().next().map_or(Ok(portion.entries), Err)
        })
    }

    /// The whole content of a file, with what open handles have written to it; at most
    /// [`OpenOptions::whole_max`](crate::OpenOptions::whole_max) bytes. [`reader`](Self::reader)
    /// has no bound.
    ///
    /// # Errors
    /// Where `path` is no regular file, or cannot be read; [`vfs::Error::TooLarge`].
    pub fn read(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        let path = path.as_ref();
        self.at("read", path, |fs| fs.reader(&fs.resolve(path, Follow::Yes)?)?.read_whole())
    }

    /// Opens the regular file `path` for reading: as a stream, or at any offset. It outlives its
    /// name.
    ///
    /// # Errors
    /// Where `path` is no regular file, or its map is damaged.
    pub fn reader(&self, path: impl AsRef<[u8]>) -> Result<vfs::Reader<'_>> {
        let path = path.as_ref();
        self.at("read", path, |fs| fs.reader(&fs.resolve(path, Follow::Yes)?))
    }

    /// What is known about a file, with what open handles have written to it; a symbolic link is
    /// not followed.
    ///
    /// # Errors
    /// Where `path` names nothing, or it cannot be read.
    pub fn stat(&self, path: impl AsRef<[u8]>) -> Result<Stat> {
        let path = path.as_ref();
        self.at("stat", path, |fs| Ok(fs.stat(&fs.resolve(path, Follow::No)?)))
    }

    /// The extended attributes of a file; a symbolic link is not followed.
    ///
    /// # Errors
    /// Where `path` names nothing, or the attributes are damaged ([`Fs::xattrs`] gives the sound
    /// part of them).
    pub fn xattrs(&self, path: impl AsRef<[u8]>) -> Result<Vec<Xattr>> {
        let path = path.as_ref();
        self.at("read the attributes of", path, |fs| {
            let (xattrs, errors) = fs.xattrs(&fs.resolve(path, Follow::No)?);
            errors.into_iter().next().map_or(Ok(xattrs), Err)
        })
    }

    /// Where a symbolic link points to.
    ///
    /// # Errors
    /// Where `path` is none, or it cannot be read.
    pub fn read_link(&self, path: impl AsRef<[u8]>) -> Result<Vec<u8>> {
        let path = path.as_ref();
        self.at("read the link", path, |fs| fs.read_link(&fs.resolve(path, Follow::No)?))
    }

    /// Everything below `path`, depth first, sorted by name, the start included. Inodes say what
    /// [`stat`](Self::stat) does.
    ///
    /// # Errors
    /// Where `path` names nothing. Later faults are items of the walk.
    pub fn walk(&self, path: impl AsRef<[u8]>) -> Result<Walk<'_>> {
        let path = path.as_ref();
        let start = self.at("walk", path, |fs| fs.resolve(path, Follow::Yes))?;
        Ok(self.fs().walk(path, start, usize::MAX))
    }

    /// Makes what `new` says at `path`, whose directory exists.
    ///
    /// # Errors
    /// Where something is there already, there is no such directory, or the volume is full.
    pub fn make(&self, path: impl AsRef<[u8]>, new: &vfs::NewNode) -> Result<units::Ino> {
        let path = path.as_ref();
        self.at("make", path, |fs| {
            let (dir, name) = fs.hold_parent(path)?;
            fs.make(dir.ino(), &name, new)
        })
    }

    /// Makes the directory `path` with those on the way to it, as far as they are missing.
    ///
    /// # Errors
    /// Where something else is there already, or on the way; where the volume is full.
    pub fn make_dirs(&self, path: impl AsRef<[u8]>) -> Result<()> {
        let path = path.as_ref();
        let new = vfs::NewNode::usual(FileType::Directory);
        let ends = (1..path.len()).filter(|&end| path[end] == b'/').chain([path.len()]);
        self.at("make", path, |fs| ends.clone().try_for_each(|end| make_dir(fs, path, end, &new)))
    }

    /// Opens the regular file `path` for reading and writing at any offset.
    ///
    /// # Errors
    /// Where it is none, or the volume is open for reading only.
    pub fn file(&self, path: impl AsRef<[u8]>) -> Result<vfs::Handle<'_>> {
        let path = path.as_ref();
        self.at("open", path, |fs| fs.open_inode(&fs.resolve(path, Follow::Yes)?))
    }

    /// Makes `content` the whole content of the file `path`, which is made where it is missing. One
    /// that is there keeps everything else.
    ///
    /// # Errors
    /// Where `path` is no regular file, there is no such directory, or the volume is full: then the
    /// file is as it was.
    pub fn write(&self, path: impl AsRef<[u8]>, content: &[u8]) -> Result<()> {
        let path = path.as_ref();
        let fill = |file: vfs::Handle<'_>| {
            file.write(0, content)?;
            file.truncate(content.len() as u64)?;
            file.close()
        };
        self.at("write", path, |fs| match fs.resolve(path, Follow::Yes) {
            Err(vfs::Error::NotFound { .. }) => {
                let (dir, name) = fs.hold_parent(path)?;
                let new = vfs::NewNode::usual(FileType::Regular);
                let file = fs.make_unnamed(dir.ino(), &new)?;
                fill(fs.open(file.ino())?)?;
                fs.link(file.ino(), dir.ino(), &name)
            }
            there => fill(fs.open_inode(&there?)?),
        })
    }

    /// Gives the file `path` the further name `new`.
    ///
    /// # Errors
    /// As [`Fs::link`].
    pub fn link(&self, path: impl AsRef<[u8]>, new: impl AsRef<[u8]>) -> Result<()> {
        let (path, new) = (path.as_ref(), new.as_ref());
        self.at("link to", new, |fs| {
            let find = || fs.hold_inode(&fs.resolve(path, Follow::No)?);
            let file = find().map_err(|error| of(error, "link", path))?;
            let (dir, name) = fs.hold_parent(new)?;
            fs.link(file.ino(), dir.ino(), &name)
        })
    }

    /// Removes the name `path`: of a file, or of an empty directory.
    ///
    /// # Errors
    /// Where there is none, or it is that of a directory with entries.
    pub fn remove(&self, path: impl AsRef<[u8]>) -> Result<()> {
        let path = path.as_ref();
        self.at("remove", path, |fs| {
            let (dir, name) = fs.hold_parent(path)?;
            let is_dir = fs.resolve(path, Follow::No)?.core().is_dir();
            if is_dir { fs.rmdir(dir.ino(), &name) } else { fs.unlink(dir.ino(), &name) }
        })
    }

    /// Gives what is at `from` the name `to`; what is there is replaced.
    ///
    /// # Errors
    /// As [`Fs::rename`].
    pub fn rename(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<()> {
        self.rename_as(from, to, vfs::RenameMode::Replace)
    }

    /// The same; `mode` says what becomes of what is at `to`.
    ///
    /// # Errors
    /// As [`Fs::rename`].
    pub fn rename_as(
        &self,
        from: impl AsRef<[u8]>,
        to: impl AsRef<[u8]>,
        mode: vfs::RenameMode,
    ) -> Result<()> {
        let (from, to) = (from.as_ref(), to.as_ref());
        self.at("rename to", to, |fs| {
            let source = fs.hold_parent(from).map_err(|error| of(error, "rename", from))?;
            let target = fs.hold_parent(to)?;
            let (from_dir, to_dir) = (source.0.ino(), target.0.ino());
            let renamed = fs.rename(from_dir, &source.1, to_dir, &target.1, mode);
            renamed.map_err(|error| match error {
                vfs::Error::Core(core::Error::NoEntry) => error.by_path(from).at("rename", from),
                error => error,
            })
        })
    }

    /// All changes so far become durable.
    ///
    /// # Errors
    /// Where the volume is open for reading only, or cannot be written any more.
    pub fn sync(&self) -> Result<()> {
        Ok(self.fs().sync()?)
    }

    /// All changes become durable, and the volume is left clean.
    ///
    /// # Errors
    /// As [`sync`](Self::sync): then what was not durable before may be lost.
    pub fn close(self) -> Result<()> {
        self.close_counted().map(drop)
    }

    /// The same, and answers what became of the volume.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub fn close_counted(mut self) -> Result<core::Closed> {
        let fs = self.fs.take().expect("open until it is closed");
        Ok(fs.close_counted()?)
    }

    /// Ends without closing, as a crash does: what was not synced is lost, and the next opening
    /// replays the journal. For tests, and for programs that do not want their changes any more.
    pub fn abandon(mut self) {
        drop(self.fs.take());
    }

    /// What was done with the volume so far: transactions, journal, write-back, buffers, locks.
    pub fn stats(&self) -> core::Stats {
        self.fs().volume().stats()
    }
}
