//! `xfskit ls`: lists a directory as `ls` does.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt;

use serde::Serialize;
use xfskit::Volume;
use xfskit::raw::VolumeExt as _;
use xfskit::raw::vfs::{Entry, FileType, Follow, Fs, Inode, Stat, Visited, join};

use super::fields::Fields;
use super::open;
use crate::exit::{Failure, Outcome};
use crate::grammar::read::Ls;
use crate::out::Out;
use crate::show::{self, Named};

/// One file of a listing.
struct Row {
    name: Vec<u8>,
    entry: Entry,
    /// `None` if only names are requested.
    stat: Option<Stat>,
    /// Target of a symbolic link.
    link: Option<Vec<u8>>,
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

/// `xfskit ls`
pub(crate) fn run(volume: &Volume, args: &Ls, out: &Out) -> Outcome {
    let follow = if args.long || args.directory { Follow::No } else { Follow::Yes };
    let inode = open::resolve(volume, &args.path, follow)?;
    let path = args.path.as_bytes();
    let listing = Listing { args, out, volume, now: show::now() };
    if !inode.core().is_dir() || args.directory {
        let name = path.to_vec();
        let file_type = inode.core().file_type().unwrap_or(FileType::Unknown);
        let entry = Entry { name: name.clone(), ino: inode.ino(), file_type };
        let row = listing.row(name, entry, path, &inode);
        listing.print(path, &[row], false)?;
        return Ok(out.status());
    }
    // Directories still to be listed, the next one last.
    let mut seen = Visited::new(inode.ino(), path);
    let mut ahead = vec![(path.to_vec(), inode, None)];
    let mut first = true;
    while let Some((path, dir, parent)) = ahead.pop() {
        let name = path.rsplit(|&b| b == b'/').next().unwrap_or_default();
        let entered = parent.map_or(Ok(()), |parent| seen.enter(dir.ino(), parent, name));
        if let Err(error) = entered {
            out.fault(&path, &error);
            continue;
        }
        if args.recursive && !out.json() {
            let blank: &[u8] = if first { b"" } else { b"\n" };
            out.line([blank, &out.name(&path), b":"].concat())?;
        }
        first = false;
        let below = listing.directory(&path, &dir)?;
        if args.recursive {
            let below = below.into_iter().rev();
            ahead.extend(below.map(|(path, inode)| (path, inode, Some(dir.ino()))));
        }
    }
    Ok(out.status())
}

struct Listing<'a> {
    args: &'a Ls,
    out: &'a Out,
    volume: &'a Volume,
    now: i64,
}

