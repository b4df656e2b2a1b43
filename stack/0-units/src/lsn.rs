//! Log sequence numbers.

use serde::{Deserialize, Serialize};
use std::fmt;

use crate::LogBlock;

/// A position in the journal, unique over its whole life: the cycle in the high 32 bits, the
/// 512-byte block in the low 32. LSNs order as the journal was written. 0 means "never logged". All
/// ones mean "unknown" and are stored in blocks that are never logged (remote attribute values).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
#[repr(transparent)]
pub struct Lsn(pub u64);

impl Lsn {
    /// Never logged: what mkfs writes everywhere.
    pub const NONE: Self = Self(0);
    /// `NULLCOMMITLSN`: unknown, and accepted by every verifier.
    pub const NULL: Self = Self(u64::MAX);

    /// Returns the LSN of `block` in `cycle`.
    pub const fn new(cycle: u32, block: LogBlock) -> Self {
        Self(((cycle as u64) << 32) | block.0 as u64)
    }

    /// Returns the cycle: how often the journal has been written around, from 1.
    #[allow(clippy::cast_possible_truncation)] // the high half fits by construction
    pub const fn cycle(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns the 512-byte block within the journal.
    #[allow(clippy::cast_possible_truncation)] // masked to the low half
    pub const fn block(self) -> LogBlock {
        LogBlock((self.0 & 0xffff_ffff) as u32)
    }

    /// Returns true if the value is no position: 0 or all ones.
    pub const fn is_unset(self) -> bool {
        self.0 == 0 || self.0 == u64::MAX
    }

    /// Returns true if this LSN lies ahead of the journal's `head`, which only corruption (or a
    /// journal that was reset) can bring about. 0 and all ones never do.
    pub const fn is_ahead_of(self, head: Self) -> bool {
        !self.is_unset() && self.0 > head.0
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.cycle(), self.block())
    }
}
