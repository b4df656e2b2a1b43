//! The extent counter of 16 bits: what happens when an attribute fork has as many extents as it can
//! count.
//!
//! The published study met the limit with a million values of 255 bytes. Here it is reached with
//! fewer attributes: two files take turns, and each value has a block of its own, so that no two
//! blocks of a file are neighbours.

use std::io;

use serde_json::json;

use super::case::name;
use super::space::{FILE, value};
use crate::Driver;
use crate::report::{Answer, Cell, Section, Table};
use crate::suite::{Observer, Settings};
use crate::testbed::{CheckResult, Implementation, Job};

/// Bytes of a value that has a block of its own.
const VALUE: usize = 3900;
/// Attributes of each file that are set at most: more than enough.
const MOST: u64 = 40_000;
/// The file whose blocks lie between those of the other one.
const OTHER: &[u8] = b"other";

/// Sets attributes on two files in turn until one fails, on either.
struct Fill {
    seed: u64,
}

/// What happened.
struct Filled {
    /// Attributes that both files have.
    attributes: u64,
    error: Option<io::Error>,
    /// An attribute could be removed and set again after that.
    usable: bool,
}

impl Job for Fill {
    type Output = Filled;

    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<Filled> {
        let (driver, value) = (&*driver, value(self.seed, VALUE));
        let root = driver.root()?;
        let (file, other) = (driver.create(&root, FILE)?, driver.create(&root, OTHER)?);
        let files = [&file, &other];
        let (mut attributes, mut full) = (0, None);
        while attributes < MOST && full.is_none() {
            let name = name(attributes);
            full = files.into_iter().find_map(|on| {
                let error = driver.set_xattr(on, &name, &value).err()?;
                Some((on, error))
            });
            attributes += u64::from(full.is_none());
        }
        let last = name(attributes.saturating_sub(1));
        let refill = full.as_ref().map_or(&file, |(on, _)| on);
        let again = driver
            .remove_xattr(refill, &last)
            .and_then(|()| driver.set_xattr(refill, &last, &value[..VALUE - 1]));
        let (error, usable) = (full.map(|(_, error)| error), again.is_ok());
        driver.close(file)?;
        driver.close(other)?;
        driver.sync()?;
        Ok(Filled { attributes, error, usable })
    }
}

/// Runs the case on every implementation and formats its section.
///
/// # Errors
/// The errors of the volumes, and of the observer if it stops the suite.
pub(super) fn section(
    settings: &Settings,
    implementations: &[Implementation],
    observer: &mut dyn Observer,
) -> io::Result<Section> {
    let mut table = Table::new(
        "An extent counter of 16 bits overflows (no nrext64)",
        &[
            ("attributes set", ""),
            ("extents", ""),
            ("then", ""),
            ("removed and set again", ""),
            ("volume", ""),
        ],
    );
    let mut answer = None;
    for &implementation in implementations {
        observer.progress(&format!("extent counter on {}", implementation.name()))?;
        let mut settings = settings.clone();
        settings.testbed.mkfs.nrext64 = Some(false);
        let mut volume = settings.volume(implementation)?;
        let Filled { attributes, error, usable } = volume.run(&mut Fill { seed: settings.seed })?;
        let extents = extents(&volume.open_read_only()?)?;
        let CheckResult { checker, clean, .. } = volume.check(settings.threads)?;
        let error = error.map_or("no error".into(), |error| error.to_string());
        observer.result(json!({ "xattr_extents": {
            "driver": implementation.name(),
            "storage": volume.storage(),
            "attributes": attributes,
            "extents": extents,
            "error": error,
            "usable": usable,
            "clean": clean,
        }}))?;
        if implementation == Implementation::Engine {
            answer = Some(answer_of(extents, &error, usable, clean));
        }
        let cells = vec![
            Cell::Count(attributes),
            Cell::Count(extents),
            Cell::Text(error),
            Cell::Text(if usable { "works" } else { "fails" }.into()),
            Cell::Text(format!("{checker}: {}", if clean { "clean" } else { "corrupt" })),
        ];
        table.row(implementation.name(), volume.storage(), cells);
    }
    table.note(
        "Without nrext64 an inode counts the extents of its attributes in 16 bits, at most 32,767. The published study reached \
         that with a million values of 255 bytes, of which every second was removed and 400,000 set again. Here two files take turns with values \
         of 3,900 bytes, so that each value is an extent. xfskit's message is: the attribute fork has as many extents as one can have.",
    );
    let mut section = Section::new("Space: the extent counter of an attribute fork");
    section.answer = answer;
    section.tables.push(table);
    Ok(section)
}

/// Returns the answer to what a full counter does.
fn answer_of(extents: u64, error: &str, usable: bool, clean: bool) -> Answer {
    let after = if usable {
        "the file can be changed after it"
    } else {
        "the file cannot be changed after it"
    };
    let volume = if clean { "clean" } else { "corrupt" };
    Answer {
        question: "What happens when the extents of attributes cannot be counted any more?".into(),
        verdict: format!("The change fails ({error}), {after}, and the volume is {volume}."),
        figure: format!("{} extents.", Cell::Count(extents)),
        published: "the counter of 16 bits overflowed.".into(),
    }
}

/// Returns the number of extents of the larger attribute fork.
fn extents(volume: &xfskit_core::Volume) -> io::Result<u64> {
    let root = volume.iget(volume.geo().rootino).map_err(io::Error::other)?;
    let extents = |name| {
        let found = volume.lookup(&root, name).map_err(io::Error::other)?;
        let (ino, _) = found.ok_or(io::ErrorKind::NotFound)?;
        let inode = volume.iget(ino).map_err(io::Error::other)?;
        io::Result::Ok(u64::from(inode.core().anextents()))
    };
    Ok(extents(FILE)?.max(extents(OTHER)?))
}
