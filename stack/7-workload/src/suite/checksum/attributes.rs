//! dbench by size of inode: whether it matters that files keep their attributes in their inodes.
//!
//! The published surprise: without checksums inodes had 256 bytes and attributes needed a block of
//! their own, with checksums they had 512 and held them, and dbench became faster. Here the
//! attributes are those of a current file server, which fit into 1,024 bytes and not into 512.

use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use xfskit_core::Volume;
use xfskit_core::chunks::Entry;
use xfskit_format::inode::Format;

use super::figures::{Figures, published_row};
use super::{Column, Dbench, Options, Study, TABLE_NOTE, dbench_options, dbench_text, published};
use crate::Driver;
use crate::driver::Counters;
use crate::measure::{Decision, Samples, interval_note, short};
use crate::program::dbench::{self, load::Load, tally::Outcome};
use crate::report::{Answer, Axis, Cell, Line, Plot, Section, Source, Table};
use crate::testbed::Job;

/// Inode sizes that dbench runs with, in bytes. The first one is the base of comparisons.
pub(super) const INODE_SIZES: [u32; 3] = [512, 1024, 2048];

/// Differences up to this part are none.
const SAME: f64 = 0.02;

fn rate_of(inode_size: u32) -> String {
    format!("inodes of {inode_size} bytes, throughput (MB/s)")
}

/// Where the files of a volume keep their attributes.
#[derive(Debug, Default)]
struct Kept {
    in_inode: AtomicU64,
    in_blocks: AtomicU64,
    without: AtomicU64,
}

impl Kept {
    fn of(volume: &Volume, threads: usize) -> io::Result<Self> {
        let kept = Self::default();
        let count = |entries: &[Entry<'_>]| {
            let inodes = entries.iter().filter_map(|entry| entry.inode.as_ref().ok());
            for inode in inodes.filter(|inode| inode.is_regular()) {
                let counter = match (inode.attr_fork(), inode.aformat()) {
                    (None, _) => &kept.without,
                    (Some(_), Some(Format::Local)) => &kept.in_inode,
                    (Some(_), _) if inode.anextents() == 0 => &kept.without,
                    (Some(_), _) => &kept.in_blocks,
                };
                counter.fetch_add(1, Ordering::Relaxed);
            }
            ControlFlow::Continue(())
        };
        volume.bulkstat(threads, count).map_err(io::Error::other)?;
        Ok(kept)
    }

    /// Returns the files with attributes in the inode, in blocks, and without any.
    fn counts(&self) -> [u64; 3] {
        [&self.in_inode, &self.in_blocks, &self.without].map(|count| count.load(Ordering::Relaxed))
    }
}

/// dbench, with the filesystem's counters of the same time.
struct Counted<'d>(Dbench<'d>);

impl Job for Counted<'_> {
    type Output = (Outcome, Counters);

    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<(Outcome, Counters)> {
        let before = driver.counters().unwrap_or_default();
        let outcome = self.0.run(driver)?;
        let after = driver.counters().unwrap_or_default();
        Ok((outcome, after.since(&before)))
    }
}

/// The figures of one size of inodes and one column.
#[derive(Debug, Default)]
struct Measured {
    inode_size: u32,
    column: Option<Column>,
    rate: Samples,
    /// Seconds that each rate was measured in.
    seconds: Samples,
    /// With less time than this there is no rate.
    least: Duration,
    /// Journal bytes of an operation.
    journal: Samples,
    kept: [u64; 3],
}