impl Listing<'_> {
    fn fs(&self) -> &Fs {
        self.volume.fs()
    }

    /// Prints the entries of a directory, and returns the directories among them.
    fn directory(&self, path: &[u8], dir: &Inode) -> Result<Vec<(Vec<u8>, Inode)>, Failure> {
        let mut portion = self.fs().read_dir(dir);
        for error in &portion.errors {
            self.out.fault(path, error);
        }
        portion.entries.retain(|entry| self.args.all || entry.name.first() != Some(&b'.'));
        portion.entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let mut below = Vec::new();
        let mut rows = Vec::with_capacity(portion.entries.len());
        for some in portion.entries.chunks(1024) {
            let inodes = self.inodes(some);
            for (entry, inode) in some.iter().zip(inodes) {
                let file = join(path, &entry.name);
                match inode {
                    None => rows.push(Row {
                        name: entry.name.clone(),
                        entry: entry.clone(),
                        stat: None,
                        link: None,
                    }),
                    Some(Err(error)) => self.out.fault(&file, &error),
                    Some(Ok(inode)) => {
                        rows.push(self.row(entry.name.clone(), entry.clone(), &file, &inode));
                        if inode.core().is_dir() {
                            below.push((file, inode));
                        }
                    }
                }
            }
        }
        self.print(path, &rows, true)?;
        Ok(below)
    }

    /// Returns the inodes of `entries`, if anything but their names is requested.
    fn inodes(&self, entries: &[Entry]) -> Vec<Option<xfskit::raw::vfs::Result<Inode>>> {
        let wanted = |entry: &Entry| {
            let maybe_dir = matches!(entry.file_type, FileType::Directory | FileType::Unknown);
            self.args.long || (self.args.recursive && maybe_dir)
        };
        let inos: Vec<_> = entries.iter().filter(|e| wanted(e)).map(|e| e.ino).collect();
        let mut inodes = self.fs().inodes(&inos).into_iter();
        entries.iter().map(|e| if wanted(e) { inodes.next() } else { None }).collect()
    }

    fn row(&self, name: Vec<u8>, entry: Entry, path: &[u8], inode: &Inode) -> Row {
        let stat = self.args.long.then(|| self.fs().stat(inode));
        let is_link = stat.as_ref().is_some_and(|s| s.file_type == FileType::Symlink);
        let link = if is_link { self.fs().read_link(inode).map(Some) } else { Ok(None) };
        let link = link.unwrap_or_else(|error| {
            self.out.fault(path, &error);
            None
        });
        Row { name, entry, stat, link }
    }

    fn print(&self, dir: &[u8], rows: &[Row], in_dir: bool) -> Result<(), Failure> {
        if self.out.json() {
            return rows.iter().try_for_each(|row| {
                let path = if in_dir { join(dir, &row.name) } else { dir.to_vec() };
                self.out.object(&line(&path, row))
            });
        }
        let widths = Widths::of(rows);
        if self.args.long && in_dir {
            let blocks: u64 =
                rows.iter().filter_map(|row| row.stat.as_ref()).map(|s| s.blocks).sum();
            self.out.line(format!("total {}", blocks / 2))?;
        }
        rows.iter().try_for_each(|row| self.out.line(self.text(row, &widths)))
    }

    fn text(&self, row: &Row, widths: &Widths) -> Vec<u8> {
        let mut text = String::new();
        if self.args.inode {
            // Writing to a string cannot fail.
            let _ = write!(text, "{:>1$} ", row.entry.ino.0, widths.ino);
        }
        if let Some(stat) = &row.stat {
            let Widths { nlink, uid, gid, size, .. } = *widths;
            let time = if self.args.full_time {
                show::time_full(stat.mtime.sec, stat.mtime.nsec)
            } else {
                show::time_short(stat.mtime.sec, self.now)
            };
            let _ = write!(
                text,
                "{} {:>nlink$} {:>uid$} {:>gid$} {:>size$} {time} ",
                show::mode(stat.mode),
                stat.nlink,
                stat.uid,
                stat.gid,
                size_or_device(stat),
            );
        }
        let mut text = text.into_bytes();
        text.extend(self.out.name(&row.name));
        if let Some(target) = &row.link {
            text.extend_from_slice(b" -> ");
            text.extend(self.out.name(target));
        }
        text
    }
}

fn line<'a>(path: &'a [u8], row: &'a Row) -> Line<'a> {
    let brief = Brief { ino: row.entry.ino.0, file_type: row.entry.file_type };
    Line {
        path: Named("path", path),
        name: Named("name", path.rsplit(|&b| b == b'/').next().unwrap_or(path)),
        stat: row.stat.as_ref().map(Fields::all),
        brief: row.stat.is_none().then_some(brief),
        target: row.link.as_deref().map(|link| Named("target", link)),
    }
}

/// Returns the length in bytes, or the numbers of a device.
fn size_or_device(stat: &Stat) -> String {
    match stat.rdev {
        Some((major, minor)) => format!("{major}, {minor}"),
        None => stat.size.to_string(),
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
            widen(&mut widths.ino, row.entry.ino.to_string());
            let Some(stat) = &row.stat else { continue };
            widen(&mut widths.nlink, stat.nlink.to_string());
            widen(&mut widths.uid, stat.uid.to_string());
            widen(&mut widths.gid, stat.gid.to_string());
            widen(&mut widths.size, size_or_device(stat));
        }
        widths
    }
}
