//! The parts of a disk.

use std::fmt;

use serde::{Deserialize, Serialize};
use xfskit_block::BlockDevice;
use xfskit_units::{ByteLen, ByteOffset};

use crate::lvm::{self, Group, Volume};
use crate::name::Part;
use crate::partition::{has_xfs_magic, partitions};
use crate::size;

/// One part of a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// Its name, as written after the `#`.
    pub part: Part,
    /// Where it begins, in bytes from the start of the disk.
    pub offset: ByteOffset,
    /// How long it is, in bytes.
    pub len: ByteLen,
    /// Its kind according to the table: "GPT Linux filesystem", "LVM volume".
    pub kind: String,
    /// Whether an XFS superblock's magic is at its start.
    pub xfs: bool,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.xfs { "XFS" } else { &self.kind };
        write!(f, "{}: {kind}, {}", self.part, size::format(self.len))
    }
}

/// Returns the parts of a disk: its partitions, and the logical volumes whose physical volumes are
/// the disk or partitions of it. Returns none if the disk is itself an XFS volume, or has no valid
/// table.
pub fn discover(disk: &dyn BlockDevice) -> Vec<Found> {
    if has_xfs_magic(disk, ByteOffset(0)) {
        return Vec::new();
    }
    let partitions = partitions(disk).into_iter().map(|partition| Found {
        part: Part::Partition(partition.number),
        offset: partition.offset,
        len: partition.len,
        kind: partition.kind,
        xfs: has_xfs_magic(disk, partition.offset),
    });
    let volumes = volume_groups(disk);
    let volumes =
        volumes.iter().flat_map(|group| group.volumes.iter().map(|v| found(disk, group, v)));
    partitions.chain(volumes).collect()
}

fn found(disk: &dyn BlockDevice, group: &Group, volume: &Volume) -> Found {
    let start = volume.pieces.as_ref().ok().and_then(|pieces| pieces.first());
    Found {
        part: Part::Volume { group: group.name.clone(), volume: volume.name.clone() },
        offset: start.map_or(ByteOffset(0), |(offset, _)| *offset),
        len: volume.len,
        kind: match &volume.pieces {
            Ok(_) => "LVM volume".into(),
            Err(why) => format!("LVM volume ({why})"),
        },
        xfs: start.is_some_and(|(offset, _)| has_xfs_magic(disk, *offset)),
    }
}

/// Returns the volume groups whose physical volumes are the disk or partitions of it.
pub(crate) fn volume_groups(disk: &dyn BlockDevice) -> Vec<Group> {
    let mut starts = vec![ByteOffset(0)];
    starts.extend(partitions(disk).iter().map(|partition| partition.offset));
    let volumes: Vec<_> =
        starts.into_iter().filter_map(|start| lvm::physical_volume(disk, start)).collect();
    lvm::groups(&volumes)
}
