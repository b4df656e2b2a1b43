//! Filling of a group's free list to the length that its trees may need.

use std::cmp::Ordering;

use xfskit_format::{Expected, agf, agfl as format_agfl};
use xfskit_trans::Handle;
use xfskit_units::{AgBlock, AgNumber, ExtLen};

use crate::agfl;
use crate::error::Result;
use crate::extent::Owner;
use crate::free_space;
use crate::rmap;
use crate::tx::SpaceTx;

/// Brings the list of a group to the length that it needs, as far as free space permits. The caller
/// holds the AGF.
///
/// Each round changes the trees, which may then need more blocks or free some, so several rounds
/// may be needed. A list that is slightly too short or long in the end is acceptable, because each
/// call corrects it again.
pub(crate) fn fix(tx: &mut SpaceTx<'_>, agno: AgNumber, agf: Handle) -> Result<()> {
    let geo = tx.space().geo();
    let slots = format_agfl::slots(geo);
    if !agfl::holds_together(tx.bytes(agf), slots) {
        let ctx = tx.space().ctx(agf::location(geo, agno));
        let wanted = Expected::Described("the slots from flfirst to fllast".into());
        return Err(ctx.corruption("agf.flcount", wanted, agfl::count(tx.bytes(agf))).into());
    }
    for _ in 0..slots {
        let have = agfl::count(tx.bytes(agf));
        let need = agfl::need(geo, tx.bytes(agf));
        match have.cmp(&need) {
            Ordering::Greater => {
                let agbno = agfl::take(tx, agno)?;
                rmap::unmap(tx, agno, agbno, ExtLen(1), Owner::Ag)?;
                free_space::give_back(tx, agno, agbno, ExtLen(1))?;
            }
            Ordering::Less => {
                let Some((agbno, len)) = free_space::take_for_list(tx, agno, need - have)? else {
                    break;
                };
                for n in 0..len.0 {
                    agfl::put(tx, agno, AgBlock(agbno.0 + n))?;
                }
                rmap::map(tx, agno, agbno, len, Owner::Ag)?;
            }
            Ordering::Equal => break,
        }
    }
    Ok(())
}
