//! Writes a tree as a tar archive: POSIX (pax) headers with all metadata.
//!
//! Long names and link targets, sizes beyond 8 GiB, owners beyond 2 million and times to the
//! nanosecond go into pax records, attributes into `SCHILY.xattr.*`, ACLs into `SCHILY.acl.*`.
//! Files with holes are written in GNU's sparse format 1.0, whose map precedes the data. GNU tar,
//! bsdtar and star read all of this. An archive cannot hold sockets.

use std::collections::HashMap;
use std::io::{self, Write};
use std::ops::Range;

use tar::{EntryType, Header};
use xfskit_units::{ByteLen, ByteOffset, PositionRange};
use xfskit_vfs::{Error, FileType, Fs, Ino, Inode, Stat, Timestamp, Walk, WalkFault, Xattr};

use crate::{Event, Report, Skipped, acl};

/// Tar pads everything to blocks of this many bytes.
const BLOCK: usize = 512;

/// The reason why an archive ended early. Damage in the volume does not end it, but is reported as
/// an event.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The output failed.
    #[error("writing the archive: {0}")]
    Write(#[from] io::Error),
}

/// An archive that is being written.
pub(crate) struct Archive<'a, W> {
    fs: &'a Fs,
    out: W,
    /// Prefix of every name. It is the same for all, because otherwise GNU tar does not notice that
    /// a file is in a directory whose times it has yet to set.
    name_prefix: &'a [u8],
    /// Names of files with several names.
    links: HashMap<Ino, Vec<u8>>,
    events: &'a (dyn Fn(Event<'_>) + Sync),
    skipped: Skipped,
    done: Report,
}

/// Left out of archives, as tar does.
const SOCKETS: &str = "sockets (tar has no place for them)";

