//! Cost: processor time to set, overwrite and remove millions of attributes, on one file for each
//! thread.

use std::io;

use serde_json::json;

use super::case::name;
use super::published;
use super::space::value;
use crate::Driver;
use crate::driver::null::Null;
use crate::measure::phase::{Measured, parallel};
use crate::measure::{Decision, Interval, Samples, Usage, interval_note};
use crate::report::{Answer, Axis, Cell, Line, Plot, Section, Source, Table};
use crate::suite::{Observer, Settings};
use crate::testbed::{Implementation, Job};

/// Bytes of a value, as published.
const VALUE: usize = 40;

/// The range of counts.
#[derive(Clone, Debug)]
pub struct Counts {
    /// Attributes of the largest run.
    pub most: u64,
    /// Attributes of the smallest run, and the step between runs.
    pub step: u64,
}

impl Counts {
    fn each(&self) -> impl Iterator<Item = u64> {
        let step = self.step.clamp(1, self.most.max(1));
        (1..=self.most / step).map(move |n| n * step)
    }
}

/// Sets all attributes, syncs, overwrites all in order, syncs, drops caches, removes all in order,
/// syncs.
pub(super) struct Work {
    pub(super) count: u64,
    pub(super) threads: usize,
    pub(super) seed: u64,
}

/// An operation whose cost is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Set,
    Overwritten,
    Removed,
}

impl Operation {
    const ALL: [Self; 3] = [Self::Set, Self::Overwritten, Self::Removed];

    /// Returns the name that reports use.
    fn name(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Overwritten => "overwritten",
            Self::Removed => "removed",
        }
    }
}

/// The time of each operation, and whether caches were empty before the removal.
pub(super) struct Times {
    /// In the order of [`Operation::ALL`].
    usages: [Usage; 3],
    cold: bool,
}

impl Work {
    fn each<D: Driver>(
        &self,
        driver: &D,
        call: impl Fn(&D::File<'_>, u64) -> io::Result<()> + Sync,
    ) -> io::Result<Usage> {
        let Measured { usage, .. } = parallel(
            self.threads,
            |thread| {
                let root = driver.root()?;
                let file = driver.open(&root, &file(thread))?;
                (0..self.count).try_for_each(|n| call(&file, n))?;
                driver.close(file)
            },
            || driver.sync(),
        )?;
        Ok(usage)
    }
}

fn file(thread: usize) -> Vec<u8> {
    format!("file{thread}").into_bytes()
}

impl Job for Work {
    type Output = Times;

    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<Times> {
        let value = value(self.seed, VALUE);
        let root = driver.root()?;
        (0..self.threads).try_for_each(|thread| driver.create_empty(&root, &file(thread)))?;
        drop(root);
        let set = self.each(&*driver, |file, n| driver.set_xattr(file, &name(n), &value))?;
        // As long as the first value, and different in every byte.
        let other: Vec<u8> = value.iter().map(|byte| !byte).collect();
        let overwritten =
            self.each(&*driver, |file, n| driver.set_xattr(file, &name(n), &other))?;
        let cold = match driver.drop_caches() {
            Err(err) if err.kind() == io::ErrorKind::PermissionDenied => false,
            dropped => dropped.map(|()| true)?,
        };
        let removed = self.each(&*driver, |file, n| driver.remove_xattr(file, &name(n)))?;
        Ok(Times { usages: [set, overwritten, removed], cold })
    }
}

/// One operation: processor time per attribute in µs, and wall time of all in seconds.
#[derive(Clone, Debug, Default)]
struct Cost {
    processor: Samples,
    wall: Samples,
}

/// One count with one driver.
#[derive(Debug)]
struct CostPoint {
    driver: &'static str,
    storage: String,
    count: u64,
    /// In the order of [`Operation::ALL`].
    costs: [Cost; 3],
    cold: bool,
}

/// Returns the lengths of the steps of the part, relative to each other.
#[allow(clippy::cast_precision_loss)] // of lengths
pub(super) fn lengths(counts: &Counts, settings: &Settings, drivers: usize) -> Vec<f64> {
    let turns = settings.repetitions * drivers;
    counts.each().flat_map(|count| std::iter::repeat_n(count as f64, turns)).collect()
}

/// Runs the cost part and formats its section.
///
/// # Errors
/// The errors of the volumes, and of the observer if it stops the suite.
pub(super) fn section(
    counts: &Counts,
    settings: &Settings,
    implementations: &[Implementation],
    observer: &mut dyn Observer,
) -> io::Result<Section> {
    let mut costs: Vec<CostPoint> = Vec::new();
    for count in counts.each() {
        let work = || Work { count, threads: settings.threads, seed: settings.seed };
        let mut here: Vec<CostPoint> = implementations
            .iter()
            .map(|implementation| CostPoint::new(implementation.name(), count))
            .collect();
        let mut harness = CostPoint::new(Driver::name(&Null), count);
        for turn in 0..settings.repetitions {
            for (cost, &implementation) in here.iter_mut().zip(implementations) {
                observer.progress(&format!(
                    "{count} attributes on {}, turn {turn}",
                    implementation.name()
                ))?;
                let mut volume = settings.volume(implementation)?;
                cost.add(&volume.run(&mut work())?, settings.threads);
                volume.storage().clone_into(&mut cost.storage);
            }
            Null.storage().clone_into(&mut harness.storage);
            harness.add(&work().run(&mut Null)?, settings.threads);
        }
        here.push(harness);
        for cost in &here {
            observer.result(cost.to_json())?;
        }
        costs.extend(here);
    }
    let mut section =
        Section::new("Cost: values of 40 bytes, set, overwritten and removed in order");
    section.paragraph(format!(
        "Each count has a volume of its own, with {} file(s) and one thread for each. An attribute is overwritten by a value \
         of the same length. The time includes the final syncs, and the caches are dropped before the removal. Processor time \
         is user and system time of the process, without the kernel's own threads; wall times include those.",
        settings.threads
    ));
    section.answer = answer(&costs);
    growth(&mut section, &costs);
    against_kernel(&mut section, &costs);
    section.text.extend(inserted(&costs));
    section.tables.push(table(&costs));
    section.tables.extend(ratios(&costs));
    section.plots.push(plot(&costs, settings.threads));
    Ok(section)
}

impl CostPoint {
    fn new(driver: &'static str, count: u64) -> Self {
        Self { driver, storage: String::new(), count, costs: Default::default(), cold: true }
    }

