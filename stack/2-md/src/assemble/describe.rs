//! An assembly in words and figures: its state, its progress, and how it becomes consistent.

use std::fmt;

use super::{AssembledMember, Assembly, Freshness};
use crate::layout::Level;
use xfskit_units::MemberSector;

impl Assembly {
    /// Returns the state of the array in mdadm's words, such as `active, degraded, recovering`.
    pub fn state(&self) -> String {
        let mut words = vec![if self.is_dirty() { "active" } else { "clean" }];
        words.extend(self.is_degraded().then_some("degraded"));
        words.extend(self.is_dirty().then_some("resyncing"));
        words.extend(self.rebuilt_percent().map(|_| "recovering"));
        words.extend(self.reshaped.is_some().then_some("reshaping"));
        words.join(", ")
    }

    /// Returns the progress of members that are being rebuilt and of replacements, in percent: that
    /// of the one with the least. Returns `None` if there are none.
    pub fn rebuilt_percent(&self) -> Option<u64> {
        let has = |member: &AssembledMember| match member.freshness {
            Freshness::Rebuilding { until, .. } => Some(until),
            Freshness::Replacement { .. } => {
                Some(member.superblock.recovery_offset().unwrap_or(MemberSector::MAX))
            }
            _ => None,
        };
        let least = self.members.iter().filter_map(has).min()?;
        Some(percent(least.0, self.geometry.component_size().0))
    }

    /// Returns the part of the array that is in sync after an unclean shutdown, in percent. Returns
    /// `None` if it was shut down cleanly.
    pub fn resynced_percent(&self) -> Option<u64> {
        let all = match self.geometry.level() {
            Level::Raid10 => self.geometry.array_size(),
            _ => self.geometry.component_size(),
        };
        let from = self.superblock().resync_offset().filter(|_| self.is_dirty())?;
        Some(percent(from.0, all.0))
    }

    /// Returns how the array becomes consistent after a crash, in mdadm's word: `none`, `journal`,
    /// `ppl`, `bitmap` or `resync`.
    pub fn consistency_policy(&self) -> &'static str {
        let sb = self.superblock();
        match self.geometry.level() {
            Level::Linear | Level::Raid0 => "none",
            _ if sb.has_journal() => "journal",
            _ if sb.ppl().is_some() => "ppl",
            _ if sb.bitmap().is_some() => "bitmap",
            _ => "resync",
        }
    }
}

impl AssembledMember {
    /// Describes what the member is to the array.
    pub fn state(&self) -> String {
        match (self.freshness, self.superblock.recovery_offset()) {
            (Freshness::Replacement { .. }, Some(until)) => {
                format!("{}, {until} sectors are valid", self.freshness)
            }
            (Freshness::Rebuilding { .. }, _) if self.superblock.recovers_by_bitmap() => {
                "came back, lacks what the bitmap names".into()
            }
            _ => self.freshness.to_string(),
        }
    }
}

impl fmt::Display for Freshness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InSync { .. } => f.write_str("in sync"),
            Self::Rebuilding { until, .. } => write!(f, "rebuilding, {until} sectors are valid"),
            Self::Replacement { role } => write!(f, "to replace role {role}"),
            Self::Spare => f.write_str("spare"),
            Self::Journal => f.write_str("journal"),
            Self::Stale { events } => write!(f, "stale, at {events} events"),
            Self::Faulty => f.write_str("left out, the others say it failed"),
        }
    }
}

fn percent(part: u64, all: u64) -> u64 {
    (u128::from(part.min(all)) * 100 / u128::from(all.max(1))).try_into().unwrap_or(100)
}
