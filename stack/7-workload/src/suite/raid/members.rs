//! Members, and arrays of them.
//!
//! Members hold random data. The study times reads and does not check their contents, so the same
//! members serve any level and chunk size. Tests verify what arrays compute.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use xfskit_block::{BlockDevice, LimitedDevice, MemDevice};
use xfskit_md::array::{Array, IoStats, Options};
use xfskit_md::{Geometry, Layout, Level, Slot};
use xfskit_units::{ByteLen, ByteOffset, MemberSector, Sectors};

use super::member::{Member, Reads};
use crate::image::Image;
use crate::random::Random;

/// Bytes of a write while members are filled.
const FILL: usize = 1 << 20;

/// The kind of members.
#[derive(Clone, Debug)]
pub enum MemberKind {
    /// Memory of this process.
    Memory,
    /// Files in this directory, read through the kernel's page cache, which is dropped before each
    /// point.
    Files(PathBuf),
    /// Memory with a disk's latency and bandwidth in bytes per second.
    Simulated {
        /// Bandwidth of each member in bytes per second.
        speed: u64,
        /// Latency of a read.
        latency: Duration,
    },
}

impl MemberKind {
    /// Describes the storage for reports.
    pub fn storage(&self) -> String {
        match self {
            Self::Memory => "members in memory".into(),
            Self::Files(dir) => format!("member files in {}", dir.display()),
            Self::Simulated { speed, latency } => {
                format!("simulated members, {} MB/s, {} µs", speed / 1_000_000, latency.as_micros())
            }
        }
    }
}

/// The shape of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Level of each leg.
    pub level: Level,
    /// Legs that are striped; 1 for a plain array.
    pub legs: u32,
    /// Members of all legs together.
    pub members: u32,
    /// Bytes of a chunk.
    pub chunk: u64,
}

impl Plan {
    /// Returns the common name: RAID6, RAID50.
    pub fn name(&self) -> String {
        let zero = if self.legs > 1 { "0" } else { "" };
        format!("{}{zero}", self.level.name().to_uppercase())
    }

    /// Returns the name with the number of members, or of legs and their members.
    pub fn describe(&self) -> String {
        match self.legs {
            1 => format!("{} of {}", self.name(), self.members),
            legs => format!("{} of {legs} times {}", self.name(), self.members_per_leg()),
        }
    }

    /// Returns the RAID50 of the members of a RAID6: of two legs, and of four if each then has
    /// three members or more.
    pub(super) fn raid50s(&self) -> Vec<Self> {
        let fits = |legs: &u32| self.members.is_multiple_of(*legs) && self.members / legs >= 3;
        let legs = [2, 4].into_iter().filter(|legs| self.level == Level::Raid6 && fits(legs));
        legs.map(|legs| Self { level: Level::Raid5, legs, ..*self }).collect()
    }

    fn members_per_leg(&self) -> u32 {
        self.members / self.legs
    }

    /// Returns how many members may be missing if they are spread evenly over the legs.
    pub(super) fn tolerates(&self) -> usize {
        let layout = Layout::default_of(self.level);
        usize::try_from(layout.tolerates(self.members_per_leg()) * self.legs).unwrap_or(0)
    }

    /// Returns the number of members that the array has the room of.
    pub(super) fn data_members(&self) -> u64 {
        let parity = Layout::default_of(self.level).tolerates(self.members_per_leg()) * self.legs;
        let data = match self.level {
            // Two copies of everything.
            Level::Raid10 => self.members / 2,
            _ => self.members.saturating_sub(parity),
        };
        u64::from(data.max(1))
    }

    /// Returns the roles that fail, in order: far from each other, alternating between the legs.
    fn failing(&self, missing: usize) -> Vec<usize> {
        let leg = usize::try_from(self.members_per_leg()).unwrap_or(1);
        let legs = usize::try_from(self.legs).unwrap_or(1);
        let role = |n: usize| n % legs * leg + (leg / 4 + n / legs * leg / 3) % leg;
        (0..missing).map(role).collect()
    }

    fn geometry(&self, size: Sectors) -> io::Result<Geometry> {
        let sizes = vec![size; usize::try_from(self.members_per_leg()).unwrap_or(0)];
        let chunk = Sectors(self.chunk / 512);
        Geometry::new(Layout::default_of(self.level), chunk, self.members_per_leg(), size, &sizes)
            .map_err(io::Error::other)
    }
}

/// The members. Their files are removed with them.
#[derive(Debug)]
pub(super) struct MemberSet {
    /// The devices below the limits and the counters.
    disks: Vec<Arc<dyn BlockDevice>>,
    members: Vec<Arc<Member>>,
    size: Sectors,
    files: Vec<Image>,
    pub(super) storage: String,
}

