//! `xfskit check --scrub` of an array: compares its members, and decides which are wrong.
//!
//! 1. All stripes are compared, as in `xfskit md scrub`. Mismatches are recorded.
//! 2. The volume is checked. A block that fails verification is read from the other members, and
//!    with `--repair` rewritten on the member that was wrong.
//! 3. A mismatch that is left is in blocks without a checksum. On RAID6, P and Q show which member
//!    is wrong. On other levels: if no file has content in a page, everything in it was verified,
//!    so the parity (or the other copy) is wrong and is rewritten. A page with content is reported,
//!    with the file and the offset.
//!
//! Arrays within arrays are compared one by one. Mismatches of the outer array are resolved first,
//! with the help of those within (`2-md/array/nested`). If the outer one agrees, the data of the
//! inner ones are right.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};
use xfskit::raw::VolumeOptionsExt as _;
use xfskit::raw::block::{BlockDevice, OpenMode};
use xfskit::raw::check::{FileRange, Mismatches, Report};
use xfskit::raw::core::superblock::read_superblock;
use xfskit::raw::log::Log;
use xfskit::raw::md::array::scrub::Mismatch;
use xfskit::raw::md::array::sync_action::{Completion, ScrubProgress};
use xfskit::raw::target::{self, Base, Nested, Target};
use xfskit::raw::units::{ByteLen, ByteOffset, Ino};

use crate::command::open::{self, device_hint, target_failure};
use crate::exit::Failure;
use crate::grammar::change;
use crate::grammar::metadata::Check;
use crate::out::{Out, chain};
use crate::progress::Progress;
use crate::show;
use crate::stop::Stop;

/// Maximum number of mismatching pages that are examined; more wait for the next run.
const PAGES_MAX: usize = 100_000;
/// Number of pages that are reported one by one.
const REPORTED_MAX: usize = 1000;

/// An array whose members were compared, with the arrays within it.
pub(super) struct Scrubbed {
    /// The outermost first, each before its members.
    levels: Vec<Level>,
    /// The volume on it, through which it is rewritten.
    pub(super) device: Arc<dyn BlockDevice>,
    /// Where the volume is on the array, in order.
    pieces: Vec<(ByteOffset, ByteLen)>,
}

/// One of several nested arrays.
struct Level {
    nested: Nested,
    /// True if all of it was compared.
    compared: bool,
    /// Mismatches, by stripe.
    pages: BTreeMap<u64, Vec<Mismatch>>,
    /// Number of mismatches, those beyond [`PAGES_MAX`] included.
    count: usize,
    /// Mismatches that are left at the end.
    left: Vec<Mismatch>,
}

/// The counts of a scrub.
#[derive(Default)]
struct Tally {
    repaired: usize,
    reported: usize,
    /// Files whose content may be wrong, with their paths.
    paths: BTreeMap<u64, String>,
}

impl Level {
    fn new(nested: Nested) -> Self {
        nested.array.read_first_copies();
        Self { nested, compared: false, pages: BTreeMap::new(), count: 0, left: Vec::new() }
    }

    fn failed(&self, error: &xfskit::raw::block::Error) -> Failure {
        device_hint(Failure::cannot(format!("{}: {}", self.nested.name, chain(error))), error)
    }

    /// Compares all stripes.
    fn compare(&mut self, args: &Check, out: &Out) -> Result<(), Failure> {
        let array = Arc::clone(&self.nested.array);
        if array.scrub_stripes() == 0 {
            return Ok(());
        }
        if !array.can_be_scrubbed() {
            let name = match &self.nested.outer {
                Some(_) => format!("{}: ", self.nested.name),
                None => String::new(),
            };
            out.note(&format!(
                "{name}a member is missing or not complete: nothing but checksums is compared"
            ));
            return Ok(());
        }
        let stop = Stop::on_signals()?;
        if args.repair {
            let progress = Progress::new(out, "resync", "bytes");
            let resynced = array.resync(|done, total| {
                progress.set(done.0, total.0);
                stop.flow().is_continue()
            });
            resynced.map_err(|e| self.failed(&e))?;
            stop.check()?;
        }
        let progress = Progress::new(out, "comparing members", "bytes");
        let mut unchecked = 0;
        let watch = |found: ScrubProgress| {
            progress.set(found.progress.done.0, found.progress.total.0);
            unchecked = found.progress.bad.0;
            for mismatch in found.mismatches {
                self.count += 1;
                if self.count <= PAGES_MAX {
                    self.pages.entry(mismatch.stripe).or_default().push(mismatch);
                }
            }
            stop.flow()
        };
        let ended = array.scrub(0..array.scrub_stripes(), false, watch);
        match ended.map_err(|e| self.failed(&e))? {
            Completion::Finished => {
                self.compared = unchecked == 0 && self.count <= PAGES_MAX;
                Ok(())
            }
            Completion::Stopped => stop.check(),
        }
    }

