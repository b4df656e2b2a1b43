//! Links: many names of one inode, each remembered by the inode as a parent pointer.
//!
//! Two designs. The merged one is the format's: the attribute's name is the file's, its value the directory's inode
//! number and generation (12 bytes), and both make the hash. The published one put inode, generation and
//! directory offset into the attribute's name and the file's name into its value. The format forbids NUL in
//! names, so here these 16 bytes are 32 hexadecimal digits.

use std::io;

use serde_json::json;

use super::leaves::{Leaves, shares};
use super::space::FILE;
use crate::Driver;
use crate::measure::usage::{Usage, Watch};
use crate::report::{Axis, Cell, Line, Plot, Section, Source, Table};
use crate::side::{Job, Who};
use crate::suite::{Audience, Settings};

/// Links in one directory.
const IN_DIRECTORY: u64 = 100_000;
/// Offset between two directory entries in units of 8 bytes, for the published design: an entry with a name of
/// this length takes 32 bytes.
const ENTRY_STEP: u64 = 4;

/// Bytes that hexadecimal adds to an attribute's name: 32 digits in place of 16 bytes.
const HEX_MORE: f64 = 16.0;

/// How parents are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Design {
    /// Hard links on a volume with parent pointers.
    Merged,
    /// Hard links on a volume without.
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

/// Makes the links, or the attributes that would stand for them.
struct Work {
    design: Design,
    links: u64,
}

fn link_name(n: u64) -> Vec<u8> {
    format!("link{n:011}").into_bytes()
}

impl Job for Work {
    type Answer = Usage;

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
        let watch = Watch::start()?;
        for n in 0..self.links {
            let (dir, ino) = &dirs[usize::try_from(n / IN_DIRECTORY).unwrap_or(0)];
            if self.design == Design::Published {
                // Generation: as good as any number. The driver's stat does not tell it.
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

/// The section on `links` names of one inode.
///
/// # Errors
/// Those of the volumes, and where the audience wants to stop.
pub(super) fn section(
    links: u64,
    settings: &Settings,
    sides: &[Who],
    audience: &mut dyn Audience,
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
        for &who in sides {
            let title = format!("{}, {}", design.name(), who.name());
            audience.note(&format!("{links} {title}"))?;
            let mut settings = settings.clone();
            settings.bed.mkfs.parent = Some(design == Design::Merged);
            let mut side = settings.side(who)?;
            let usage = side.run(&mut Work { design, links })?;
            let leaves = Leaves::of(&side.look()?, FILE)?;
            audience.result(json!({ "links": {
                "design": design.name(),
                "driver": who.name(),
                "on": side.on(),
                "links": links,
                "wall_seconds": usage.wall.as_secs_f64(),
                "processor_seconds": usage.processor.as_secs_f64(),
                "leaves": leaves,
            }}))?;
            table.row(&title, side.on(), cells(links, &leaves, usage));
            if design != Design::Without {
                bytes_each.push((who, design, leaves.used_each()));
                let points = shares(&leaves.used_bytes);
                lines.push(Line { name: title, source: Source::Measured, points });
            }
        }
    }
    let mut section = Section::new("Links: parent pointers on one inode");
    section.say(
        "Merged format: the attribute is named like the file (15 bytes) and has the directory's inode number and \
         generation as its value (12 bytes). Published design: inode number, generation and directory offset in the \
         attribute's name, the file's name as its value; the format forbids NUL in names, so they are written in \
         hexadecimal, 32 bytes in place of 16, and each attribute is 16 bytes larger than the design asked for.",
    );
    for &who in sides {
        let of = |wanted| bytes_each.iter().find(|(by, design, _)| (*by, *design) == (who, wanted));
        if let (Some(merged), Some(published)) = (of(Design::Merged), of(Design::Published)) {
            section.say(format!(
                "Change of size, {}: {:.1} bytes each in the merged format, {:.1} in the published design in hexadecimal ({:+.1}); \
                 without hexadecimal it would be {:.1}.",
                who.name(),
                merged.2,
                published.2,
                published.2 - merged.2,
                published.2 - HEX_MORE,
            ));
        }
    }
    section.tables.push(table);
    section.plots.push(Plot {
        title: "Space used per leaf".into(),
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
