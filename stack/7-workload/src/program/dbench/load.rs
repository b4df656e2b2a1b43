//! Loadfiles: the operations that a client of a file server requested, one per line.
//!
//! ```text
//! NTCreateX "\clients\client1\a.doc" 0x40 0x2 9938 NT_STATUS_OK
//! WriteX 9938 0 65536 65536 NT_STATUS_OK
//! ```
//!
//! A line has a name, operands in the manner of SMB, and the expected status. A path component
//! `client1` stands for the client's own directory. A leading time, which some files have, is
//! skipped.

use std::collections::HashMap;
use std::fmt;

/// Index of a path in [`Load::paths`].
pub(super) type PathId = usize;

/// Names of the operations in the table at the end.
pub(super) const NAMES: [&str; 16] = [
    "NTCreateX",
    "Close",
    "Rename",
    "Unlink",
    "Deltree",
    "Mkdir",
    "Qpathinfo",
    "Qfileinfo",
    "Qfsinfo",
    "Sfileinfo",
    "Find",
    "WriteX",
    "ReadX",
    "LockX",
    "UnlockX",
    "Flush",
];

/// The operation of a line. Handles are the numbers from the loadfile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Create { path: PathId, directory: bool, disposition: u32, handle: u32 },
    Close { handle: u32 },
    Rename { from: PathId, to: PathId },
    Unlink { path: PathId },
    Deltree { path: PathId },
    Mkdir { path: PathId },
    QueryPath { path: PathId },
    QueryFile { handle: u32 },
    QuerySpace,
    SetFile { handle: u32 },
    Find { path: PathId },
    Write { handle: u32, offset: u64, size: usize },
    Read { handle: u32, offset: u64, size: usize },
    Lock { handle: u32 },
    Unlock { handle: u32 },
    Flush { handle: u32 },
}

impl Op {
    /// Returns the index of the operation in [`NAMES`].
    pub(super) fn index(self) -> usize {
        match self {
            Self::Create { .. } => 0,
            Self::Close { .. } => 1,
            Self::Rename { .. } => 2,
            Self::Unlink { .. } => 3,
            Self::Deltree { .. } => 4,
            Self::Mkdir { .. } => 5,
            Self::QueryPath { .. } => 6,
            Self::QueryFile { .. } => 7,
            Self::QuerySpace => 8,
            Self::SetFile { .. } => 9,
            Self::Find { .. } => 10,
            Self::Write { .. } => 11,
            Self::Read { .. } => 12,
            Self::Lock { .. } => 13,
            Self::Unlock { .. } => 14,
            Self::Flush { .. } => 15,
        }
    }
}

/// One line of a loadfile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    /// Line number in the file, from 1.
    pub(super) number: u32,
    pub(super) op: Op,
    /// The operation is expected to succeed.
    pub(super) succeeds: bool,
}

/// One path: a name in a directory. The first path of a load is the root of the workload.
#[derive(Debug)]
pub(super) struct PathNode {
    pub(super) parent: PathId,
    name: Vec<u8>,
    /// The name is replaced by the client's own.
    own: bool,
}

impl PathNode {
    /// Returns the name for client `number`.
    pub(super) fn name(&self, number: usize) -> Vec<u8> {
        if self.own { format!("client{number}").into_bytes() } else { self.name.clone() }
    }
}

/// A parsed loadfile.
#[derive(Debug)]
pub struct Load {
    pub(super) lines: Vec<Line>,
    pub(super) paths: Vec<PathNode>,
}

/// A syntax error in a loadfile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Line number, from 1.
    pub number: usize,
    /// Description of the error.
    pub reason: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.number, self.reason)
    }
}

impl std::error::Error for ParseError {}

/// Limit for the bytes of a read or write in a loadfile.
const IO_MAX: usize = 64 << 20;

impl Load {
    /// Parses the text of a loadfile.
    ///
    /// # Errors
    /// The first line that cannot be parsed.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let root = PathNode { parent: 0, name: Vec::new(), own: false };
        let mut reader = Reader { paths: vec![root], known: HashMap::new() };
        let mut lines = Vec::new();
        for (n, text) in text.lines().enumerate() {
            let words = words(text);
            if words.is_empty() || words[0].starts_with('#') {
                continue;
            }
            let line =
                reader.line(n, &words).map_err(|reason| ParseError { number: n + 1, reason })?;
            lines.push(line);
        }
        if lines.is_empty() {
            return Err(ParseError { number: 1, reason: "the file contains no operation".into() });
        }
        Ok(Self { lines, paths: reader.paths })
    }

    /// Returns the operations of one pass.
    pub fn operations(&self) -> usize {
        self.lines.len()
    }
}

/// Splits a line into words; a quoted string is one word without its quotes.
fn words(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = line.trim();
    while !rest.is_empty() {
        let (word, behind) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        words.push(word);
        rest = behind.trim_start();
    }
    let timed = words.first().is_some_and(|word| word.parse::<f64>().is_ok());
    words.split_off(usize::from(timed))
}

