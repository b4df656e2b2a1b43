//! Errors of recovery, and where a journal is damaged.

use std::fmt;

use xfskit_format::Corruption;
use xfskit_format::sb::SbError;
use xfskit_units::Lsn;

/// An error of recovery.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] xfskit_block::Error),
    /// The superblock does not allow the replay.
    #[error(transparent)]
    Superblock(#[from] SbError),
    /// A check failed.
    #[error(transparent)]
    Corrupt(#[from] Box<Corruption>),
    /// The journal cannot be read or replayed.
    #[error("the journal: {0}")]
    Journal(String),
    /// The journal is damaged between tail and head, or a block that it changes is damaged.
    #[error(transparent)]
    JournalDamaged(Box<JournalDamage>),
}

/// The position of a journal's damage, and the intact part before it.
#[derive(Clone, Debug)]
pub struct JournalDamage {
    /// The corruption.
    pub fault: Corruption,
    /// The damaged record, by cycle and block. `None` if not even head and tail can be found.
    pub record: Option<Lsn>,
    /// Number of committed transactions before it that can still be replayed.
    pub transactions: u64,
    /// The positions of the first and the last of these transactions.
    pub whole: Option<(Lsn, Lsn)>,
}

impl fmt::Display for JournalDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fault, record, transactions, whole } = self;
        let Some(record) = record else {
            return write!(
                f,
                "the journal cannot be replayed, for its head cannot be found: {fault}"
            );
        };
        let (cycle, block) = (record.cycle(), record.block());
        write!(
            f,
            "the journal cannot be replayed beyond its record at block {block} of cycle {cycle}: {fault}; "
        )?;
        match whole {
            None => f.write_str("no transaction before it can be replayed"),
            Some((only, _)) if *transactions == 1 => {
                write!(f, "1 transaction before it, at {only}, can be replayed")
            }
            Some((first, last)) => {
                write!(
                    f,
                    "{transactions} transactions before it, {first} to {last}, can be replayed"
                )
            }
        }
    }
}

impl std::error::Error for JournalDamage {}

/// The result of a recovery.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<xfskit_log::Error> for Error {
    fn from(err: xfskit_log::Error) -> Self {
        match err {
            xfskit_log::Error::Device(err) => Self::Device(err),
            xfskit_log::Error::Corrupt(fault) => Self::Corrupt(fault),
        }
    }
}
