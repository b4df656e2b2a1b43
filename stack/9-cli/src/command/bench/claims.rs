//! `xfskit bench claims`: the figures that the documentation states, measured again.
//!
//! | module | what |
//! | --- | --- |
//! | [`data`] | the file of claims |
//! | [`figure`] | figures of a report |
//! | [`idle`] | whether the machine is idle before a run that needs it |
//! | [`page`] | the page of all claims |

mod data;
mod figure;
mod idle;
mod page;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;
use xfskit_workload::Report;

use self::data::{Circumstances, Claim, ClaimsFile, Last, Needs, Run};
use self::idle::Load;
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::claims::Claims as Args;
use crate::out::Out;
use crate::stop::Stop;

/// `xfskit bench claims`.
pub(crate) fn run(args: &Args, out: &Out) -> Outcome {
    let mut file = ClaimsFile::read(&args.file)?;
    if args.page {
        return file.write(&page::page(&file.claims)).map(success);
    }
    let chosen = chosen(&file, &args.only)?;
    let mut runs = chosen.iter().map(|&n| &file.claims.runs[n]);
    if args.list {
        return runs
            .flat_map(|run| &run.claims)
            .try_for_each(|claim| list(claim, out))
            .map(success);
    }
    if args.dry_run {
        return runs.try_for_each(|run| plan(run, &args.dir, out)).map(success);
    }
    let stop = Stop::on_signals()?;
    let mut problems = Vec::new();
    for (n, at) in chosen.iter().enumerate() {
        stop.check()?;
        let run = &file.claims.runs[*at];
        let (of, time) = (chosen.len(), page::needs(&run.needs));
        out.note(&format!("{} of {of}: {} ({time}): {}", n + 1, run.id, run.command));
        let ready = prepare(run, &args.dir).and_then(|()| settle(run, args.allow_busy, out, &stop));
        let measured = ready.and_then(|load| Ok((measure(run, &args.dir)?, load)));
        let (report, load) = match measured {
            Ok(measured) => measured,
            Err(why) => {
                stop.check()?;
                problems.push(format!("{}: {why}", run.id));
                continue;
            }
        };
        let figures: Vec<_> =
            run.claims.iter().map(|claim| figure::measured(&report, claim)).collect();
        for (claim, figure) in run.claims.iter().zip(&figures) {
            show(claim, figure, out)?;
            problems.extend(problem(claim, figure));
        }
        // All figures of a run have the same circumstances.
        if let Ok(figures) = figures.into_iter().collect::<Result<Vec<_>, _>>() {
            let circumstances = Circumstances::of(&report.environment).beside(load.as_ref());
            file.renew(*at, circumstances, &figures);
            file.write(&page::page(&file.claims))?;
        }
    }
    if problems.is_empty() {
        return Ok(ExitStatus::Success);
    }
    Err(Failure::problem(format!("claims that do not hold:\n  {}", problems.join("\n  "))))
}

fn success((): ()) -> ExitStatus {
    ExitStatus::Success
}

/// Returns the positions of the runs that are chosen by their own names or by those of claims.
fn chosen(file: &ClaimsFile, only: &[String]) -> Result<Vec<usize>, Failure> {
    let runs = &file.claims.runs;
    let is = |run: &Run, id: &String| run.id == *id || run.claims.iter().any(|c| c.id == *id);
    if let Some(unknown) = only.iter().find(|id| !runs.iter().any(|run| is(run, id))) {
        return Err(Failure::cannot(format!("{unknown}: no claim and no run has this name"))
            .hint("`xfskit bench claims --list` prints the names."));
    }
    let wanted = |run: &Run| only.is_empty() || only.iter().any(|id| is(run, id));
    Ok((0..runs.len()).filter(|&n| wanted(&runs[n])).collect())
}

/// Prints a claim and its last figure.
fn list(claim: &Claim, out: &Out) -> Result<(), Failure> {
    let Claim { id, file, sentence, stated, figure, to, aim, last } = claim;
    let object = json!({ "claim": {
        "id": id, "file": file, "sentence": sentence, "stated": stated, "figure": figure,
        "to": to.as_ref().map(|to| to.or(figure)), "aim": aim, "last": last,
    }});
    out.result(&object, |_| {
        let last = last.map_or("not measured".into(), |last| format!("last {}", shown(&last)));
        let aim = Some(page::aim(claim)).filter(|aim| !aim.is_empty());
        let aim = aim.map(|aim| format!("; {}", aim.replace('*', ""))).unwrap_or_default();
        format!("{id}: {last}{aim}\n  {file}: {sentence}\n")
    })
}

/// Formats a figure with its range.
fn shown(last: &Last) -> String {
    let median = page::number(last.median);
    match (last.low, last.high) {
        (Some(low), Some(high)) => {
            format!("{median} ({} to {})", page::number(low), page::number(high))
        }
        _ => median,
    }
}

/// Prints the commands of a run.
fn plan(run: &Run, dir: &Path, out: &Out) -> Result<(), Failure> {
    let commands = run.prepare.iter().map(|prepare| &prepare.command).chain([&run.command]);
    let commands: Vec<String> = commands.map(|command| words(command, dir).join(" ")).collect();
    let claims: Vec<&str> = run.claims.iter().map(|claim| claim.id.as_str()).collect();
    let object = json!({ "run": {
        "id": run.id, "commands": commands, "minutes": run.needs.minutes, "claims": claims,
    }});
    out.result(&object, |_| {
        let needs = page::needs(&run.needs);
        format!("{}: {} claims; {needs}\n  {}\n", run.id, claims.len(), commands.join("\n  "))
    })
}

