//! `xfskit check --scrub` of an array: do its members agree, and if not, who is wrong?
//!
//! 1. All rows are compared, as `xfskit md scrub` does. What does not agree is remembered.
//! 2. The volume is judged. A block that fails is had from the other members and, to repair, rewritten on
//!    the one that lied.
//! 3. What does not agree even then is wrong where no checksum is. On RAID6, P and Q tell whose. Elsewhere: in a
//!    page where no file has content everything that counts was judged to be sound, so parity (or the
//!    other copy) is wrong, and follows. A page with content is named, with the file and where in it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};
use xfskit::block::{BlockDevice, OpenMode};
use xfskit::check::{InFile, Report, Suspects};
use xfskit::md::array::Array;
use xfskit::md::array::scrub::Mismatch;
use xfskit::md::array::tend::{Ended, Found};
use xfskit::target::{self, ArrayName, Base, Target};
use xfskit::units::{ByteLen, ByteOffset, Ino};

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

/// An array whose members were compared.
pub(super) struct Scrubbed {
    name: ArrayName,
    array: Arc<Array>,
    /// The volume on it, which is rewritten through it.
    pub(super) device: Arc<dyn BlockDevice>,
    /// Where on the array the volume lies, in order.
    pieces: Vec<(ByteOffset, ByteLen)>,
    /// What does not agree, by row.
    pages: BTreeMap<u64, Vec<Mismatch>>,
    /// How many there are, those beyond [`PAGES_MAX`] too.
    count: usize,
}

/// How a scrub ended.
#[derive(Default)]
struct Tally {
    mended: usize,
    told: usize,
    /// Files whose content may be wrong, with the paths that lead there.
    paths: BTreeMap<u64, String>,
}

impl Scrubbed {
    /// Compares the members of the array that `args` names; `None` where it names none that has redundancy and
    /// is whole. To repair, the journal is replayed before.
    pub(super) fn of(args: &Check, out: &Out) -> Result<Option<Self>, Failure> {
        let name = &*args.target.name;
        let target = Target::parse(name).map_err(|e| target_failure(name, &e))?;
        if args.repair {
            let volume = open::volume_for_writing(&to_change(args), out)?;
            volume.close().map_err(|e| open::not_opened(name, &e))?;
        }
        let Base::Array(array_name) = &target.base else { return Ok(None) };
        let mode = if args.repair { OpenMode::ReadWrite } else { OpenMode::ReadOnly };
        let array = target::open_array(array_name, mode).map_err(|e| target_failure(name, &e))?;
        array.read_first_copies();
        let array = Arc::new(array);
        let disk = Arc::clone(&array) as Arc<dyn BlockDevice>;
        let pieces = target::pieces(&target, &disk).map_err(|e| target_failure(name, &e))?;
        let device = target::part_of(&target, disk).map_err(|e| target_failure(name, &e))?;
        let mut scrubbed = Self {
            name: (**array_name).clone(),
            array,
            device,
            pieces,
            pages: BTreeMap::new(),
            count: 0,
        };
        if scrubbed.array.scrub_rows() == 0 {
            return Ok(args.repair.then_some(scrubbed));
        }
        if scrubbed.array.can_be_scrubbed() {
            scrubbed.compare(args, out)?;
        } else {
            out.note("a member is missing or not complete: nothing but checksums is compared");
        }
        Ok(Some(scrubbed))
    }

    fn failed(&self, error: &xfskit::block::Error) -> Failure {
        device_hint(Failure::cannot(format!("{}: {}", self.name, chain(error))), error)
    }

    /// Compares all rows.
    fn compare(&mut self, args: &Check, out: &Out) -> Result<(), Failure> {
        let array = Arc::clone(&self.array);
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
        let watch = |found: Found| {
            progress.set(found.step.done, found.step.total);
            for mismatch in found.mismatches {
                self.count += 1;
                if self.count <= PAGES_MAX {
                    self.pages.entry(mismatch.row).or_default().push(mismatch);
                }
            }
            stop.flow()
        };
        let ended = array.scrub(0..array.scrub_rows(), false, watch);
        match ended.map_err(|e| self.failed(&e))? {
            Ended::Finished => Ok(()),
            Ended::Stopped => stop.check(),
        }
    }

    /// The places of the volume that are in doubt.
    pub(super) fn suspects(&self) -> Suspects {
        let pages = self.pages.values().flatten();
        let places = pages.flat_map(|page| self.array.contents(page));
        Suspects::new(places.filter_map(|place| self.in_volume(&place)))
    }

    /// A place of the array as one of the volume; `None` where it is not within it.
    fn in_volume(&self, place: &Range<ByteOffset>) -> Option<Range<ByteOffset>> {
        let mut start = 0;
        for (below, len) in &self.pieces {
            let end = below.0.saturating_add(len.0);
            if below.0 <= place.start.0 && place.end.0 <= end {
                let at = |byte: ByteOffset| ByteOffset(byte.0 - below.0 + start);
                return Some(at(place.start)..at(place.end));
            }
            start += len.0;
        }
        None
    }

