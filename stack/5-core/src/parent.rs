//! Parent pointers: from an inode to its names, without searching any directory.

use std::collections::HashSet;
use std::ops::ControlFlow;

use xfskit_format::attr::Namespace;
use xfskit_format::attr::parent::Rec;
use xfskit_format::{Expected, Fork, inode};
use xfskit_units::Ino;

use crate::error::{Error, Result};
use crate::inode::Inode;
use crate::volume::Volume;

/// Longest path that is followed, in names.
const DEPTH_MAX: usize = 4096;

/// One name of an inode.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Parent {
    /// The directory.
    pub ino: Ino,
    /// The directory's generation when the name was made.
    pub generation: u32,
    /// The name, 1 to 255 bytes.
    pub name: Vec<u8>,
}

impl Volume {
    /// Returns all names of `inode`, from its parent pointers.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on a volume without parent pointers, [`Error::Device`],
    /// [`Error::Corrupt`].
    pub fn parents(&self, inode: &Inode) -> Result<Vec<Parent>> {
        self.parents_up_to(inode, usize::MAX)
    }

    /// Returns the first `limit` names of `inode`, or all if there are fewer.
    fn parents_up_to(&self, inode: &Inode, limit: usize) -> Result<Vec<Parent>> {
        let mut parents = Vec::new();
        if limit == 0 {
            return Ok(parents);
        }
        self.each_parent(inode, &mut |parent| {
            parents.push(parent);
            if parents.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok(parents)
    }

    /// Passes the names of `inode` to `each`, from its parent pointers, until it breaks. Takes the
    /// memory of one leaf at a time, so it serves inodes with millions of names.
    ///
    /// # Errors
    /// As [`parents`](Self::parents). The names before the corruption were passed.
    pub fn each_parent(
        &self,
        inode: &Inode,
        each: &mut dyn FnMut(Parent) -> ControlFlow<()>,
    ) -> Result<()> {
        if !self.geo().features.parent() {
            return Err(Error::Unsupported("a volume without parent pointers".into()));
        }
        let mut failed = None;
        self.attrs_with_values(inode, &mut |attr| {
            let parent = attr.and_then(|attr| match attr.namespace {
                Namespace::Parent => self.parent(inode.ino(), attr.name, &attr.value).map(Some),
                _ => Ok(None),
            });
            match parent {
                Ok(Some(parent)) => each(parent),
                Ok(None) => ControlFlow::Continue(()),
                Err(err) => {
                    failed = Some(err);
                    ControlFlow::Break(())
                }
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    fn parent(&self, ino: Ino, name: &[u8], value: &[u8]) -> Result<Parent> {
        let ctx = self.ctx(inode::location(self.geo(), ino).fork(Fork::Attr));
        let rec =
            Rec::parse(value).ok_or_else(|| ctx.short("attr.parent.valuelen", value.len()))?;
        Ok(Parent { ino: rec.ino(), generation: rec.p_gen.get(), name: name.to_vec() })
    }

    /// Returns the absolute paths of inode `ino`, at most `limit` of them. The root's is "/"; an
    /// inode without a name has none. Reads no more of the inode's names than that.
    ///
    /// # Errors
    /// As [`parents`](Self::parents), and `attr.parent.loop` if directories are their own
    /// ancestors.
    pub fn paths(&self, ino: Ino, limit: usize) -> Result<Vec<Vec<u8>>> {
        if ino == self.geo().rootino {
            return Ok(vec![b"/".to_vec()]);
        }
        let mut paths = Vec::new();
        for parent in self.parents_up_to(&self.iget(ino)?, limit)? {
            paths.push(self.path_of(ino, parent)?);
        }
        Ok(paths)
    }

    /// Returns the path that ends in `last`, a name of `ino`. The walk goes up from directory to
    /// directory, each of which has one parent.
    fn path_of(&self, ino: Ino, last: Parent) -> Result<Vec<u8>> {
        let mut names = vec![last.name];
        let mut dir = last.ino;
        let mut seen = HashSet::from([ino]);
        while dir != self.geo().rootino {
            let once = seen.insert(dir) && seen.len() <= DEPTH_MAX;
            let parent = if once { self.parents_up_to(&self.iget(dir)?, 1)?.pop() } else { None };
            let Some(parent) = parent else {
                let ctx = self.ctx(inode::location(self.geo(), dir).fork(Fork::Attr));
                let want = Expected::Described("a way up to the root".into());
                return Err(ctx.corruption("attr.parent.loop", want, "none").into());
            };
            names.push(parent.name);
            dir = parent.ino;
        }
        Ok(names.iter().rev().flat_map(|name| [b"/", &name[..]].concat()).collect())
    }
}
