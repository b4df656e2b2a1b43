//! The k-th write of the workload does not arrive as it was sent, and the device says that all is well: torn, elsewhere, or
//! not at all, so that what stood there is stale. What is read afterwards was so at some time, or is an error; nothing
//! goes down.
//!
//! A stale block is whole, and content has no checksums in XFS: nobody can tell. What several blocks say together, like
//! the names in a directory, is not compared; what an inode says is. Content is, where `check` finds nothing in the end
//! and the write was one of metadata in place: then no file has what it never had, but for those that a write elsewhere
//! hit. A journal that ends too early is an older volume, whose blocks hold what was written since. Where the write was
//! one of content, it is that content alone which may be wrong.

use std::collections::HashSet;
use std::sync::Arc;

use xfskit_block::{BlockDevice, Event, FaultPlan, Silent};
use xfskit_check::{Options, check};
use xfskit_core::superblock::read_superblock;
use xfskit_core::{OpenOptions, Volume};
use xfskit_test_faults::judge::{Bench, accesses, sound, trees};
use xfskit_test_faults::tree::{Tree, readable, tree};
use xfskit_test_faults::work::{STEPS, dirty, open};
use xfskit_test_oracle::long;
use xfskit_vfs::Fs;

/// What became of runs.
#[derive(Debug, Default)]
struct Ends {
    /// Nothing is wrong with the volume.
    sound: usize,
    /// Of these, files have content that they never had.
    strange: usize,
    /// Something is, and `check` says so.
    found: usize,
    /// The volume cannot be opened to be changed.
    refused: usize,
}

/// What files and symlinks ever were.
struct History {
    /// What they said of themselves.
    said: HashSet<u64>,
    content: HashSet<u64>,
}

impl History {
    fn of(trees: &[Tree]) -> Self {
        let files = || trees.iter().flat_map(Tree::values).filter(|node| !node.directory);
        Self {
            said: files().map(|node| node.said).collect(),
            content: files().map(|node| node.content).collect(),
        }
    }
}

/// What a write is one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Content,
    Journal,
    /// Metadata where it belongs: so many blocks.
    InPlace(usize),
}

/// Reads all that there is, and answers what of it has content that nobody ever had.
fn look(fs: &Fs, history: &History, what: &str) -> Vec<String> {
    let (mut errors, mut strange) = (Vec::new(), Vec::new());
    for (path, node) in readable(fs, &mut errors).into_iter().filter(|(_, node)| !node.directory) {
        let path = String::from_utf8_lossy(&path);
        assert!(history.said.contains(&node.said), "{what}: {path} never was so");
        if !history.content.contains(&node.content) {
            strange.push(path.into_owned());
        }
    }
    strange
}

fn run(
    base: &Arc<dyn BlockDevice>,
    plan: FaultPlan,
    close: bool,
    seen: &History,
    strange: usize,
    ends: &mut Ends,
) {
    let bench = Bench::new(base, plan);
    if let Ok(fs) = open(bench.faulty.clone()) {
        // Who finds something wrong stops.
        let done = STEPS.iter().try_for_each(|step| (step.run)(&fs));
        look(&fs, seen, "while it was open");
        if close && done.is_ok() {
            drop(fs.close());
        }
    }
    if let Ok(volume) = Volume::open(bench.dev.clone(), &OpenOptions::default()) {
        look(&Fs::new(volume), seen, "read");
    }
    match open(bench.dev.clone()) {
        Err(_) => ends.refused += 1,
        Ok(fs) => {
            let strangers = look(&fs, seen, "opened again");
            drop(fs.close());
            let mut said = 0;
            let report = check(&*bench.dev, None, &Options::default(), &mut |_| said += 1);
            let sound = said == 0 && report.is_ok_and(|report| report.clean());
            *if sound { &mut ends.sound } else { &mut ends.found } += 1;
            if sound {
                assert!(strangers.len() <= strange, "content that never was: {strangers:?}");
                ends.strange += usize::from(!strangers.is_empty());
            }
        }
    }
}

