//! Floor 6: find removed files.
//!
//! Removing a file frees its inode and its blocks, and overwrites little of them. [`find`] puts the
//! pieces together again. `docs/format/undelete.md` says what Linux leaves, and how long.
//!
//! | evidence, best first | what it has |
//! | --- | --- |
//! | `journal` | inodes as they were, with forks; directory blocks and short forms |
//! | `groups` | freed inodes; inodes in freed chunks; directory blocks in free space |
//! | `remains` | what such an inode says: extents, parent pointers |
//! | `names`, `dirs` | dead entries of directories |
//! | `attr_blocks`, `attributes` | extended attributes with blocks of their own |
//! | `blocks`, `realtime` | which blocks are free and were not used again |
//! | `twins` | files that were given back before |
//!
//! [`Candidate`] is the result, and [`restore`] gives one back in place. Names come as the inode of
//! a directory and a name in it; paths are put together above. Memory: one entry for each removed
//! file with its extents, and for each inode in the journal; of free space 8 bytes for each
//! directory block. The groups are read one by one.

mod attr_blocks;
mod attributes;
mod blocks;
mod candidate;
mod dirs;
mod groups;
mod journal;
mod names;
mod realtime;
mod remains;
pub mod restore;
mod twins;

use std::ops::ControlFlow;

use xfskit_core::{Error, Result, Volume};

pub use candidate::{Candidate, Confidence, Lost, LostReason, Name, Size};
pub use xfskit_core::Warnings;

use groups::{Remains, Search};
use journal::Lives;
use names::Named;
use twins::Twins;

/// A step of a search. Progress is counted in each one anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The journal is read; blocks of 512 bytes.
    Journal,
    /// Inodes and free space are read; filesystem blocks of the volume.
    Groups,
    /// Directories are read; inodes in use.
    Directories,
    /// Blocks of removed directories are read.
    RemovedDirectories,
}

/// Receives how far a step is: done, and all. A break ends the search.
pub type Watch<'p> = dyn Fn(Phase, u64, u64) -> ControlFlow<()> + Sync + 'p;

/// Options of a search.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Reads free space, for inodes and directories of chunks that were freed. Takes as long as
    /// reading all of it.
    pub free_space: bool,
    /// Receives the progress.
    pub watch: &'a Watch<'a>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self { free_space: true, watch: &|_, _, _| ControlFlow::Continue(()) }
    }
}

/// The result of a search.
#[derive(Debug, Default)]
pub struct Found {
    /// The removed files, by inode number.
    pub candidates: Vec<Candidate>,
    /// Number of freed inodes of which nothing is left.
    pub unidentified: u64,
    /// Number of files that were given back before, and have their blocks. They are no candidates.
    pub given_back: u64,
    /// Damage that the search met.
    pub warnings: Warnings,
    /// False if the search was ended by its [`Options::watch`].
    pub complete: bool,
}

/// Finds removed files.
///
/// # Errors
/// [`Error::Unsupported`] for version 4. Damage is a warning.
pub fn find(volume: &Volume, options: &Options<'_>) -> Result<Found> {
    if !volume.geo().v5() {
        let what =
            "undelete of version 4, whose inodes and directory blocks do not name themselves";
        return Err(Error::Unsupported(what.into()));
    }
    let mut found = Found::default();
    let step = |phase| move |done, total| (options.watch)(phase, done, total);
    let lives = match journal::lives(volume, &step(Phase::Journal)) {
        Ok(Some(lives)) => lives,
        Ok(None) => return Ok(found),
        Err(error) => {
            found.warnings.add(error);
            Lives::new()
        }
    };
    let Some(remains) = search(volume, lives, options, &mut found) else { return Ok(found) };
    let mut candidates = remains.candidates;
    match attributes::take_logged(volume, &mut candidates, &step(Phase::Journal)) {
        Ok(true) => add_parents(volume, &mut candidates),
        Ok(false) => return Ok(found),
        Err(error) => found.warnings.add(error),
    }
    let mut twins = Twins::of(&candidates);
    let mut named = Named::new(&mut candidates);
    remains.hints.into_iter().for_each(|hint| named.add(hint));
    match journal::names(volume, &mut named, &step(Phase::Journal)) {
        Ok(true) => {}
        Ok(false) => return Ok(found),
        Err(error) => found.warnings.add(error),
    }
    let (warnings, step_dead) = (&mut found.warnings, step(Phase::RemovedDirectories));
    found.complete =
        dirs::in_use(volume, (&mut named, &mut twins), warnings, &step(Phase::Directories))
            && dirs::removed(volume, &remains.dir_blocks, &mut named, warnings, &step_dead);
    let all = candidates.len();
    candidates.retain(|candidate| !candidate.is_empty());
    found.unidentified = (all - candidates.len()) as u64;
    blocks::find_lost(volume, &mut candidates, warnings);
    twins.mark(&mut candidates);
    let all = candidates.len();
    candidates.retain(|candidate| !twins.was_given_back(volume, candidate));
    found.given_back = (all - candidates.len()) as u64;
    candidates.sort_by_key(|candidate| (candidate.ino, candidate.lsn));
    found.candidates = candidates;
    Ok(found)
}

/// Adds the names in parent pointers that are in blocks of their own.
fn add_parents(volume: &Volume, candidates: &mut [Candidate]) {
    if !volume.geo().features.parent() {
        return;
    }
    for file in candidates.iter_mut().filter(|file| !file.attr_blocks.map.is_empty()) {
        let parents = attributes::read(volume, file).parents;
        for name in parents {
            file.add_name(name);
        }
    }
}

/// Searches the groups; `None` if the caller ended it.
fn search(
    volume: &Volume,
    mut lives: Lives,
    options: &Options<'_>,
    found: &mut Found,
) -> Option<Remains> {
    let mut search = Search {
        volume,
        lives: &mut lives,
        warnings: &mut found.warnings,
        free_space: options.free_space,
        step: &|done, total| (options.watch)(Phase::Groups, done, total),
        found: Remains::default(),
    };
    search.run().then_some(search.found)
}
