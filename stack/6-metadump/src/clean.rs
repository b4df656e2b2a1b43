//! Blocks without stale bytes and clear names.
//!
//! A block that is changed gets a new CRC where its CRC was right, and keeps a wrong one: damage
//! that is dumped stays damage. Blocks may hold anything. What cannot be decoded is left as it is,
//! except that with obfuscation nothing of it leaves the volume but its header.

mod attr;
mod dir;
mod inode;
mod tree;

use std::ops::Range;

use xfskit_units::Geometry;

use crate::names::Obfuscator;
use crate::runs::Kind;

/// How blocks are cleaned.
#[derive(Debug)]
pub(crate) struct Cleaner<'a> {
    pub(crate) geo: &'a Geometry,
    /// Changes names and clears values of attributes.
    pub(crate) obfuscator: Option<&'a Obfuscator>,
    /// Clears bytes that no structure uses.
    pub(crate) zero_stale: bool,
}

/// What a block turned out to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The CRC is wrong.
    pub(crate) bad_crc: bool,
    /// The block, or part of it, is not what it should be.
    pub(crate) unknown: bool,
}

/// Bytes of a block that cannot be decoded which stay with obfuscation.
const HEADER_KEPT: usize = 64;

impl Cleaner<'_> {
    /// Cleans one unit of `kind`: a block, a directory block, an inode, an extent of a symlink.
    pub(crate) fn clean(&self, unit: &mut [u8], kind: Kind) -> Seen {
        match kind {
            Kind::Header | Kind::Plain => Seen::default(),
            Kind::Tree(tree) => self.checked(unit, xfskit_format::agbtree::CRC_OFFSET, |unit| {
                tree::clean_short(self, unit, tree)
            }),
            Kind::Bmbt => self.checked(unit, xfskit_format::bmbt::CRC_OFFSET, |unit| {
                tree::clean_long(self, unit)
            }),
            Kind::Inodes => self.clean_inode(unit),
            Kind::Dir { metadata } => self.clean_dir(unit, !metadata),
            Kind::Attr { metadata } => self.clean_attr(unit, !metadata),
            Kind::Symlink { left } => self.clean_symlink(unit, left.into()),
        }
    }

    fn clean_inode(&self, unit: &mut [u8]) -> Seen {
        if !self.geo.v5() {
            return Seen { unknown: !inode::clean(self, unit), bad_crc: false };
        }
        self.checked(unit, xfskit_format::inode::CRC_OFFSET, |unit| inode::clean(self, unit))
    }

    fn clean_dir(&self, unit: &mut [u8], obfuscate: bool) -> Seen {
        let known = dir::crc_offset(unit, self.geo);
        let Some(crc) = known else { return self.undecoded(unit, obfuscate) };
        self.checked(unit, crc, |unit| dir::clean(self, unit, obfuscate))
    }

    fn clean_attr(&self, unit: &mut [u8], obfuscate: bool) -> Seen {
        match attr::Known::of(unit, self.geo) {
            Some(known) => self
                .checked(unit, attr::CRC_OFFSET, |unit| attr::clean(self, unit, known, obfuscate)),
            // Values have no header on version 4.
            None if !self.geo.v5() => {
                if self.obfuscator.is_some() && obfuscate {
                    unit.fill(0);
                }
                Seen::default()
            }
            None => self.undecoded(unit, obfuscate),
        }
    }

    fn clean_symlink(&self, unit: &mut [u8], left: usize) -> Seen {
        let v5 = self.geo.v5();
        if v5 && xfskit_format::bytes::be32(unit, 0) != Some(xfskit_format::symlink::MAGIC) {
            return self.undecoded(unit, true);
        }
        self.checked(unit, xfskit_format::symlink::CRC_OFFSET, |unit| {
            let start = xfskit_format::Layout::of(self.geo).symlink_header;
            let len = if v5 {
                xfskit_units::index(xfskit_format::bytes::be32(unit, 8).unwrap_or(0).into())
            } else {
                left
            };
            let end = start.saturating_add(len).min(unit.len());
            if let (Some(obfuscator), Some(target)) = (self.obfuscator, unit.get_mut(start..end)) {
                obfuscator.path(target);
            }
            self.zero(unit, end..usize::MAX);
            true
        })
    }

    /// Runs `clean` on a block with a CRC at byte `crc` on version 5.
    fn checked(&self, unit: &mut [u8], crc: usize, clean: impl FnOnce(&mut [u8]) -> bool) -> Seen {
        if !self.geo.v5() {
            return Seen { unknown: !clean(unit), bad_crc: false };
        }
        let sound = xfskit_crc::verify(unit, crc);
        let known = clean(unit);
        if sound {
            xfskit_crc::update(unit, crc);
        }
        Seen { bad_crc: !sound, unknown: !known }
    }

    /// Leaves a block that cannot be decoded as it is, or with obfuscation nothing but its header.
    fn undecoded(&self, unit: &mut [u8], obfuscate: bool) -> Seen {
        if self.obfuscator.is_some() && obfuscate {
            fill(unit, HEADER_KEPT..usize::MAX);
        }
        Seen { unknown: true, bad_crc: false }
    }

    /// Clears a range that no structure uses.
    fn zero(&self, unit: &mut [u8], range: Range<usize>) {
        if self.zero_stale {
            fill(unit, range);
        }
    }

    /// Clears a range that cannot be decoded and may have names.
    fn hide(&self, unit: &mut [u8], range: Range<usize>, obfuscate: bool) {
        if self.obfuscator.is_some() && obfuscate {
            fill(unit, range);
        }
    }
}

/// Clears the part of `range` that `unit` has.
fn fill(unit: &mut [u8], range: Range<usize>) {
    let end = range.end.min(unit.len());
    if let Some(part) = unit.get_mut(range.start..end.max(range.start)) {
        part.fill(0);
    }
}
