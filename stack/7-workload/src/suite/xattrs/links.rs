//! Links: many names of one inode, each recorded in the inode as a parent pointer.
//!
//! Two designs are compared. The merged one is the format's: the attribute's name is the file's,
//! its value is the directory's inode number and generation (12 bytes), and the hash covers both.
//! The published one put inode, generation and directory offset into the attribute's name, and the
//! file's name into its value. The format forbids NUL in names, so here these 16 bytes are 32
//! hexadecimal digits.

use std::io;

use serde_json::json;

use super::leaves::{Leaves, shares};
use super::space::FILE;
use crate::Driver;
use crate::measure::usage::{Stopwatch, Usage};
use crate::report::{Axis, Cell, Line, Plot, Section, Source, Table};
use crate::suite::{Observer, Settings};
use crate::testbed::{Implementation, Job};

/// Links per directory.
const IN_DIRECTORY: u64 = 100_000;
/// Offset between two directory entries in units of 8 bytes, for the published design. An entry
/// with a name of this length takes 32 bytes.
const ENTRY_STEP: u64 = 4;

/// Bytes that hexadecimal adds to an attribute's name: 32 digits instead of 16 bytes.
const HEX_MORE: f64 = 16.0;

/// The design that records parents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Design {
    /// Hard links on a volume with parent pointers.
    Merged,
    /// Hard links on a volume without parent pointers.
    Without,
    /// Plain attributes, no links.
    Published,
}

impl Design {
    fn name(self) -> &'static str {
        match self {
            Self::Merged => "links with parent pointers",
            Self::Without => "links without",
            Self::Published => "published design, as attributes",
        }
    }
}

/// Creates the links, or the attributes that represent them.
struct Work {
    design: Design,
    links: u64,
}

fn link_name(n: u64) -> Vec<u8> {
    format!("link{n:011}").into_bytes()
}

impl Job for Work {
    type Output = Usage;

    fn run<D: Driver>(&mut self, driver: &mut D) -> io::Result<Usage> {
        let root = driver.root()?;
        driver.create_empty(&root, FILE)?;
        let mut dirs = Vec::new();
        for n in 0..self.links.div_ceil(IN_DIRECTORY) {
            let name = format!("dir{n:03}").into_bytes();
            driver.make_dir(&root, &name)?;
            dirs.push((driver.open_dir(&root, &name)?, driver.stat(&root, &name)?.ino));
        }
        let file = driver.open(&root, FILE)?;
        let watch = Stopwatch::start()?;
        for n in 0..self.links {
            let (dir, ino) = &dirs[usize::try_from(n / IN_DIRECTORY).unwrap_or(0)];
            if self.design == Design::Published {
                // The driver's stat has no generation, and any number serves.
                let (generation, offset) = (0x5eed_u32, n % IN_DIRECTORY * ENTRY_STEP);
                let name = format!("trusted.{ino:016x}{generation:08x}{offset:08x}");
                driver.set_xattr(&file, name.as_bytes(), &link_name(n))?;
            } else {
                driver.link(&root, FILE, dir, &link_name(n))?;
            }
        }
        driver.close(file)?;
        driver.sync()?;
        watch.read()
    }
}

/// Steps of the part on each implementation: the designs.
pub(super) const STEPS: usize = 3;

/// Runs the part with `links` names of one inode and formats its section.
///
/// # Errors
/// The errors of the volumes, and of the observer if it stops the suite.
pub(super) fn section(
    links: u64,
    settings: &Settings,
    implementations: &[Implementation],
    observer: &mut dyn Observer,
) -> io::Result<Section> {
    let mut table = Table::new(
        format!("{} links to one inode", Cell::Count(links)),
        &[
            ("attributes", ""),
            ("leaves", ""),
            ("all leaves", "MB"),
            ("bytes each", ""),
            ("wasted", "%"),
            ("free", "%"),
            ("processor", "µs each"),
            ("wall", "s"),
        ],
    );
    let mut lines = Vec::new();
    let mut bytes_each = Vec::new();
    for design in [Design::Without, Design::Merged, Design::Published] {
        for &implementation in implementations {
            let title = format!("{}, {}", design.name(), implementation.name());
            observer.progress(&format!("{links} {title}"))?;
            let mut settings = settings.clone();
            settings.testbed.mkfs.parent = Some(design == Design::Merged);
            let mut volume = settings.volume(implementation)?;
            let usage = volume.run(&mut Work { design, links })?;
            let leaves = Leaves::of(&volume.open_read_only()?, FILE)?;
            observer.result(json!({ "links": {
                "design": design.name(),
                "driver": implementation.name(),
                "storage": volume.storage(),
                "links": links,
                "wall_seconds": usage.wall.as_secs_f64(),
                "processor_seconds": usage.processor.as_secs_f64(),
                "leaves": leaves,
            }}))?;
            table.row(&title, volume.storage(), cells(links, &leaves, usage));
            if design != Design::Without {
                bytes_each.push((implementation, design, leaves.used_each()));
                let points = shares(&leaves.used_bytes);
                lines.push(Line { name: title, source: Source::Measured, points });
            }
        }
    }
    let mut section = Section::new("Links: parent pointers on one inode");
    section.paragraph(
        "Merged format: the attribute has the name of the file (15 bytes), and the directory's inode number and \
         generation as its value (12 bytes). Published design: the attribute's name is inode number, generation and \
         directory offset, and its value is the file's name. The format forbids NUL in names, so they are written in \
         hexadecimal, 32 bytes instead of 16. Each attribute is therefore 16 bytes larger than the design requires.",
    );
    for &implementation in implementations {
        let of = |wanted| {
            bytes_each
                .iter()
                .find(|(run_by, design, _)| (*run_by, *design) == (implementation, wanted))
        };
        if let (Some(merged), Some(published)) = (of(Design::Merged), of(Design::Published)) {
            section.paragraph(format!(
                "Change of size, {}: {:.1} bytes each in the merged format, {:.1} in the published design in hexadecimal ({:+.1}); \
                 without hexadecimal it would be {:.1}.",
                implementation.name(),
                merged.2,
                published.2,
                published.2 - merged.2,
                published.2 - HEX_MORE,
            ));
        }
    }
    section.tables.push(table);
    section.plots.push(Plot {
        title: format!("{} links: space used per leaf", Cell::Count(links)),
        x: Axis::linear("used bytes of a leaf, in steps of 128"),
        y: Axis::linear("leaves, % of all"),
        lines,
    });
    Ok(section)
}

#[allow(clippy::cast_precision_loss)] // of rates and shares
fn cells(links: u64, leaves: &Leaves, usage: Usage) -> Vec<Cell> {
    let each = |cell: f64, digits| match leaves.attributes {
        0 => Cell::None,
        _ => Cell::Number(cell, digits),
    };
    vec![
        Cell::Count(leaves.attributes),
        Cell::Count(leaves.leaves),
        Cell::Number(leaves.total() as f64 / 1e6, 1),
        each(leaves.used_each(), 1),
        each(leaves.percent(leaves.wasted), 2),
        each(leaves.percent(leaves.free), 2),
        Cell::Number(usage.processor.as_secs_f64() * 1e6 / links as f64, 2),
        Cell::Number(usage.wall.as_secs_f64(), 2),
    ]
}
