//! An array: its members, and how they are managed.

use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use xfskit_block::{BlockDevice, OpenMode};
use xfskit_md::array::Array as RunningArray;
use xfskit_md::assemble::{self, AssembledMember, Freshness};
use xfskit_md::create::{NewMember, erase};
use xfskit_md::superblock::{Reshape, Time, Version};
use xfskit_md::{Assembly, Layout, Level, Member as NamedDevice, superblock};
use xfskit_target::{self as target, ArrayName};
use xfskit_units::{MemberSector, Sectors, SyncSector, Uuid, index};

use super::new_device::NewDevices;
use super::running::Running;
use crate::below_volume::{BelowVolume, Known};
use crate::cause::array::ArrayError;
use crate::target::Target;
use crate::{Error, Result};

/// How to open an array: a builder.
#[derive(Clone, Debug, Default)]
#[must_use = "options open nothing until `open` is called"]
pub struct ArrayOptions {
    write: bool,
    time: Option<SystemTime>,
}

impl ArrayOptions {
    /// Returns the options that [`Array::open`] uses: for reading.
    pub fn new() -> Self {
        Self::default()
    }

    /// Opens for writing too. Off by default.
    pub fn write(mut self, write: bool) -> Self {
        self.write = write;
        self
    }

    /// Dates the superblocks that are written. Now by default.
    pub fn time(mut self, time: SystemTime) -> Self {
        self.time = Some(time);
        self
    }

    /// Opens the array of `target` (`md:MEMBER,MEMBER,…`): reads the superblocks of its members,
    /// and decides which are fresh. Nothing is written.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) where it is not an array with superblocks,
    /// or the members make no array; those of opening them.
    pub fn open(&self, target: impl AsRef<Path>) -> Result<Array> {
        let target = Target::parse(target)?;
        let Some(name) = target.array_name().filter(|name| name.manual.is_none()) else {
            return Err(ArrayError::NotArray(target.to_string()).error());
        };
        let mode = if self.write { OpenMode::ReadWrite } else { OpenMode::ReadOnly };
        let assembly = target::assemble(name, mode).map_err(Error::new)?;
        Ok(Array {
            name: name.clone(),
            mode,
            time: self.time,
            assembly,
            running: None,
            removed: Vec::new(),
        })
    }
}

/// An array, put together by the superblocks of its members.
///
/// ```no_run
/// # fn main() -> Result<(), xfskit::Error> {
/// let array = xfskit::md::Array::open("md:a.img,b.img,c.img")?;
/// println!("{} of {} bytes: {}", array.level(), array.size(), array.state());
/// for member in array.members() {
///     println!("{}: {}", member.name, member.state);
/// }
/// # Ok(()) }
/// ```
///
/// Its properties and its members are those of now: after [`fail`](Self::fail) the member is no
/// longer in sync, and a spare that took its role is being rebuilt. The files on an array are read
/// and changed through [`Volume`](crate::Volume), the bytes through
/// [`Device`](crate::target::Device): both take the same target.
///
/// An array is started by the first call that reads or writes more than superblocks, and marked
/// clean when it is [closed](Self::close) or dropped.
#[derive(Debug)]
pub struct Array {
    name: ArrayName,
    mode: OpenMode,
    time: Option<SystemTime>,
    assembly: Assembly,
    running: Option<Running>,
    /// Below a volume: members that were removed after they failed, and that are open still.
    removed: Vec<NamedDevice>,
}

/// A member of an array.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Member {
    /// The target that names it.
    pub name: String,
    /// The role that it serves, if it serves one.
    pub role: Option<usize>,
    /// What it is to the array.
    pub freshness: Freshness,
    /// The same in words: `in sync`, `rebuilding, 4096 sectors are valid`.
    pub state: String,
    /// The number of changes of the array that it knows of.
    pub events: u64,
    /// Where its data begin.
    pub data_offset: Sectors,
    /// How much of it can hold data.
    pub data_size: Sectors,
    /// Where the part of the data begins that is not valid; `None` if all of it is.
    pub recovery_offset: Option<MemberSector>,
}

impl Array {
    /// Returns the array below an open volume.
    pub(crate) fn below_volume(below: Arc<BelowVolume>) -> Result<Self> {
        let Known { name, assembly, removed } = below.known().lock().clone();
        let running = Some(Running::BelowVolume(below));
        let mode = OpenMode::ReadWrite;
        let mut array = Self { name, mode, time: None, assembly, running, removed };
        array.with_running(|_| ())?;
        Ok(array)
    }

