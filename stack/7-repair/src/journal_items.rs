//! The items that the journal of a volume still holds.

use xfskit_block::BlockDevice;
use xfskit_format::Ctx;
use xfskit_format::log::item::Item;
use xfskit_log::{Error as LogError, Log};
use xfskit_recovery::for_items;
use xfskit_units::{Geometry, Lsn};

use crate::error::Result;

/// Receives an item, with the LSN of its transaction.
pub(crate) type OnItem<'i> = dyn FnMut(&Item<'_>, Lsn, &Ctx<'_>) + 'i;

/// Passes the items of all transactions that the journal on `dev` holds to `each`, oldest first:
/// also of those before the tail, which are in place. None if its head cannot be found. Damaged
/// transactions are left out.
pub(crate) fn each(dev: &dyn BlockDevice, geo: &Geometry, each: &mut OnItem<'_>) -> Result<()> {
    let Some(start) = geo.log_daddr() else { return Ok(()) };
    let log = match Log::open(dev, start, geo) {
        Ok(log) => log,
        Err(LogError::Corrupt(_)) => return Ok(()),
        Err(LogError::Device(error)) => return Err(error.into()),
    };
    let mut history = log.history();
    while let Some(transaction) = history.next() {
        let transaction = match transaction {
            Ok(transaction) => transaction,
            Err(LogError::Corrupt(_)) => continue,
            Err(LogError::Device(error)) => return Err(error.into()),
        };
        // An interrupted write may have left records ahead of the head.
        if transaction.lsn >= log.head() {
            continue;
        }
        let ctx = history.ctx(&transaction);
        let lsn = transaction.lsn;
        let _ = for_items(&transaction, &ctx, |items| {
            for item in items.iter() {
                each(item, lsn, &ctx);
            }
            Ok(())
        });
    }
    Ok(())
}