    #[allow(clippy::cast_precision_loss)] // of a rate
    fn add(&mut self, times: &Times, threads: usize) {
        let all = self.count as f64 * threads as f64;
        for (cost, usage) in self.costs.iter_mut().zip(&times.usages) {
            cost.processor.add(usage.processor.as_secs_f64() * 1e6 / all);
            cost.wall.add(usage.wall.as_secs_f64());
        }
        self.cold &= times.cold;
    }

    fn cost(&self, operation: Operation) -> &Cost {
        let [set, overwritten, removed] = &self.costs;
        match operation {
            Operation::Set => set,
            Operation::Overwritten => overwritten,
            Operation::Removed => removed,
        }
    }

    fn to_json(&self) -> serde_json::Value {
        let [set, overwritten, removed] = &self.costs;
        json!({ "xattr_cost": {
            "driver": self.driver,
            "storage": self.storage,
            "count": self.count,
            "set_us": set.processor,
            "overwritten_us": overwritten.processor,
            "removed_us": removed.processor,
            "set_seconds": set.wall,
            "overwritten_seconds": overwritten.wall,
            "removed_seconds": removed.wall,
            "cold": self.cold,
        }})
    }
}

/// Goal: the ratio between an attribute's cost among ten million and among one million.
const GROWTH_GOAL: f64 = 1.15;
/// Goal: the kernel's time for a million attributes over that of xfskit.
const KERNEL_GOAL: f64 = 8.0;
/// Goal: seconds to set ten million attributes.
const INSERT_GOAL: f64 = 20.0;

const MILLION: u64 = 1_000_000;
const XFSKIT: &str = "xfskit";
const KERNEL: &str = "kernel XFS";

/// Returns the figures of `driver` with this count.
fn find<'c>(costs: &'c [CostPoint], driver: &str, count: u64) -> Option<&'c CostPoint> {
    costs.iter().find(|cost| cost.driver == driver && cost.count == count)
}

/// Formats something for each operation: "1.10 times to set, …".
fn for_each_operation(format: impl Fn(Operation) -> String) -> String {
    let [set, overwritten, removed] = Operation::ALL.map(format);
    format!("{set} to set, {overwritten} to overwrite and {removed} to remove")
}

/// Returns the sentence about a goal.
fn verdict(decision: Decision) -> &'static str {
    match decision {
        Decision::Shown => "It is reached.",
        Decision::Refuted => "It is missed.",
        Decision::Undecided => "This run does not decide.",
        Decision::TooFewTurns => "So few turns do not decide.",
    }
}

/// Decides about all operations together.
fn decide_all(decide: impl Fn(Operation) -> Decision) -> Decision {
    Operation::ALL.map(decide).into_iter().fold(Decision::Shown, Decision::and)
}

