//! Large parts that are lost: the headers of a group, a group, the first MiB, the end of the
//! device.

use std::ops::Range;
use std::sync::Arc;

use xfskit_core::{OpenOptions, Volume};
use xfskit_repair::Error;
use xfskit_test_support::{Random, kept, volumes};
use xfskit_units::AgNumber;
use xfskit_vfs::{Clock, Fs, NewNode};

use crate::common::Image;
use crate::survivors::{Before, Outcome, Tally, content, repair, with};

/// Kept images: with a rmapbt and shared blocks, without a rmapbt, with small blocks.
const IMAGES: [&str; 3] = ["v5", "v5-plain", "v5-1k"];
/// Bytes of a mebibyte.
const MIB: usize = 1 << 20;
/// Bytes of the smallest volume that mkfs makes.
const SIZE: u64 = 300 << 20;

/// Returns the bytes of a group.
fn group(before: &Before, agno: u32) -> Range<usize> {
    let geo = &before.image.geo;
    let start = usize::try_from(geo.ag_header_daddr(AgNumber(agno), 0).0).unwrap();
    let blocks = geo.ag_length(AgNumber(agno)) as usize;
    start * 512..start * 512 + (blocks << geo.blocklog)
}

/// Loses a range of each of the first groups, as zeroes and as garbage.
fn lose(what: &str, groups: u32, range: impl Fn(&Before, u32) -> Range<usize>) -> Tally {
    let (mut random, mut tally) = (Random::of_test(5), Tally::default());
    for name in IMAGES {
        let before = Before::kept(name);
        for agno in 0..before.image.geo.agcount.min(groups) {
            for is_garbage in [false, true] {
                let damaged = with(&before.image.bytes, |all| {
                    let lost = &mut all[range(&before, agno)];
                    if is_garbage { random.fill(lost) } else { lost.fill(0) }
                });
                let kind = if is_garbage { "garbage" } else { "zeroes" };
                let case = format!("{what} of {name}, group {agno}, {kind}");
                tally.add(&case, before.outcome(&damaged, &case, true));
            }
        }
    }
    tally.print(what);
    tally
}

#[test]
fn a_volume_that_lost_the_headers_of_a_group_is_repaired() {
    let tally = lose("headers", 2, |before, agno| {
        let start = group(before, agno).start;
        start..start + before.image.geo.blocksize().max(4 * before.image.geo.sectsize())
    });
    assert!(tally.refused.is_empty(), "{} are refused", tally.refused.len());
}

#[test]
fn a_volume_that_lost_a_group_is_repaired() {
    let tally = lose("group", u32::MAX, group);
    assert!(tally.cases() >= 20);
    assert!(tally.refused.is_empty(), "{} are refused", tally.refused.len());
}

/// Returns a volume with a file that is longer than a group.
fn with_long_file() -> Before {
    let dev = volumes::make(SIZE, &[]);
    let options = OpenOptions { write: true, ..OpenOptions::default() };
    let fs = Fs::new(Volume::open(Arc::clone(&dev) as _, &options).unwrap(), Clock::system());
    let root = fs.root().unwrap().ino();
    let file = fs.make(root, b"long", &NewNode::file(0o644)).unwrap();
    let mut piece = vec![0; MIB];
    Random::of_test(7).fill(&mut piece);
    for n in 0..SIZE / 3 / MIB as u64 {
        fs.write(file, n * MIB as u64, &piece).unwrap();
    }
    fs.close().unwrap();
    Before::of(Image::of(content(&*dev)))
}

/// Returns the content that is lost of a volume in which a range is zero. A group may also have the
/// journal.
fn lost_content(before: &Before, lost: Range<usize>) -> Vec<String> {
    let damaged = with(&before.image.bytes, |all| all[lost].fill(0));
    let prepared = repair().prepare(Arc::new(kept::memory(&damaged)) as _).unwrap();
    assert!(prepared.is_clean(), "{:#?}", prepared.left());
    let lost = prepared.plan().losses().filter(|lost| lost.starts_with("content of"));
    lost.map(str::to_owned).collect()
}

#[test]
fn content_that_is_lost_with_a_group_is_among_the_losses() {
    let before = with_long_file();
    let mut groups = 0;
    for agno in 1..before.image.geo.agcount {
        let whole = group(&before, agno);
        let headers = whole.start..whole.start + 4 * before.image.geo.sectsize();
        let lost = lost_content(&before, whole);
        let files = before.files_in(AgNumber(agno));
        assert_eq!(lost.len(), files.len(), "group {agno}: {lost:#?}");
        for (ino, lost) in files.iter().zip(&lost) {
            let named = format!("content of inode {ino} (/long): ");
            assert!(lost.starts_with(&named), "group {agno}: {lost}");
            // Of the headers alone nothing is lost.
            assert_eq!(lost_content(&before, headers.clone()), [""; 0], "group {agno}");
            groups += 1;
        }
    }
    assert!(groups > 0, "the file has content in other groups");
}

#[test]
fn a_volume_that_lost_its_first_mebibyte_is_repaired() {
    let tally = lose("first MiB", 1, |_, _| 0..MIB);
    assert!(tally.refused.is_empty(), "{} are refused", tally.refused.len());
}

/// A device without its end: the superblock is not made smaller. With zeroes in place of the end
/// the rest is repaired.
#[test]
fn a_truncated_device_is_refused_by_name_and_repaired_once_it_is_long_enough() {
    for name in IMAGES {
        let before = Before::kept(name);
        let whole = before.image.bytes.len();
        let last = group(&before, before.image.geo.agcount - 1).start;
        for end in [whole - 4096, whole - 3 * MIB, last + 4096, last, last - 5 * MIB, whole / 4] {
            let case = format!("{name} truncated to {end} of {whole}");
            let short = before.image.bytes[..end].to_vec();
            let dev = Arc::new(kept::memory(&short));
            let error = repair().prepare(Arc::clone(&dev) as _).expect_err(&case);
            assert!(matches!(error, Error::Truncated { .. }), "{case}: {error}");
            assert!(error.hint().is_some_and(|hint| hint.contains("truncate -s")), "{error}");
            assert!(content(&*dev) == short, "{case}: written");
            let padded = with(&short, |all| all.resize(whole, 0));
            let outcome = before.outcome(&padded, &case, true);
            assert!(!matches!(outcome, Outcome::Refused(_)), "{case}: {outcome:?}");
        }
    }
}
