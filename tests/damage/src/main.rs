//! `make damage`: every field of every structure damaged, the repairs of xfskit and of xfsprogs
//! side by side.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use xfskit_test_damage::case::Filter;
use xfskit_test_damage::child;
use xfskit_test_damage::populate::Kind;
use xfskit_test_damage::report::Report;
use xfskit_test_damage::run::{Amount, run};
use xfskit_test_support::{Need, needs, seed};

const USAGE: &str = "\
Usage: xfskit-damage [OPTION]…

Damages every field of every structure of a volume, one after the other, and compares what
`xfskit repair` and `xfs_repair` make of it. Needs root and xfsprogs. Exits 1 if xfskit crashed,
hung, or left a volume unclean that it had called clean.

  --volume KIND      Kind of volume: rmap (default), plain, parent
  --only STRUCTURE   This structure, or those whose name begins with it: dir, dir.leaf
  --field FIELD      This field
  --verb VERB        This verb: zeroes, ones, firstbit, middlebit, lastbit, add, sub, random
  --seed N           Order of the cases, and the random verb
  --minutes N        Starts no more cases after so many minutes
  --cases N          So many cases at most
  --jobs N           So many cases at once (default: 2)
  --keep DIR         Keeps each damaged volume as DIR/structure.field.verb.img
  --json FILE        Writes the outcomes of all cases as JSON, too; - is the standard output alone
  --list             Prints the names of the cases";

/// What the command line asks for.
struct Arguments {
    kind: Kind,
    filter: Filter,
    seed: u64,
    amount: Amount,
    keep: Option<PathBuf>,
    /// Where JSON goes; `-` for the standard output.
    json: Option<PathBuf>,
    list: bool,
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some((first, rest)) = args.split_first()
        && first == "child"
    {
        return match child::serve(rest) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => complain(&why),
        };
    }
    match parse(&args) {
        Ok(arguments) if needs(&[Need::Xfsprogs, Need::Mount]) => {
            run_all(&arguments).unwrap_or_else(|why| complain(&why))
        }
        Ok(_) => ExitCode::from(2),
        Err(why) => complain(&format!("{why}\n{USAGE}")),
    }
}

fn complain(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::from(2)
}

fn parse(args: &[String]) -> Result<Arguments, String> {
    let mut arguments = Arguments {
        kind: Kind::ALL[0],
        filter: Filter::default(),
        seed: seed(1),
        amount: Amount::default(),
        keep: None,
        json: None,
        list: false,
    };
    let mut args = args.iter();
    while let Some(option) = args.next() {
        let mut value = || args.next().cloned().ok_or_else(|| format!("{option}: no value"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("{text}: no number"));
        match option.as_str() {
            "--volume" => arguments.kind = kind(&value()?)?,
            "--only" => arguments.filter.structure = Some(value()?),
            "--field" => arguments.filter.field = Some(value()?),
            "--verb" => arguments.filter.verb = Some(value()?),
            "--seed" => arguments.seed = number(value()?)?,
            "--minutes" => {
                arguments.amount.time = Some(Duration::from_secs(60 * number(value()?)?));
            }
            "--cases" => arguments.amount.cases = count(&value()?)?,
            "--jobs" => arguments.amount.jobs = count(&value()?)?.max(1),
            "--keep" => arguments.keep = Some(value()?.into()),
            "--json" => arguments.json = Some(value()?.into()),
            "--list" => arguments.list = true,
            _ => return Err(format!("{option}: no such option")),
        }
    }
    Ok(arguments)
}

fn count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("{text}: no number"))
}

fn kind(name: &str) -> Result<Kind, String> {
    let found = Kind::ALL.into_iter().find(|kind| kind.name == name);
    found.ok_or_else(|| format!("{name}: no such kind of volume"))
}

fn run_all(arguments: &Arguments) -> Result<ExitCode, String> {
    let program = std::env::current_exe().map_err(|why| why.to_string())?;
    let Arguments { kind, filter, seed, amount, keep, .. } = arguments;
    if arguments.list {
        for name in xfskit_test_damage::run::names(kind, filter, *seed)? {
            println!("{name}");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let report = run(&program, kind, filter, *seed, amount, keep.as_deref())?;
    print(&report, arguments.json.as_deref())?;
    let broken = report.broken().next().is_some();
    Ok(if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn print(report: &Report, json: Option<&Path>) -> Result<(), String> {
    let as_json = || serde_json::to_string_pretty(report).map_err(|why| why.to_string());
    match json {
        Some(path) if path == Path::new("-") => println!("{}", as_json()?),
        Some(path) => {
            std::fs::write(path, as_json()?).map_err(|why| format!("{}: {why}", path.display()))?;
            print!("{}", report.text());
        }
        None => print!("{}", report.text()),
    }
    Ok(())
}
