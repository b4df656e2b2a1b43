//! `xfskit fs_mark`: runs fs_mark in any directories, or in those of a volume.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use serde_json::json;
use xfskit_workload::driver::mounted::Mounted;
use xfskit_workload::program::fs_mark::{self, Iteration, Options, Run, Sync};
use xfskit_workload::testbed::Job;
use xfskit_workload::{Driver, Environment};

use super::driver;
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::bench::FsMark;
use crate::out::Out;
use crate::stop::Stop;

/// `xfskit fs_mark`: makes small files as fs_mark does, and prints the rates.
pub(crate) fn run(args: &FsMark, out: &Out) -> Outcome {
    let log = args.log.as_deref().map(open_log).transpose()?;
    let mut work = Work { args, out, stop: Stop::on_signals()?, log };
    if let Some(name) = &args.engine {
        return driver::on_engine(name, &mut work)?;
    }
    let drivers: Vec<Mounted> =
        args.dirs.iter().map(|dir| driver::directory(dir)).collect::<Result<_, _>>()?;
    // The directories may be on several filesystems; the fullness is that of the first.
    let dirs = drivers.iter().map(Driver::root).collect::<io::Result<_>>().map_err(run_error)?;
    let names: Option<Vec<_>> = args.dirs.iter().map(|dir| own_name(dir)).collect();
    work.iterations(&drivers[0], dirs, &names.unwrap_or_default())
}

/// Returns the directory's own name: a symbolic link to it has another one.
fn own_name(dir: &Path) -> Option<Vec<u8>> {
    Some(dir.file_name()?.as_bytes().to_vec())
}

/// A run, and the output for its reports.
struct Work<'w> {
    args: &'w FsMark,
    out: &'w Out,
    stop: Stop,
    log: Option<(File, &'w Path)>,
}

impl Work<'_> {
    /// Runs the iterations. Directories with `names` are made in each.
    fn iterations<D: Driver>(
        &mut self,
        driver: &D,
        dirs: Vec<D::Dir>,
        names: &[Vec<u8>],
    ) -> Outcome {
        let options = options(self.args);
        let run = Run::new(driver, dirs, options.clone());
        let mut run = run.and_then(|run| run.with_mkdir_per_file(names)).map_err(run_error)?;
        let Environment { command, time, .. } = Environment::now();
        let options = Options { threads: options.threads.max(self.args.dirs.len()), ..options };
        self.say(&fs_mark::head(&options, &command, &time))?;
        self.say(&fs_mark::columns())?;
        while let Some(iteration) = run.next_iteration().map_err(run_error)? {
            self.say(&iteration.line())?;
            if self.out.json() {
                self.out.object(&object(&iteration))?;
                self.out.flush()?;
            } else if iteration.full {
                self.out.note("the filesystem is full");
            }
            self.stop.check()?;
        }
        Ok(ExitStatus::Success)
    }

    fn say(&mut self, text: &str) -> Result<(), Failure> {
        if let Some((log, path)) = &mut self.log {
            writeln!(log, "{text}").map_err(|err| at(path, err))?;
        }
        if self.out.json() {
            return Ok(());
        }
        self.out.line(text).and_then(|()| self.out.flush())
    }
}

/// Runs on a volume in this process.
impl Job for Work<'_> {
    type Output = Outcome;

    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<Outcome> {
        let driver = &*driver;
        let dirs = self.args.dirs.iter().map(|path| directory(driver, path)).collect();
        Ok(match dirs {
            Ok(dirs) => self.iterations(driver, dirs, &[]),
            Err(failure) => Err(failure),
        })
    }
}

/// Returns the directory at `path` on a volume; the last one is made if it is missing.
fn directory<D: Driver>(driver: &D, path: &Path) -> Result<D::Dir, Failure> {
    let at = |err| at(path, err);
    let names: Vec<&[u8]> = path
        .components()
        .filter_map(|component| match component {
            Component::RootDir | Component::CurDir => None,
            part => Some(part.as_os_str().as_bytes()),
        })
        .collect();
    let mut dir = driver.root().map_err(at)?;
    for (n, name) in names.iter().enumerate() {
        if n + 1 == names.len() {
            match driver.make_dir(&dir, name) {
                Err(err) if err.kind() != io::ErrorKind::AlreadyExists => return Err(at(err)),
                _ => {}
            }
        }
        dir = driver.open_dir(&dir, name).map_err(at)?;
    }
    Ok(dir)
}

fn options(args: &FsMark) -> Options {
    Options {
        threads: args.threads,
        subdirs: args.subdirs,
        per_subdir: args.per_subdir,
        files: args.files,
        loops: args.loops.unwrap_or(1),
        until_full: args.until_full,
        size: args.size,
        write_size: args.write_size,
        name_len: args.name_len,
        random_len: args.random_len,
        // fs_mark 3.3 keeps files in these cases too.
        keep: args.keep || args.loops.is_some() || args.until_full,
        sync: Sync::from_number(args.sync).unwrap_or(Sync::InBand),
        seed: args.seed,
        stamp: None,
    }
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
        "files_per_second": iteration.rate,
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
    if full {
        failure.hint("Use fewer files (-n), or -F to continue until it is full.")
    } else {
        failure
    }
}
