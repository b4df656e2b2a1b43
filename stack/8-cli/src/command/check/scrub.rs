//! `xfskit check --scrub` of an array: do its members agree, and if not, who is wrong?
//!
//! 1. All rows are compared, as `xfskit md scrub` does. What does not agree is remembered.
//! 2. The volume is judged. A block that fails is had from the other members and, to repair,
//!    rewritten on the one that lied.
//! 3. What does not agree even then is wrong where no checksum is. On RAID6, P and Q tell whose.
//!    Elsewhere: in a page where no file has content everything that counts was judged to be sound,
//!    so parity (or the other copy) is wrong, and follows. A page with content is named, with the
//!    file and where in it.
//!
//! Of arrays within arrays each is compared by itself. What does not agree in the outer one is
//! settled first, with the help of those within (`2-md/array/nested`); where the outer one agrees,
//! the data of the inner ones are right.

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
use crate::grammar::judge::Check;
use crate::out::{Out, chain};
use crate::progress::Progress;
use crate::show;
use crate::stop::Stop;

/// Pages that do not agree that are looked into; more wait for the next time.
const PAGES_MAX: usize = 100_000;
/// Pages that are told one by one.
const TOLD: usize = 1000;

/// An array whose members were compared, those of the arrays within it too.
pub(super) struct Scrubbed {
    /// The outermost first, each before its members.
    levels: Vec<Level>,
    /// The volume on it, which is rewritten through it.
    pub(super) device: Arc<dyn BlockDevice>,
    /// Where on the array the volume lies, in order.
    pieces: Vec<(ByteOffset, ByteLen)>,
}

/// One of several arrays within each other.
struct Level {
    nested: Nested,
    /// All of it was compared.
    compared: bool,
    /// What does not agree, by row.
    pages: BTreeMap<u64, Vec<Mismatch>>,
    /// How many there are, those beyond [`PAGES_MAX`] too.
    count: usize,
    /// What does not agree even after it was settled.
    left: Vec<Mismatch>,
}

/// How a scrub ended.
#[derive(Default)]
struct Tally {
    repaired: usize,
    told: usize,
    /// Files whose content may be wrong, with the paths that lead there.
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

    /// Compares all rows.
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
                progress.set(done, total);
                stop.flow().is_continue()
            });
            resynced.map_err(|e| self.failed(&e))?;
            stop.check()?;
        }
        let progress = Progress::new(out, "comparing members", "bytes");
        let mut unchecked = 0;
        let watch = |found: ScrubProgress| {
            progress.set(found.progress.done, found.progress.total);
            unchecked = found.progress.bad;
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
    /// Compares the members of the array that `args` names; `None` where it names none that has
    /// redundancy and is whole. To repair, the journal is replayed before.
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

    /// What of the journal members do not agree on is made right first: nobody judges it
    /// afterwards, for it is clean.
    fn heal_journal(&self, name: &str) -> Result<(), Failure> {
        let sb = read_superblock(&*self.device).map_err(|e| open::open_failure(name, &e.into()))?;
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

    /// The places of the volume that are in doubt.
    pub(super) fn mismatches(&self) -> Mismatches {
        let pages = |index: usize| self.levels[index].pages().map(move |page| (index, page));
        let pages = (0..self.levels.len()).flat_map(pages);
        Mismatches::new(pages.filter_map(|(index, page)| self.places(index, page)).flatten())
    }

    /// The places of the volume that lie in a page of one of the arrays; `None` where a part of it
    /// is elsewhere.
    fn places(&self, index: usize, page: &Mismatch) -> Option<Vec<Range<ByteOffset>>> {
        let contents = self.levels[index].nested.array.mismatch_ranges(page);
        let places = contents.iter().map(|place| self.in_volume(index, place));
        Some(places.collect::<Option<Vec<_>>>()?.concat())
    }

    /// What of the volume lies at a place of one of the arrays; `None` where that is not within it.
    fn in_volume(&self, index: usize, place: &Range<ByteOffset>) -> Option<Vec<Range<ByteOffset>>> {
        target::ranges_in_part(&|i| &self.levels[i].nested, &self.pieces, index, place)
    }

    /// True where the content of a page agrees with the other members of the array around it: its
    /// data are right then, whoever is wrong within.
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

    /// The content of files that lies in a page; `None` where nobody knows what does.
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

    /// Settles what does not agree, after the volume was judged: the outermost array first, for
    /// what is right there tells who is wrong within. True where everything agrees now.
    pub(super) fn settle(
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
                // What agrees by now is what the judge had rewritten.
                tally.repaired += pages.len().saturating_sub(now.len());
                for page in now {
                    let may_follow = args.repair && report.clean();
                    if !self.settle_page(index, &page, may_follow, mismatches, &mut tally, out)? {
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
            let answer = json!({ "scrub": { "pages": count, "repaired": repaired } });
            out.answer(&answer, |_| {
                format!("scrub: {count} pages did not agree, {repaired} repaired\n")
            })?;
        }
        Ok(tally.repaired == count)
    }

    /// Settles one page; true where it agrees now.
    fn settle_page(
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
        tally.told += 1;
        if tally.told <= TOLD {
            self.tell(index, page, repaired, files.as_deref(), tally, out)?;
        }
        Ok(repaired)
    }

    /// Says what is known of a page, in which array where there are several.
    fn tell(
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
        let told: Option<Vec<Value>> =
            files.map(|files| files.iter().map(|file| tally.object(file)).collect());
        let mut answer = json!({
            "sectors": [start, end], "role": page.role, "repaired": repaired, "files": told,
        });
        if let Some(array) = &array {
            answer["array"] = json!(array);
        }
        out.answer(&json!({ "mismatch": answer }), |_| {
            let who = match (files, page.role) {
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
            format!("{array}member sectors {start} to {}: {who}{repaired}\n", end - 1)
        })
    }

    /// The paths of the files whose content is in doubt.
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
        let who = match self.path(file.ino) {
            Some(path) => format!("{path} (inode {})", file.ino.0),
            None => format!("inode {}", file.ino.0),
        };
        format!("{who} at bytes {from} to {}", from + len - 1)
    }
}

/// The same volume, to have its journal replayed.
fn to_change(args: &Check) -> change::Target {
    change::Target {
        name: args.target.name.clone(),
        logdev: args.target.logdev.clone(),
        journal: xfskit::raw::core::JournalOptions::default(),
        cache: args.target.cache,
        stats: false,
    }
}
