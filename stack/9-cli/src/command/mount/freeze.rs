//! `xfskit freeze` and `xfskit thaw`.

use std::fs::File;
use std::path::Path;

use super::mounts;
use super::protocol::{Client, Request};
use crate::exit::{Failure, Outcome};
use crate::grammar::mount::{Freeze, Thaw};
use crate::out::Out;

/// Writes everything in place, and makes changes wait.
pub(crate) fn freeze(args: &Freeze, out: &Out) -> Outcome {
    let entry = mounts::on(&args.dir)?;
    let cannot =
        |error: std::io::Error| Failure::cannot(format!("{}: {error}", args.dir.display()));
    // A frozen mount takes nothing, and refuses the request.
    if !Client::state(&entry)?.frozen {
        // The kernel sends the content that it caches; the process waits for it.
        let root = File::open(&args.dir).map_err(cannot)?;
        rustix::fs::syncfs(&root).map_err(|error| cannot(error.into()))?;
    }
    Client::ask(&entry, Request::Freeze)?.done().map_err(|failure| about(&args.dir, failure))?;
    Ok(out.status())
}

/// Lets changes go on.
pub(crate) fn thaw(args: &Thaw, out: &Out) -> Outcome {
    let entry = mounts::on(&args.dir)?;
    Client::ask(&entry, Request::Thaw)?.done().map_err(|failure| about(&args.dir, failure))?;
    Ok(out.status())
}

fn about(dir: &Path, failure: Failure) -> Failure {
    Failure { message: format!("{}: {}", dir.display(), failure.message), ..failure }
}
