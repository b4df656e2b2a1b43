//! `xfskit du`: prints how much space files take, directory by directory.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;

use serde::Serialize;
use xfskit::Volume;
use xfskit::raw::VolumeExt as _;
use xfskit::raw::vfs::{FileType, Follow, Ino, Stat};

use super::open;
use crate::exit::{Failure, Outcome};
use crate::grammar::read::Du;
use crate::out::Out;
use crate::progress::Progress;
use crate::show::{self, Named};

/// One file or directory, for JSON.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    path: Named<'a>,
    bytes: u64,
}

/// A directory whose contents are being added up.
struct Sum {
    path: Vec<u8>,
    bytes: u64,
}

/// `xfskit du`
pub(crate) fn run(volume: &Volume, args: &Du, out: &Out) -> Outcome {
    let progress = Progress::beside_output(out, "du", "files");
    let mut usage = Usage { args, out, counted: HashSet::new(), open: Vec::new() };
    for path in &args.paths {
        let inode = open::resolve(volume, path, Follow::No)?;
        for step in volume.fs().walk(path.as_bytes(), inode, usize::MAX) {
            progress.add(1);
            match step {
                Ok(entry) => {
                    usage.close_below(entry.depth)?;
                    let stat = volume.fs().stat(&entry.inode);
                    usage.add(entry.path, entry.depth, &stat)?;
                }
                Err(fault) => out.fault(&fault.path, &fault.error),
            }
        }
        usage.close_below(0)?;
    }
    progress.finish();
    Ok(out.status())
}

/// A running sum.
struct Usage<'a> {
    args: &'a Du,
    out: &'a Out,
    /// Files with several names that were counted.
    counted: HashSet<Ino>,
    /// The directories that the walk is in, the outermost first.
    open: Vec<Sum>,
}

impl Usage<'_> {
    /// Counts a file at `depth`.
    fn add(&mut self, path: Vec<u8>, depth: usize, stat: &Stat) -> Result<(), Failure> {
        let is_dir = stat.file_type == FileType::Directory;
        if !is_dir && stat.nlink > 1 && !self.counted.insert(stat.ino) {
            return Ok(());
        }
        let bytes = match (self.args.apparent_size, stat.file_type) {
            (false, _) => stat.blocks.saturating_mul(512),
            (true, FileType::Regular | FileType::Symlink) => stat.size,
            (true, _) => 0,
        };
        if is_dir {
            self.open.push(Sum { path, bytes });
            return Ok(());
        }
        if let Some(dir) = self.open.last_mut() {
            dir.bytes = dir.bytes.saturating_add(bytes);
        }
        if depth == 0 || self.args.all { self.print(&path, depth, bytes) } else { Ok(()) }
    }

    /// Ends directories at `depth` and deeper.
    fn close_below(&mut self, depth: usize) -> Result<(), Failure> {
        while self.open.len() > depth {
            let Some(Sum { path, bytes }) = self.open.pop() else { break };
            if let Some(parent) = self.open.last_mut() {
                parent.bytes = parent.bytes.saturating_add(bytes);
            }
            self.print(&path, self.open.len(), bytes)?;
        }
        Ok(())
    }

    fn print(&self, path: &[u8], depth: usize, bytes: u64) -> Result<(), Failure> {
        let most = if self.args.summarize { Some(0) } else { self.args.max_depth };
        if most.is_some_and(|most| depth > most) {
            return Ok(());
        }
        if self.out.json() {
            return self.out.object(&Line { path: Named("path", path), bytes });
        }
        let size =
            if self.args.human { show::human(bytes) } else { bytes.div_ceil(1024).to_string() };
        self.out.line([size.as_bytes(), b"\t", &self.out.name(path)].concat())
    }
}
