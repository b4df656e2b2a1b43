//! Arrays whose superblocks are lost, found by the volume on them.

use std::path::PathBuf;
use std::sync::Mutex;

use crate::common::array::{FilledArray, members};
use xfskit::md::{Confidence, Guess, GuessStep, Level};
use xfskit::{CancelToken, Check, ErrorKind, Volume};

/// Makes an array, and erases the superblocks of its members.
fn lost(level: Level, count: usize) -> FilledArray {
    let array = FilledArray::new(level, count, 24 << 20, 300);
    for role in 0..count {
        array.damage(role, 4096, &[0; 4096]);
    }
    array
}

/// Returns the target that the members of a RAID5 or RAID6 with mdadm's layout are.
fn target(level: &str, members: &[PathBuf]) -> String {
    let names: Vec<String> = members.iter().map(|member| member.display().to_string()).collect();
    let geometry = format!("md:level={level},layout=left-symmetric,chunk=64K,offset=1024K");
    format!("{geometry}:{}", names.join(","))
}

#[test]
fn order_layout_and_chunk_of_a_raid5_are_found() {
    let array = lost(Level::Raid5, 4);
    let before = array.bytes();
    let steps = Mutex::new(Vec::new());
    let report = |step, progress: xfskit::Progress| {
        steps.lock().unwrap().push(step);
        let is_known = progress.total > 0;
        assert!(!is_known || progress.done <= progress.total, "{step:?}: {progress:?}");
    };
    let order = [2, 0, 3, 1].map(|i| &array.members[i]);
    let guessed = Guess::new().progress(report).run(order).unwrap();
    let [candidate] = &guessed.candidates[..] else { panic!("{guessed:#?}") };
    assert_eq!(candidate.target, target("raid5", &array.members), "{guessed:#?}");
    let reliable = matches!(candidate.confidence, Confidence::Certain | Confidence::Likely);
    assert!(reliable && guessed.with_missing.is_none(), "{guessed:#?}");
    assert_eq!(candidate.check_errors, Some(0));
    assert!(candidate.is_check_complete && candidate.is_content_complete);
    assert!(candidate.pieces_right > 0 && candidate.pieces_right <= guessed.pieces_found);
    assert!(candidate.stripes.0 > 0 && candidate.stripes.1 == 0, "{candidate:#?}");
    assert!(candidate.files.0 >= 300, "{candidate:#?}");
    let steps = steps.into_inner().unwrap();
    assert!(steps.contains(&GuessStep::Search) && steps.contains(&GuessStep::Check));
    assert!(array.bytes() == before, "nothing is written");
    assert!(Check::new().run(&candidate.target).unwrap().is_clean());
    let volume = Volume::open(&candidate.target).unwrap();
    assert!(volume.read("/file").unwrap() == array.file);
}

#[test]
fn a_member_that_is_gone_is_missing_where_it_is_named_and_a_hint_where_it_is_not() {
    let array = lost(Level::Raid6, 5);
    let present = [3, 0, 4, 1].map(|i| array.members[i].clone());
    let guessed = Guess::new().run(&present).unwrap();
    let is_result = |confidence| matches!(confidence, Confidence::Certain | Confidence::Likely);
    assert!(!guessed.candidates.iter().any(|c| is_result(c.confidence)), "{guessed:#?}");
    assert_eq!(guessed.with_missing.map(|hint| hint.missing), Some(1), "{guessed:#?}");
    let named = present.into_iter().chain([PathBuf::from("missing")]);
    let guessed = Guess::new().run(named).unwrap();
    let mut members = array.members.clone();
    members[2] = "missing".into();
    assert_eq!(guessed.candidates[0].target, target("raid6", &members), "{guessed:#?}");
    assert!(is_result(guessed.candidates[0].confidence), "{guessed:#?}");
}

#[test]
fn members_without_a_volume_give_no_candidate() {
    let dir = tempfile::tempdir().unwrap();
    let members = members(dir.path(), 3);
    for member in &members {
        std::fs::File::create(member).unwrap().set_len(8 << 20).unwrap();
    }
    let guessed = Guess::new().run(&members).unwrap();
    assert!(guessed.candidates.is_empty() && guessed.with_missing.is_none(), "{guessed:#?}");
    assert_eq!((guessed.pieces_found, guessed.unchecked), (0, 0));
    let missing = Guess::new().run([dir.path().join("none")]).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
}

#[test]
fn a_search_that_is_cancelled_says_so() {
    let array = lost(Level::Raid5, 3);
    let token = CancelToken::new();
    let cancel = |_, _| token.cancel();
    let stopped = Guess::new().progress(cancel).cancel(&token).run(&array.members);
    assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Cancelled);
    // In a part of the members only.
    let searched = Mutex::new(0);
    let report = |step, progress: xfskit::Progress| {
        if step == GuessStep::Search {
            *searched.lock().unwrap() = progress.total;
        }
    };
    let scanned = Guess::new().scan(8 << 20).progress(report).run(&array.members).unwrap();
    assert!(scanned.pieces_found > 0, "{scanned:#?}");
    assert_eq!(searched.into_inner().unwrap(), 3 * (8 << 20));
}
