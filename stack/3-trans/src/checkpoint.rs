//! The checkpoint: what is listed becomes records in the journal.
//!
//! 1. The gate is closed, the changed ranges of every listed object are copied into the payload as log
//!    items, the gate is opened.
//! 2. Data that the changes refer to is waited for.
//! 3. The records are written. The first flush also covers all earlier write-back, so that the tail they
//!    carry is true; the last makes them durable.
//! 4. The objects go to the AIL, unpinned; extents that were freed may be used again.
//! 5. The journal is made roomy for the next checkpoint (engine, invariant 2).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use xfskit_units::Lsn;

use crate::buf::BufError;
use crate::engine::{Engine, Listed};
use crate::object::Object;

/// Why a checkpoint could not be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalError {
    #[error("metadata cannot be written back: {0}")]
    WriteBack(#[from] BufError),
}

/// The journal of a writable volume.
#[derive(Debug)]
pub struct Journal {
    head: Lsn,
}

impl Journal {
    /// The journal, clean, whose next record begins at `head`.
    pub fn new(head: Lsn) -> Self {
        Self { head }
    }

    /// Writes all that is listed.
    pub(crate) fn checkpoint(&mut self, engine: &Engine) -> Result<(), JournalError> {
        let taken = engine.take_list(format);
        taken.data.wait();
        for (object, stale) in taken.objects.iter().zip(taken.formatted) {
            match object.lsn() {
                Some(lsn) if stale => engine.ail.remove(object, lsn),
                None if stale => {}
                _ => engine.ail.insert(Arc::clone(object), self.head),
            }
            object.pins.fetch_sub(1, Ordering::AcqRel);
        }
        engine.is_durable(taken.number);
        Ok(())
    }

    /// Everything that is durable in the journal goes in place.
    pub(crate) fn write_back_all(&mut self, engine: &Engine) -> Result<(), JournalError> {
        Ok(engine.ail.push(engine, Lsn(u64::MAX))?)
    }

    /// Marks the journal clean. Everything is in place.
    pub(crate) fn unmount(&mut self, engine: &Engine) -> Result<(), JournalError> {
        let flushed = engine.device().flush();
        flushed.map_err(|error| JournalError::WriteBack(error.into()))
    }
}

/// Copies what is listed into the payload; answers which objects were cancelled.
fn format(listed: &Listed) -> Vec<bool> {
    listed.objects.iter().map(|object| format_object(object)).collect()
}

fn format_object(object: &Object) -> bool {
    let mut content = object.lock.write();
    content.listed = false;
    content.dirty = crate::object::Chunks::default();
    content.unlinked = false;
    content.stale
}
