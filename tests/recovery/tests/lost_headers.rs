//! The header of one of the newest records is lost: power failed while it was written, or the disk
//! gave it up. Linux and xfskit find the same end of the journal, and recover the same tree.
//!
//! A plain run takes two journals; a long one all that are listed, with every record in flight.

use std::collections::BTreeMap;
use std::path::Path;

use xfskit_block::{BlockDevice, OpenMode};
use xfskit_core::superblock::read_superblock;
use xfskit_log::Log;
use xfskit_test_recovery::{open, recover, shown};
use xfskit_test_support::{Image, Mount, Need, Scratch, dirty, long, needs};
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
}

/// A header of the journal: its first byte on the volume, and its cycle.
struct Header {
    at: ByteOffset,
    cycle: u32,
}

/// Returns the headers of the newest records, the newest first.
fn newest(path: &Path) -> Vec<Header> {
    let dev = open(path, OpenMode::ReadOnly);
    let geo = read_superblock(&dev).expect("a superblock").geometry();
    let start = geo.log_daddr().expect("an internal journal");
    let log = Log::open(&dev, start, &geo).expect("a good journal");
    let records: Vec<_> = log.records().map(|record| record.expect("a good record")).collect();
    let header = |record: &xfskit_log::Record| Header {
        at: start.byte_offset().checked_add(u64::from(record.at.0) * 512).expect("on the volume"),
        cycle: record.lsn().cycle(),
    };
    records.iter().rev().take(NEWEST).map(header).collect()
}

/// Damages a header of a copy of `image`.
fn damaged<'s>(image: &Image<'s>, header: &Header, (_, lose): Loss) -> Image<'s> {
    let copy = image.copy("damaged.img");
    let dev = open(copy.path(), OpenMode::ReadWrite);
    let mut sector = [0; 512];
    dev.read_at(header.at, &mut sector).expect("readable");
    lose(&mut sector, header.cycle);
    dev.write_at(header.at, &sector).expect("written");
    copy
}

/// Recovers a damaged image with Linux and with xfskit.
fn compare(name: &str, image: &Image<'_>, scratch: &Scratch) -> Result<Ending, String> {
    let theirs = image.copy("theirs.img");
    let linux = Mount::recover(&theirs, scratch);
    let ours = image.copy("ours.img");
    match (linux, recover(&ours)) {
        (Err(_), Err(_)) => Ok(Ending::BothRefuse),
        (Err(_), Ok(_)) => Ok(Ending::LinuxRefuses),
        (Ok(()), Err(why)) => Err(format!("{name}: refused, and Linux recovers it: {why}")),
        (Ok(()), Ok(_)) => {
            let expected = shown(&theirs, scratch).without_blocks();
            let found = shown(&ours, scratch).without_blocks();
            let differences = expected.differences(&found, 10);
            match differences.is_empty() {
                true => Ok(Ending::SameTree),
                false => Err(format!("{name}:\n{}", differences.join("\n"))),
            }
        }
    }
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
        for (i, header) in newest(image.path()).iter().enumerate() {
            for (j, loss) in LOSSES.iter().enumerate() {
                if !long() && (i + j + n) % 6 > 0 {
                    continue;
                }
                let name = format!("{name}: record {i} from the newest loses {}", loss.0);
                let damaged = damaged(&image, header, *loss);
                match compare(&name, &damaged, &scratch) {
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
