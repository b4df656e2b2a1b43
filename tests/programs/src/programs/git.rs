//! git: this project's repository cloned, checked, packed, and older commits checked out.

use std::process::Command;
use std::time::Duration;

use xfskit_test_support::repository;

use crate::stage::{Ran, Stage, Stop, installed};
use crate::volume::Volume;

/// Time for one command.
const BOUND: Duration = Duration::from_mins(15);

/// Clones the repository and works with the clone.
pub(super) fn run(stage: &Stage) -> Ran {
    let git = |args: &[&str]| -> Result<Command, Stop> {
        let mut git = installed("git")?;
        git.args(["-c", "safe.directory=*"]).args(args);
        Ok(git)
    };
    let mut is_repository = git(&["rev-parse", "HEAD"])?;
    let head = crate::command::run(is_repository.current_dir(repository()), BOUND, &stage.log)?;
    let Ok(head) = head.success() else {
        return Err(Stop::Skipped("this is not a clone of a repository".into()));
    };
    let mut volume = stage.volume(4)?;
    let clone = volume.path().join("clone");
    let inside = |volume: &mut Volume<'_>, args: &[&str]| -> Result<String, Stop> {
        Ok(volume.succeed(git(args)?.current_dir(&clone), BOUND)?)
    };
    let from = repository().canonicalize()?;
    let mut cloned = git(&["clone", "--no-hardlinks", "--quiet"])?;
    volume.succeed(cloned.arg(from).arg(&clone), BOUND)?;
    let commits = inside(&mut volume, &["rev-list", "--first-parent", "HEAD"])?;
    let commits: Vec<&str> = commits.lines().collect();
    let wanted = usize::try_from(stage.amount).unwrap_or(1).max(1);
    inside(&mut volume, &["fsck", "--full", "--strict"])?;
    for (number, commit) in commits.iter().step_by(commits.len().div_ceil(wanted)).enumerate() {
        inside(&mut volume, &["checkout", "--quiet", commit])?;
        let status = inside(&mut volume, &["status", "--porcelain", "--ignored"])?;
        if !status.is_empty() {
            return Err(format!("{commit} is not clean after its checkout: {status}").into());
        }
        match number % 3 {
            0 => drop(inside(&mut volume, &["gc", "--quiet", "--prune=now"])?),
            1 => drop(inside(&mut volume, &["repack", "-adfq", "--threads=2"])?),
            _ => {
                volume.unmount()?;
                volume.mount()?;
            }
        }
    }
    inside(&mut volume, &["checkout", "--quiet", head.trim()])?;
    inside(&mut volume, &["read-tree", "--empty"])?;
    inside(&mut volume, &["add", "--all", "--force"])?;
    let (tree, same) = (
        inside(&mut volume, &["write-tree"])?,
        inside(&mut volume, &["rev-parse", "HEAD^{tree}"])?,
    );
    if tree != same {
        return Err(format!("the files have tree {tree}, the commit has {same}").into());
    }
    inside(&mut volume, &["fsck", "--full", "--strict"])?;
    let entries = volume.end()?;
    Ok(format!("{} commits, {wanted} checked out; {entries} files at the end", commits.len()))
}
