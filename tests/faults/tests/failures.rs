//! The k-th access of the workload fails, for every k: what was asked for has not happened, or the volume is shut down,
//! once and for the cause that came first, and recovery finds what was durable.

use std::sync::Arc;

use xfskit_block::{BlockDevice, FaultPlan};
use xfskit_test_faults::judge::{Bench, accesses, closed, recovered, sound, trees};
use xfskit_test_faults::tree::{Tree, tree};
use xfskit_test_faults::work::{STEPS, dirty, open};
use xfskit_test_oracle::long;
use xfskit_vfs::{Error, Fs, NewNode};

/// What the device says.
const INJECTED: &str = "injected failure";

/// How a run came to its end.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// The volume could not be opened.
    Closed,
    /// The volume was shut down.
    ShutDown,
    /// Something failed and changed nothing; asked for again it was done, and so was all the rest.
    Again,
    /// Something that takes several transactions stopped between them.
    Halfway,
    /// The device is gone, and the volume did not need to write any more.
    Gone,
    /// Nobody noticed.
    Unnoticed,
}

/// A run, one access of which fails, or all from there on.
struct Case<'t> {
    bench: Bench,
    trees: &'t [Tree],
    everybody: bool,
    for_good: bool,
}

impl Case<'_> {
    fn run(&self) -> End {
        let fs = match open(self.bench.faulty.clone()) {
            Ok(fs) => fs,
            Err(error) => {
                assert!(error.to_string().contains(INJECTED), "{error}");
                assert_eq!(recovered(&self.bench.dev, self.everybody), self.trees[0]);
                return End::Closed;
            }
        };
        let (mut end, mut synced) = (End::Unnoticed, 0);
        for (n, step) in STEPS.iter().enumerate() {
            let answer = (step.run)(&fs);
            if fs.volume().engine().expect("writable").is_up().is_err() {
                self.is_shut_down(fs, synced, n + 1);
                return End::ShutDown;
            }
            if let Err(error) = answer {
                assert!(error.to_string().contains(INJECTED), "{step:?}: {error}");
                if self.for_good {
                    assert!(fs.sync().and_then(|()| fs.close()).is_err(), "{step:?}: all is well");
                    self.left_behind(synced, n + 1);
                    return End::Gone;
                }
                let now = tree(&fs).expect("readable");
                if now != self.trees[n] && now != self.trees[n + 1] {
                    assert!(step.in_steps, "{step:?} came halfway: {error}");
                    closed(fs, &self.bench.dev, self.everybody);
                    return End::Halfway;
                }
                (step.run)(&fs).unwrap_or_else(|error| panic!("{step:?}, again: {error}"));
                assert_eq!(tree(&fs).expect("readable"), self.trees[n + 1], "{step:?}, again");
                end = End::Again;
            }
            if step.syncs {
                synced = n + 1;
            }
        }
        match fs.close() {
            Ok(()) => {
                sound(&self.bench.dev, false);
                assert_eq!(recovered(&self.bench.dev, self.everybody), *self.last());
            }
            Err(error) => {
                assert!(error.to_string().contains(INJECTED), "{error}");
                self.left_behind(synced, STEPS.len());
                return End::ShutDown;
            }
        }
        end
    }

    fn last(&self) -> &Tree {
        self.trees.last().expect("some")
    }

    /// Whatever is asked now, the answer is the first cause, and nothing is written any more.
    fn is_shut_down(&self, fs: Fs, synced: usize, begun: usize) {
        let cause = fs.volume().engine().expect("writable").is_up().expect_err("down").to_string();
        assert!(cause.contains(INJECTED), "{cause}");
        let events = self.bench.recorder.event_count();
        let root = fs.volume().geo().rootino;
        let says_so = |what: &str, answer: Result<(), Error>| {
            let said = answer.expect_err(what).to_string();
            assert!(said.contains(&cause), "{what}: {said}, and not {cause}");
        };
        says_so("make", fs.make(root, b"late", &NewNode::file(0o644)).map(drop));
        says_so("unlink", fs.unlink(root, b"a"));
        says_so("sync", fs.sync());
        says_so("close", fs.close());
        assert_eq!(self.bench.recorder.event_count(), events, "written after the end");
        self.left_behind(synced, begun);
    }

    /// What recovery finds was so at some time, not before the last sync.
    fn left_behind(&self, synced: usize, begun: usize) {
        let seen = recovered(&self.bench.dev, self.everybody);
        let allowed = &self.trees[synced..=begun];
        assert!(allowed.contains(&seen), "a tree that never was, from {synced} to {begun}");
    }
}

/// Answers how many runs came to each of `ends`.
fn ordeal<const N: usize>(for_good: bool, ends: [End; N]) -> [usize; N] {
    let base: Arc<dyn BlockDevice> = dirty();
    let trees = trees(&base);
    let (count, _) = accesses(&base);
    let (every, asked) = if long() { (1, 10) } else { (4, 160) };
    let mut found = Vec::new();
    for k in (1..=count).step_by(every) {
        let (nth, from) = if for_good { (None, Some(k)) } else { (Some(k), None) };
        let plan = FaultPlan { fail_nth: nth, fail_from: from, ..FaultPlan::default() };
        let (bench, everybody) = (Bench::new(&base, plan), k % asked == 1);
        let case = Case { bench, trees: &trees, everybody, for_good };
        let run = std::panic::AssertUnwindSafe(|| case.run());
        let end = std::panic::catch_unwind(run);
        found.push(end.unwrap_or_else(|_| panic!("access {k} of {count} fails")));
    }
    eprintln!("{} of {count} accesses failed", found.len());
    ends.map(|end| found.iter().filter(|found| **found == end).count())
}

#[test]
fn every_access_may_fail() {
    let [closed, shut_down, again, halfway, unnoticed] =
        ordeal(false, [End::Closed, End::ShutDown, End::Again, End::Halfway, End::Unnoticed]);
    eprintln!(
        "{closed} at opening, {shut_down} shut down, {again} again, {halfway} halfway, {unnoticed} unnoticed"
    );
    assert!(closed > 0 && shut_down > 0 && again > 0);
}

#[test]
fn the_device_may_go_at_every_access() {
    let [closed, shut_down, gone] = ordeal(true, [End::Closed, End::ShutDown, End::Gone]);
    eprintln!("{closed} at opening, {shut_down} shut down, {gone} later");
    assert!(closed > 0 && shut_down > 0 && gone > 0);
}
