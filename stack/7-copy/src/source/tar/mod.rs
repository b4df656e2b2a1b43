//! Tar archives as layers of a tree.
//!
//! | module | what |
//! | --- | --- |
//! | [`input`] | the bytes of an archive in order, decompressed; storing contents for later |
//! | [`header`] | blocks of 512 bytes: v7, ustar, GNU |
//! | [`pax`] | records for values that do not fit into a header |
//! | [`sparse`] | maps of files with holes, in all four of GNU tar's forms |
//!
//! An archive is not trusted: lengths are not believed before the bytes have been read, headers
//! have bounded sizes, names cannot lead out of the tree, and everything is charged to a
//! [`Budget`](super::budget::Budget).

use std::path::Path;

use xfskit_format::timestamp::Timestamp;

use super::budget::INODE;
use super::content::{ContentLocation, Segment};
use super::draft::{Draft, DraftKind, InodeId, parts};
use super::tree::{Meta, XattrsId};
use super::xattr::Xattrs;
use super::{SourceError, SourceOptions};
use crate::acl::{Accounts, Acl};

use header::Header;
use pax::Records;

pub(super) use input::Input;

mod header;
mod input;
mod pax;
mod sparse;

/// Tar pads everything to blocks of this many bytes.
const BLOCK: usize = 512;
/// Length of the longest name or set of records of a member, in bytes: enough for a hundred
/// thousand attributes.
const EXTENSION_MAX: u64 = 64 << 20;
/// Length of the longest path of a member, in bytes: sixteen times what one call of Linux takes,
/// because trees may be deeper.
const PATH_MAX: usize = 64 << 10;
/// Bytes of attributes that one step of work copies, sorts and compares.
const XATTR_BYTES_PER_STEP: u64 = 64;

/// A problem of an archive; the reader adds where it is.
pub(super) type Problem = String;

/// One member, from its header and extensions.
struct Member {
    header: Header,
    path: Vec<u8>,
    target: Vec<u8>,
    /// Number of bytes that follow in the archive.
    stored: u64,
    meta: Meta,
    records: Records,
}

/// An archive that is being added to a draft.
struct Reader<'r, 'b, 'p> {
    draft: &'r mut Draft,
    input: Input<'b, 'p>,
    /// Number of the file that stores contents.
    store: u16,
    whiteouts: bool,
    accounts: Accounts,
    globals: Records,
    /// First byte of the current member, with its extensions.
    at: u64,
}

/// Adds the archive to the draft.
pub(super) fn read(
    draft: &mut Draft,
    input: Input<'_, '_>,
    options: &SourceOptions,
) -> Result<(), SourceError> {
    let store = draft.stores.next_file()?;
    let globals = Records::default();
    let accounts = Accounts::of(options.accounts.as_deref().unwrap_or(Path::new("/etc")));
    let whiteouts = options.whiteouts;
    let mut reader = Reader { draft, input, store, whiteouts, accounts, globals, at: 0 };
    while let Some(member) = reader.next()? {
        reader.add(member)?;
        reader.input.budget.progress.names += 1;
    }
    reader.input.drain()?;
    let Reader { draft, input, .. } = reader;
    input.finish(&mut draft.stores)
}

