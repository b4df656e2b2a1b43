//! Linear and RAID0: every byte lies on one member.

use xfskit_block::{Error, Result};
use xfskit_units::ByteLen;

use super::Array;
use super::io::{ReadJob, WriteJob, lost};
use crate::layout::concat::Concat;

impl Array {
    pub(super) fn read_concat(&self, map: &Concat, offset: u64, buf: &mut [u8]) -> Result<()> {
        let mut jobs = Vec::new();
        let (mut at, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let place = map.place(at);
            let len = usize::try_from(place.len).unwrap_or(usize::MAX).min(rest.len());
            let (piece, behind) = rest.split_at_mut(len);
            jobs.push(ReadJob { role: place.role, at: place.at, buf: piece });
            (at, rest) = (at + len as u64, behind);
        }
        self.announce(&jobs);
        match self.fetch(&mut jobs).first() {
            None => Ok(()),
            Some(&i) => {
                // Once more, for the member's own words.
                let ReadJob { role, at, buf } = &mut jobs[i];
                let member = &self.members[*role];
                let why = format!("member {} (role {role}) cannot be read there", member.name());
                member.read(*at, buf).unwrap_or(Ok(()))?;
                if member.is_readable(*at, buf.len() as u64) {
                    return Ok(());
                }
                Err(lost("read", offset, buf.len(), why))
            }
        }
    }

    pub(super) fn write_concat(&self, map: &Concat, offset: u64, buf: &[u8]) -> Result<()> {
        let mut jobs = Vec::new();
        let (mut at, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let place = map.place(at);
            let len = usize::try_from(place.len).unwrap_or(usize::MAX).min(rest.len());
            let (piece, behind) = rest.split_at(len);
            jobs.push(WriteJob { role: place.role, at: place.at, buf: piece });
            (at, rest) = (at + len as u64, behind);
        }
        self.store(&jobs)
    }

    /// A member may itself have several ways to give bytes: an array of arrays.
    pub(super) fn concat_alternatives(&self, map: &Concat, offset: u64, len: u64) -> usize {
        let place = map.place(offset.min(self.size_bytes() - 1));
        let member = &self.members[place.role];
        match member.device() {
            Some(device) if place.len >= len => {
                device.alternatives(member.position(place.at), ByteLen(len))
            }
            _ => 1,
        }
    }

    pub(super) fn read_concat_alternative(
        &self,
        map: &Concat,
        offset: u64,
        buf: &mut [u8],
        k: usize,
    ) -> Result<()> {
        let place = map.place(offset.min(self.size_bytes() - 1));
        let member = &self.members[place.role];
        match member.device() {
            Some(device) if place.len >= buf.len() as u64 => {
                device.read_alternative(member.position(place.at), buf, k)
            }
            _ if k == 0 => self.read_concat(map, offset, buf),
            _ => Err(Error::NoAlternative(k)),
        }
    }

    /// A member that is an array may have been lied to by one of its own.
    pub(super) fn heal_concat(
        &self,
        map: &Concat,
        offset: u64,
        good: &[u8],
        k: usize,
    ) -> Result<bool> {
        let place = map.place(offset);
        let member = &self.members[place.role];
        match member.device() {
            Some(device) if place.len >= good.len() as u64 => {
                device.heal(member.position(place.at), good, k)
            }
            _ => Ok(false),
        }
    }
}
