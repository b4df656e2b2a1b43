//! Reverse mappings of what the allocator hands out and takes back.

use xfskit_units::{AgBlock, AgNumber, ExtLen};

use crate::error::{Error, Result};
use crate::space::Owner;
use crate::tx::Tx;

/// `[agbno, agbno + len)` of group `agno` now belongs to `owner`. Nothing to do without RMAPBT, or for
/// [`Owner::Unmapped`]. The caller holds the AGF and has filled the AGFL.
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

fn refuse(tx: &Tx<'_>, owner: Owner) -> Result<()> {
    if owner == Owner::Unmapped || !tx.volume().geo().features.rmapbt() {
        return Ok(());
    }
    Err(Error::Unsupported("changing a volume with reverse mappings (rmapbt)".into()))
}