/// Prints the new figure of a claim beside the one that is stated.
fn show(claim: &Claim, figure: &Result<Last, String>, out: &Out) -> Result<(), Failure> {
    let Claim { id, file, sentence, stated, .. } = claim;
    let object = match figure {
        Ok(last) => json!({ "claim": {
            "id": id, "last": last, "stated": stated, "outdated": last.is_far_from(stated),
        }}),
        Err(why) => json!({ "claim": { "id": id, "failed": why } }),
    };
    out.result(&object, |_| match figure {
        Ok(last) => format!("{id}: {}; {file} states {stated}: {sentence}\n", shown(last)),
        Err(why) => format!("{id}: {why}\n"),
    })?;
    if figure.as_ref().is_ok_and(|last| last.is_far_from(stated)) {
        out.note(&format!("{id}: {file} states {stated}, which is not in the range measured now"));
    }
    out.flush()
}

/// Returns why a claim does not hold; `None` if it does.
fn problem(claim: &Claim, figure: &Result<Last, String>) -> Option<String> {
    let now = match figure {
        Ok(last) => Claim { last: Some(*last), ..claim.clone() },
        Err(why) => return Some(format!("{}: {why}", claim.id)),
    };
    let missed = |last: Last| now.aim.is_some_and(|aim| !aim.is_reached(last.median));
    let last = now.last.filter(|last| missed(*last))?;
    let aim = page::aim(&now).replace('*', "");
    Some(format!("{}: {}; {aim}", claim.id, shown(&last)))
}

/// Returns the words of a command, with the directory for volumes.
fn words(command: &str, dir: &Path) -> Vec<String> {
    let dir = dir.to_string_lossy();
    command.split_whitespace().map(|word| word.replace("$DIR", &dir)).collect()
}

/// Makes what the command of a run needs.
fn prepare(run: &Run, dir: &Path) -> Result<(), String> {
    fs::create_dir_all(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    check_space(&run.needs, dir)?;
    for prepare in run.prepare.iter().filter(|prepare| !dir.join(&prepare.file).exists()) {
        call(&words(&prepare.command, dir))?;
    }
    Ok(())
}

/// Waits until the machine is idle, if the run needs that. Returns the load, or fails with it.
fn settle(run: &Run, allow_busy: bool, out: &Out, stop: &Stop) -> Result<Option<Load>, String> {
    if !run.needs.idle {
        return Ok(None);
    }
    let check_stop = || stop.check().map_err(|failure| failure.message);
    let look = || idle::look().map_err(|error| format!("the load of the machine: {error}"));
    let wait = |load: &Load, pause: Duration| {
        let most = idle::wait_max().as_secs();
        let id = &run.id;
        out.note(&format!("{id}: waiting up to {most} s for an idle machine: {}", load.describe()));
        let end = Instant::now() + pause;
        while Instant::now() < end {
            check_stop()?;
            thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    };
    let load = if allow_busy { look()? } else { idle::wait_until_idle(look, wait)? };
    check_stop()?;
    if load.is_idle() || allow_busy {
        return Ok(Some(load));
    }
    Err(format!(
        "not measured, the machine is not idle: {}; --allow-busy measures nevertheless",
        load.describe()
    ))
}

/// Runs the command of a run, and returns its report.
fn measure(run: &Run, dir: &Path) -> Result<Report, String> {
    let path = dir.join(format!("claims-{}.json", std::process::id()));
    let mut words = words(&run.command, dir);
    words.extend(["--report".to_owned(), path.to_string_lossy().into_owned()]);
    let text = call(&words).and_then(|()| {
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    });
    let _ = fs::remove_file(&path);
    let report = Report::parse(&text?).ok_or("its report cannot be read")?;
    match &report.incomplete {
        Some(why) => Err(format!("its report is incomplete: {why}")),
        None => Ok(report),
    }
}

/// Fails if the directory has less space than the command needs.
fn check_space(needs: &Needs, dir: &Path) -> Result<(), String> {
    let disk = rustix::fs::statvfs(dir).map_err(|error| format!("{}: {error}", dir.display()))?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize) / 1_000_000_000;
    if free >= needs.disk_gb {
        return Ok(());
    }
    Err(format!("{} has {free} GB of free space, and {} are needed", dir.display(), needs.disk_gb))
}

/// Runs a program to its end. Its progress stays on standard error.
fn call(words: &[String]) -> Result<(), String> {
    let [program, args @ ..] = words else { return Err("no command".into()) };
    let path = program_path(program).map_err(|error| error.to_string())?;
    let status =
        Command::new(&path).args(args).stdout(Stdio::null()).status().map_err(|error| {
            let build = "cargo build --release -p xfskit-cli -p xfskit-bench makes it";
            format!("{}: {error}; {build}", path.display())
        })?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", words.join(" "))) }
}

/// Returns the path of `xfskit`, or of a program beside it.
fn program_path(name: &str) -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(if name == "xfskit" { own } else { own.with_file_name(name) })
}

#[cfg(test)]
mod tests;
