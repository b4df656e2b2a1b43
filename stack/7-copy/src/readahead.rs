//! Read-ahead of small files by other threads.
//!
//! A thread that copies files one by one waits until each is found, opened and read. A few threads
//! read ahead in the order of the tree, up to a bound on memory: a pipeline in which readers wait
//! for the copy, and the copy for readers, so its threads are not those of a pool.
//!
//! 1. Files are begun in ascending order, and a begun file is read to its end even beyond the
//!    bound. So the file that the copy waits for is always being read.
//! 2. Files are taken in ascending order. Files that were skipped are dropped.

use std::collections::BTreeMap;
use std::thread;

use parking_lot::{Condvar, Mutex};

use crate::source::{Kind, NodeId, Segment, SourceError, Tree};

/// Maximum size of a file to read ahead, in bytes. The kernel itself reads ahead in larger ones.
const SMALL: u64 = 1 << 20;
/// No file is begun while this many bytes wait to be taken.
const BOUND: usize = 8 << 20;
/// Memory that a file takes in addition to its content, in bytes.
const OVERHEAD: usize = 256;
/// Number of reader threads.
const THREADS: usize = 4;

/// The content of a file: the data of its segments, one after the other.
#[derive(Debug)]
pub(crate) struct FileContent {
    /// Ranges with data.
    pub(crate) segments: Vec<Segment>,
    bytes: Vec<u8>,
}

impl FileContent {
    fn read(tree: &Tree, id: NodeId) -> Result<Self, SourceError> {
        let (content, segments) = (tree.open(id)?, tree.segments(id)?);
        let len: u64 = segments.iter().map(|segment| segment.len).sum();
        let mut bytes = vec![0; xfskit_units::index(len)];
        let mut rest = &mut bytes[..];
        for segment in &segments {
            let (part, behind) = rest.split_at_mut(xfskit_units::index(segment.len));
            content.read_at(segment.offset, part)?;
            rest = behind;
        }
        Ok(Self { segments, bytes })
    }

    /// Returns each segment with its data.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (Segment, &[u8])> {
        let mut rest = &self.bytes[..];
        self.segments.iter().map(move |&segment| {
            let (part, behind) = rest.split_at(xfskit_units::index(segment.len));
            rest = behind;
            (segment, part)
        })
    }

    fn weight(read: &Result<Self, SourceError>) -> usize {
        OVERHEAD + read.as_ref().map_or(0, |whole| whole.bytes.len())
    }
}

/// The files of a tree that are read ahead.
#[derive(Debug)]
pub(crate) struct ReadAhead<'t> {
    tree: &'t Tree,
    shared: Mutex<Shared>,
    /// Signals that a file was read.
    arrived: Condvar,
    /// Signals that there is space for more.
    space: Condvar,
}

#[derive(Debug, Default)]
struct Shared {
    /// The first node that was not begun.
    next: u32,
    ready: BTreeMap<NodeId, Result<FileContent, SourceError>>,
    /// Bytes that were read and wait to be taken.
    weight: usize,
    /// True once no more will be taken.
    stopped: bool,
}

impl Shared {
    /// Takes the content of `id`, and drops the contents of earlier files.
    fn take(&mut self, id: NodeId) -> Option<Result<FileContent, SourceError>> {
        while let Some(first) = self.ready.first_entry().filter(|first| *first.key() <= id) {
            let (found, read) = first.remove_entry();
            self.weight -= FileContent::weight(&read);
            if found == id {
                return Some(read);
            }
        }
        None
    }
}

impl<'t> ReadAhead<'t> {
    /// Runs `work` while other threads read the files of `tree` ahead of it.
    pub(crate) fn with<T>(tree: &'t Tree, work: impl FnOnce(&Self) -> T) -> T {
        let shared = Mutex::default();
        let ahead = Self { tree, shared, arrived: Condvar::new(), space: Condvar::new() };
        thread::scope(|scope| {
            let _over = StopOnDrop(&ahead);
            for _ in 0..THREADS {
                scope.spawn(|| ahead.read());
            }
            work(&ahead)
        })
    }

