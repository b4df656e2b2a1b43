//! Assembly: from a list of members to the array that they form.
//!
//! Members come in any order; some are missing and some are old. The member with the most events
//! describes the array: its table tells which device has which role. A member is *fresh* if it is
//! at most one event behind (a crash between two superblock updates) and that table gives it the
//! role that it claims itself. All other members are classified and not read: stale members,
//! spares, the journal. A member that is being rebuilt is fresh up to `recovery_offset`.
//!
//! [`assemble`] only reads. Its result describes the array before it runs; [`Assembly::open`] makes
//! the device.
//!
//! | module | what |
//! | --- | --- |
//! | `error` | why members make no array, and what to do |
//! | [`freshness`] | what each member is to the array |
//! | `force` | stale members where there are too few fresh ones |
//! | `open` | from an assembly to a device |
//! | `describe` | an assembly in words and figures |
//! | `add` | adding and re-adding devices |
//! | `update` | an assembly while its array runs |
//! | `replay` | replaying logs onto the members |
//! | [`manual`] | arrays without superblocks: the caller gives the geometry |

mod add;
mod describe;
mod error;
mod force;
mod open;
mod replay;
mod update;

pub mod freshness;
pub mod manual;

use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_units::Sectors;

pub use error::Error;
pub use force::assemble_by_force;
pub use freshness::Freshness;
pub use manual::ManualGeometry;

use crate::array::survives;
use crate::bitmap::{self, Bitmap};
use crate::geometry::{Geometry, GeometryError};
use crate::journal;
use crate::layout::{Layout, Level};
use crate::superblock::v1::FeatureMap;
use crate::superblock::{self, Reshape, Role, Superblock, Version};

/// A device that may belong to an array.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name in messages: the path.
    pub name: String,
    /// The device.
    pub device: Arc<dyn BlockDevice>,
}

/// A member, and what it is to the array.
#[derive(Clone, Debug)]
pub struct AssembledMember {
    /// Its name in messages.
    pub name: String,
    /// The device.
    pub device: Arc<dyn BlockDevice>,
    /// The version of its superblock.
    pub version: Version,
    /// Its superblock.
    pub superblock: Superblock,
    /// What it is to the array.
    pub freshness: Freshness,
}

/// An array as assembled from its members.
#[derive(Clone, Debug)]
pub struct Assembly {
    /// All members, in the order in which they were given.
    pub members: Vec<AssembledMember>,
    /// The member whose superblock describes the array.
    reference: usize,
    /// For each role the member that serves it.
    pub roles: Vec<Option<usize>>,
    /// The geometry of the array. While the array is reshaped, the geometry of the part that is not
    /// reshaped yet.
    pub geometry: Geometry,
    /// The part that is already reshaped.
    pub reshaped: Option<Reshaped>,
    /// The write-intent bitmap, if there is one that can be trusted.
    pub bitmap: Option<Bitmap>,
    /// The bitmap is older than the array, so all its bits were set.
    bitmap_is_stale: bool,
    /// The partial parity log was replayed, so parity is right although the array was not shut down
    /// cleanly.
    is_replayed: bool,
    /// Parity that cannot be trusted is used all the same.
    is_forced: bool,
    /// What a reader of the array should know.
    pub warnings: Vec<String>,
}

/// An array between two geometries.
#[derive(Clone, Debug)]
pub struct Reshaped {
    /// The state of the reshape, from the superblocks.
    pub reshape: Reshape,
    /// The geometry of the part that is done.
    pub geometry: Geometry,
}

/// Assembles `members`.
///
/// # Errors
/// Returns [`Error`] if they make no array. The error names the member and has a hint.
pub fn assemble(members: Vec<Member>) -> Result<Assembly, Error> {
    let members = members.into_iter().map(read_member).collect::<Result<Vec<_>, _>>()?;
    check_same_array(&members)?;
    check_duplicates(&members)?;
    let reference = reference(&members).ok_or(Error::Nothing)?;
    let mut assembly = freshness::classify(members, reference)?;
    assembly.add_warnings();
    Ok(assembly)
}

