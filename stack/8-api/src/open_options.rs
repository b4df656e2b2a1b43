//! How to open a file.

use xfskit_core::Error as Core;
use xfskit_vfs::{self as vfs, AtEnd, FileHandle, FileReader, FileType, Follow, Hold, NewNode};
use xfskit_vfs::{join, path::MAX_LINKS};

use crate::file::{File, Source};
use crate::shared::Owner;

/// How to open a file: a builder, as [`std::fs::OpenOptions`].
///
/// ```no_run
/// # fn main() -> Result<(), xfskit::Error> {
/// # let volume = xfskit::Volume::open("disk.img")?;
/// use xfskit::OpenOptions;
///
/// let log = volume.open_with("/var/log/app", OpenOptions::new().append(true).create(true))?;
/// # Ok(()) }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // each is a flag of its own, as in std
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    truncate: bool,
    create: bool,
    create_new: bool,
    nofollow: bool,
    mode: Option<u32>,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenOptions {
    /// Returns options that open nothing yet: [`read`](Self::read), [`write`](Self::write) or
    /// [`append`](Self::append) is needed.
    pub const fn new() -> Self {
        Self {
            read: false,
            write: false,
            append: false,
            truncate: false,
            create: false,
            create_new: false,
            nofollow: false,
            mode: None,
        }
    }

    /// Opens for reading.
    pub const fn read(&mut self, read: bool) -> &mut Self {
        self.read = read;
        self
    }

    /// Opens for writing.
    pub const fn write(&mut self, write: bool) -> &mut Self {
        self.write = write;
        self
    }

    /// Writes at the end of the file, wherever other writers have moved it to.
    pub const fn append(&mut self, append: bool) -> &mut Self {
        self.append = append;
        self
    }

    /// Makes the file empty.
    pub const fn truncate(&mut self, truncate: bool) -> &mut Self {
        self.truncate = truncate;
        self
    }

    /// Creates the file where it is missing.
    pub const fn create(&mut self, create: bool) -> &mut Self {
        self.create = create;
        self
    }

    /// Creates the file, and fails where the name is taken.
    pub const fn create_new(&mut self, create_new: bool) -> &mut Self {
        self.create_new = create_new;
        self
    }

    /// Names the permissions of a file that is created. `0o644` by default.
    pub const fn mode(&mut self, mode: u32) -> &mut Self {
        self.mode = Some(mode);
        self
    }

    /// Follows a symbolic link at the end of the path. On by default; without it such a path fails.
    pub const fn follow(&mut self, follow: bool) -> &mut Self {
        self.nofollow = !follow;
        self
    }

    const fn writes(&self) -> bool {
        self.write || self.append
    }

    /// Refuses combinations that make no sense, as the standard library does.
    fn verify(&self) -> vfs::Result<()> {
        let no = |why| Err(vfs::Error::Core(Core::Limit(why)));
        if !self.read && !self.writes() {
            return no("a file is opened for reading, writing or appending");
        }
        if (self.create || self.create_new || self.truncate) && !self.writes() {
            return no("a file that is created or truncated is opened for writing");
        }
        if self.truncate && self.append && !self.create_new {
            return no("a file is opened for appending, or truncated, not both");
        }
        Ok(())
    }

    /// Opens `path` of the volume of `owner`.
    pub(crate) fn open(&self, owner: &Owner, path: &[u8]) -> vfs::Result<File> {
        self.verify()?;
        if self.writes() {
            owner.volume().engine()?;
        }
        let follow = if self.nofollow { Follow::No } else { Follow::Yes };
        if self.create_new {
            return self.create_at(owner, path);
        }
        match owner.resolve(path, follow) {
            Err(vfs::Error::NotFound { .. }) if self.create => self.create_behind(owner, path),
            inode => self.open_inode(owner, &inode?),
        }
    }

    /// Opens what is there.
    fn open_inode(&self, owner: &Owner, inode: &vfs::Inode) -> vfs::Result<File> {
        let source = if self.writes() {
            let handle = FileHandle::open_inode(owner.clone(), inode, AtEnd::Leave)?;
            if self.truncate {
                handle.truncate(0)?;
            }
            Source::Handle(handle)
        } else {
            Source::Reader(FileReader::open(owner.clone(), inode)?)
        };
        Ok(File::new(owner.clone(), inode.ino(), source, self.read, self.append))
    }

    /// Creates the file that `path` names. A symbolic link there that leads nowhere names the place
    /// where the file belongs.
    fn create_behind(&self, owner: &Owner, path: &[u8]) -> vfs::Result<File> {
        let mut path = path.to_vec();
        for _ in 0..MAX_LINKS {
            match self.create_at(owner, &path) {
                Err(vfs::Error::Core(Core::Exists)) if !self.nofollow => {}
                made => return made,
            }
            let there = owner.resolve(&path, Follow::No)?;
            if there.core().file_type() != Some(FileType::Symlink) {
                // Another thread made it meanwhile.
                return self.open_inode(owner, &there);
            }
            let target = owner.read_link(&there)?;
            let end = path.len() - path.iter().rev().take_while(|&&b| b != b'/').count();
            path = if target.starts_with(b"/") { target } else { join(&path[..end], &target) };
        }
        Err(vfs::Error::Loop { path: String::from_utf8_lossy(&path).into_owned() })
    }

    fn create_at(&self, owner: &Owner, path: &[u8]) -> vfs::Result<File> {
        let (dir, name) = owner.hold_parent(path)?;
        let file: Hold<'_> = owner.make_held(dir.ino(), &name, &self.new_node())?;
        let handle = FileHandle::open(owner.clone(), file.ino(), AtEnd::Leave)?;
        Ok(File::new(owner.clone(), file.ino(), Source::Handle(handle), self.read, self.append))
    }

    fn new_node(&self) -> NewNode {
        match self.mode {
            Some(mode) => NewNode::file(crate::Permissions::from_mode(mode).bits()),
            None => NewNode::usual(FileType::Regular),
        }
    }
}
