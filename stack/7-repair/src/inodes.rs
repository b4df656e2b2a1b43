//! Counters of inodes that their forks and the directories determine.

use xfskit_block::BlockDevice;
use xfskit_check::Finding;
use xfskit_format::Fork;
use xfskit_format::corruption::{Expected, Value};
use xfskit_format::inode::{CRC_OFFSET, CoreV3, InodeFlags2};
use xfskit_units::{ByteOffset, Geometry, Ino};
use zerocopy::FromBytes;

use crate::error::Result;

/// A counter of an inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counter {
    /// Directory entries that name it.
    Links,
    /// Blocks of both forks.
    Blocks,
    /// Extents of the data fork, whose map is a btree.
    Extents,
    /// Extents of the attribute fork, whose map is a btree.
    AttrExtents,
}

/// A counter that is wrong, and its right value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wrong {
    pub ino: Ino,
    pub counter: Counter,
    pub right: u64,
}

impl Wrong {
    /// Returns the counter that a finding is about; `None` if it is about something else.
    pub(crate) fn of(finding: &Finding) -> Option<Self> {
        let corruption = &finding.corruption;
        let counter = match corruption.check.0 {
            "inode.nlink" => Counter::Links,
            "inode.nblocks" => Counter::Blocks,
            "inode.nextents" => Counter::Extents,
            "inode.naextents" => Counter::AttrExtents,
            _ => return None,
        };
        match (corruption.at.ino, &corruption.expected) {
            // Without a name it is to be put somewhere, not to be counted.
            (Some(_), Expected::Exactly(Value::Number(0))) if counter == Counter::Links => None,
            (Some(ino), Expected::Exactly(Value::Number(right))) => {
                Some(Self { ino, counter, right: *right })
            }
            _ => None,
        }
    }

    /// Returns the fork whose map cannot be read while the counter is wrong, because it counts
    /// blank records.
    pub(crate) fn map(&self) -> Option<Fork> {
        match self.counter {
            Counter::Extents => Some(Fork::Data),
            Counter::AttrExtents => Some(Fork::Attr),
            Counter::Links | Counter::Blocks => None,
        }
    }

    /// Returns the name of the field.
    pub(crate) fn field(&self) -> &'static str {
        match self.counter {
            Counter::Links => "nlink",
            Counter::Blocks => "nblocks",
            Counter::Extents => "nextents",
            Counter::AttrExtents => "naextents",
        }
    }

    /// Returns the change in words.
    pub(crate) fn what(&self) -> String {
        format!("set {} of inode {} to {}", self.field(), self.ino, self.right)
    }

    /// Returns what the right value is based on.
    pub(crate) fn evidence(&self) -> &'static str {
        match self.counter {
            Counter::Links => "the entries of all directories",
            _ => "the maps of its forks",
        }
    }

    /// Writes the right value. Returns false if the inode cannot hold it.
    pub(crate) fn set(&self, dev: &dyn BlockDevice, geo: &Geometry) -> Result<bool> {
        let Some(at) = geo.ino_to_byte(self.ino) else { return Ok(false) };
        let mut bytes = vec![0; geo.inodesize()];
        dev.read_at(at, &mut bytes)?;
        if !self.put(&mut bytes) {
            return Ok(false);
        }
        xfskit_crc::update(&mut bytes, CRC_OFFSET);
        dev.write_at(ByteOffset(at.0), &bytes)?;
        Ok(true)
    }

    /// Puts the right value into the bytes of the inode. Returns false if it cannot hold it.
    pub(crate) fn put(&self, inode: &mut [u8]) -> bool {
        let Ok((v3, _)) = CoreV3::mut_from_prefix(inode) else { return false };
        let large = v3.flags2.get() & InodeFlags2::NREXT64.bits() != 0;
        let core = &mut v3.core;
        let (narrow, short) = (u32::try_from(self.right), u16::try_from(self.right));
        match (self.counter, large, narrow, short) {
            (Counter::Links, _, Ok(right), _) => core.nlinkv2 = right.into(),
            (Counter::Blocks, ..) => core.nblocks = self.right.into(),
            (Counter::Extents, true, ..) => core.big_nextents = self.right.into(),
            (Counter::Extents, false, Ok(right), _)
            | (Counter::AttrExtents, true, Ok(right), _) => {
                core.nextents = right.into();
            }
            (Counter::AttrExtents, false, _, Ok(right)) => core.naextents = right.into(),
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use xfskit_check::Severity;
    use xfskit_format::Corruption;
    use xfskit_format::corruption::{CheckId, Location};

    use super::*;

    fn finding(id: &'static str, right: u64) -> Finding {
        let corruption = Corruption {
            check: CheckId::new(id),
            at: Location::of("inode").ino(Ino(131)),
            expected: Expected::Exactly(Value::Number(right)),
            found: Value::Number(7),
        };
        Finding { severity: Severity::Error, corruption, healed: None }
    }

    #[test]
    fn a_file_without_a_name_is_not_given_zero_links() {
        assert!(Wrong::of(&finding("inode.nlink", 0)).is_none());
        assert_eq!(Wrong::of(&finding("inode.nlink", 2)).unwrap().right, 2);
        assert!(Wrong::of(&finding("inode.size", 2)).is_none());
    }

    #[test]
    fn a_counter_that_does_not_fit_is_left_as_it_is() {
        let mut inode = vec![0; 512];
        let wrong = |counter, right| Wrong { ino: Ino(131), counter, right };
        assert!(!wrong(Counter::AttrExtents, 1 << 16).put(&mut inode));
        assert!(!wrong(Counter::Links, 1 << 32).put(&mut inode));
        assert!(inode.iter().all(|byte| *byte == 0));
        assert!(wrong(Counter::Blocks, 1 << 40).put(&mut inode));
    }
}
