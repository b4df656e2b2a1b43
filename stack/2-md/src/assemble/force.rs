//! Assembly by force: an array with too few fresh members takes the least stale of those that were
//! left out.
//!
//! `mdadm --assemble --force` does the same. After a controller dropped out for a moment, its
//! members are a few events behind: they miss what was written in between and hold everything else.
//! If an array was not shut down cleanly and lacks members, its parity is trusted as it is.

use super::{AssembledMember, Assembly, Error, Member, freshness};
use super::{check_duplicates, check_same_array, read_member, reference};
use crate::superblock::Role;

/// Assembles `members`, with stale ones if there are too few fresh ones. Nothing is written until
/// the array is written; then the superblocks include the stale members again. Warnings describe
/// the risk.
///
/// # Errors
/// See [`assemble`](super::assemble()).
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

/// Returns the newest member that claims one of these roles and is not fresh.
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
        let fresh = sb.role_of(own.dev_number()) == Role::Active(role)
            && own.events().saturating_add(1) >= sb.events();
        (wanted && !fresh && own.recovery_offset().is_none()).then_some((i, role))
    });
    candidates.max_by_key(|(i, _)| members[*i].superblock.events())
}

/// Makes a member fresh, in memory. Returns a warning about the risk.
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
        "{}: used by force for role {role}, {behind} events behind: what was written since then is \
         wrong on it",
        members[i].name
    )
}
