//! The k-th access of the workload fails, for every k. Either the operation fails and changes
//! nothing, or the volume shuts down once, with the first cause, and recovery finds all durable
//! data.

use std::sync::Arc;

use xfskit_block::{BlockDevice, FaultPlan};
use xfskit_test_faults::tree::{Tree, tree};
use xfskit_test_faults::verify::{
    Testbed, close_and_verify, count_accesses, expected_trees, recover_and_verify, verify,
};
use xfskit_test_faults::work::{STEPS, dirty, open};
use xfskit_test_support::long;
use xfskit_vfs::{Error, Fs, NewNode};

/// The message of the device.
const INJECTED: &str = "injected failure";

/// The outcome of a run.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// The volume could not be opened.
    OpenFailed,
    /// The volume was shut down.
    ShutDown,
    /// An operation failed and changed nothing. It succeeded when repeated, and so did all later
    /// ones.
    Retried,
    /// An operation of several transactions stopped between them.
    PartlyDone,
    /// The device has failed for good, and the volume did not need to write any more.
    DeviceGone,
    /// The failure had no effect.
    NoEffect,
}

/// A run in which one access fails, or all from there on.
struct Case<'t> {
    testbed: Testbed,
    trees: &'t [Tree],
    all_tools: bool,
    permanent: bool,
}

impl Case<'_> {
    fn run(&self) -> Outcome {
        let fs = match open(self.testbed.faulty.clone()) {
            Ok(fs) => fs,
            Err(error) => {
                assert!(error.to_string().contains(INJECTED), "{error}");
                assert_eq!(recover_and_verify(&self.testbed.dev, self.all_tools), self.trees[0]);
                return Outcome::OpenFailed;
            }
        };
        let (mut outcome, mut synced) = (Outcome::NoEffect, 0);
        for (n, step) in STEPS.iter().enumerate() {
            let result = (step.run)(&fs);
            if fs.volume().engine().expect("writable").check_not_shut_down().is_err() {
                self.verify_shut_down(fs, synced, n + 1);
                return Outcome::ShutDown;
            }
            if let Err(error) = result {
                assert!(error.to_string().contains(INJECTED), "{step:?}: {error}");
                if self.permanent {
                    assert!(fs.sync().and_then(|()| fs.close()).is_err(), "{step:?}: all is well");
                    self.verify_recovery(synced, n + 1);
                    return Outcome::DeviceGone;
                }
                let now = tree(&fs).expect("readable");
                if now != self.trees[n] && now != self.trees[n + 1] {
                    assert!(step.in_steps, "{step:?} stopped between its steps: {error}");
                    close_and_verify(fs, &self.testbed.dev, self.all_tools);
                    return Outcome::PartlyDone;
                }
                (step.run)(&fs).unwrap_or_else(|error| panic!("{step:?}, repeated: {error}"));
                assert_eq!(tree(&fs).expect("readable"), self.trees[n + 1], "{step:?}, again");
                outcome = Outcome::Retried;
            }
            if step.syncs {
                synced = n + 1;
            }
        }
        match fs.close() {
            Ok(()) => {
                verify(&self.testbed.dev, false);
                assert_eq!(recover_and_verify(&self.testbed.dev, self.all_tools), *self.last());
            }
            Err(error) => {
                assert!(error.to_string().contains(INJECTED), "{error}");
                self.verify_recovery(synced, STEPS.len());
                return Outcome::ShutDown;
            }
        }
        outcome
    }

    fn last(&self) -> &Tree {
        self.trees.last().expect("some")
    }

    /// Verifies that all operations fail with the first cause, and that nothing is written any
    /// more.
    fn verify_shut_down(&self, fs: Fs, synced: usize, begun: usize) {
        let cause = fs
            .volume()
            .engine()
            .expect("writable")
            .check_not_shut_down()
            .expect_err("down")
            .to_string();
        assert!(cause.contains(INJECTED), "{cause}");
        let events = self.testbed.recorder.event_count();
        let root = fs.volume().geo().rootino;
        let fails_with_cause = |what: &str, result: Result<(), Error>| {
            let message = result.expect_err(what).to_string();
            assert!(message.contains(&cause), "{what}: {message}, expected {cause}");
        };
        fails_with_cause("make", fs.make(root, b"late", &NewNode::file(0o644)).map(drop));
        fails_with_cause("unlink", fs.unlink(root, b"a"));
        fails_with_cause("sync", fs.sync());
        fails_with_cause("close", fs.close());
        assert_eq!(self.testbed.recorder.event_count(), events, "written after the shutdown");
        self.verify_recovery(synced, begun);
    }

    /// Verifies that recovery finds the tree of some step, not before the last sync.
    fn verify_recovery(&self, synced: usize, begun: usize) {
        let seen = recover_and_verify(&self.testbed.dev, self.all_tools);
        let allowed = &self.trees[synced..=begun];
        assert!(allowed.contains(&seen), "a tree that never existed, from {synced} to {begun}");
    }
}

/// Runs all cases and returns the number of runs with each of the outcomes `ends`.
fn stress_case<const N: usize>(permanent: bool, outcomes: [Outcome; N]) -> [usize; N] {
    let base: Arc<dyn BlockDevice> = dirty();
    let trees = expected_trees(&base);
    let (count, _) = count_accesses(&base);
    let (every, sampled) = if long() { (1, 10) } else { (4, 160) };
    let mut found = Vec::new();
    for k in (1..=count).step_by(every) {
        let (nth, from) = if permanent { (None, Some(k)) } else { (Some(k), None) };
        let plan = FaultPlan { fail_nth: nth, fail_from: from, ..FaultPlan::default() };
        let (testbed, all_tools) = (Testbed::new(&base, plan), k % sampled == 1);
        let case = Case { testbed, trees: &trees, all_tools, permanent };
        let run = std::panic::AssertUnwindSafe(|| case.run());
        let outcome = std::panic::catch_unwind(run);
        found.push(outcome.unwrap_or_else(|_| panic!("access {k} of {count} fails")));
    }
    eprintln!("{} of {count} accesses failed", found.len());
    outcomes.map(|outcome| found.iter().filter(|found| **found == outcome).count())
}

#[test]
fn a_single_failed_access_gives_a_clean_error_or_a_shutdown() {
    let [closed, shut_down, again, halfway, unnoticed] = stress_case(
        false,
        [
            Outcome::OpenFailed,
            Outcome::ShutDown,
            Outcome::Retried,
            Outcome::PartlyDone,
            Outcome::NoEffect,
        ],
    );
    eprintln!(
        "{closed} at opening, {shut_down} shut down, {again} again, {halfway} halfway, {unnoticed} unnoticed"
    );
    assert!(closed > 0 && shut_down > 0 && again > 0);
}

#[test]
fn a_device_that_fails_for_good_loses_no_synced_change() {
    let [closed, shut_down, gone] =
        stress_case(true, [Outcome::OpenFailed, Outcome::ShutDown, Outcome::DeviceGone]);
    eprintln!("{closed} at open, {shut_down} shut down, {gone} later");
    assert!(closed > 0 && shut_down > 0 && gone > 0);
}
