//! Arrays without superblocks: the caller gives the geometry (mdadm: `--build`).

use std::sync::Arc;

use xfskit_units::Sectors;

use super::{Error, Member};
use crate::array::Array;
use crate::geometry::{Geometry, GeometryError, Slot};
use crate::layout::{Layout, Level};

/// The geometry of an array whose members have no superblocks, or are to be read without them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ManualGeometry {
    /// Level and layout.
    pub layout: Layout,
    /// Sectors per chunk; 0 where the level has none.
    pub chunk: Sectors,
    /// Where the data begin on every member.
    pub offset: Sectors,
    /// Sectors used of each member; `None` for the size of the smallest.
    pub size: Option<Sectors>,
}

impl ManualGeometry {
    /// Opens the array of `members`, in role order, `None` for missing ones.
    ///
    /// # Errors
    /// Returns an error if the geometry is impossible, or the array cannot run.
    pub fn open(&self, members: &[Option<Member>]) -> Result<Array, Error> {
        let data_size =
            |member: &Member| Sectors((member.device.size().0 / 512).saturating_sub(self.offset.0));
        let data_sizes: Vec<Option<Sectors>> =
            members.iter().map(|member| member.as_ref().map(data_size)).collect();
        let smallest = data_sizes.iter().flatten().min().copied().ok_or(Error::Nothing)?;
        let size = self.size.unwrap_or(smallest);
        let all: Vec<Sectors> =
            data_sizes.iter().map(|data_size| data_size.unwrap_or(Sectors(0))).collect();
        let sizes = match self.layout.level() {
            Level::Linear | Level::Raid0 => all.as_slice(),
            _ => &[],
        };
        let raid_disks = u32::try_from(members.len()).unwrap_or(u32::MAX);
        let geometry = Geometry::new(self.layout, self.chunk, raid_disks, size, sizes);
        let named = |source: GeometryError| Error::Geometry { name: "the target".into(), source };
        let slot = |(member, data_size): (&Option<Member>, &Sectors)| match member {
            None => Slot::missing(),
            Some(Member { name, device }) => {
                Slot::new(Arc::clone(device), name.as_str(), self.offset, *data_size)
            }
        };
        let slots = members.iter().zip(&all).map(slot).collect();
        Ok(Array::open(geometry.map_err(named)?, slots)?)
    }
}
