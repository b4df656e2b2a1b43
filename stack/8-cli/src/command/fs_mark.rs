//! `xfskit fs_mark`: fs_mark for any directory.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use serde_json::json;
use xfskit_workload::driver::mounted::Mounted;
use xfskit_workload::program::fs_mark::{self, Iteration, Options, Run, Sync};
use xfskit_workload::{Circumstances, Driver};

use crate::exit::{Answer, Failure, Outcome};
use crate::grammar::bench::FsMark;
use crate::out::Out;

/// `xfskit fs_mark`
pub(crate) fn run(args: &FsMark, out: &Out) -> Outcome {
    let options = options(args);
    let mut log = args.log.as_deref().map(open_log).transpose()?;
    let mut say = |text: &str| -> Result<(), Failure> {
        if let Some((log, path)) = &mut log {
            writeln!(log, "{text}").map_err(|err| at(path, err))?;
        }
        if out.json() { Ok(()) } else { out.line(text).and_then(|()| out.flush()) }
    };
    let drivers = drivers(&args.dirs)?;
    // All directories need not be on one filesystem; how full it is is told of the first.
    let first = &drivers[0];
    let dirs = drivers.iter().map(Driver::root).collect::<io::Result<_>>().map_err(run_error)?;
    let mut work = Run::new(first, dirs, options.clone()).map_err(run_error)?;
    let Circumstances { command, time, .. } = Circumstances::now();
    let options = Options { threads: options.threads.max(args.dirs.len()), ..options };
    say(&fs_mark::head(&options, &command, &time))?;
    say(&fs_mark::columns())?;
    while let Some(iteration) = work.next_iteration().map_err(run_error)? {
        say(&iteration.line())?;
        if out.json() {
            out.object(&object(&iteration))?;
            out.flush()?;
        }
        if iteration.full && !out.json() {
            out.note("the filesystem is full");
        }
    }
    Ok(Answer::Yes)
}

fn options(args: &FsMark) -> Options {
    Options {
        threads: args.threads,
        subdirs: args.subdirs,
        per_subdir: args.per_subdir,
        files: args.files,
        loops: args.loops,
        until_full: args.until_full,
        size: args.size,
        write_size: args.write_size,
        name_len: args.name_len,
        random_len: args.random_len,
        keep: args.keep,
        sync: Sync::from_number(args.sync).unwrap_or(Sync::InBand),
        seed: args.seed,
        stamp: None,
    }
}

/// One for each directory, which is made where it is missing.
fn drivers(dirs: &[std::path::PathBuf]) -> Result<Vec<Mounted>, Failure> {
    dirs.iter().map(|dir| super::ground::directory(dir)).collect()
}

fn open_log(path: &Path) -> Result<(File, &Path), Failure> {
    let file = File::options().create(true).append(true).open(path);
    Ok((file.map_err(|err| at(path, err))?, path))
}

fn object(iteration: &Iteration) -> serde_json::Value {
    json!({
        "fs_use_percent": iteration.space.used_percent(),
        "count": iteration.count,
        "size": iteration.size,
        "files_per_second": iteration.rate(),
        "app_overhead_us": u64::try_from(iteration.overhead.as_micros()).unwrap_or(u64::MAX),
        "wall_seconds": iteration.usage.wall.as_secs_f64(),
        "user_seconds": iteration.usage.user.as_secs_f64(),
        "system_seconds": iteration.usage.system.as_secs_f64(),
        "full": iteration.full,
    })
}

fn at(path: &Path, err: io::Error) -> Failure {
    Failure::cannot(format!("{}: {err}", path.display()))
}

fn run_error(err: io::Error) -> Failure {
    let full = err.kind() == io::ErrorKind::StorageFull;
    let failure = Failure::cannot(format!("fs_mark: {err}"));
    if full { failure.hint("fewer files (-n), or -F to go on until it is full") } else { failure }
}