impl MemberSet {
    /// Creates `members` members with `size` bytes of random data each.
    pub(super) fn new(kind: &MemberKind, members: u32, size: u64, seed: u64) -> io::Result<Self> {
        let member_set = Self::empty(kind, members, size)?;
        for (n, disk) in (0..).zip(&member_set.disks) {
            fill(&**disk, size, &mut Random::stream(seed, n))?;
        }
        Ok(member_set)
    }

    /// Creates `members` members with `size` bytes of zeros each, whose parity is right for every
    /// level.
    pub(super) fn empty(kind: &MemberKind, members: u32, size: u64) -> io::Result<Self> {
        let (mut disks, mut files) = (Vec::new(), Vec::new());
        for _ in 0..members {
            let MemberKind::Files(dir) = kind else {
                disks.push(Arc::new(MemDevice::new(ByteLen(size))) as Arc<dyn BlockDevice>);
                continue;
            };
            let file = Image::new(dir, ByteLen(size))?;
            disks.push(Arc::new(file.open()?));
            files.push(file);
        }
        let size = Sectors(size / 512);
        Ok(Self { members: members_of(kind, &disks), disks, size, files, storage: kind.storage() })
    }

    /// Returns the same members as another kind; `None` if they are files or should be.
    pub(super) fn as_kind(&self, kind: &MemberKind) -> Option<Self> {
        if !self.files.is_empty() || matches!(kind, MemberKind::Files(_)) {
            return None;
        }
        let (disks, files) = (self.disks.clone(), Vec::new());
        let members = members_of(kind, &disks);
        Some(Self { members, disks, size: self.size, files, storage: kind.storage() })
    }

    /// Returns the size of a member in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size.0 * 512
    }

    /// Returns the devices of the members, below limits and counters.
    pub(super) fn disks(&self) -> &[Arc<dyn BlockDevice>] {
        &self.disks
    }

    /// Drops the member files from the kernel's page cache.
    pub(super) fn drop_caches(&self) -> io::Result<()> {
        for image in &self.files {
            let file = std::fs::File::open(image.path())?;
            file.sync_data()?;
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        }
        Ok(())
    }

    /// Returns the counters of each member.
    pub(super) fn reads(&self) -> Vec<Reads> {
        self.members.iter().map(|member| member.reads()).collect()
    }

    /// Assembles the array without the failing members, or, with `rebuilding`, with empty members
    /// in their place.
    pub(super) fn array(
        &self,
        plan: &Plan,
        missing: usize,
        rebuilding: bool,
        stripe_cache: ByteLen,
    ) -> io::Result<RaidArray> {
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
        let used = usize::try_from(plan.members).unwrap_or(usize::MAX);
        let mut slots: Vec<Slot> = self.members.iter().take(used).enumerate().map(slot).collect();
        let options = Options {
            stripe_cache: ByteLen(stripe_cache.0 / u64::from(plan.legs)),
            ..Options::default()
        };
        let mut legs = Vec::new();
        while !slots.is_empty() {
            let rest = slots.split_off(slots.len().min(leg_members(plan)));
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
        Ok(RaidArray { device, legs, stripe_bytes: plan.chunk * data * u64::from(plan.legs) })
    }
}

/// Returns members on `disks`, with the limits of their kind.
fn members_of(kind: &MemberKind, disks: &[Arc<dyn BlockDevice>]) -> Vec<Arc<Member>> {
    let limited = |disk: &Arc<dyn BlockDevice>| match kind {
        MemberKind::Simulated { speed, latency } => {
            Arc::new(LimitedDevice::new(Arc::clone(disk), *speed, *latency)) as Arc<dyn BlockDevice>
        }
        MemberKind::Memory | MemberKind::Files(_) => Arc::clone(disk),
    };
    disks.iter().map(|disk| Arc::new(Member::new(limited(disk)))).collect()
}

/// Returns the members of a leg.
fn leg_members(plan: &Plan) -> usize {
    usize::try_from(plan.members_per_leg()).unwrap_or(usize::MAX).max(1)
}

