//! `md guess`: members without superblocks, the volume at the array's start, in a partition, in a
//! logical volume.

mod made;

use std::fmt::Write as _;

use crate::common::{Bench, damage, expect, objects, shown, xfskit};
use made::{Case, GPT, LVM, case, guessed, shuffled};
use xfskit_test_support::Random;

#[test]
fn a_volume_at_the_start_of_an_array_tells_what_the_array_is() {
    for (case, order) in [
        (case("5", "left-symmetric", "64K", 4), &[2, 0, 3, 1][..]),
        (case("5", "right-asymmetric", "16K", 3), &[1, 2, 0]),
        (case("6", "left-symmetric", "64K", 5), &[4, 3, 2, 1, 0]),
        (case("0", "original", "32K", 3), &[1, 0, 2]),
        (case("10", "near=2", "64K", 4), &[3, 1, 2, 0]),
    ] {
        let bench = Bench::new();
        let (names, _) = case.made(&bench);
        let (guesses, notes) = guessed(0, &names, order);
        let target = guesses[0]["target"].as_str().unwrap();
        let start = format!("md:level=raid{}", case.level);
        assert!(target.starts_with(&start), "{guesses:#?} {notes}");
        assert!(target.contains(&format!(",chunk={},offset=1024K:", case.chunk)), "{guesses:#?}");
        assert_eq!(guesses[0]["check_errors"], 0, "{guesses:#?}");
        expect(0, &["check", target]);
    }
}

#[test]
fn a_volume_in_a_partition_or_a_logical_volume_is_found_there() {
    for (level, disk, order) in
        [("6", GPT, [3, 1, 4, 0, 2]), ("5", GPT, [2, 4, 0, 3, 1]), ("6", LVM, [1, 0, 4, 3, 2])]
    {
        let bench = Bench::new();
        let case = Case { disk: Some(disk), ..case(level, "left-symmetric", "64K", 5) };
        let (names, target) = case.made(&bench);
        let (guesses, notes) = guessed(0, &names, &order);
        assert_eq!(guesses[0]["target"], *target, "{guesses:#?} {notes}");
        assert_eq!(guesses[0]["check_errors"], 0, "{guesses:#?}");
        expect(0, &["check", &target]);
    }
}

#[test]
fn a_member_that_is_partly_garbage_is_named() {
    for files in [720, 40] {
        let bench = Bench::new();
        let case = case("6", "left-symmetric", "64K", 5);
        let case = Case { disk: Some(LVM), garbage: Some(1), files, ..case };
        let (names, target) = case.made(&bench);
        let (guesses, notes) = guessed(0, &names, &[1, 0, 4, 3, 2]);
        assert_eq!(guesses[0]["target"], *target, "{guesses:#?} {notes}");
        assert_eq!(guesses[0]["confidence"], "likely", "{guesses:#?}");
        assert!(guesses[0]["against"].to_string().contains("m1.img"), "{guesses:#?}");
    }
}

#[test]
fn an_array_that_begins_with_the_logical_volume_is_no_equal_of_one_that_explains_lvm() {
    // The logical volume begins with a stripe, so an array may begin there. Both read the same, and
    // the garbage speaks against both.
    for (members, garbage) in [(6, 1), (6, 4)] {
        let bench = Bench::new();
        let case = case("6", "left-symmetric", "64K", members);
        let case = Case { disk: Some(LVM), garbage: Some(garbage), ..case };
        let (names, target) = case.made(&bench);
        let (guesses, notes) = guessed(0, &names, &[1, 0, 4, 3, 2, 5]);
        assert_eq!(guesses[0]["target"], *target, "{guesses:#?} {notes}");
    }
}