fn ordeal(what: Silent) {
    let base: Arc<dyn BlockDevice> = dirty();
    let seen = History::of(&trees(&base));
    let kinds = kinds(&whole_run(&base, FaultPlan::default()).0);
    let (_, count) = accesses(&base);
    let every = if long() { 1 } else { 4 };
    let mut ends = Ends::default();
    for k in (1..=count).step_by(every) {
        let kind = kinds.get(usize::try_from(k - 1).expect("few")).copied();
        let strange = match (kind, what) {
            // It lies on content, perhaps.
            (Some(Kind::InPlace(blocks)), Silent::Misdirected) => TOGETHER * blocks,
            (Some(Kind::InPlace(_)), _) => 0,
            _ => usize::MAX,
        };
        for close in [false, true] {
            let plan = FaultPlan { seed: k, silent_nth: Some((k, what)), ..FaultPlan::default() };
            let run =
                std::panic::AssertUnwindSafe(|| run(&base, plan, close, &seen, strange, &mut ends));
            let answer = std::panic::catch_unwind(run);
            answer.unwrap_or_else(|_| panic!("write {k} of {count}, close {close}: {what:?}"));
        }
    }
    eprintln!("{what:?}, {count} writes: {ends:?}");
}

#[test]
fn every_write_may_be_torn() {
    ordeal(Silent::Torn);
}

#[test]
fn every_write_may_go_elsewhere() {
    ordeal(Silent::Misdirected);
}

#[test]
fn every_write_may_be_lost() {
    ordeal(Silent::Lost);
}

/// The bytes that the workload fills files with; no block of metadata is made of them alone.
const FILLS: [u8; 6] = [0, 1, 3, 5, 7, 8];
/// Names of files that may have one content, at most: two that share blocks, one of them with two names.
const TOGETHER: usize = 3;

/// All of the work with this plan, and the volume closed; the bench, and what is shown in the end.
fn whole_run(base: &Arc<dyn BlockDevice>, plan: FaultPlan) -> (Bench, Tree) {
    let bench = Bench::new(base, plan);
    let fs = open(bench.faulty.clone()).expect("opened");
    for step in STEPS {
        (step.run)(&fs).unwrap_or_else(|error| panic!("{step:?}: {error}"));
    }
    fs.close().expect("closed");
    let volume = Volume::open(bench.dev.clone(), &OpenOptions::default()).expect("opened again");
    let tree = tree(&Fs::new(volume)).expect("readable");
    (bench, tree)
}

/// What each write of a run was.
fn kinds(bench: &Bench) -> Vec<Kind> {
    let geo = read_superblock(&*bench.dev).expect("a volume").geometry();
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
    bench.recorder.events().iter().filter_map(kind).collect()
}

#[test]
fn content_that_does_not_arrive_harms_no_other() {
    let base: Arc<dyn BlockDevice> = dirty();
    let (bench, expected) = whole_run(&base, FaultPlan::default());
    let content: Vec<u64> = (1..)
        .zip(kinds(&bench))
        .filter(|(_, kind)| *kind == Kind::Content)
        .map(|(k, _)| k)
        .collect();
    assert!(content.len() > 20, "{} writes of content", content.len());
    let mut missed = 0;
    for &k in &content {
        for what in [Silent::Lost, Silent::Torn] {
            let plan = FaultPlan { seed: k, silent_nth: Some((k, what)), ..FaultPlan::default() };
            let (bench, seen) = whole_run(&base, plan);
            sound(&bench.dev, false);
            let said = |tree: &Tree| -> Vec<_> {
                tree.iter().map(|(path, node)| (path.clone(), node.said)).collect()
            };
            assert_eq!(said(&seen), said(&expected), "write {k}, {what:?}");
            let differ = expected.iter().filter(|(path, node)| seen[*path].content != node.content);
            let differ: Vec<_> = differ.map(|(path, _)| String::from_utf8_lossy(path)).collect();
            assert!(differ.len() <= TOGETHER, "write {k}, {what:?}: {differ:?}");
            missed += usize::from(!differ.is_empty());
        }
    }
    // What is written again later is not missed.
    eprintln!("{} writes of content, missed {missed} times in the end", content.len());
    assert!(missed > 0);
}
