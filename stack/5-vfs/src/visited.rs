//! Directories that a walk entered, and by which name: what comes again is damage, a cycle or a
//! second parent.

use std::collections::HashMap;

use xfskit_units::Ino;

use crate::path::{join, shown};
use crate::{Error, Result};

/// The directory that another was found in, and its name there.
type Home = (Ino, Box<[u8]>);

/// The directories that one walk entered. A name for each, not a path: trees may be deep.
#[derive(Debug)]
pub struct Visited {
    /// Where the walk began.
    top: Vec<u8>,
    /// The directory that each was found in and its name there; `None` where the walk began.
    homes: HashMap<Ino, Option<Home>>,
}

impl Visited {
    /// A walk begins in the directory `ino`, which `path` names.
    pub fn new(ino: Ino, path: &[u8]) -> Self {
        Self { top: path.to_vec(), homes: HashMap::from([(ino, None)]) }
    }

    /// The directory `ino` is entered as `name` in the directory `parent`, which was entered
    /// before.
    ///
    /// # Errors
    /// [`Error::DirTwice`] where it was entered before.
    pub fn enter(&mut self, ino: Ino, parent: Ino, name: &[u8]) -> Result<()> {
        if self.homes.contains_key(&ino) {
            let path = shown(&join(&self.path(parent), name));
            return Err(Error::DirTwice { ino, path, first: shown(&self.path(ino)) });
        }
        self.homes.insert(ino, Some((parent, name.into())));
        Ok(())
    }

    /// Where a directory was entered first. Every home was entered before what is in it, so this
    /// ends.
    fn path(&self, ino: Ino) -> Vec<u8> {
        let mut names: Vec<&[u8]> = Vec::new();
        let mut at = ino;
        while let Some(Some((parent, name))) = self.homes.get(&at) {
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