    /// Opens the array of `target` for reading: see [`ArrayOptions::open`].
    ///
    /// # Errors
    /// As [`ArrayOptions::open`].
    pub fn open(target: impl AsRef<Path>) -> Result<Self> {
        ArrayOptions::new().open(target)
    }

    /// Returns the target as it was given.
    pub fn name(&self) -> String {
        self.name.to_string()
    }

    /// Returns the target that names the members in role order, then the journal, replacements and
    /// spares.
    pub fn target(&self) -> String {
        ArrayName::of(&self.assembly).to_string()
    }

    /// Returns the level.
    pub fn level(&self) -> Level {
        self.assembly.geometry.level()
    }

    /// Returns the layout.
    pub fn layout(&self) -> Layout {
        self.assembly.layout()
    }

    /// Returns the size of a chunk in bytes; 0 where there are no chunks.
    pub fn chunk_size(&self) -> u64 {
        self.assembly.geometry.chunk_bytes().0
    }

    /// Returns the number of roles. While the array is reshaped, it is the old one.
    pub fn raid_disks(&self) -> u32 {
        self.assembly.geometry.raid_disks()
    }

    /// Returns the number of roles that the superblocks have: while the array is reshaped, the
    /// larger of the old and the new one.
    pub fn raid_disks_listed(&self) -> u32 {
        self.assembly.superblock().raid_disks()
    }

    /// Returns the size in bytes. While the array is reshaped, it is the old one.
    pub fn size(&self) -> u64 {
        self.assembly.geometry.array_size().byte_len().0
    }

    /// Returns how many bytes of each member are used; 0 where each has its own.
    pub fn component_size(&self) -> u64 {
        self.assembly.geometry.component_size().byte_len().0
    }

    /// Returns the array's UUID.
    pub fn uuid(&self) -> [u8; 16] {
        self.assembly.superblock().set_uuid()
    }

    /// Returns the array's name in its superblocks, if they have one.
    pub fn set_name(&self) -> Option<String> {
        self.assembly.superblock().name()
    }

    /// Returns the version of the superblocks.
    pub fn version(&self) -> Version {
        self.assembly.version()
    }

    /// Returns when the array was made.
    pub fn created(&self) -> Time {
        self.assembly.superblock().ctime()
    }

    /// Returns when the superblocks were written.
    pub fn updated(&self) -> Time {
        self.assembly.superblock().utime()
    }

    /// Returns the number of changes of the array so far.
    pub fn events(&self) -> u64 {
        self.assembly.superblock().events()
    }

    /// Returns the name of the member whose superblock describes the array.
    pub fn reference(&self) -> &str {
        self.assembly.reference()
    }

    /// Returns the members as they are now, in the order in which they were named. Those that
    /// [`add`](Self::add) brought come last.
    pub fn members(&self) -> Vec<Member> {
        let role = |i| self.assembly.roles.iter().position(|role| *role == Some(i));
        let member = |(i, member): (usize, &AssembledMember)| Member {
            name: member.name.clone(),
            role: role(i),
            freshness: member.freshness,
            state: member.state(),
            events: member.superblock.events(),
            data_offset: member.superblock.data_offset(),
            data_size: member.superblock.data_size(),
            recovery_offset: member.superblock.recovery_offset(),
        };
        self.assembly.members.iter().enumerate().map(member).collect()
    }

    /// Returns the roles without a member.
    pub fn missing(&self) -> Vec<usize> {
        self.assembly.missing()
    }

    /// Returns true if a member lacks data that it should have, or is to be replaced.
    pub fn needs_rebuild(&self) -> bool {
        let lacks = |member: &AssembledMember| {
            matches!(member.freshness, Freshness::Rebuilding { .. } | Freshness::Replacement { .. })
        };
        self.assembly.members.iter().any(lacks)
    }

    /// Returns true if the array was shut down cleanly: its members agree.
    pub fn is_clean(&self) -> bool {
        !self.assembly.is_dirty()
    }

    /// Returns true if a role is missing, or its member is not rebuilt yet.
    pub fn is_degraded(&self) -> bool {
        self.assembly.is_degraded()
    }

    /// Returns the state in mdadm's words: `clean`, `active, degraded, recovering`, ….
    pub fn state(&self) -> String {
        self.assembly.state()
    }

    /// Returns where a resync has to begin; `None` if the array is clean.
    pub fn resync_offset(&self) -> Option<SyncSector> {
        self.assembly.superblock().resync_offset()
    }

