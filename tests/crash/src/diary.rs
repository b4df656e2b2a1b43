//! What one worker did and was promised, and what of it may be there after a crash.
//!
//! Names, owners and attributes change at once, operation by operation: after a crash the tree is one that it was, as
//! a whole. Content follows when it is flushed, each piece of it for itself: after a crash a place in a file has what
//! was there at the last sync, or something that was written there since. A place that says anything else shows
//! stale blocks, or lost what was synced.

use std::collections::HashMap;
use std::sync::Arc;

use crate::pattern::{WORD, explain};
use crate::tree::{Key, Seen};

/// What a file contained, and what was promised of it.
#[derive(Clone, Debug, Default)]
struct File {
    /// From which operation on it had which content.
    versions: Vec<(usize, Arc<Vec<u8>>)>,
    /// Events when a sync of this file had returned, and the operation that was last then.
    syncs: Vec<(usize, usize)>,
}

/// The work of one worker below its home.
#[derive(Clone, Debug)]
pub struct Diary {
    /// The names below its home before the first operation and after each, in a number.
    names: Vec<u64>,
    /// Events when each operation began; one for each after the first of `names`.
    begun: Vec<usize>,
    /// Events when a sync of everything had returned, and the operation that was last then.
    syncs: Vec<(usize, usize)>,
    /// The same for a sync of the home alone, with the operation that changed it last.
    forced: Vec<(usize, usize)>,
    /// That operation, so far.
    changed: usize,
    files: HashMap<Key, File>,
    /// What each operation was.
    told: Vec<String>,
}

/// The operation that a promise held at `returned` events is about.
fn kept(promises: &[(usize, usize)], returned: usize) -> usize {
    let held = promises.iter().filter(|(events, _)| *events <= returned);
    held.map(|&(_, op)| op).max().unwrap_or(0)
}

impl Diary {
    /// Nothing was done yet.
    pub fn new(names: u64) -> Self {
        Self {
            names: vec![names],
            begun: vec![],
            syncs: vec![(0, 0)],
            forced: vec![],
            changed: 0,
            files: HashMap::new(),
            told: vec![],
        }
    }

    /// Operations so far.
    pub fn len(&self) -> usize {
        self.begun.len()
    }

    /// Whether nothing was done yet.
    pub fn is_empty(&self) -> bool {
        self.begun.is_empty()
    }

    /// An operation begins, the device having seen `events`.
    pub fn begin(&mut self, events: usize) {
        self.begun.push(events);
        self.told.push(String::new());
    }

    /// The operation that runs is this.
    pub fn tell(&mut self, what: String) {
        if let Some(last) = self.told.last_mut() {
            *last = what;
        }
    }

    /// What was done lately, for the reader of a failure.
    fn lately(&self, since: usize, last: usize) -> String {
        let told = self.told.iter().zip(1..).take(last).skip(since.saturating_sub(15));
        told.map(|(what, op)| format!("{op}: {what}")).collect::<Vec<_>>().join("; ")
    }

    /// The operation has ended, and these are the names now; it did change the home itself, or not.
    pub fn end(&mut self, names: u64, home_changed: bool) {
        self.names.push(names);
        if home_changed {
            self.changed = self.begun.len();
        }
    }

    /// The operation that runs gives a file this content.
    pub fn content(&mut self, file: Key, content: Arc<Vec<u8>>) {
        let op = self.begun.len();
        self.files.entry(file).or_default().versions.push((op, content));
    }

    /// The content of a file, as far as this worker knows.
    pub fn current(&self, file: Key) -> Option<&Arc<Vec<u8>>> {
        self.files.get(&file)?.versions.last().map(|(_, content)| content)
    }

    /// All is durable, the device having seen `events`.
    pub fn synced(&mut self, events: usize) {
        self.syncs.push((events, self.begun.len()));
    }

    /// The home itself is.
    pub fn forced(&mut self, events: usize) {
        self.forced.push((events, self.changed));
    }

    /// A file's content is.
    pub fn synced_file(&mut self, file: Key, events: usize) {
        let op = self.begun.len();
        self.files.entry(file).or_default().syncs.push((events, op));
    }

    /// Judges what is `seen` after a crash when `returned` events had returned and `begun` had begun.
    ///
    /// # Errors
    /// What may not be.
    pub fn judge(&self, seen: &Seen, returned: usize, begun: usize) -> Result<(), String> {
        let synced = kept(&self.syncs, returned);
        let first = synced.max(kept(&self.forced, returned));
        let last = self.begun.partition_point(|&events| events < begun).max(first);
        if !self.names[first..=last].contains(&seen.names) {
            let when = self.names.iter().rposition(|names| *names == seen.names);
            let when = when.map_or("was never so".into(), |op| format!("was so after {op}"));
            return Err(format!(
                "the tree {when}, not after any of operations {first}..={last}; lately {}",
                self.lately(first, last)
            ));
        }
        for (key, content) in &seen.files {
            let Some(file) = self.files.get(key) else {
                if self.files.is_empty() {
                    // Nobody noted what files contain.
                    continue;
                }
                return Err(format!("inode {key:?} was never a file"));
            };
            let since = synced.max(kept(&file.syncs, returned));
            file.judge(content, since, last).map_err(|why| {
                format!("file {key:?}: {why}; lately {}", self.lately(since, last))
            })?;
        }
        Ok(())
    }
}

impl File {
    /// Judges the content that `seen` is, where operation `since` is durable and `last` is the newest.
    fn judge(&self, seen: &[u8], since: usize, last: usize) -> Result<(), String> {
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
            // Behind its end a version has zeroes.
            let byte = |content: &[u8], at: usize| content.get(at).copied().unwrap_or(0);
            let is = |content: &[u8]| (0..word.len()).all(|i| byte(content, at + i) == word[i]);
            // A word may be torn, but each of its bytes has been there.
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
