//! Large parts that are lost: the headers of a group, a group, the first MiB, the end of the
//! device.

use std::ops::Range;
use std::sync::Arc;

use xfskit_repair::Error;
use xfskit_test_support::{Random, kept};
use xfskit_units::AgNumber;

use crate::survivors::{Before, Outcome, Tally, content, repair, with};

/// Kept images: with a rmapbt and shared blocks, without a rmapbt, with small blocks.
const IMAGES: [&str; 3] = ["v5", "v5-plain", "v5-1k"];
/// Bytes of a mebibyte.
const MIB: usize = 1 << 20;

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
