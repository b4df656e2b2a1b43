//! Intents in the journal of a stress run, whose threads force the journal out between steps.

use std::time::Duration;

use xfskit_test_oracle::matrix::{Case, named};
use xfskit_test_oracle::need::{Need, note};
use xfskit_test_oracle::{Scratch, long, needs};
use xfskit_test_recovery::storm::{EVERYTHING, Gust, NAMES};
use xfskit_test_recovery::{Storm, compare_finished};

/// Duration of the stress run.
const STORM: Duration = Duration::from_millis(400);

/// Returns a small volume with a journal of 32 MiB.
fn small(name: &'static str, newer: bool, options: &'static str) -> Case {
    Case { name, newer, options, mebibytes: 160, ..named("default") }
}

fn volumes() -> [(Case, &'static [Gust]); 6] {
    [
        (small("all", true, "-n parent=1 -i exchange=1 -l size=32m"), EVERYTHING),
        (small("block-1k", true, "-b size=1024 -i exchange=1 -l size=32m"), EVERYTHING),
        (small("no-rmapbt", false, "-l size=32m"), EVERYTHING),
        (small("no-reflink", true, "-m reflink=0,rmapbt=1 -i exchange=1 -l size=32m"), EVERYTHING),
        (small("names", true, "-n parent=1 -l size=32m"), NAMES),
        (small("names-1k", true, "-b size=1024 -n parent=1 -l size=32m"), NAMES),
    ]
}

/// Finishes the intents that the kernel left open, with the same result as the kernel. Takes as
/// many crash points of each run as have different kinds of open intents.
#[test]
fn what_the_kernel_promised_is_done_as_it_would() {
    if !needs(&[Need::Mount, Need::Xfsprogs]) {
        return;
    }
    let most = if long() { 60 } else { 4 };
    for (case, work) in volumes() {
        let scratch = Scratch::new("storm");
        let Some(storm) = Storm::raise(&scratch, &case, work, STORM) else { continue };
        eprintln!("{}: {:?}, {} moments", case.name, storm.promises, storm.moments.len());
        let moments = storm.telling(most);
        if moments.is_empty() {
            note("the journal was never forced between two steps");
        }
        for moment in moments {
            let name = format!("{} {:?}", case.name, moment.open);
            let image = storm.crashed(&moment, "crashed.img");
            let open = moment.open.values().sum::<u32>();
            let finished = compare_finished(&name, &case, &image, &scratch);
            assert_eq!(finished, u64::from(open), "{name}");
        }
    }
}

/// Makes the images `intents*` of `tests/images`: `cargo test -p xfskit-test-recovery --test stress
/// -- --ignored` with `XFSKIT_KEEP=1`, then `zstd -19 --long` and a name for each that is to be
/// kept.
#[test]
#[ignore = "makes images that are kept with the sources"]
fn moments_worth_keeping() {
    for (name, options) in [
        ("all", "-n parent=1 -i exchange=1 -l size=12m"),
        ("block-1k", "-b size=1024 -i exchange=1 -l size=12m"),
    ] {
        let scratch = Scratch::new("keep");
        let case = Case { mebibytes: 64, ..small(name, true, options) };
        for n in 0..8 {
            let Some(storm) = Storm::raise(&scratch, &case, EVERYTHING, STORM / 2) else {
                continue;
            };
            for (i, moment) in storm.telling(6).iter().enumerate() {
                let image = storm.crashed(moment, &format!("{name}-{n}-{i}.img"));
                eprintln!("{} {:?}", image.path().display(), moment.open);
            }
        }
    }
}
