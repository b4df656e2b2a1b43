//! The header of one of the newest records is lost: power failed while it was written, or the disk
//! gave it up. Linux and xfskit find the same end of the journal, and recover the same tree, but
//! for one case: where other sectors of this lap take the place of the newest header, Linux gives
//! up the record before it too, which is whole. xfskit keeps that record, as Linux does if zeroes
//! take the header's place.
//!
//! A plain run takes two journals; a long one all that are listed, with every record in flight.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::SeekFrom;

use xfskit_block::{BlockDevice, OpenMode};
use xfskit_core::superblock::read_superblock;
use xfskit_log::Log;
use xfskit_test_recovery::{open, recover, shown};
use xfskit_test_support::manifest::Digest;
use xfskit_test_support::{Image, Manifest, Mount, Need, Scratch, dirty, long, needs};
use xfskit_units::ByteOffset;

/// Journals that Linux left: their names in [`dirty::CRASHES`].
const JOURNALS: [&str; 8] = [
    "corners-small-records",
    "wrapped",
    "corners-flushed",
    "corners-1k",
    "corners-large-records",
    "corners-parent",
    "created-and-removed",
    "synced-then-changed",
];
/// Records in flight.
const NEWEST: usize = 8;

/// A way to lose a header: its name, and what becomes of the sector, written in this cycle.
type Loss = (&'static str, fn(&mut [u8], u32));

const LOSSES: [Loss; 6] = [
    ("zeroes", |sector, _| sector.fill(0)),
    ("the sector of the lap before", |sector, cycle| {
        sector.fill(0xa5);
        sector[..4].copy_from_slice(&cycle.wrapping_sub(1).to_be_bytes());
    }),
    ("another sector of this lap", |sector, cycle| {
        sector.fill(0x5a);
        sector[..4].copy_from_slice(&cycle.to_be_bytes());
    }),
    ("its second half", |sector, _| sector[256..].fill(0x77)),
    ("its checksum", |sector, _| sector[32] ^= 0x10),
    ("its length", |sector, _| sector[14] ^= 0x02),
];

/// How a damaged journal ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    SameTree,
    BothRefuse,
    /// Linux refuses what xfskit recovers.
    LinuxRefuses,
    /// Linux also gives up the record before the lost one.
    LinuxRecoversLess,
}

/// A header of the journal: its first byte on the volume, and its cycle.
struct Header {
    at: ByteOffset,
    cycle: u32,
}

/// Returns the bytes of the journal on the volume, and the headers of its newest records, the
/// newest first.
fn newest(path: &Path) -> (Range<u64>, Vec<Header>) {
    let dev = open(path, OpenMode::ReadOnly);
    let geo = read_superblock(&dev).expect("a superblock").geometry();
    let start = geo.log_daddr().expect("an internal journal");
    let log = Log::open(&dev, start, &geo).expect("a good journal");
    let records: Vec<_> = log.records().map(|record| record.expect("a good record")).collect();
    let header = |record: &xfskit_log::Record| Header {
        at: start.byte_offset().checked_add(u64::from(record.at.0) * 512).expect("on the volume"),
        cycle: record.lsn().cycle(),
    };
    let first = start.byte_offset().0;
    let journal = first..first + u64::from(geo.log_bbs()) * 512;
    (journal, records.iter().rev().take(NEWEST).map(header).collect())
}

/// Copies `image` twice, with a header damaged: for Linux and for xfskit. The image itself is as it
/// was when this returns.
fn damaged_pair<'s>(image: &Image<'s>, header: &Header, (_, lose): Loss) -> [Image<'s>; 2] {
    let dev = open(image.path(), OpenMode::ReadWrite);
    let mut sector = [0; 512];
    dev.read_at(header.at, &mut sector).expect("readable");
    let sound = sector;
    lose(&mut sector, header.cycle);
    dev.write_at(header.at, &sector).expect("written");
    let pair = ["theirs.img", "ours.img"].map(|name| image.copy(name));
    dev.write_at(header.at, &sound).expect("written");
    pair
}

/// The trees of the images that one lost header led to, by the images' content. Most losses end the
/// journal at the same record, and then both recoveries write the same bytes each time.
struct Trees<'s> {
    scratch: &'s Scratch,
    /// The journal, which no tree depends on: its bytes on the volume.
    journal: Range<u64>,
    known: HashMap<u64, Manifest>,
}

