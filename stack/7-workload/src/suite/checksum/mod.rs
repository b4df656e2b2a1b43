//! Study A: the cost of metadata checksums.
//!
//! The same programs run without and with checksums. *Without* is version 5 of the format with the
//! computation skipped ([`xfskit_crc::skip()`]): the same bytes are read and written except for the
//! checksums, so that nothing else differs. *With* means the best routine of the processor and,
//! beside it, the portable one. The kernel no longer mounts version 4, so its column has checksums
//! on. All columns alternate, and each turn has a volume of its own.
//!
//! | module | what |
//! | --- | --- |
//! | `figures` | without, with, the difference and its confidence |
//! | `attributes` | dbench by size of inode, and where files keep their attributes |
//! | `original` | the original programs beside ours of the same name |
//! | `share` | the share of processor time in checksums, and where the rest goes |
//! | [`published`] | published figures |

mod attributes;
mod figures;
mod original;
pub mod published;
mod share;

use std::io;

use xfskit_crc::Skipping;

use crate::Driver;
use crate::measure::{Decision, Interval, interval_note, short};
use crate::program::compilebench;
use crate::program::dbench::{self, load::Load, mix, tally::Outcome};
use crate::report::{Answer, Cell, Section, Table};
use crate::suite::inodes::shape::{Plan, Shape};
use crate::suite::inodes::step::{self, Step};
use crate::suite::{Observer, PartPlan, Parts, Settings};
use crate::testbed::{Implementation, Job, TestVolume};
use figures::{Figures, emulated_rows, published_row};

/// The parameters of the study.
#[derive(Clone, Debug)]
pub struct Options {
    /// fs_mark: files per thread; `None` skips the program.
    pub files: Option<u64>,
    /// dbench: passes of each client through its load; `None` skips the program.
    pub passes: Option<u64>,
    /// dbench: the text of a loadfile and its name; without one the load is generated.
    pub loadfile: Option<(String, String)>,
    /// Measure the original programs, if they are installed and the kernel takes part.
    pub originals: bool,
    /// compilebench: operations; `None` skips the program.
    pub runs: Option<usize>,
    /// Trees that compilebench creates first.
    pub trees: usize,
    /// Files of such a tree.
    pub tree_files: usize,
}

impl Options {
    /// Returns true if one of the programs has an original.
    fn has_originals(&self) -> bool {
        self.files.is_some() || self.passes.is_some()
    }
}

/// A column of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// The engine without checksums.
    Off,
    /// The engine with the best routine.
    Best,
    /// The engine with the portable routine.
    Table,
    /// The kernel with checksums.
    Kernel,
}

impl Column {
    const ALL: [Self; 4] = [Self::Off, Self::Best, Self::Table, Self::Kernel];

    fn implementation(self) -> Implementation {
        if self == Self::Kernel { Implementation::Kernel } else { Implementation::Engine }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Off => "without checksums",
            Self::Best => "with checksums",
            Self::Table => "with checksums by table",
            Self::Kernel => "kernel XFS",
        }
    }
}

/// Selects a column's way to compute checksums until it is dropped.
struct Selected {
    _skipping: Option<Skipping>,
    /// The routine to restore; skipping restores it by itself.
    before: Option<&'static str>,
}

impl Column {
    fn select(self) -> Selected {
        let before = xfskit_crc::selected();
        if self == Self::Table {
            xfskit_crc::select("table");
        }
        let off = self == Self::Off;
        Selected { _skipping: off.then(xfskit_crc::skip), before: (!off).then_some(before) }
    }
}

impl Drop for Selected {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            xfskit_crc::select(before);
        }
    }
}

/// The context of all parts of the study.
struct Study<'s> {
    settings: &'s Settings,
    columns: Vec<Column>,
    observer: &'s mut dyn Observer,
}

impl<'s> Study<'s> {
    fn new(settings: &'s Settings, columns: &[Column], observer: &'s mut dyn Observer) -> Self {
        Self { settings, columns: columns.to_vec(), observer }
    }

    /// Runs `work` on a new volume for each column, repeated and interleaved.
    fn turns(
        &mut self,
        what: &str,
        settings: &Settings,
        mut work: impl FnMut(Column, &mut TestVolume) -> io::Result<()>,
    ) -> io::Result<()> {
        (0..self.settings.repetitions)
            .try_for_each(|turn| self.turn(what, turn, settings, &mut work))
    }

