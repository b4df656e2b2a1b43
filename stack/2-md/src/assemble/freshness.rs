//! What each member is to the array.

use serde::Serialize;
use xfskit_units::{MemberSector, Sectors};

use super::{AssembledMember, Assembly, Error, Reshaped, bitmap_of, geometry};
use crate::geometry::Geometry;
use crate::layout::Layout;
use crate::superblock::{Reshape, Role, Superblock};

/// What a member is to the array, found mainly by its events count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Freshness {
    /// It is fresh and holds all of its role.
    InSync {
        /// The role.
        role: u32,
    },
    /// It is fresh and holds its role up to a point.
    Rebuilding {
        /// The role.
        role: u32,
        /// Where the part begins that is not valid.
        until: MemberSector,
    },
    /// It is to replace the member of a role.
    Replacement {
        /// The role.
        role: u32,
    },
    /// It waits for another member to fail.
    Spare,
    /// It is the journal device.
    Journal,
    /// Its events count is behind: it missed changes of the array.
    Stale {
        /// Its events.
        events: u64,
    },
    /// Its events are current, but the role table lists it as failed.
    Faulty,
}

/// Classifies every member by the superblock of the member at `reference`.
pub(super) fn classify(
    mut members: Vec<AssembledMember>,
    reference: usize,
) -> Result<Assembly, Error> {
    let sb = members[reference].superblock.clone();
    for i in 0..members.len() {
        members[i].freshness = freshness(&members[i].superblock, &sb);
        let fresh =
            matches!(members[i].freshness, Freshness::InSync { .. } | Freshness::Rebuilding { .. });
        if fresh {
            check_consistent(&members[i], &members[reference])?;
        }
        if members[i].freshness == Freshness::Faulty {
            check_split_brain(&members[reference], &members[i])?;
        }
    }
    let roles = assign_roles(&mut members, sb.raid_disks())?;
    let geometries = geometries(&members, &sb, &roles);
    let (geometry, reshaped) = geometries.map_err(|source| match source {
        Failed::Geometry(source) => {
            Error::Geometry { name: members[reference].name.clone(), source }
        }
        Failed::Missing => too_many_missing(&members, &sb, &roles),
    })?;
    let mut warnings = Vec::new();
    let mut bitmap_is_stale = false;
    let bitmap = match bitmap_of(&members, &roles, &sb) {
        None => None,
        Some(Ok(bitmap)) if bitmap.is_current(sb.bitmap_uuid(), sb.events()) => Some(bitmap),
        Some(Ok(mut bitmap)) if bitmap.superblock.uuid == sb.bitmap_uuid() => {
            warnings
                .push("the write-intent bitmap is out of date: all its bits count as set".into());
            bitmap_is_stale = true;
            bitmap.set_all();
            Some(bitmap)
        }
        Some(Ok(_)) => {
            warnings
                .push("the write-intent bitmap belongs to another array and is not used".into());
            None
        }
        Some(Err(why)) => {
            warnings.push(format!("the write-intent bitmap is not used: {why}"));
            None
        }
    };
    let assembly = Assembly {
        members,
        reference,
        roles,
        geometry,
        reshaped,
        bitmap,
        bitmap_is_stale,
        is_replayed: false,
        is_forced: false,
        warnings,
    };
    if assembly.can_run() {
        Ok(assembly)
    } else {
        Err(too_many_missing(&assembly.members, &sb, &assembly.roles))
    }
}

/// Returns what the member with superblock `own` is, by the role table of `reference`.
fn freshness(own: &Superblock, reference: &Superblock) -> Freshness {
    let events = own.events();
    let fresh = events.saturating_add(1) >= reference.events();
    match (own.role(), reference.role_of(own.dev_number())) {
        (Role::Active(claimed), Role::Active(role)) if fresh && claimed == role => {
            match own.recovery_offset() {
                None => Freshness::InSync { role },
                Some(until) => Freshness::Rebuilding { role, until },
            }
        }
        (Role::Journal, Role::Journal) if fresh => Freshness::Journal,
        // Spares do not need every update.
        (Role::Spare, Role::Spare) => Freshness::Spare,
        _ if fresh => Freshness::Faulty,
        _ => Freshness::Stale { events },
    }
}

/// Checks that a fresh member describes the same array.
fn check_consistent(member: &AssembledMember, reference: &AssembledMember) -> Result<(), Error> {
    let (own, sb) = (&member.superblock, &reference.superblock);
    let fields = [
        ("level", i64::from(own.level()), i64::from(sb.level())),
        ("layout", i64::from(own.layout()), i64::from(sb.layout())),
        ("raid_disks", i64::from(own.raid_disks()), i64::from(sb.raid_disks())),
        ("chunk", wide(own.chunk()), wide(sb.chunk())),
        ("size", wide(own.size()), wide(sb.size())),
        ("reshape_position", position(own), position(sb)),
    ];
    match fields.into_iter().find(|(_, found, expected)| found != expected) {
        None => Ok(()),
        Some((field, found, expected)) => Err(Error::Disagree {
            one: member.name.clone(),
            other: reference.name.clone(),
            field,
            found: found.to_string(),
            expected: expected.to_string(),
        }),
    }
}

