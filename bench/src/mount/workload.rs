//! Steps of a workload, turns of all sides, and their tables.
//!
//! In a turn each side runs the whole workload on a new volume, and another one is first in every
//! turn. A side that fails, except for ours and the kernel's, is left out of the rest; the report
//! says so.

use std::collections::BTreeMap;
use std::time::Duration;

use xfskit_workload::measure::Samples;
use xfskit_workload::measure::usage::Stopwatch;
use xfskit_workload::report::{Cell, Section, Table};

use super::aim::{Aims, Bound};
use super::requests::Requests;
use super::server::ServerUsage;
use super::side::{Mounted, Side};
use super::{Bench, is_installed};
use crate::contest::{Contest, Quantity};
use crate::frame::{Result, progress};
use crate::grid::Grid;

/// Requests of a kind are shown from this many on, for each unit of work.
const SHOWN: f64 = 0.005;
/// Descriptors that passthrough_ll needs besides one for each inode.
const DESCRIPTORS_MORE: u64 = 500;

/// A figure of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Title of its table.
    pub title: &'static str,
    /// Units of work in a second, or the time.
    pub quantity: Quantity,
    /// The unit of work, which requests are counted for.
    pub unit: &'static str,
    /// How many times as good as another side ours is to be.
    pub aims: &'static [(Side, Bound)],
    /// Round trips of a unit of work at most.
    pub round_trips: Option<f64>,
}

/// A workload.
pub trait Workload {
    /// Its title.
    fn title(&self) -> &'static str;
    /// Describes it, a paragraph each.
    fn text(&self) -> Vec<String>;
    /// Its figures.
    fn steps(&self) -> &'static [Step];
    /// Programs that it runs.
    fn programs(&self) -> &'static [&'static str];
    /// Inodes of the volume at most.
    fn inodes(&self) -> u64;
    /// Runs all of it on a new volume.
    ///
    /// # Errors
    /// Those of the side.
    fn turn(&self, turn: &mut Turn<'_>) -> Result<()>;
}

/// What was measured of a step in a turn.
#[derive(Clone, Debug, Default)]
struct Tally {
    /// Units of work.
    amount: f64,
    wall: Duration,
    /// Busy time of all processors.
    machine: Duration,
    requests: Requests,
    /// The figure, where it is not computed from these.
    figure: Option<f64>,
}

impl Tally {
    fn figure(&self, quantity: Quantity) -> Option<f64> {
        let seconds = self.wall.as_secs_f64();
        let computed = if quantity.larger_is_better { self.amount / seconds } else { seconds };
        self.figure.or((!self.wall.is_zero()).then_some(computed))
    }
}

/// The turn of a side.
#[derive(Debug)]
pub struct Turn<'b> {
    /// The run.
    pub bench: &'b Bench,
    /// The side.
    pub side: Side,
    tallies: Vec<Tally>,
    server: Option<ServerUsage>,
    notes: Vec<String>,
}

impl<'b> Turn<'b> {
    fn new(bench: &'b Bench, side: Side, steps: usize) -> Self {
        Self {
            bench,
            side,
            tallies: vec![Tally::default(); steps],
            server: None,
            notes: Vec::new(),
        }
    }

    /// Mounts the volume.
    ///
    /// # Errors
    /// If the side refuses.
    pub fn mount(&self) -> Result<Mounted> {
        self.side.mount(self.bench)
    }

    /// Unmounts the volume.
    ///
    /// # Errors
    /// If writing fails.
    pub fn unmount(&mut self, mounted: Mounted) -> Result<()> {
        if let Some(usage) = mounted.unmount()? {
            self.server = Some(self.server.map_or(usage, |before| before.and(usage)));
        }
        Ok(())
    }

