//! `xfskit dbench`: simulates clients of a file server, in any directory or volume.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use xfskit_workload::Driver;
use xfskit_workload::program::dbench::load::Load;
use xfskit_workload::program::dbench::tally::{Outcome as Done, Progress, Stage, Tally};
use xfskit_workload::program::dbench::{self, Options, mix};
use xfskit_workload::testbed::Job;

use super::driver;
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::programs::Dbench;
use crate::out::Out;
use crate::stop::Stop;

/// `xfskit dbench`: runs the load of dbench, and prints the throughput.
pub(crate) fn run(args: &Dbench, out: &Out) -> Outcome {
    if args.print_load {
        out.raw(mix::text(args.seed).as_bytes())?;
        return Ok(ExitStatus::Success);
    }
    let (load, name) = load(args)?;
    let options = options(args);
    say(out, &head(args, &options, &name))?;
    let stop = Stop::on_signals()?;
    let outcome = driver::run(
        &args.dir,
        args.engine.as_deref(),
        &mut Work { load: &load, options: &options, out, stop: &stop },
    );
    // A user who stopped the run needs no other error.
    stop.check()?;
    let outcome = outcome?;
    if out.json() {
        out.object(&json!({ "dbench": object(&outcome, &name) }))?;
        return Ok(ExitStatus::Success);
    }
    out.line(format!("\n{}", outcome.all().table()))?;
    if args.per_client_results {
        out.line(outcome.per_client())?;
    }
    out.line(outcome.summary())?;
    Ok(ExitStatus::Success)
}

/// Reads the loadfile. Returns it and its name.
fn load(args: &Dbench) -> Result<(Load, String), Failure> {
    let Some(path) = &args.load else {
        let load = Load::parse(&mix::text(args.seed)).expect("the load that is built in");
        return Ok((load, format!("built in (seed {})", args.seed)));
    };
    let at = |path: &Path, why: &dyn std::fmt::Display| {
        Failure::cannot(format!("{}: {why}", path.display()))
    };
    let text = fs::read(path).map_err(|err| at(path, &err))?;
    let load = Load::parse(&String::from_utf8_lossy(&text)).map_err(|err| at(path, &err))?;
    Ok((load, format!("'{}'", path.display())))
}

fn options(args: &Dbench) -> Options {
    Options {
        clients: args.clients.get(),
        time: Duration::from_secs(args.time),
        loops: args.loops,
        fsync: args.fsync || args.sync,
        sync_dirs: args.sync_dirs,
        xattrs: if args.xattr { &dbench::DOS } else { &[] },
        resolve: !args.no_resolve,
        rate: args.rate,
        cleanup: !args.skip_cleanup,
        verify_status: true,
        seed: args.seed,
    }
}

fn head(args: &Dbench, options: &Options, load: &str) -> String {
    let how_long = match options.loops {
        Some(loops) => format!("Running {loops} times through load {load}"),
        None => format!(
            "Running for {} seconds with load {load} and minimum warmup {} secs",
            args.time,
            options.warmup().as_secs()
        ),
    };
    let on = args.engine.as_ref().map_or(String::new(), |name| format!(", on volume {name}"));
    format!("xfskit dbench {}{on}\n\n{how_long}", env!("CARGO_PKG_VERSION"))
}

fn say(out: &Out, text: &str) -> Result<(), Failure> {
    if out.json() {
        return Ok(());
    }
    out.line(text)?;
    out.flush()
}

struct Work<'w> {
    load: &'w Load,
    options: &'w Options,
    out: &'w Out,
    stop: &'w Stop,
}

impl Job for Work<'_> {
    type Output = Done;

    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<Done> {
        dbench::run(&*driver, self.load, self.options, &mut |progress| {
            let printed = if self.out.json() {
                self.out.object(&json!({ "progress": second(progress) }))
            } else {
                self.out.line(progress.to_string())
            };
            printed
                .and_then(|()| self.out.flush())
                .and_then(|()| self.stop.check())
                .map_err(|failure| io::Error::other(failure.message))
        })
    }
}

fn second(progress: &Progress) -> Value {
    let stage = match progress.stage {
        Stage::Warmup => "warmup",
        Stage::Execute => "execute",
        Stage::Cleanup => "cleanup",
    };
    json!({
        "stage": stage,
        "clients": progress.clients,
        "lines": progress.lines,
        "mb_per_second": progress.rate,
        "seconds": progress.seconds,
        "latency_ms": progress.latency.as_secs_f64() * 1e3,
    })
}

fn operations(tally: &Tally) -> Value {
    let one = |(name, latency): (&str, dbench::tally::Latency)| {
        json!({
            "operation": name,
            "count": latency.count,
            "average_ms": latency.average_ms(),
            "max_ms": latency.max.as_secs_f64() * 1e3,
        })
    };
    tally.latencies().map(one).collect()
}

fn object(outcome: &Done, load: &str) -> Value {
    let all = outcome.all();
    json!({
        "load": load,
        "clients": outcome.clients.len(),
        "seconds": outcome.elapsed.as_secs_f64(),
        "bytes": outcome.bytes,
        "mb_per_second": outcome.throughput(),
        "max_latency_ms": all.max().as_secs_f64() * 1e3,
        "user_seconds": outcome.usage.user.as_secs_f64(),
        "system_seconds": outcome.usage.system.as_secs_f64(),
        "operations": operations(&all),
    })
}
