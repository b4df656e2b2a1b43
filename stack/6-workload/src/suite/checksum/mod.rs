//! Study A: what checksums of metadata cost.
//!
//! The same programs without checksums and with them. *Without* is version 5 of the format with the computation
//! skipped ([`xfskit_crc::skip()`]): the same bytes are read and written but for the sums, so that nothing else differs.
//! *With* means the best routine that the processor has and, beside it, the portable one. The kernel no longer mounts
//! version 4, so its column has checksums on. All ways take turns, and each turn has a volume of its own.
//!
//! | module | what |
//! | --- | --- |
//! | `figures` | without, with, the difference and how sure it is |
//! | `share` | the share of the processor in checksums, and where the rest goes |
//! | [`published`] | what was published |

mod figures;
pub mod published;
mod share;

use std::io;

use xfskit_crc::Skipping;

use crate::Driver;
use crate::program::compilebench;
use crate::program::dbench::{self, load::Load, mix, tally::Outcome};
use crate::report::{Cell, Section, Table};
use crate::side::{Job, Side, Who};
use crate::suite::inodes::shape::{Plan, Shape};
use crate::suite::inodes::step::{self, Step};
use crate::suite::{Audience, Settings};
use figures::{Figures, published_row};

/// What is studied.
#[derive(Clone, Debug)]
pub struct Options {
    /// fs_mark: files of each thread; none leaves it out.
    pub files: Option<u64>,
    /// dbench: times each client goes through its load; none leaves it out.
    pub passes: Option<u64>,
    /// compilebench: operations; none leaves it out.
    pub runs: Option<usize>,
    /// Trees that are made before these.
    pub trees: usize,
    /// Files in such a tree.
    pub tree_files: usize,
}

/// A column of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// The engine, no checksums.
    Off,
    /// The engine, by the best routine.
    Best,
    /// The engine, by the portable routine.
    Table,
    /// The kernel, checksums on.
    Kernel,
}

impl Column {
    const ALL: [Self; 4] = [Self::Off, Self::Best, Self::Table, Self::Kernel];

    fn who(self) -> Who {
        if self == Self::Kernel { Who::Kernel } else { Who::Engine }
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

/// Checksums are made in this way until it is dropped.
struct Chosen {
    _skipping: Option<Skipping>,
    /// The routine that comes back; where sums are skipped it does so by itself.
    before: Option<&'static str>,
}

impl Column {
    fn choose(self) -> Chosen {
        let before = xfskit_crc::selected();
        if self == Self::Table {
            xfskit_crc::select("table");
        }
        let off = self == Self::Off;
        Chosen { _skipping: off.then(xfskit_crc::skip), before: (!off).then_some(before) }
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            xfskit_crc::select(before);
        }
    }
}

/// What all parts go by.
struct Study<'s> {
    settings: &'s Settings,
    columns: Vec<Column>,
    audience: &'s mut dyn Audience,
}

impl Study<'_> {
    /// Does `work` on a volume of its own in each way, so many times in turn.
    fn turns(
        &mut self,
        what: &str,
        settings: &Settings,
        mut work: impl FnMut(Column, &mut Side) -> io::Result<()>,
    ) -> io::Result<()> {
        for turn in 0..self.settings.repetitions {
            for n in 0..self.columns.len() {
                // Whoever is first has it a little better or worse: everybody is once.
                let column = self.columns[(n + turn) % self.columns.len()];
                self.audience.note(&format!("{what}, turn {}: {}", turn + 1, column.name()))?;
                let _chosen = column.choose();
                let mut side = settings.side(column.who())?;
                work(column, &mut side)?;
                side.unmount()?;
            }
        }
        Ok(())
    }
}

/// Runs the study.
///
/// # Errors
/// Those of the volumes, and where the audience wants to stop.
pub fn run(
    options: &Options,
    settings: &Settings,
    audience: &mut dyn Audience,
) -> io::Result<Vec<Section>> {
    let (sides, refused) = settings.sides();
    let kernel = sides.contains(&Who::Kernel);
    let columns = Column::ALL.into_iter().filter(|column| kernel || *column != Column::Kernel);
    let mut study = Study { settings, columns: columns.collect(), audience };
    let mut sections = Vec::new();
    if let Some(files) = options.files {
        sections.push(study.fs_mark(files)?);
        sections.push(study.shares(files)?);
    }
    if let Some(passes) = options.passes {
        sections.push(study.dbench(passes)?);
    }
    if let Some(runs) = options.runs {
        sections.push(study.compilebench(runs, options)?);
    }
    if let (Some(first), Some(why)) = (sections.first_mut(), refused) {
        first.text.insert(0, why);
    }
    Ok(sections)
}

