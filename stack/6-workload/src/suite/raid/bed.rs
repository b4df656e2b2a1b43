//! Members, and arrays of them.
//!
//! Members hold noise: what is read is timed, not judged, so any level and any chunk may be tried on the same
//! ones. Whether what arrays compute is right is the business of tests.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use xfskit_block::{BlockDevice, LimitedDevice, MemDevice};
use xfskit_md::array::{Array, Options, IoStats};
use xfskit_md::{Geometry, Layout, Level, Slot};
use xfskit_units::{ByteLen, ByteOffset, MemberSector, Sectors};

use super::member::{Member, Reads};
use crate::image::Image;
use crate::random::Random;

/// Bytes that members are filled with at once.
const FILL: usize = 1 << 20;

/// What members are.
#[derive(Clone, Debug)]
pub enum Members {
    /// Memory of this process.
    Memory,
    /// Files in this directory, read through the kernel's cache, which forgets them before each point.
    Files(PathBuf),
    /// Memory behind a disk's bandwidth (bytes per second) and latency.
    Simulated {
        /// Bytes per second of each.
        speed: u64,
        /// Until the first byte of a read.
        latency: Duration,
    },
}

impl Members {
    /// As rows name them.
    pub fn on(&self) -> String {
        match self {
            Self::Memory => "members in memory".into(),
            Self::Files(dir) => format!("member files in {}", dir.display()),
            Self::Simulated { speed, latency } => {
                format!("simulated members, {} MB/s, {} µs", speed / 1_000_000, latency.as_micros())
            }
        }
    }
}

/// An array's shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Level of each leg.
    pub level: Level,
    /// Arrays of that level, striped; 1 where there is but one.
    pub legs: u32,
    /// All members.
    pub members: u32,
    /// Bytes of a chunk.
    pub chunk: u64,
}

impl Plan {
    /// As people say it: RAID6, RAID50.
    pub fn name(&self) -> String {
        let zero = if self.legs > 1 { "0" } else { "" };
        format!("{}{zero}", self.level.name().to_uppercase())
    }

    fn in_leg(&self) -> u32 {
        self.members / self.legs
    }

    /// Members that may be missing, no two more than needed in the same leg.
    pub(super) fn tolerates(&self) -> usize {
        let layout = Layout::default_of(self.level);
        usize::try_from(layout.tolerates(self.in_leg()) * self.legs).unwrap_or(0)
    }

    /// Roles that fail first, second, …: far from each other, in legs by turns.
    fn failing(&self, missing: usize) -> Vec<usize> {
        let leg = usize::try_from(self.in_leg()).unwrap_or(1);
        let legs = usize::try_from(self.legs).unwrap_or(1);
        let role = |n: usize| n % legs * leg + (leg / 4 + n / legs * leg / 3) % leg;
        (0..missing).map(role).collect()
    }

    fn geometry(&self, size: Sectors) -> io::Result<Geometry> {
        let sizes = vec![size; usize::try_from(self.in_leg()).unwrap_or(0)];
        let chunk = Sectors(self.chunk / 512);
        Geometry::new(Layout::default_of(self.level), chunk, self.in_leg(), size, &sizes)
            .map_err(io::Error::other)
    }
}

/// The members. Files go away with them.
#[derive(Debug)]
pub(super) struct Bed {
    members: Vec<Arc<Member>>,
    size: Sectors,
    files: Vec<Image>,
    pub(super) on: String,
}

impl Bed {
    /// So many members with so many bytes of noise each.
    pub(super) fn new(kind: &Members, members: u32, size: u64, seed: u64) -> io::Result<Self> {
        let mut bed = Self {
            members: Vec::new(),
            size: Sectors(size / 512),
            files: Vec::new(),
            on: kind.on(),
        };
        for n in 0..members {
            let device = bed.device(kind, ByteLen(size))?;
            fill(&*device, size, &mut Random::of(seed, n.into()))?;
            let device = match kind {
                Members::Simulated { speed, latency } => {
                    Arc::new(LimitedDevice::new(device, *speed, *latency)) as Arc<dyn BlockDevice>
                }
                Members::Memory | Members::Files(_) => device,
            };
            bed.members.push(Arc::new(Member::new(device)));
        }
        Ok(bed)
    }

    fn device(&mut self, kind: &Members, size: ByteLen) -> io::Result<Arc<dyn BlockDevice>> {
        let Members::Files(dir) = kind else { return Ok(Arc::new(MemDevice::new(size))) };
        let file = Image::new(dir, size)?;
        let device = Arc::new(file.open()?);
        self.files.push(file);
        Ok(device)
    }

