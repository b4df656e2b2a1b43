//! compilebench: a filesystem ages as people make, patch, compile, read and delete source trees.
//!
//! As compilebench 0.6 does it. Some trees are made first; then come runs, each one operation on a tree taken at random
//! among those in a fitting state, with cold caches and the sync inside the time. Averages over the runs are the result.
//! The trees are not the kernel's own but [made](dataset) after their figures.
//!
//! | module | what |
//! | --- | --- |
//! | [`dataset`] | which files, of which sizes |
//! | `tree` | one tree, and what is done with it |

pub mod dataset;
mod tree;

use std::fmt::Write as _;
use std::io;

use crate::Driver;
use crate::measure::Usage;
use crate::measure::usage::Watch;
use crate::random::Random;
use dataset::Dataset;
use tree::Tree;

/// What is to be done, in the words of compilebench's options.
#[derive(Clone, Debug)]
pub struct Options {
    /// `-i`: trees that are made first.
    pub initial: usize,
    /// `-r`: operations after that.
    pub runs: usize,
    /// `-b`: bytes in a write or read.
    pub buffer: usize,
    /// Syncs and cold caches; off with `--no-sync`.
    pub sync: bool,
    /// `--makej`: instead of the runs all trees are compiled, some read, all deleted.
    pub makej: bool,
    /// Files of a clean tree; the published one has [`dataset::FILES`].
    pub files: usize,
    /// The same seed makes the same trees and the same choices.
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
    /// Refuses what leaves nothing to do, in words.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`].
    pub fn judge(&self) -> io::Result<()> {
        if self.initial > 0 || (self.runs > 0 && !self.makej) {
            return Ok(());
        }
        let why = "nothing to do: ask for trees (-i) or for operations (-r)";
        Err(io::Error::new(io::ErrorKind::InvalidInput, why))
    }
}

/// What is done in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A tree of those that are made first.
    InitialCreate,
    /// A further one.
    Create,
    /// A patch is applied.
    Patch,
    /// What a compiler writes is written.
    Compile,
    /// That is removed.
    Clean,
    /// Everything is read.
    ReadTree,
    /// The same of a tree that is compiled.
    ReadCompiledTree,
    /// Everything is removed.
    DeleteTree,
    /// The same of a tree that is compiled.
    DeleteCompiledTree,
    /// Everything is looked at.
    StatTree,
    /// The same of a tree that is compiled.
    StatCompiledTree,
}

impl Kind {
    /// All, as the result lists them.
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

    /// As the result names it.
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

    /// It is told in megabytes in a second, not in seconds.
    pub fn is_rate(self) -> bool {
        self <= Self::ReadCompiledTree
    }
}

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    /// What was done.
    pub kind: Kind,
    /// On which tree.
    pub tree: String,
    /// Bytes; names where it is told in seconds.
    pub amount: u64,
    /// What it took.
    pub usage: Usage,
    /// Caches were empty when it began.
    pub cold: bool,
}

impl Run {
    /// Megabytes (10^6 bytes) in a second, or seconds.
    #[allow(clippy::cast_precision_loss)] // of a rate
    pub fn figure(&self) -> f64 {
        let seconds = self.usage.wall.as_secs_f64();
        if self.kind.is_rate() { self.amount as f64 / 1e6 / seconds } else { seconds }
    }

    /// The line that is printed of it.
    pub fn line(&self) -> String {
        let (kind, tree, seconds) = (self.kind.name(), &self.tree, self.usage.wall.as_secs_f64());
        if !self.kind.is_rate() {
            return format!("{kind} {tree} in {seconds:.2} seconds");
        }
        let megabytes = self.amount / 1_000_000;
        format!("{kind} {tree} {megabytes}MB in {seconds:.2} seconds ({:.2} MB/s)", self.figure())
    }
}

/// The averages, as they are printed at the end.
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

/// In what state a tree is.
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

/// What is picked at random, as likely one as the other.
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

/// Runs it; `say` is told each line, and each run.
///
/// # Errors
/// Where there is nothing to do, and those of the filesystem.
pub fn run<D: Driver>(
    driver: &mut D,
    options: &Options,
    say: &mut dyn FnMut(&str, Option<&Run>) -> io::Result<()>,
) -> io::Result<Vec<Run>> {
    options.judge()?;
    let mut work = Work {
        set: Dataset::new(options.files, options.seed),
        driver,
        options,
        say,
        random: Random::new(options.seed),
        buffer: vec![b'a'; options.buffer.max(1)],
        trees: Vec::new(),
        runs: Vec::new(),
    };
    work.bring_into_order()?;
    for n in 0..options.initial {
        work.create(Kind::InitialCreate, format!("kernel-{n}"))?;
    }
    if options.sync {
        work.driver.sync()?;
    }
    if options.makej {
        work.make_all()?;
    } else {
        (0..options.runs).try_for_each(|_| work.one())?;
    }
    Ok(work.runs)
}