/// Measures every size and column in turn, and formats the section.
pub(super) fn section(study: &mut Study<'_>, passes: u64, of: &Options) -> io::Result<Section> {
    let (text, described) = dbench_text(study.settings, of);
    let load = Load::parse(&text).map_err(io::Error::other)?;
    let left = Load::parse(without_removal(&text)).map_err(io::Error::other)?;
    let options = dbench_options(study.settings, passes);
    let (mut figures, mut sizes) = (Figures::of_threads(options.clients), Vec::new());
    let least = short::time_min_here(options.clients);
    for turn in 0..study.settings.repetitions {
        for n in 0..INODE_SIZES.len() {
            let inode_size = INODE_SIZES[(n + turn) % INODE_SIZES.len()];
            let mut settings = study.settings.clone();
            settings.testbed.mkfs.inode_size = Some(inode_size);
            let what = format!("dbench, inodes of {inode_size} bytes");
            study.turn(&what, turn, &settings, |column, volume| {
                let job = Dbench { load: &load, options: &options };
                let (outcome, counters) = volume.run(&mut Counted(job))?;
                let seconds = outcome.elapsed.as_secs_f64();
                figures.add((&rate_of(inode_size), 2), column, outcome.throughput(), seconds);
                let worst = outcome.all().max().as_secs_f64() * 1e3;
                let latency = format!("inodes of {inode_size} bytes, worst latency (ms)");
                figures.add((&latency, 3), column, worst, seconds);
                let size = size_of(&mut sizes, inode_size, column);
                size.least = least;
                size.add(&outcome, &counters);
                if turn == 0 {
                    let once = dbench::Options { loops: Some(1), ..options.clone() };
                    volume.run(&mut Dbench { load: &left, options: &once })?;
                    size.kept = Kept::of(&volume.open_read_only()?, options.clients)?.counts();
                }
                Ok(())
            })?;
        }
    }
    figures.sort_by_key(order);
    sizes.sort_by_key(|size| (size.column.map(|column| column as usize), size.inode_size));
    figures.report("dbench", study.observer)?;
    for size in &sizes {
        study.observer.result(size.to_json())?;
    }
    let mut section = Section::new("Checksums: dbench");
    section.answer = answer(&sizes);
    if let Some((small, large)) = compared(&sizes) {
        section.paragraph(reason(small, large));
    }
    section.paragraph(format!(
        "{} clients repeat {described} {passes} times. Files have the attributes that a Samba server writes: {}. They fit into \
         inodes of 1024 bytes, and need a block of their own with inodes of 512; values of more than 255 bytes would need one \
         with any. In the published study that was the largest \
         effect: with checksums inodes had 512 bytes instead of 256, and held their attributes.",
        study.settings.threads,
        dbench::SAMBA.map(|attr| format!("{} of {} bytes", attr.name, attr.len)).join(" and "),
    ));
    let storage = study.settings.testbed.storage();
    let mut table = figures.table("Throughput and latency", &storage);
    for pair in &published::DBENCH {
        published_row(&mut table, pair, if pair.name.ends_with("(ms)") { 3 } else { 2 });
    }
    table.note(TABLE_NOTE);
    table.note(interval_note(study.settings.repetitions));
    section.tables.push(table);
    section.tables.push(table_of(&sizes, &storage, study.settings.repetitions));
    section.plots.push(plot(&sizes));
    Ok(section)
}

/// Sorts by size, throughput first.
fn order(name: &str) -> (u32, bool) {
    let size = name.split(' ').find_map(|word| word.parse().ok()).unwrap_or(0);
    (size, name.ends_with("(ms)"))
}

/// Returns a load without the removal of everything at its end, so that files are left.
pub(super) fn without_removal(text: &str) -> &str {
    let mut text = text.trim_end();
    while let Some((rest, last)) = text.rsplit_once('\n')
        && last.starts_with("Deltree")
    {
        text = rest.trim_end();
    }
    text
}

/// Returns the figures of this size and column.
fn size_of(sizes: &mut Vec<Measured>, inode_size: u32, column: Column) -> &mut Measured {
    let same = |size: &Measured| size.inode_size == inode_size && size.column == Some(column);
    let at = sizes.iter().position(same).unwrap_or_else(|| {
        sizes.push(Measured { inode_size, column: Some(column), ..Measured::default() });
        sizes.len() - 1
    });
    &mut sizes[at]
}

