//! Options of a replay.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Options of the replay of a dirty journal.
#[derive(Clone, Debug, Default)]
pub struct ReplayOptions {
    /// Receives the progress.
    pub on_progress: Option<OnReplay>,
    /// A replay in memory may change more than memory should hold. The rest goes to a file without
    /// a name in this directory; without a directory it stays in memory.
    pub spill_dir: Option<PathBuf>,
}

/// Receives the progress of a replay: the journal blocks read, and those to be read in all. Each is
/// read twice.
#[derive(Clone)]
pub struct OnReplay(pub Arc<dyn Fn(u64, u64) + Send + Sync>);

impl fmt::Debug for OnReplay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnReplay")
    }
}

impl ReplayOptions {
    pub(crate) fn progress(&self, done: u64, total: u64) {
        if let Some(OnReplay(on_progress)) = &self.on_progress {
            on_progress(done, total);
        }
    }
}