/// Reports the ratio between the cost with the largest and with the smallest count.
fn growth(section: &mut Section, costs: &[CostPoint]) {
    for driver in [XFSKIT, KERNEL] {
        let same_driver: Vec<&CostPoint> =
            costs.iter().filter(|cost| cost.driver == driver).collect();
        let (Some(few), Some(many)) = (same_driver.first(), same_driver.last()) else { continue };
        if few.count == many.count {
            continue;
        }
        let times =
            |operation| many.cost(operation).processor.times(&few.cost(operation).processor);
        section.paragraph(format!(
            "{driver}: an attribute among {} costs {}, relative to one among {}, in processor time.",
            Cell::Count(many.count),
            for_each_operation(|operation| format!("{:.2} times", times(operation).middle)),
            Cell::Count(few.count),
        ));
        if driver == XFSKIT && (few.count, many.count) == (MILLION, 10 * MILLION) {
            let decision = decide_all(|operation| times(operation).at_most(GROWTH_GOAL));
            let reason = if decision == Decision::Refuted {
                " The bottleneck is memory: every call uses a random leaf, and the leaves take a gigabyte instead of a \
                 tenth of that. Most leaves are changed once for each time that they are written to the journal and \
                 in place, and no longer several times."
            } else {
                ""
            };
            section.paragraph(format!(
                "The goal is at most {GROWTH_GOAL} times. {}{reason}",
                verdict(decision)
            ));
        }
    }
}

/// Compares the smallest count with the kernel.
fn against_kernel(section: &mut Section, costs: &[CostPoint]) {
    let Some(ours) = costs.iter().find(|cost| cost.driver == XFSKIT) else { return };
    let Some(kernel) = find(costs, KERNEL, ours.count) else { return };
    let times = |operation| kernel.cost(operation).wall.times(&ours.cost(operation).wall);
    let goal = if ours.count == MILLION {
        let decision = decide_all(|operation| times(operation).at_least(KERNEL_GOAL));
        format!(" The goal is at least {KERNEL_GOAL} times. {}", verdict(decision))
    } else {
        String::new()
    };
    section.paragraph(format!(
        "With {} attributes the kernel takes {} as long as xfskit, in wall time.{goal}",
        Cell::Count(ours.count),
        for_each_operation(|operation| format!("{:.1} times", times(operation).middle)),
    ));
}

/// Compares the time to set ten million attributes with its goal.
fn inserted(costs: &[CostPoint]) -> Option<String> {
    let ours = find(costs, XFSKIT, 10 * MILLION)?;
    let seconds = ours.cost(Operation::Set).wall.median_interval();
    Some(format!(
        "{} attributes were set in {:.1} s. The goal is less than {INSERT_GOAL} s. {}",
        Cell::Count(ours.count),
        seconds.middle,
        verdict(seconds.at_most(INSERT_GOAL))
    ))
}

/// Returns the answer to the question of cost, from the largest count.
fn answer(costs: &[CostPoint]) -> Option<Answer> {
    let few = costs.iter().find(|cost| cost.driver == XFSKIT)?;
    let many = costs.iter().rfind(|cost| cost.driver == XFSKIT && cost.count > few.count)?;
    let each = |cost: &CostPoint, operation| cost.cost(operation).processor.median();
    let times = |operation| many.cost(operation).processor.times(&few.cost(operation).processor);
    let by = |a: &Interval, b: &Interval| a.middle.total_cmp(&b.middle);
    let most = Operation::ALL.map(times).into_iter().max_by(by)?;
    let factor = many.count / few.count;
    let growth = |ten: f64, one: f64| ten / one / 10.0;
    let (set, removed) = (published::SET, published::REMOVED);
    Some(Answer {
        question: "Does an attribute cost more on a file that has more of them?".into(),
        verdict: most.above(1.0).sentence(
            &format!(
                "At most {:.2} times as much on a file with {factor} times as many",
                most.middle
            ),
            &format!("Not more, on a file with {factor} times as many"),
            &most.range(|times| format!("{times:.2} times")),
            most.turns,
        ),
        figure: format!(
            "{:.2} µs to set, {:.2} µs to overwrite, {:.2} µs to remove, among {}.",
            each(many, Operation::Set),
            each(many, Operation::Overwritten),
            each(many, Operation::Removed),
            Cell::Count(many.count),
        ),
        published: format!(
            "{:.2} times to set and {:.2} times to remove, for 10 times as many.",
            growth(set[9], set[0]),
            growth(removed[9], removed[0]),
        ),
    })
}

fn table(costs: &[CostPoint]) -> Table {
    let mut table = Table::new(
        "Time for an attribute",
        &[
            ("attributes", ""),
            ("processor", "µs"),
            ("spread", "± %"),
            ("wall", "µs"),
            ("wall, all", "s"),
            ("turns", ""),
            ("caches", ""),
        ],
    );
    for operation in Operation::ALL {
        for cost in costs {
            table.row(
                format!("{}: {}", operation.name(), cost.driver),
                cost.storage.clone(),
                cost.cells(operation),
            );
        }
        add_published(&mut table, costs, operation);
    }
    table
}

