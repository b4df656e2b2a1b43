//! `xfskit blocks`: prints the owners of blocks.

use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;

use serde::Serialize;
use xfskit::{
    BlockOwner, BlockRange, ErrorKind, FileFork, FindOwners, InodeState, OwnedBlocks, Volume,
};

use super::{open, path};
use crate::exit::{Failure, Outcome};
use crate::grammar::locate::Blocks;
use crate::out::Out;
use crate::progress::{Progress, Unit};
use crate::show::{self, Named};

/// A run of blocks, for JSON.
#[derive(Serialize)]
struct Run<'a> {
    fsblock: u64,
    agno: u32,
    agbno: u32,
    blockcount: u32,
    /// On the data device, in bytes.
    offset: u64,
    owner: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    btree: Option<&'static str>,
    /// The inode that owns the blocks, or the first one in them.
    #[serde(skip_serializing_if = "Option::is_none")]
    inode: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fork: Option<&'static str>,
    /// In the fork, in blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    startoff: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unwritten: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shared: Option<bool>,
    #[serde(flatten)]
    path: Option<Named<'a>>,
}

/// The problem with a block.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Problem(&'static str);

/// `xfskit blocks`: prints the owners of blocks.
pub(crate) fn run(volume: &Volume, args: &Blocks, out: &Out) -> Outcome {
    let parse = |word: &String| range(word, args);
    let ranges = args.ranges.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
    let progress = Progress::beside_output(out, "owners", Unit::Count("read"));
    let search = FindOwners::new(volume).threads(args.threads).scan(args.scan);
    let search = search.paths(!args.no_paths).progress(|at| progress.set(at.done, at.total));
    let found = search.run(&ranges).map_err(|error| open::failure(&error))?;
    drop(search);
    progress.finish();
    let mut runs = Vec::new();
    for (word, owned) in args.ranges.iter().zip(found.ranges) {
        match owned {
            Ok(owned) => runs.extend(owned),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                out.fault_at(&format!("block {word}"), &Problem("the volume has none there"), None);
            }
            Err(error) => return Err(open::failure(&error)),
        }
    }
    print(&runs, out)?;
    for run in &runs {
        let problem = match run.owner {
            BlockOwner::Leaked => "neither in use nor free",
            BlockOwner::Unknown => "its owner is not known, because of damage",
            BlockOwner::Undefined(_) => "its owner in the rmapbt is none that exists",
            _ => continue,
        };
        out.fault_at(&format!("block {}", place(run)), &Problem(problem), None);
    }
    path::warn(&found.warnings, found.warnings_more, out);
    Ok(out.status())
}

/// Prints the runs, in columns.
fn print(runs: &[OwnedBlocks], out: &Out) -> Result<(), Failure> {
    if out.json() {
        return runs.iter().try_for_each(|run| out.object(&object(run)));
    }
    let cells: Vec<_> =
        runs.iter().map(|run| (run.fsblock.to_string(), place(run), run.blockcount)).collect();
    let width = |of: fn(&(String, String, u32)) -> usize| cells.iter().map(of).max().unwrap_or(0);
    let (first, second) = (width(|cell| cell.0.len()).max(7), width(|cell| cell.1.len()).max(8));
    let third = width(|cell| cell.2.to_string().len()).max(6);
    if !runs.is_empty() && !out.quiet() {
        out.line(format!(
            "{:>first$} {:<second$} {:>third$} OWNER",
            "FSBLOCK", "AG:BLOCK", "BLOCKS"
        ))?;
    }
    for (run, (fsblock, place, count)) in runs.iter().zip(&cells) {
        let mut line = format!("{fsblock:>first$} {place:<second$} {count:>third$} {}", owner(run))
            .into_bytes();
        line.extend(file(run, out));
        out.line(line)?;
    }
    Ok(())
}

/// Prints the owner of a block with a finding.
pub(super) fn print_finding(run: &OwnedBlocks, out: &Out) -> Result<(), Failure> {
    if out.json() {
        return out.object(&object(run));
    }
    let mut line = format!("  block {} is of {}", place(run), owner(run)).into_bytes();
    line.extend(file(run, out));
    out.line(line)
}

/// Returns the path of the file that owns a run, behind a blank, or what the inode is.
fn file(run: &OwnedBlocks, out: &Out) -> Vec<u8> {
    match (&run.path, run.state.and_then(without_path)) {
        (Some(path), _) => [b" ", &out.name(path.as_os_str().as_bytes())[..]].concat(),
        (None, Some(what)) => format!(" ({what})").into_bytes(),
        (None, None) => Vec::new(),
    }
}

/// Returns the blocks of a run, as the command takes them.
fn place(run: &OwnedBlocks) -> String {
    let last = run.agbno.saturating_add(run.blockcount.saturating_sub(1));
    match run.blockcount {
        1 => format!("{}:{}", run.agno, run.agbno),
        _ => format!("{}:{}-{last}", run.agno, run.agbno),
    }
}