    /// The content of files that lies in a page; `None` where nobody knows what does.
    fn files(&self, page: &Mismatch, suspects: &Suspects) -> Option<Vec<InFile>> {
        let mut files = Vec::new();
        for place in self.array.contents(page) {
            files.extend(suspects.files(&self.in_volume(&place)?)?);
        }
        Some(files)
    }

    /// Settles what does not agree, after the volume was judged. True where everything does now.
    pub(super) fn settle(
        self,
        args: &Check,
        report: &Report,
        suspects: &Suspects,
        out: &Out,
    ) -> Result<bool, Failure> {
        let mut tally = Tally { paths: self.paths(suspects), ..Tally::default() };
        for (row, pages) in &self.pages {
            let now = if args.repair {
                self.array.compare_row(*row, true).map_err(|e| self.failed(&e))?.mismatches
            } else {
                pages.clone()
            };
            // What agrees by now is what the judge had rewritten.
            tally.mended += pages.len().saturating_sub(now.len());
            for page in &now {
                self.settle_page(page, args.repair && report.clean(), suspects, &mut tally, out)?;
            }
        }
        self.array.close().map_err(|e| self.failed(&e))?;
        if self.count > 0 {
            let (pages, mended) = (self.count, tally.mended);
            let answer = json!({ "scrub": { "pages": pages, "mended": mended } });
            out.answer(&answer, |_| {
                format!("scrub: {pages} pages did not agree, {mended} mended\n")
            })?;
        }
        Ok(tally.mended == self.count)
    }

    fn settle_page(
        &self,
        page: &Mismatch,
        may_follow: bool,
        suspects: &Suspects,
        tally: &mut Tally,
        out: &Out,
    ) -> Result<(), Failure> {
        let files = self.files(page, suspects);
        let follows = !page.mended && may_follow && files.as_ref().is_some_and(Vec::is_empty);
        if follows {
            self.array.agree(page).map_err(|e| self.failed(&e))?;
        }
        let mended = page.mended || follows;
        tally.mended += usize::from(mended);
        tally.told += 1;
        if tally.told > TOLD {
            return Ok(());
        }
        let (start, end) = (page.sectors.start.0, page.sectors.end.0);
        let told: Option<Vec<Value>> =
            files.as_ref().map(|files| files.iter().map(|file| tally.object(file)).collect());
        let answer = json!({ "mismatch": {
            "sectors": [start, end], "role": page.role, "mended": mended, "files": told,
        }});
        out.answer(&answer, |_| {
            let who = match (&files, page.role) {
                (_, Some(role)) => format!("role {role} is wrong"),
                (None, None) => "nobody knows who is wrong".to_owned(),
                (Some(files), None) if files.is_empty() => "no file has content there".to_owned(),
                (Some(files), None) => {
                    let names: Vec<String> = files.iter().map(|file| tally.name(file)).collect();
                    format!("either parity or another copy is wrong, or {}", names.join(", or "))
                }
            };
            let mended = if mended { ", mended" } else { "" };
            format!("member sectors {start} to {}: {who}{mended}\n", end - 1)
        })
    }

    /// The paths of the files whose content is in doubt.
    fn paths(&self, suspects: &Suspects) -> BTreeMap<u64, String> {
        let pages = self.pages.values().flatten();
        let files = pages.filter_map(|page| self.files(page, suspects)).flatten();
        let mut wanted: BTreeMap<u64, Option<String>> =
            files.map(|file| (file.ino.0, None)).collect();
        if !wanted.is_empty()
            && let Ok(volume) =
                xfskit::OpenOptions::default().open_device(Arc::clone(&self.device), None)
        {
            find_paths(&volume, &mut wanted);
        }
        wanted.into_iter().filter_map(|(ino, path)| Some((ino, path?))).collect()
    }
}

/// Walks the tree until a path is known of each of these files.
fn find_paths(volume: &xfskit::Volume, wanted: &mut BTreeMap<u64, Option<String>>) {
    let Ok(walk) = volume.walk("/") else { return };
    let mut left = wanted.len();
    for entry in walk.flatten() {
        if let Some(path @ None) = wanted.get_mut(&entry.inode.ino().0) {
            *path = Some(show::name(&entry.path));
            left -= 1;
            if left == 0 {
                return;
            }
        }
    }
}

impl Tally {
    fn path(&self, ino: Ino) -> Option<&str> {
        self.paths.get(&ino.0).map(String::as_str)
    }

    fn object(&self, file: &InFile) -> Value {
        json!({
            "ino": file.ino.0,
            "path": self.path(file.ino),
            "offset": file.offset.0,
            "length": file.bytes.end.0 - file.bytes.start.0,
        })
    }

    fn name(&self, file: &InFile) -> String {
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
        journal: xfskit::core::JournalOptions::default(),
        cache: args.target.cache,
        stats: false,
    }
}
