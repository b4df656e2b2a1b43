//! Readers of files of an XFS volume on the array, in the way of dd.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use xfskit_units::ByteLen;

use super::content::Content;
use super::members::MemberSet;
use super::readers::{Setup, State};
use super::{Options, Point, ROUND, Study, answers, published, tables, volume};
use crate::report::{Answer, Axis, Cell, Plot, Section, Table};
use crate::suite::{Observer, Settings};
use crate::testbed::Implementation;

/// Measures readers of files of a volume on the array.
pub(super) fn section(
    options: &Options,
    settings: &Settings,
    files: &[Range<u64>],
    observer: &mut dyn Observer,
) -> io::Result<Section> {
    let plan = options.plan;
    let size = volume::room(files).div_ceil(plan.data_members()).next_multiple_of(ROUND);
    let member_set = MemberSet::empty(&options.members, plan.members, size)?;
    let array = member_set.array(&plan, 0, false, ByteLen(options.stripe_cache))?;
    volume::make(&array, files, settings.seed)?;
    drop(array);
    let study = Study { member_set, content: Content::Volume(files.len()), options, settings };
    let small = setups(&study, options.request);
    let small = study.measure("files of a volume", small, observer)?;
    let large = setups(&study, 0);
    let large = study.measure("files of a volume, requests of a full stripe", large, observer)?;
    let Some(mounter) = settings.testbed.mounter.as_ref().filter(|_| wants_mount(settings)) else {
        return Ok(report(&study, &small, &large, &[]));
    };
    let study = Study { content: Content::Mount(files.len(), Arc::clone(mounter)), ..study };
    let mounted = setups(&study, options.request);
    let mounted = study.measure("files of a mount", mounted, observer)?;
    Ok(report(&study, &small, &large, &mounted))
}

fn wants_mount(settings: &Settings) -> bool {
    settings.wants(Implementation::Mount)
}

/// Returns the setups of the states without and with missing members.
fn setups(study: &Study<'_>, request: u64) -> Vec<Setup> {
    let missing = 0..=study.options.plan.tolerates().min(2);
    let setup = |n| Setup { state: State::Missing(n), request, ..study.default_setup() };
    missing.map(setup).collect()
}

/// Formats the section.
fn report(study: &Study<'_>, small: &[Point], large: &[Point], mounted: &[Point]) -> Section {
    let (plan, options) = (study.options.plan, study.options);
    let mut section = Section::new("Degraded reads: files of an XFS volume on the array");
    let kib = options.request >> 10;
    section.answer = Some(answer(small, kib));
    section.paragraph(format!(
        "{} readers on {} as dd reads: each opens a file of an XFS volume, reads it from start to end in requests of one size, \
         closes it, and opens another one at random. mkfs and the writes are this program's, with the array healthy. The volume \
         is opened for reading only. Each request is verified by the mark of its first block.",
        options.readers,
        plan.describe(),
    ));
    if !mounted.is_empty() {
        section.paragraph(
            "Through the mount, the volume is mounted by this process, and each reader opens and reads files by system calls, past \
             the kernel's cache (O_DIRECT).",
        );
    }
    let columns: Vec<_> = tables::COST.to_vec();
    let mut table = Table::new("Files of a volume", &columns);
    let rows = [
        (small, format!("{kib} KiB")),
        (large, "a full stripe".into()),
        (mounted, format!("{kib} KiB through a mount")),
    ];
    for (points, what) in rows {
        let healthy = points.first().map_or(f64::NAN, |point| point.rate.median());
        for point in points {
            let name = format!("requests of {what}, {}", point.setup.state.name());
            table.row(name, &study.member_set.storage, tables::cost_cells(point, healthy));
        }
    }
    for (state, stripes, rate) in published::READ {
        let cache = stripes.map_or(String::new(), |n| format!(", stripe_cache_size {n}"));
        let mut cells = vec![Cell::None; columns.len()];
        (cells[0], cells[2]) = (Cell::Number(rate, 0), Cell::Number(rate / 8000.0, 3));
        table.published(format!("{state}{cache}"), published::ON, cells);
    }
    section.tables.push(table);
    let names = small.iter().map(|point| point.setup.state.name()).collect();
    let lines = [
        (format!("requests of {kib} KiB"), small),
        ("of a full stripe".into(), large),
        (format!("{kib} KiB through a mount"), mounted),
    ];
    let lines = lines
        .into_iter()
        .filter(|(_, points)| !points.is_empty())
        .map(|(name, points)| tables::line(&name, points.iter(), |n, _| n + 1));
    section.plots.push(Plot {
        title: format!(
            "{}, {} readers of files: throughput by state",
            plan.describe(),
            options.readers
        ),
        x: Axis::named("state", names),
        y: Axis::linear("throughput, MB/s"),
        lines: lines.chain([tables::published_states()]).collect(),
    });
    section
}

/// Returns the answer to what readers of files keep.
fn answer(points: &[Point], kib: u64) -> Answer {
    let of = |state| points.iter().find(|point| point.setup.state == state);
    let kept = answers::kept(of(State::Missing(1)), of(State::Missing(0)));
    Answer {
        question: "What do readers of files keep if a member of their array is missing?".into(),
        verdict: sentence(points, kib),
        figure: kept.unwrap_or_default(),
        published: "200 to 1,000 of about 8,000 MB/s.".into(),
    }
}

/// Describes what readers of files lose with one failed member.
fn sentence(points: &[Point], kib: u64) -> String {
    let of = |state| {
        let point = points.iter().find(|point| point.setup.state == state);
        point.filter(|point| !point.is_too_short()).map(|point| point.rate.median())
    };
    match (of(State::Missing(0)), of(State::Missing(1))) {
        (Some(healthy), Some(failed)) => format!(
            "Readers of files with requests of {kib} KiB keep {:.2} of the rate of the healthy array with one member failed: {} \
             of {} MB/s.",
            failed / healthy,
            Cell::Number(failed, 0),
            Cell::Number(healthy, 0)
        ),
        (Some(healthy), None) => format!(
            "Readers of files with requests of {kib} KiB read {} MB/s from the healthy array.",
            Cell::Number(healthy, 0)
        ),
        (None, _) => "The healthy array was not measured for long enough.".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tables::testing::point;
    use super::*;

    #[test]
    fn readers_of_files_have_a_sentence_for_every_outcome() {
        let failed = |rate| {
            let mut point = point(rate);
            point.setup.state = State::Missing(1);
            point
        };
        let text = sentence(&[point(1000), failed(920)], 1024);
        assert!(text.contains("keep 0.92") && text.ends_with("920 of 1,000 MB/s."), "{text}");
        let text = sentence(&[point(1000), failed(4)], 1024);
        assert!(text.ends_with("1,000 MB/s from the healthy array."), "{text}");
        assert!(sentence(&[], 1024).contains("not measured for long enough"));
    }
}