/// Reads a member's superblock.
fn read_member(member: Member) -> Result<AssembledMember, Error> {
    let Member { name, device } = member;
    let found = superblock::read(&device)
        .map_err(|source| Error::Device { name: name.clone(), source })?
        .ok_or_else(|| Error::NoSuperblock { name: name.clone() })?;
    if let Some(corruption) = found.corruption {
        return Err(Error::Corruption { name, corruption });
    }
    let (version, superblock) = (found.version, found.superblock);
    Ok(AssembledMember { name, device, version, superblock, freshness: Freshness::Spare })
}

/// Checks that all superblocks are of one array.
fn check_same_array(members: &[AssembledMember]) -> Result<(), Error> {
    let Some((first, rest)) = members.split_first() else { return Ok(()) };
    let id = |member: &AssembledMember| (member.superblock.set_uuid(), member.superblock.ctime());
    match rest.iter().find(|other| id(other) != id(first)) {
        None => Ok(()),
        Some(other) => Err(Error::DifferentArrays {
            one: first.name.clone(),
            uuid: superblock::hex(first.superblock.set_uuid()),
            other: other.name.clone(),
            other_uuid: superblock::hex(other.superblock.set_uuid()),
        }),
    }
}

/// Checks that no member is given twice, under two names or as a copy.
fn check_duplicates(members: &[AssembledMember]) -> Result<(), Error> {
    let id = |member: &AssembledMember| {
        (member.superblock.device_uuid(), member.superblock.dev_number())
    };
    let same = |a: &AssembledMember, b: &AssembledMember| match (id(a), id(b)) {
        ((Some(a), _), (Some(b), _)) => a == b,
        ((_, a), (_, b)) => a == b,
    };
    for (i, one) in members.iter().enumerate() {
        if let Some(other) = members.iter().skip(i + 1).find(|other| same(one, other)) {
            return Err(Error::Duplicate { one: one.name.clone(), other: other.name.clone() });
        }
    }
    Ok(())
}

/// Returns the member that describes the array: one with the most events, preferably one with an
/// active role.
fn reference(members: &[AssembledMember]) -> Option<usize> {
    let rank = |member: &AssembledMember| {
        let active = matches!(member.superblock.role(), Role::Active(_));
        (member.superblock.events(), active)
    };
    // The first of equals.
    (0..members.len()).rev().max_by_key(|i| rank(&members[*i]))
}

/// Largest event count of an array that is written. Every change of its state raises the count,
/// which must not wrap.
const EVENTS_MAX: u64 = u64::MAX - (1 << 32);

impl Assembly {
    /// Returns the superblock that describes the array.
    pub fn superblock(&self) -> &Superblock {
        &self.members[self.reference].superblock
    }

    /// Returns the version of the superblock that describes the array.
    pub fn version(&self) -> Version {
        self.members[self.reference].version
    }

    /// Returns the name of the member whose superblock describes the array.
    pub fn reference(&self) -> &str {
        &self.members[self.reference].name
    }

    /// Returns level and layout.
    pub fn layout(&self) -> Layout {
        self.geometry.layout()
    }

    /// Returns the roles without a member.
    pub fn missing(&self) -> Vec<usize> {
        (0..self.roles.len()).filter(|role| self.roles[*role].is_none()).collect()
    }

    /// Returns true if the present roles are enough.
    fn can_run(&self) -> bool {
        survives(&self.geometry, &self.missing())
    }

    /// Returns true if a role is missing, or its member is not rebuilt yet.
    pub fn is_degraded(&self) -> bool {
        let partly =
            |member: &AssembledMember| matches!(member.freshness, Freshness::Rebuilding { .. });
        self.roles.iter().any(|member| member.is_none_or(|i| partly(&self.members[i])))
    }

    /// Returns true if members may differ from each other, or data from their parity.
    pub fn is_dirty(&self) -> bool {
        let redundant = !matches!(self.geometry.level(), Level::Linear | Level::Raid0);
        redundant && self.superblock().resync_offset().is_some()
    }

    /// Returns true if reconstruction may return data that were never written: the parity of
    /// stripes that were being written cannot be trusted, and some of it is needed.
    pub fn is_parity_untrusted(&self) -> bool {
        let parity = matches!(self.geometry.level(), Level::Raid4 | Level::Raid5 | Level::Raid6);
        let logged = self.has_partial_parity();
        parity && !logged && self.is_dirty() && self.is_degraded()
    }

