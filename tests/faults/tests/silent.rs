//! The k-th write of the workload does not arrive as it was sent, but the device reports success.
//! The write is torn, goes to another place, or is lost, so that the old content remains. A later
//! read gives a state that existed, or an error, and nothing crashes.
//!
//! A stale block is valid in itself, and XFS has no checksums of content, so neither can be
//! detected. The test therefore does not compare the joint state of several blocks, like the names
//! in a directory, but it does compare each inode.
//!
//! It compares content if `check` has no findings in the end and the write was one of metadata in
//! place: then no file may have content that it never had, except files that a misdirected write
//! hit. A journal that ends too early gives an older volume, whose blocks hold later content. If
//! the write was one of content, only that content may be wrong.

use std::collections::HashSet;
use std::sync::Arc;

use xfskit_block::{BlockDevice, Event, FaultPlan, SilentFault};
use xfskit_check::{Options, check};
use xfskit_core::superblock::read_superblock;
use xfskit_core::{OpenOptions, Volume};
use xfskit_test_faults::tree::{Tree, readable, tree};
use xfskit_test_faults::verify::{Testbed, count_accesses, expected_trees, verify};
use xfskit_test_faults::work::{STEPS, dirty, open};
use xfskit_test_support::long;
use xfskit_vfs::{Clock, Fs};

/// Number of runs with each outcome.
#[derive(Debug, Default)]
struct Outcomes {
    /// Runs with a sound volume.
    sound: usize,
    /// Sound volumes in which files have content that they never had.
    wrong_content: usize,
    /// Runs in which `check` reports a finding.
    found: usize,
    /// Runs in which the volume cannot be opened for writing.
    refused: usize,
}

/// All states that files and symlinks ever had.
struct History {
    /// Digests of attributes.
    attrs: HashSet<u64>,
    content: HashSet<u64>,
}

impl History {
    fn of(trees: &[Tree]) -> Self {
        let files = || trees.iter().flat_map(Tree::values).filter(|node| !node.directory);
        Self {
            attrs: files().map(|node| node.attrs).collect(),
            content: files().map(|node| node.content).collect(),
        }
    }
}

/// The kind of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Content,
    Journal,
    /// Metadata in place: this many blocks.
    InPlace(usize),
}

/// Reads everything, and returns the files with content that no file ever had.
fn read_all(fs: &Fs, history: &History, what: &str) -> Vec<String> {
    let (mut errors, mut wrong_content) = (Vec::new(), Vec::new());
    for (path, node) in readable(fs, &mut errors).into_iter().filter(|(_, node)| !node.directory) {
        let path = String::from_utf8_lossy(&path);
        assert!(history.attrs.contains(&node.attrs), "{what}: {path} never had this state");
        if !history.content.contains(&node.content) {
            wrong_content.push(path.into_owned());
        }
    }
    wrong_content
}

fn run(
    base: &Arc<dyn BlockDevice>,
    plan: FaultPlan,
    close: bool,
    seen: &History,
    wrong_content: usize,
    outcomes: &mut Outcomes,
) {
    let testbed = Testbed::new(base, plan);
    if let Ok(fs) = open(testbed.faulty.clone()) {
        // The run stops at the first error.
        let done = STEPS.iter().try_for_each(|step| (step.run)(&fs));
        read_all(&fs, seen, "while it was open");
        if close && done.is_ok() {
            drop(fs.close());
        }
    }
    if let Ok(volume) = Volume::open(testbed.dev.clone(), &OpenOptions::default()) {
        read_all(&Fs::new(volume, Clock::system()), seen, "read");
    }
    match open(testbed.dev.clone()) {
        Err(_) => outcomes.refused += 1,
        Ok(fs) => {
            let wrong = read_all(&fs, seen, "opened again");
            drop(fs.close());
            let mut findings = 0;
            let report = check(&*testbed.dev, None, &Options::default(), &mut |_| findings += 1);
            let sound = findings == 0 && report.is_ok_and(|report| report.clean());
            *if sound { &mut outcomes.sound } else { &mut outcomes.found } += 1;
            if sound {
                assert!(wrong.len() <= wrong_content, "content that never existed: {wrong:?}");
                outcomes.wrong_content += usize::from(!wrong.is_empty());
            }
        }
    }
}

