//! The original programs on the kernel's XFS, beside ours of the same name on the kernel's XFS and
//! in this process; and the originals on a mount by this process.
//!
//! The contenders alternate within a turn, and each has a volume of its own. A program that is not
//! installed is named and skipped.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::json;

use super::{Options, Study, dbench_text, plan};
use crate::driver::tree::walk;
use crate::measure::decision::TURNS_DECIDE;
use crate::measure::usage::Stopwatch;
use crate::measure::{Interval, Samples, interval_note, short};
use crate::program::dbench::{self, load::Load};
use crate::report::{Answer, Axis, Cell, Line, Plot, Section, Source, Table};
use crate::suite::Settings;
use crate::suite::inodes::shape::Plan;
use crate::suite::inodes::step::{self, Step};
use crate::testbed::{Implementation, Job, TestVolume};
use crate::{Driver, Kind};

/// Programs whose rates differ by at most this part are alike.
const ALIKE: f64 = 0.1;

/// A program, run by an implementation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contender {
    /// Debian's program on the kernel's XFS.
    Original,
    /// Ours of the same name on the kernel's XFS.
    OursOnKernel,
    /// Ours in this process.
    OursInProcess,
    /// Debian's program on a mount by this process.
    OriginalOnMount,
}

impl Contender {
    const ALL: [Self; 4] =
        [Self::Original, Self::OursOnKernel, Self::OursInProcess, Self::OriginalOnMount];

    /// Returns those that are measured.
    fn wanted(settings: &Settings) -> &'static [Self] {
        let on_mount = settings.wants(Implementation::Mount);
        if on_mount { &Self::ALL } else { &Self::ALL[..3] }
    }

    fn is_original(self) -> bool {
        matches!(self, Self::Original | Self::OriginalOnMount)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Original => "the original on kernel XFS",
            Self::OursOnKernel => "ours on kernel XFS",
            Self::OursInProcess => "ours on xfskit, in process",
            Self::OriginalOnMount => "the original on xfskit mount",
        }
    }

    fn implementation(self) -> Implementation {
        match self {
            Self::Original | Self::OursOnKernel => Implementation::Kernel,
            Self::OursInProcess => Implementation::Engine,
            Self::OriginalOnMount => Implementation::Mount,
        }
    }
}

/// One program with the figures of all contenders.
struct Program {
    name: &'static str,
    unit: &'static str,
    /// Samples in the order of [`Contender::ALL`], of those that are measured.
    rates: Vec<Samples>,
    /// Seconds that each rate was measured in.
    seconds: Vec<Samples>,
    /// With less time than this there is no rate.
    least: Duration,
}

impl Program {
    fn new(name: &'static str, unit: &'static str, threads: usize) -> Self {
        let (rates, seconds) = Default::default();
        Self { name, unit, rates, seconds, least: short::time_min_here(threads) }
    }

    /// Returns the rates of a contender; `None` if it was not measured, or in too short a time.
    fn rate(&self, contender: Contender) -> Option<&Samples> {
        let at = contender as usize;
        let seconds = self.seconds.get(at)?;
        self.rates.get(at).filter(|_| !short::is_too_short(seconds, self.least))
    }

    /// Runs every contender in every turn; `run` returns the rate and the time it is of.
    fn measure(
        &mut self,
        study: &mut Study<'_>,
        mut run: impl FnMut(Contender, &mut TestVolume) -> io::Result<(f64, Duration)>,
    ) -> io::Result<()> {
        let contenders = Contender::wanted(study.settings);
        self.rates = vec![Samples::default(); contenders.len()];
        self.seconds = self.rates.clone();
        for turn in 0..study.settings.repetitions {
            for n in 0..contenders.len() {
                let at = (n + turn) % contenders.len();
                let contender = contenders[at];
                let name = contender.name();
                study.observer.progress(&format!("{}, {name}, turn {}", self.name, turn + 1))?;
                let mut volume = study.settings.volume(contender.implementation())?;
                let (rate, time) = run(contender, &mut volume)?;
                self.rates[at].add(rate);
                self.seconds[at].add_time(time);
                volume.unmount()?;
            }
        }
        for (&contender, rate) in Contender::ALL.iter().zip(&self.rates) {
            study.observer.result(json!({ "original": {
                "program": self.name,
                "contender": contender.name(),
                "unit": self.unit,
                "rate": rate,
                "too_short": self.rate(contender).is_none(),
            }}))?;
        }
        Ok(())
    }