    /// Returns why the array must not be written, if there is a reason.
    pub fn write_refusal(&self) -> Option<String> {
        let why = if let Some(reshaped) = &self.reshaped {
            let at = reshaped.reshape.position;
            format!("a reshape is in progress, at sector {at} of the array; let md finish it")
        } else if self.is_parity_untrusted() && !self.is_forced {
            "it was not shut down cleanly and members are missing, so that its parity cannot be \
             trusted; copy off what is readable, or bring the missing members back (or trust \
             it with --force)"
                .into()
        } else {
            self.missing_for_write()?.into()
        };
        Some(why)
    }

    /// Returns what this version cannot maintain or restore, and therefore must not change.
    fn missing_for_write(&self) -> Option<&'static str> {
        let reference = self.superblock();
        if reference.has_journal() && self.journal().is_none() {
            Some("its journal device is missing, and members lack what it holds; name it, too")
        } else if reference.has_journal() && self.roles.len() > journal::ROLES_MAX {
            Some("it has more members than a block of its journal lists")
        } else if reference.bitmap().is_some() && self.bitmap.is_none() {
            Some("its write-intent bitmap cannot be trusted; let md resync it")
        } else if reference.events() > EVENTS_MAX {
            Some(
                "its event count is at its end, which no array reaches: its superblocks are damaged",
            )
        } else {
            None
        }
    }

    /// Adds warnings about left-out members, untrusted parity, a missing journal and a reshape.
    fn add_warnings(&mut self) {
        for member in &self.members {
            let why = match &member.freshness {
                Freshness::Stale { events } => format!(
                    "{}: stale, left out: it has {events} events, {} has {}",
                    member.name,
                    self.reference(),
                    self.superblock().events()
                ),
                Freshness::Faulty => {
                    format!("{}: left out: {} lists it as failed", member.name, self.reference())
                }
                _ => continue,
            };
            self.warnings.push(why);
        }
        if self.is_parity_untrusted() {
            let region = self.bitmap.as_ref().map_or_else(
                || "parity of any stripe may be".to_owned(),
                |b| format!("parity of {} of {} regions may be", b.dirty(), b.count()),
            );
            self.warnings.push(format!(
                "not shut down cleanly, and degraded: {region} out of date, and data \
                 reconstructed from it may be wrong"
            ));
        }
        if self.superblock().has_journal() && self.journal().is_none() {
            let why = "the journal device is missing, and members lack what it holds";
            self.warnings.push(why.into());
        }
        if let Some(reshaped) = &self.reshaped {
            let at = reshaped.reshape.position;
            self.warnings.push(format!("half-way through a reshape, at sector {at} of the array"));
        }
    }
}

/// Returns the geometry that a superblock describes, for members whose data areas have `data_sizes`
/// in role order.
fn geometry(
    sb: &Superblock,
    raid_disks: u32,
    data_sizes: &[Sectors],
) -> Result<Geometry, GeometryError> {
    // On RAID0 the layout counts only if the feature bit is set.
    let specified = match sb {
        Superblock::V1(v1) => v1.has(FeatureMap::RAID0_LAYOUT),
        Superblock::V090(_) => false,
    };
    let layout = if sb.level() == 0 && !specified { 0 } else { sb.layout() };
    let layout = Layout::from_numbers(sb.level(), layout)?;
    Geometry::new(layout, sb.chunk(), raid_disks, sb.size(), data_sizes)
}

/// Returns the bitmap of the first member in `roles` whose bitmap can be trusted, otherwise any.
fn bitmap_of(
    members: &[AssembledMember],
    roles: &[Option<usize>],
    sb: &Superblock,
) -> Option<Result<Bitmap, bitmap::ReadError>> {
    let serving = roles.iter().flatten().filter_map(|i| members.get(*i));
    let bitmaps =
        serving.filter_map(|member| Bitmap::read(&member.device, &member.superblock).transpose());
    let mut best = None;
    for bitmap in bitmaps {
        let current = |bitmap: &Bitmap| bitmap.is_current(sb.bitmap_uuid(), sb.events());
        if bitmap.as_ref().is_ok_and(current) {
            return Some(bitmap);
        }
        best = best.or(Some(bitmap));
    }
    best
}

/// Returns where the data of the new geometry begin on a member.
fn new_data_offset(sb: &Superblock, reshape: &Reshape) -> Option<Sectors> {
    let offset = sb.reshape().map_or(reshape.new_offset, |own| own.new_offset);
    sb.data_offset().0.checked_add_signed(i64::from(offset)).map(Sectors)
}
