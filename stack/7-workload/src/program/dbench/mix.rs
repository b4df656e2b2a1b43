//! The built-in load: office work on a file server, generated from a seed.
//!
//! It replaces a recorded load, and a report that uses it says so. A client has 8 directories with
//! 12 documents each, 2 KiB to 256 KiB, and performs 1,500 sessions with them, in this mix:
//!
//! | of 100 | session | calls |
//! | --- | --- | --- |
//! | 30 | read a document | query, open, query, read in pieces of 4 or 60 KiB, close |
//! | 14 | save a document | write a temporary file, its end first, then 64 KiB at once; set times, flush, rename over the old one |
//! | 14 | change a document in place | open, lock, read and write 4 KiB at random offsets, unlock, sometimes flush |
//! | 20 | look for a missing name | by name, by mask, by opening it |
//! | 12 | list a directory, open some of its documents | |
//! | 6 | create and remove a scratch file | |
//! | 4 | query the free space | |
//!
//! Of 100 operations about 27 are reads and 9 are writes, as in the loads that file servers are
//! commonly measured with.

use std::fmt::Write as _;

use crate::random::Random;

/// Directories of a client.
const DIRS: usize = 8;
/// Documents in each.
const FILES: usize = 12;
/// Sessions in a pass.
const SESSIONS: usize = 1500;
/// Bytes of a write.
const WRITE: u64 = 65_536;

/// Generates the load of `seed` as the text of a loadfile.
pub fn text(seed: u64) -> String {
    let mut mix =
        Mix { text: String::new(), random: Random::new(seed), handle: 0, sizes: Vec::new() };
    mix.prepare();
    (0..SESSIONS).for_each(|_| mix.session());
    mix.line("Deltree \"\\clients\\client1\"", true);
    mix.text
}

struct Mix {
    text: String,
    random: Random,
    /// The last handle.
    handle: u32,
    /// Bytes of each document.
    sizes: Vec<u64>,
}

/// Create dispositions: open an existing file, or create one.
const OPEN: u32 = 1;
const CREATE: u32 = 2;

fn dir(n: usize) -> String {
    format!("\\clients\\client1\\dept{n}")
}

fn document(n: usize) -> String {
    format!("{}\\Report{:03}.doc", dir(n / FILES), n % FILES)
}

impl Mix {
    fn line(&mut self, words: &str, exists: bool) {
        let status = if exists { "NT_STATUS_OK" } else { "NT_STATUS_OBJECT_NAME_NOT_FOUND" };
        let _ = writeln!(self.text, "{words} {status}");
    }

    /// Adds a line about the file that was opened last.
    fn line_on_file(&mut self, name: &str, operands: &str) {
        let words = format!("{name} {}{operands}", self.handle);
        self.line(&words, true);
    }

    fn open(&mut self, path: &str, options: u32, disposition: u32, exists: bool) {
        self.handle += 1;
        let handle = self.handle;
        self.line(&format!("NTCreateX \"{path}\" {options:#x} {disposition:#x} {handle}"), exists);
    }

    fn query(&mut self, path: &str, exists: bool) {
        self.line(&format!("QUERY_PATH_INFORMATION \"{path}\" 1004"), exists);
    }

    fn find(&mut self, path: &str, count: usize) {
        self.line(&format!("FIND_FIRST \"{path}\" 260 1366 {count}"), true);
    }

    fn io(&mut self, name: &str, offset: u64, size: u64) {
        self.line_on_file(name, &format!(" {offset} {size} {size}"));
    }

    /// Writes a document as programs save it: the last byte first to reserve space, and then
    /// everything.
    fn write_all(&mut self, size: u64) {
        self.io("WriteX", size - 1, 1);
        self.line_on_file("QUERY_FILE_INFORMATION", " 258");
        for offset in (0..size).step_by(usize::try_from(WRITE).unwrap_or(usize::MAX)) {
            self.io("WriteX", offset, WRITE.min(size - offset));
        }
    }

    /// Returns a size from 2 KiB to 256 KiB with a uniform logarithm.
    fn size(&mut self) -> u64 {
        (2048 << self.random.below(8)) + self.random.below(1024)
    }

    fn prepare(&mut self) {
        self.line("Deltree \"\\clients\\client1\"", true);
        self.line("Mkdir \"\\clients\"", true);
        self.open("\\clients\\client1", 1, CREATE, true);
        self.line_on_file("Close", "");
        for n in 0..DIRS {
            self.open(&dir(n), 1, CREATE, true);
            self.line_on_file("Close", "");
        }
        for n in 0..DIRS * FILES {
            let size = self.size();
            self.sizes.push(size);
            self.open(&document(n), 0x40, CREATE, true);
            self.write_all(size);
            self.line_on_file("Close", "");
        }
    }