    /// Measures `work` as a part of step `step`. It returns its units of work.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn timed(
        &mut self,
        step: usize,
        mounted: &Mounted,
        work: impl FnOnce() -> Result<f64>,
    ) -> Result<()> {
        let before = mounted.requests()?;
        let watch = Stopwatch::start()?;
        let amount = work()?;
        let usage = watch.read()?;
        let after = mounted.requests()?;
        let tally = &mut self.tallies[step];
        tally.amount += amount;
        tally.wall += usage.wall;
        tally.machine += usage.machine;
        if let (Some(before), Some(after)) = (before, after) {
            tally.requests.add(after.since(&before));
        }
        Ok(())
    }

    /// Measures `work` as a part of step `step`, if the side can do it. It must be ours or the
    /// kernel's to fail.
    ///
    /// # Errors
    /// Those of `work` on our side and the kernel's.
    pub fn timed_if_possible(
        &mut self,
        step: usize,
        title: &str,
        mounted: &Mounted,
        work: impl FnOnce() -> Result<f64>,
    ) -> Result<()> {
        match self.timed(step, mounted, work) {
            Err(error) if !self.side.must_work() => {
                self.notes.push(format!("{} cannot do {title}: {error}.", self.side.name()));
                Ok(())
            }
            done => done,
        }
    }

    /// Unmounts the volume, in the time of step `step`.
    ///
    /// # Errors
    /// If writing fails.
    pub fn timed_unmount(&mut self, step: usize, mounted: Mounted) -> Result<()> {
        let watch = Stopwatch::start()?;
        self.unmount(mounted)?;
        let usage = watch.read()?;
        self.tallies[step].wall += usage.wall;
        self.tallies[step].machine += usage.machine;
        Ok(())
    }

    /// Sets the figure of step `step`, which a program has measured itself.
    pub fn set(&mut self, step: usize, figure: f64) {
        self.tallies[step].figure = Some(figure);
    }
}

/// The results of a workload.
struct Results<'w> {
    workload: &'w dyn Workload,
    contests: Vec<Contest>,
    servers: Grid,
    /// Requests for each unit of work, of each turn, by step.
    requests: Vec<Vec<(Requests, f64)>>,
    notes: Vec<String>,
}

/// Runs a workload on all sides.
///
/// # Errors
/// Those of our side and the kernel's, and a damaged volume of ours.
pub fn measure(bench: &Bench, workload: &dyn Workload) -> Result<Section> {
    let mut results = Results::new(workload);
    let missing = workload.programs().iter().find(|program| !is_installed(program));
    if let Some(program) = missing {
        results.notes.push(format!("Not measured: {program} is not installed."));
        return Ok(results.section());
    }
    let mut sides = bench.sides.clone();
    results.leave_out(&mut sides);
    for turn in 1..=bench.turns {
        let mut order = sides.clone();
        if !order.is_empty() {
            order.rotate_left((turn - 1) % sides.len());
        }
        for side in order {
            progress(format!("{}, turn {turn}: {}", workload.title(), side.name()));
            if let Err(error) = results.turn(bench, side) {
                if side.must_work() {
                    return Err(format!("{}: {error}", side.name()).into());
                }
                results.notes.push(format!("{} is left out from here on: {error}", side.name()));
                sides.retain(|other| *other != side);
            }
        }
    }
    Ok(results.section())
}

impl<'w> Results<'w> {
    fn new(workload: &'w dyn Workload) -> Self {
        let sides = Side::ALL.map(|side| (side.name(), side.storage()));
        let contest =
            |step: &Step| Contest::new(step.title, step.quantity, Side::Xfskit.index(), &sides);
        let columns = [
            ("server: peak memory", "MiB", 0),
            ("server: processor time", "s", 2),
            ("all processors, while measured", "s", 2),
        ];
        Self {
            workload,
            contests: workload.steps().iter().map(contest).collect(),
            servers: Grid::new("Memory and processor time", &columns),
            requests: vec![Vec::new(); workload.steps().len()],
            notes: Vec::new(),
        }
    }

    /// Leaves passthrough_ll out where it may not have a descriptor for each inode.
    fn leave_out(&mut self, sides: &mut Vec<Side>) {
        let needed = self.workload.inodes() + DESCRIPTORS_MORE;
        let limit = super::raise_descriptors();
        if needed > limit && sides.contains(&Side::Passthrough) {
            sides.retain(|side| *side != Side::Passthrough);
            self.notes.push(format!(
                "passthrough_ll is left out: it holds a descriptor for each inode, {} here, and the \
                 limit is {} (ulimit -Hn).",
                Cell::Count(needed),
                Cell::Count(limit)
            ));
        }
    }

    fn turn(&mut self, bench: &Bench, side: Side) -> Result<()> {
        bench.format(side)?;
        bench.drop_caches()?;
        let mut turn = Turn::new(bench, side, self.contests.len());
        let done = self.workload.turn(&mut turn);
        self.add(&turn);
        done?;
        if side.is_ours() { bench.check() } else { Ok(()) }
    }

