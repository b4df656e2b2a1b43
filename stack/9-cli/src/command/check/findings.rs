//! Prints findings: each as it is made, repeated ones as a number, and the paths of their inodes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;

use serde::Serialize;
use xfskit::{BlockRange, CheckId, FindOwners, Finding, Volume};

use crate::command::{blocks, open};
use crate::exit::Failure;
use crate::out::Out;
use crate::show::{self, Named};

/// Number of findings of one check in one inode or group that are printed.
const PRINTED_AT_PLACE: u32 = 8;
/// Number of findings of one check that are printed.
const PRINTED_MAX: u32 = 64;

/// Checks about the owners of a block.
const OWNERS: [&str; 2] = ["block.claimed-twice", "block.free-but-used"];
/// Number of blocks whose owners are printed.
const BLOCKS_MAX: usize = 64;

/// The inode of a finding, or else its group.
type Place = (Option<u64>, Option<u32>);

/// A path of an inode, for JSON.
#[derive(Serialize)]
struct Path<'a> {
    inode: u64,
    #[serde(flatten)]
    path: Named<'a>,
}

/// Counts of one check's findings.
#[derive(Debug, Default)]
struct Count {
    shown: u32,
    folded: u64,
    /// Printed findings, by place; there are no more places than printed findings.
    places: HashMap<Place, u32>,
}

/// The findings of one check of a volume.
#[derive(Debug)]
pub(super) struct Findings {
    /// Prints every finding.
    all: bool,
    counts: BTreeMap<CheckId, Count>,
    /// Inodes of printed findings.
    inodes: BTreeSet<u64>,
    /// Blocks of printed findings that are about their owners: the group, and the block there.
    blocks: BTreeSet<(u32, u32)>,
}

impl Findings {
    pub(super) fn new(all: bool) -> Self {
        let (counts, inodes, blocks) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Self { all, counts, inodes, blocks }
    }

    /// Counts a finding. Returns true if it is to be printed.
    pub(super) fn count(&mut self, finding: &Finding) -> bool {
        let at = &finding.corruption.at;
        let (ino, agno) = (at.ino.map(|ino| ino.0), at.agno.map(|agno| agno.0));
        let check = finding.corruption.check;
        if !self.all && !self.counts.entry(check).or_default().shows((ino, agno)) {
            return false;
        }
        self.inodes.extend(ino);
        if OWNERS.contains(&check.0) && self.blocks.len() < BLOCKS_MAX {
            self.blocks.extend(agno.zip(at.agbno.map(|agbno| agbno.0)));
        }
        true
    }

    /// Returns true if a printed finding is in an inode, or about the owners of a block.
    pub(super) fn have_paths(&self) -> bool {
        !self.inodes.is_empty() || !self.blocks.is_empty()
    }

    /// Returns the numbers of findings that were not printed.
    pub(super) fn folded(&self) -> String {
        let mut text = String::new();
        for (check, Count { folded, .. }) in &self.counts {
            if *folded > 0 {
                let _ = writeln!(text, "  and {folded} more [{check}]: --all shows each");
            }
        }
        text
    }

    /// Prints the owners of the blocks with findings, and the paths of the inodes.
    pub(super) fn print_paths(self, volume: &Volume, out: &Out) -> Result<(), Failure> {
        let range = |&(agno, agbno): &(u32, u32)| BlockRange::AgBlocks(agno, agbno..=agbno);
        let ranges: Vec<BlockRange> = self.blocks.iter().map(range).collect();
        if !ranges.is_empty() {
            // The check was of what the inodes say, not of the rmapbt.
            let found = FindOwners::new(volume).scan(true).run(&ranges);
            let found = found.map_err(|error| open::failure(&error))?;
            for run in found.ranges.iter().flatten().flatten() {
                blocks::print_finding(run, out)?;
            }
        }
        let paths = volume.paths_of(self.inodes).map_err(|error| open::failure(&error))?;
        for (inode, path) in paths {
            let path = path.as_os_str().as_bytes();
            if out.json() {
                out.object(&Path { inode, path: Named("path", path) })?;
            } else {
                out.line(format!("  inode {inode} is {}", show::name(path)))?;
            }
        }
        Ok(())
    }
}

impl Count {
    /// Counts a finding at `place`. Returns true if it is among the first.
    fn shows(&mut self, place: Place) -> bool {
        let first = self.shown < PRINTED_MAX && {
            let here = self.places.entry(place).or_default();
            *here += 1;
            *here <= PRINTED_AT_PLACE
        };
        if first {
            self.shown += 1;
        } else {
            self.folded += 1;
        }
        first
    }
}
