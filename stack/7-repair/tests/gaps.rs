//! Intents on both sides of a gap in the journal: what is behind the gap is never replayed.

use std::sync::Arc;

use xfskit_block::{BlockDevice, OverlayDevice};
use xfskit_format::log::item::Intent;
use xfskit_log::Log;
use xfskit_recovery::{replay, replay_before_damage};
use xfskit_repair::{AcceptLoss, Error, Prepared, Repair};
use xfskit_test_support::{kept, verify};
use xfskit_units::ByteOffset;

use crate::common::{Image, check_all};

/// Bytes of a block of the journal.
const BLOCK: usize = 512;
/// Records that may be in flight: damage among the newest is a torn write.
const IN_FLIGHT: usize = 8;
/// Gaps of each kind that are repaired for each volume, at most.
const GAPS: usize = 3;

/// A journal with intents that were not finished.
struct Journal {
    image: Image,
    /// First byte of each record on the volume, and its block in the journal, from the tail on.
    records: Vec<(usize, u32)>,
    unfinished: Vec<Intent>,
}

impl Journal {
    fn kept(name: &str) -> Self {
        let image = Image::kept(name);
        let (dev, start) = (kept::memory(&image.bytes), image.geo.log_daddr().unwrap());
        let log = Log::open(&dev, start, &image.geo).unwrap();
        let first = usize::try_from(start.byte_offset().0).unwrap();
        let place =
            |record: xfskit_log::Record| (first + record.at.0 as usize * BLOCK, record.at.0);
        let records = log.records().map(|record| place(record.unwrap())).collect();
        let overlay = OverlayDevice::new(Arc::new(kept::memory(&image.bytes)) as _);
        let sb = xfskit_core::superblock::read_superblock(&overlay).unwrap();
        let unfinished = replay(&overlay, None, &sb).unwrap().unfinished;
        Self { image, records, unfinished }
    }

    /// Returns the volume with a flipped bit in record `n`.
    fn with_gap(&self, n: usize) -> Vec<u8> {
        let mut bytes = self.image.bytes.clone();
        bytes[self.records[n].0 + BLOCK + 60] ^= 1;
        bytes
    }

    /// Returns the intents before a gap that have no done item before it.
    fn before(bytes: &[u8]) -> Vec<Intent> {
        let base: Arc<dyn BlockDevice> = Arc::new(kept::memory(bytes));
        let sb = xfskit_core::superblock::read_superblock(&*base).unwrap();
        let view = || Ok(Arc::new(OverlayDevice::new(Arc::clone(&base))));
        let (_, done) = replay_before_damage(&sb, view).unwrap();
        assert!(done.damage.is_some());
        done.replay.map_or(Vec::new(), |replay| replay.unfinished)
    }
}

/// Repairs a volume with a gap in record `n` of its journal: refused without `zero_log`, and clean
/// with it.
fn repaired(journal: &Journal, n: usize, what: &str) -> Prepared {
    let bytes = journal.with_gap(n);
    let dev = Arc::new(kept::memory(&bytes));
    let repair = Repair::new().accept_loss(AcceptLoss::ALL);
    let refused = repair.clone().prepare(Arc::clone(&dev) as _).unwrap();
    assert!(refused.needs_zero_log(), "{what}");
    assert!(matches!(refused.commit(&*dev, None), Err(Error::ZeroLog)), "{what}");
    let mut after = vec![0; bytes.len()];
    dev.read_at(ByteOffset(0), &mut after).unwrap();
    assert!(after == bytes, "{what}: written");
    let prepared = repair.zero_log(true).prepare(Arc::clone(&dev) as _).unwrap();
    assert!(prepared.is_clean(), "{what}: {:#?}\n{:#?}", prepared.left(), prepared.plan());
    let lost = prepared.plan().journal.clone().expect(what);
    assert!(lost.lost_transactions > 0, "{what}: {lost:?}");
    assert_eq!(lost.block, Some(journal.records[n].1), "{what}: the replay ends at the gap");
    assert!(!prepared.plan().step("journal").unwrap().lost.is_empty(), "{what}");
    prepared.commit(&*dev, None).unwrap();
    assert!(check_all(&*dev).0.clean(), "{what}");
    verify::device(&*dev).unwrap_or_else(|why| panic!("{what}: {why}"));
    prepared
}

fn tells(prepared: &Prepared, words: &str) -> bool {
    let step = prepared.plan().step("journal").unwrap();
    step.evidence.iter().any(|evidence| evidence.contains(words))
}

#[test]
fn intents_behind_a_gap_are_named_and_not_replayed() {
    let (mut ended_behind, mut begun_behind) = (0, 0);
    for name in ["intents-1k", "intents-exchange", "intents-parent"] {
        let journal = Journal::kept(name);
        let (mut ended, mut begun) = (0, 0);
        for n in 1..journal.records.len().saturating_sub(IN_FLIGHT) {
            let before = Journal::before(&journal.with_gap(n));
            let is_in = |all: &[Intent], one: &Intent| {
                all.iter().any(|other| (other.family, other.id) == (one.family, one.id))
            };
            let is_ended = before.iter().any(|intent| !is_in(&journal.unfinished, intent));
            let is_begun = journal.unfinished.iter().any(|intent| !is_in(&before, intent));
            let take_ended = is_ended && ended < GAPS;
            let take_begun = is_begun && begun < GAPS;
            if !take_ended && !take_begun {
                continue;
            }
            let what = format!("{name}, record {n}");
            let prepared = repaired(&journal, n, &what);
            // The done item may be in the damaged record itself.
            ended += usize::from(is_ended && tells(&prepared, "have done items behind it"));
            if is_begun {
                let told =
                    tells(&prepared, "unfinished intents behind the damage are not replayed");
                assert!(told, "{what}: {}", prepared.plan().step("journal").unwrap());
                begun += 1;
            }
        }
        println!("{name}: {ended} gaps before a done item, {begun} before an intent");
        (ended_behind, begun_behind) = (ended_behind + ended, begun_behind + begun);
    }
    assert!(ended_behind > 0, "no intent is finished behind a gap");
    assert!(begun_behind > 0, "no intent is begun behind a gap");
}