/// Writes the tree at `inode`, whose path is `path`, as an archive to `out`. Names in the archive
/// are relative to the directory, or a file's own name. Returns what was written.
///
/// # Errors
/// `out` cannot be written. Damage in the volume goes to `events`, and the archive continues.
pub fn archive(
    fs: &Fs,
    path: &[u8],
    inode: Inode,
    out: impl Write,
    events: &(dyn Fn(Event<'_>) + Sync),
) -> Result<Report, ArchiveError> {
    let strip = if inode.core().is_dir() { path.len() } else { path.len() - own_name(path).len() };
    let name_prefix: &[u8] = if inode.core().is_dir() { b"./" } else { b"" };
    let mut archive = Archive { name_prefix, ..Archive::new(fs, out, events) };
    archive.add_tree(&mut fs.walk(path, inode, usize::MAX), strip)?;
    Ok(archive.end()?)
}

/// Escapes the name of an attribute as GNU tar does in a key, which ends at the first `=`.
fn escaped(name: &[u8]) -> Vec<u8> {
    let escape = |&byte: &u8| match byte {
        b'%' => b"%25".to_vec(),
        b'=' => b"%3D".to_vec(),
        byte => vec![byte],
    };
    name.iter().flat_map(escape).collect()
}

fn own_name(path: &[u8]) -> &[u8] {
    path.rsplit(|&b| b == b'/').next().unwrap_or(path)
}

impl<'a, W: Write> Archive<'a, W> {
    /// Begins an archive whose names are relative to a directory.
    pub(crate) fn new(fs: &'a Fs, out: W, events: &'a (dyn Fn(Event<'_>) + Sync)) -> Self {
        let (links, skipped, done) = (HashMap::new(), Skipped::default(), Report::default());
        Self { fs, out, name_prefix: b"./", links, events, skipped, done }
    }

    /// Adds the files of `walk`, without the first `strip` bytes of their paths.
    pub(crate) fn add_tree(&mut self, walk: &mut Walk<'_>, strip: usize) -> io::Result<()> {
        for step in walk {
            match step {
                Ok(entry) => {
                    (self.events)(Event::Found(entry.inode.ino()));
                    self.add(&entry.path, strip, &entry.inode)?;
                }
                Err(WalkFault { path, ino, error }) => self.fault(&path, ino, error),
            }
        }
        Ok(())
    }

    /// Ends the archive, with two blocks of zeroes.
    pub(crate) fn end(mut self) -> io::Result<Report> {
        self.out.write_all(&[0; 2 * BLOCK])?;
        self.out.flush()?;
        Ok(Report { skipped: self.skipped.counts(), ..self.done })
    }

    fn fault(&self, path: &[u8], ino: Ino, error: Error) {
        (self.events)(Event::damaged(path, ino, error));
    }

    fn add(&mut self, path: &[u8], prefix: usize, inode: &Inode) -> io::Result<()> {
        let inside = path.get(prefix..).unwrap_or_default();
        let inside = inside.strip_prefix(b"/").unwrap_or(inside);
        let mut name = self.name_prefix.to_vec();
        name.extend_from_slice(inside);
        let stat = self.fs.stat(inode);
        if stat.file_type == FileType::Socket {
            self.skipped.count_usual(SOCKETS, 1);
            (self.events)(Event::Skipped { path, what: SOCKETS });
            return Ok(());
        }
        if inode.core().is_dir() {
            if !inside.is_empty() {
                name.push(b'/');
            }
        } else if stat.nlink > 1 {
            if let Some(first) = self.links.get(&stat.ino) {
                let target = first.clone();
                self.done.files += 1;
                return self.header(EntryType::Link, &name, &target, &stat, Pax::default(), 0);
            }
            self.links.insert(stat.ino, name.clone());
        }
        let (xattrs, errors) = self.fs.xattrs(inode);
        for error in errors {
            self.fault(path, stat.ino, error);
        }
        let pax = Pax::attributes(&xattrs);
        match stat.file_type {
            FileType::Directory => {
                self.header(EntryType::Directory, &name, b"", &stat, pax, 0)?;
            }
            FileType::Symlink => match self.fs.read_link(inode) {
                Ok(target) => self.header(EntryType::Symlink, &name, &target, &stat, pax, 0)?,
                Err(error) => self.fault(path, stat.ino, error),
            },
            FileType::Regular => self.file(path, &name, inode, &stat, pax)?,
            FileType::BlockDevice => self.header(EntryType::Block, &name, b"", &stat, pax, 0)?,
            FileType::Fifo => self.header(EntryType::Fifo, &name, b"", &stat, pax, 0)?,
            _ => self.header(EntryType::Char, &name, b"", &stat, pax, 0)?,
        }
        let bytes = if stat.file_type == FileType::Regular { stat.size } else { 0 };
        self.done.files += 1;
        self.done.bytes = self.done.bytes.saturating_add(bytes);
        (self.events)(Event::Done { bytes });
        Ok(())
    }

    /// Writes a regular file. Its header has the length of the data, so zeroes replace data that
    /// cannot be read.
    fn file(
        &mut self,
        path: &[u8],
        name: &[u8],
        inode: &Inode,
        stat: &Stat,
        mut pax: Pax,
    ) -> io::Result<()> {
        let events = self.events;
        let lose = |lost| events(Event::lost(path, stat.ino, lost));
        let (map, lost) = self.fs.salvage_map(inode);
        lost.into_iter().for_each(lose);
        let ranges = map.data();
        let held: u64 = ranges.iter().map(|range| range.length().0).sum();
        if held == stat.size {
            self.header(EntryType::Regular, name, b"", stat, pax, stat.size)?;
        } else {
            let table = sparse_map(&ranges, stat.size);
            pax.text("GNU.sparse.major", "1");
            pax.text("GNU.sparse.minor", "0");
            pax.record("GNU.sparse.name", name);
            pax.text("GNU.sparse.realsize", &stat.size.to_string());
            let total = held + table.len() as u64;
            self.header(EntryType::Regular, &sparse_name(name), b"", stat, pax, total)?;
            self.out.write_all(&table)?;
        }
        let (fs, ahead) = (self.fs, self.fs.read_ahead_content(std::iter::empty()));
        for piece in map.pieces() {
            let mut at = piece.file.start;
            let write = &mut |offset: ByteOffset, bytes: &[u8]| {
                zeroes(&mut self.out, at..offset)?;
                self.out.write_all(bytes)?;
                at = offset.plus(ByteLen::of(bytes));
                Ok(())
            };
            fs.salvage_piece(inode, piece, &ahead, write, &mut |lost| lose(lost))?;
            zeroes(&mut self.out, at..piece.file.end)?;
        }
        self.pad(held)
    }

    /// Pads the last block of `len` bytes.
    fn pad(&mut self, len: u64) -> io::Result<()> {
        let over = usize::try_from(len % BLOCK as u64).unwrap_or(0);
        self.out.write_all(&[0; BLOCK][..(BLOCK - over) % BLOCK])
    }

    /// Writes the header of one entry, after a pax header with everything that does not fit into
    /// it.
    fn header(
        &mut self,
        kind: EntryType,
        name: &[u8],
        target: &[u8],
        stat: &Stat,
        mut pax: Pax,
        size: u64,
    ) -> io::Result<()> {
        let mut header = Header::new_ustar();
        header.set_entry_type(kind);
        header.set_mode(u32::from(stat.mode & 0o7777));
        fill(&mut header.as_old_mut().name, name, "path", &mut pax);
        fill(&mut header.as_old_mut().linkname, target, "linkpath", &mut pax);
        header.set_uid(pax.number("uid", stat.uid.into(), 0o7_777_777));
        header.set_gid(pax.number("gid", stat.gid.into(), 0o7_777_777));
        header.set_size(pax.number("size", size, 0o77_777_777_777));
        header.set_mtime(pax.time("mtime", stat.mtime));
        if let Some((major, minor)) = stat.rdev {
            header.set_device_major(major)?;
            header.set_device_minor(minor)?;
        }
        header.set_cksum();
        pax.time_always("atime", stat.atime);
        self.extension(&pax)?;
        self.out.write_all(header.as_bytes())
    }

    fn extension(&mut self, pax: &Pax) -> io::Result<()> {
        let mut header = Header::new_ustar();
        header.set_entry_type(EntryType::XHeader);
        header.set_mode(0o644);
        header.set_size(pax.records.len() as u64);
        fill(&mut header.as_old_mut().name, b"./PaxHeaders/entry", "path", &mut Pax::default());
        header.set_cksum();
        self.out.write_all(header.as_bytes())?;
        self.out.write_all(&pax.records)?;
        self.pad(pax.records.len() as u64)
    }
}

/// Writes zeroes in place of `range` of a file.
fn zeroes(out: &mut impl Write, range: Range<ByteOffset>) -> io::Result<()> {
    io::copy(&mut io::Read::take(io::repeat(0), range.length().0), out).map(drop)
}

/// Writes as much of `value` as fits into the field. A longer value also goes to a record in full.
fn fill(field: &mut [u8], value: &[u8], key: &str, pax: &mut Pax) {
    let fits = value.len().min(field.len());
    field[..fits].copy_from_slice(&value[..fits]);
    if fits < value.len() || !value.is_ascii() {
        pax.record(key, value);
    }
}

/// Returns GNU's name for the entry itself; the real name is in a record.
fn sparse_name(name: &[u8]) -> Vec<u8> {
    let own = own_name(name);
    let mut path = name[..name.len() - own.len()].to_vec();
    path.extend_from_slice(b"GNUSparseFile.0/");
    path.extend_from_slice(own);
    path
}

/// Returns the map of sparse format 1.0: the number of ranges, then offset and length of each, a
/// decimal number per line, padded to a block. An empty last range has the file's size.
fn sparse_map(ranges: &[std::ops::Range<ByteOffset>], size: u64) -> Vec<u8> {
    use std::fmt::Write;
    let tail = ranges.last().is_none_or(|last| last.end < ByteOffset(size));
    let mut map = format!("{}\n", ranges.len() + usize::from(tail));
    // Writing to a string cannot fail.
    for range in ranges {
        let _ = write!(map, "{}\n{}\n", range.start, range.length());
    }
    if tail {
        let _ = write!(map, "{size}\n0\n");
    }
    let mut map = map.into_bytes();
    map.resize(map.len().next_multiple_of(BLOCK), 0);
    map
}

/// The records of one pax header.
#[derive(Default)]
struct Pax {
    records: Vec<u8>,
}

impl Pax {
    /// Makes records of extended attributes and ACLs.
    fn attributes(xattrs: &[Xattr]) -> Self {
        let mut pax = Self::default();
        for Xattr { name, value } in xattrs {
            let acl = match name.as_slice() {
                b"system.posix_acl_access" => Some("SCHILY.acl.access"),
                b"system.posix_acl_default" => Some("SCHILY.acl.default"),
                _ => None,
            };
            match acl.zip(acl::Acl::from_xattr(value).map(|acl| acl.to_text())) {
                Some((key, text)) => pax.text(key, &text),
                None => pax.record_key(&[b"SCHILY.xattr.".to_vec(), escaped(name)].concat(), value),
            }
        }
        pax
    }

    fn text(&mut self, key: &str, value: &str) {
        self.record(key, value.as_bytes());
    }

    fn record(&mut self, key: &str, value: &[u8]) {
        self.record_key(key.as_bytes(), value);
    }

    /// Adds `LENGTH KEY=VALUE
    /// `, where the length includes its own digits.
    fn record_key(&mut self, key: &[u8], value: &[u8]) {
        let rest = key.len() + value.len() + 3;
        let mut len = rest + 1;
        while rest + len.to_string().len() != len {
            len = rest + len.to_string().len();
        }
        self.records.extend_from_slice(len.to_string().as_bytes());
        self.records.push(b' ');
        self.records.extend_from_slice(key);
        self.records.push(b'=');
        self.records.extend_from_slice(value);
        self.records.push(b'\n');
    }

    /// Returns `value` if the header can hold it. Otherwise returns 0 and adds a record.
    fn number(&mut self, key: &str, value: u64, max: u64) -> u64 {
        if value <= max {
            return value;
        }
        self.text(key, &value.to_string());
        0
    }

    /// Returns whole seconds for the header, and adds a record if the time has more.
    fn time(&mut self, key: &str, time: Timestamp) -> u64 {
        let in_header = u64::try_from(time.sec).ok().filter(|&sec| sec <= 0o77_777_777_777);
        if in_header.is_none() || time.nsec != 0 {
            self.time_always(key, time);
        }
        in_header.unwrap_or(0)
    }

    fn time_always(&mut self, key: &str, time: Timestamp) {
        self.text(key, &decimal(time));
    }
}

/// Formats seconds with a fraction. Before 1970 the number as a whole is negative: -0.25 is 0.75
/// after -1.
fn decimal(Timestamp { sec, nsec }: Timestamp) -> String {
    match (sec, nsec) {
        (_, 0) => sec.to_string(),
        (0.., _) => format!("{sec}.{nsec:09}"),
        _ => format!("-{}.{:09}", (sec + 1).unsigned_abs(), 1_000_000_000u32.saturating_sub(nsec)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_its_own_length() {
        let mut pax = Pax::default();
        pax.text("a", "b");
        assert_eq!(pax.records, b"6 a=b\n");
        for len in [1usize, 2, 3, 90, 91, 92, 93, 990, 991, 992, 993, 99_990] {
            let mut pax = Pax::default();
            pax.record("k", &vec![b'v'; len]);
            let text = String::from_utf8(pax.records.clone()).unwrap();
            let written: usize = text.split(' ').next().unwrap().parse().unwrap();
            assert_eq!(written, pax.records.len(), "value of {len} bytes");
        }
    }

    #[test]
    fn times_before_1970_keep_their_fraction() {
        assert_eq!(decimal(Timestamp { sec: -1, nsec: 750_000_000 }), "-0.250000000");
        assert_eq!(decimal(Timestamp { sec: -5, nsec: 0 }), "-5");
        assert_eq!(decimal(Timestamp { sec: 5, nsec: 1 }), "5.000000001");
    }

    #[test]
    fn a_sparse_map_ends_with_the_size() {
        let bytes = |range: std::ops::Range<u64>| ByteOffset(range.start)..ByteOffset(range.end);
        let map = sparse_map(&[bytes(4096..8192), bytes(65536..65540)], 1 << 20);
        assert_eq!(map.len(), BLOCK);
        assert!(map.starts_with(b"3\n4096\n4096\n65536\n4\n1048576\n0\n\0"));
        assert!(sparse_map(&[bytes(0..10)], 10).starts_with(b"1\n0\n10\n\0"));
    }
}