    fn add(&mut self, turn: &Turn<'_>) {
        let (steps, side) = (self.workload.steps(), turn.side);
        for note in &turn.notes {
            if !self.notes.contains(note) {
                self.notes.push(note.clone());
            }
        }
        for (n, (step, tally)) in steps.iter().zip(&turn.tallies).enumerate() {
            let Some(figure) = tally.figure(step.quantity) else { continue };
            self.contests[n].add(side.index(), figure);
            if side == Side::Xfskit {
                self.requests[n].push((tally.requests.clone(), tally.amount));
            }
        }
        let machine: Duration = turn.tallies.iter().map(|tally| tally.machine).sum();
        let server = turn.server.map_or([f64::NAN; 2], |server| {
            let pages = u32::try_from(server.peak_memory >> 12).map_or(f64::NAN, f64::from);
            [pages / 256.0, server.processor.as_secs_f64()]
        });
        let figures = [server[0], server[1], machine.as_secs_f64()];
        self.servers.add(side.name(), side.storage(), &figures);
    }

    fn section(self) -> Section {
        let mut section = Section::new(self.workload.title());
        section.text = self.workload.text();
        section.text.extend(self.notes.iter().cloned());
        let aims = self.aims();
        section.tables = self.contests.iter().map(Contest::table).collect();
        section.tables.retain(|table| !table.rows.is_empty());
        section.tables.extend(aims.table());
        section.tables.extend(self.requests_table());
        let servers = self.servers.table();
        section.tables.extend((!servers.rows.is_empty()).then_some(servers));
        section
    }

    fn aims(&self) -> Aims {
        let mut aims = Aims::default();
        for (n, step) in self.workload.steps().iter().enumerate() {
            for (other, bound) in step.aims {
                let what = format!("{}, beside {}", step.title, other.name());
                aims.add(
                    what,
                    "times as good",
                    *bound,
                    self.contests[n].times_as_good(other.index()),
                );
            }
            if let Some(most) = step.round_trips {
                let trips = counts(&self.requests[n], Requests::round_trips);
                let found = (trips.count() > 0).then(|| trips.median_interval());
                let what = format!("{}, round trips of each {}", step.title, step.unit);
                aims.add(what, "requests", Bound::AtMost(most), found);
            }
        }
        aims
    }

    /// Returns the table of requests to our mount for each unit of work.
    fn requests_table(&self) -> Option<Table> {
        let kinds = self.kinds();
        let mut columns = vec![("round trips", ""), ("in the server", "µs")];
        columns.extend(kinds.iter().map(|kind| (*kind, "")));
        let mut table = Table::new("Requests to xfskit mount", &columns);
        for (step, turns) in self.workload.steps().iter().zip(&self.requests) {
            if turns.is_empty() {
                continue;
            }
            let micros = samples(turns, Requests::server_seconds).map(|seconds| seconds * 1e6);
            let mut cells = vec![
                Cell::median(&counts(turns, Requests::round_trips), 2),
                Cell::median(&micros, 1),
            ];
            let of = |kind: &&str| Cell::median(&counts(turns, |all| all.count(kind)), 2);
            cells.extend(kinds.iter().map(of));
            table.row(format!("{}: each {}", step.title, step.unit), "a file", cells);
        }
        table.note(
            "Round trips are requests that a program waits for: all but release and forget, which may also arrive later.",
        );
        (!table.rows.is_empty()).then_some(table)
    }

    /// Returns the kinds of requests that matter in some step.
    fn kinds(&self) -> Vec<&str> {
        let mut kinds: BTreeMap<&str, f64> = BTreeMap::new();
        for turns in &self.requests {
            for kind in turns.iter().flat_map(|(requests, _)| requests.kinds()) {
                let most = kinds.entry(kind).or_default();
                *most = most.max(counts(turns, |requests| requests.count(kind)).median());
            }
        }
        kinds.into_iter().filter(|(_, most)| *most >= SHOWN).map(|(kind, _)| kind).collect()
    }
}

/// Returns requests for each unit of work, a sample for each turn.
#[allow(clippy::cast_precision_loss)] // of a ratio
fn counts(turns: &[(Requests, f64)], count: impl Fn(&Requests) -> u64) -> Samples {
    samples(turns, |requests| count(requests) as f64)
}

/// Returns something for each unit of work, a sample for each turn.
fn samples(turns: &[(Requests, f64)], of: impl Fn(&Requests) -> f64) -> Samples {
    turns.iter().map(|(requests, amount)| of(requests) / amount).collect()
}
