//! The short form: a small directory inside its inode.
//!
//! ```text
//! count  i8count  parent(4 or 8)   { namelen  offset(2)  name  filetype  inumber(4 or 8) } …
//! ```
//!
//! Inode numbers take 4 bytes unless one of them, the parent's included, needs more. Then all take
//! 8, and `i8count` is the number of those that need them. "." and ".." are not stored. `offset` is
//! the position that the entry would have in a data block.

use xfskit_units::{Geometry, Ino};

use crate::bytes;
use crate::corruption::VerifyResult;
use crate::ctx::Ctx;
use crate::dir::{self, Entry, FTYPE_END};
use crate::layout::Layout;

/// Inode numbers have this many bits here; higher bits are ignored.
const INO_MASK: u64 = (1 << 56) - 1;

/// A verified short form.
#[derive(Clone, Debug)]
pub struct Sf<'a> {
    /// Entries.
    pub count: u8,
    /// Inode numbers, the parent's included, above 2^32 - 1.
    pub i8count: u8,
    /// The parent directory.
    pub parent: Ino,
    list: List<'a>,
}

/// The entries of a short form in order. The iterator ends early at one that does not fit.
#[derive(Clone, Debug)]
pub struct List<'a> {
    rest: &'a [u8],
    left: u8,
    wide: bool,
    ftype: bool,
}

fn ino(bytes: &[u8], offset: usize, wide: bool) -> Option<Ino> {
    if wide {
        return bytes::be64(bytes, offset).map(|ino| Ino(ino & INO_MASK));
    }
    bytes::be32(bytes, offset).map(|ino| Ino(ino.into()))
}

const fn ino_len(wide: bool) -> usize {
    if wide { 8 } else { 4 }
}

impl<'a> Iterator for List<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        self.left = self.left.checked_sub(1)?;
        let namelen = usize::from(*self.rest.first()?);
        let offset = bytes::be16(self.rest, 1)?;
        let name = bytes::slice(self.rest, 3, namelen)?;
        let mut at = namelen.saturating_add(3);
        let filetype = if self.ftype { Some(*self.rest.get(at)?) } else { None };
        at = at.saturating_add(usize::from(self.ftype));
        let inumber = ino(self.rest, at, self.wide)?;
        self.rest = self.rest.get(at.saturating_add(ino_len(self.wide))..)?;
        Some(Entry { inumber, name, filetype, offset })
    }
}

impl<'a> Sf<'a> {
    /// Parses as much of the directory as possible, without verifying it, to read the remains of a
    /// damaged one. `None` if even the header is missing.
    pub fn parse(bytes: &'a [u8], geo: &Geometry) -> Option<Self> {
        let (&count, &i8count) = (bytes.first()?, bytes.get(1)?);
        let wide = i8count != 0;
        let parent = ino(bytes, 2, wide)?;
        let rest = bytes.get(ino_len(wide).saturating_add(2)..)?;
        let list = List { rest, left: count, wide, ftype: geo.features.ftype() };
        Some(Self { count, i8count, parent, list })
    }

    /// Verifies `bytes`, the `di_size` bytes of an inode's data fork, as a short form directory.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(bytes: &'a [u8], ctx: &Ctx<'_>) -> VerifyResult<Self> {
        let Some(sf) = Self::parse(bytes, ctx.geo) else {
            return Err(ctx.short("dir.sf.size", bytes.len()));
        };
        sf.check(bytes, ctx)?;
        Ok(sf)
    }

    /// Returns what [`verify`](Self::verify) returns, with another `count`: the number of entries
    /// that fill `bytes` exactly. `None` if they do not, or if more than the count is wrong.
    pub fn recounted(bytes: &'a [u8], ctx: &Ctx<'_>) -> Option<Self> {
        let mut sf = Self::parse(bytes, ctx.geo)?;
        let mut list = List { left: u8::MAX, ..sf.list.clone() };
        let mut count: u8 = 0;
        while !list.rest.is_empty() {
            let entry = list.next()?;
            if entry.name.iter().any(|byte| matches!(byte, 0 | b'/')) {
                return None;
            }
            count = count.checked_add(1)?;
        }
        (sf.count, sf.list.left) = (count, count);
        sf.check(bytes, ctx).ok()?;
        Some(sf)
    }

    /// Verifies what was parsed of `bytes`.
    fn check(&self, bytes: &[u8], ctx: &Ctx<'_>) -> VerifyResult {
        let (sf, geo) = (self, ctx.geo);
        let inos = geo.valid_inos();
        let parent_ok = inos.contains(sf.parent);
        ctx.require("dir.sf.parent", parent_ok, "an inode number", sf.parent)?;
        let mut list = sf.list.clone();
        let mut end = Layout::of(geo).dir_first_entry;
        let mut wide = u32::from(sf.parent.0 > u64::from(u32::MAX));
        for i in 0..usize::from(sf.count) {
            let ctx = ctx.entry(i);
            let Some(entry) = list.next() else {
                return Err(ctx.short("dir.sf.count", bytes.len()));
            };
            ctx.at_least("dir.sf.namelen", 1, entry.name.len())?;
            ctx.at_least("dir.sf.offset", end, entry.offset.into())?;
            let known = inos.contains(entry.inumber);
            ctx.require("dir.sf.inumber", known, "an inode number", entry.inumber)?;
            if let Some(filetype) = entry.filetype {
                ctx.at_most("dir.sf.filetype", FTYPE_END.saturating_sub(1), filetype)?;
            }
            wide = wide.saturating_add(u32::from(entry.inumber.0 > u64::from(u32::MAX)));
            end = usize::from(entry.offset).saturating_add(dir::entry_len(geo, entry.name.len()));
        }
        ctx.eq("dir.sf.size", bytes.len().saturating_sub(list.rest.len()), bytes.len())?;
        ctx.eq("dir.sf.i8count", wide, sf.i8count.into())?;
        // As a block, the same directory needs a hash entry per name, ".", "..", and a tail.
        let tail = usize::from(sf.count).saturating_add(3).saturating_mul(8);
        ctx.at_most("dir.sf.offset", geo.dirblksize(), end.saturating_add(tail))
    }

    /// Returns the entries.
    pub fn entries(&self) -> List<'a> {
        self.list.clone()
    }
}

/// Builds an empty directory below `parent`: the literal area of its inode, `di_size` bytes.
pub fn empty(parent: Ino) -> Vec<u8> {
    match u32::try_from(parent.0) {
        Ok(narrow) => [&[0, 0], &narrow.to_be_bytes()[..]].concat(),
        Err(_) => [&[0, 1], &parent.0.to_be_bytes()[..]].concat(),
    }
}