struct Work<'w, D: Driver> {
    driver: &'w mut D,
    options: &'w Options,
    say: &'w mut dyn FnMut(&str, Option<&Run>) -> io::Result<()>,
    set: Dataset,
    random: Random,
    buffer: Vec<u8>,
    trees: Vec<(String, State)>,
    runs: Vec<Run>,
}

impl<D: Driver> Work<'_, D> {
    /// Writes the lists once to a tree of their own, and takes them in the order in which its directories have the
    /// names; but what is compiled stays in an order of its own.
    fn bring_into_order(&mut self) -> io::Result<()> {
        let name = "native-0";
        let watch = Watch::start()?;
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
        (self.say)(
            &format!("native {name} {}MB in {seconds:.2} seconds", written / 1_000_000),
            None,
        )
    }

    /// Does one operation, and keeps what it took.
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
        let watch = Watch::start()?;
        let mut tree = Tree::new(&*self.driver, &self.set, name.as_bytes(), &mut self.buffer);
        let amount = act(&mut tree, &self.set)?;
        if sync {
            self.driver.sync()?;
        }
        let run = Run { kind, tree: name.to_owned(), amount, usage: watch.read()?, cold };
        (self.say)(&run.line(), Some(&run))?;
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

    /// Some tree in one of these states.
    fn pick(&mut self, fits: impl Fn(State) -> bool) -> Option<usize> {
        let fitting: Vec<usize> =
            (0..self.trees.len()).filter(|&n| fits(self.trees[n].1)).collect();
        (!fitting.is_empty()).then(|| fitting[self.random.index(fitting.len())])
    }

    /// One operation that some tree is fit for.
    fn one(&mut self) -> io::Result<()> {
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
                return self.on(choice, at);
            }
        }
    }

    fn on(&mut self, choice: Choice, at: usize) -> io::Result<()> {
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

    /// Everybody compiles at once: all trees, then some are read, and all go.
    fn make_all(&mut self) -> io::Result<()> {
        (0..self.trees.len()).try_for_each(|at| self.on(Choice::Compile, at))?;
        (0..self.trees.len().min(3)).try_for_each(|at| self.on(Choice::Read, at))?;
        while !self.trees.is_empty() {
            self.on(Choice::Delete, self.trees.len() - 1)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::mounted::Mounted;
    use crate::driver::record::Recorder;

    /// Small, and without dropping what the machine caches.
    fn small() -> Options {
        Options { initial: 3, runs: 40, files: 60, sync: false, ..Options::default() }
    }

    fn on_a_directory(options: &Options) -> Vec<Run> {
        let dir = tempfile::tempdir().expect("a directory");
        let mut driver = Mounted::new(dir.path(), "here", "a file").expect("open");
        run(&mut driver, options, &mut |_, _| Ok(())).expect("a run")
    }

    #[test]
    fn runs_go_through_all_operations_and_each_is_told() {
        let runs = on_a_directory(&Options { runs: 150, ..small() });
        assert_eq!(runs.len(), 153);
        assert!(Kind::ALL.iter().all(|kind| runs.iter().any(|run| run.kind == *kind)));
        let create = runs.iter().find(|run| run.kind == Kind::Create).expect("one");
        let read = runs.iter().find(|run| run.kind == Kind::ReadTree).expect("one");
        assert!(create.amount > 60 * 1000 && read.amount > 60 * 1000);
        let summary = summary(&runs);
        assert!(summary.contains("\ninitial create total runs 3 avg "), "{summary}");
    }

    #[test]
    fn all_trees_are_compiled_and_go_with_makej() {
        let runs = on_a_directory(&Options { makej: true, ..small() });
        let count = |kind| runs.iter().filter(|run| run.kind == kind).count();
        assert_eq!(count(Kind::Compile), 3);
        assert_eq!((count(Kind::ReadCompiledTree), count(Kind::DeleteCompiledTree)), (3, 3));
        assert_eq!(runs.len(), 12);
    }

    #[test]
    fn without_trees_and_operations_there_is_nothing_to_do() {
        for options in [Options { runs: 0, ..small() }, Options { makej: true, ..small() }] {
            let options = Options { initial: 0, ..options };
            let mut recorder = Recorder::default();
            let refused = run(&mut recorder, &options, &mut |_, _| Ok(()));
            assert_eq!(refused.expect_err("refused").kind(), io::ErrorKind::InvalidInput);
            assert!(recorder.calls().is_empty(), "nothing was touched");
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_calls() {
        let calls = |seed| {
            let mut recorder = Recorder::default();
            run(&mut recorder, &Options { seed, ..small() }, &mut |_, _| Ok(())).expect("a run");
            recorder.calls()
        };
        assert_eq!(calls(1), calls(1));
        assert_ne!(calls(1), calls(2));
    }
}
