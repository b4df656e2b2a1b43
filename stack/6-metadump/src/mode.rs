//! What to do with the journal, and what was done.

use serde::Serialize;

/// What to do with the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JournalMode {
    /// A clean journal is cleared. A dirty one is replayed in memory with obfuscation, and copied
    /// without.
    #[default]
    Auto,
    /// The journal is copied as it is, with its clear names.
    Copy,
    /// A dirty journal is replayed in memory in any case.
    Replay,
    /// An external journal is left out.
    Omit,
}

/// How the journal was handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Handling {
    /// It was clean, and old records were left out.
    Cleared,
    /// It was replayed in memory first. The volume itself was not changed.
    Replayed,
    /// It is in the file as it is.
    Copied,
    /// It is not in the file.
    Omitted,
}
