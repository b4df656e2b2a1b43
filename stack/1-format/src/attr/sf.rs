//! The short form: a few attributes inside the inode.
//!
//! ```text
//! totsize(2)  count  pad   { namelen  valuelen  flags  name  value } …
//! ```

use crate::attr::{NAMESPACE, Namespace, verify_flags};
use crate::bytes;
use crate::corruption::{Corruption, Expected, VerifyResult};
use crate::ctx::Ctx;

/// Bytes of the header.
pub const HEADER_LEN: usize = 4;

/// One attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Namespace bits.
    pub flags: u8,
    /// 1 to 255 bytes.
    pub name: &'a [u8],
    /// 0 to 255 bytes.
    pub value: &'a [u8],
}

impl Entry<'_> {
    /// Returns the namespace of the name; `None` if the flags are damaged.
    pub fn namespace(&self) -> Option<Namespace> {
        Namespace::from_flags(self.flags)
    }
}

/// A verified short form.
#[derive(Clone, Debug)]
pub struct Sf<'a> {
    /// Bytes in use, the header included.
    pub totsize: u16,
    /// Attributes.
    pub count: u8,
    list: List<'a>,
}

/// The attributes in order. The iterator ends early at one that does not fit.
#[derive(Clone, Debug)]
pub struct List<'a> {
    rest: &'a [u8],
    left: u8,
}

impl<'a> Iterator for List<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        self.left = self.left.checked_sub(1)?;
        let [namelen, valuelen, flags] = bytes::array(self.rest, 0)?;
        let (name, rest) = self.rest.get(3..)?.split_at_checked(namelen.into())?;
        let (value, rest) = rest.split_at_checked(valuelen.into())?;
        self.rest = rest;
        Some(Entry { flags, name, value })
    }
}

/// Makes the corruption of an attribute that does not fit into `rest`. If `fork` holds all of them
/// behind `totsize`, that is wrong. Else, with nothing left, there are fewer than `count`, and with
/// something left the length of a name or a value is wrong.
#[cold]
fn missing(ctx: &Ctx<'_>, sf: &Sf<'_>, fork: &[u8], rest: &[u8]) -> Box<Corruption> {
    let mut list = List { rest: fork.get(HEADER_LEN..).unwrap_or(&[]), left: sf.count };
    let sound = |entry: &Entry<'_>| !entry.name.is_empty() && entry.namespace().is_some();
    if list.by_ref().filter(sound).count() == usize::from(sf.count) {
        let end = fork.len().saturating_sub(list.rest.len());
        return ctx.corruption("attr.sf.totsize", Expected::Exactly(end.into()), sf.totsize);
    }
    match rest {
        [] => ctx.short("attr.sf.count", sf.totsize.into()),
        [namelen, rest @ ..] => {
            let room = rest.len().saturating_sub(2);
            let left = room.checked_sub(usize::from(*namelen));
            let (id, most, found) = match (left, rest) {
                (Some(left), [valuelen, ..]) => ("attr.sf.valuelen", left, *valuelen),
                _ => ("attr.sf.namelen", room, *namelen),
            };
            ctx.corruption(id, Expected::AtMost(most.into()), found)
        }
    }
}

impl<'a> Sf<'a> {
    /// Parses as much of the list as possible, without verifying it, to read the remains of a
    /// damaged one. `None` if even the header is missing.
    pub fn parse(fork: &'a [u8]) -> Option<Self> {
        let totsize = bytes::be16(fork, 0)?;
        let count = *fork.get(2)?;
        let used = fork.get(..usize::from(totsize)).unwrap_or(fork);
        let rest = used.get(HEADER_LEN..).unwrap_or(&[]);
        Some(Self { totsize, count, list: List { rest, left: count } })
    }

    /// Verifies `fork`, an inode's attribute fork in local format. Bytes after `totsize` are
    /// ignored.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn verify(fork: &'a [u8], ctx: &Ctx<'_>) -> VerifyResult<Self> {
        let Some(sf) = Self::parse(fork) else {
            return Err(ctx.short("attr.sf.totsize", fork.len()));
        };
        ctx.within("attr.sf.totsize", HEADER_LEN..=fork.len(), sf.totsize.into())?;
        let mut list = sf.list.clone();
        for i in 0..usize::from(sf.count) {
            let ctx = ctx.entry(i);
            let rest = list.rest;
            let Some(entry) = list.next() else { return Err(missing(&ctx, &sf, fork, rest)) };
            ctx.at_least("attr.sf.namelen", 1, entry.name.len())?;
            verify_flags(&ctx, "attr.sf.flags", entry.flags, NAMESPACE)?;
        }
        let end = usize::from(sf.totsize).saturating_sub(list.rest.len());
        ctx.eq("attr.sf.totsize", end, sf.totsize.into())?;
        Ok(sf)
    }

    /// Returns the attributes.
    pub fn entries(&self) -> List<'a> {
        self.list.clone()
    }
}