    /// The kernel forgets what it has of member files.
    pub(super) fn drop_caches(&self) -> io::Result<()> {
        for image in &self.files {
            let file = std::fs::File::open(image.path())?;
            file.sync_data()?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
        Ok(())
    }

    /// What each member did so far.
    pub(super) fn reads(&self) -> Vec<Reads> {
        self.members.iter().map(|member| member.reads()).collect()
    }

    /// The members as an array, without those that fail first; with `rebuilding`, these are there and new.
    pub(super) fn array(
        &self,
        plan: &Plan,
        missing: usize,
        rebuilding: bool,
        stripe_cache: ByteLen,
    ) -> io::Result<Whole> {
        let geometry = plan.geometry(self.size)?;
        let failing = plan.failing(missing);
        let slot = |(role, member): (usize, &Arc<Member>)| {
            let device = Arc::clone(member) as Arc<dyn BlockDevice>;
            let slot = Slot::new(device, format!("m{role}"), Sectors(0), self.size);
            match (failing.contains(&role), rebuilding) {
                (false, _) => slot,
                (true, false) => Slot::missing(),
                (true, true) => Slot { readable_until: MemberSector(0), ..slot },
            }
        };
        let mut slots: Vec<Slot> = self.members.iter().enumerate().map(slot).collect();
        let options = Options {
            stripe_cache: ByteLen(stripe_cache.0 / u64::from(plan.legs)),
            ..Options::default()
        };
        let mut legs = Vec::new();
        while !slots.is_empty() {
            let rest = slots.split_off(slots.len().min(failing_leg(plan)));
            let leg = std::mem::replace(&mut slots, rest);
            let array =
                Array::open_with(geometry.clone(), leg, options).map_err(io::Error::other)?;
            legs.push(Arc::new(array));
        }
        let data = u64::from(geometry.data_disks().max(1));
        let device = if let [one] = legs.as_slice() {
            Arc::clone(one) as Arc<dyn BlockDevice>
        } else {
            striped(&legs, plan.chunk * data)?
        };
        Ok(Whole { device, legs, row: plan.chunk * data * u64::from(plan.legs) })
    }
}

/// Members in a leg.
fn failing_leg(plan: &Plan) -> usize {
    usize::try_from(plan.in_leg()).unwrap_or(usize::MAX).max(1)
}

/// Legs striped; a stripe is a row of a leg, so that legs see whole rows.
fn striped(legs: &[Arc<Array>], row: u64) -> io::Result<Arc<dyn BlockDevice>> {
    let sizes: Vec<Sectors> = legs.iter().map(|leg| Sectors(leg.size().0 / 512)).collect();
    let n = u32::try_from(legs.len()).unwrap_or(u32::MAX);
    let layout = Layout::default_of(Level::Raid0);
    let geometry = Geometry::new(layout, Sectors(row / 512), n, Sectors(0), &sizes)
        .map_err(io::Error::other)?;
    let slot = |(n, leg): (usize, &Arc<Array>)| {
        let device = Arc::clone(leg) as Arc<dyn BlockDevice>;
        Slot::new(device, format!("leg{n}"), Sectors(0), sizes[n])
    };
    let slots = legs.iter().enumerate().map(slot).collect();
    let array = Array::open(geometry, slots).map_err(io::Error::other)?;
    Ok(Arc::new(array))
}

/// An array of one or more legs.
#[derive(Debug)]
pub(super) struct Whole {
    pub(super) device: Arc<dyn BlockDevice>,
    pub(super) legs: Vec<Arc<Array>>,
    /// Bytes of data in a row of all legs.
    pub(super) row: u64,
}

impl Whole {
    /// What the legs read and touched.
    pub(super) fn io_stats(&self) -> IoStats {
        self.legs.iter().map(|leg| leg.io_stats()).fold(IoStats::default(), |sum, of| IoStats {
            read: sum.read + of.read,
            loaded: sum.loaded + of.loaded,
            stored: sum.stored + of.stored,
        })
    }
}

/// Noise all over a device.
fn fill(device: &dyn BlockDevice, size: u64, random: &mut Random) -> io::Result<()> {
    let mut buf = vec![0; FILL];
    let mut at = 0;
    while at < size {
        for bytes in buf.chunks_exact_mut(8) {
            bytes.copy_from_slice(&random.number().to_le_bytes());
        }
        let part = usize::try_from(size - at).map_or(FILL, |left| left.min(FILL));
        device.write_at(ByteOffset(at), &buf[..part]).map_err(io::Error::other)?;
        at += part as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(level: Level, legs: u32) -> Plan {
        Plan { level, legs, members: 24, chunk: 64 << 10 }
    }

    #[test]
    fn plans_have_names_and_bear_what_their_levels_bear() {
        for (plan, name, bears) in [
            (plan(Level::Raid6, 1), "RAID6", 2),
            (plan(Level::Raid5, 2), "RAID50", 2),
            (plan(Level::Raid6, 2), "RAID60", 4),
        ] {
            assert_eq!((plan.name().as_str(), plan.tolerates()), (name, bears));
            let mut failing = plan.failing(bears);
            failing.sort_unstable();
            failing.dedup();
            assert_eq!(failing.len(), bears, "{name}");
        }
    }

    #[test]
    fn legs_together_have_the_room_of_one_array_with_as_much_parity() {
        let bed = Bed::new(&Members::Memory, 24, 1 << 20, 7).expect("memory");
        let size = |plan| bed.array(&plan, 0, false, ByteLen(0)).expect("an array").device.size();
        assert_eq!(size(plan(Level::Raid6, 1)), ByteLen(22 << 20));
        assert_eq!(size(plan(Level::Raid5, 2)), ByteLen(22 << 20));
        let two_gone =
            bed.array(&plan(Level::Raid5, 2), 2, false, ByteLen(0)).expect("one in each");
        two_gone.device.read_at(ByteOffset(0), &mut vec![0; 1 << 20]).expect("computed");
    }
}
