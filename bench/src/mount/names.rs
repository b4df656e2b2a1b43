//! Names: empty files made by Debian's fs_mark, stat, listings by find, and rm.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::aim::Bound::{Above, AtLeast};
use super::side::{Mounted, Side};
use super::workload::{Step, Turn, Workload};
use crate::array::number;
use crate::contest::Quantity;
use crate::frame::Result;

/// Writers of the second creation, each with a directory of its own.
const WRITERS: u64 = 8;
/// Repetitions of what only reads, with a new cache of names for each.
const READS: usize = 3;
/// The directory of one writer.
const ONE: &str = "one";
/// Another one, of creates by open(2) alone.
const PLAIN: &str = "plain";
/// Round trips of a create: LOOKUP and CREATE, with room for those of the directory itself.
const CREATE_TRIPS: f64 = 2.01;

/// Empty files.
#[derive(Clone, Debug)]
pub struct Names {
    /// Their number.
    pub files: u64,
}

const RATE: Quantity = Quantity::rate("files/s", 0);
const AHEAD: &[(Side, super::aim::Bound)] = &[(Side::Passthrough, Above(1.0))];

const fn step(title: &'static str, aims: &'static [(Side, super::aim::Bound)]) -> Step {
    Step { title, quantity: RATE, unit: "file", aims, round_trips: None }
}

const CREATE: usize = 0;
const STAT: usize = 1;
const READDIR: usize = 2;
const READDIRPLUS: usize = 3;
const UNLINK: usize = 4;
const CREATE_PLAIN: usize = 5;
const CREATE_EIGHT: usize = 6;
const STEPS: &[Step] = &[
    step("create, one writer", &[(Side::Passthrough, Above(1.0)), (Side::Fuse2fs, AtLeast(10.0))]),
    step("stat", AHEAD),
    step("find", AHEAD),
    step("find -size", AHEAD),
    step("rm -r", AHEAD),
    Step { round_trips: Some(CREATE_TRIPS), ..step("create by open(2)", &[]) },
    step(
        "create, eight writers",
        &[
            (Side::Kernel, AtLeast(0.5)),
            (Side::Passthrough, Above(1.0)),
            (Side::Fuse2fs, AtLeast(10.0)),
        ],
    ),
];

impl Workload for Names {
    fn title(&self) -> &'static str {
        "Names"
    }

    fn text(&self) -> Vec<String> {
        let Self { files } = self;
        vec![
            format!(
                "{files} empty files. One writer makes them in one directory (fs_mark -s 0 -S 0), they are looked up (stat), listed \
                 (find, and find -size, which needs the attributes of each) and removed (rm -r); then {WRITERS} writers make \
                 them in {WRITERS} directories. Before each file, fs_mark calls mkdir(2) for its directory, which costs a LOOKUP: the \
                 round trips of a create are those of files that are made by open(2) and close(2) alone."
            ),
            "Times of creation and removal include syncfs(2) and fsync(2) of the directories, after which all changes are durable on \
             each side."
                .into(),
            format!(
                "Before each stat and listing, of which there are {READS} in a turn, the kernel drops its names and inodes \
                 (drop_caches 2). The server of a mount keeps its own."
            ),
        ]
    }

    fn steps(&self) -> &'static [Step] {
        STEPS
    }

    fn programs(&self) -> &'static [&'static str] {
        &["fs_mark", "find", "rm"]
    }

    fn inodes(&self) -> u64 {
        self.files + WRITERS + 2
    }

    fn turn(&self, turn: &mut Turn<'_>) -> Result<()> {
        let mounted = turn.mount()?;
        let (root, files) = (mounted.path().to_owned(), number(self.files));
        fs::create_dir(root.join(ONE))?;
        turn.timed(CREATE, &mounted, || {
            create(&mounted, &[ONE.to_owned()], self.files)?;
            Ok(files)
        })?;
        self.read(turn, &mounted)?;
        turn.timed(UNLINK, &mounted, || {
            run(&root, "rm", &["-r", ONE])?;
            mounted.sync::<&str>(&[])?;
            Ok(files)
        })?;
        fs::create_dir(root.join(PLAIN))?;
        turn.timed(CREATE_PLAIN, &mounted, || {
            let path = |n| root.join(PLAIN).join(format!("file{n:08}"));
            (0..self.files).try_for_each(|n| File::create(path(n)).map(drop))?;
            mounted.sync(&[PLAIN])?;
            Ok(files)
        })?;
        fs::remove_dir_all(root.join(PLAIN))?;
        let dirs: Vec<String> = (0..WRITERS).map(|n| format!("d{n}")).collect();
        dirs.iter().try_for_each(|dir| fs::create_dir(root.join(dir)))?;
        let each = self.files / WRITERS;
        turn.timed(CREATE_EIGHT, &mounted, || {
            create(&mounted, &dirs, each)?;
            Ok(number(each * WRITERS))
        })?;
        turn.unmount(mounted)
    }
}

impl Names {
    fn read(&self, turn: &mut Turn<'_>, mounted: &Mounted) -> Result<()> {
        let (bench, files) = (turn.bench, number(self.files));
        let path = |entry: std::io::Result<fs::DirEntry>| Ok(entry?.path());
        let paths: Result<Vec<PathBuf>> =
            fs::read_dir(mounted.path().join(ONE))?.map(path).collect();
        let paths = paths?;
        if paths.len() as u64 != self.files {
            return Err(format!("{} of {} files are listed", paths.len(), self.files).into());
        }
        for _ in 0..READS {
            for step in [STAT, READDIR, READDIRPLUS] {
                bench.drop_names(mounted)?;
                turn.timed(step, mounted, || {
                    match step {
                        STAT => stat(&paths)?,
                        READDIR => run(mounted.path(), "find", &[ONE])?,
                        _ => run(mounted.path(), "find", &[ONE, "-size", "+1"])?,
                    }
                    Ok(files)
                })?;
            }
        }
        Ok(())
    }
}

/// Makes `each` files in each of `dirs`, with a writer for each, and makes them durable.
fn create(mounted: &Mounted, dirs: &[String], each: u64) -> Result<()> {
    // fs_mark accepts names of less than 40 bytes: the directories are relative.
    let (each, writers) = (each.to_string(), dirs.len().to_string());
    let mut words =
        vec!["-k", "-s", "0", "-S", "0", "-l", "/dev/null", "-n", &each, "-t", &writers];
    words.extend(dirs.iter().flat_map(|dir| ["-d", dir]));
    run(mounted.path(), "fs_mark", &words)?;
    mounted.sync(dirs)
}

fn stat(paths: &[PathBuf]) -> Result<()> {
    // The call of the C library's lstat(3): metadata of Rust's library has times of birth, which
    // cost a second round trip.
    Ok(paths.iter().try_for_each(|path| rustix::fs::lstat(path).map(drop))?)
}

/// Runs a program in `dir`.
fn run(dir: &Path, program: &str, words: &[&str]) -> Result<()> {
    let mut command = Command::new(program);
    command.args(words).current_dir(dir).stdin(Stdio::null()).stdout(Stdio::null());
    let ended = command.status().map_err(|error| format!("{program}: {error}"))?;
    if ended.success() { Ok(()) } else { Err(format!("{program}: {ended}").into()) }
}