impl Trees<'_> {
    /// Reads the tree of `image`, or finds that of an image with the same content. Block counts are
    /// left out: they include btree blocks, and each implementation splits those in its own way.
    fn read(&mut self, image: &Image<'_>) -> u64 {
        let content = content(image, &self.journal);
        let read = || shown(image, self.scratch).without_blocks();
        self.known.entry(content).or_insert_with(read);
        content
    }

    /// Recovers `image`, whose `header` is lost, with Linux and with xfskit.
    fn compare(
        &mut self,
        name: &str,
        image: &Image<'_>,
        header: &Header,
        loss: Loss,
    ) -> Result<Ending, String> {
        let [theirs, ours] = damaged_pair(image, header, loss);
        let linux = Mount::recover(&theirs, self.scratch);
        match (linux, recover(&ours)) {
            (Err(_), Err(_)) => Ok(Ending::BothRefuse),
            (Err(_), Ok(_)) => Ok(Ending::LinuxRefuses),
            (Ok(()), Err(why)) => Err(format!("{name}: refused, and Linux recovers it: {why}")),
            (Ok(()), Ok(_)) => {
                let (expected, found) = (self.read(&theirs), self.read(&ours));
                let differences = self.known[&expected].differences(&self.known[&found], 10);
                if differences.is_empty() {
                    return Ok(Ending::SameTree);
                }
                drop([theirs, ours]);
                let sought = self.read_without_record(image, header)?;
                if self.known[&sought].differences(&self.known[&found], 10).is_empty() {
                    return Ok(Ending::LinuxRecoversLess);
                }
                Err(format!("{name}:\n{}", differences.join("\n")))
            }
        }
    }

    /// Returns the tree that Linux recovers where zeroes take the place of `header`.
    fn read_without_record(&mut self, image: &Image<'_>, header: &Header) -> Result<u64, String> {
        let [theirs, _ours] = damaged_pair(image, header, LOSSES[0]);
        Mount::recover(&theirs, self.scratch).map_err(|why| format!("zeroes: {why:?}"))?;
        Ok(self.read(&theirs))
    }
}

/// Returns a digest of all pages of `image` that are not zero and lie outside of `journal`.
fn content(image: &Image<'_>, journal: &Range<u64>) -> u64 {
    const PAGE: usize = 4096;
    let file = File::open(image.path()).expect("the image");
    let (mut digest, mut page, mut at) = (Digest::default(), [0; PAGE], 0);
    while let Ok(data) = rustix::fs::seek(&file, SeekFrom::Data(at)) {
        let hole = rustix::fs::seek(&file, SeekFrom::Hole(data)).expect("an end");
        for start in (data / PAGE as u64 * PAGE as u64..hole).step_by(PAGE) {
            if journal.contains(&start) {
                continue;
            }
            page.fill(0);
            let len = file.read_at(&mut page, start).expect("readable");
            if page[..len] != [0; PAGE][..len] {
                digest.update(&start.to_le_bytes());
                digest.update(&page);
            }
        }
        at = hole;
    }
    digest.finish()
}

#[test]
fn a_journal_whose_newest_headers_are_lost_ends_where_linux_ends_it() {
    if !needs(&[Need::Mount, Need::Xfsprogs]) {
        return;
    }
    let (mut endings, mut failures) = (BTreeMap::new(), Vec::new());
    for (n, name) in JOURNALS.iter().enumerate().filter(|(n, _)| long() || *n < 2) {
        let crash = dirty::CRASHES.iter().find(|crash| crash.name == *name).expect("listed");
        let scratch = Scratch::new(name);
        let Some((image, _)) = crash.leave_recoverable(&scratch) else { continue };
        let (journal, headers) = newest(image.path());
        for (i, header) in headers.iter().enumerate() {
            let journal = journal.clone();
            let mut trees = Trees { scratch: &scratch, journal, known: HashMap::new() };
            for (j, loss) in LOSSES.iter().enumerate() {
                if !long() && (i + j + n) % 6 > 0 {
                    continue;
                }
                let name = format!("{name}: record {i} from the newest loses {}", loss.0);
                match trees.compare(&name, &image, header, *loss) {
                    Ok(ending) => *endings.entry((loss.0, ending)).or_insert(0) += 1,
                    Err(why) => failures.push(why),
                }
            }
        }
    }
    let cases: usize = endings.values().sum();
    eprintln!("{cases} journals: {endings:#?}");
    assert!(failures.is_empty(), "{} of them:\n{}", failures.len(), failures.join("\n"));
    assert!(cases >= if long() { 100 } else { 8 }, "{cases}");
}