#[test]
fn a_guess_that_does_not_fit_the_members_is_no_answer() {
    let bench = Bench::new();
    let (names, target) = case("6", "left-symmetric", "64K", 5).made(&bench);
    let (guesses, notes) = guessed(1, &names, &[3, 0, 4, 1]);
    assert!(guesses.is_empty() && notes.contains("give the word missing"), "{guesses:#?} {notes}");
    let mut words = vec!["md", "guess", "--json", "missing"];
    words.extend([3, 0, 4, 1].map(|i| names[i].as_str()));
    let run = xfskit(&words);
    assert_eq!(run.code, 0, "{} {}", run.stdout, run.stderr);
    let expected = target.replace(&names[2], "missing");
    assert_eq!(objects(&run)[0]["target"], *expected, "{}", run.stdout);
}

/// What `md guess` said of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// The first guess is right, and said to be.
    Right,
    /// Several are equal, and the right one is among them.
    Undecided,
    /// None, with a reason.
    Nothing,
}

/// What a note says if there is no result.
const REASONS: [&str; 3] = ["against it", "no XFS", "no array of these members explains half"];

/// Returns the output for a case, or the error in it.
fn said(case: &Case) -> Result<Said, String> {
    let bench = Bench::new();
    let (names, target) = case.made(&bench);
    let order = shuffled(names.len(), &mut Random::of_test(case.seed ^ 0xff));
    let words = order.iter().map(|i| names[*i].as_str());
    let words: Vec<&str> = ["md", "guess", "--json"].into_iter().chain(words).collect();
    let run = xfskit(&words);
    let guesses = objects(&run);
    let is_right = |guess: &serde_json::Value| {
        guess["target"].as_str().is_some_and(|target| case.is_right(target, &names))
    };
    let targets: Vec<&str> = guesses.iter().filter_map(|guess| guess["target"].as_str()).collect();
    let wrong =
        |what: &str| Err(format!("{what}: {case:?}\n  {target}\n  {targets:#?}\n{}", run.stderr));
    let confidence = guesses.first().and_then(|guess| guess["confidence"].as_str());
    match (confidence, run.code) {
        (Some("certain" | "likely"), 0) if guesses.len() == 1 && is_right(&guesses[0]) => {
            Ok(Said::Right)
        }
        (Some("undecided"), 1) if guesses.iter().any(is_right) => Ok(Said::Undecided),
        (None, 1) if REASONS.iter().any(|reason| run.stderr.contains(reason)) => Ok(Said::Nothing),
        (Some("certain" | "likely"), _) => wrong("sure and wrong"),
        (Some("undecided"), _) => wrong("the right one is not among the equals"),
        _ => wrong("nothing, without a reason"),
    }
}

/// Runs cases, and returns what was said of each. Each must be as good as the evidence allows, and
/// none may be sure and wrong.
fn all_said(cases: &[Case]) -> Vec<Said> {
    let (mut results, mut failures) = (Vec::new(), String::new());
    for case in cases {
        match said(case) {
            Ok(said) => results.push(said),
            Err(why) => writeln!(failures, "{why}").unwrap(),
        }
    }
    assert!(failures.is_empty(), "{failures}");
    results
}

/// Arrays of all levels.
const LAYOUTS: [Case; 12] = [
    case("0", "original", "64K", 4),
    case("0", "original", "12K", 3),
    case("1", "", "", 2),
    case("10", "near=2", "64K", 4),
    case("10", "near=2", "512K", 3),
    case("10", "far=2", "64K", 4),
    case("10", "offset=2", "32K", 3),
    case("5", "left-symmetric", "64K", 4),
    case("5", "right-asymmetric", "16K", 3),
    case("6", "left-symmetric", "64K", 5),
    case("6", "left-asymmetric", "128K", 5),
    case("6", "ddf-N-continue", "64K", 6),
];

#[test]
fn with_many_files_the_first_guess_is_right() {
    let on = |i: usize| [None, Some(GPT)][i % 2];
    let cases: Vec<Case> = (0..)
        .zip(LAYOUTS)
        .map(|(i, case)| Case { disk: on(i), seed: 3 + i as u64, ..case })
        .chain([Case { disk: Some(LVM), ..case("5", "left-symmetric", "64K", 5) }])
        .collect();
    assert!(all_said(&cases).iter().all(|said| *said == Said::Right));
}