    /// Runs `work` on a new volume for each column.
    fn turn(
        &mut self,
        what: &str,
        turn: usize,
        settings: &Settings,
        mut work: impl FnMut(Column, &mut TestVolume) -> io::Result<()>,
    ) -> io::Result<()> {
        for n in 0..self.columns.len() {
            // The first one in a turn may have an advantage, so each column is first in turn.
            let column = self.columns[(n + turn) % self.columns.len()];
            self.observer.progress(&format!("{what}, turn {}: {}", turn + 1, column.name()))?;
            let _selected = column.select();
            let mut volume = settings.volume(column.implementation())?;
            work(column, &mut volume)?;
            volume.unmount()?;
        }
        Ok(())
    }
}

/// Bytes of an inode.
const INODE: u64 = 512;

/// Runs the study.
///
/// # Errors
/// The errors of the volumes, and of the observer if it stops the suite.
pub fn run(options: &Options, settings: &Settings, observer: &mut dyn Observer) -> io::Result<()> {
    let (implementations, skipped) = settings.implementations_below();
    let kernel = implementations.contains(&Implementation::Kernel);
    let columns = Column::ALL.into_iter().filter(|column| kernel || *column != Column::Kernel);
    let columns: Vec<Column> = columns.collect();
    let turns = settings.repetitions * columns.len();
    if let Some(files) = options.files {
        let all = files.saturating_mul(settings.threads as u64);
        settings.verify_space(all.saturating_mul(INODE), &format!("{all} inodes"))?;
    }
    let originals = options.originals && kernel && options.has_originals();
    // A share of each routine, and a profile of each implementation.
    let shares = SHARES.len() + implementations.len();
    let mut plan = Vec::new();
    if options.files.is_some() {
        plan.extend([PartPlan::new("fs-mark", turns), PartPlan::new("shares", shares)]);
    }
    if options.passes.is_some() {
        plan.push(PartPlan::new("dbench", attributes::INODE_SIZES.len() * turns));
    }
    if options.runs.is_some() {
        plan.push(PartPlan::new("compilebench", turns));
    }
    if originals {
        plan.push(PartPlan::new(
            "originals",
            settings.repetitions * original::runs(options, settings),
        ));
    }
    let mut parts = Parts::begin("checksum", plan, skipped, observer)?;
    if let Some(files) = options.files {
        parts.measure("fs-mark", |observer| {
            Study::new(settings, &columns, observer).fs_mark(files)
        })?;
        parts
            .measure("shares", |observer| Study::new(settings, &columns, observer).shares(files))?;
    }
    if let Some(passes) = options.passes {
        parts.measure("dbench", |observer| {
            let mut study = Study::new(settings, &columns, observer);
            attributes::section(&mut study, passes, options)
        })?;
    }
    if let Some(runs) = options.runs {
        parts.measure("compilebench", |observer| {
            Study::new(settings, &columns, observer).compilebench(runs, options)
        })?;
    }
    if originals {
        parts.measure("originals", |observer| {
            original::section(&mut Study::new(settings, &columns, observer), options)
        })?;
    }
    Ok(())
}

/// The columns whose share of the processor is measured.
const SHARES: [Column; 2] = [Column::Best, Column::Table];

/// Goal: the time that checksums may cost, in percent.
const GOAL: f64 = 2.0;
/// The rows that the goal applies to.
const CREATE: &str = "create, time (s)";
const WALK: &str = "walk, time (s)";
/// The same rows in processor time, which is more reliable on a busy machine.
const CREATE_PROCESSOR: &str = "create, processor (s)";
const WALK_PROCESSOR: &str = "walk, processor (s)";

/// Returns the parameters of fs_mark. The same seed gives the same calls with every driver.
fn plan(settings: &Settings, files: u64) -> Plan {
    Plan {
        shape: Shape::Separate,
        threads: settings.threads,
        files,
        loops: 1,
        size: 0,
        subdirs: 10,
        seed: settings.seed,
    }
}

/// The steps of the fs_mark part.
const STEPS: [Step; 3] = [Step::Create, Step::Find, Step::Remove];