/// Stripes the legs with the full stripe of a leg as the chunk, so that each leg receives full
/// stripes.
fn striped(legs: &[Arc<Array>], stripe_bytes: u64) -> io::Result<Arc<dyn BlockDevice>> {
    let sizes: Vec<Sectors> = legs.iter().map(|leg| Sectors(leg.size().0 / 512)).collect();
    let n = u32::try_from(legs.len()).unwrap_or(u32::MAX);
    let layout = Layout::default_of(Level::Raid0);
    let geometry = Geometry::new(layout, Sectors(stripe_bytes / 512), n, Sectors(0), &sizes)
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
pub(super) struct RaidArray {
    pub(super) device: Arc<dyn BlockDevice>,
    pub(super) legs: Vec<Arc<Array>>,
    /// Bytes of data in a full stripe of all legs.
    pub(super) stripe_bytes: u64,
}

impl RaidArray {
    /// Returns the memory that the stripe caches of the legs have allocated.
    pub(super) fn cache_bytes(&self) -> ByteLen {
        self.legs.iter().map(|leg| leg.stripe_cache_bytes()).fold(ByteLen(0), ByteLen::plus)
    }

    /// Returns the sum of the counters of the legs.
    pub(super) fn io_stats(&self) -> IoStats {
        self.legs.iter().map(|leg| leg.io_stats()).fold(IoStats::default(), |sum, of| IoStats {
            read: sum.read.plus(of.read),
            loaded: sum.loaded.plus(of.loaded),
            stored: sum.stored.plus(of.stored),
        })
    }
}

/// Fills a device with random data.
fn fill(device: &dyn BlockDevice, size: u64, random: &mut Random) -> io::Result<()> {
    let mut buf = vec![0; FILL];
    let mut at = 0;
    while at < size {
        for bytes in buf.chunks_exact_mut(8) {
            bytes.copy_from_slice(&random.next_u64().to_le_bytes());
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
    fn plans_have_names_and_tolerate_as_many_failures_as_their_levels() {
        for (plan, name, bears) in [
            (plan(Level::Raid6, 1), "RAID6", 2),
            (plan(Level::Raid5, 2), "RAID50", 2),
            (plan(Level::Raid6, 2), "RAID60", 4),
        ] {
            assert_eq!((plan.name().as_str(), plan.tolerates()), (name, bears));
            assert_eq!(plan.data_members(), 24 - bears as u64, "{name}");
            let mut failing = plan.failing(bears);
            failing.sort_unstable();
            failing.dedup();
            assert_eq!(failing.len(), bears, "{name}");
        }
    }

    #[test]
    fn legs_have_the_capacity_of_one_array_with_the_same_parity() {
        let member_set = MemberSet::new(&MemberKind::Memory, 24, 1 << 20, 7).expect("memory");
        let size =
            |plan| member_set.array(&plan, 0, false, ByteLen(0)).expect("an array").device.size();
        assert_eq!(size(plan(Level::Raid6, 1)), ByteLen(22 << 20));
        assert_eq!(size(plan(Level::Raid5, 2)), ByteLen(22 << 20));
        let two_gone =
            member_set.array(&plan(Level::Raid5, 2), 2, false, ByteLen(0)).expect("one in each");
        two_gone.device.read_at(ByteOffset(0), &mut vec![0; 1 << 20]).expect("computed");
    }

    #[test]
    fn raid50_is_of_two_legs_and_of_four() {
        let names = |members| -> Vec<String> {
            let plan = Plan { members, ..plan(Level::Raid6, 1) };
            plan.raid50s().iter().map(Plan::describe).collect()
        };
        assert_eq!(names(24), ["RAID50 of 2 times 12", "RAID50 of 4 times 6"]);
        assert_eq!(names(10), ["RAID50 of 2 times 5"]);
        assert!(names(5).is_empty() && plan(Level::Raid5, 1).raid50s().is_empty());
    }

    /// Returns the bytes that the disks transfer for a read of one full stripe, and its length.
    fn transferred(plan: Plan, missing: usize) -> (u64, u64) {
        let disk = |_| {
            let memory = Arc::new(MemDevice::new(ByteLen(1 << 20)));
            Arc::new(LimitedDevice::new(memory, 1 << 40, Duration::ZERO))
        };
        let disks: Vec<Arc<LimitedDevice>> = (0..plan.members).map(disk).collect();
        let member = |disk: &Arc<LimitedDevice>| {
            Arc::new(Member::new(Arc::clone(disk) as Arc<dyn BlockDevice>))
        };
        let member_set = MemberSet {
            disks: Vec::new(),
            members: disks.iter().map(member).collect(),
            size: Sectors(2048),
            files: Vec::new(),
            storage: String::new(),
        };
        let array = member_set.array(&plan, missing, false, ByteLen(0)).expect("an array");
        let mut stripe = vec![0; usize::try_from(array.stripe_bytes).expect("small")];
        array.device.read_at(ByteOffset(0), &mut stripe).expect("read");
        (disks.iter().map(|disk| disk.transferred().0).sum(), array.stripe_bytes)
    }

    #[test]
    fn an_array_of_arrays_transfers_each_byte_once() {
        let raid6 = plan(Level::Raid6, 1);
        for plan in [vec![raid6], raid6.raid50s()].concat() {
            for missing in 0..=2 {
                let (bytes, stripe) = transferred(plan, missing);
                assert_eq!(bytes, stripe, "{}, {missing} failed", plan.describe());
            }
        }
    }
}
