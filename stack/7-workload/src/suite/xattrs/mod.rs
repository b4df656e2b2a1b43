//! Study D: millions of extended attributes and links on one inode.
//!
//! | module | what |
//! | --- | --- |
//! | [`case`] | the space cases, their names and their calls |
//! | [`leaves`] | fill levels of leaves, counted on the volume |
//! | `space` | the cases on every implementation |
//! | `conclusions` | the published conclusions in words |
//! | `extents` | the extent counter of 16 bits |
//! | [`cost`] | processor time over the count |
//! | `links` | parent pointers |
//! | [`published`] | published figures |

pub mod case;
mod conclusions;
pub mod cost;
mod extents;
pub mod leaves;
mod links;
pub mod published;
mod space;

use std::io;

use crate::suite::{Observer, PartPlan, Parts, Settings};
use case::Case;
use cost::Counts;

/// The parameters of the study.
#[derive(Clone, Debug)]
pub struct Options {
    /// Space cases.
    pub cases: Vec<Case>,
    /// The extent counter of 16 bits is made to overflow.
    pub overflow: bool,
    /// Counts of the cost part.
    pub cost: Option<Counts>,
    /// Number of links.
    pub links: Option<u64>,
}

/// Bytes that an attribute with a value of 40 bytes takes on a volume at least.
const ATTRIBUTE: u64 = 72;
/// Bytes that a link with its parent pointer takes on a volume at least.
const LINK: u64 = 90;

/// Returns the cases with published figures, in their order.
pub fn published_cases() -> Vec<Case> {
    let names = published::CLEAN.iter().chain(&published::PARTIAL).map(|row| row.case);
    names.filter_map(|name| name.parse().ok()).collect()
}

impl Default for Options {
    /// The study as published, and ten million links.
    fn default() -> Self {
        let counts = Counts { most: 10_000_000, step: 1_000_000 };
        Self {
            cases: published_cases(),
            overflow: true,
            cost: Some(counts),
            links: Some(10_000_000),
        }
    }
}

