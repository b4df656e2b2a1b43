//! Walks and removes whole trees through directory operations alone.

use std::io;

use super::{Driver, Kind};

/// The callback of a walk: directory, name, type.
pub type Visit<'v, D> = dyn FnMut(&<D as Driver>::Dir, &[u8], Kind) -> io::Result<()> + 'v;

/// Visits every name below `dir`, the contents of a directory before the directory itself.
///
/// # Errors
/// The errors of the driver and of `visit`.
pub fn walk<D: Driver>(driver: &D, dir: &D::Dir, visit: &mut Visit<'_, D>) -> io::Result<()> {
    let mut names = Vec::new();
    driver.read_dir(dir, &mut |name, kind| names.push((name.to_vec(), kind)))?;
    for (name, kind) in names {
        if kind == Kind::Directory {
            walk(driver, &driver.open_dir(dir, &name)?, visit)?;
        }
        visit(dir, &name, kind)?;
    }
    Ok(())
}

/// Removes the directory `name` of `dir` with everything below it, and returns the number of
/// removed names.
///
/// # Errors
/// The errors of the driver.
pub fn remove<D: Driver>(driver: &D, dir: &D::Dir, name: &[u8]) -> io::Result<u64> {
    let mut removed = 1;
    walk(driver, &driver.open_dir(dir, name)?, &mut |dir, name, kind| {
        removed += 1;
        remove_one(driver, dir, name, kind)
    })?;
    driver.remove_dir(dir, name).map(|()| removed)
}

/// Removes a file or an empty directory.
///
/// # Errors
/// The errors of the driver.
pub fn remove_one<D: Driver>(driver: &D, dir: &D::Dir, name: &[u8], kind: Kind) -> io::Result<()> {
    match kind {
        Kind::Directory => driver.remove_dir(dir, name),
        _ => driver.unlink(dir, name),
    }
}