impl Measured {
    /// Adds a turn.
    #[allow(clippy::cast_precision_loss)] // of a mean
    fn add(&mut self, outcome: &Outcome, counters: &Counters) {
        self.rate.add(outcome.throughput());
        self.seconds.add_time(outcome.elapsed);
        let lines = outcome.all().lines.max(1);
        self.journal.add(counters.log_bytes as f64 / lines as f64);
    }

    /// Returns true if the turns were too short to have a rate.
    fn is_too_short(&self) -> bool {
        short::is_too_short(&self.seconds, self.least)
    }

    fn name(&self) -> String {
        let column = self.column.map_or("", Column::name);
        format!("inodes of {} bytes, {column}", self.inode_size)
    }

    fn to_json(&self) -> serde_json::Value {
        let [in_inode, in_blocks, without] = self.kept;
        json!({ "dbench_attributes": {
            "column": self.column.map(Column::name),
            "inode_bytes": self.inode_size,
            "mb_per_second": self.rate,
            "too_short": self.is_too_short(),
            "journal_bytes_per_operation": self.journal,
            "files_with_attributes_in_the_inode": in_inode,
            "files_with_attributes_in_blocks": in_blocks,
            "files_without_attributes": without,
        }})
    }
}

/// Returns the figures with checksums of the smallest size of inodes and of the next one.
fn compared(sizes: &[Measured]) -> Option<(&Measured, &Measured)> {
    let of = |inode_size| {
        let same =
            |size: &&Measured| size.inode_size == inode_size && size.column == Some(Column::Best);
        sizes.iter().find(same)
    };
    Some((of(INODE_SIZES[0])?, of(INODE_SIZES[1])?))
}

/// Returns the answer to whether larger inodes are faster.
fn answer(sizes: &[Measured]) -> Option<Answer> {
    let (small, large) = compared(sizes)?;
    let of = |size: &Measured| {
        format!("{} bytes {} MB/s", size.inode_size, Cell::Number(size.rate.median(), 0))
    };
    let (verdict, figure) = if small.is_too_short() || large.is_too_short() {
        (short::not_measured("the load"), String::new())
    } else {
        (sentence(small, large), format!("Inodes of {}, of {}.", of(small), of(large)))
    };
    let [narrow, _, wide, _] = published::DBENCH;
    Some(Answer {
        question: "Is a file server faster if inodes hold the attributes of their files?".into(),
        verdict,
        figure,
        published: format!(
            "inodes of 256 bytes {} MB/s, of 512 {} MB/s.",
            Cell::Number(narrow.off, 0),
            Cell::Number(wide.off, 0)
        ),
    })
}

/// Describes whether larger inodes are faster with checksums.
fn sentence(small: &Measured, large: &Measured) -> String {
    let turns = large.rate.count().min(small.rate.count());
    let times = large.rate.paired_ratio_to(&small.rate).interval(turns);
    let range = format!("{} times", times.range(|times| format!("{times:.3}")));
    let claim = format!(
        "dbench with inodes of {} bytes has {:.3} times the throughput of {} bytes",
        large.inode_size, times.middle, small.inode_size
    );
    let same = times.at_least(1.0 - SAME).and(times.at_most(1.0 + SAME));
    if same == Decision::Shown {
        return format!("The published effect is absent: {claim} ({range}).");
    }
    times.above(1.0).sentence(
        &format!("The published effect is shown: {claim}"),
        &format!("The effect is the opposite of the published one: {claim}"),
        &range,
        turns,
    )
}

/// Describes where the attributes are, and what that costs.
fn reason(small: &Measured, large: &Measured) -> String {
    let share = |size: &Measured| {
        let [in_inode, in_blocks, _] = size.kept;
        format!("{} of {}", Cell::Count(in_inode), Cell::Count(in_inode + in_blocks))
    };
    let journal = |size: &Measured| Cell::Number(size.journal.median(), 0);
    format!(
        "Of the files of a pass, {} keep their attributes in the inode with {} bytes, and {} with {}. The journal has {} \
         bytes for each operation with {} bytes, and {} with {}.",
        share(large),
        large.inode_size,
        share(small),
        small.inode_size,
        journal(large),
        large.inode_size,
        journal(small),
        small.inode_size,
    )
}

