//! `xfskit stat`: prints the metadata of one file.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;

use serde::Serialize;
use xfskit::Volume;
use xfskit::raw::VolumeExt as _;
use xfskit::raw::format::Fork;
use xfskit::raw::vfs::{FileType, Follow, Timestamp};

use super::fields::Fields;
use super::open;
use crate::exit::Outcome;
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

/// `xfskit stat`
pub(crate) fn run(volume: &Volume, args: &read::Stat, out: &Out) -> Outcome {
    let fs = volume.fs();
    let follow = if args.follow { Follow::Yes } else { Follow::No };
    let inode = open::resolve(volume, &args.path, follow)?;
    let stat = fs.stat(&inode);
    let link = match stat.file_type {
        FileType::Symlink => Some(fs.read_link(&inode).map_err(|e| open::failure(&e))?),
        _ => None,
    };
    let extents = args.extents.then(|| fs.volume().extents(&inode, Fork::Data));
    let extents = extents.transpose().map_err(|e| open::failure(&e.into()))?;
    let piece = |e: &xfskit::raw::format::bmbt::Extent| Piece {
        startoff: e.startoff.0,
        startblock: e.startblock.0,
        blockcount: e.blockcount.0,
        unwritten: e.unwritten,
    };
    let report = FileReport {
        path: Named("path", args.path.as_bytes()),
        fields: Fields::all(&stat),
        target: link.as_deref().map(|link| Named("target", link)),
        extents: extents.map(|list| list.as_slice().iter().map(piece).collect()),
    };
    out.result(&report, |report| text(args, report, link.as_deref()))?;
    Ok(out.status())
}

fn text(args: &read::Stat, report: &FileReport<'_>, link: Option<&[u8]>) -> String {
    let FileReport { fields: Fields { stat, .. }, extents, .. } = report;
    let arrow = link.map(|target| format!(" -> {}", show::name(target))).unwrap_or_default();
    let time = |t: Timestamp| show::time_full(t.sec, t.nsec);
    let device = stat.rdev.map(|(major, minor)| format!("  Device: {major}, {minor}"));
    let mut text = format!(
        "  File: {}{arrow}\n  Size: {:<12} Blocks: {:<10} {}{}\n Inode: {:<12} Links: {:<10} \
         Generation: {}\nAccess: ({:04o}/{})  Uid: {}  Gid: {}  Project: {}\nAccess: {}\nModify: \
         {}\nChange: {}\n Birth: {}\n Flags: {:#x}, {:#x}  Extents: {} data, {} attributes\n",
        show::name(args.path.as_bytes()),
        stat.size,
        stat.blocks,
        show::kind(stat.mode),
        device.unwrap_or_default(),
        stat.ino,
        stat.nlink,
        stat.generation,
        stat.mode & 0o7777,
        show::mode(stat.mode),
        stat.uid,
        stat.gid,
        stat.projid,
        time(stat.atime),
        time(stat.mtime),
        time(stat.ctime),
        stat.btime.map_or_else(|| "-".into(), time),
        stat.flags.bits(),
        stat.flags2.bits(),
        stat.nextents,
        stat.anextents,
    );
    for Piece { startoff, startblock, blockcount, unwritten } in extents.iter().flatten() {
        let state = if *unwritten { " unwritten" } else { "" };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  [{startoff}, +{blockcount}) at {startblock}{state}");
    }
    text
}
