//! Assembly by force: an array that lacks members takes the least stale of those that it left out.
//!
//! That is what `mdadm --assemble --force` does. A controller that dropped out for a moment leaves members a
//! few events behind: what was written in between is missing from them, and everything else is there. Of an
//! array that was not shut down cleanly and lacks members, parity is believed as it stands.

use super::{AssembledMember, Assembly, Error, Member, freshness};
use super::{check_duplicates, check_same_array, read_member, reference};
use crate::superblock::Role;

/// What `members` make, with stale ones where there are not enough others. Nothing is written before the
/// array is; then the superblocks say that they belong to it again. Warnings say what is risked.
///
/// # Errors
/// As [`assemble`](super::assemble()).
pub fn assemble_by_force(members: Vec<Member>) -> Result<Assembly, Error> {
    let mut members = members.into_iter().map(read_member).collect::<Result<Vec<_>, _>>()?;
    check_same_array(&members)?;
    check_duplicates(&members)?;
    let reference = reference(&members).ok_or(Error::Nothing)?;
    let mut warnings = Vec::new();
    loop {
        match freshness::classify(members.clone(), reference) {
            Ok(mut assembly) => {
                assembly.is_forced = true;
                assembly.warnings.append(&mut warnings);
                assembly.add_warnings();
                return Ok(assembly);
            }
            Err(Error::TooManyMissing { missing, level, raid_disks, left_out }) => {
                let Some((i, role)) = least_stale(&members, reference, &missing) else {
                    return Err(Error::TooManyMissing { missing, level, raid_disks, left_out });
                };
                warnings.push(force_fresh(&mut members, reference, i, role));
            }
            Err(error) => return Err(error),
        }
    }
}

/// Of the members that say they serve one of these roles, and are not believed, the newest.
fn least_stale(
    members: &[AssembledMember],
    reference: usize,
    missing: &[usize],
) -> Option<(usize, u32)> {
    let sb = &members[reference].superblock;
    let candidates = members.iter().enumerate().filter_map(|(i, member)| {
        let own = &member.superblock;
        let Role::Active(role) = own.role() else { return None };
        let wanted = usize::try_from(role).is_ok_and(|role| missing.contains(&role));
        let believed = sb.role_of(own.dev_number()) == Role::Active(role)
            && own.events().saturating_add(1) >= sb.events();
        (wanted && !believed && own.recovery_offset().is_none()).then_some((i, role))
    });
    candidates.max_by_key(|(i, _)| members[*i].superblock.events())
}

/// Makes a member as new as the others, in memory; says what that risks.
fn force_fresh(members: &mut [AssembledMember], reference: usize, i: usize, role: u32) -> String {
    let sb = &members[reference].superblock;
    let (events, resync_offset) = (sb.events(), sb.resync_offset());
    let own = &mut members[i].superblock;
    let behind = events.saturating_sub(own.events());
    let number = own.dev_number();
    own.set_state(events, resync_offset);
    for member in members.iter_mut() {
        member.superblock.set_active(number, role);
    }
    format!(
        "{}: taken by force for role {role}, {behind} events behind: what was written since is wrong \
         where it stands there",
        members[i].name
    )
}
