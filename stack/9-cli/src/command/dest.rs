//! The directory for rescued files.

use std::path::Path;

use xfskit::target::Target;

use super::{mount, open};
use crate::exit::Failure;

/// Refuses a directory for rescued files that is on the target `name`, by whichever mount: they
/// would overwrite what is still to be found there. Refuses a file too.
pub(super) fn refuse(name: &str, dest: &Path) -> Result<(), Failure> {
    let target = Target::parse(name).map_err(|error| open::not_opened(name, &error))?;
    let shown = dest.display();
    if dest.exists() && !dest.is_dir() {
        return Err(Failure::cannot(format!("{shown}: not a directory")));
    }
    if target.holds(dest) || mount::holds(name, dest) {
        let hint = "What is written there overwrites what is to be found. Name a directory on \
                    another filesystem.";
        return Err(Failure::cannot(format!("{shown} is on {name}")).hint(hint));
    }
    Ok(())
}
