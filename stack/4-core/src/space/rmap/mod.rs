//! Reverse mappings: who owns each used block.
//!
//! What becomes of the records is decided in [`plan`], on plain records; here they are found in the tree and
//! the edits are made. The caller holds the AGF and has filled the AGFL. Without RMAPBT, and for
//! [`Owner::Unmapped`], there is nothing to do.

#[expect(dead_code, reason = "waits for the cursor")]
mod plan;
#[cfg(test)]
mod tests;

use xfskit_units::{AgBlock, AgNumber, ExtLen, FsBlock};

use crate::error::{Error, Result};
use crate::space::Owner;
use crate::tx::Tx;

/// What is done with an extent of group `agno`.
pub(super) type Change = fn(&mut Tx<'_>, AgNumber, AgBlock, ExtLen, Owner) -> Result<()>;

/// Makes a change that was put off.
pub(super) fn deferred(
    tx: &mut Tx<'_>,
    start: FsBlock,
    len: ExtLen,
    owner: Owner,
    change: Change,
) -> Result<()> {
    let Some((agno, agbno)) = tx.volume().geo().fsb_split(start) else {
        return Err(Error::Unsupported(format!("block {start:#x}, in no group")));
    };
    change(tx, agno, agbno, len, owner)
}

/// `[agbno, agbno + len)` of group `agno` now belongs to `owner`.
pub(crate) fn map(
    tx: &mut Tx<'_>,
    agno: AgNumber,
    agbno: AgBlock,
    len: ExtLen,
    owner: Owner,
) -> Result<()> {
    let _ = (agno, agbno, len);
    refuse(tx, owner)
}

/// `[agbno, agbno + len)` of group `agno` no longer belongs to `owner`.
pub(crate) fn unmap(
    tx: &mut Tx<'_>,
    agno: AgNumber,
    agbno: AgBlock,
    len: ExtLen,
    owner: Owner,
) -> Result<()> {
    let _ = (agno, agbno, len);
    refuse(tx, owner)
}

/// `[agbno, agbno + len)` of group `agno`, which belongs to `owner`, changes from written to unwritten, or back.
pub(super) fn convert(
    tx: &mut Tx<'_>,
    agno: AgNumber,
    agbno: AgBlock,
    len: ExtLen,
    owner: Owner,
) -> Result<()> {
    let _ = (agno, agbno, len);
    refuse(tx, owner)
}

fn refuse(tx: &Tx<'_>, owner: Owner) -> Result<()> {
    if owner == Owner::Unmapped || !tx.volume().geo().features.rmapbt() {
        return Ok(());
    }
    Err(Error::Unsupported("changing a volume with reverse mappings (rmapbt)".into()))
}
