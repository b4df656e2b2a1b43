//! Transactions of the floor under test.

use xfskit_core::Volume;
use xfskit_space::{Result, SpaceTx};

/// Runs `change` in a transaction of `volume`.
pub(crate) fn transact<T>(
    volume: &Volume,
    mut change: impl FnMut(&mut SpaceTx<'_>) -> Result<T>,
) -> xfskit_core::Result<T> {
    volume.transact(|tx| Ok(change(tx)?))
}
