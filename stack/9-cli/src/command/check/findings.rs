//! Prints findings: each as it is made, repeated ones as a number, and the paths of their inodes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

use serde::Serialize;
use xfskit::raw::VolumeExt as _;
use xfskit::raw::check::Finding;
use xfskit::raw::format::corruption::CheckId;
use xfskit::raw::units::{AgNumber, Ino};
use xfskit::raw::vfs::{self, FileType};

use crate::exit::Failure;
use crate::out::Out;
use crate::show::{self, Named};

/// Number of findings of one check in one inode or group that are printed.
const PRINTED_AT_PLACE: u32 = 8;
/// Number of findings of one check that are printed.
const PRINTED_MAX: u32 = 64;
/// Number of directory entries read at once.
const PORTION: usize = 8192;

/// The inode of a finding, or else its group.
type Place = (Option<Ino>, Option<AgNumber>);

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
    inodes: BTreeSet<Ino>,
}

impl Findings {
    pub(super) fn new(all: bool) -> Self {
        Self { all, counts: BTreeMap::new(), inodes: BTreeSet::new() }
    }

    /// Counts a finding. Returns true if it is to be printed.
    pub(super) fn count(&mut self, finding: &Finding) -> bool {
        let at = &finding.corruption.at;
        if !self.all
            && !self.counts.entry(finding.corruption.check).or_default().shows((at.ino, at.agno))
        {
            return false;
        }
        self.inodes.extend(at.ino);
        true
    }

    /// Returns true if a printed finding is in an inode.
    pub(super) fn have_inodes(&self) -> bool {
        !self.inodes.is_empty()
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

    /// Prints the paths of the inodes with findings, found by one scan of the directories.
    pub(super) fn print_paths(self, volume: &xfskit::Volume, out: &Out) -> Result<(), Failure> {
        let mut paths = self.inodes.into_iter().map(|ino| (ino.0, None)).collect();
        find_paths(volume, &mut paths);
        for (ino, path) in paths {
            let Some(path) = path else { continue };
            if out.json() {
                out.object(&Path { inode: ino, path: Named("path", &path) })?;
            } else {
                out.line(format!("  inode {ino} is {}", show::name(&path)))?;
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

/// Scans the directories until a path of each of these inodes is known. An inode that cannot be
/// read has one too: its entry names it.
pub(in crate::command) fn find_paths(
    volume: &xfskit::Volume,
    wanted: &mut BTreeMap<u64, Option<Vec<u8>>>,
) {
    let fs = volume.fs();
    let Ok(root) = fs.root() else { return };
    let mut left = wanted.len();
    let mut found = |ino: Ino, path: &dyn Fn() -> Vec<u8>| {
        if let Some(place @ None) = wanted.get_mut(&ino.0) {
            *place = Some(path());
            left -= 1;
        }
        left == 0
    };
    if found(root.ino(), &|| b"/".to_vec()) {
        return;
    }
    let mut entered = BTreeSet::from([root.ino()]);
    let mut waiting = vec![(b"/".to_vec(), root)];
    while let Some((path, dir)) = waiting.pop() {
        let mut next = Some(0);
        while let Some(cookie) = next {
            let portion = fs.read_dir_from(&dir, cookie, PORTION);
            next = portion.next;
            for entry in portion.entries {
                if found(entry.ino, &|| vfs::join(&path, &entry.name)) {
                    return;
                }
                if matches!(entry.file_type, FileType::Directory | FileType::Unknown)
                    && entered.insert(entry.ino)
                    && let Ok(child) = fs.inode(entry.ino)
                    && child.core().is_dir()
                {
                    waiting.push((vfs::join(&path, &entry.name), child));
                }
            }
        }
    }
}