    fn pages(&self) -> impl Iterator<Item = &Mismatch> {
        self.pages.values().flatten()
    }
}

impl Scrubbed {
    /// Compares the members of the array that `args` names. Returns `None` if it is not an array,
    /// or one without redundancy or with missing members. With `--repair`, the journal is replayed
    /// first.
    pub(super) fn of(args: &Check, out: &Out) -> Result<Option<Self>, Failure> {
        let name = &*args.target.name;
        let failed = |e: target::Error| target_failure(name, &e);
        let target = Target::parse(name).map_err(failed)?;
        if args.repair {
            let volume = open::volume_for_writing(&to_change(args), out)?;
            volume.close().map_err(|e| open::not_opened(name, &e))?;
        }
        let Base::Array(array_name) = &target.base else { return Ok(None) };
        if target::is_reshaped(array_name).map_err(failed)? {
            out.note("the array is being reshaped: nothing but checksums is compared");
            return Ok(None);
        }
        let mode = if args.repair { OpenMode::ReadWrite } else { OpenMode::ReadOnly };
        let nested = target::open_nested(array_name, mode).map_err(failed)?;
        let mut levels: Vec<Level> = nested.into_iter().map(Level::new).collect();
        let disk = Arc::clone(&levels[0].nested.array) as Arc<dyn BlockDevice>;
        let pieces = target::pieces(&target, &disk).map_err(failed)?;
        let device = target::part_of(&target, disk).map_err(failed)?;
        if levels.iter().all(|level| level.nested.array.scrub_stripes() == 0) && !args.repair {
            return Ok(None);
        }
        levels.iter_mut().try_for_each(|level| level.compare(args, out))?;
        let scrubbed = Self { levels, device, pieces };
        if args.repair {
            scrubbed.heal_journal(name)?;
        }
        Ok(Some(scrubbed))
    }

    /// Resolves mismatches of the journal first: the check does not verify a clean journal.
    fn heal_journal(&self, name: &str) -> Result<(), Failure> {
        let sb = read_superblock(&*self.device).map_err(|e| open::not_opened(name, &e.into()))?;
        let geo = sb.geometry();
        let Some(start) = geo.log_daddr() else { return Ok(()) };
        let first = start.byte_offset().0;
        let journal = first..first.saturating_add(u64::from(geo.log_bbs()) * 512);
        let pages = (0..self.levels.len())
            .flat_map(|index| self.levels[index].pages().map(move |page| (index, page)));
        let doubtful = pages
            .filter_map(|(index, page)| self.places(index, page))
            .flatten()
            .map(|place| place.start.0.max(journal.start)..place.end.0.min(journal.end))
            .filter(|place| !place.is_empty())
            .reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
        let Some(bytes) = doubtful else { return Ok(()) };
        Log::heal_blocks(&*self.device, start, &geo, bytes.start - first..bytes.end - first)
            .map_err(|e| Failure::cannot(open::about(name, &e)))
    }

    /// Returns the ranges of the volume that mismatch.
    pub(super) fn mismatches(&self) -> Mismatches {
        let pages = |index: usize| self.levels[index].pages().map(move |page| (index, page));
        let pages = (0..self.levels.len()).flat_map(pages);
        Mismatches::new(pages.filter_map(|(index, page)| self.places(index, page)).flatten())
    }

