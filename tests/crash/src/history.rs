//! The history of one worker: its operations, the durability that it was guaranteed, and the states
//! that may be found after a crash.
//!
//! Names, owners and attributes change atomically with each operation, so the tree after a crash
//! must be one that existed. Content follows when it is flushed, each range on its own. After a
//! crash each byte of a file must be the one of the last sync, or one that was written there since.
//! Any other byte is a stale block, or the loss of synced data.

use std::collections::HashMap;
use std::sync::Arc;

use crate::pattern::{WORD, explain};
use crate::tree::{Key, TreeState};

/// The versions of a file's content, and its syncs.
#[derive(Clone, Debug, Default)]
struct File {
    /// The operation that made each version, and the content.
    versions: Vec<(usize, Arc<Vec<u8>>)>,
    /// For each sync of this file: the number of events when it returned, and the last operation
    /// before it.
    syncs: Vec<(usize, usize)>,
}

/// The history of one worker below its directory.
#[derive(Clone, Debug)]
pub struct History {
    /// A digest of the names below the directory, before the first operation and after each.
    names: Vec<u64>,
    /// The number of events when each operation began; one for each of `names` after the first.
    begun: Vec<usize>,
    /// For each sync of the volume: the number of events when it returned, and the last operation
    /// before it.
    syncs: Vec<(usize, usize)>,
    /// For each sync of the directory alone: the number of events when it returned, and the last
    /// operation that had changed the directory.
    dir_syncs: Vec<(usize, usize)>,
    /// The last operation that changed the directory, so far.
    dir_changed_at: usize,
    files: HashMap<Key, File>,
    /// A description of each operation.
    descriptions: Vec<String>,
}

/// Returns the last operation that a sync had made durable when `returned` events had returned.
fn last_durable(syncs: &[(usize, usize)], returned: usize) -> usize {
    let durable = syncs.iter().filter(|(events, _)| *events <= returned);
    durable.map(|&(_, op)| op).max().unwrap_or(0)
}

impl History {
    /// Returns an empty history; `names` is the digest of the names before any operation.
    pub fn new(names: u64) -> Self {
        Self {
            names: vec![names],
            begun: vec![],
            syncs: vec![(0, 0)],
            dir_syncs: vec![],
            dir_changed_at: 0,
            files: HashMap::new(),
            descriptions: vec![],
        }
    }

    /// Returns the number of operations so far.
    pub fn len(&self) -> usize {
        self.begun.len()
    }

    /// Returns whether there are no operations yet.
    pub fn is_empty(&self) -> bool {
        self.begun.is_empty()
    }

    /// Begins an operation; the device has seen `events`.
    pub fn begin(&mut self, events: usize) {
        self.begun.push(events);
        self.descriptions.push(String::new());
    }

    /// Describes the running operation.
    pub fn describe(&mut self, what: String) {
        if let Some(last) = self.descriptions.last_mut() {
            *last = what;
        }
    }

    /// Returns the descriptions of the last operations, for the report of a failure.
    fn recent(&self, since: usize, last: usize) -> String {
        let recent = self.descriptions.iter().zip(1..).take(last).skip(since.saturating_sub(15));
        recent.map(|(what, op)| format!("{op}: {what}")).collect::<Vec<_>>().join("; ")
    }

    /// Ends the operation. `names` is the new digest; `dir_changed` is whether it changed the
    /// directory itself.
    pub fn end(&mut self, names: u64, dir_changed: bool) {
        self.names.push(names);
        if dir_changed {
            self.dir_changed_at = self.begun.len();
        }
    }

    /// Notes that the running operation gives a file this content.
    pub fn content(&mut self, file: Key, content: Arc<Vec<u8>>) {
        let op = self.begun.len();
        self.files.entry(file).or_default().versions.push((op, content));
    }

