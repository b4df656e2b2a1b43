//! `xfskit tree`: draws a directory tree.

use std::os::unix::ffi::OsStrExt;

use serde::Serialize;
use xfskit::Volume;
use xfskit::raw::VolumeExt as _;
use xfskit::raw::vfs::{FileType, Follow, Ino};

use super::open;
use crate::exit::Outcome;
use crate::grammar::read::Tree;
use crate::out::Out;
use crate::show::Named;

/// One file, for JSON.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    path: Named<'a>,
    depth: usize,
    ino: Ino,
    #[serde(rename = "type")]
    file_type: Option<FileType>,
}

/// `xfskit tree`
pub(crate) fn run(volume: &Volume, args: &Tree, out: &Out) -> Outcome {
    let fs = volume.fs();
    let inode = open::resolve(volume, &args.path, Follow::Yes)?;
    let path = args.path.as_bytes();
    // For each level above: true if its directory was the last of its own.
    let mut closed: Vec<bool> = Vec::new();
    let (mut dirs, mut files) = (0u64, 0u64);
    for step in fs.walk(path, inode, args.depth.unwrap_or(usize::MAX)) {
        let entry = match step {
            Ok(entry) => entry,
            Err(fault) => {
                out.fault(&fault.path, &fault.error);
                continue;
            }
        };
        let core = entry.inode.core();
        *(if core.is_dir() { &mut dirs } else { &mut files }) += 1;
        if out.json() {
            out.object(&Line {
                path: Named("path", &entry.path),
                depth: entry.depth,
                ino: entry.inode.ino(),
                file_type: core.file_type(),
            })?;
            continue;
        }
        closed.truncate(entry.depth.saturating_sub(1));
        let mut line: Vec<u8> = closed.iter().flat_map(|&c| stem(c).bytes()).collect();
        if entry.depth == 0 {
            line.extend(out.name(path));
        } else {
            line.extend_from_slice(if entry.last { "└── " } else { "├── " }.as_bytes());
            line.extend(out.name(entry.path.rsplit(|&b| b == b'/').next().unwrap_or_default()));
            closed.push(entry.last);
        }
        if let Ok(target) = fs.read_link(&entry.inode) {
            line.extend_from_slice(b" -> ");
            line.extend(out.name(&target));
        }
        out.line(line)?;
    }
    if !out.json() && !out.quiet() {
        out.line(format!("\n{} directories, {files} files", dirs.saturating_sub(1)))?;
    }
    Ok(out.status())
}

/// Returns the line to the left of an entry for one level above it.
fn stem(closed: bool) -> &'static str {
    if closed { "    " } else { "│   " }
}
