//! Directories that a walk entered, and the name of each. A directory that is found again is
//! damage: a cycle or a second parent.

use std::collections::HashMap;

use xfskit_units::Ino;

use crate::path::{join, shown};
use crate::{Error, Result};

/// The directory that another was found in, and its name there.
type Parent = (Ino, Box<[u8]>);

/// The directories that one walk entered. Stores a name for each and not a path, because trees may
/// be deep.
#[derive(Debug)]
pub struct Visited {
    /// Path of the first directory.
    top: Vec<u8>,
    /// The directory that each was found in, and its name there; `None` for the first.
    parents: HashMap<Ino, Option<Parent>>,
}

impl Visited {
    /// Begins a walk in the directory `ino`, whose path is `path`.
    pub fn new(ino: Ino, path: &[u8]) -> Self {
        Self { top: path.to_vec(), parents: HashMap::from([(ino, None)]) }
    }

    /// Enters the directory `ino` as `name` in the directory `parent`, which was entered before.
    ///
    /// # Errors
    /// [`Error::DirTwice`] if it was entered before.
    pub fn enter(&mut self, ino: Ino, parent: Ino, name: &[u8]) -> Result<()> {
        if self.parents.contains_key(&ino) {
            let path = shown(&join(&self.path(parent), name));
            return Err(Error::DirTwice { ino, path, first: shown(&self.path(ino)) });
        }
        self.parents.insert(ino, Some((parent, name.into())));
        Ok(())
    }

    /// Returns the path by which a directory was entered first. Every parent was entered before its
    /// children, so the loop ends.
    pub(crate) fn path(&self, ino: Ino) -> Vec<u8> {
        let mut names: Vec<&[u8]> = Vec::new();
        let mut at = ino;
        while let Some(Some((parent, name))) = self.parents.get(&at) {
            names.push(name);
            at = *parent;
        }
        let mut path = self.top.clone();
        for name in names.iter().rev() {
            if path.last() != Some(&b'/') {
                path.push(b'/');
            }
            path.extend_from_slice(name);
        }
        path
    }
}