/// Returns the owner in words.
fn owner(run: &OwnedBlocks) -> String {
    match &run.owner {
        BlockOwner::Free => "free space".into(),
        BlockOwner::FreeList => "free list".into(),
        BlockOwner::Headers => "group headers".into(),
        BlockOwner::Log => "journal".into(),
        BlockOwner::Btree(tree) => (*tree).into(),
        BlockOwner::SomeBtree => "a btree of the group".into(),
        BlockOwner::Inodes(inodes) => format!("inodes {}-{}", inodes.start(), inodes.end()),
        BlockOwner::Staging => "copy-on-write staging".into(),
        BlockOwner::Extent { ino, fork, startoff, unwritten, shared, .. } => {
            let end = startoff.saturating_add(run.blockcount.saturating_sub(1).into());
            let offset = if run.blockcount == 1 {
                startoff.to_string()
            } else {
                format!("{startoff}-{end}")
            };
            let marks = [(*unwritten, " unwritten"), (*shared, " shared")];
            let marks: String =
                marks.iter().filter(|(set, _)| *set).map(|(_, mark)| *mark).collect();
            format!("inode {ino} {} {offset}{marks}", fork_name(*fork))
        }
        BlockOwner::ExtentTree { ino, fork, .. } => {
            format!("inode {ino} {} btree", fork_name(*fork))
        }
        BlockOwner::Undefined(owner) => format!("owner {owner:#x}"),
        BlockOwner::Unknown => "unknown".into(),
        _ => "nothing".into(),
    }
}

/// Returns what an inode without a path is.
fn without_path(state: InodeState) -> Option<&'static str> {
    match state {
        InodeState::Internal(name) => Some(name),
        InodeState::Unlinked => Some("removed while it was open"),
        InodeState::Used => Some("no directory names it"),
        InodeState::Damaged => Some("damaged"),
        InodeState::Free | InodeState::Absent => Some("not in use"),
        _ => None,
    }
}

fn fork_name(fork: FileFork) -> &'static str {
    match fork {
        FileFork::Data => "data",
        FileFork::Attr => "attr",
    }
}

/// Returns a run for JSON.
fn object(run: &OwnedBlocks) -> Run<'_> {
    let owner = match run.owner {
        BlockOwner::Free => "free",
        BlockOwner::FreeList => "free_list",
        BlockOwner::Headers => "headers",
        BlockOwner::Log => "log",
        BlockOwner::Btree(_) => "btree",
        BlockOwner::SomeBtree => "some_btree",
        BlockOwner::Inodes(_) => "inodes",
        BlockOwner::Staging => "staging",
        BlockOwner::Extent { .. } => "extent",
        BlockOwner::ExtentTree { .. } => "extent_tree",
        BlockOwner::Undefined(_) => "undefined",
        BlockOwner::Unknown => "unknown",
        _ => "leaked",
    };
    let mut object = Run {
        fsblock: run.fsblock,
        agno: run.agno,
        agbno: run.agbno,
        blockcount: run.blockcount,
        offset: run.device_offset,
        owner,
        btree: None,
        inode: run.owner.ino(),
        fork: None,
        startoff: None,
        unwritten: None,
        shared: None,
        path: run.path.as_ref().map(|path| Named("path", path.as_os_str().as_bytes())),
    };
    match &run.owner {
        BlockOwner::Btree(tree) => object.btree = Some(tree),
        BlockOwner::Inodes(inodes) => object.inode = Some(*inodes.start()),
        BlockOwner::Extent { fork, startoff, unwritten, shared, .. } => {
            object.fork = Some(fork_name(*fork));
            object.startoff = Some(*startoff);
            (object.unwritten, object.shared) = (Some(*unwritten), Some(*shared));
        }
        BlockOwner::ExtentTree { fork, .. } => object.fork = Some(fork_name(*fork)),
        _ => {}
    }
    object
}

/// Parses a block or a range of blocks.
fn range(word: &str, args: &Blocks) -> Result<BlockRange, Failure> {
    if args.bytes {
        let bytes = ends(word, |word| show::parse_size(word).map_err(Failure::cannot))?;
        return Ok(BlockRange::Bytes(bytes));
    }
    if args.daddr {
        return Ok(BlockRange::Daddrs(ends(word, path::number)?));
    }
    let Some((agno, blocks)) = word.split_once(':').or_else(|| word.split_once('/')) else {
        return Ok(BlockRange::FsBlocks(ends(word, path::number)?));
    };
    let small = |word: &str| {
        let number = path::number(word)?;
        u32::try_from(number).map_err(|_| Failure::cannot(format!("{word} is too large")))
    };
    Ok(BlockRange::AgBlocks(small(agno)?, ends(blocks, small)?))
}

/// Parses `A` or `A-B`.
fn ends<T: Copy + PartialOrd>(
    word: &str,
    parse: impl Fn(&str) -> Result<T, Failure>,
) -> Result<RangeInclusive<T>, Failure> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let (first, last) = (parse(first)?, parse(last)?);
    if last < first {
        return Err(Failure::cannot(format!("{word:?} ends before it begins")));
    }
    Ok(first..=last)
}