#[test]
fn with_a_member_missing_or_partly_garbage_the_first_guess_is_right() {
    let raid6 = case("6", "left-symmetric", "64K", 5);
    let cases = [
        Case { missing: Some(0), disk: Some(GPT), ..case("5", "left-symmetric", "64K", 5) },
        Case { missing: Some(2), ..case("6", "left-symmetric", "512K", 5) },
        Case { missing: Some(4), disk: Some(GPT), seed: 5, ..raid6 },
        Case { missing: Some(1), seed: 6, ..case("10", "near=2", "64K", 4) },
        Case { garbage: Some(3), seed: 7, ..raid6 },
    ];
    assert!(all_said(&cases).iter().all(|said| *said == Said::Right));
}

#[test]
fn a_raid5_with_a_garbage_member_is_never_sure_and_wrong() {
    let disks = [None, Some(GPT), Some(LVM)];
    let layouts = [
        case("5", "left-symmetric", "64K", 5),
        case("5", "right-asymmetric", "16K", 4),
        case("5", "left-asymmetric", "128K", 4),
        case("5", "right-symmetric", "32K", 6),
    ];
    let all = (0..4).flat_map(|round| (0..).zip(layouts).map(move |(i, case)| (round, i, case)));
    let cases = all.map(|(round, i, case): (usize, usize, Case)| Case {
        garbage: Some((i + round) % case.members),
        garbage_mib: [(4, 6), (0, 40)][round % 2],
        missing: (round == 3).then_some((i + round + 1) % case.members),
        disk: disks[(i + round) % 3].filter(|disk| *disk != LVM || case.members > 4),
        seed: 31 + (4 * round + i) as u64,
        ..case
    });
    let said = all_said(&cases.collect::<Vec<_>>());
    eprintln!("{said:?}");
    assert!(said.contains(&Said::Right), "{said:?}");
}

#[test]
fn with_few_files_or_none_a_guess_is_right_or_undecided_and_never_sure_and_wrong() {
    let few = (0..).zip(LAYOUTS).map(|(i, case)| {
        let disk = [Some(GPT), None][i % 2];
        Case { files: [40, 0, 5][i % 3], disk, seed: 11 + i as u64, ..case }
    });
    let raid6 = Case { disk: Some(GPT), ..case("6", "left-symmetric", "64K", 5) };
    let others = [
        Case { files: 0, seed: 2, ..raid6 },
        Case { files: 40, missing: Some(0), seed: 2, ..raid6 },
        Case { files: 40, garbage: Some(1), seed: 3, ..raid6 },
        Case { files: 0, garbage: Some(1), seed: 4, disk: Some(LVM), ..raid6 },
        Case { files: 40, disk: None, missing: Some(1), ..case("5", "left-symmetric", "64K", 5) },
    ];
    let said = all_said(&few.chain(others).collect::<Vec<_>>());
    assert!(said.iter().filter(|said| **said == Said::Nothing).count() <= 2, "{said:?}");
    assert!(said.iter().filter(|said| **said == Said::Right).count() >= 6, "{said:?}");
}

#[test]
fn guesses_that_read_the_same_say_so() {
    let bench = Bench::new();
    let case = Case { files: 0, ..case("5", "left-symmetric", "64K", 4) };
    let (names, target) = case.made(&bench);
    let (guesses, notes) = guessed(1, &names, &[2, 0, 3, 1]);
    assert!(guesses.len() > 1 && guesses.iter().any(|g| g["target"] == *target), "{guesses:#?}");
    for guess in &guesses {
        assert_eq!(guess["confidence"], "undecided", "{guesses:#?}");
        assert_eq!(guess["candidates"], guesses.len(), "{guesses:#?}");
        assert_eq!(guess["reads_same"], true, "{guesses:#?}");
    }
    assert!(
        notes.contains(&format!("these {} candidates read the same", guesses.len())),
        "{notes}"
    );
}