impl CostPoint {
    #[allow(clippy::cast_precision_loss)] // of a rate
    fn cells(&self, operation: Operation) -> Vec<Cell> {
        let Cost { processor, wall } = self.cost(operation);
        let cold = self.cold && operation == Operation::Removed;
        vec![
            Cell::Count(self.count),
            Cell::median(processor, 2),
            Cell::Number(processor.spread() * 100.0, 1),
            Cell::median(&wall.map(|seconds| seconds * 1e6 / self.count as f64), 2),
            Cell::median(wall, 2),
            Cell::Count(processor.count() as u64),
            Cell::Text(if cold { "cold" } else { "warm" }.into()),
        ]
    }
}

/// Adds the published figures of the counts that were measured.
fn add_published(table: &mut Table, costs: &[CostPoint], operation: Operation) {
    let seconds = match operation {
        Operation::Set => published::SET,
        Operation::Overwritten => return,
        Operation::Removed => published::REMOVED,
    };
    let caches = if operation == Operation::Removed { "cold" } else { "warm" };
    for (count, seconds) in (1..).map(|n| n * MILLION).zip(seconds) {
        if !costs.iter().any(|cost| cost.count == count) {
            continue;
        }
        #[allow(clippy::cast_precision_loss)] // of a rate
        let each = Cell::Number(seconds * 1e6 / count as f64, 2);
        let (count, caches) = (Cell::Count(count), Cell::Text(caches.into()));
        let cells = vec![count, each, Cell::None, Cell::None, Cell::None, Cell::None, caches];
        let name = format!("{}: kernel XFS of 2020, system time", operation.name());
        table.published(name, "", cells);
    }
}

/// Sets the kernel's times over those of xfskit; `None` without the kernel.
fn ratios(costs: &[CostPoint]) -> Option<Table> {
    let mut table = Table::new(
        "xfskit against kernel XFS: time of the kernel over that of xfskit",
        &[
            ("attributes", ""),
            ("wall", "times"),
            ("at least", ""),
            ("at most", ""),
            ("processor", "times"),
            ("turns", ""),
        ],
    );
    for operation in Operation::ALL {
        for kernel in costs.iter().filter(|cost| cost.driver == KERNEL) {
            let Some(ours) = find(costs, XFSKIT, kernel.count) else { continue };
            let (ours, theirs) = (ours.cost(operation), kernel.cost(operation));
            let wall = theirs.wall.ratio_to(&ours.wall);
            let cells = vec![
                Cell::Count(kernel.count),
                Cell::Number(wall.ratio, 2),
                Cell::Number(wall.low, 2),
                Cell::Number(wall.high, 2),
                Cell::Number(theirs.processor.ratio_to(&ours.processor).ratio, 2),
                Cell::Count(theirs.wall.count() as u64),
            ];
            table.row(operation.name(), kernel.storage.clone(), cells);
        }
    }
    let turns = costs.iter().map(|cost| cost.costs[0].wall.count()).min().unwrap_or(0);
    table.note(interval_note(turns));
    (!table.rows.is_empty()).then_some(table)
}

#[allow(clippy::cast_precision_loss)] // of a plot
fn plot(costs: &[CostPoint], threads: usize) -> Plot {
    let mut lines: Vec<Line> = Vec::new();
    for cost in costs.iter().filter(|cost| cost.driver != Driver::name(&Null)) {
        let all = cost.count as f64 * threads as f64 / 1e6;
        for operation in Operation::ALL {
            let name = format!("{}, {}", cost.driver, operation.name());
            let point = (cost.count as f64 / 1e6, cost.cost(operation).processor.median() * all);
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push(point),
                None => lines.push(Line { name, source: Source::Measured, points: vec![point] }),
            }
        }
    }
    let most = costs.iter().map(|cost| cost.count).max().unwrap_or(0);
    for (what, seconds) in [("set", published::SET), ("removed", published::REMOVED)] {
        let points: Vec<(f64, f64)> = (1..)
            .zip(seconds)
            .filter(|(n, _)| n * 1_000_000 <= most)
            .map(|(n, s)| (n as f64, s))
            .collect();
        if points.len() > 1 {
            let name = format!("kernel XFS of 2020, {what}");
            lines.push(Line { name, source: Source::Published, points });
        }
    }
    Plot {
        title: "Attributes of 40 bytes: processor time over their number".into(),
        x: Axis::logarithmic("attributes, millions"),
        y: Axis::logarithmic("processor time, s"),
        lines,
    }
}