    fn table(&self, settings: &Settings) -> Table {
        let columns = [
            ("rate", self.unit),
            ("spread", "± %"),
            ("of the original", "times"),
            ("at least", ""),
            ("at most", ""),
            ("turns", ""),
        ];
        let mut table = Table::new(format!("{}: the original and ours", self.name), &columns);
        let original = self.rate(Contender::Original).unwrap_or(Samples::none());
        for contender in &Contender::ALL[..self.rates.len()] {
            let rate = self.rate(*contender).unwrap_or(Samples::none());
            let ratio = rate.paired_ratio_to(original);
            let cells = vec![
                Cell::Number(rate.median(), 0),
                Cell::Number(rate.spread() * 100.0, 1),
                Cell::Number(ratio.ratio, 2),
                Cell::Number(ratio.low, 2),
                Cell::Number(ratio.high, 2),
                Cell::Count(rate.count() as u64),
            ];
            table.row(contender.name(), settings.testbed.storage(), cells);
        }
        if self.is_too_short() {
            table.note(short::note("a run", self.least));
        }
        table.note(interval_note(settings.repetitions));
        table
    }

    /// Returns true if a contender has no rate because its runs were too short.
    fn is_too_short(&self) -> bool {
        let measured = &Contender::ALL[..self.rates.len()];
        measured.iter().any(|contender| self.rate(*contender).is_none())
    }

    /// Returns the rates of the original, of ours on the same filesystem, and of ours in process,
    /// if all of them have one.
    fn compared(&self) -> Option<[&Samples; 3]> {
        let [original, on_kernel, in_process] =
            [Contender::Original, Contender::OursOnKernel, Contender::OursInProcess]
                .map(|contender| self.rate(contender));
        Some([original?, on_kernel?, in_process?])
    }

    /// Describes how ours compares with the original on the same filesystem, and in process.
    fn sentence(&self) -> String {
        let Some([original, on_kernel, in_process]) = self.compared() else {
            return format!("{}: {}", self.name, short::not_measured("a run"));
        };
        let turns = original.count().min(on_kernel.count());
        let same = on_kernel.paired_ratio_to(original).interval(turns);
        let ours = in_process.paired_ratio_to(original);
        let word = likeness(&same);
        let mount = self.rate(Contender::OriginalOnMount);
        let mount = mount.map_or(String::new(), |on_mount| {
            let ratio = on_mount.paired_ratio_to(original).ratio;
            format!(
                " On a mount by xfskit the original has {ratio:.2} times its rate on the kernel's."
            )
        });
        format!(
            "{}: on the kernel's XFS ours has {:.2} times the rate of the original ({word}); in process, on xfskit, {:.2} times.{mount}",
            self.name, same.middle, ours.ratio
        )
    }
}

/// Describes a program of ours by its rate over that of the original.
fn likeness(same: &Interval) -> &'static str {
    if same.turns < TURNS_DECIDE {
        "the turns are too few to compare the programs"
    } else if same.low > 1.0 + ALIKE {
        "ours is the faster program, which flatters it in process, too"
    } else if same.high < 1.0 - ALIKE {
        "ours is the slower program"
    } else {
        "the programs are about alike"
    }
}

/// Returns the answer to whether our programs are like the originals; `None` if none is installed.
fn answer(programs: &[Program]) -> Option<Answer> {
    let mut words = Vec::new();
    let mut figures = Vec::new();
    for program in programs {
        let Some([original, on_kernel, in_process]) = program.compared() else {
            words.push(format!("{}: a run was too short", program.name));
            continue;
        };
        let turns = original.count().min(on_kernel.count());
        let same = on_kernel.paired_ratio_to(original).interval(turns);
        let own = in_process.paired_ratio_to(original).ratio;
        words.push(format!("{}: {}", program.name, likeness(&same)));
        figures.push(format!(
            "{} {:.2} times the rate of the original, in process {own:.2} times",
            program.name, same.middle
        ));
    }
    (!words.is_empty()).then(|| Answer {
        question: "Are our programs like the originals, on the same filesystem?".into(),
        verdict: format!("{}.", words.join("; ")),
        figure: figures.first().map_or(String::new(), |_| format!("{}.", figures.join("; "))),
        published: "no figures.".into(),
    })
}

/// Returns the number of runs in a turn.
pub(super) fn runs(options: &Options, settings: &Settings) -> usize {
    let programs = [("fs_mark", options.files.is_some()), ("dbench", options.passes.is_some())];
    let runs = programs.iter().filter(|(program, wanted)| *wanted && installed(program)).count();
    runs * Contender::wanted(settings).len()
}