/// Returns the text of the load, and its description.
fn dbench_text(settings: &Settings, options: &Options) -> (String, String) {
    match &options.loadfile {
        Some((text, name)) => (text.clone(), format!("the load {name}")),
        None => {
            (mix::text(settings.seed), "a generated load, in place of dbench's recorded one".into())
        }
    }
}

fn dbench_options(settings: &Settings, passes: u64) -> dbench::Options {
    dbench::Options {
        clients: settings.threads,
        loops: Some(passes),
        xattrs: &dbench::SAMBA,
        // A volume of its own is its clean-up.
        cleanup: false,
        seed: settings.seed,
        ..dbench::Options::default()
    }
}

fn compilebench_options(
    settings: &Settings,
    runs: usize,
    options: &Options,
) -> compilebench::Options {
    compilebench::Options {
        initial: options.trees,
        runs,
        files: options.tree_files,
        seed: settings.seed,
        ..compilebench::Options::default()
    }
}

impl Study<'_> {
    /// Measures creating, walking and removing files.
    fn fs_mark(&mut self, files: u64) -> io::Result<Section> {
        let settings = self.settings;
        let plan = plan(settings, files);
        let mut figures = Figures::of_threads(plan.threads);
        self.turns("fs_mark", settings, |column, volume| {
            for step in STEPS {
                let Some(done) = step::run(volume, step, &plan)? else { continue };
                let wall = done.usage.wall.as_secs_f64();
                let processor = done.usage.processor.as_secs_f64();
                match step {
                    Step::Create => {
                        #[allow(clippy::cast_precision_loss)] // of a rate
                        let rate = done.operations.unwrap_or(0) as f64 / wall;
                        figures.add((CREATE, 3), column, wall, wall);
                        figures.add((CREATE_PROCESSOR, 3), column, processor, wall);
                        figures.add(("create, rate (1/s)", 0), column, rate, wall);
                    }
                    Step::Find => {
                        figures.add((WALK, 3), column, wall, wall);
                        figures.add((WALK_PROCESSOR, 3), column, processor, wall);
                    }
                    _ => figures.add(("unlink, time (s)", 3), column, wall, wall),
                }
            }
            Ok(())
        })?;
        figures.report("fs_mark", self.observer)?;
        let mut section = Section::new("Checksums: fs_mark");
        section.paragraph(format!(
            "{} threads create {} empty files each, then walk all names with their inodes, then remove everything. \
             Caches are dropped before each step, and the time includes the final sync. Without checksums means \
             version 5 with the computation skipped.",
            plan.threads,
            Cell::Count(files),
        ));
        section.answer = Some(answer(&figures));
        section.paragraph(self.goal_text(&figures));
        let mut table = figures.table("Create, walk, unlink", &settings.testbed.storage());
        for pair in &published::FS_MARK {
            published_row(&mut table, pair, 0);
        }
        emulated_rows(&mut table);
        table.note(TABLE_NOTE);
        table.note(interval_note(self.settings.repetitions));
        section.tables.push(table);
        #[allow(clippy::cast_precision_loss)] // of a time
        let all = (plan.threads as u64 * files) as f64;
        for (row, step) in [(CREATE, "create"), (WALK, "walk")] {
            section.plots.extend(figures.turns(row, step, all));
        }
        Ok(section)
    }

    /// Compares the differences with the goal.
    fn goal_text(&self, figures: &Figures) -> String {
        let rows = [
            (CREATE, "create"),
            (WALK, "walk"),
            (CREATE_PROCESSOR, "create, processor time"),
            (WALK_PROCESSOR, "walk, processor time"),
        ];
        let texts = rows.map(|(row, name)| {
            let Some(difference) = figures.difference(row) else {
                return format!("{name}: not measured");
            };
            let word = match difference.at_most(GOAL) {
                Decision::Shown => "reached",
                Decision::Refuted => "missed",
                Decision::Undecided => "not decided by this run",
                Decision::TooFewTurns => "not decided by so few turns",
            };
            let (middle, range) = (signed(difference.middle), difference.range(signed));
            format!("{name} {middle} ({range}): {word}")
        });
        format!(
            "The goal is at most {GOAL} % more time with checksums. {}. Turns: {}.",
            texts.join("; "),
            self.settings.repetitions,
        )
    }

    /// Measures compilebench.
    fn compilebench(&mut self, runs: usize, options: &Options) -> io::Result<Section> {
        let Options { trees, tree_files, .. } = *options;
        let options = compilebench_options(self.settings, runs, options);
        let mut figures = Figures::of_threads(1);
        let settings = self.settings;
        self.turns("compilebench", settings, |column, volume| {
            for (kind, mean, seconds) in means(&volume.run(&mut Compilebench(&options))?) {
                let digits = if kind.is_rate() { 2 } else { 3 };
                figures.add((&row(kind), digits), column, mean, seconds);
            }
            Ok(())
        })?;
        let order = compilebench::Kind::ALL.map(row);
        let names = compilebench::Kind::ALL.map(|kind| (row(kind), kind.name()));
        figures.sort_by_key(|name| order.iter().position(|row| row == name));
        figures.report("compilebench", self.observer)?;
        let mut section = Section::new("Checksums: compilebench");
        section.answer = trees_answer(&figures);
        section.paragraph(format!(
            "{trees} trees of {tree_files} files are created; then {runs} operations run on random trees, with cold caches. \
             The trees are generated from a seed after the figures of compilebench's own. The figure of a turn is the mean \
             over its runs of an operation, as compilebench prints it; a turn is one sample, because its runs share a \
             volume.",
        ));
        let mut table = figures.table("Source trees", &settings.testbed.storage());
        for pair in &published::COMPILEBENCH {
            published_row(&mut table, pair, 2);
        }
        table.note(TABLE_NOTE);
        table.note(interval_note(self.settings.repetitions));
        section.tables.push(table);
        section.plots.push(figures.differences(&names));
        Ok(section)
    }

    /// Measures the share of processor time in checksums, and profiles the rest.
    fn shares(&mut self, files: u64) -> io::Result<Section> {
        let plan = plan(self.settings, files);
        let mut shares = Vec::new();
        let mut profiles: Vec<Table> = Vec::new();
        for column in SHARES {
            self.observer.progress(&format!("share of the processor, {}", column.name()))?;
            let _selected = column.select();
            let mut volume = self.settings.volume(Implementation::Engine)?;
            for step in STEPS {
                shares.push(share::of_step(&mut volume, step, &plan)?);
            }
            volume.unmount()?;
        }
        // The profiler slows down the program, so it has volumes of its own.
        let kernel = self.columns.contains(&Column::Kernel).then_some(Implementation::Kernel);
        for implementation in [Implementation::Engine].into_iter().chain(kernel) {
            self.observer.progress(&format!("profile, {}", implementation.name()))?;
            let mut volume = self.settings.volume(implementation)?;
            for step in [Step::Create, Step::Find] {
                profiles.extend(share::profiles(&mut volume, step, &plan)?);
            }
            volume.unmount()?;
        }
        for share in &shares {
            self.observer.result(share.to_json())?;
        }
        let mut section = Section::new("Checksums: where the time goes");
        section.answer = share::answer(&shares);
        section.paragraph(
            "Measured: separate turns timed every checksum with the processor's time stamp counter. The time includes reading \
             it, about 40 cycles for each checksum. Checksums and processor time are counted over the same interval.",
        );
        section.tables.push(share::table(&shares, &self.settings.testbed.storage()));
        section.plots.push(share::plot(&shares));
        section.tables.push(share::self_test());
        section.tables.extend(profiles);
        Ok(section)
    }
}