fn table_of(sizes: &[Measured], storage: &str, turns: usize) -> Table {
    let columns = [
        ("throughput", "MB/s"),
        ("of 512 bytes", "times"),
        ("at least", ""),
        ("at most", ""),
        ("journal", "bytes each"),
        ("attributes in the inode", "files"),
        ("in blocks", "files"),
        ("none", "files"),
        ("turns", ""),
    ];
    let mut table = Table::new("By size of inode, and where the attributes are", &columns);
    for size in sizes {
        let base = sizes
            .iter()
            .find(|base| base.column == size.column && base.inode_size == INODE_SIZES[0]);
        let is_short = |base: &&Measured| size.is_too_short() || base.is_too_short();
        let base = base.filter(|base| !is_short(base));
        let ratio = base.map(|base| size.rate.paired_ratio_to(&base.rate));
        let rate = if size.is_too_short() { f64::NAN } else { size.rate.median() };
        let [ratio, low, high] = ratio.map_or([f64::NAN; 3], |it| [it.ratio, it.low, it.high]);
        let [in_inode, in_blocks, without] = size.kept.map(Cell::Count);
        let cells = vec![
            Cell::Number(rate, 2),
            Cell::Number(ratio, 3),
            Cell::Number(low, 3),
            Cell::Number(high, 3),
            Cell::Number(size.journal.median(), 0),
            in_inode,
            in_blocks,
            without,
            Cell::Count(size.rate.count() as u64),
        ];
        table.row(size.name(), storage, cells);
    }
    table.note(
        "Sizes and columns alternate within a turn. Each is an operation of the load. The files are those of one more pass in the \
         first turn, which does not remove them.",
    );
    if let Some(short) = sizes.iter().find(|size| size.is_too_short()) {
        table.note(short::note("a load", short.least));
    }
    table.note(interval_note(turns));
    table
}

