//! A small share of `make damage`.

use std::path::Path;

use xfskit_test_damage::case::Filter;
use xfskit_test_damage::populate::Kind;
use xfskit_test_damage::report::Report;
use xfskit_test_damage::run::{Amount, run};
use xfskit_test_damage::trial::Class;
use xfskit_test_support::{Need, needs, seed};

/// Tries so many cases of a group of structures, or of all.
fn try_some(kind: &Kind, structure: Option<&str>, cases: usize) -> Report {
    let program = Path::new(env!("CARGO_BIN_EXE_xfskit-damage"));
    let filter = Filter { structure: structure.map(str::to_owned), ..Filter::default() };
    let amount = Amount { cases, ..Amount::default() };
    let report = run(program, kind, &filter, seed(1), &amount, None).expect("the cases are tried");
    assert_eq!(report.tried.len(), cases, "{structure:?}");
    report
}

fn mends_without_loss(structure: &str) {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    for tried in try_some(&Kind::ALL[0], Some(structure), 8).tried {
        let outcome = &tried.ours;
        assert!(outcome.class <= Class::Mended, "{}: {outcome:?}", tried.case);
    }
}

#[test]
fn a_damaged_agf_is_mended_without_loss() {
    mends_without_loss("agf");
}

#[test]
fn a_damaged_rmapbt_is_mended_without_loss() {
    mends_without_loss("rmapbt");
}

#[test]
fn no_damage_leaves_a_volume_unclean_that_is_called_clean() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    for kind in &Kind::ALL[..2] {
        let report = try_some(kind, None, 12);
        let broken: Vec<_> = report.broken().map(|tried| (&tried.case, &tried.ours)).collect();
        assert!(broken.is_empty(), "{broken:?}");
        // A harness that never damages anything would find nothing either.
        let harmed = report.tried.iter().filter(|tried| tried.check.is_some()).count();
        assert!(harmed > 0, "{}: check finds nothing in any case", kind.name);
    }
}

#[test]
fn damage_of_a_volume_with_parent_pointers_is_tried_with_the_newer_tools() {
    if !needs(&[Need::Xfsprogs, Need::NewerXfsprogs, Need::Mount]) {
        return;
    }
    let report = try_some(&Kind::ALL[2], Some("agi"), 4);
    assert!(report.broken().next().is_none(), "{}", report.text());
}
