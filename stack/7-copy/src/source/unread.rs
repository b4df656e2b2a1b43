//! Files of a directory that cannot be read as they were when the tree was read: they grew, shrank,
//! were replaced or removed, or reading them fails.
//!
//! A file is tried again first. Then a strict tree returns the error. Any other tree notes the file
//! and goes on with what could be read: the copy of such a file ends at [`Unread::end`].

use std::collections::BTreeMap;
use std::fmt;

use parking_lot::Mutex;

use super::SourceError;
use crate::{Skipped, SkippedCount};

/// A file that was not read as it was found.
#[derive(Debug)]
pub struct Unread {
    /// Path of the file, below the path that the source was given by.
    pub path: Vec<u8>,
    /// The first error.
    pub error: SourceError,
    /// Bytes that were read, from the start.
    pub end: u64,
    /// False if there is no file any more, or it cannot be opened.
    pub is_open: bool,
    /// Bytes that it had when the tree was read.
    pub size: u64,
}

impl Unread {
    /// Returns the count of such files, as what makes a copy incomplete.
    pub fn skipped(count: usize) -> Vec<SkippedCount> {
        let skipped = Skipped::default();
        skipped.count_more("content (of files that changed or failed while read)", count as u64);
        skipped.counts()
    }
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        match self.end {
            0 => write!(f, "; nothing of its content is copied"),
            end => write!(f, "; {end} of {} bytes are copied", self.size),
        }
    }
}

impl std::error::Error for Unread {}

/// The files of a tree that were not read as they were found, noted by any thread.
#[derive(Debug, Default)]
pub(super) struct UnreadFiles {
    /// Return errors, and note nothing.
    pub(super) strict: bool,
    /// A leaf lock.
    files: Mutex<BTreeMap<u32, Unread>>,
}

impl UnreadFiles {
    /// Returns where the copy of file `id` ends, if that is not at its size, and whether the file
    /// could be opened.
    pub(super) fn get(&self, id: u32) -> Option<(u64, bool)> {
        self.files.lock().get(&id).map(|unread| (unread.end, unread.is_open))
    }

    /// Returns the files noted, and forgets them.
    pub(super) fn take(&self) -> Vec<Unread> {
        std::mem::take(&mut *self.files.lock()).into_values().collect()
    }
}

/// One file of a directory while it is read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading<'t> {
    pub(super) files: &'t UnreadFiles,
    /// Its number in the tree.
    pub(super) id: u32,
    /// Bytes that it had when the tree was read.
    pub(super) size: u64,
}

impl Reading<'_> {
    /// Notes that bytes from `end` on cannot be read.
    ///
    /// # Errors
    /// `error`, if the tree is strict.
    pub(super) fn ends_at(
        &self,
        path: &[u8],
        end: u64,
        error: SourceError,
    ) -> Result<(), SourceError> {
        let (path, end, size) = (path.to_vec(), end.min(self.size), self.size);
        self.note(Unread { path, error, end, is_open: true, size })
    }

    /// Notes that the file cannot be opened.
    ///
    /// # Errors
    /// `error`, if the tree is strict.
    pub(super) fn is_gone(&self, path: &[u8], error: SourceError) -> Result<(), SourceError> {
        let (path, size) = (path.to_vec(), self.size);
        self.note(Unread { path, error, end: 0, is_open: false, size })
    }

    fn note(&self, unread: Unread) -> Result<(), SourceError> {
        if self.files.strict {
            return Err(unread.error);
        }
        let mut files = self.files.files.lock();
        let end = unread.end;
        let noted = files.entry(self.id).or_insert(unread);
        noted.end = noted.end.min(end);
        Ok(())
    }
}