/// Measures the original programs that are installed.
pub(super) fn section(study: &mut Study<'_>, options: &Options) -> io::Result<Section> {
    let mut section = Section::new("Checksums: the original programs");
    let mut programs = Vec::new();
    if let Some(files) = options.files {
        if installed("fs_mark") {
            programs.push(fs_mark(study, files)?);
        } else {
            section.paragraph(skipped("fs_mark", "fsmark"));
        }
    }
    if let Some(passes) = options.passes {
        if installed("dbench") {
            programs.push(dbench(study, passes, options)?);
        } else {
            section.paragraph(skipped("dbench", "dbench"));
        }
    }
    section.answer = answer(&programs);
    for program in &programs {
        section.paragraph(program.sentence());
        section.tables.push(program.table(study.settings));
    }
    section.paragraph(
        "The original runs as a process of its own on the kernel's XFS, and with --against mount on a volume that this process \
         mounts, with the same files, threads and load. Rates are over \
         wall time for all contenders, with the final sync for fs_mark, and as the program prints them for dbench. The trees \
         that fs_mark leaves have the same number of files.",
    );
    section.plots.push(plot(&programs));
    Ok(section)
}

fn skipped(program: &str, package: &str) -> String {
    format!("The original {program} was skipped: it is not installed (Debian's package {package}).")
}

/// Returns true if a program can be started.
fn installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|dir| dir.join(program).is_file())
}

fn plot(programs: &[Program]) -> Plot {
    let line = |n: usize| Line {
        name: Contender::ALL[n].name().into(),
        source: Source::Measured,
        points: (1..)
            .map(f64::from)
            .zip(programs)
            .filter_map(|(x, program)| {
                let original = program.rate(Contender::Original)?.median();
                Some((x, program.rate(Contender::ALL[n])?.median() / original))
            })
            .collect(),
    };
    Plot {
        title: "The original programs and ours: rate over that of the original".into(),
        x: Axis::named("program", programs.iter().map(|program| program.name.into()).collect()),
        y: Axis::linear("times"),
        lines: (0..programs.iter().map(|program| program.rates.len()).max().unwrap_or(0))
            .map(line)
            .collect(),
    }
}

/// Runs a program, and returns its output.
fn run(command: &mut Command) -> io::Result<Output> {
    let out = command.output()?;
    if out.status.success() {
        return Ok(out);
    }
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    Err(io::Error::other(format!("{}: {}", command.get_program().display(), text.trim())))
}

fn mount_point(volume: &TestVolume) -> io::Result<PathBuf> {
    let path = volume.mount_point().ok_or_else(|| io::Error::other("not mounted"))?;
    Ok(path.to_owned())
}

#[allow(clippy::cast_precision_loss)] // of a rate
fn fs_mark(study: &mut Study<'_>, files: u64) -> io::Result<Program> {
    let plan = plan(study.settings, files);
    let all = plan.threads as u64 * files;
    let mut program = Program::new("fs_mark", "files/s", plan.threads);
    program.measure(study, |contender, volume| {
        let time = if contender.is_original() {
            original_fs_mark(&mount_point(volume)?, &plan)?
        } else {
            let done = step::run(volume, Step::Create, &plan)?;
            let done = done.ok_or_else(|| io::Error::other("files were not made"))?;
            done.usage.wall
        };
        let found = volume.run(&mut CountFiles)?;
        if found != all {
            let name = contender.name();
            return Err(io::Error::other(format!("fs_mark, {name}: {found} files, not {all}")));
        }
        Ok((all as f64 / time.as_secs_f64(), time))
    })?;
    Ok(program)
}

/// Runs the original fs_mark, and syncs the filesystem. Returns the time.
fn original_fs_mark(point: &Path, plan: &Plan) -> io::Result<Duration> {
    let mut command = Command::new("fs_mark");
    command.args(["-k", "-S", "0", "-s", &plan.size.to_string(), "-n", &plan.files.to_string()]);
    let each = plan.files.div_ceil((plan.subdirs as u64).max(1));
    command.args(["-D", &plan.subdirs.to_string(), "-N", &each.to_string()]);
    for thread in 0..plan.threads {
        let dir = point.join(thread.to_string());
        fs::create_dir(&dir)?;
        command.arg("-d").arg(dir);
    }
    // It writes a log file into the current directory unless one is named.
    command.args(["-l", "/dev/null"]).current_dir(std::env::temp_dir());
    let watch = Stopwatch::start()?;
    run(&mut command)?;
    rustix::fs::syncfs(fs::File::open(point)?)?;
    Ok(watch.read()?.wall)
}

/// Counts the files of a volume.
struct CountFiles;