impl Reader<'_, '_, '_> {
    fn wrong(&self, what: impl Into<String>) -> SourceError {
        self.input.wrong(self.at, what)
    }

    /// Returns the next member; `None` at the end of the archive.
    fn next(&mut self) -> Result<Option<Member>, SourceError> {
        self.at = self.input.at();
        self.input.member.clear();
        let (mut name, mut link, mut records) = (None, None, None);
        loop {
            let block = self.input.block()?;
            if block.iter().all(|&b| b == 0) {
                return match (name, link, records) {
                    (None, None, None) => Ok(None),
                    _ => Err(self.wrong("a header for a member that does not follow")),
                };
            }
            let first = self.input.at() == BLOCK as u64;
            let header = Header::parse(&block).map_err(|what| {
                if first { self.input.wrong(0, input::NO_ARCHIVE) } else { self.wrong(what) }
            })?;
            match header.kind {
                b'L' => name = Some(self.extension(&header)?),
                b'K' => link = Some(self.extension(&header)?),
                b'x' | b'X' => {
                    let bytes = self.extension(&header)?;
                    let mut own = self.globals.of_member();
                    own.read(&bytes).map_err(|what| self.wrong(what))?;
                    records = Some(own);
                }
                b'g' => {
                    let bytes = self.extension(&header)?;
                    let mut globals = std::mem::take(&mut self.globals);
                    globals.read_global(&bytes).map_err(|what| self.wrong(what))?;
                    self.globals = globals;
                    self.input.keep_memory(bytes.len() as u64)?;
                }
                // A label of the whole archive.
                b'V' => self.input.skip_padded(header.size)?,
                b'M' | b'N' => return Err(self.wrong("multi-volume archives are not supported")),
                _ => {
                    let records = records.unwrap_or_else(|| self.globals.of_member());
                    return self.member(header, name, link, records).map(Some);
                }
            }
        }
    }

    /// Returns the content of a header that extends another one.
    fn extension(&mut self, header: &Header) -> Result<Vec<u8>, SourceError> {
        if header.size > EXTENSION_MAX {
            let what = format!("an extended header of {} bytes", header.size);
            return Err(self.wrong(what));
        }
        let mut bytes = self.input.padded(header.size)?;
        // GNU's names end with a zero.
        if matches!(header.kind, b'L' | b'K') {
            let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
            bytes.truncate(end);
        }
        Ok(bytes)
    }

    /// Combines a header and its extensions.
    fn member(
        &self,
        header: Header,
        name: Option<Vec<u8>>,
        link: Option<Vec<u8>>,
        records: Records,
    ) -> Result<Member, SourceError> {
        let wrong = |what: Problem| self.wrong(what);
        let path = records.get(b"GNU.sparse.name").or(records.get(b"path")).map(<[u8]>::to_vec);
        let target = records.get(b"linkpath").map(<[u8]>::to_vec);
        let id = |key: &[u8], header: Option<u32>, what: &str| match records.number(key)? {
            Some(id) => u32::try_from(id).map_err(|_| format!("{what} {id} is too large")),
            None => header.ok_or_else(|| format!("no {what} in the header")),
        };
        let mtime = match records.time(b"mtime").map_err(wrong)? {
            Some(time) => time,
            None => Timestamp { sec: header.mtime, nsec: 0 },
        };
        let meta = Meta {
            perm: header.perm,
            uid: id(b"uid", header.uid, "owner").map_err(wrong)?,
            gid: id(b"gid", header.gid, "group").map_err(wrong)?,
            mtime,
            atime: records.time(b"atime").map_err(wrong)?.unwrap_or(mtime),
        };
        Ok(Member {
            path: path.or(name).unwrap_or_else(|| header.path.clone()),
            target: target.or(link).unwrap_or_else(|| header.target.clone()),
            stored: records.number(b"size").map_err(wrong)?.unwrap_or(header.size),
            meta,
            records,
            header,
        })
    }

    /// Adds the path of the current member to an error.
    fn placed(&self, error: SourceError) -> SourceError {
        match error {
            SourceError::Unfit { what, .. } => {
                self.wrong(format!("{}: {what}", String::from_utf8_lossy(&self.input.member)))
            }
            SourceError::Limit { limit, .. } => self.input.exceeded(limit),
            error => error,
        }
    }

    fn add(&mut self, mut member: Member) -> Result<(), SourceError> {
        let names = self.names(&member.path)?;
        self.input.member = names.join(&b'/');
        self.input.work(names.len() as u64)?;
        let is_dir = member.header.is_dir(&member.path);
        let xattrs = self.attributes(&mut member)?;
        let Some((name, above)) = names.split_last() else {
            if !is_dir {
                return Err(self.wrong("a member without a name"));
            }
            self.input.skip_padded(member.data())?;
            self.draft.set(Draft::ROOT, member.meta, xattrs);
            return Ok(());
        };
        let dir = self.draft.dir_at(above, member.meta.mtime, self.input.budget);
        let Some(dir) = dir.map_err(|error| self.placed(error))? else {
            let what =
                "is below a name that is not a directory, or behind too many symbolic links".into();
            return Err(self.placed(SourceError::Unfit { path: Vec::new(), what }));
        };
        if self.draft.take_whiteout(dir, name, self.whiteouts) {
            return self.input.skip_padded(member.data());
        }
        self.input.keep_memory(INODE + (name.len() + member.target.len()) as u64)?;
        if member.header.kind == b'1' {
            return self.link(dir, name, &member.target);
        }
        let what = self.what(&mut member, is_dir, (dir, name))?;
        let put = self.draft.put(dir, name, member.meta, xattrs, what);
        put.map(|_| ()).map_err(|error| self.placed(error))
    }

    /// Adds the attributes of a member, and sets the permissions of its ACL.
    fn attributes(&mut self, member: &mut Member) -> Result<XattrsId, SourceError> {
        self.input.work(member.records.xattr_bytes() / XATTR_BYTES_PER_STEP)?;
        let found = found_xattrs(member, &self.accounts).map_err(|e| self.placed(e))?;
        let foreign = found.foreign();
        let (xattrs, perm) = found.finish(member.header.perm);
        member.meta.perm = perm;
        self.draft.notes.foreign_xattrs += foreign;
        let (id, bytes) = self.draft.keep_xattrs(&member.path, xattrs)?;
        self.input.keep_memory(bytes)?;
        Ok(id)
    }

    /// Splits `path` into names; none lead up.
    fn names(&self, path: &[u8]) -> Result<Vec<Vec<u8>>, SourceError> {
        if path.len() > PATH_MAX {
            let what = format!("a path of {} bytes; at most {PATH_MAX} are read", path.len());
            return Err(self.wrong(what));
        }
        let names: Vec<Vec<u8>> = parts(path).map(<[u8]>::to_vec).collect();
        if names.iter().any(|name| name == b"..") {
            let what = format!("{}: leads out of the tree", String::from_utf8_lossy(path));
            return Err(self.wrong(what));
        }
        Ok(names)
    }

    fn link(&mut self, dir: InodeId, name: &[u8], target: &[u8]) -> Result<(), SourceError> {
        let names = self.names(target)?;
        let found = self.draft.find(&names, self.input.budget).map_err(|e| self.placed(e))?;
        let inode = found.filter(|&inode| !self.draft.is_dir(inode));
        let Some(inode) = inode else {
            let what = format!(
                "{}: a link to {}, which no earlier member has",
                String::from_utf8_lossy(name),
                String::from_utf8_lossy(target)
            );
            return Err(self.wrong(what));
        };
        self.draft.link(dir, name, inode)
    }

    /// Returns the type of the member, with its content.
    fn what(
        &mut self,
        member: &mut Member,
        is_dir: bool,
        to: (InodeId, &[u8]),
    ) -> Result<DraftKind, SourceError> {
        if is_dir {
            self.input.skip_padded(member.data())?;
            return Ok(DraftKind::Dir);
        }
        let (major, minor) = (member.header.major, member.header.minor);
        Ok(match member.header.kind {
            b'2' => DraftKind::Symlink(member.target.as_slice().into()),
            b'3' => DraftKind::Char { major, minor },
            b'4' => DraftKind::Block { major, minor },
            b'6' => DraftKind::Fifo,
            b'0' | b'7' | 0 | b'S' => self.file(member, to)?,
            kind => {
                let what = format!("a member of type {:?}, which is not known", char::from(kind));
                return Err(self.wrong(what));
            }
        })
    }

    fn file(&mut self, member: &Member, to: (InodeId, &[u8])) -> Result<DraftKind, SourceError> {
        let map = sparse::map(&mut self.input, member).map_err(|error| match error {
            sparse::Error::Problem(what) => self.wrong(what),
            sparse::Error::Input(error) => error,
        })?;
        let (size, stored, segments) = match map {
            Some(map) => (map.size, map.stored, map.segments),
            None => (member.stored, member.stored, Segment::whole(member.stored)),
        };
        if i64::try_from(size).is_err() {
            return Err(self.wrong(format!("a file of {size} bytes")));
        }
        self.input.keep_memory((segments.len() * size_of::<Segment>()) as u64)?;
        self.hold(stored, to)?;
        let (file, at) = (self.store, self.input.keep(stored)?);
        let place = match *segments {
            [] => ContentLocation::Hole,
            [all] if all.len == size => ContentLocation::Range { file, at },
            _ => ContentLocation::Pieces { file, at, segments: segments.into() },
        };
        Ok(DraftKind::File { size, content: self.draft.add_location(&self.input.member, place)? })
    }

    /// Takes content for the file `name` in `dir`. If it exceeds the limit, content that was
    /// replaced is given back first.
    fn hold(&mut self, bytes: u64, (dir, name): (InodeId, &[u8])) -> Result<(), SourceError> {
        if !self.input.budget.fits(bytes) {
            self.draft.remove(dir, name);
            let (content, inodes) = self.draft.content();
            self.input.work(inodes)?;
            self.input.budget.recount(content);
        }
        self.input.budget.hold(bytes).map_err(|limit| self.input.exceeded(limit))
    }
}

impl Member {
    /// Returns the bytes of data that follow: those of files, and GNU tar's list of a directory.
    fn data(&self) -> u64 {
        match self.header.kind {
            b'1'..=b'6' => 0,
            _ => self.stored,
        }
    }
}

/// Returns the attributes of a member.
fn found_xattrs(member: &Member, accounts: &Accounts) -> Result<Xattrs, SourceError> {
    let mut xattrs = Xattrs::default();
    let (records, path) = (&member.records, &member.path);
    for (name, value) in records.xattrs() {
        xattrs.add(path, &name, &value)?;
    }
    for (key, access) in [(pax::ACL_ACCESS, true), (pax::ACL_DEFAULT, false)] {
        if let Some(text) = records.get(key).filter(|text| !text.is_empty()) {
            let acl = Acl::from_text(text, accounts)
                .map_err(|what| SourceError::Unfit { path: path.clone(), what })?;
            xattrs.add_acl(path, access, &acl)?;
        }
    }
    Ok(xattrs)
}