/// Runs the study.
///
/// # Errors
/// The errors of the volumes, and of the observer if it stops the suite.
pub fn run(options: &Options, settings: &Settings, observer: &mut dyn Observer) -> io::Result<()> {
    for (count, bytes, what) in [
        (options.cost.as_ref().map_or(0, |counts| counts.most), ATTRIBUTE, "attributes"),
        (options.links.unwrap_or(0), LINK, "links"),
    ] {
        settings.verify_space(count.saturating_mul(bytes), &format!("{count} {what}"))?;
    }
    let (implementations, skipped) = settings.implementations();
    let (partial, clean): (Vec<Case>, Vec<Case>) =
        options.cases.iter().cloned().partition(|case| case.thinning != case::Thinning::Nothing);
    let spaces = [
        ("fresh", "Space: attributes on a fresh volume", clean),
        ("removed", "Space: half removed, then others set or removed", partial),
    ];
    let drivers = implementations.len();
    let each = |cases: &[Case]| cases.len() * drivers;
    let mut plan: Vec<PartPlan> =
        spaces.iter().map(|(part, _, cases)| PartPlan::new(part, each(cases))).collect();
    plan.retain(|plan| !plan.steps.is_empty());
    if options.overflow {
        plan.push(PartPlan::new("extents", drivers));
    }
    if let Some(counts) = &options.cost {
        plan.push(PartPlan::of_lengths("cost", cost::lengths(counts, settings, drivers)));
    }
    if options.links.is_some() {
        plan.push(PartPlan::new("links", links::STEPS * drivers));
    }
    let mut parts = Parts::begin("xattrs", plan, skipped, observer)?;
    for (part, title, cases) in spaces.iter().filter(|(_, _, cases)| !cases.is_empty()) {
        parts.measure(part, |observer| {
            space::section(title, cases, settings, &implementations, observer)
        })?;
    }
    if options.overflow {
        parts.measure("extents", |observer| {
            extents::section(settings, &implementations, observer)
        })?;
    }
    if let Some(counts) = &options.cost {
        parts.measure("cost", |observer| {
            cost::section(counts, settings, &implementations, observer)
        })?;
    }
    if let Some(links) = options.links {
        parts.measure("links", |observer| {
            links::section(links, settings, &implementations, observer)
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::testing::Recorder;
    use crate::suite::testing::{Heard, settings};
    use crate::testbed::Job;

    fn case(name: &str) -> Case {
        name.parse().expect("a case")
    }

    #[test]
    fn nothing_is_wasted_by_the_published_measure() {
        let names =
            ["n4000-40", "n2000-255-d25", "n3000-20-255-40-220-60-o25", "n3000--s-50-60--N-1000"];
        let cases = names.map(case).to_vec();
        let options = Options { cases, overflow: false, cost: None, links: None };
        let mut heard = Heard::default();
        run(&options, &settings(), &mut heard).expect("a study");
        heard.assert_steps();
        assert_eq!(heard.1.len(), 2, "those on a fresh volume, and those partly removed");
        let left = [4000, 1500, 3000, 2500];
        for ((result, name), left) in heard.0.iter().zip(names).zip(left) {
            let of = &result["xattrs"];
            assert_eq!(of["case"], name);
            assert_eq!(of["leaves"]["attributes"], left, "{name}");
            assert_eq!(of["leaves"]["below"], 0, "{name}");
            assert_eq!(of["wasted_percent"], 0.0, "{name}");
        }
    }

    #[test]
    fn the_cost_of_each_count_is_reported_for_each_driver_and_the_harness() {
        let cost = Some(Counts { most: 600, step: 300 });
        let options = Options { cases: Vec::new(), overflow: false, cost, links: None };
        let mut heard = Heard::default();
        run(&options, &settings(), &mut heard).expect("a study");
        heard.assert_steps();
        let reported: Vec<_> = heard
            .0
            .iter()
            .map(|result| {
                let of = &result["xattr_cost"];
                (of["driver"].as_str().expect("a name"), of["count"].as_u64().expect("a count"))
            })
            .collect();
        let expected = ["xfskit", "harness alone"];
        assert_eq!(reported, [300, 600].map(|n| expected.map(|driver| (driver, n))).concat());
        assert_eq!(heard.1[0].tables[0].rows.len(), 12, "each count, driver and operation");
    }

    #[test]
    fn links_have_a_parent_pointer_each_in_both_designs() {
        let options = Options { cases: Vec::new(), overflow: false, cost: None, links: Some(1000) };
        let mut heard = Heard::default();
        run(&options, &settings(), &mut heard).expect("a study");
        heard.assert_steps();
        let steps = |n: usize| -> Vec<(String, u64)> {
            let steps = heard.0[n]["links"]["steps"].as_array().expect("steps").iter();
            let count = |step: &serde_json::Value| step["operations"].as_u64().expect("a count");
            steps.map(|step| (step["step"].as_str().expect("a name").into(), count(step))).collect()
        };
        assert_eq!(steps(0), [("made".into(), 1000)]);
        // The root, two internal inodes, a directory, and the file are left.
        let all = ["made", "listed", "parents", "found", "removed", "checked"].map(String::from);
        let counts = [1000, 1000, 1000, 1001, 1000, 5];
        assert_eq!(steps(1), all.into_iter().zip(counts).collect::<Vec<_>>());
        let attributes = heard.0.iter().map(|result| &result["links"]["leaves"]["attributes"]);
        // The name under which the file was created is a link too.
        assert_eq!(attributes.collect::<Vec<_>>(), [0, 1001, 1000]);
        let bytes = |n: usize| heard.0[n]["links"]["leaves"]["leaves"].as_u64().expect("a count");
        assert!(bytes(2) > bytes(1), "hexadecimal names are longer");
    }

    #[test]
    fn a_full_extent_counter_is_an_error_and_no_corruption() {
        let options = Options { cases: Vec::new(), overflow: true, cost: None, links: None };
        let mut heard = Heard::default();
        run(&options, &settings(), &mut heard).expect("a study");
        heard.assert_steps();
        let of = &heard.0[0]["xattr_extents"];
        assert_eq!(of["extents"], 32_767, "{of}");
        assert_eq!((&of["usable"], &of["clean"]), (&true.into(), &true.into()), "{of}");
        assert_ne!(of["error"], "no error");
        let answer = heard.1[0].answer.as_ref().expect("an answer");
        assert_eq!(answer.figure, "32,767 extents.");
        assert!(answer.verdict.ends_with("can be changed after it, and the volume is clean."));
        assert_eq!(heard.1[0].tables.len(), 1);
    }

    #[test]
    fn the_same_seed_gives_the_same_calls() {
        let calls = |seed| {
            let mut recorder = Recorder::default();
            let case = case("n600-40-60-d25");
            space::Work { case: &case, seed }.run(&mut recorder).expect("no errors");
            cost::Work { count: 50, threads: 2, seed }.run(&mut recorder).expect("no errors");
            recorder.calls()
        };
        assert_eq!(calls(1), calls(1));
        assert_ne!(calls(1), calls(2), "values differ");
    }
}