#[test]
fn a_comparison_of_files_tells_how_many_were_compared() {
    let bench = Bench::new();
    let case = Case { files: 5, ..case("1", "", "", 2) };
    let (names, _) = case.made(&bench);
    let (guesses, notes) = guessed(0, &names, &[1, 0]);
    let sizes = std::fs::read_dir(bench.path("tree/dir0")).unwrap();
    let bytes: u64 = sizes.map(|file| file.unwrap().metadata().unwrap().len()).sum();
    assert_eq!(guesses[0]["files_compared"], 5, "{guesses:#?} {notes}");
    assert_eq!(guesses[0]["bytes_compared"], bytes, "{guesses:#?} {notes}");
    assert_eq!(guesses[0]["files_complete"], true, "{guesses:#?} {notes}");
    assert!(guesses[0]["stripes_compared"].as_u64() > Some(0), "{guesses:#?} {notes}");
}

#[test]
fn candidates_that_are_listed_and_those_that_are_not_are_counted() {
    // An empty volume has its headers on some of the members: nothing tells the order of the rest.
    let bench = Bench::new();
    let case = Case { files: 0, ..case("5", "left-symmetric", "64K", 9) };
    let (names, _) = case.made(&bench);
    let (guesses, notes) = guessed(1, &names, &[8, 3, 0, 4, 2, 1, 5, 7, 6]);
    assert!((2..=128).contains(&guesses.len()), "{} {notes}", guesses.len());
    let (listed, all) = (guesses.len() as u64, guesses[0]["candidates"].as_u64().unwrap());
    for guess in &guesses {
        assert_eq!(guess["confidence"], "undecided", "{guess:#}");
        assert_eq!(guess["candidates_listed"], listed, "{guess:#}");
        assert_eq!(guess["candidates_unchecked"], all - listed, "{guess:#}");
        assert_eq!(guess["reads_same"], all == listed, "{guess:#}");
        assert!(guess["against"].to_string().contains("nothing tells the place of"), "{guess:#}");
    }
    let more = format!("at least {} more may be as good, and were not checked", all - listed);
    assert_eq!(notes.contains(&more), all > listed, "{notes}");
}

#[test]
fn a_volume_in_a_logical_partition_is_found_there() {
    let bench = Bench::new();
    let entry = |kind: u8, first: u32, sectors: u32| {
        [&[0, 0, 0, 0, kind, 0, 0, 0][..], &first.to_le_bytes(), &sectors.to_le_bytes()].concat()
    };
    let table = |first: &[u8], second: &[u8]| {
        let mut sector = [vec![0; 446], first.to_vec(), second.to_vec(), vec![0; 32]].concat();
        sector.extend([0x55, 0xaa]);
        sector
    };
    let disk = bench.file("dos.img", &vec![0; 64 << 20]);
    // A primary and an extended partition with two logical ones: the volume is in the second.
    damage(&disk, 0, &table(&entry(0x83, 2048, 4096), &entry(0x05, 8192, 120_000)));
    let link = entry(0x05, 8192, 60_000);
    damage(&disk, 8192 * 512, &table(&entry(0x83, 2048, 4096), &link));
    damage(&disk, 16_384 * 512, &table(&entry(0x83, 2048, 50_000), &[0; 16]));
    let case = case("5", "left-symmetric", "64K", 4);
    let names = case.created(&bench);
    let array = format!("md:{}", names.join(","));
    expect(0, &["md", "load", "--write", &array, &shown(&disk)]);
    case.filled(&bench, &format!("[{array}]#p6"), &names);
    // Links have no address: a volume by itself at another offset is as good, and reads the same.
    let (guesses, notes) = guessed(1, &names, &[1, 3, 0, 2]);
    let target = format!("[{}]#p6", case.target(&names));
    assert_eq!(guesses[0]["target"], *target, "{guesses:#?} {notes}");
    assert_eq!(guesses[0]["reads_same"], true, "{guesses:#?} {notes}");
}
