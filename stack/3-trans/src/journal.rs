//! The journal of a writable volume, as checkpoints leave it.

use xfskit_log::{AppendError, LogWriter, Payload, Stats};
use xfskit_units::Lsn;

use crate::buf::BufError;
use crate::intents::OpenIntents;

/// Why a checkpoint could not be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalError {
    #[error("the journal cannot be written: {0}")]
    Append(#[from] AppendError),
    #[error("the journal cannot be written: {0}")]
    Log(#[from] xfskit_log::Error),
    #[error("metadata cannot be written back: {0}")]
    WriteBack(#[from] BufError),
    #[error("a bug in xfskit: panic during the write of a file's data")]
    DataLost,
}

/// The journal of a writable volume.
#[derive(Debug)]
pub struct Journal {
    pub(crate) writer: LogWriter,
    pub(crate) payload: Payload,
    /// Start of the newest checkpoint: the tail if everything is in place.
    pub(crate) last: Lsn,
    /// Intents that were logged since the journal was opened and are not done.
    pub(crate) intents: OpenIntents,
    /// Start of older intents that recovery has not finished: the tail stays at or before it.
    pub(crate) recovery_tail: Option<Lsn>,
}

impl Journal {
    /// Returns the journal behind `writer`. Everything before the writer's tail is in place;
    /// intents may stand at the tail.
    pub fn new(writer: LogWriter) -> Self {
        let (last, tail) = (writer.next_lsn(), writer.tail());
        let recovery_tail = (tail < last).then_some(tail);
        Self {
            writer,
            payload: Payload::new(),
            last,
            intents: OpenIntents::default(),
            recovery_tail,
        }
    }

    /// Releases the tail of the replayed journal: see [`Engine::release_tail`].
    pub(crate) fn release_tail(&mut self) {
        self.recovery_tail = None;
    }

    /// Returns what was written so far.
    pub fn stats(&self) -> Stats {
        self.writer.stats()
    }

    /// Marks the journal clean. Everything is in place.
    pub(crate) fn unmount(&mut self) -> Result<(), JournalError> {
        Ok(self.writer.unmount()?)
    }
}