fn wide(sectors: Sectors) -> i64 {
    i64::try_from(sectors.0).unwrap_or(i64::MAX)
}

fn position(sb: &Superblock) -> i64 {
    sb.reshape().map_or(-1, |reshape| wide(Sectors(reshape.position.0)))
}

/// Refuses two halves that each went on alone and are equally new.
fn check_split_brain(reference: &AssembledMember, faulty: &AssembledMember) -> Result<(), Error> {
    let (sb, own) = (&reference.superblock, &faulty.superblock);
    let active = |role| matches!(role, Role::Active(_));
    let mutual = active(own.role()) && !active(own.role_of(sb.dev_number()));
    if mutual && own.events() == sb.events() {
        let (one, other) = (reference.name.clone(), faulty.name.clone());
        return Err(Error::SplitBrain { one, other, events: sb.events() });
    }
    Ok(())
}

/// Returns the member that serves each role. If there are two, the one that is not a replacement
/// serves.
fn assign_roles(
    members: &mut [AssembledMember],
    raid_disks: u32,
) -> Result<Vec<Option<usize>>, Error> {
    let mut roles: Vec<Option<usize>> = (0..raid_disks).map(|_| None).collect();
    // Replacements come last and take what is left.
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|i| members[*i].superblock.is_replacement());
    for i in order {
        let (Freshness::InSync { role } | Freshness::Rebuilding { role, .. }) =
            members[i].freshness
        else {
            continue;
        };
        let taken = usize::try_from(role).ok().and_then(|role| roles.get_mut(role));
        match taken {
            None => members[i].freshness = Freshness::Faulty,
            Some(slot @ None) => *slot = Some(i),
            Some(Some(_)) if members[i].superblock.is_replacement() => {
                members[i].freshness = Freshness::Replacement { role };
            }
            Some(Some(other)) => {
                let (one, other) = (members[*other].name.clone(), members[i].name.clone());
                return Err(Error::RoleTaken { role, one, other });
            }
        }
    }
    Ok(roles)
}

enum Failed {
    Geometry(crate::GeometryError),
    Missing,
}

impl From<crate::GeometryError> for Failed {
    fn from(error: crate::GeometryError) -> Self {
        Self::Geometry(error)
    }
}

/// Returns the geometry of the array, or the old and the new one while it is reshaped.
fn geometries(
    members: &[AssembledMember],
    sb: &Superblock,
    roles: &[Option<usize>],
) -> Result<(Geometry, Option<Reshaped>), Failed> {
    let raid_disks = sb.raid_disks();
    let sizes = if matches!(sb.level(), -1 | 0) {
        let size = |role: &Option<usize>| role.map(|i| members[i].superblock.data_size());
        roles.iter().map(size).collect::<Option<Vec<_>>>().ok_or(Failed::Missing)?
    } else {
        Vec::new()
    };
    let Some(reshape) = sb.reshape() else {
        return Ok((geometry(sb, raid_disks, &sizes)?, None));
    };
    let (before, after) = disks(raid_disks, &reshape);
    let layout = Layout::from_numbers(reshape.new_level, reshape.new_layout)?;
    let new = Geometry::new(layout, reshape.new_chunk, after, sb.size(), &sizes)?;
    Ok((geometry(sb, before, &sizes)?, Some(Reshaped { reshape, geometry: new })))
}

/// Returns the number of roles before and after. The superblock has the larger number.
fn disks(raid_disks: u32, reshape: &Reshape) -> (u32, u32) {
    let fewer = raid_disks.saturating_sub(reshape.delta_disks.unsigned_abs());
    if reshape.delta_disks > 0 { (fewer, raid_disks) } else { (raid_disks, fewer) }
}

fn too_many_missing(
    members: &[AssembledMember],
    sb: &Superblock,
    roles: &[Option<usize>],
) -> Error {
    let out = |member: &&AssembledMember| {
        matches!(member.freshness, Freshness::Stale { .. } | Freshness::Faulty)
    };
    Error::TooManyMissing {
        level: crate::Level::from_number(sb.level())
            .map_or_else(|| sb.level().to_string(), |level| level.name().to_owned()),
        raid_disks: sb.raid_disks(),
        missing: (0..roles.len()).filter(|role| roles[*role].is_none()).collect(),
        left_out: members.iter().filter(out).map(|member| member.name.clone()).collect(),
    }
}
