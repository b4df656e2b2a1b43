//! The context of a verifier, and the checks that verifiers share.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use xfskit_units::{AgBlock, AgNumber, Geometry, Lsn, Uuid};

use crate::corruption::{CheckId, Corruption, Expected, Location, Value, VerifyResult};

/// The context of one block: the volume's geometry, the block's address, and the journal's head.
/// Cheap to make, one per block.
#[derive(Clone, Copy, Debug)]
pub struct Ctx<'a> {
    /// Geometry of the volume.
    pub geo: &'a Geometry,
    /// Location of the block: `at.daddr` must equal its `blkno`, `at.ino` its owner.
    pub at: Location,
    /// The journal's head. No block may be newer. `None` if the head is not known.
    pub log_head: Option<Lsn>,
    /// True if the block's CRC was verified when it was read, and need not be computed again.
    pub crc_known: bool,
}

impl<'a> Ctx<'a> {
    /// Makes the context of a block at `at` of the volume `geo`, with the journal's head unknown.
    pub fn new(geo: &'a Geometry, at: Location) -> Self {
        Self { geo, at, log_head: None, crc_known: false }
    }

    /// Adds the journal's head, which no LSN may exceed.
    pub fn log_head(self, head: Option<Lsn>) -> Self {
        Self { log_head: head, ..self }
    }

    /// Marks the block's CRC as verified, because it was read through a cache.
    pub fn crc_known(self) -> Self {
        Self { crc_known: true, ..self }
    }

    /// Returns this context at another location.
    pub fn at(self, at: Location) -> Self {
        Self { at, ..self }
    }

    /// Returns this context, narrowed to entry `index` of the block.
    pub fn entry(self, index: usize) -> Self {
        Self { at: self.at.index(index), ..self }
    }

    /// Makes the corruption of a failed check.
    #[cold]
    pub fn corruption(
        &self,
        check: &'static str,
        expected: Expected,
        found: impl Into<Value>,
    ) -> Box<Corruption> {
        Box::new(Corruption {
            check: CheckId::new(check),
            at: self.at,
            expected,
            found: found.into(),
        })
    }

    /// Returns an error whose report is `sentence` alone; `expected` goes into the data beside it.
    ///
    /// # Errors
    /// Always.
    #[cold]
    pub fn fail(
        &self,
        check: &'static str,
        expected: &'static str,
        sentence: impl Into<Cow<'static, str>>,
    ) -> VerifyResult {
        let found = Value::Sentence(sentence.into());
        Err(self.corruption(check, Expected::Described(expected.into()), found))
    }

    /// Fails if `found` is not `expected`.
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

    /// Fails if `found` is not `expected`; the report shows both in hexadecimal.
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

    /// Fails if `found` is larger than `max`.
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

    /// Fails if `found` is smaller than `min`.
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

    /// Fails if `found` lies outside `range`.
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

    /// Fails unless `ok`. `expected` describes the correct value in words.
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

    /// Fails if `block` does not carry its correct CRC at byte `field`. Version 4 has none.
    #[inline]
    pub fn crc(&self, check: &'static str, block: &[u8], field: usize) -> VerifyResult {
        if !self.geo.v5() || self.crc_known || xfskit_crc::verify(block, field) {
            return Ok(());
        }
        let expected = xfskit_crc::expected(block, field).unwrap_or(0);
        let found = xfskit_crc::stored(block, field).unwrap_or(0);
        self.eq_hex(check, expected, found)
    }

    /// Fails if metadata carries another volume's UUID. Version 4 carries none.
    #[inline]
    pub fn uuid(&self, check: &'static str, found: [u8; 16]) -> VerifyResult {
        if self.geo.v5() && self.geo.meta_uuid.as_bytes() != &found {
            return self.eq(check, self.geo.meta_uuid, Uuid::from_bytes(found));
        }
        Ok(())
    }

    /// Fails if a block's LSN lies ahead of the journal's head. Version 4 has no LSNs.
    #[inline]
    pub fn lsn(&self, check: &'static str, found: Lsn) -> VerifyResult {
        match self.log_head {
            Some(head) if self.geo.v5() && found.is_ahead_of(head) => {
                Err(self.corruption(check, Expected::AtMost(head.into()), found))
            }
            _ => Ok(()),
        }
    }

    /// Fails if a self-describing block carries another address. Version 4 carries none.
    #[inline]
    pub fn blkno(&self, check: &'static str, found: u64) -> VerifyResult {
        match self.at.daddr {
            Some(daddr) if self.geo.v5() => self.eq(check, daddr.0, found),
            _ => Ok(()),
        }
    }

    /// Makes the corruption of a block that is too short.
    #[cold]
    pub fn short(&self, check: &'static str, len: usize) -> Box<Corruption> {
        self.corruption(check, Expected::Described("a longer block".into()), len)
    }

    /// Fails if `found` is not a block of group `agno` after its headers.
    #[inline]
    pub fn agbno(&self, check: &'static str, agno: AgNumber, found: u32) -> VerifyResult {
        let valid = self.geo.valid_agbno(agno, AgBlock(found));
        self.require(check, valid, "a block of the group after its headers", found)
    }
}
