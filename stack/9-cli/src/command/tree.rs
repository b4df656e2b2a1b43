//! `xfskit tree`: draws a directory tree.

use std::os::unix::ffi::OsStrExt;

use serde::Serialize;
use xfskit::{FileType, Volume};

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
    ino: u64,
    #[serde(rename = "type")]
    file_type: FileType,
}

/// `xfskit tree`: draws the tree below a directory.
pub(crate) fn run(volume: &Volume, args: &Tree, out: &Out) -> Outcome {
    let walk = volume.walk_dir(open::inside(&args.path)?);
    let walk = walk.map_err(|error| open::failure(&error))?;
    // For each level above: true if its directory was the last of its own.
    let mut closed: Vec<bool> = Vec::new();
    let (mut dirs, mut files) = (0u64, 0u64);
    for file in walk.max_depth(args.depth.unwrap_or(usize::MAX)) {
        let file = match file {
            Ok(file) => file,
            Err(error) => {
                out.fault_at_its_path(&error);
                continue;
            }
        };
        *(if file.file_type().is_dir() { &mut dirs } else { &mut files }) += 1;
        let (path, depth) = (file.path().as_os_str().as_bytes(), file.depth());
        if out.json() {
            let (ino, file_type) = (file.metadata().ino(), file.file_type());
            out.object(&Line { path: Named("path", path), depth, ino, file_type })?;
            continue;
        }
        closed.truncate(depth.saturating_sub(1));
        let mut line: Vec<u8> = closed.iter().flat_map(|&c| stem(c).bytes()).collect();
        if depth == 0 {
            line.extend(out.name(path));
        } else {
            line.extend_from_slice(if file.is_last() { "└── " } else { "├── " }.as_bytes());
            line.extend(out.name(path.rsplit(|&b| b == b'/').next().unwrap_or_default()));
            closed.push(file.is_last());
        }
        if file.file_type().is_symlink()
            && let Ok(target) = volume.read_link(file.path())
        {
            line.extend_from_slice(b" -> ");
            line.extend(out.name(target.as_os_str().as_bytes()));
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