    /// Returns the ranges of the volume in a page of one of the arrays; `None` if a part of the
    /// page is not in the volume.
    fn places(&self, index: usize, page: &Mismatch) -> Option<Vec<Range<ByteOffset>>> {
        let contents = self.levels[index].nested.array.mismatch_ranges(page);
        let places = contents.iter().map(|place| self.in_volume(index, place));
        Some(places.collect::<Option<Vec<_>>>()?.concat())
    }

    /// Returns the ranges of the volume for a range of one of the arrays; `None` if it is not
    /// within the volume.
    fn in_volume(&self, index: usize, place: &Range<ByteOffset>) -> Option<Vec<Range<ByteOffset>>> {
        target::ranges_in_part(&|i| &self.levels[i].nested, &self.pieces, index, place)
    }

    /// Returns true if the page agrees with the other members of the array around it. Its data are
    /// right then, whichever member within is wrong.
    fn agrees_above(&self, index: usize, page: &Mismatch) -> bool {
        let agrees = |place: &Range<ByteOffset>| {
            let nested = |i: usize| &self.levels[i].nested;
            let Some((above, Some(role), Some(place))) =
                target::range_in_outer(&nested, index, place)
            else {
                return false;
            };
            let Level { nested, compared, left, .. } = &self.levels[above];
            let inside = nested.array.array_ranges(role, &place).is_some();
            *compared
                && inside
                && !left.iter().any(|other| nested.array.mismatch_overlaps(other, role, &place))
        };
        self.levels[index].nested.array.mismatch_ranges(page).iter().all(agrees)
    }

    /// Returns the file contents in a page; `None` if they are not known.
    fn files(
        &self,
        index: usize,
        page: &Mismatch,
        mismatches: &Mismatches,
    ) -> Option<Vec<FileRange>> {
        let mut files = Vec::new();
        for place in self.places(index, page)? {
            files.extend(mismatches.files(&place)?);
        }
        Some(files)
    }

    /// Resolves the mismatches, after the volume was checked. The outermost array comes first,
    /// because its right data show which member within is wrong. Returns true if everything agrees
    /// now.
    pub(super) fn resolve(
        mut self,
        args: &Check,
        report: &Report,
        mismatches: &Mismatches,
        out: &Out,
    ) -> Result<bool, Failure> {
        let mut tally = Tally { paths: self.paths(mismatches), ..Tally::default() };
        for index in 0..self.levels.len() {
            let Level { nested, pages, .. } = &self.levels[index];
            let mut left = Vec::new();
            for (row, pages) in pages {
                let now = if args.repair {
                    let compared = nested.array.compare_stripe(*row, true);
                    compared.map_err(|e| self.levels[index].failed(&e))?.mismatches
                } else {
                    pages.clone()
                };
                // Pages that agree by now were rewritten by the check.
                tally.repaired += pages.len().saturating_sub(now.len());
                for page in now {
                    let may_follow = args.repair && report.clean();
                    if !self.resolve_page(index, &page, may_follow, mismatches, &mut tally, out)? {
                        left.push(page);
                    }
                }
            }
            self.levels[index].left = left;
        }
        for level in &self.levels {
            level.nested.array.close().map_err(|e| level.failed(&e))?;
        }
        let count: usize = self.levels.iter().map(|level| level.count).sum();
        if count > 0 {
            let repaired = tally.repaired;
            let report = json!({ "scrub": { "pages": count, "repaired": repaired } });
            out.result(&report, |_| {
                format!("scrub: {count} pages did not agree, {repaired} repaired\n")
            })?;
        }
        Ok(tally.repaired == count)
    }