/// What checksums may cost where it counts, in percent: the figure to reach.
const GOAL: f64 = 2.0;
/// Rows that have it.
const CREATE: &str = "create, time (s)";
const WALK: &str = "walk, time (s)";
/// The same of the processor: on a machine that others keep busy these are the surer ones.
const CREATE_PROCESSOR: &str = "create, processor (s)";
const WALK_PROCESSOR: &str = "walk, processor (s)";

/// What the programs do, whoever does it: the same seed, the same calls.
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

/// Steps of fs_mark's part.
const STEPS: [Step; 3] = [Step::Create, Step::Find, Step::Remove];

fn dbench_load(settings: &Settings) -> io::Result<Load> {
    Load::parse(&mix::text(settings.seed)).map_err(io::Error::other)
}

fn dbench_options(settings: &Settings, passes: u64) -> dbench::Options {
    dbench::Options {
        clients: settings.threads,
        loops: Some(passes),
        xattr: true,
        xattr_len: INLINE_AT_1024,
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
    /// Files are created, walked, removed.
    fn fs_mark(&mut self, files: u64) -> io::Result<Section> {
        let settings = self.settings;
        let plan = plan(settings, files);
        let mut figures = Figures::default();
        self.turns("fs_mark", settings, |column, side| {
            for step in STEPS {
                let Some(done) = step::on(side, step, &plan)? else { continue };
                let wall = done.usage.wall.as_secs_f64();
                let processor = done.usage.processor.as_secs_f64();
                match step {
                    Step::Create => {
                        #[allow(clippy::cast_precision_loss)] // of a rate
                        let rate = done.operations.unwrap_or(0) as f64 / wall;
                        figures.add(CREATE, 3, column, wall);
                        figures.add(CREATE_PROCESSOR, 3, column, processor);
                        figures.add("create, rate (1/s)", 0, column, rate);
                    }
                    Step::Find => {
                        figures.add(WALK, 3, column, wall);
                        figures.add(WALK_PROCESSOR, 3, column, processor);
                    }
                    _ => figures.add("unlink, time (s)", 3, column, wall),
                }
            }
            Ok(())
        })?;
        figures.tell("fs_mark", self.audience)?;
        let mut section = Section::new("Checksums: fs_mark");
        section.say(format!(
            "{} threads create {} empty files each, then every name is walked with its inode, then everything is \
             removed; caches are dropped before each, the final sync is in the time. Without checksums means \
             version 5 with the computation skipped.",
            plan.threads,
            Cell::Count(files),
        ));
        section.say(self.verdict(&figures));
        let mut table = figures.table("Create, walk, unlink", &settings.bed.on());
        for (name, off, on, difference) in published::FS_MARK {
            published_row(&mut table, name, [off, on, difference], 0);
        }
        table.note(SURE);
        section.tables.push(table);
        for (row, title) in [(CREATE, "Create"), (WALK, "Walk")] {
            section.plots.extend(figures.turns(row, &format!("{title}: each turn"), "time, s"));
        }
        Ok(section)
    }

    /// How far the figure to reach was reached.
    fn verdict(&self, figures: &Figures) -> String {
        let rows = [
            (CREATE, "create"),
            (WALK, "walk"),
            (CREATE_PROCESSOR, "create, processor time"),
            (WALK_PROCESSOR, "walk, processor time"),
        ];
        let told = rows.map(|(row, name)| {
            let Some([middle, least, most]) = figures.difference(row) else { return String::new() };
            let word = if most <= GOAL {
                "reached"
            } else if least > GOAL {
                "not reached"
            } else if middle <= GOAL {
                "reached by the median, but these turns vary too much to be sure"
            } else {
                "not reached by the median, but these turns vary too much to be sure"
            };
            format!("{name} {middle:+.1} % ({least:+.1} to {most:+.1}): {word}")
        });
        format!(
            "The figure to reach is at most {GOAL} % more time with checksums. {}. {} turns.",
            told.join("; "),
            self.settings.repetitions,
        )
    }

    /// Clients of a file server, with inodes that hold their attributes and with inodes that do not.
    fn dbench(&mut self, passes: u64) -> io::Result<Section> {
        let load = dbench_load(self.settings)?;
        let options = dbench_options(self.settings, passes);
        let mut figures = Figures::default();
        for inode_size in INODE_SIZES {
            let mut settings = self.settings.clone();
            settings.bed.mkfs.inode_size = Some(inode_size);
            let rate = rate_of(inode_size);
            let latency = format!("inodes of {inode_size} bytes, worst latency (ms)");
            self.turns(
                &format!("dbench, inodes of {inode_size} bytes"),
                &settings,
                |column, side| {
                    let outcome = side.run(&mut Dbench { load: &load, options: &options })?;
                    figures.add(&rate, 2, column, outcome.throughput());
                    let worst = outcome.all().max().as_secs_f64() * 1e3;
                    figures.add(&latency, 3, column, worst);
                    Ok(())
                },
            )?;
        }
        figures.tell("dbench", self.audience)?;
        let mut section = Section::new("Checksums: dbench");
        section.say(format!(
            "{} clients go {passes} times through a load of our own making, in place of dbench's recorded one. Files have \
             an attribute of {INLINE_AT_1024} bytes, which lies in the inode where that has 1024 bytes, and in a block of \
             its own where it has 512. In the published study that was the largest effect: with checksums inodes \
             had 512 bytes instead of 256, and attributes came to lie in them.",
            self.settings.threads,
        ));
        let mut table = figures.table("Throughput and latency", &self.settings.bed.on());
        for (name, rates, latencies) in published::DBENCH {
            published_row(&mut table, &format!("{name}, throughput (MB/s)"), rates, 2);
            published_row(&mut table, &format!("{name}, worst latency (ms)"), latencies, 3);
        }
        table.note(SURE);
        section.tables.push(table);
        for inode_size in INODE_SIZES {
            let title = format!("Inodes of {inode_size} bytes: each turn");
            section.plots.extend(figures.turns(&rate_of(inode_size), &title, "throughput, MB/s"));
        }
        Ok(section)
    }

    /// Source trees.
    fn compilebench(&mut self, runs: usize, options: &Options) -> io::Result<Section> {
        let Options { trees, tree_files, .. } = *options;
        let options = compilebench_options(self.settings, runs, options);
        let mut figures = Figures::default();
        let settings = self.settings;
        self.turns("compilebench", settings, |column, side| {
            for run in side.run(&mut Compilebench(&options))? {
                let digits = if run.kind.is_rate() { 2 } else { 3 };
                figures.add(&row(run.kind), digits, column, run.figure());
            }
            Ok(())
        })?;
        let order = compilebench::Kind::ALL.map(row);
        let names = compilebench::Kind::ALL.map(|kind| (row(kind), kind.name()));
        figures.sort_by_key(|name| order.iter().position(|row| row == name));
        figures.tell("compilebench", self.audience)?;
        let mut section = Section::new("Checksums: compilebench");
        section.say(format!(
            "{trees} trees of {tree_files} files are made, then come {runs} operations on trees at random, with cold caches. \
             The trees are made from a seed after the figures of compilebench's own. Medians over all runs of an \
             operation.",
        ));
        let mut table = figures.table("Source trees", &settings.bed.on());
        for ((_, off, on), kind) in published::COMPILEBENCH.iter().zip(compilebench::Kind::ALL) {
            let difference = (on / off - 1.0) * 100.0;
            published_row(&mut table, &row(kind), [*off, *on, difference], 2);
        }
        table.note(SURE);
        section.tables.push(table);
        section.plots.push(figures.differences(&names));
        Ok(section)
    }

    /// The share of the processor that goes into checksums, and where the rest goes.
    fn shares(&mut self, files: u64) -> io::Result<Section> {
        let plan = plan(self.settings, files);
        let mut shares = Vec::new();
        let mut profiles: Vec<Table> = Vec::new();
        for column in [Column::Best, Column::Table] {
            self.audience.note(&format!("share of the processor, {}", column.name()))?;
            let _chosen = column.choose();
            let mut side = self.settings.side(Who::Engine)?;
            for step in STEPS {
                shares.push(share::of_step(&mut side, step, &plan)?);
            }
            side.unmount()?;
            if column == Column::Best {
                // Once more for who looks on from outside: it costs the program something, too.
                let mut side = self.settings.side(Who::Engine)?;
                for step in [Step::Create, Step::Find] {
                    profiles.extend(share::profiles(&mut side, step, &plan)?);
                }
                side.unmount()?;
            }
        }
        for share in &shares {
            self.audience.result(share.result())?;
        }
        let mut section = Section::new("Checksums: where the time goes");
        section.say(
            "In turns of their own every sum was timed, by the processor's time stamp counter; reading it is in the time, \
             about 40 cycles for each sum.",
        );
        section.tables.push(share::table(&shares, &self.settings.bed.on()));
        section.plots.push(share::plot(&shares));
        section.tables.push(share::self_test());
        section.tables.extend(profiles);
        Ok(section)
    }
}

/// Bytes of an attribute that an inode of 1024 bytes holds, and one of 512 does not.
const INLINE_AT_1024: usize = 400;

/// Bytes of an inode that dbench is run with.
const INODE_SIZES: [u32; 2] = [512, 1024];

fn rate_of(inode_size: u32) -> String {
    format!("inodes of {inode_size} bytes, throughput (MB/s)")
}

/// How figures are to be read.
const SURE: &str = "Medians over the turns. Difference: with the best routine against none, the median of the turns' \
     ratios, with a confidence of 95 percent between at least and at most, as far as the number of turns bears it. Processor time of the kernel's \
     column is that of the process only.";

fn row(kind: compilebench::Kind) -> String {
    let unit = if kind.is_rate() { "MB/s" } else { "s" };
    format!("{} ({unit})", kind.name())
}

struct Dbench<'d> {
    load: &'d Load,
    options: &'d dbench::Options,
}