    /// Returns the current content of a file, if this worker knows it.
    pub fn current(&self, file: Key) -> Option<&Arc<Vec<u8>>> {
        self.files.get(&file)?.versions.last().map(|(_, content)| content)
    }

    /// Notes a sync of the volume; the device has seen `events`.
    pub fn synced(&mut self, events: usize) {
        self.syncs.push((events, self.begun.len()));
    }

    /// Notes a sync of the directory.
    pub fn dir_synced(&mut self, events: usize) {
        self.dir_syncs.push((events, self.dir_changed_at));
    }

    /// Notes a sync of a file.
    pub fn synced_file(&mut self, file: Key, events: usize) {
        let op = self.begun.len();
        self.files.entry(file).or_default().syncs.push((events, op));
    }

    /// Verifies the state that was found after a crash at which `returned` events had returned and
    /// `begun` had begun.
    ///
    /// # Errors
    /// A state that is not allowed.
    pub fn verify(&self, seen: &TreeState, returned: usize, begun: usize) -> Result<(), String> {
        let synced = last_durable(&self.syncs, returned);
        let first = synced.max(last_durable(&self.dir_syncs, returned));
        let last = self.begun.partition_point(|&events| events < begun).max(first);
        if !self.names[first..=last].contains(&seen.names) {
            let when = self.names.iter().rposition(|names| *names == seen.names);
            let when = when.map_or("never existed".into(), |op| format!("existed after {op}"));
            return Err(format!(
                "the tree {when}, not after any of operations {first}..={last}; recent operations: {}",
                self.recent(first, last)
            ));
        }
        for (key, content) in &seen.files {
            let Some(file) = self.files.get(key) else {
                if self.files.is_empty() {
                    // The content of this file was not recorded.
                    continue;
                }
                return Err(format!("inode {key:?} was never a file"));
            };
            let since = synced.max(last_durable(&file.syncs, returned));
            file.verify(content, since, last).map_err(|why| {
                format!("file {key:?}: {why}; recent operations: {}", self.recent(since, last))
            })?;
        }
        Ok(())
    }
}

impl File {
    /// Verifies the content that was found, if operation `since` is durable and `last` is the
    /// newest.
    fn verify(&self, seen: &[u8], since: usize, last: usize) -> Result<(), String> {
        let durable = self.versions.iter().rposition(|(op, _)| *op <= since).unwrap_or(0);
        let newest = self.versions.partition_point(|(op, _)| *op <= last).max(durable + 1);
        let allowed = &self.versions[durable..newest];
        if allowed.iter().any(|(_, content)| content[..] == *seen) {
            return Ok(());
        }
        let lens = || allowed.iter().map(|(_, content)| content.len());
        let (least, most) = (lens().min().unwrap_or(0), lens().max().unwrap_or(0));
        if !(least..=most).contains(&seen.len()) {
            return Err(format!("{} bytes long, expected {least} to {most}", seen.len()));
        }
        for (n, word) in seen.chunks(WORD).enumerate() {
            let at = n * WORD;
            // Bytes beyond the end of a version read as zeroes.
            let byte = |content: &[u8], at: usize| content.get(at).copied().unwrap_or(0);
            let is = |content: &[u8]| (0..word.len()).all(|i| byte(content, at + i) == word[i]);
            // A word may be torn, but each of its bytes must have been written there.
            let possible = |i: usize| allowed.iter().any(|(_, c)| byte(c, at + i) == word[i]);
            if !allowed.iter().any(|(_, content)| is(content)) && !(0..word.len()).all(possible) {
                return Err(format!(
                    "{} at {at} of {} bytes, synced with operation {since}, begun {last}; there were {}",
                    explain(word),
                    seen.len(),
                    allowed
                        .iter()
                        .map(|(op, c)| format!("{op}: {}", explain(c.get(at..).unwrap_or(&[]))))
                        .collect::<Vec<_>>()
                        .join(", ")
                ));
            }
        }
        Ok(())
    }
}
