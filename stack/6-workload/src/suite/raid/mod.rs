//! Study C: sequential readers of an array that lacks members.
//!
//! Many readers, each a file from start to end and then another, of an array that is whole, lacks one member, two,
//! or is being rebuilt; by the size of the stripe cache, of chunks, by the number of readers, pinned
//! to processors or not; and of the same disks as RAID50.
//!
//! | module | what |
//! | --- | --- |
//! | `member` | a disk, watched |
//! | [`bed`] | members and arrays of them |
//! | `readers` | the workload |
//! | `tables` | what is shown |
//! | [`published`] | what was published |

pub mod bed;
mod member;
pub mod published;
mod readers;
mod tables;

use std::io;
use std::ops::Range;
use std::time::Duration;

use serde_json::json;

use crate::measure::Samples;
use crate::report::Section;
use crate::suite::{Audience, Settings};
use bed::{Bed, Members, Plan};
use readers::{Outcome, Setup, State};
use xfskit_md::Level;

/// Members are a multiple of this long: of any chunk that is tried.
const ROUND: u64 = 4 << 20;

/// What is studied.
#[derive(Clone, Debug)]
pub struct Options {
    /// The array.
    pub plan: Plan,
    /// What it is made of.
    pub members: Members,
    /// Readers at once.
    pub readers: usize,
    /// Bytes of a file, on average.
    pub file_size: u64,
    /// Bytes of a small request; large ones are of a row.
    pub request: u64,
    /// Bytes of the stripe cache where it is not what is varied.
    pub stripe_cache: u64,
    /// How long each point is measured.
    pub time: Duration,
    /// Sizes of the stripe cache that are tried, in stripes as md counts them.
    pub caches: Vec<u64>,
    /// Bytes of chunks that are tried.
    pub chunks: Vec<u64>,
    /// Numbers of readers that are tried.
    pub threads: Vec<usize>,
    /// The same members as RAID50 too.
    pub raid50: bool,
}

/// A point with all its turns.
#[derive(Clone, Debug)]
struct Point {
    setup: Setup,
    rate: Samples,
    /// The last turn.
    last: Outcome,
}

/// Where points are measured.
struct Study<'s> {
    bed: Bed,
    files: Vec<Range<u64>>,
    options: &'s Options,
    settings: &'s Settings,
}

impl Study<'_> {
    /// The usual one: all readers, requests of a row.
    fn usual(&self) -> Setup {
        Setup {
            plan: self.options.plan,
            state: State::Missing(0),
            readers: self.options.readers,
            request: 0,
            stripe_cache: self.options.stripe_cache,
            pinned: false,
        }
    }

    /// The states that the plan bears, up to two failed.
    fn states(plan: &Plan) -> Vec<State> {
        let most = plan.tolerates().min(2);
        let mut states: Vec<State> = (0..=most).map(State::Missing).collect();
        if most > 0 {
            states.push(State::Rebuilding);
        }
        states
    }

    /// Measures these points in turns.
    fn measure(
        &self,
        what: &str,
        setups: Vec<Setup>,
        audience: &mut dyn Audience,
    ) -> io::Result<Vec<Point>> {
        let mut points: Vec<Point> = Vec::new();
        for turn in 1..=self.settings.repetitions {
            for (n, &setup) in setups.iter().enumerate() {
                let state = setup.state.name();
                audience.note(&format!("{what}, turn {turn}: {}, {state}", setup.plan.name()))?;
                let (time, seed) = (self.options.time, self.settings.seed);
                let last = readers::run(&self.bed, &self.files, setup, time, seed)?;
                let rate = last.rate();
                match points.get_mut(n) {
                    Some(point) => {
                        point.rate.add(rate);
                        point.last = last;
                    }
                    None => points.push(Point { setup, rate: [rate].into_iter().collect(), last }),
                }
            }
        }
        for point in &points {
            audience.result(point.result(what, &self.bed.on))?;
        }
        Ok(points)
    }
}

impl Point {
    fn result(&self, what: &str, on: &str) -> serde_json::Value {
        let Setup { plan, state, readers, request, stripe_cache, pinned } = self.setup;
        let Outcome { bytes, usage, touched, rebuilt, .. } = &self.last;
        json!({ "raid": {
            "table": what,
            "array": plan.name(),
            "members": plan.members,
            "chunk_bytes": plan.chunk,
            "state": state.name(),
            "on": on,
            "readers": readers,
            "request_bytes": if request == 0 { json!("row") } else { json!(request) },
            "stripe_cache_bytes": stripe_cache,
            "pinned": pinned,
            "mb_per_second": self.rate,
            "bytes": bytes,
            "wall_seconds": usage.wall.as_secs_f64(),
            "processor_seconds": usage.processor.as_secs_f64(),
            "read_bytes": touched.read,
            "loaded_bytes": touched.loaded,
            "stored_bytes": touched.stored,
            "rebuilt_bytes": rebuilt,
        }})
    }
}