fn stress_case(what: SilentFault) {
    let base: Arc<dyn BlockDevice> = dirty();
    let seen = History::of(&expected_trees(&base));
    let kinds = write_kinds(&whole_run(&base, FaultPlan::default()).0);
    let (_, count) = count_accesses(&base);
    let every = if long() { 1 } else { 4 };
    let mut outcomes = Outcomes::default();
    for k in (1..=count).step_by(every) {
        let kind = kinds.get(usize::try_from(k - 1).expect("few")).copied();
        let wrong_content = match (kind, what) {
            // A misdirected write may hit file content.
            (Some(Kind::InPlace(blocks)), SilentFault::Misdirected) => MAX_SHARERS * blocks,
            (Some(Kind::InPlace(_)), _) => 0,
            _ => usize::MAX,
        };
        for close in [false, true] {
            let plan = FaultPlan { seed: k, silent_nth: Some((k, what)), ..FaultPlan::default() };
            let run = std::panic::AssertUnwindSafe(|| {
                run(&base, plan, close, &seen, wrong_content, &mut outcomes);
            });
            let result = std::panic::catch_unwind(run);
            result.unwrap_or_else(|_| panic!("write {k} of {count}, close {close}: {what:?}"));
        }
    }
    eprintln!("{what:?}, {count} writes: {outcomes:?}");
}

#[test]
fn a_torn_write_gives_a_valid_state_or_an_error() {
    stress_case(SilentFault::Torn);
}

#[test]
fn a_misdirected_write_gives_a_valid_state_or_an_error() {
    stress_case(SilentFault::Misdirected);
}

#[test]
fn a_lost_write_gives_a_valid_state_or_an_error() {
    stress_case(SilentFault::Lost);
}

/// The bytes that the workload fills files with. No metadata block consists of them alone.
const FILLS: [u8; 6] = [0, 1, 3, 5, 7, 8];
/// Largest number of names whose files may share content: two files that share blocks, one of them
/// with two names.
const MAX_SHARERS: usize = 3;

/// Runs the whole workload with this plan and closes the volume. Returns the testbed and the final
/// tree.
fn whole_run(base: &Arc<dyn BlockDevice>, plan: FaultPlan) -> (Testbed, Tree) {
    let testbed = Testbed::new(base, plan);
    let fs = open(testbed.faulty.clone()).expect("opened");
    for step in STEPS {
        (step.run)(&fs).unwrap_or_else(|error| panic!("{step:?}: {error}"));
    }
    fs.close().expect("closed");
    let volume = Volume::open(testbed.dev.clone(), &OpenOptions::default()).expect("opened again");
    let tree = tree(&Fs::new(volume, Clock::system())).expect("readable");
    (testbed, tree)
}

/// Returns the kind of each write of a run.
fn write_kinds(testbed: &Testbed) -> Vec<Kind> {
    let geo = read_superblock(&*testbed.dev).expect("a volume").geometry();
    let start = geo.log_daddr().expect("an internal log").byte_offset().0;
    let log = start..start + (u64::from(geo.logblocks) << geo.blocklog);
    let is_content = |data: &[u8]| {
        data.iter().all(|byte| FILLS.contains(byte)) && data.iter().any(|&byte| byte != 0)
    };
    let kind = |event: &Event| match event {
        Event::Write { offset, .. } if log.contains(&offset.0) => Some(Kind::Journal),
        Event::Write { data, .. } if is_content(data) => Some(Kind::Content),
        Event::Write { data, .. } => Some(Kind::InPlace(data.len().div_ceil(1024))),
        _ => None,
    };
    testbed.recorder.events().iter().filter_map(kind).collect()
}

#[test]
fn a_lost_write_of_content_affects_no_other_file() {
    let base: Arc<dyn BlockDevice> = dirty();
    let (testbed, expected) = whole_run(&base, FaultPlan::default());
    let content: Vec<u64> = (1..)
        .zip(write_kinds(&testbed))
        .filter(|(_, kind)| *kind == Kind::Content)
        .map(|(k, _)| k)
        .collect();
    assert!(content.len() > 20, "{} writes of content", content.len());
    let mut missed = 0;
    for &k in &content {
        for what in [SilentFault::Lost, SilentFault::Torn] {
            let plan = FaultPlan { seed: k, silent_nth: Some((k, what)), ..FaultPlan::default() };
            let (testbed, seen) = whole_run(&base, plan);
            verify(&testbed.dev, false);
            let digests = |tree: &Tree| -> Vec<_> {
                tree.iter().map(|(path, node)| (path.clone(), node.attrs)).collect()
            };
            assert_eq!(digests(&seen), digests(&expected), "write {k}, {what:?}");
            let differ = expected.iter().filter(|(path, node)| seen[*path].content != node.content);
            let differ: Vec<_> = differ.map(|(path, _)| String::from_utf8_lossy(path)).collect();
            assert!(differ.len() <= MAX_SHARERS, "write {k}, {what:?}: {differ:?}");
            missed += usize::from(!differ.is_empty());
        }
    }
    // The loss has no effect on content that is written again later.
    eprintln!("{} writes of content, {missed} of them still lost at the end", content.len());
    assert!(missed > 0);
}