/// Formats a difference in percent.
fn signed(percent: f64) -> String {
    format!("{percent:+.1} %")
}

/// Returns the answer to the study's question, from the times of fs_mark.
fn answer(figures: &Figures) -> Answer {
    let (verdict, figure) = match (figures.difference(CREATE), figures.difference(WALK)) {
        (Some(create), Some(walk)) => {
            let range = format!("create {}, walk {}", create.range(signed), walk.range(signed));
            let verdict = create.at_most(GOAL).and(walk.at_most(GOAL)).sentence(
                &format!("At most {GOAL} % of the time"),
                &format!("More than {GOAL} % of the time"),
                &range,
                create.turns,
            );
            let [create, walk] = [create, walk].map(|of| signed(of.middle));
            (verdict, format!("Create {create}, walk {walk}."))
        }
        _ => (short::not_measured("a step"), String::new()),
    };
    let [published_create, published_walk] =
        [CREATE, WALK].map(|row| published::FS_MARK.iter().find(|pair| pair.name == row));
    let percent =
        |pair: Option<&published::Pair>| pair.map_or(f64::NAN, published::Pair::difference_percent);
    Answer {
        question: "What do checksums of metadata cost?".into(),
        verdict,
        figure,
        published: format!(
            "create {:+.1} %, walk {:+.1} %.",
            percent(published_create),
            percent(published_walk)
        ),
    }
}

