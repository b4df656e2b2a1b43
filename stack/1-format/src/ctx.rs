//! What a verifier knows about the block it judges, and the tools it judges with.

use std::ops::RangeInclusive;

use xfskit_units::{AgBlock, AgNumber, Geometry, Lsn, Uuid};

use crate::corruption::{CheckId, Corruption, Expected, Location, Value, VerifyResult};

/// The surroundings of one block: the volume's geometry, where the block was read, and how far the
/// journal has come. Cheap to make, one per block.
#[derive(Clone, Copy, Debug)]
pub struct Ctx<'a> {
    /// The volume.
    pub geo: &'a Geometry,
    /// The block: `at.daddr` is what its `blkno` must say, `at.ino` its owner.
    pub at: Location,
    /// The journal's head; a block must not be newer. `None` when the head is not known.
    pub log_head: Option<Lsn>,
    /// The block's CRC was found right when it was read, and need not be summed again.
    pub crc_known: bool,
}

impl<'a> Ctx<'a> {
    /// A block at `at` of the volume `geo`, with the journal's head unknown.
    pub fn new(geo: &'a Geometry, at: Location) -> Self {
        Self { geo, at, log_head: None, crc_known: false }
    }

    /// The same block, where LSNs must not lie ahead of `head`.
    pub fn log_head(self, head: Option<Lsn>) -> Self {
        Self { log_head: head, ..self }
    }

    /// The same block, read through a cache that summed its CRC.
    pub fn crc_known(self) -> Self {
        Self { crc_known: true, ..self }
    }

    /// The same surroundings at another place.
    pub fn at(self, at: Location) -> Self {
        Self { at, ..self }
    }

    /// The same block, narrowed to its entry `index`.
    pub fn entry(self, index: usize) -> Self {
        Self { at: self.at.index(index), ..self }
    }

    /// A failed check, as an error.
    #[cold]
    pub fn corruption(
        &self,
        check: &'static str,
        expected: Expected,
        found: impl Into<Value>,
    ) -> Box<Corruption> {
        Box::new(Corruption { check: CheckId(check), at: self.at, expected, found: found.into() })
    }

    /// Fails where `found` is not `expected`.
    #[inline]
    pub fn eq<T: PartialEq + Into<Value>>(
        &self,
        check: &'static str,
        expected: T,
        found: T,
    ) -> VerifyResult {
        if expected == found {
            return Ok(());
        }
        Err(self.corruption(check, Expected::Exactly(expected.into()), found))
    }

    /// Fails where `found` is not `expected`; the report shows both in hexadecimal.
    #[inline]
    pub fn eq_hex(
        &self,
        check: &'static str,
        expected: impl Into<u64>,
        found: impl Into<u64>,
    ) -> VerifyResult {
        let (expected, found) = (expected.into(), found.into());
        if expected == found {
            return Ok(());
        }
        Err(self.corruption(check, Expected::Exactly(Value::Hex(expected)), Value::Hex(found)))
    }

    /// Fails where `found` is larger than `max`.
    #[inline]
    pub fn at_most<T: PartialOrd + Into<Value>>(
        &self,
        check: &'static str,
        max: T,
        found: T,
    ) -> VerifyResult {
        if found <= max {
            return Ok(());
        }
        Err(self.corruption(check, Expected::AtMost(max.into()), found))
    }

    /// Fails where `found` is smaller than `min`.
    #[inline]
    pub fn at_least<T: PartialOrd + Into<Value>>(
        &self,
        check: &'static str,
        min: T,
        found: T,
    ) -> VerifyResult {
        if found >= min {
            return Ok(());
        }
        Err(self.corruption(check, Expected::AtLeast(min.into()), found))
    }

    /// Fails where `found` lies outside `range`.
    #[inline]
    pub fn within<T: PartialOrd + Into<Value> + Copy>(
        &self,
        check: &'static str,
        range: RangeInclusive<T>,
        found: T,
    ) -> VerifyResult {
        if range.contains(&found) {
            return Ok(());
        }
        let (lo, hi) = range.into_inner();
        Err(self.corruption(check, Expected::Between(lo.into(), hi.into()), found))
    }

    /// Fails unless `ok`; `expected` says in words what should have been.
    #[inline]
    pub fn require(
        &self,
        check: &'static str,
        ok: bool,
        expected: &'static str,
        found: impl Into<Value>,
    ) -> VerifyResult {
        if ok {
            return Ok(());
        }
        Err(self.corruption(check, Expected::Described(expected.into()), found))
    }

    /// Fails where `block` does not carry its right CRC at byte `field`. Version 4 has none.
    #[inline]
    pub fn crc(&self, check: &'static str, block: &[u8], field: usize) -> VerifyResult {
        if !self.geo.v5() || self.crc_known || xfskit_crc::verify(block, field) {
            return Ok(());
        }
        let expected = xfskit_crc::expected(block, field).unwrap_or(0);
        let found = xfskit_crc::stored(block, field).unwrap_or(0);
        self.eq_hex(check, expected, found)
    }

    /// Fails where metadata carries another volume's UUID. Version 4 carries none.
    #[inline]
    pub fn uuid(&self, check: &'static str, found: [u8; 16]) -> VerifyResult {
        if self.geo.v5() && self.geo.meta_uuid.as_bytes() != &found {
            return self.eq(check, self.geo.meta_uuid, Uuid::from_bytes(found));
        }
        Ok(())
    }

    /// Fails where a block claims to be newer than the journal. Version 4 has no LSNs.
    #[inline]
    pub fn lsn(&self, check: &'static str, found: Lsn) -> VerifyResult {
        match self.log_head {
            Some(head) if self.geo.v5() && found.is_ahead_of(head) => {
                Err(self.corruption(check, Expected::AtMost(head.into()), found))
            }
            _ => Ok(()),
        }
    }

    /// Fails where a self-describing block says it lives elsewhere. Version 4 does not say.
    #[inline]
    pub fn blkno(&self, check: &'static str, found: u64) -> VerifyResult {
        match self.at.daddr {
            Some(daddr) if self.geo.v5() => self.eq(check, daddr.0, found),
            _ => Ok(()),
        }
    }

    /// A block too short to hold what it should.
    #[cold]
    pub fn short(&self, check: &'static str, len: usize) -> Box<Corruption> {
        self.corruption(check, Expected::Described("a longer block".into()), len)
    }

    /// Fails where `found` is not a block of group `agno` behind its headers.
    #[inline]
    pub fn agbno(&self, check: &'static str, agno: AgNumber, found: u32) -> VerifyResult {
        let valid = self.geo.valid_agbno(agno, AgBlock(found));
        self.require(check, valid, "a block of the group behind its headers", found)
    }
}
