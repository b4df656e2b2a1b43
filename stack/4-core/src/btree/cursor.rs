//! The cursor: a place in a tree.

use crate::btree::home::{Home, Kind};
use crate::error::{Error, Result};
use crate::tx::Tx;

/// Which record to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The last one that is not behind the place.
    Le,
    /// The one at the place.
    Eq,
    /// The first one that is not before the place.
    Ge,
}

type Rec<H> = <<H as Home>::Kind as Kind>::Rec;
type Pos<H> = <<H as Home>::Kind as Kind>::Pos;

/// A place in a tree.
#[derive(Debug)]
pub struct Cursor<H: Home> {
    home: H,
}

impl<H: Home> Cursor<H> {
    /// A cursor at no place yet.
    pub fn new(home: H) -> Self {
        Self { home }
    }

    /// The tree.
    pub fn home(&self) -> &H {
        &self.home
    }

    /// Goes to the record that `how` picks and answers it; `None` where there is none, and then the cursor is
    /// nowhere.
    ///
    /// # Errors
    /// [`Error::Device`], [`Error::Corrupt`].
    pub fn seek(&mut self, tx: &mut Tx<'_>, pos: Pos<H>, how: Seek) -> Result<Option<Rec<H>>> {
        let _ = (tx, pos, how);
        Err(unwritten())
    }

    /// Goes to the first record.
    ///
    /// # Errors
    /// As [`seek`](Self::seek).
    pub fn first(&mut self, tx: &mut Tx<'_>) -> Result<Option<Rec<H>>> {
        let _ = tx;
        Err(unwritten())
    }

    /// Goes to the last record.
    ///
    /// # Errors
    /// As [`seek`](Self::seek).
    pub fn last(&mut self, tx: &mut Tx<'_>) -> Result<Option<Rec<H>>> {
        let _ = tx;
        Err(unwritten())
    }

    /// Goes on to the next record. At the end it answers `None` and stays at the last record.
    ///
    /// # Errors
    /// As [`seek`](Self::seek).
    pub fn next(&mut self, tx: &mut Tx<'_>) -> Result<Option<Rec<H>>> {
        let _ = tx;
        Err(unwritten())
    }

    /// Goes back to the record before. At the beginning it answers `None` and stays at the first record.
    ///
    /// # Errors
    /// As [`seek`](Self::seek).
    pub fn prev(&mut self, tx: &mut Tx<'_>) -> Result<Option<Rec<H>>> {
        let _ = tx;
        Err(unwritten())
    }

    /// Replaces the record at the cursor by `rec`, which must lie between its neighbours.
    ///
    /// # Errors
    /// As [`seek`](Self::seek).
    pub fn update(&mut self, tx: &mut Tx<'_>, rec: &Rec<H>) -> Result<()> {
        let _ = (tx, rec);
        Err(unwritten())
    }

    /// Inserts `rec`, wherever the cursor is; it is at the new record afterwards. A record at the same place is
    /// [`Error::Corrupt`].
    ///
    /// # Errors
    /// As [`seek`](Self::seek), and [`Error::NoSpace`] where the tree must grow and cannot.
    pub fn insert(&mut self, tx: &mut Tx<'_>, rec: &Rec<H>) -> Result<()> {
        let _ = (tx, rec);
        Err(unwritten())
    }

    /// Deletes the record at the cursor, which is nowhere afterwards: [`seek`](Self::seek) again.
    ///
    /// # Errors
    /// As [`seek`](Self::seek).
    pub fn delete(&mut self, tx: &mut Tx<'_>) -> Result<()> {
        let _ = tx;
        Err(unwritten())
    }

    /// Ends the cursor: lets go of what it did not change.
    pub fn close(self, tx: &mut Tx<'_>) {
        let _ = tx;
    }
}

fn unwritten() -> Error {
    Error::Unsupported("changing btrees".into())
}