    /// Returns how much of a resync is done, in percent, where one is due.
    pub fn resynced_percent(&self) -> Option<u64> {
        self.assembly.resynced_percent()
    }

    /// Returns how much of the members that are being rebuilt is done, in percent: that of the one
    /// with the least.
    pub fn rebuilt_percent(&self) -> Option<u64> {
        self.assembly.rebuilt_percent()
    }

    /// Returns how the array becomes consistent after a crash: `none`, `journal`, `ppl`, `bitmap`
    /// or `resync`.
    pub fn consistency_policy(&self) -> &'static str {
        self.assembly.consistency_policy()
    }

    /// Returns how many regions the write-intent bitmap names, where there is one.
    pub fn bitmap_dirty(&self) -> Option<u64> {
        self.assembly.bitmap.as_ref().map(xfskit_md::bitmap::Bitmap::dirty)
    }

    /// Returns the state of the reshape that is in progress, if one is.
    pub fn reshape(&self) -> Option<Reshape> {
        self.assembly.reshaped.as_ref().map(|reshaped| reshaped.reshape)
    }

    /// Returns what a reader should know: members that are left out, parity that may be wrong.
    pub fn warnings(&self) -> &[String] {
        &self.assembly.warnings
    }

    /// Takes a member out of use. A spare takes its role, if there is one: [`Rebuild`] fills it.
    ///
    /// # Errors
    /// [`Member`](crate::ErrorKind::Member) where the array cannot do without it.
    ///
    /// [`Rebuild`]: super::Rebuild
    pub fn fail(&mut self, member: impl AsRef<Path>) -> Result<()> {
        let word = member.as_ref().display().to_string();
        let role = self.role(&word)?;
        let (level, raid_disks) = (self.level(), self.raid_disks());
        let failed = self.with_running(|running| running.fail(role))?;
        failed.map_err(|_| ArrayError::Needed { member: word, level, raid_disks }.error())
    }

    /// Gives roles without a member to spares, as far as there are any. Returns the roles, and the
    /// names of the spares. [`Rebuild`](super::Rebuild) does it, too.
    ///
    /// # Errors
    /// [`Device`](crate::ErrorKind::Device) where superblocks cannot be written.
    pub fn activate_spares(&mut self) -> Result<Vec<(usize, String)>> {
        self.with_running(|running| running.activate_spares())?.map_err(Error::new)
    }

    /// Has a spare replace a member, which serves until [`Rebuild`](super::Rebuild) has filled the
    /// spare. Takes the spare `with`, or else any. Returns its name.
    ///
    /// # Errors
    /// [`Member`](crate::ErrorKind::Member) where there is no such spare or member.
    pub fn replace(&mut self, member: impl AsRef<Path>, with: Option<&str>) -> Result<String> {
        let word = member.as_ref().display().to_string();
        let role = self.role(&word)?;
        let with = with.map(|with| Ok::<_, Error>(self.member(with)?.name.clone())).transpose()?;
        let spare = self.with_running(|running| running.replace(role, with.as_deref()))?;
        spare.map_err(Error::new)?.ok_or_else(|| ArrayError::NoSpare(word).error())
    }

    /// Removes a spare or a failed member from the array. Below an open volume, the device itself
    /// stays open until the volume is closed.
    ///
    /// # Errors
    /// [`Member`](crate::ErrorKind::Member) where it is in use.
    pub fn remove(&mut self, member: impl AsRef<Path>) -> Result<()> {
        self.refuse_without_redundancy()?;
        let word = member.as_ref().display().to_string();
        self.change_members(|array| array.remove_now(&word))
    }

    fn remove_now(&mut self, word: &str) -> Result<()> {
        let found = self.member(word)?;
        let (freshness, number) = (found.freshness, found.superblock.dev_number());
        let device = Arc::clone(&found.device);
        let in_use = |freshness: Freshness| {
            let (member, state) = (word.to_owned(), freshness.to_string());
            ArrayError::InUse { member, state }.error()
        };
        match freshness {
            Freshness::Spare => {
                if self.running.as_ref().is_some_and(|running| !running.remove_spare(&device)) {
                    return Err(in_use(freshness)); // it takes a role at this moment
                }
                erase(&device, None).map_err(Error::new)?;
            }
            Freshness::Stale { .. } | Freshness::Faulty => {
                self.start()?.remove(number, &device).map_err(Error::new)?;
            }
            _ => return Err(in_use(freshness)),
        }
        let name = normal(word)?;
        match &self.running {
            Some(running) if running.is_below_volume() => {
                self.assembly.delist(&name, running).map_err(assembled)?;
                if freshness != Freshness::Spare {
                    self.removed.push(NamedDevice { name: name.clone(), device });
                }
            }
            _ => {
                self.stop()?;
                self.reassemble(|member| member.name != name, None)?;
            }
        }
        let stays = |member: &target::Target| member.to_string() != name;
        self.name.members.retain(|member| member.as_ref().is_none_or(stays));
        Ok(())
    }

    /// Adds a device. A former member whose role is free comes back, and lacks only what the
    /// write-intent bitmap names; any other device becomes a spare, and its content is lost.
    /// Returns true if it came back. [`Rebuild`](super::Rebuild) gives roles without a member to
    /// spares, and fills them.
    ///
    /// # Errors
    /// [`Member`](crate::ErrorKind::Member) for a device that is in use,
    /// [`AlreadyExists`](crate::ErrorKind::AlreadyExists) for one with content.
    pub fn add(&mut self, device: impl AsRef<Path>, options: &NewDevices) -> Result<bool> {
        self.refuse_without_redundancy()?;
        if self.name.overlay.is_some() {
            return Err(ArrayError::Overlaid.error());
        }
        let target = Target::parse(&device)?;
        self.change_members(|array| {
            if array.running.as_ref().is_some_and(|running| !running.is_below_volume()) {
                array.stop()?;
                array.reassemble(|_| true, None)?;
            }
            array.add_now(target, options)
        })
    }

    fn add_now(&mut self, target: Target, options: &NewDevices) -> Result<bool> {
        let name = target.to_string();
        if let Some(candidate) = self.assembly.re_add_candidate(&name) {
            self.with_running(|running| running.re_add(&candidate))?.map_err(Error::new)?;
            return Ok(true);
        }
        let known = self.assembly.members.iter().find(|member| member.name == name);
        let device = match known.map(|member| (member.freshness, &member.device)) {
            Some((Freshness::Stale { .. } | Freshness::Faulty, device)) => device.clone(),
            Some((freshness, _)) => {
                let (member, state) = (name, freshness.to_string());
                return Err(ArrayError::IsMember { member, state }.error());
            }
            None if self.owns(&target) => {
                let removed = self.removed.iter().position(|member| member.name == name);
                let device = match removed {
                    Some(at) => self.removed.remove(at).device,
                    None => target::open_unchecked(target.parsed(), OpenMode::ReadWrite)
                        .map_err(Error::new)?,
                };
                self.enlist(&target, device)?;
                return self.add_now(target, options);
            }
            None => options.open(target.parsed())?,
        };
        let uuid = *Uuid::new_v4().as_bytes();
        let new = NewMember { name: name.clone(), device: device.clone(), uuid };
        self.assembly.add(&new, self.now()).map_err(Error::new)?;
        self.enlist(&target, device)?;
        let spares = self.assembly.spares();
        if let Some(running) = &self.running
            && let Some(spare) = spares.into_iter().find(|spare| spare.name == name)
        {
            running.add_spare(spare);
        }
        Ok(false)
    }

    /// Lists a device with a superblock of this array among the members.
    fn enlist(&mut self, target: &Target, device: Arc<dyn BlockDevice>) -> Result<()> {
        let name = target.to_string();
        let is_new = self.assembly.members.iter().all(|member| member.name != name);
        let listed = NamedDevice { name: name.clone(), device };
        match &self.running {
            Some(running) => self.assembly.enlist(listed, running).map_err(assembled)?,
            None => self.reassemble(|member| member.name != name, Some(listed))?,
        }
        if is_new {
            self.name.members.push(Some(target.parsed().clone()));
        }
        Ok(())
    }

    /// Runs a change of the members. Below a volume it begins with what the last change left, and
    /// every later handle has what it leaves.
    fn change_members<T>(&mut self, change: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let Some(Running::BelowVolume(below)) = &self.running else { return change(self) };
        let below = Arc::clone(below);
        let mut known = below.known().lock();
        let Known { name, assembly, removed } = known.clone();
        (self.name, self.assembly, self.removed) = (name, assembly, removed);
        self.with_running(|_| ())?;
        let done = change(self);
        let (name, assembly) = (self.name.clone(), self.assembly.clone());
        *known = Known { name, assembly, removed: self.removed.clone() };
        done
    }

    /// Makes everything durable and marks the array clean, if it was started. It can be used on.
    ///
    /// # Errors
    /// [`Device`](crate::ErrorKind::Device) where more members fail than the level tolerates.
    pub fn mark_clean(&mut self) -> Result<()> {
        if self.running.is_none() {
            return Ok(());
        }
        self.with_running(Running::settle)?
    }

    /// Makes everything durable, marks the array clean, and ends it.
    ///
    /// # Errors
    /// As [`mark_clean`](Self::mark_clean).
    pub fn close(mut self) -> Result<()> {
        self.stop()
    }

    /// Starts the array, runs `work` on it, and brings up to date what the members are.
    pub(super) fn with_running<T>(&mut self, work: impl FnOnce(&Running) -> T) -> Result<T> {
        let done = work(self.start()?);
        if let Some(running) = &self.running {
            self.assembly.update(running).map_err(assembled)?;
        }
        Ok(done)
    }

    /// Returns the array, started.
    fn start(&mut self) -> Result<&Running> {
        self.refuse_without_redundancy()?;
        let running = match self.running.take() {
            Some(running) => running,
            None => Running::Own(Box::new(self.run()?)),
        };
        Ok(self.running.insert(running))
    }

    fn run(&self) -> Result<RunningArray> {
        let array = self.name.to_string();
        if self.mode == OpenMode::ReadOnly {
            let running = self.assembly.open_array();
            return running.map_err(|source| ArrayError::NotRunning { array, source }.error());
        }
        if let Some(why) = self.assembly.write_refusal() {
            return Err(Error::new(target::Error::NotWritable { target: array, why }));
        }
        let running = self.assembly.open_writable(self.now());
        running.map_err(|source| ArrayError::NotWritable { array, source }.error())
    }

    fn stop(&mut self) -> Result<()> {
        self.running.take().map_or(Ok(()), |running| running.settle())
    }

    fn refuse_without_redundancy(&self) -> Result<()> {
        match self.level() {
            level @ (Level::Linear | Level::Raid0) => {
                Err(ArrayError::NoRedundancy { array: self.name(), level }.error())
            }
            _ => Ok(()),
        }
    }

    /// Returns the member that `word` names.
    fn member(&self, word: &str) -> Result<&AssembledMember> {
        let name = normal(word)?;
        let found = self.assembly.members.iter().find(|member| member.name == name);
        let (member, array) = (word.to_owned(), self.name());
        found.ok_or_else(|| ArrayError::NotMember { member, array }.error())
    }

    /// Returns the role that a member serves.
    fn role(&self, word: &str) -> Result<usize> {
        self.refuse_without_redundancy()?;
        match self.member(word)?.freshness {
            Freshness::InSync { role } | Freshness::Rebuilding { role, .. } => {
                Ok(index(u64::from(role)))
            }
            freshness => {
                let (member, state) = (word.to_owned(), freshness.to_string());
                Err(ArrayError::NoRole { member, state }.error())
            }
        }
    }

    /// Returns true if a device has a superblock of this array.
    fn owns(&self, target: &Target) -> bool {
        let device = target::open_unchecked(target.parsed(), OpenMode::ReadOnly);
        let found = device.ok().and_then(|device| superblock::read(&device).ok().flatten());
        found.is_some_and(|found| {
            found.corruption.is_none() && found.superblock.set_uuid() == self.uuid()
        })
    }

    /// Assembles the array again: of the members that `kept` accepts, and of `added`.
    fn reassemble(
        &mut self,
        kept: impl Fn(&AssembledMember) -> bool,
        added: Option<NamedDevice>,
    ) -> Result<()> {
        let named = |member: &AssembledMember| NamedDevice {
            name: member.name.clone(),
            device: member.device.clone(),
        };
        let kept = self.assembly.members.iter().filter(|member| kept(member)).map(named);
        let members = kept.chain(added).collect();
        let assembly = if self.name.force {
            xfskit_md::assemble_by_force(members)
        } else {
            xfskit_md::assemble(members)
        };
        self.assembly = assembly.map_err(assembled)?;
        Ok(())
    }

    fn now(&self) -> u64 {
        seconds(self.time)
    }
}

/// Returns the error of members that make no array.
fn assembled(error: assemble::Error) -> Error {
    Error::new(target::Error::from(error))
}

/// Returns the name of a member as members have it.
fn normal(word: &str) -> Result<String> {
    Ok(Target::parse(word)?.to_string())
}

/// Returns seconds since 1970.
pub(super) fn seconds(time: Option<SystemTime>) -> u64 {
    let time = time.unwrap_or_else(SystemTime::now);
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