    /// Returns true if [`take`](Self::take) returns the content of file `id`.
    fn is_small(&self, id: NodeId) -> bool {
        matches!(self.tree.node(id).kind, Kind::File { size, .. } if (1..=SMALL).contains(&size))
    }

    /// Returns the content of file `id`; `None` if the node is empty, large, or not a file. Files
    /// before `id` must not be requested afterwards.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn take(&self, id: NodeId) -> Result<Option<FileContent>, SourceError> {
        if !self.is_small(id) {
            return Ok(None);
        }
        let mut shared = self.shared.lock();
        loop {
            let read = shared.take(id);
            // Not for every file, because waking costs more than reading one.
            if shared.weight < BOUND / 2 {
                self.space.notify_all();
            }
            if let Some(read) = read {
                return read.map(Some);
            }
            self.arrived.wait(&mut shared);
        }
    }

    /// Reads file after file.
    fn read(&self) {
        let mut shared = self.shared.lock();
        while !shared.stopped {
            if shared.weight >= BOUND {
                self.space.wait(&mut shared);
                continue;
            }
            let id = NodeId(shared.next);
            if id.index() >= self.tree.len() {
                break;
            }
            shared.next += 1;
            if !self.is_small(id) {
                continue;
            }
            drop(shared);
            let read = FileContent::read(self.tree, id);
            shared = self.shared.lock();
            shared.weight += FileContent::weight(&read);
            shared.ready.insert(id, read);
            self.arrived.notify_one();
        }
    }
}

/// Stops the readers when dropped, however the work ends.
struct StopOnDrop<'a, 't>(&'a ReadAhead<'t>);

impl Drop for StopOnDrop<'_, '_> {
    fn drop(&mut self) {
        self.0.shared.lock().stopped = true;
        self.0.space.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::path::Path;

    use super::*;
    use crate::source::{Source, SourceOptions, read_tree};

    /// Returns the content of file `n`. All files together exceed the bound.
    fn content(n: usize) -> Vec<u8> {
        vec![n.to_le_bytes()[0]; n * 977 % 70_000]
    }

    fn with_files<T>(count: usize, work: impl FnOnce(&Tree, &Path) -> T) -> T {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..count {
            std::fs::write(dir.path().join(format!("{n:05}")), content(n)).unwrap();
        }
        let large = std::fs::File::create(dir.path().join("large")).unwrap();
        large.set_len(SMALL + 1).unwrap();
        let sources = [Source::Dir(dir.path().to_path_buf())];
        let go_on = |_| ControlFlow::Continue(());
        let options = SourceOptions { strict: true, ..SourceOptions::default() };
        work(&read_tree(&sources, &options, &go_on).unwrap(), dir.path())
    }

    #[test]
    fn every_file_is_read_whole_and_skipped_files_do_not_block() {
        with_files(600, |tree, _| {
            ReadAhead::with(tree, |ahead| {
                // The root is not a file, and the last file is large. Takes every seventh file of
                // the second half.
                for id in tree.ids().filter(|id| id.0 < 300 || id.0.is_multiple_of(7)) {
                    let wanted = id.index().checked_sub(1).filter(|n| (1..600).contains(n));
                    let got = ahead.take(id).unwrap();
                    let bytes = got.map(|whole| whole.bytes);
                    assert!(bytes == wanted.map(content), "{id:?}");
                }
            });
        });
    }

    #[test]
    fn readers_stop_at_the_bound_and_end_when_the_work_ends() {
        with_files(600, |tree, _| {
            ReadAhead::with(tree, |ahead| {
                while ahead.shared.lock().weight < BOUND {
                    thread::yield_now();
                }
                assert!(ahead.shared.lock().next < 500);
            });
        });
    }

    #[test]
    fn a_removed_file_fails_only_its_own_copy() {
        with_files(3, |tree, dir| {
            std::fs::remove_file(dir.join("00002")).unwrap();
            ReadAhead::with(tree, |ahead| {
                assert!(ahead.take(NodeId(2)).unwrap().is_some());
                assert!(matches!(ahead.take(NodeId(3)), Err(SourceError::Changed { .. })));
            });
        });
    }
}
