//! `xfskit extents`: where the content of files is, as xfs_bmap(8) prints it.

use std::ffi::{OsStr, OsString};
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::Serialize;
use xfskit::FileFork;

use super::mount::{self, Extent, FileEnd, Layout, Listed};
use super::open;
use crate::exit::{Failure, Outcome};
use crate::grammar::read::Extents;
use crate::out::Out;
use crate::show::{self, Named};

/// The unit of the listing, as xfs_bmap has it: bytes.
const UNIT: u64 = 512;

/// The result for one file.
#[derive(Serialize)]
struct Report<'a> {
    #[serde(flatten)]
    path: Named<'a>,
    /// Bytes of a block, in which the others count.
    blocksize: u64,
    extents: Vec<Piece>,
}

/// One extent, in filesystem blocks.
#[derive(Serialize)]
struct Piece {
    startoff: u64,
    startblock: u64,
    blockcount: u64,
    unwritten: bool,
    shared: bool,
}

/// `xfskit extents`: lists the extents of files of a mount, or of a volume.
pub(crate) fn run(args: &Extents, out: &Out) -> Outcome {
    let first = OsStr::new(&*args.target.name);
    let files: Vec<&OsStr> =
        std::iter::once(first).chain(args.paths.iter().map(OsString::as_os_str)).collect();
    // A directory may be the target, whose paths follow; another file may not.
    let is_file = mount::is_on_mount(first) && !Path::new(first).is_dir();
    if is_file || files.iter().all(|file| mount::is_on_mount(file)) {
        return each(&files, out, |file| mount::extents(file, args.attributes));
    }
    if args.paths.is_empty() {
        let shown = first.to_string_lossy();
        let why = match std::fs::symlink_metadata(first) {
            Err(error) => error.to_string(),
            Ok(_) => "not on a mount by xfskit, and no PATH".to_owned(),
        };
        return Err(Failure::cannot(format!("{shown}: {why}"))
            .hint("a file of a volume that is not mounted: `xfskit extents TARGET PATH`"));
    }
    let volume = mount::volume_to_read(&args.target, out)?;
    let layout = Layout::of(&volume);
    let fork = if args.attributes { FileFork::Attr } else { FileFork::Data };
    each(&files[1..], out, |file| {
        let map = volume.extent_map(open::inside(file)?, fork).map_err(|e| open::failure(&e))?;
        let extents = map.extents.iter().map(Extent::from).collect();
        Ok(Listed { layout, end: FileEnd::of(&map, fork), extents })
    })
}

/// Prints the extents of each file. Failures are reported, and the others continue.
fn each(
    files: &[&OsStr],
    out: &Out,
    extents: impl Fn(&OsStr) -> Result<Listed, Failure>,
) -> Outcome {
    for file in files {
        match extents(file) {
            Ok(listed) => print(file, &listed, out)?,
            Err(failure) if files.len() == 1 => return Err(failure),
            Err(failure) => out.fault_in(file.as_bytes(), &Fault(failure.message), None, None),
        }
    }
    Ok(out.status())
}

/// The failure of one of several files.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Fault(String);

fn print(file: &OsStr, listed: &Listed, out: &Out) -> Result<(), Failure> {
    let Listed { layout, end, extents } = listed;
    let blocks = |bytes: u64| bytes / layout.blocksize.max(1);
    let piece = |extent: &Extent| Piece {
        startoff: blocks(extent.start),
        startblock: extent.startblock,
        blockcount: blocks(extent.len),
        unwritten: extent.unwritten,
        shared: extent.shared,
    };
    let report = Report {
        path: Named("path", file.as_bytes()),
        blocksize: layout.blocksize,
        extents: extents.iter().map(piece).collect(),
    };
    out.result(&report, |_| text(file, layout, &up_to_end(layout, *end, extents), *end))
}

/// A line of the listing.
struct Row {
    range: String,
    place: String,
    group: String,
    in_group: String,
    total: u64,
    flags: String,
}

/// Returns the first byte behind the last block of the content.
fn end_of_blocks(layout: &Layout, end: FileEnd) -> u64 {
    end.size.checked_next_multiple_of(layout.blocksize.max(1)).unwrap_or(u64::MAX)
}

/// Returns the extents that xfs_bmap lists: up to the end of the content, unless space behind it
/// was preallocated.
fn up_to_end(layout: &Layout, end: FileEnd, extents: &[Extent]) -> Vec<Extent> {
    if end.preallocated {
        return extents.to_vec();
    }
    let end = end_of_blocks(layout, end);
    let inside = extents.iter().filter(|extent| extent.start < end);
    inside.map(|extent| Extent { len: extent.len.min(end - extent.start), ..*extent }).collect()
}