struct Reader {
    paths: Vec<PathNode>,
    known: HashMap<(PathId, String), PathId>,
}

impl Reader {
    fn path(&mut self, path: &str) -> PathId {
        let mut at = 0;
        for name in path.split(['\\', '/']).filter(|name| !name.is_empty() && *name != ".") {
            let key = (at, name.to_owned());
            let (paths, own) = (&mut self.paths, name == "client1");
            at = *self.known.entry(key).or_insert_with(|| {
                paths.push(PathNode { parent: at, name: name.into(), own });
                paths.len() - 1
            });
        }
        at
    }

    fn line(&mut self, n: usize, words: &[&str]) -> Result<Line, String> {
        let operand = |i: usize| -> Result<&str, String> {
            words.get(i).copied().ok_or_else(|| format!("{} lacks operand {i}", words[0]))
        };
        let number = |i: usize| -> Result<u64, String> {
            let word = operand(i)?;
            let parsed = match word.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16),
                None => word.parse(),
            };
            parsed.map_err(|_| format!("operand {i} of {}, {word:?}, is not a number", words[0]))
        };
        let handle = |i| Ok::<_, String>(u32::try_from(number(i)?).unwrap_or(u32::MAX));
        let size = |i| {
            usize::try_from(number(i)?)
                .ok()
                .filter(|size| *size <= IO_MAX)
                .ok_or_else(|| format!("{} of more than {IO_MAX} bytes", words[0]))
        };
        let op = match words[0] {
            "NTCreateX" => Op::Create {
                path: self.path(operand(1)?),
                directory: number(2)? & 1 == 1,
                disposition: handle(3)?,
                handle: handle(4)?,
            },
            "Close" => Op::Close { handle: handle(1)? },
            "Rename" => Op::Rename { from: self.path(operand(1)?), to: self.path(operand(2)?) },
            "Unlink" => Op::Unlink { path: self.path(operand(1)?) },
            "Deltree" => Op::Deltree { path: self.path(operand(1)?) },
            "Mkdir" => Op::Mkdir { path: self.path(operand(1)?) },
            "QUERY_PATH_INFORMATION" => Op::QueryPath { path: self.path(operand(1)?) },
            "QUERY_FILE_INFORMATION" => Op::QueryFile { handle: handle(1)? },
            "QUERY_FS_INFORMATION" => Op::QuerySpace,
            "SET_FILE_INFORMATION" => Op::SetFile { handle: handle(1)? },
            "FIND_FIRST" => Op::Find { path: self.path(operand(1)?) },
            "WriteX" => Op::Write { handle: handle(1)?, offset: number(2)?, size: size(3)? },
            "ReadX" => Op::Read { handle: handle(1)?, offset: number(2)?, size: size(3)? },
            "LockX" => Op::Lock { handle: handle(1)? },
            "UnlockX" => Op::Unlock { handle: handle(1)? },
            "Flush" => Op::Flush { handle: handle(1)? },
            other => return Err(format!("unknown operation {other}")),
        };
        let succeeds = words.last().is_none_or(|status| *status == "NT_STATUS_OK");
        Ok(Line { number: u32::try_from(n + 1).unwrap_or(u32::MAX), op, succeeds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_operations_on_paths_of_the_client() {
        let text = "# a comment\n\
                    NTCreateX \"\\clients\\client1\\a b.doc\" 0x40 0x2 9938 NT_STATUS_OK\r\n\
                    0.25 ReadX 9938 4096 512 512 NT_STATUS_OK\n\
                    QUERY_PATH_INFORMATION \"\\clients\\client1\\none\" 1004 NT_STATUS_OBJECT_NAME_NOT_FOUND\n";
        let load = Load::parse(text).expect("a load");
        let Op::Create { path, directory: false, disposition: 2, handle: 9938 } = load.lines[0].op
        else {
            panic!("{:?}", load.lines[0])
        };
        let node = &load.paths[path];
        assert_eq!(node.name(7), b"a b.doc");
        assert_eq!(load.paths[node.parent].name(7), b"client7");
        assert_eq!(load.lines[1].op, Op::Read { handle: 9938, offset: 4096, size: 512 });
        assert!(!load.lines[2].succeeds && load.lines[2].number == 4);
    }

    #[test]
    fn a_syntax_error_names_the_line_number() {
        let reason = |text: &str| Load::parse(text).expect_err("refused").to_string();
        assert_eq!(reason("Close 1 NT_STATUS_OK\nDance 3"), "line 2: unknown operation Dance");
        assert_eq!(reason("ReadX 1 x 3"), "line 1: operand 2 of ReadX, \"x\", is not a number");
        assert!(reason("").contains("no operation"));
        assert!(reason("WriteX 1 0 99999999999 1 NT_STATUS_OK").contains("more than"));
    }
}
