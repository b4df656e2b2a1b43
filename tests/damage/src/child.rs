//! The steps that may crash or hang, each a process of its own.
//!
//! `xfskit-damage child STEP ARGUMENT…` runs one and prints its result as JSON.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use xfskit::{AcceptLoss, Check, Repair, Severity};
use xfskit_test_programs::command::{self, Log};
use xfskit_test_support::Mount;
use xfskit_test_support::tools::run;

use crate::tree::Tree;

/// Time that a step may take.
pub const BOUND: Duration = Duration::from_mins(1);

/// What xfskit says of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ours {
    /// The first finding of the check, or its refusal; `None` if it finds nothing.
    pub found: Option<String>,
    /// Why nothing was written; `None` if the repair was committed, or there was nothing to do.
    pub refused: Option<String>,
    /// Bytes written.
    pub bytes: u64,
}

/// What Linux says of a volume: its tree, or the first error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Linux {
    /// The tree.
    pub tree: Tree,
    /// The error of mounting, writing or unmounting.
    pub refused: Option<String>,
}

/// How a step ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended<T> {
    /// With this result.
    Done(T),
    /// By a panic or a signal; the end of its output.
    Crashed(String),
    /// Not within [`BOUND`].
    Hung,
}

/// Checks and repairs the volume.
fn ours(image: &Path) -> Ours {
    let mut said = Ours::default();
    match Check::new().threads(1).run(image) {
        Ok(checked) if checked.is_clean() => {}
        Ok(checked) => {
            let worse = checked.findings.iter().find(|found| found.severity != Severity::Warning);
            said.found = worse.or(checked.findings.first()).map(ToString::to_string);
        }
        Err(why) => said.found = Some(why.to_string()),
    }
    let prepared = match Repair::new().threads(1).accept_loss(AcceptLoss::ALL).prepare(image) {
        Ok(prepared) => prepared,
        Err(why) => return Ours { refused: Some(why.to_string()), ..said },
    };
    if !prepared.is_clean() {
        let left =
            prepared.left().first().map_or("names or inodes lost".into(), ToString::to_string);
        return Ours { refused: Some(left), ..said };
    }
    match prepared.commit(None) {
        Ok(_) => said.bytes = prepared.bytes(),
        Err(why) => said.refused = Some(why.to_string()),
    }
    said
}

/// Mounts the volume at `at`, reads its tree, creates and removes files, and unmounts it.
fn linux(image: &Path, at: &Path) -> Linux {
    let mount = || {
        let mut mount = Command::new("mount");
        run(mount.args(["-t", "xfs", "-o", "loop,nouuid"]).arg(image).arg(at))
    };
    if let Err(why) = mount() {
        return Linux { tree: Tree::default(), refused: Some(why) };
    }
    let tree = Tree::of(at);
    let written = write_files(at).map_err(|why| format!("writing: {why}"));
    let end = written.and_then(|()| run(Command::new("umount").arg(at)).map(drop));
    Linux { tree, refused: end.err() }
}

/// Creates directories and files, and removes them again.
fn write_files(at: &Path) -> std::io::Result<()> {
    let dir = at.join("written.by.the.trial");
    fs::create_dir(&dir)?;
    for n in 0..40_u8 {
        let path = dir.join(format!("file{n}"));
        fs::write(&path, vec![n; 3000 * usize::from(n % 5)])?;
        fs::File::open(&path)?.sync_all()?;
    }
    fs::remove_dir_all(&dir)
}

/// Runs a step, in the child.
///
/// # Errors
/// No such step.
pub fn serve(args: &[String]) -> Result<(), String> {
    let said = match args {
        [step, image] if step == "ours" => serde_json::to_string(&ours(Path::new(image))),
        [step, image, at] if step == "linux" => {
            serde_json::to_string(&linux(Path::new(image), Path::new(at)))
        }
        _ => return Err("no such step".into()),
    };
    println!("{}", said.map_err(|why| why.to_string())?);
    Ok(())
}

/// The steps, as the parent runs them.
#[derive(Debug)]
pub struct Steps {
    /// The program `xfskit-damage`.
    program: PathBuf,
    /// Every command with its output.
    log: Log,
    /// An empty directory for mounts.
    mount: PathBuf,
}

impl Steps {
    /// Returns steps of `program` that work in the directory `dir`.
    ///
    /// # Errors
    /// Making the log or the directory.
    pub fn new(program: &Path, dir: &Path) -> Result<Self, String> {
        let mount = dir.join("mount");
        fs::create_dir_all(&mount).map_err(|why| why.to_string())?;
        Ok(Self { program: program.to_owned(), log: Log::new(dir.join("log"))?, mount })
    }

    /// Checks and repairs the volume with xfskit.
    ///
    /// # Errors
    /// Starting the step.
    pub fn ours(&self, image: &Path) -> Result<Ended<Ours>, String> {
        self.child(&["ours".as_ref(), image])
    }

    /// Mounts the volume, and writes to it.
    ///
    /// # Errors
    /// Starting the step.
    pub fn linux(&self, image: &Path) -> Result<Ended<Linux>, String> {
        let ended = self.child(&["linux".as_ref(), image, &self.mount]);
        // After a crash or a hang it is mounted still.
        if !matches!(ended, Ok(Ended::Done(Linux { refused: None, .. }))) {
            let _ = Command::new("umount").arg("--lazy").arg(&self.mount).output();
        }
        ended
    }

    fn child<T: DeserializeOwned>(&self, args: &[&Path]) -> Result<Ended<T>, String> {
        let mut command = Command::new(&self.program);
        command.arg("child").args(args);
        Ok(match self.run(&mut command)? {
            Ended::Done((Some(0), text)) => match text.lines().last().map(serde_json::from_str) {
                Some(Ok(said)) => Ended::Done(said),
                _ => Ended::Crashed(text),
            },
            Ended::Done((_, text)) | Ended::Crashed(text) => Ended::Crashed(text),
            Ended::Hung => Ended::Hung,
        })
    }

    /// Runs a command to its end. Returns its exit code and all that it printed.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn run(&self, command: &mut Command) -> Result<Ended<(Option<i32>, String)>, String> {
        let program = command.get_program().to_owned();
        match command::run(command, BOUND, &self.log) {
            Ok(finished) if finished.code.is_none() => Ok(Ended::Crashed(finished.text)),
            Ok(finished) => Ok(Ended::Done((finished.code, finished.text))),
            Err(why) if why.contains("no end in") => Ok(Ended::Hung),
            Err(why) => Err(format!("{}: {why}", program.display())),
        }
    }
}

/// Reads the tree of a volume without damage.
///
/// # Errors
/// Mounting it.
pub fn tree(
    image: &xfskit_test_support::Image,
    dir: &xfskit_test_support::Scratch,
) -> Result<Tree, String> {
    let mount = Mount::read_only(image, dir)?;
    let tree = Tree::of(mount.path());
    mount.unmount().map(|()| tree)
}