/// Returns the answer about work on source trees: that of the operation that loses most.
fn trees_answer(figures: &Figures) -> Option<Answer> {
    let slower = |kind: compilebench::Kind| {
        let difference = figures.difference(&row(kind))?;
        let cost = if kind.is_rate() { difference.as_loss() } else { difference };
        Some((kind.name(), cost))
    };
    let costs: Vec<(&str, Interval)> =
        compilebench::Kind::ALL.into_iter().filter_map(slower).collect();
    let dearest = costs.iter().max_by(|a, b| a.1.middle.total_cmp(&b.1.middle));
    let decision = costs.iter().map(|(_, cost)| cost.at_most(GOAL)).reduce(Decision::and);
    let those = if figures.some_are_too_short() { "long " } else { "" };
    let (verdict, figure) = match dearest.zip(decision) {
        Some(((dearest, most), decision)) => (
            decision.sentence(
                &format!("At most {GOAL} % in every {those}operation"),
                &format!("More than {GOAL} % in some operations"),
                &format!("{dearest} {}", most.range(signed)),
                most.turns,
            ),
            format!("The most, {dearest}: {}.", signed(most.middle)),
        ),
        None => (short::not_measured("every operation"), String::new()),
    };
    let published = published::COMPILEBENCH.iter().map(|pair| {
        let rate = pair.name.ends_with("(MB/s)");
        (
            pair.name,
            if rate { (pair.off / pair.on - 1.0) * 100.0 } else { pair.difference_percent() },
        )
    });
    let (name, percent) = published.max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(Answer {
        question: "How much longer does work on source trees take with checksums?".into(),
        verdict,
        figure,
        published: format!("the most, {name}: {}.", signed(percent)),
    })
}

/// The explanation of the table columns.
const TABLE_NOTE: &str = "Medians over the turns. Difference: the median of the ratios of paired turns, with the best routine against \
     none. The kernel's column has the processor time of the process only. The difference of published figures is computed \
     from them; beside it stands the percentage that was published, which has another base.";

fn row(kind: compilebench::Kind) -> String {
    let unit = if kind.is_rate() { "MB/s" } else { "s" };
    format!("{} ({unit})", kind.name())
}

/// Returns the mean figure of each operation that ran, over the runs of one turn, and the seconds
/// of these runs together.
#[allow(clippy::cast_precision_loss)] // of a few runs
fn means(runs: &[compilebench::Run]) -> Vec<(compilebench::Kind, f64, f64)> {
    let mean = |kind| {
        let runs: Vec<_> = runs.iter().filter(|run| run.kind == kind).collect();
        let figures: f64 = runs.iter().map(|run| run.figure()).sum();
        let seconds = runs.iter().map(|run| run.usage.wall.as_secs_f64()).sum();
        (!runs.is_empty()).then(|| (kind, figures / runs.len() as f64, seconds))
    };
    compilebench::Kind::ALL.into_iter().filter_map(mean).collect()
}

struct Dbench<'d> {
    load: &'d Load,
    options: &'d dbench::Options,
}

impl Job for Dbench<'_> {
    type Output = Outcome;

    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<Outcome> {
        let outcome = dbench::run(&*driver, self.load, self.options, &mut |_| Ok(()));
        driver.sync()?;
        outcome
    }
}

struct Compilebench<'c>(&'c compilebench::Options);

impl Job for Compilebench<'_> {
    type Output = Vec<compilebench::Run>;

    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<Vec<compilebench::Run>> {
        compilebench::run(driver, self.0, &mut |_, _| Ok(()))
    }
}

#[cfg(test)]
mod tests;