impl Job for CountFiles {
    type Output = u64;

    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<u64> {
        let mut files = 0;
        walk(&*driver, &driver.root()?, &mut |_, _, kind| {
            files += u64::from(kind == Kind::File);
            Ok(())
        })?;
        Ok(files)
    }
}

fn dbench(study: &mut Study<'_>, passes: u64, of: &Options) -> io::Result<Program> {
    let (text, _) = dbench_text(study.settings, of);
    let load = Load::parse(&text).map_err(io::Error::other)?;
    let options = dbench::Options {
        clients: study.settings.threads,
        loops: Some(passes),
        xattrs: &dbench::DOS,
        seed: study.settings.seed,
        ..dbench::Options::default()
    };
    let file = std::env::temp_dir().join(format!("xfskit-load-{}.txt", std::process::id()));
    fs::write(&file, &text)?;
    let mut seconds = SECONDS;
    let mut program = Program::new("dbench", "MB/s", options.clients);
    let measured = program.measure(study, |contender, volume| {
        if contender.is_original() {
            let rate = original_dbench(&file, &mount_point(volume)?, options.clients, seconds)?;
            return Ok((rate, Duration::from_secs(seconds)));
        }
        let outcome = volume.run(&mut super::Dbench { load: &load, options: &options })?;
        if contender == Contender::OursOnKernel {
            // The original runs for a time: about that of ours.
            seconds = outcome.elapsed.as_secs().clamp(SECONDS, SECONDS_MAX);
        }
        Ok((outcome.throughput(), outcome.elapsed))
    });
    fs::remove_file(&file)?;
    measured?;
    Ok(program)
}

/// Seconds of the original dbench at least, and at most.
const SECONDS: u64 = 2;
const SECONDS_MAX: u64 = 120;

/// Runs the original dbench. Returns its throughput in MB/s.
fn original_dbench(load: &Path, point: &Path, clients: usize, seconds: u64) -> io::Result<f64> {
    let mut command = Command::new("dbench");
    command.arg("-c").arg(load).arg("-D").arg(point);
    let out = run(command.args(["-x", "-t", &seconds.to_string(), &clients.to_string()]))?;
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    throughput(&text)
        .ok_or_else(|| io::Error::other(format!("dbench printed no throughput: {text}")))
}

/// Returns the figure of the line `Throughput 12.3 MB/sec …`.
fn throughput(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Throughput "))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_throughput_is_found_in_the_last_lines() {
        let text = "  8    100   5.00 MB/sec  execute   1 sec\n\nThroughput 1229.65 MB/sec  8 clients  8 procs  max_latency=22.661 ms\n";
        assert_eq!(throughput(text), Some(1229.65));
        assert_eq!(throughput("no"), None);
    }

    #[test]
    fn every_outcome_has_its_sentence() {
        let program = |same: &[f64], seconds: f64| {
            let mut program = Program::new("dbench", "MB/s", 1);
            let rates = [&[10.0; 4][..], same, &[40.0; 4]];
            program.rates = rates.map(|values| values.iter().copied().collect()).to_vec();
            program.seconds = vec![[seconds].into_iter().collect(); 3];
            program
        };
        let text = |same: &[f64]| program(same, 1.0).sentence();
        assert!(text(&[10.0, 10.1, 10.0, 10.1]).contains("about alike"));
        assert!(text(&[13.0, 13.1, 13.0, 13.1]).contains("is the faster program"));
        assert!(text(&[7.0, 7.1, 7.0, 7.1]).contains("is the slower program"));
        assert!(text(&[7.0, 7.1]).contains("too few"));
        assert!(text(&[10.0; 4]).ends_with("in process, on xfskit, 4.00 times."));
        let answered = answer(&[program(&[10.0; 4], 1.0)]).expect("an answer");
        assert_eq!(answered.verdict, "dbench: the programs are about alike.");
        assert!(answered.figure.ends_with("in process 4.00 times."), "{}", answered.figure);
        assert!(answer(&[]).is_none());
        let short = [program(&[10.0; 4], 0.029)];
        assert_eq!(short[0].sentence(), "dbench: Not measured: a run was too short.");
        let answered = answer(&short).expect("a question");
        assert_eq!(answered.verdict, "dbench: a run was too short.");
        assert_eq!(answered.figure, "");
        let table = short[0].table(&crate::suite::testing::settings());
        assert_eq!(table.rows[1].cells[0].to_string(), "–");
        assert!(table.notes[0].contains("a run of less than 30 ms"), "{:?}", table.notes);
        assert!(plot(&short).lines.iter().all(|line| line.points.is_empty()));
    }
}
