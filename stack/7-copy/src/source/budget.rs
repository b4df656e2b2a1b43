//! Limits on reading archives.
//!
//! A few bytes of a compressed archive can request any amount of memory, content and work. All of
//! it is charged here as it is read, and refused before it is taken.
//!
//! - Memory (names, attributes, maps of holes): `MEMORY`, and `GROWTH` times the bytes of the
//!   archives as read; at most half of the machine's memory; or the limit that the caller sets.
//! - Work (headers, names looked up, attributes copied, bytes skipped): a step for every
//!   `BYTES_PER_STEP` bytes of memory, independent of the machine.
//! - Content (data of files, without holes): the space of the volume, if it is known. Files of
//!   lower layers that were removed do not count.
//!
//! Every `STEPS_PER_LOOK` steps the caller gets the progress and may stop.

use super::{OnProgress, Progress, SourceOptions};

/// Memory that any archive may take, in bytes.
const MEMORY: u64 = 128 << 20;
/// Memory, in bytes, for every byte of archives as read. A name takes 10 bytes or more in a
/// compressed archive, and about 300 here.
const GROWTH: u64 = 64;
/// Bytes of memory per step of work.
const BYTES_PER_STEP: u64 = 16;
/// Number of steps between two calls of the progress function.
const STEPS_PER_LOOK: u64 = 1024;
/// Memory of an inode with its name, here and in the finished tree, in bytes, without the bytes of
/// the name.
pub(super) const INODE: u64 = 320;

/// The limit that an archive exceeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Limit {
    /// Names, attributes and maps, in bytes.
    #[error("names and attributes of the archive take more than {0} bytes of memory")]
    Memory(u64),
    /// Data of files, in bytes.
    #[error("the content of the archive is more than the {0} bytes that the volume has")]
    Content(u64),
    /// Headers, names looked up, attributes copied.
    #[error("the archive takes more than {0} steps of work")]
    Work(u64),
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
}

/// The memory, work and content taken so far by all archives of a tree, with their limits.
pub(super) struct Budget<'p> {
    on_progress: OnProgress<'p>,
    pub(super) progress: Progress,
    /// Limit on memory that the caller set.
    memory_limit: Option<u64>,
    half_of_memory: u64,
    memory: u64,
    content_limit: u64,
    content: u64,
    steps: u64,
    /// Step at which the progress function is called next.
    next_look: u64,
}

impl<'p> Budget<'p> {
    pub(super) fn new(options: &SourceOptions, on_progress: OnProgress<'p>) -> Self {
        Self {
            on_progress,
            progress: Progress::default(),
            memory_limit: options.memory_limit,
            half_of_memory: half_of_memory(),
            memory: 0,
            content_limit: options.content_limit.unwrap_or(u64::MAX),
            content: 0,
            steps: 0,
            next_look: STEPS_PER_LOOK,
        }
    }

    /// Returns the memory that archives of this size may take, in bytes.
    fn growth(&self) -> u64 {
        MEMORY.saturating_add(self.progress.bytes.saturating_mul(GROWTH))
    }

    fn check_memory(&self, bytes: u64) -> Result<(), Limit> {
        let limit = self.memory_limit.unwrap_or_else(|| self.growth().min(self.half_of_memory));
        if bytes > limit { Err(Limit::Memory(limit)) } else { Ok(()) }
    }

    /// Takes `bytes` of memory that the tree keeps.
    pub(super) fn keep(&mut self, bytes: u64) -> Result<(), Limit> {
        self.memory = self.memory.saturating_add(bytes);
        self.check_memory(self.memory)
    }

    /// Checks that there is memory for `bytes` that will be freed again.
    pub(super) fn borrow(&self, bytes: u64) -> Result<(), Limit> {
        self.check_memory(self.memory.saturating_add(bytes))
    }

    /// Counts steps of work.
    pub(super) fn work(&mut self, steps: u64) -> Result<(), Limit> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps < self.next_look {
            return Ok(());
        }
        self.next_look = self.steps.saturating_add(STEPS_PER_LOOK);
        if (self.on_progress)(self.progress).is_break() {
            return Err(Limit::Stopped);
        }
        let limit = self.growth().max(self.memory_limit.unwrap_or(0)) / BYTES_PER_STEP;
        if self.steps > limit { Err(Limit::Work(limit)) } else { Ok(()) }
    }

    /// Reports progress when much was read in few steps.
    pub(super) fn look(&self) -> Result<(), Limit> {
        if (self.on_progress)(self.progress).is_break() { Err(Limit::Stopped) } else { Ok(()) }
    }

    /// Returns true if `bytes` more of content are within the limit.
    pub(super) fn fits(&self, bytes: u64) -> bool {
        self.content.saturating_add(bytes) <= self.content_limit
    }

    /// Takes `bytes` of content.
    pub(super) fn hold(&mut self, bytes: u64) -> Result<(), Limit> {
        self.content = self.content.saturating_add(bytes);
        if self.content > self.content_limit {
            return Err(Limit::Content(self.content_limit));
        }
        Ok(())
    }

    /// Sets the content that is still part of the tree.
    pub(super) fn recount(&mut self, content: u64) {
        self.content = content;
    }
}

/// Returns half of the machine's memory, in bytes, or no bound if it is not known.
fn half_of_memory() -> u64 {
    let info = rustix::system::sysinfo();
    let bytes = u128::from(info.totalram) * u128::from(info.mem_unit) / 2;
    u64::try_from(bytes).ok().filter(|&bytes| bytes > 0).unwrap_or(u64::MAX)
}
