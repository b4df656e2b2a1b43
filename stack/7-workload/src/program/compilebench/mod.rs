//! compilebench: a filesystem ages as source trees are created, patched, compiled, read and
//! deleted.
//!
//! The procedure is that of compilebench 0.6. First some trees are created. Then each run performs
//! one operation on a random tree in a suitable state, with cold caches, and with the sync inside
//! the time. The result is the average over the runs. The trees are not the kernel's own but
//! [generated](dataset) after their figures.
//!
//! | module | what |
//! | --- | --- |
//! | [`dataset`] | the files and their sizes |
//! | `tree` | operations on one tree |

pub mod dataset;
mod tree;

use std::fmt::Write as _;
use std::io;

use crate::Driver;
use crate::measure::Usage;
use crate::measure::usage::Stopwatch;
use crate::random::Random;
use dataset::Dataset;
use tree::Tree;

/// The parameters, named after compilebench's options.
#[derive(Clone, Debug)]
pub struct Options {
    /// `-i`: trees that are created first.
    pub initial: usize,
    /// `-r`: operations after that.
    pub runs: usize,
    /// `-b`: bytes of a write or read.
    pub buffer: usize,
    /// Syncs, and drops caches before each run; `--no-sync` turns it off.
    pub sync: bool,
    /// `--makej`: instead of the runs, compiles all trees, reads some, and deletes all.
    pub makej: bool,
    /// Files of a clean tree; the published one has [`dataset::FILES`].
    pub files: usize,
    /// The same seed gives the same trees and the same choices.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            initial: 30,
            runs: 100,
            buffer: 256 << 10,
            sync: true,
            makej: false,
            files: dataset::FILES,
            seed: 555,
        }
    }
}

impl Options {
    /// Rejects options that leave nothing to do.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`].
    pub fn validate(&self) -> io::Result<()> {
        if self.initial > 0 || (self.runs > 0 && !self.makej) {
            return Ok(());
        }
        let why = "nothing to do: set trees (-i) or operations (-r)";
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }
}

/// The operation of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Creates one of the initial trees.
    InitialCreate,
    /// Creates another tree.
    Create,
    /// Applies a patch.
    Patch,
    /// Writes the output of a compiler.
    Compile,
    /// Removes the output of the compiler.
    Clean,
    /// Reads all files of a tree.
    ReadTree,
    /// Reads all files of a compiled tree.
    ReadCompiledTree,
    /// Removes a tree.
    DeleteTree,
    /// Removes a compiled tree.
    DeleteCompiledTree,
    /// Calls stat on all names of a tree.
    StatTree,
    /// Calls stat on all names of a compiled tree.
    StatCompiledTree,
}

impl Kind {
    /// All operations in the order of the summary.
    pub const ALL: [Self; 11] = [
        Self::InitialCreate,
        Self::Create,
        Self::Patch,
        Self::Compile,
        Self::Clean,
        Self::ReadTree,
        Self::ReadCompiledTree,
        Self::DeleteTree,
        Self::DeleteCompiledTree,
        Self::StatTree,
        Self::StatCompiledTree,
    ];

    /// Returns the name that the output uses.
    pub fn name(self) -> &'static str {
        match self {
            Self::InitialCreate => "initial create",
            Self::Create => "create",
            Self::Patch => "patch",
            Self::Compile => "compile",
            Self::Clean => "clean",
            Self::ReadTree => "read tree",
            Self::ReadCompiledTree => "read compiled tree",
            Self::DeleteTree => "delete tree",
            Self::DeleteCompiledTree => "delete compiled tree",
            Self::StatTree => "stat tree",
            Self::StatCompiledTree => "stat compiled tree",
        }
    }

    /// Returns true if the result is in megabytes per second instead of seconds.
    pub fn is_rate(self) -> bool {
        self <= Self::ReadCompiledTree
    }
}

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    /// The operation.
    pub kind: Kind,
    /// Name of the tree.
    pub tree: String,
    /// Bytes, or names if the result is in seconds.
    pub amount: u64,
    /// Time used.
    pub usage: Usage,
    /// Caches were empty when the run began.
    pub cold: bool,
}

