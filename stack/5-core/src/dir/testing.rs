//! A directory in memory and a map with the same names, for unit tests.

mod memory_fork;

use std::collections::BTreeSet;

use xfskit_format::inode::FileType;
use xfskit_test_support::Random;
use xfskit_test_trees::dir::{self as testing, Found, INO, Names as Model, PARENT};
use xfskit_units::{Geometry, Ino};

use crate::dir::names::{EntryTarget, Form, Names};
use crate::dir_cache::FreeSpaceIndex;
use crate::error::{Error, Result};

pub(crate) use memory_fork::MemoryFork;

pub(super) struct Fixture {
    pub(super) geo: Geometry,
    pub(super) fork: MemoryFork,
    pub(super) free_index: FreeSpaceIndex,
    pub(super) model: Model,
    pub(super) random: Random,
    pub(super) forms: BTreeSet<u8>,
    /// Blocks that one change touched at most.
    pub(super) most: usize,
}

impl Fixture {
    pub(super) fn new(blocklog: u8, dirblklog: u8, seed: u64) -> Self {
        let geo = testing::geo(blocklog, dirblklog);
        let fork = MemoryFork::new(&geo, 336);
        let (model, forms) = (Model::new(), BTreeSet::new());
        let mut f = Self {
            geo,
            fork,
            free_index: FreeSpaceIndex::default(),
            model,
            random: Random::new(seed),
            forms,
            most: 0,
        };
        f.names().init(PARENT);
        f
    }

    pub(super) fn names(&mut self) -> Names<'_, MemoryFork> {
        self.fork.touched.clear();
        Names { geo: &self.geo, ino: INO, fork: &mut self.fork, free_index: &mut self.free_index }
    }

    pub(super) fn form(&mut self) -> Form {
        self.names().form().unwrap()
    }

    pub(super) fn target(&mut self) -> EntryTarget {
        let types = [FileType::Regular, FileType::Directory, FileType::Symlink];
        let ftype = types[self.random.below(3)];
        let wide = self.random.below(50) == 0;
        let ino =
            if wide { testing::wide_ino(&self.geo) } else { Ino(4096 + self.random.below(50_000)) };
        (ino, ftype)
    }

    pub(super) fn create(&mut self, name: &[u8]) -> Result<()> {
        let target = self.target();
        let result = self.names().create(name, target);
        self.most = self.most.max(self.fork.touched.len());
        if result.is_ok() {
            self.model.insert(name.to_vec(), (target.0, target.1.ftype()));
        }
        result
    }

    pub(super) fn remove(&mut self, name: &[u8]) -> Result<EntryTarget> {
        let result = self.names().remove(name);
        self.most = self.most.max(self.fork.touched.len());
        if let Ok((ino, ftype)) = result {
            assert_eq!(self.model.remove(name), Some((ino, ftype.ftype())));
        }
        result
    }

    pub(super) fn replace(&mut self, name: &[u8]) {
        let target = self.target();
        let old = self.names().replace(name, target).unwrap();
        let was = self.model.insert(name.to_vec(), (target.0, target.1.ftype()));
        assert_eq!(was, Some((old.0, old.1.ftype())));
    }

    pub(super) fn any(&mut self) -> Option<Vec<u8>> {
        let index = self.random.below(self.model.len() + 1);
        self.model.keys().nth(index).cloned()
    }

    pub(super) fn verify(&mut self) -> Found {
        let found = self.fork.verify();
        assert!(found.names == self.model, "{} names of {}", found.names.len(), self.model.len());
        let form = self.form();
        self.forms.insert(form as u8);
        let empty = self.names().is_empty().unwrap();
        assert_eq!(empty, self.model.is_empty());
        found
    }

    /// One change at random; names are picked by `name`. `grow` of ten are new ones.
    pub(super) fn step(&mut self, grow: usize, name: impl Fn(usize) -> Vec<u8>) {
        let new = name(self.random.below(1_000_000));
        let (known, ino) = (self.model.contains_key(&new), self.model.get(&new).copied());
        let found = self.names().lookup(&new).unwrap();
        assert_eq!(found.map(|(ino, ftype)| (ino, ftype.ftype())), ino);
        if self.random.below(10) < grow {
            match self.create(&new) {
                Ok(()) => assert!(!known),
                Err(Error::Exists) => assert!(known),
                Err(err) => panic!("{err}"),
            }
        } else if let Some(old) = self.any() {
            if self.random.below(5) == 0 {
                self.replace(&old);
            } else {
                self.remove(&old).unwrap();
            }
        }
        if !known && !self.model.contains_key(&new) {
            assert!(matches!(self.remove(&new), Err(Error::NoEntry)));
        }
    }
}
