use super::*;
use crate::suite::testing::{Heard, settings};

fn row(implementation: Implementation, times: &[f64], inodes: u64) -> Row {
    let wall = times.iter().copied().collect();
    Row { implementation, wall, processor: Samples::default(), inodes }
}

fn journal() -> Journal {
    Journal { size: LOG_MAX, used: 1_500_000_000, files: 10, writer: Implementation::Kernel }
}

#[test]
fn every_outcome_has_its_sentence() {
    let text = |ours: &[f64], kernel: &[f64]| {
        let rows = [row(Implementation::Engine, ours, 10), row(Implementation::Kernel, kernel, 10)];
        sentence(&journal(), &rows)
    };
    let (ours, theirs) = ([1.0, 1.1, 1.2, 1.1], [4.0, 4.4, 4.8, 4.4]);
    assert!(text(&ours, &theirs).starts_with("xfskit is faster than the kernel: xfskit recovers"));
    assert!(text(&theirs, &ours).starts_with("xfskit is slower than the kernel"));
    assert!(text(&ours, &ours).starts_with("The turns vary by more"));
    let one = text(&[1.0], &[2.0]);
    assert!(one.starts_with("The turns are too few") && one.ends_with("(2.00 times)."), "{one}");
    let alone = [row(Implementation::Engine, &[1.0], 10)];
    let answered = answer(&journal(), &alone).expect("an answer");
    assert_eq!(answered.figure, "xfskit 1,500 MB/s.");
    let alone = sentence(&journal(), &alone);
    assert_eq!(alone, "xfskit recovers a journal with 1,500 MB between tail and head in 1.00 s.");
}

#[test]
fn a_recovery_that_is_too_short_has_no_rate() {
    let rows = [row(Implementation::Engine, &[0.009], 10), row(Implementation::Kernel, &[0.5], 10)];
    let answered = answer(&journal(), &rows).expect("a question");
    assert_eq!(answered.verdict, "Not measured: a recovery was too short.");
    assert_eq!(answered.figure, "kernel XFS 3,000 MB/s.");
    let table = table(&journal(), &rows, &settings());
    let shown = |n: usize| table.rows[n].cells[1..9].iter().map(ToString::to_string);
    assert_eq!(shown(0).collect::<Vec<_>>(), ["–"; 8]);
    let kernel: Vec<String> = shown(1).collect();
    assert_eq!([&kernel[0], &kernel[4]], ["0.500", "3,000"]);
    assert!(table.notes[0].contains("a recovery of less than 10 ms"), "{:?}", table.notes);
    assert!(line(&rows[0]).points.is_empty() && line(&rows[1]).points.len() == 1);
}

#[test]
fn a_recovery_that_loses_files_fails_the_study() {
    let rows = |kernel| {
        [row(Implementation::Engine, &[1.0], 12), row(Implementation::Kernel, &[1.0], kernel)]
    };
    verify(&rows(12), &journal()).expect("the same");
    let error = verify(&rows(11), &journal()).expect_err("one is lost").to_string();
    assert!(error.contains("kernel XFS the volume has 11 inodes, 12 by xfskit"), "{error}");
    assert!(verify(&[row(Implementation::Engine, &[1.0], 9)], &journal()).is_err());
    let empty = Journal { used: 2_200_000, ..journal() };
    let error = verify(&rows(12), &empty).expect_err("not full").to_string();
    assert!(error.contains("2.2 MB between tail and head in a journal of 2,137 MB"), "{error}");
}

#[test]
fn a_full_journal_in_memory_is_recovered_in_every_turn() {
    let settings = Settings { repetitions: 2, ..settings() };
    let mut heard = Heard::default();
    let engine = [Implementation::Engine];
    let section = section(16 << 20, &settings, &engine, &mut heard).expect("recovered");
    let result = &heard.0[0]["recovery"];
    let used = result["used_bytes"].as_u64().expect("known");
    // The engine keeps a quarter of the journal when it writes changes in place.
    assert!(((16 << 20) / 8..=16 << 20).contains(&used), "{used}");
    assert!(result["inodes"].as_u64() > result["files"].as_u64());
    assert_eq!(section.tables[0].rows[0].cells[11], Cell::Count(2));
}

#[test]
fn the_kernel_recovers_the_same_image() {
    let mut settings = settings();
    settings.testbed.dir = Some("/dev/shm".into());
    let both = [Implementation::Engine, Implementation::Kernel];
    if let Err(why) = settings.volume(Implementation::Kernel).and_then(|mut one| one.unmount()) {
        eprintln!("skipped: the kernel cannot mount an image: {why}");
        return;
    }
    // A sync of the whole machine, by a test beside this one, empties the kernel's journal.
    let mut tries = 0;
    let heard = loop {
        let mut heard = Heard::default();
        // The kernel empties a smaller journal all the time.
        match section(64 << 20, &settings, &both, &mut heard) {
            Err(error) if tries < 5 && error.to_string().contains("is not full") => tries += 1,
            recovered => break recovered.map(|_| heard).expect("recovered by both"),
        }
    };
    let inodes: Vec<_> = heard.0.iter().map(|it| it["recovery"]["inodes"].as_u64()).collect();
    assert_eq!(inodes.len(), 2);
    assert_eq!(inodes[0], inodes[1]);
}

#[test]
fn a_directory_without_room_for_a_journal_is_refused_before() {
    let mut settings = settings();
    // It has no space at all.
    settings.testbed.dir = Some("/proc".into());
    let refused = section(LOG_MAX, &settings, &[Implementation::Engine], &mut Heard::default());
    let error = refused.expect_err("no space").to_string();
    assert!(error.starts_with("/proc: ") && error.contains("a journal of 16 MiB"), "{error}");
}