/// Returns the listing of `xfs_bmap -vp`.
fn text(file: &OsStr, layout: &Layout, extents: &[Extent], end: FileEnd) -> String {
    let name = show::name(file.as_bytes());
    if extents.is_empty() {
        return format!("{name}: no extents\n");
    }
    // The realtime device has groups of its own, or none, and no stripes.
    let layout = if end.realtime {
        &Layout { group: layout.rtgroup, unit: 0, width: 0, ..*layout }
    } else {
        layout
    };
    let (place_title, group_title, offset_title) = match (end.realtime, layout.group) {
        (false, _) => ("BLOCK-RANGE", "AG", "AG-OFFSET"),
        (true, 0) => ("RT-BLOCK-RANGE", "", ""),
        (true, _) => ("RT-BLOCK-RANGE", "RG", "RG-OFFSET"),
    };
    let rows = rows(layout, extents, end);
    let width = |least: usize, of: fn(&Row) -> &str| {
        rows.iter().map(|row| of(row).len()).fold(least, usize::max)
    };
    let (range, place) = (width(16, |row| &row.range), width(16, |row| &row.place));
    let (group, in_group) = match layout.group {
        0 => (0, 0),
        _ => (width(2, |row| &row.group), width(16, |row| &row.in_group)),
    };
    let total = rows.iter().map(|row| row.total.to_string().len()).fold(5, usize::max);
    let mut text = format!("{name}:\n");
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{:>4}: {:<range$} {:<place$} {:>group$} {:<in_group$} {:>total$} FLAGS",
        "EXT", "FILE-OFFSET", place_title, group_title, offset_title, "TOTAL",
    );
    for (n, row) in rows.iter().enumerate() {
        let mut line = format!(
            "{n:>4}: {:<range$} {:<place$} {:>group$} {:<in_group$} {:>total$} {}",
            row.range, row.place, row.group, row.in_group, row.total, row.flags,
        );
        line.truncate(line.trim_end().len());
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Returns the lines: extents, and holes between them and before the end.
fn rows(layout: &Layout, extents: &[Extent], end: FileEnd) -> Vec<Row> {
    let range = |start: u64, len: u64| {
        let (start, end) = (start / UNIT, start.saturating_add(len) / UNIT);
        format!("{start}..{}", end.saturating_sub(1))
    };
    let hole = |at: u64, len: u64| Row {
        range: format!("[{}]:", range(at, len)),
        place: "hole".into(),
        group: String::new(),
        in_group: String::new(),
        total: len / UNIT,
        flags: String::new(),
    };
    let (mut rows, mut at) = (Vec::new(), 0);
    for extent in extents {
        if extent.start > at {
            rows.push(hole(at, extent.start - at));
        }
        let group = extent.device.checked_div(layout.group);
        let in_group = extent.device.checked_rem(layout.group);
        let in_group = in_group.map(|start| format!("({})", range(start, extent.len)));
        rows.push(Row {
            range: format!("[{}]:", range(extent.start, extent.len)),
            place: range(extent.device, extent.len),
            group: group.map_or(String::new(), |group| group.to_string()),
            in_group: in_group.unwrap_or_default(),
            total: extent.len / UNIT,
            flags: format!("{:06o}", flags(layout, extent)),
        });
        at = extent.start.saturating_add(extent.len);
    }
    if let Some(len @ 1..) = end_of_blocks(layout, end).checked_sub(at) {
        rows.push(hole(at, len));
    }
    rows
}

/// Returns the flags of xfs_bmap: shared, unwritten, and what is not aligned to stripes.
fn flags(layout: &Layout, extent: &Extent) -> u32 {
    let end = extent.device.saturating_add(extent.len);
    let off = |at: u64, unit: u64| unit > 0 && !at.is_multiple_of(unit);
    [
        (0o100_000, extent.shared),
        (0o010_000, extent.unwritten),
        (0o001_000, off(extent.device, layout.unit)),
        (0o000_100, off(end, layout.unit)),
        (0o000_010, off(extent.device, layout.width)),
        (0o000_001, off(end, layout.width)),
    ]
    .iter()
    .filter(|(_, set)| *set)
    .fold(0, |flags, (bit, _)| flags | bit)
}