/// Plots the throughput by size, and the published one.
fn plot(sizes: &[Measured]) -> Plot {
    let mut lines: Vec<Line> = Vec::new();
    for size in sizes.iter().filter(|size| !size.is_too_short()) {
        let Some(column) = size.column else { continue };
        let point = (f64::from(size.inode_size), size.rate.median());
        match lines.iter_mut().find(|line| line.name == column.name()) {
            Some(line) => line.points.push(point),
            None => lines.push(Line {
                name: column.name().into(),
                source: Source::Measured,
                points: vec![point],
            }),
        }
    }
    let [small, _, large, _] = published::DBENCH;
    lines.push(Line {
        name: "kernel XFS of 2013, without checksums".into(),
        source: Source::Published,
        points: vec![(256.0, small.off), (512.0, large.off)],
    });
    Plot {
        title: "dbench: throughput by size of inode".into(),
        x: Axis::logarithmic("inode, bytes"),
        y: Axis::linear("throughput, MB/s"),
        lines,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::checksum::tests::settings;
    use crate::suite::testing::Heard;

    fn size(inode_size: u32, rates: &[f64], kept: [u64; 3]) -> Measured {
        let samples = |values: &[f64]| values.iter().copied().collect::<Samples>();
        Measured {
            inode_size,
            column: Some(Column::Best),
            rate: samples(rates),
            seconds: samples(&[1.0]),
            least: short::STEP_MIN,
            journal: samples(&[100.0]),
            kept,
        }
    }

    #[test]
    fn every_outcome_has_its_sentence_and_its_reason() {
        let base = || size(512, &[100.0, 101.0, 99.0, 100.0], [0, 40, 2]);
        let text = |large: &[f64]| sentence(&base(), &size(1024, large, [41, 0, 1]));
        let shown = text(&[112.0, 113.0, 111.0, 112.0]);
        assert!(
            shown.starts_with("The published effect is shown") && shown.contains("1.12"),
            "{shown}"
        );
        assert!(text(&[90.0, 91.0, 89.0, 90.0]).starts_with("The effect is the opposite"));
        assert!(text(&[100.0, 101.0, 99.0, 100.0]).starts_with("The published effect is absent"));
        assert!(text(&[120.0, 101.0, 80.0, 95.0]).starts_with("Not decided by this run"));
        let one = sentence(&size(512, &[100.0], [0; 3]), &size(1024, &[120.0], [0; 3]));
        assert!(one.starts_with("Not decided by one turn: 1.200 times."), "{one}");
        let sizes = [base(), size(1024, &[112.0, 113.0, 111.0, 112.0], [41, 0, 1])];
        let why = reason(&sizes[0], &sizes[1]);
        let kept = "41 of 41 keep their attributes in the inode with 1024 bytes, and 0 of 40";
        assert!(why.contains(kept), "{why}");
        let answered = answer(&sizes).expect("an answer");
        assert_eq!(answered.figure, "Inodes of 512 bytes 100 MB/s, of 1024 bytes 112 MB/s.");
        assert_eq!(answered.published, "inodes of 256 bytes 1,098 MB/s, of 512 1,273 MB/s.");
        assert!(answer(&[]).is_none());
        let [small, large] = sizes;
        let large = Measured { seconds: [0.009].into_iter().collect(), ..large };
        let sizes = [small, large];
        let short = answer(&sizes).expect("a question");
        assert_eq!(short.verdict, "Not measured: the load was too short.");
        assert_eq!(short.figure, "");
        let table = table_of(&sizes, "memory", 4);
        let shown = |row: usize| table.rows[row].cells[..2].iter().map(ToString::to_string);
        assert_eq!(shown(0).collect::<Vec<_>>(), ["100.00", "1.000"]);
        assert_eq!(shown(1).collect::<Vec<_>>(), ["–", "–"]);
        assert!(table.notes.iter().any(|note| note.contains("a load of less than 10 ms")));
        let lines = plot(&sizes).lines;
        assert_eq!(lines[0].points, [(512.0, 100.0)], "and no point for 1024 bytes");
    }

    #[test]
    fn a_load_without_the_removal_at_its_end_leaves_files() {
        assert_eq!(without_removal("Mkdir \"a\"\nDeltree \"a\"\n\n"), "Mkdir \"a\"");
        assert_eq!(without_removal("Deltree \"a\"\nMkdir \"a\""), "Deltree \"a\"\nMkdir \"a\"");
    }

    #[test]
    fn a_servers_attributes_are_in_inodes_of_1024_bytes_and_not_of_512() {
        let mut heard = Heard::default();
        let settings = settings(1);
        let columns = vec![Column::Best];
        let mut study = Study { settings: &settings, columns, observer: &mut heard };
        let options = Options {
            files: None,
            passes: Some(1),
            loadfile: None,
            originals: false,
            runs: None,
            trees: 0,
            tree_files: 0,
        };
        let section = section(&mut study, 1, &options).expect("dbench");
        assert_eq!(section.tables.len(), 2);
        let kept = |result: &serde_json::Value| {
            let of = &result["dbench_attributes"];
            let count = |key: &str| of[key].as_u64();
            Some((
                of["inode_bytes"].as_u64()?,
                count("files_with_attributes_in_the_inode")?,
                count("files_with_attributes_in_blocks")?,
            ))
        };
        let kept: Vec<_> = heard.0.iter().filter_map(kept).collect();
        assert_eq!(kept.len(), INODE_SIZES.len(), "{kept:?}");
        for (inode_size, in_inode, in_blocks) in kept {
            let (inside, outside) = (in_inode > 0, in_blocks > 0);
            assert_eq!((inside, outside), (inode_size > 512, inode_size == 512), "{inode_size}");
        }
    }
}