impl Job for Dbench<'_> {
    type Answer = Outcome;

    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<Outcome> {
        let outcome = dbench::run(&*driver, self.load, self.options, &mut |_| Ok(()));
        driver.sync()?;
        outcome
    }
}

struct Compilebench<'c>(&'c compilebench::Options);

impl Job for Compilebench<'_> {
    type Answer = Vec<compilebench::Run>;

    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<Vec<compilebench::Run>> {
        compilebench::run(driver, self.0, &mut |_, _| Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::driver::record::Recorder;
    use crate::driver::tree::walk;
    use crate::suite::testing;

    const SMALL: Options =
        Options { files: Some(20), passes: Some(1), runs: Some(15), trees: 2, tree_files: 30 };

    fn settings(seed: u64) -> Settings {
        Settings { seed, ..testing::settings() }
    }

    /// What `work` asked for, by directory and file.
    fn calls_of(work: impl FnOnce(&mut Recorder)) -> BTreeMap<String, Vec<String>> {
        let mut recorder = Recorder::default();
        work(&mut recorder);
        let mut calls = recorder.calls();
        // All clients make the same directories; who is first is not the seed's business.
        for shared in ["", "/clients"] {
            calls.entry(shared.into()).or_default().sort();
        }
        calls
    }

    /// The calls of all programs.
    fn calls(seed: u64) -> [BTreeMap<String, Vec<String>>; 3] {
        let settings = settings(seed);
        let files = calls_of(|recorder| {
            let plan = plan(&settings, 20);
            for step in STEPS {
                step::Work { step, plan: &plan }.run(recorder).expect("no errors");
            }
        });
        let clients = calls_of(|recorder| {
            let load = dbench_load(&settings).expect("a load");
            let options = dbench::Options { checked: false, ..dbench_options(&settings, 1) };
            Dbench { load: &load, options: &options }.run(recorder).expect("no errors");
        });
        let trees = calls_of(|recorder| {
            let options = compilebench_options(&settings, 15, &SMALL);
            Compilebench(&options).run(recorder).expect("no errors");
        });
        [files, clients, trees]
    }

    #[test]
    fn the_same_seed_makes_the_same_calls_of_every_program() {
        let (first, again, other) = (calls(1), calls(1), calls(2));
        for n in 0..first.len() {
            assert!(first[n].len() > 4, "many directories and files");
            assert!(first[n] == again[n], "program {n}: the same seed");
            assert!(first[n] != other[n], "program {n}: another seed");
        }
    }

    /// Every name on a volume with its size, in order.
    struct Listed;

    impl Job for Listed {
        type Answer = Vec<(Vec<u8>, u64)>;

        fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<Self::Answer> {
            let mut names = Vec::new();
            walk(&*driver, &driver.root()?, &mut |dir, name, _| {
                names.push((name.to_vec(), driver.stat(dir, name)?.size));
                Ok(())
            })?;
            names.sort();
            Ok(names)
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_tree() {
        let tree = |seed, column: Column| {
            let settings = settings(seed);
            let _chosen = column.choose();
            let mut side = settings.side(Who::Engine).expect("a volume");
            let plan = plan(&settings, 20);
            step::on(&mut side, Step::Create, &plan).expect("files");
            let options = compilebench_options(&settings, 15, &SMALL);
            side.run(&mut Compilebench(&options)).expect("trees");
            side.run(&mut Listed).expect("names")
        };
        let first = tree(1, Column::Best);
        assert!(first.len() > 60, "{}", first.len());
        assert!(first == tree(1, Column::Best));
        assert!(first == tree(1, Column::Table), "whatever makes the sums");
        assert!(first != tree(2, Column::Best));
    }

    #[test]
    fn sections_have_plots_of_what_their_tables_say() {
        let mut heard = testing::Heard::default();
        let settings = Settings { repetitions: 2, ..settings(1) };
        let mut study = Study {
            settings: &settings,
            columns: vec![Column::Best, Column::Table],
            audience: &mut heard,
        };
        let section = study.fs_mark(20).expect("files");
        assert_eq!(section.plots.len(), 2);
        let lines = &section.plots[0].lines;
        assert_eq!(lines.iter().map(|line| line.points.len()).collect::<Vec<_>>(), [2, 2]);
        let section = study.compilebench(10, &SMALL).expect("trees");
        assert_eq!(section.plots.len(), 1);
    }
}