/// Runs the study.
///
/// # Errors
/// Where members cannot be made, or make no such array, and where the audience wants to stop.
pub fn run(
    options: &Options,
    settings: &Settings,
    audience: &mut dyn Audience,
) -> io::Result<Vec<Section>> {
    let plan = options.plan;
    let files = readers::files(options.readers.max(1), options.file_size, settings.seed);
    let room = files.last().map_or(0, |file| file.end);
    let parity = u64::try_from(plan.tolerates()).unwrap_or(0);
    let data = u64::from(plan.members).saturating_sub(parity).max(1);
    let size = room.div_ceil(data).next_multiple_of(ROUND);
    audience.note(&format!("{} members of {} MB", plan.members, size / 1_000_000))?;
    let bed = Bed::new(&options.members, plan.members, size, settings.seed)?;
    let study = Study { bed, files, options, settings };
    let mut sections = vec![states(&study, audience)?];
    if plan.tolerates() > 0 {
        sections.push(sweeps(&study, audience)?);
    }
    sections.push(tables::routines(&plan));
    if settings.against_kernel {
        let why = "The kernel was not measured: its md wants members and a kernel of its own.";
        sections[0].text.insert(0, why.into());
    }
    Ok(sections)
}

/// The array in every state, and the same members as RAID50.
fn states(study: &Study<'_>, audience: &mut dyn Audience) -> io::Result<Section> {
    let usual = study.usual();
    let of = |plan: Plan, request| {
        let setup = move |state| Setup { plan, state, request, ..usual };
        Study::states(&plan).into_iter().map(setup).collect::<Vec<_>>()
    };
    let plan = usual.plan;
    let rows = study.measure("states, requests of a row", of(plan, 0), audience)?;
    let small =
        study.measure("states, small requests", of(plan, study.options.request), audience)?;
    let mut section = tables::states(study, &rows, &small);
    let fifty = Plan { level: Level::Raid5, legs: 2, ..plan };
    if study.options.raid50 && plan.level == Level::Raid6 && plan.members.is_multiple_of(2) {
        let points = study.measure("RAID50, requests of a row", of(fifty, 0), audience)?;
        section.tables.push(tables::beside(study, &rows, &points));
    }
    Ok(section)
}

/// One thing varied at a time, healthy and with one member failed.
fn sweeps(study: &Study<'_>, audience: &mut dyn Audience) -> io::Result<Section> {
    let (usual, options) = (study.usual(), study.options);
    let both = |setup: Setup| [0, 1].map(|n| Setup { state: State::Missing(n), ..setup });
    let cache = |stripes: &u64| Setup {
        request: options.request,
        stripe_cache: stripes * 4096 * u64::from(usual.plan.members),
        ..usual
    };
    let chunk = |bytes: &u64| Setup { plan: Plan { chunk: *bytes, ..usual.plan }, ..usual };
    let threads =
        |pinned| move |readers: &usize| both(Setup { readers: *readers, pinned, ..usual });
    let caches = options.caches.iter().map(cache).flat_map(both).collect();
    let caches = study.measure("stripe cache", caches, audience)?;
    let chunks = options.chunks.iter().map(chunk).flat_map(both).collect();
    let chunks = study.measure("chunks", chunks, audience)?;
    let free: Vec<Setup> = options.threads.iter().flat_map(threads(false)).collect();
    let pinned = options.threads.iter().flat_map(threads(true));
    let readers = study.measure("readers", free.into_iter().chain(pinned).collect(), audience)?;
    Ok(tables::sweeps(study, &caches, &chunks, &readers))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::testing::{Heard, settings};

    fn options(members: Members) -> Options {
        Options {
            plan: Plan { level: Level::Raid6, legs: 1, members: 6, chunk: 64 << 10 },
            members,
            readers: 2,
            file_size: 1 << 20,
            request: 32 << 10,
            stripe_cache: 8 << 20,
            time: Duration::from_millis(4),
            caches: vec![64, 256],
            chunks: vec![16 << 10, 256 << 10],
            threads: vec![1, 3],
            raid50: true,
        }
    }

    fn points(members: Members) -> Vec<serde_json::Value> {
        let mut heard = Heard::default();
        let sections = run(&options(members), &settings(), &mut heard).expect("a study");
        assert_eq!(sections.len(), 3);
        heard.0.into_iter().map(|result| result["raid"].clone()).collect()
    }

    #[test]
    fn every_state_and_every_sweep_is_measured() {
        let points = points(Members::Memory);
        // Four states three ways; two each of caches, chunks, readers and pinned readers, in two states.
        assert_eq!(points.len(), 4 * 3 + 4 * 4);
        let rebuilt = |point: &&serde_json::Value| point["state"] == "rebuilding";
        assert!(points.iter().filter(rebuilt).all(|point| point["rebuilt_bytes"].is_u64()));
        assert!(points.iter().any(|point| point["array"] == "RAID50"));
    }

    #[test]
    fn members_may_be_files_that_go_away() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(points(Members::Files(dir.path().into())).len() > 4);
        assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 0);
    }

    #[test]
    fn the_same_seed_makes_the_same_files() {
        let files = |seed| readers::files(50, 500_000_000, seed);
        assert_eq!(files(1), files(1));
        assert_ne!(files(1), files(2));
        let sizes = files(1).into_iter().map(|file| file.end - file.start);
        assert!(sizes.clone().min() >= Some(100_000_000) && sizes.max() <= Some(2_500_000_000));
    }
}
