//! Resolves a path to an inode.
//!
//! Paths are absolute, bytes without zero, components of at most 255 bytes. `.` and `..` have the
//! same meaning as in the kernel: `..` is the parent *after* symbolic links were followed, and `..`
//! of the root is the root. At most [`MAX_LINKS`] links are followed.

use std::collections::VecDeque;

use xfskit_core::Inode;
use xfskit_format::inode::FileType;
use xfskit_units::Ino;

use crate::{Error, Fs, Hold, Result};

/// Maximum number of symbolic links on one path: the kernel's number.
pub const MAX_LINKS: usize = 40;
/// Longest name of a directory entry, in bytes.
pub const NAME_MAX: usize = 255;

/// Whether a symbolic link at the end of a path is followed. Those before it always are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// Follow it, as `stat` does.
    Yes,
    /// Return the link itself, as `lstat` does.
    No,
}

/// Splits a path into names, without empty ones.
fn components(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|&b| b == b'/').filter(|name| !name.is_empty())
}

/// Formats a path for a message.
pub(crate) fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

/// Returns `dir/name`, or `/name` for the root.
pub fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(dir.len() + 1 + name.len());
    path.extend_from_slice(dir);
    if dir.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// The state of one resolution.
struct Resolution<'a> {
    fs: &'a Fs,
    /// The path as it was given, for messages.
    given: &'a [u8],
    /// Names that are not resolved yet.
    ahead: VecDeque<Vec<u8>>,
    /// The directories from below the root on, with their names.
    behind: Vec<(Vec<u8>, Inode)>,
    root: Inode,
    links: usize,
}

impl Fs {
    /// Returns the inode of `path`.
    ///
    /// # Errors
    /// [`Error::NotFound`] and similar if the path is wrong, [`Error::Core`] if the volume fails.
    pub fn resolve(&self, path: &[u8], follow: Follow) -> Result<Inode> {
        let mut resolution = Resolution::new(self, path)?;
        // A slash at the end requests the target of the link.
        let follow = if path.ends_with(b"/") { Follow::Yes } else { follow };
        resolution.go(follow)?;
        let inode = resolution.end();
        if path.ends_with(b"/") && !inode.core().is_dir() {
            return Err(Error::NotDirectory { path: shown(path) });
        }
        Ok(inode)
    }

    /// Returns the path of what `path` names, without symbolic links, `.` and `..`.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve).
    pub fn canonicalize(&self, path: &[u8]) -> Result<Vec<u8>> {
        let mut resolution = Resolution::new(self, path)?;
        resolution.go(Follow::Yes)?;
        let names = resolution.behind.iter().map(|(name, _)| name);
        Ok(names.fold(b"/".to_vec(), |path, name| join(&path, name)))
    }

    /// Returns the directory of the last name of `path`, and that name, which need not exist.
    /// Symbolic links before it are followed.
    ///
    /// # Errors
    /// As [`resolve`](Self::resolve); [`Error::Root`] if there is no last name, and
    /// [`Error::BadName`] if it is not valid.
    pub fn resolve_parent(&self, path: &[u8]) -> Result<(Ino, Vec<u8>)> {
        self.parent(path).map(|(dir, name)| (dir.ino(), name))
    }

    /// Returns the directory like [`resolve_parent`](Self::resolve_parent), held, so that its
    /// number is not reused.
    ///
    /// # Errors
    /// As [`resolve_parent`](Self::resolve_parent); [`NoInode`](xfskit_core::Error::NoInode) if the
    /// directory was removed meanwhile.
    pub fn hold_parent(&self, path: &[u8]) -> Result<(Hold<'_>, Vec<u8>)> {
        let (dir, name) = self.parent(path)?;
        Ok((self.hold_inode(&dir)?, name))
    }

    fn parent(&self, path: &[u8]) -> Result<(Inode, Vec<u8>)> {
        check_absolute(path)?;
        let Some(name) = components(path).next_back() else {
            return Err(Error::Root { path: shown(path) });
        };
        crate::change::check_name(name)?;
        let trimmed = path.len() - path.iter().rev().take_while(|&&b| b == b'/').count();
        let dir = self.resolve(&path[..trimmed - name.len()], Follow::Yes)?;
        if !dir.core().is_dir() {
            return Err(Error::NotDirectory { path: shown(&path[..trimmed - name.len()]) });
        }
        Ok((dir, name.to_vec()))
    }
}

fn check_absolute(path: &[u8]) -> Result<()> {
    if path.first() == Some(&b'/') {
        return Ok(());
    }
    Err(Error::NotAbsolute { path: shown(path) })
}

impl<'a> Resolution<'a> {
    fn new(fs: &'a Fs, path: &'a [u8]) -> Result<Self> {
        check_absolute(path)?;
        let ahead = components(path).map(<[u8]>::to_vec).collect();
        Ok(Self { fs, given: path, ahead, behind: Vec::new(), root: fs.root()?, links: 0 })
    }

    fn go(&mut self, follow: Follow) -> Result<()> {
        while let Some(name) = self.ahead.pop_front() {
            match name.as_slice() {
                b"." => self.here_as_directory()?,
                b".." => {
                    self.here_as_directory()?;
                    self.behind.pop();
                }
                _ => self.step(name, follow)?,
            }
        }
        Ok(())
    }

    fn end(mut self) -> Inode {
        self.behind.pop().map_or(self.root, |(_, inode)| inode)
    }

    fn here(&self) -> &Inode {
        self.behind.last().map_or(&self.root, |(_, inode)| inode)
    }

    fn here_as_directory(&self) -> Result<()> {
        if self.here().core().is_dir() {
            return Ok(());
        }
        Err(Error::NotDirectory { path: self.path_so_far(None) })
    }

    /// Resolves the next name.
    fn step(&mut self, name: Vec<u8>, follow: Follow) -> Result<()> {
        self.here_as_directory()?;
        if name.len() > NAME_MAX {
            return Err(Error::NameTooLong { path: shown(self.given) });
        }
        let Some(inode) = self.fs.lookup_inode(self.here(), &name)? else {
            return Err(Error::NotFound { path: self.path_so_far(Some(&name)) });
        };
        if inode.core().file_type() == Some(FileType::Symlink)
            && (follow == Follow::Yes || !self.ahead.is_empty())
        {
            return self.through(&inode);
        }
        self.behind.push((name, inode));
        Ok(())
    }

    /// Puts a link's target in front of the unresolved names.
    fn through(&mut self, link: &Inode) -> Result<()> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Error::Loop { path: shown(self.given) });
        }
        let target = self.fs.read_link(link)?;
        if target.first() == Some(&b'/') {
            self.behind.clear();
        }
        for name in components(&target).rev() {
            self.ahead.push_front(name.to_vec());
        }
        Ok(())
    }

    fn path_so_far(&self, last: Option<&[u8]>) -> String {
        let names = self.behind.iter().map(|(name, _)| name.as_slice()).chain(last);
        shown(&names.fold(b"/".to_vec(), |path, name| join(&path, name)))
    }
}
