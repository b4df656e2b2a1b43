//! Every way of the oracle to leave a dirty journal.

use xfskit_test_recovery::compare;
use xfskit_test_support::{Need, Scratch, dirty, long, needs};

/// The cases of every run.
const QUICK: &[&str] = &[
    "corners-flushed",
    "corners-1k",
    "corners-external",
    "corners-large-records",
    "corners-small-records",
    "nothing-but-a-file",
    "created-and-removed",
    "synced-then-changed",
    "open-but-removed",
    "wrapped",
    "shrunk-and-labelled",
];

#[test]
fn replay_gives_the_same_tree_as_recovery_by_the_kernel() {
    if !needs(&[Need::Mount, Need::Xfsprogs]) {
        return;
    }
    let only = std::env::var("XFSKIT_CRASH").ok();
    for crash in dirty::CRASHES {
        let wanted = match &only {
            Some(name) => crash.name == name,
            None => long() || QUICK.contains(&crash.name),
        };
        if !wanted {
            continue;
        }
        let scratch = Scratch::new(crash.name);
        let Some((image, _)) = crash.leave_recoverable(&scratch) else { continue };
        let start = std::time::Instant::now();
        let replay = compare(crash.name, &image, &scratch);
        eprintln!(
            "{}: head {}, {} records, {} transactions, {:?}, {} unfinished, {} unlinked, {:?}",
            crash.name,
            replay.head,
            replay.records,
            replay.transactions,
            replay.items,
            replay.unfinished.len(),
            replay.unlinked_lists,
            start.elapsed()
        );
    }
}