impl Run {
    /// Returns megabytes (10^6 bytes) per second, or seconds.
    #[allow(clippy::cast_precision_loss)] // of a rate
    pub fn figure(&self) -> f64 {
        let seconds = self.usage.wall.as_secs_f64();
        if self.kind.is_rate() { self.amount as f64 / 1e6 / seconds } else { seconds }
    }

    /// Formats the output line of the run.
    pub fn line(&self) -> String {
        let (kind, tree, seconds) = (self.kind.name(), &self.tree, self.usage.wall.as_secs_f64());
        if !self.kind.is_rate() {
            return format!("{kind} {tree} in {seconds:.2} seconds");
        }
        let megabytes = self.amount / 1_000_000;
        format!("{kind} {tree} {megabytes}MB in {seconds:.2} seconds ({:.2} MB/s)", self.figure())
    }
}

/// Formats the averages, which are printed at the end.
#[allow(clippy::cast_precision_loss)] // of averages
pub fn summary(runs: &[Run]) -> String {
    let mut text = format!("\nrun complete:\n{}\n", "=".repeat(74));
    for kind in Kind::ALL {
        let runs: Vec<&Run> = runs.iter().filter(|run| run.kind == kind).collect();
        let n = runs.len();
        if n == 0 {
            let _ = writeln!(text, "no runs for {}", kind.name());
            continue;
        }
        let mean =
            |of: &dyn Fn(&Run) -> f64| runs.iter().map(|run| of(run)).sum::<f64>() / n as f64;
        let unit = if kind.is_rate() { "MB/s" } else { "seconds" };
        let _ = writeln!(
            text,
            "{} total runs {n} avg {:.2} {unit} (user {:.2}s sys {:.2}s)",
            kind.name(),
            mean(&Run::figure),
            mean(&|run| run.usage.user.as_secs_f64()),
            mean(&|run| run.usage.system.as_secs_f64()),
        );
    }
    text
}

/// The state of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Clean,
    Compiled,
    Patched,
    PatchedCompiled,
}

impl State {
    fn is_compiled(self) -> bool {
        matches!(self, Self::Compiled | Self::PatchedCompiled)
    }
}

/// A random choice; all are equally likely.
#[derive(Clone, Copy, Debug)]
enum Choice {
    Create,
    Patch,
    Compile,
    Clean,
    Read,
    Stat,
    Delete,
}

const CHOICES: [Choice; 7] = [
    Choice::Create,
    Choice::Patch,
    Choice::Compile,
    Choice::Clean,
    Choice::Read,
    Choice::Stat,
    Choice::Delete,
];

/// Runs the benchmark, and passes each line and each run to `report`.
///
/// # Errors
/// If there is nothing to do, and the errors of the filesystem.
pub fn run<D: Driver>(
    driver: &mut D,
    options: &Options,
    report: &mut dyn FnMut(&str, Option<&Run>) -> io::Result<()>,
) -> io::Result<Vec<Run>> {
    options.validate()?;
    let mut work = Work {
        set: Dataset::new(options.files, options.seed),
        driver,
        options,
        report,
        random: Random::new(options.seed),
        buffer: vec![b'a'; options.buffer.max(1)],
        trees: Vec::new(),
        runs: Vec::new(),
    };
    work.sort_lists()?;
    for n in 0..options.initial {
        work.create(Kind::InitialCreate, format!("kernel-{n}"))?;
    }
    if options.sync {
        work.driver.sync()?;
    }
    if options.makej {
        work.compile_all()?;
    } else {
        (0..options.runs).try_for_each(|_| work.run_one())?;
    }
    Ok(work.runs)
}

struct Work<'w, D: Driver> {
    driver: &'w mut D,
    options: &'w Options,
    report: &'w mut dyn FnMut(&str, Option<&Run>) -> io::Result<()>,
    set: Dataset,
    random: Random,
    buffer: Vec<u8>,
    trees: Vec<(String, State)>,
    runs: Vec<Run>,
}

