//! All cases of one volume, several at once.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use xfskit_test_support::{Image, Scratch};

use crate::base::Base;
use crate::case::{self, Case, Filter};
use crate::child::{self, Steps};
use crate::locate::{self, Structure};
use crate::populate::{self, Kind};
use crate::report::Report;
use crate::trial::{Bench, Tried};

/// How much is run.
#[derive(Clone, Debug)]
pub struct Amount {
    /// No case starts later than this.
    pub time: Option<Duration>,
    /// So many cases at most.
    pub cases: usize,
    /// Cases at once.
    pub jobs: usize,
}

impl Default for Amount {
    fn default() -> Self {
        Self { time: None, cases: usize::MAX, jobs: 2 }
    }
}

/// A volume, with the structures on it.
struct Volume<'s> {
    image: Image<'s>,
    base: Base,
    structures: Vec<Structure>,
}

impl<'s> Volume<'s> {
    fn make(kind: &Kind, scratch: &'s Scratch) -> Result<Self, String> {
        let (image, inodes) = populate::volume(kind, scratch)?;
        let base = Base::read(image.path())?;
        let structures = locate::all(&base, &inodes)?;
        Ok(Self { image, base, structures })
    }
}

/// Returns the names of the cases.
///
/// # Errors
/// The volume cannot be made.
pub fn names(kind: &Kind, filter: &Filter, seed: u64) -> Result<Vec<String>, String> {
    let scratch = Scratch::new("damage");
    let volume = Volume::make(kind, &scratch)?;
    let (cases, _) = case::plan(&volume.structures, &volume.base, filter, seed)?;
    Ok(cases.iter().map(Case::name).collect())
}

/// Runs the cases; `program` is `xfskit-damage`. Damaged volumes are kept in `keep`.
///
/// # Errors
/// The volume cannot be made, it is not clean without damage, or a case cannot be tried.
pub fn run(
    program: &Path,
    kind: &Kind,
    filter: &Filter,
    seed: u64,
    amount: &Amount,
    keep: Option<&Path>,
) -> Result<Report, String> {
    let tools = kind.tools().ok_or_else(|| format!("no xfsprogs for volume `{}`", kind.name))?;
    let scratch = Scratch::new("damage");
    let volume = Volume::make(kind, &scratch)?;
    let sound = xfskit_test_support::ours::check(&volume.image);
    if !sound.is_clean() {
        return Err(format!("without damage: {sound:?}"));
    }
    tools.repair_n(&volume.image, &[])?;
    let tree = child::tree(&volume.image, &scratch)?;
    let (cases, unchanged) = case::plan(&volume.structures, &volume.base, filter, seed)?;
    if let Some(keep) = keep {
        fs::create_dir_all(keep).map_err(|why| why.to_string())?;
    }
    let bench = |job: usize| {
        let dir = scratch.path().join(format!("job{job}"));
        let steps = Steps::new(program, &dir)?;
        let keep = keep.map(Path::to_owned);
        Ok(Bench { base: &volume.base, tree: &tree, tools: &tools, steps, dir, seed, keep })
    };
    let benches: Vec<_> = (0..amount.jobs).map(bench).collect::<Result<_, String>>()?;
    let tried = try_all(&benches, &cases, amount)?;
    let xfsprogs = tools.version.clone();
    let planned = cases.len();
    Ok(Report { volume: kind.name, xfsprogs, seed, planned, unchanged, tried })
}

/// Tries the cases in their order, each on the next bench that is free.
fn try_all(
    benches: &[Bench<'_>],
    cases: &[Case<'_>],
    amount: &Amount,
) -> Result<Vec<Tried>, String> {
    let (next, begun) = (AtomicUsize::new(0), Instant::now());
    let all: Mutex<Vec<Tried>> = Mutex::new(Vec::new());
    let work = |bench: &Bench<'_>| -> Result<(), String> {
        while amount.time.is_none_or(|time| begun.elapsed() < time) {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(case) = cases.get(at).filter(|_| at < amount.cases) else { break };
            let tried = bench.try_case(case).map_err(|why| format!("{}: {why}", case.name()))?;
            let mut all = all.lock().map_err(|_| "another job failed")?;
            let (ours, theirs) = (tried.ours.class.name(), tried.theirs.class.name());
            let missed = if tried.is_missed() { ", missed by check" } else { "" };
            let (done, count) = (all.len() + 1, cases.len().min(amount.cases));
            eprintln!("{done}/{count} {}: {ours} / {theirs}{missed}", tried.case);
            all.push(tried);
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let jobs: Vec<_> = benches.iter().map(|bench| scope.spawn(|| work(bench))).collect();
        jobs.into_iter().try_for_each(|job| job.join().map_err(|_| "a job panicked")?)
    })?;
    all.into_inner().map_err(|_| "a job panicked".into())
}
