//! `xfskit compilebench`: makes, changes and removes source trees, in any directory or volume.

use std::io;

use serde_json::json;
use xfskit_workload::Driver;
use xfskit_workload::program::compilebench::{self, Options, Run};
use xfskit_workload::testbed::Job;

use super::driver;
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::programs::Compilebench;
use crate::out::Out;
use crate::stop::Stop;

/// `xfskit compilebench`: ages a filesystem with source trees as compilebench does, and prints the
/// rates.
pub(crate) fn run(args: &Compilebench, out: &Out) -> Outcome {
    let options = Options {
        initial: args.initial,
        runs: args.runs,
        buffer: usize::try_from(args.buffer).unwrap_or(usize::MAX) << 10,
        sync: !args.no_sync,
        makej: args.makej,
        files: usize::try_from(args.files).unwrap_or(usize::MAX),
        seed: args.seed,
    };
    options.validate().map_err(|err| Failure::cannot(err.to_string()))?;
    if !out.json() {
        let dir = args.dir.display().to_string();
        let workplace = args
            .engine
            .as_ref()
            .map_or(format!("working directory {dir}"), |name| format!("volume {name}"));
        out.line(format!("using {workplace}, {} initial dirs {} runs", args.initial, args.runs))?;
    }
    let stop = Stop::on_signals()?;
    let mut work = Work { options: &options, out, stop: &stop };
    let runs = driver::run(&args.dir, args.engine.as_deref(), &mut work);
    stop.check()?;
    let runs = runs?;
    if !out.json() {
        if options.sync && runs.iter().any(|run| !run.cold && !is_initial(run)) {
            out.note("caches were warm: dropping them needs root");
        }
        out.raw(compilebench::summary(&runs).as_bytes())?;
    }
    Ok(ExitStatus::Success)
}

fn is_initial(run: &Run) -> bool {
    run.kind == compilebench::Kind::InitialCreate
}

struct Work<'w> {
    options: &'w Options,
    out: &'w Out,
    stop: &'w Stop,
}

impl Job for Work<'_> {
    type Output = Vec<Run>;

    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<Vec<Run>> {
        compilebench::run(driver, self.options, &mut |line, run| {
            let printed = match (self.out.json(), run) {
                (true, Some(run)) => self.out.object(&object(run)),
                (true, None) => Ok(()),
                (false, _) => self.out.line(line),
            };
            printed
                .and_then(|()| self.out.flush())
                .and_then(|()| self.stop.check())
                .map_err(|failure| io::Error::other(failure.message))
        })
    }
}

fn object(run: &Run) -> serde_json::Value {
    let unit = if run.kind.is_rate() { "bytes" } else { "names" };
    json!({
        "operation": run.kind,
        "tree": run.tree,
        unit: run.amount,
        "wall_seconds": run.usage.wall.as_secs_f64(),
        "user_seconds": run.usage.user.as_secs_f64(),
        "system_seconds": run.usage.system.as_secs_f64(),
        "cold": run.cold,
    })
}
