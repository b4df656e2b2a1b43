//! `xfskit du`: prints how much space files take, directory by directory.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use xfskit::{FileType, Volume, WalkEntry};

use super::open;
use crate::exit::{Failure, Outcome};
use crate::grammar::read::Du;
use crate::out::Out;
use crate::progress::{Progress, Unit};
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
    path: PathBuf,
    bytes: u64,
}

/// `xfskit du`: prints how much space files take, directory by directory.
pub(crate) fn run(volume: &Volume, args: &Du, out: &Out) -> Outcome {
    let progress = Progress::beside_output(out, "du", Unit::Count("files"));
    let mut usage = Usage { args, out, counted: HashSet::new(), open: Vec::new() };
    for path in &args.paths {
        let walk = volume.walk_dir_nofollow(open::inside(path)?);
        for file in walk.map_err(|error| open::failure(&error))? {
            progress.add(1);
            match file {
                Ok(file) => {
                    usage.close_below(file.depth())?;
                    usage.add(file)?;
                }
                Err(error) => out.fault_at_its_path(&error),
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
    counted: HashSet<u64>,
    /// The directories that the walk is in, the outermost first.
    open: Vec<Sum>,
}

impl Usage<'_> {
    /// Counts a file.
    fn add(&mut self, file: WalkEntry) -> Result<(), Failure> {
        let metadata = file.metadata();
        let is_dir = metadata.is_dir();
        if !is_dir && metadata.nlink() > 1 && !self.counted.insert(metadata.ino()) {
            return Ok(());
        }
        let bytes = match (self.args.apparent_size, metadata.file_type()) {
            (false, _) => metadata.blocks().saturating_mul(512),
            (true, FileType::File | FileType::Symlink) => metadata.len(),
            (true, _) => 0,
        };
        if is_dir {
            self.open.push(Sum { path: file.into_path(), bytes });
            return Ok(());
        }
        if let Some(dir) = self.open.last_mut() {
            dir.bytes = dir.bytes.saturating_add(bytes);
        }
        let depth = file.depth();
        if depth == 0 || self.args.all { self.print(file.path(), depth, bytes) } else { Ok(()) }
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

    fn print(&self, path: &Path, depth: usize, bytes: u64) -> Result<(), Failure> {
        let path = path.as_os_str().as_bytes();
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
