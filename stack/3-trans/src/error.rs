//! Why a transaction cannot continue.

use std::sync::Arc;

use crate::buf::BufError;
use crate::log_item::LogItem;

/// The first cause of the shutdown of a volume.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the volume was shut down: {0}")]
pub struct ShutDown(pub Arc<str>);

/// Why a transaction cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum TransError {
    /// A block could not be read.
    #[error(transparent)]
    Buf(#[from] BufError),
    /// Another transaction holds a lock that this one may not wait for. The caller drops this
    /// transaction, calls [`wait`](Busy::wait), and runs it again.
    #[error("another transaction holds a lock that this one needs")]
    Busy(Busy),
    /// The volume was shut down earlier.
    #[error(transparent)]
    ShutDown(#[from] ShutDown),
}

/// The lock that a transaction could not take.
#[derive(Debug)]
pub struct Busy(pub(crate) Arc<LogItem>);
