//! Intents in the journal of a stress run, whose threads force the journal out between steps.

use std::time::{Duration, SystemTime};

use xfskit_test_recovery::stress::{EVERYTHING, NAMES, OpBatch};
use xfskit_test_recovery::{Stress, compare_recovered};
use xfskit_test_support::matrix::{Case, named};
use xfskit_test_support::{Mount, Need, Scratch, long, needs, note};

/// Duration of the stress run.
const STRESS: Duration = Duration::from_millis(400);

/// Returns a small volume with a journal of 32 MiB.
fn small(name: &'static str, newer: bool, options: &'static str) -> Case {
    Case { name, newer, options, mebibytes: 160, ..named("default") }
}

fn volumes() -> [(Case, &'static [OpBatch]); 6] {
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
fn xfskit_finishes_intents_of_the_kernel_as_the_kernel_does() {
    if !needs(&[Need::Mount, Need::Xfsprogs]) {
        return;
    }
    let most = if long() { 60 } else { 4 };
    for (case, work) in volumes() {
        let scratch = Scratch::new("stress");
        let Some(stress) = Stress::record(&scratch, &case, work, STRESS) else { continue };
        eprintln!(
            "{}: {:?}, {} crash points",
            case.name,
            stress.intents,
            stress.crash_points.len()
        );
        let crash_points = stress.representative(most);
        if crash_points.is_empty() {
            note("the journal was never forced between two steps");
        }
        for point in crash_points {
            let name = format!("{} {:?}", case.name, point.open);
            let image = stress.crashed(&point, "crashed.img");
            let open = point.open.values().sum::<u32>();
            let (theirs, began) = (image.copy("theirs.img"), SystemTime::now());
            if let Err(why) = Mount::recover(&theirs, &scratch) {
                // Linux 6.18 has failed on some of its own (-5 after "failed to clear agi").
                note(&format!("{name}: Linux cannot recover it: {why}"));
                continue;
            }
            let finished = compare_recovered(&name, &case, &image, (&theirs, began), &scratch);
            assert_eq!(finished, u64::from(open), "{name}");
        }
    }
}

/// Makes the images `intents*` of `tests/images`: `cargo test -p xfskit-test-recovery --test stress
/// -- --ignored` with `XFSKIT_KEEP=1`, then `zstd -19 --long` and a name for each that is to be
/// kept.
#[test]
#[ignore = "makes images that are kept with the sources"]
fn make_images_with_open_intents() {
    for (name, options) in [
        ("all", "-n parent=1 -i exchange=1 -l size=12m"),
        ("block-1k", "-b size=1024 -i exchange=1 -l size=12m"),
    ] {
        let scratch = Scratch::new("keep");
        let case = Case { mebibytes: 64, ..small(name, true, options) };
        for n in 0..8 {
            let Some(stress) = Stress::record(&scratch, &case, EVERYTHING, STRESS / 2) else {
                continue;
            };
            for (i, point) in stress.representative(6).iter().enumerate() {
                let image = stress.crashed(point, &format!("{name}-{n}-{i}.img"));
                eprintln!("{} {:?}", image.path().display(), point.open);
            }
        }
    }
}
