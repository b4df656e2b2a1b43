//! `xfskit stat`: prints the metadata of one file.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;

use serde::Serialize;
use xfskit::{Extent, Timestamp, Volume};

use super::fields::Fields;
use super::open;
use crate::exit::{Failure, Outcome};
use crate::grammar::read;
use crate::out::Out;
use crate::show::{self, Named};

/// The result.
#[derive(Serialize)]
struct FileReport<'a> {
    #[serde(flatten)]
    path: Named<'a>,
    #[serde(flatten)]
    fields: Fields<'a>,
    #[serde(flatten)]
    target: Option<Named<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extents: Option<Vec<Piece>>,
}

/// One extent, in filesystem blocks.
#[derive(Serialize)]
struct Piece {
    startoff: u64,
    startblock: u64,
    blockcount: u64,
    unwritten: bool,
}

/// `xfskit stat`: prints the metadata of a file.
pub(crate) fn run(volume: &Volume, args: &read::Stat, out: &Out) -> Outcome {
    let path = open::inside(&args.path)?;
    let metadata = if args.follow { volume.metadata(path) } else { volume.symlink_metadata(path) };
    let metadata = metadata.map_err(|e| open::failure(&e))?;
    let link = metadata.is_symlink().then(|| volume.read_link(path)).transpose();
    let link = link.map_err(|e| open::failure(&e))?;
    let link = link.as_deref().map(|link| link.as_os_str().as_bytes());
    let extents = args.extents.then(|| extents(volume, args)).transpose()?;
    let report = FileReport {
        path: Named("path", args.path.as_bytes()),
        fields: Fields::all(&metadata),
        target: link.map(|link| Named("target", link)),
        extents,
    };
    out.result(&report, |report| text(args, report, link))?;
    Ok(out.status())
}

fn extents(volume: &Volume, args: &read::Stat) -> Result<Vec<Piece>, Failure> {
    let path = open::inside(&args.path)?;
    let extents = if args.follow { volume.extents(path) } else { volume.extents_nofollow(path) };
    let block = u64::from(volume.statfs().map_err(|e| open::failure(&e))?.blocksize);
    let piece = |Extent { range, startblock, unwritten, .. }: Extent| Piece {
        startoff: range.start / block,
        startblock,
        blockcount: (range.end - range.start) / block,
        unwritten,
    };
    Ok(extents.map_err(|e| open::failure(&e))?.into_iter().map(piece).collect())
}

fn text(args: &read::Stat, report: &FileReport<'_>, link: Option<&[u8]>) -> String {
    let FileReport { fields: Fields { file, .. }, extents, .. } = report;
    let arrow = link.map(|target| format!(" -> {}", show::name(target))).unwrap_or_default();
    let time = |t: Timestamp| show::time_full(t.sec, t.nsec);
    let device = file.rdev().map(|(major, minor)| format!("  Device: {major}, {minor}"));
    let mut text = format!(
        "  File: {}{arrow}\n  Size: {:<12} Blocks: {:<10} {}{}\n Inode: {:<12} Links: {:<10} \
         Generation: {}\nAccess: ({:04o}/{})  Uid: {}  Gid: {}  Project: {}\nAccess: {}\nModify: \
         {}\nChange: {}\n Birth: {}\n Flags: {:#x}, {:#x}  Extents: {} data, {} attributes\n",
        show::name(args.path.as_bytes()),
        file.len(),
        file.blocks(),
        show::kind(file.mode()),
        device.unwrap_or_default(),
        file.ino(),
        file.nlink(),
        file.generation(),
        file.permissions().mode(),
        show::mode(file.mode()),
        file.uid(),
        file.gid(),
        file.project(),
        time(file.atime()),
        time(file.mtime()),
        time(file.ctime()),
        file.btime().map_or_else(|| "-".into(), time),
        file.flags(),
        file.flags2(),
        file.extent_count(),
        file.attr_extent_count(),
    );
    for Piece { startoff, startblock, blockcount, unwritten } in extents.iter().flatten() {
        let state = if *unwritten { " unwritten" } else { "" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  [{startoff}, +{blockcount}) at {startblock}{state}");
    }
    text
}