    /// Resolves one page. Returns true if it agrees now.
    fn resolve_page(
        &self,
        index: usize,
        page: &Mismatch,
        may_follow: bool,
        mismatches: &Mismatches,
        tally: &mut Tally,
        out: &Out,
    ) -> Result<bool, Failure> {
        let level = &self.levels[index];
        let files = self.files(index, page, mismatches);
        let sound = files.as_ref().is_some_and(Vec::is_empty) || self.agrees_above(index, page);
        let repaired = page.repaired
            || (may_follow
                && sound
                && level.nested.array.resync_page(page).map_err(|e| level.failed(&e))?);
        tally.repaired += usize::from(repaired);
        tally.reported += 1;
        if tally.reported <= REPORTED_MAX {
            self.report(index, page, repaired, files.as_deref(), tally, out)?;
        }
        Ok(repaired)
    }

    /// Reports a page, with its array if there are several.
    fn report(
        &self,
        index: usize,
        page: &Mismatch,
        repaired: bool,
        files: Option<&[FileRange]>,
        tally: &Tally,
        out: &Out,
    ) -> Result<(), Failure> {
        let array = (index > 0).then(|| self.levels[index].nested.name.to_string());
        let (start, end) = (page.sectors.start.0, page.sectors.end.0);
        let file_objects: Option<Vec<Value>> =
            files.map(|files| files.iter().map(|file| tally.object(file)).collect());
        let mut report = json!({
            "sectors": [start, end], "role": page.role, "repaired": repaired, "files": file_objects,
        });
        if let Some(array) = &array {
            report["array"] = json!(array);
        }
        out.result(&json!({ "mismatch": report }), |_| {
            let subject = match (files, page.role) {
                (_, Some(role)) => format!("role {role} is wrong"),
                _ if index > 0 && self.agrees_above(index, page) => {
                    "its content agrees with the other arrays: parity or another copy is wrong"
                        .into()
                }
                (None, None) => "the wrong member is unknown".to_owned(),
                (Some([]), None) => "no file has content there".to_owned(),
                (Some(files), None) => {
                    let names: Vec<String> = files.iter().map(|file| tally.name(file)).collect();
                    format!("either parity or another copy is wrong, or {}", names.join(", or "))
                }
            };
            let repaired = if repaired { ", repaired" } else { "" };
            let array = array.as_ref().map(|array| format!("{array}, ")).unwrap_or_default();
            format!("{array}member sectors {start} to {}: {subject}{repaired}\n", end - 1)
        })
    }

    /// Returns the paths of the files whose content is doubtful.
    fn paths(&self, mismatches: &Mismatches) -> BTreeMap<u64, String> {
        let pages = |index: usize| self.levels[index].pages().map(move |page| (index, page));
        let pages = (0..self.levels.len()).flat_map(pages);
        let files = pages.filter_map(|(index, page)| self.files(index, page, mismatches)).flatten();
        let mut wanted: BTreeMap<u64, Option<Vec<u8>>> =
            files.map(|file| (file.ino.0, None)).collect();
        if !wanted.is_empty()
            && let Ok(volume) =
                xfskit::VolumeOptions::new().open_device(Arc::clone(&self.device), None)
        {
            super::find_paths(&volume, &mut wanted);
        }
        wanted.into_iter().filter_map(|(ino, path)| Some((ino, show::name(&path?)))).collect()
    }
}

impl Tally {
    fn path(&self, ino: Ino) -> Option<&str> {
        self.paths.get(&ino.0).map(String::as_str)
    }

    fn object(&self, file: &FileRange) -> Value {
        json!({
            "ino": file.ino.0,
            "path": self.path(file.ino),
            "offset": file.offset.0,
            "length": file.bytes.end.0 - file.bytes.start.0,
        })
    }

    fn name(&self, file: &FileRange) -> String {
        let (from, len) = (file.offset.0, file.bytes.end.0 - file.bytes.start.0);
        let subject = match self.path(file.ino) {
            Some(path) => format!("{path} (inode {})", file.ino.0),
            None => format!("inode {}", file.ino.0),
        };
        format!("{subject} at bytes {from} to {}", from + len - 1)
    }
}

/// Returns the same volume for a replay of its journal.
fn to_change(args: &Check) -> change::Target {
    change::Target {
        name: args.target.name.clone(),
        logdev: args.target.logdev.clone(),
        journal: xfskit::raw::core::JournalOptions::default(),
        cache: args.target.cache,
        stats: false,
    }
}
