//! `xfskit ls`: lists a directory as `ls` does.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use xfskit::{DirContents, DirEntry, Error, FileType, Metadata, Volume};

use super::fields::Fields;
use super::open;
use crate::exit::{Failure, Outcome};
use crate::grammar::read::Ls;
use crate::out::Out;
use crate::show::{self, Named};

/// One file of a listing.
struct Row {
    name: OsString,
    ino: u64,
    file_type: FileType,
    /// `None` if only names are requested.
    file: Option<Metadata>,
    /// Target of a symbolic link.
    link: Option<PathBuf>,
}

/// One file of a listing, for JSON.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    path: Named<'a>,
    #[serde(flatten)]
    name: Named<'a>,
    #[serde(flatten)]
    stat: Option<Fields<'a>>,
    #[serde(flatten)]
    brief: Option<Brief>,
    #[serde(flatten)]
    target: Option<Named<'a>>,
}

/// The fields of a directory entry.
#[derive(Serialize)]
struct Brief {
    ino: u64,
    #[serde(rename = "type")]
    file_type: FileType,
}

/// `xfskit ls`: lists a directory, or prints one name.
pub(crate) fn run(volume: &Volume, args: &Ls, out: &Out) -> Outcome {
    let path = open::inside(&args.path)?;
    let failure = |error: Error| open::failure(&error);
    let listing = Listing { args, out, now: show::now() };
    let file = if args.long || args.directory {
        volume.symlink_metadata(path)
    } else {
        volume.metadata(path)
    };
    let file = file.map_err(failure)?;
    if !file.is_dir() || args.directory {
        let row = listing.one(volume, path, file);
        listing.print(path, &[row], false)?;
        return Ok(out.status());
    }
    let dirs = volume.walk_dirs(path).map_err(failure)?;
    let dirs = dirs.with_metadata(args.long).skip_hidden(!args.all);
    let deepest = if args.recursive { usize::MAX } else { 0 };
    for (index, dir) in dirs.max_depth(deepest).enumerate() {
        match dir {
            Ok(dir) => listing.directory(index == 0, dir)?,
            Err(error) => out.fault_at_its_path(&error),
        }
    }
    Ok(out.status())
}

struct Listing<'a> {
    args: &'a Ls,
    out: &'a Out,
    now: i64,
}

impl Listing<'_> {
    /// Prints the entries of a directory.
    fn directory(&self, is_first: bool, dir: DirContents) -> Result<(), Failure> {
        let path = dir.path().to_owned();
        if self.args.recursive && !self.out.json() {
            let blank: &[u8] = if is_first { b"" } else { b"\n" };
            let name = self.out.name(path.as_os_str().as_bytes());
            self.out.line([blank, &name, b":"].concat())?;
        }
        for error in dir.errors() {
            self.out.fault_at_its_path(error);
        }
        let rows: Vec<Row> = dir.filter_map(|entry| self.row(&entry)).collect();
        self.print(&path, &rows, true)
    }

    /// Returns the row of an entry; `None` if it cannot be read, which is reported.
    fn row(&self, entry: &DirEntry) -> Option<Row> {
        let file = self.args.long.then(|| entry.metadata()).transpose();
        let file = file.map_err(|error| self.out.fault_at_its_path(&error)).ok()?;
        let is_link = file.as_ref().is_some_and(Metadata::is_symlink);
        let link = is_link.then(|| entry.read_link());
        Some(Row {
            name: entry.file_name(),
            ino: entry.ino(),
            file_type: entry.file_type(),
            file,
            link: self.known(link),
        })
    }

    /// Returns the row of the file `path`.
    fn one(&self, volume: &Volume, path: &Path, file: Metadata) -> Row {
        let link = (self.args.long && file.is_symlink()).then(|| volume.read_link(path));
        Row {
            name: path.as_os_str().to_owned(),
            ino: file.ino(),
            file_type: file.file_type(),
            file: self.args.long.then_some(file),
            link: self.known(link),
        }
    }

    /// Returns the target of a link; one that cannot be read is reported.
    fn known(&self, link: Option<xfskit::Result<PathBuf>>) -> Option<PathBuf> {
        link?.map_err(|error| self.out.fault_at_its_path(&error)).ok()
    }

    fn print(&self, dir: &Path, rows: &[Row], in_dir: bool) -> Result<(), Failure> {
        if self.out.json() {
            return rows.iter().try_for_each(|row| {
                let path = if in_dir { dir.join(&row.name) } else { dir.to_owned() };
                self.out.object(&line(path.as_os_str().as_bytes(), row))
            });
        }
        let widths = Widths::of(rows);
        if self.args.long && in_dir {
            let blocks: u64 =
                rows.iter().filter_map(|row| row.file.as_ref()).map(Metadata::blocks).sum();
            self.out.line(format!("total {}", blocks / 2))?;
        }
        rows.iter().try_for_each(|row| self.out.line(self.text(row, &widths)))
    }

    fn text(&self, row: &Row, widths: &Widths) -> Vec<u8> {
        let mut text = String::new();
        if self.args.inode {
            // Writing to a string cannot fail.
            let _ = write!(text, "{:>1$} ", row.ino, widths.ino);
        }
        if let Some(file) = &row.file {
            let Widths { nlink, uid, gid, size, .. } = *widths;
            let mtime = file.mtime();
            let time = if self.args.full_time {
                show::time_full(mtime.sec, mtime.nsec)
            } else {
                show::time_short(mtime.sec, self.now)
            };
            let _ = write!(
                text,
                "{} {:>nlink$} {:>uid$} {:>gid$} {:>size$} {time} ",
                show::mode(file.mode()),
                file.nlink(),
                file.uid(),
                file.gid(),
                size_or_device(file),
            );
        }
        let mut text = text.into_bytes();
        text.extend(self.out.name(row.name.as_bytes()));
        if let Some(target) = &row.link {
            text.extend_from_slice(b" -> ");
            text.extend(self.out.name(target.as_os_str().as_bytes()));
        }
        text
    }
}

fn line<'a>(path: &'a [u8], row: &'a Row) -> Line<'a> {
    let brief = Brief { ino: row.ino, file_type: row.file_type };
    let link = row.link.as_deref();
    Line {
        path: Named("path", path),
        name: Named("name", path.rsplit(|&b| b == b'/').next().unwrap_or(path)),
        stat: row.file.as_ref().map(Fields::all),
        brief: row.file.is_none().then_some(brief),
        target: link.map(|link| Named("target", link.as_os_str().as_bytes())),
    }
}

/// Returns the length in bytes, or the numbers of a device.
fn size_or_device(file: &Metadata) -> String {
    match file.rdev() {
        Some((major, minor)) => format!("{major}, {minor}"),
        None => file.len().to_string(),
    }
}

/// Widths of the columns of one listing.
#[derive(Default)]
struct Widths {
    ino: usize,
    nlink: usize,
    uid: usize,
    gid: usize,
    size: usize,
}

impl Widths {
    fn of(rows: &[Row]) -> Self {
        let mut widths = Self::default();
        let widen = |width: &mut usize, text: String| *width = (*width).max(text.len());
        for row in rows {
            widen(&mut widths.ino, row.ino.to_string());
            let Some(file) = &row.file else { continue };
            widen(&mut widths.nlink, file.nlink().to_string());
            widen(&mut widths.uid, file.uid().to_string());
            widen(&mut widths.gid, file.gid().to_string());
            widen(&mut widths.size, size_or_device(file));
        }
        widths
    }
}