    fn session(&mut self) {
        let n = self.random.index(DIRS * FILES);
        match self.random.below(100) {
            0..30 => self.read(n),
            30..44 => self.save(n),
            44..58 => self.change(n),
            58..78 => self.miss(n),
            78..90 => self.list(n),
            90..96 => self.scratch(n),
            _ => self.line("QUERY_FS_INFORMATION 259", true),
        }
    }

    fn read(&mut self, n: usize) {
        let (path, size) = (document(n), self.sizes[n]);
        self.query(&path, true);
        self.open(&path, 0x40, OPEN, true);
        self.line_on_file("QUERY_FILE_INFORMATION", " 1004");
        // Programs that read a whole file use large pieces; most others read a few small ones.
        if self.random.below(4) == 0 {
            for offset in (0..size).step_by(61_440) {
                self.io("ReadX", offset, 61_440.min(size - offset));
            }
        } else {
            for offset in (0..size).step_by(4096).take(12) {
                self.io("ReadX", offset, 4096.min(size - offset));
            }
        }
        self.line_on_file("Close", "");
        self.query(&path, true);
    }

    fn save(&mut self, n: usize) {
        let (path, temporary) =
            (document(n), format!("{}\\~save{:04x}.tmp", dir(n / FILES), self.handle));
        let size = self.size();
        self.query(&path, true);
        self.query(&temporary, false);
        self.open(&temporary, 0x40, OPEN, false);
        self.open(&temporary, 0x40, CREATE, true);
        self.write_all(size);
        if self.random.below(2) == 0 {
            self.line_on_file("Flush", "");
        }
        self.line_on_file("SET_FILE_INFORMATION", " 1004");
        self.line_on_file("Close", "");
        self.line(&format!("Unlink \"{path}\" 0x6"), true);
        self.line(&format!("Rename \"{temporary}\" \"{path}\""), true);
        self.query(&path, true);
        self.sizes[n] = size;
    }

    fn change(&mut self, n: usize) {
        let blocks = self.sizes[n].div_ceil(4096);
        self.query(&document(n), true);
        self.open(&document(n), 0x40, OPEN, true);
        self.line_on_file("QUERY_FILE_INFORMATION", " 1004");
        self.line_on_file("LockX", " 2147483538 1");
        for _ in 0..3 + self.random.below(6) {
            let offset = self.random.below(blocks) * 4096;
            self.io("ReadX", offset, 4096.min(self.sizes[n] - offset));
            if self.random.below(3) == 0 {
                self.io("WriteX", offset, 4096.min(self.sizes[n] - offset));
            }
        }
        self.line_on_file("UnlockX", " 2147483538 1");
        if self.random.below(3) == 0 {
            self.line_on_file("Flush", "");
        }
        self.line_on_file("Close", "");
    }

    fn miss(&mut self, n: usize) {
        let base = dir(n / FILES);
        let none = format!("{base}\\Draft{:03}.doc", n % FILES);
        self.query(&none, false);
        self.open(&none, 0x40, OPEN, false);
        self.find(&format!("{base}\\*.bak"), 0);
        self.query(&document(n), true);
    }

    fn list(&mut self, n: usize) {
        let first = n / FILES * FILES;
        self.find(&format!("{}\\*", dir(n / FILES)), FILES);
        for n in first..first + 4 {
            self.query(&document(n), true);
            self.open(&document(n), 0x40, OPEN, true);
            self.line_on_file("QUERY_FILE_INFORMATION", " 1005");
            self.line_on_file("Close", "");
        }
    }

    fn scratch(&mut self, n: usize) {
        let path = format!("{}\\~work{:04x}.tmp", dir(n / FILES), self.handle);
        self.open(&path, 0x40, CREATE, true);
        for offset in 0..4 {
            self.io("WriteX", offset * 4096, 4096);
        }
        self.io("ReadX", 0, 4096);
        self.line_on_file("Close", "");
        self.line(&format!("Unlink \"{path}\" 0x6"), true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::dbench::load::{Load, Op};

    #[test]
    fn the_mix_has_the_documented_shares() {
        let load = Load::parse(&text(0)).expect("a load");
        let share = |of: fn(&Op) -> bool| {
            load.lines.iter().filter(|line| of(&line.op)).count() * 100 / load.lines.len()
        };
        let reads = share(|op| matches!(op, Op::Read { .. }));
        let writes = share(|op| matches!(op, Op::Write { .. }));
        assert!((22..=32).contains(&reads) && (6..=12).contains(&writes), "{reads} {writes}");
        assert!(load.lines.len() > 15_000, "{}", load.lines.len());
    }

    #[test]
    fn a_seed_gives_one_load() {
        assert_eq!(text(3), text(3));
        assert_ne!(text(3), text(4));
    }
}