impl<D: Driver> Work<'_, D> {
    /// Writes the lists once to a tree, and sorts them by the order of names in its directories.
    /// The compiled files keep their own random order.
    fn sort_lists(&mut self) -> io::Result<()> {
        let name = "native-0";
        let watch = Stopwatch::start()?;
        let mut set = self.set.clone();
        let mut tree = Tree::new(&*self.driver, &self.set, name.as_bytes(), &mut self.buffer);
        tree.make_dirs()?;
        let written = tree.write(&set.clean)?;
        tree.patch(&set.patched, false)?;
        tree.write(&set.patched_compiled)?;
        let order = tree.order()?;
        for list in [&mut set.clean, &mut set.patched, &mut set.patched_compiled] {
            list.sort_by_key(|file| order.get(&(file.dir, file.name.clone())).copied());
        }
        tree.remove()?;
        self.set = set;
        let seconds = watch.read()?.wall.as_secs_f64();
        (self.report)(
            &format!("native {name} {}MB in {seconds:.2} seconds", written / 1_000_000),
            None,
        )
    }

    /// Performs one operation and records its time.
    fn timed(
        &mut self,
        kind: Kind,
        name: &str,
        act: impl FnOnce(&mut Tree<'_, D>, &Dataset) -> io::Result<u64>,
    ) -> io::Result<()> {
        let sync = self.options.sync && kind != Kind::InitialCreate;
        let cold = sync
            && match self.driver.drop_caches() {
                Err(err) if err.kind() == io::ErrorKind::PermissionDenied => false,
                dropped => dropped.map(|()| true)?,
            };
        let watch = Stopwatch::start()?;
        let mut tree = Tree::new(&*self.driver, &self.set, name.as_bytes(), &mut self.buffer);
        let amount = act(&mut tree, &self.set)?;
        if sync {
            self.driver.sync()?;
        }
        let run = Run { kind, tree: name.to_owned(), amount, usage: watch.read()?, cold };
        (self.report)(&run.line(), Some(&run))?;
        self.runs.push(run);
        Ok(())
    }

    fn create(&mut self, kind: Kind, name: String) -> io::Result<()> {
        self.timed(kind, &name, |tree, set| {
            tree.make_dirs()?;
            tree.write(&set.clean)
        })?;
        self.trees.push((name, State::Clean));
        Ok(())
    }

    /// Picks a random tree in a suitable state.
    fn pick(&mut self, fits: impl Fn(State) -> bool) -> Option<usize> {
        let suitable: Vec<usize> =
            (0..self.trees.len()).filter(|&n| fits(self.trees[n].1)).collect();
        (!suitable.is_empty()).then(|| suitable[self.random.index(suitable.len())])
    }

    /// Performs one random operation for which a suitable tree exists.
    fn run_one(&mut self) -> io::Result<()> {
        loop {
            let choice = CHOICES[self.random.index(CHOICES.len())];
            let at = match choice {
                Choice::Create => {
                    let mut name = format!("kernel-{}", 100_000 + self.random.below(900_000));
                    while self.trees.iter().any(|(other, _)| *other == name) {
                        name.push('x');
                    }
                    return self.create(Kind::Create, name);
                }
                Choice::Patch => self.pick(|state| matches!(state, State::Clean | State::Compiled)),
                Choice::Compile => self.pick(|state| state == State::Clean),
                Choice::Clean => self.pick(|state| state == State::Compiled),
                Choice::Read | Choice::Stat | Choice::Delete => self.pick(|_| true),
            };
            if let Some(at) = at {
                return self.apply(choice, at);
            }
        }
    }

    fn apply(&mut self, choice: Choice, at: usize) -> io::Result<()> {
        let (name, state) = self.trees[at].clone();
        let of = |plain, compiled| if state.is_compiled() { compiled } else { plain };
        match choice {
            Choice::Create => return self.create(Kind::Create, name),
            Choice::Patch => {
                let unlink_first = self.random.below(4) == 0;
                self.timed(Kind::Patch, &name, |tree, set| tree.patch(&set.patched, unlink_first))?;
                self.trees[at].1 =
                    if state.is_compiled() { State::PatchedCompiled } else { State::Patched };
            }
            Choice::Compile => {
                self.timed(Kind::Compile, &name, |tree, set| tree.write(&set.compiled))?;
                self.trees[at].1 = State::Compiled;
            }
            Choice::Clean => {
                self.timed(Kind::Clean, &name, |tree, set| tree.unlink(&set.compiled))?;
                self.trees[at].1 = State::Clean;
            }
            Choice::Read => {
                let kind = of(Kind::ReadTree, Kind::ReadCompiledTree);
                self.timed(kind, &name, |tree, _| tree.read())?;
            }
            Choice::Stat => {
                let kind = of(Kind::StatTree, Kind::StatCompiledTree);
                self.timed(kind, &name, |tree, _| tree.stat())?;
            }
            Choice::Delete => {
                let kind = of(Kind::DeleteTree, Kind::DeleteCompiledTree);
                self.timed(kind, &name, |tree, _| tree.remove())?;
                self.trees.swap_remove(at);
            }
        }
        Ok(())
    }

    /// Compiles all trees, reads some, and deletes all.
    fn compile_all(&mut self) -> io::Result<()> {
        (0..self.trees.len()).try_for_each(|at| self.apply(Choice::Compile, at))?;
        (0..self.trees.len().min(3)).try_for_each(|at| self.apply(Choice::Read, at))?;
        while !self.trees.is_empty() {
            self.apply(Choice::Delete, self.trees.len() - 1)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::mounted::Mounted;
    use crate::driver::testing::Recorder;

    /// Small options that do not drop the machine's caches.
    fn small() -> Options {
        Options { initial: 3, runs: 40, files: 60, sync: false, ..Options::default() }
    }

    fn run_on_a_directory(options: &Options) -> Vec<Run> {
        let dir = tempfile::tempdir().expect("a directory");
        let mut driver = Mounted::new(dir.path(), "here", "a file").expect("open");
        run(&mut driver, options, &mut |_, _| Ok(())).expect("a run")
    }

    #[test]
    fn runs_perform_all_operations_and_report_each() {
        let runs = run_on_a_directory(&Options { runs: 150, ..small() });
        assert_eq!(runs.len(), 153);
        assert!(Kind::ALL.iter().all(|kind| runs.iter().any(|run| run.kind == *kind)));
        let create = runs.iter().find(|run| run.kind == Kind::Create).expect("a run");
        let read = runs.iter().find(|run| run.kind == Kind::ReadTree).expect("a run");
        assert!(create.amount > 60 * 1000 && read.amount > 60 * 1000);
        let summary = summary(&runs);
        assert!(summary.contains("\ninitial create total runs 3 avg "), "{summary}");
    }

    #[test]
    fn makej_compiles_and_deletes_all_trees() {
        let runs = run_on_a_directory(&Options { makej: true, ..small() });
        let count = |kind| runs.iter().filter(|run| run.kind == kind).count();
        assert_eq!(count(Kind::Compile), 3);
        assert_eq!((count(Kind::ReadCompiledTree), count(Kind::DeleteCompiledTree)), (3, 3));
        assert_eq!(runs.len(), 12);
    }

    #[test]
    fn a_run_without_trees_and_operations_is_refused() {
        for options in [Options { runs: 0, ..small() }, Options { makej: true, ..small() }] {
            let options = Options { initial: 0, ..options };
            let mut recorder = Recorder::default();
            let refused = run(&mut recorder, &options, &mut |_, _| Ok(()));
            assert_eq!(refused.expect_err("refused").kind(), io::ErrorKind::InvalidInput);
            assert!(recorder.calls().is_empty(), "nothing was touched");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_calls() {
        let calls = |seed| {
            let mut recorder = Recorder::default();
            run(&mut recorder, &Options { seed, ..small() }, &mut |_, _| Ok(())).expect("a run");
            recorder.calls()
        };
        assert_eq!(calls(1), calls(1));
        assert_ne!(calls(1), calls(2));
    }
}
