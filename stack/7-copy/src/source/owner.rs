//! Changes of owners.
//!
//! A map is a text file, one rule a line, `#` begins a comment:
//!
//! ```text
//! uid 1000 0              # users: 1000 becomes 0
//! gid 1000-1999 100000    # groups: 1000 becomes 100000, 1001 becomes 100001, …
//! path /home/jane/** 1000 1000
//! path /var/log - 4       # the owner stays, the group becomes 4
//! ```
//!
//! `uid` and `gid` rules apply to the number in the source; the first that covers it counts. `path`
//! rules come after them; the last that matches counts. In a pattern `*` matches any bytes but `/`,
//! `?` matches one such byte, and `**` matches any bytes. `/**` at the end also matches the
//! directory before it. A backslash makes the next byte literal. Patterns match the whole path,
//! which begins with `/`; a blank in them is written `\ `.

use std::fmt::Write;

use regex::bytes::Regex;

use super::node_id::NodeId;
use super::tree::{Kind, Meta, Tree};

/// Owners and groups.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    users: Vec<Range>,
    groups: Vec<Range>,
    paths: Vec<PathRule>,
}

/// Maps the numbers `first` to `last` to those from `to` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u32,
    last: u32,
    to: u32,
}

#[derive(Clone, Debug)]
struct PathRule {
    pattern: Regex,
    uid: Option<u32>,
    gid: Option<u32>,
}

/// A line of a map that is not a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct MapError {
    /// Number of the line, from 1.
    pub line: usize,
    /// The problem.
    pub what: String,
}

impl Owners {
    /// Sets the owner of everything to `uid` and `gid`.
    ///
    /// # Panics
    /// Never, because the pattern that matches everything is valid.
    pub fn all(uid: u32, gid: u32) -> Self {
        let pattern = glob(b"/**").unwrap_or_else(|_| unreachable!("a constant pattern"));
        let rule = PathRule { pattern, uid: Some(uid), gid: Some(gid) };
        Self { paths: vec![rule], ..Self::default() }
    }

    /// Parses the text of a map.
    ///
    /// # Errors
    /// A line is not a rule.
    pub fn parse(map: &[u8]) -> Result<Self, MapError> {
        let mut owners = Self::default();
        for (number, line) in (1..).zip(map.split(|&b| b == b'\n')) {
            owners.add(line).map_err(|what| MapError { line: number, what })?;
        }
        Ok(owners)
    }

    fn add(&mut self, line: &[u8]) -> Result<(), String> {
        let words = words(line);
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        match *words {
            [] => {}
            [b"uid", from, to] => self.users.push(Range::parse(from, to)?),
            [b"gid", from, to] => self.groups.push(Range::parse(from, to)?),
            [b"path", pattern, uid, gid] => {
                let or_keep = |word: &[u8]| (word != b"-").then(|| id(word)).transpose();
                let (uid, gid) = (or_keep(uid)?, or_keep(gid)?);
                self.paths.push(PathRule { pattern: glob(pattern)?, uid, gid });
            }
            _ => return Err("neither uid FROM TO, gid FROM TO nor path PATTERN UID GID".into()),
        }
        Ok(())
    }

    /// Sets the owners of everything in `tree`. A file with several names gets the owner of the
    /// first.
    pub(super) fn apply(&self, tree: &mut Tree) {
        for id in tree.ids() {
            if matches!(tree.node(id).kind, Kind::HardLink(_)) {
                continue;
            }
            let path = if self.paths.is_empty() { Vec::new() } else { rooted(tree, id) };
            self.set_owner(&path, &mut tree.nodes[id.index()].meta);
        }
    }

    /// Sets the owner in `meta` of the file at `path`, which begins with `/`.
    pub fn set_owner(&self, path: &[u8], meta: &mut Meta) {
        meta.uid = mapped(&self.users, meta.uid);
        meta.gid = mapped(&self.groups, meta.gid);
        for rule in self.paths.iter().filter(|rule| rule.pattern.is_match(path)) {
            meta.uid = rule.uid.unwrap_or(meta.uid);
            meta.gid = rule.gid.unwrap_or(meta.gid);
        }
    }
}

impl Range {
    /// Parses `FROM` or `FIRST-LAST`, and the number it is mapped to.
    fn parse(from: &[u8], to: &[u8]) -> Result<Self, String> {
        let (first, last) = match from.iter().position(|&b| b == b'-') {
            Some(dash) => (id(&from[..dash])?, id(&from[dash + 1..])?),
            None => (id(from)?, id(from)?),
        };
        let to = id(to)?;
        if first > last || to.checked_add(last - first).is_none_or(|end| end == u32::MAX) {
            return Err(format!("no range: {} to {to}", from.escape_ascii()));
        }
        Ok(Self { first, last, to })
    }
}

fn mapped(ranges: &[Range], id: u32) -> u32 {
    let range = ranges.iter().find(|range| (range.first..=range.last).contains(&id));
    range.map_or(id, |range| range.to + (id - range.first))
}

/// Parses the number of a user or group; all ones is none.
fn id(word: &[u8]) -> Result<u32, String> {
    let id = std::str::from_utf8(word).ok().and_then(|word| word.parse().ok());
    let id = id.filter(|&id| id != u32::MAX);
    id.ok_or_else(|| format!("no number of a user or group: {}", word.escape_ascii()))
}

/// Returns the path of `id` from the volume's root, which is `/`.
pub(super) fn rooted(tree: &Tree, id: NodeId) -> Vec<u8> {
    let mut path = vec![b'/'];
    path.extend(tree.path(id));
    path
}

/// Splits a line at blanks, up to a comment. A backslash, which is kept, escapes a blank.
fn words(line: &[u8]) -> Vec<Vec<u8>> {
    let mut words = vec![Vec::new()];
    let mut bytes = line.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            b' ' | b'\t' | b'\r' => words.push(Vec::new()),
            b'#' if words.last().is_some_and(Vec::is_empty) => break,
            byte => {
                let word = words.last_mut().into_iter();
                let escaped = (byte == b'\\').then(|| bytes.next()).flatten();
                word.for_each(|word| word.extend([Some(byte), escaped].into_iter().flatten()));
            }
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Converts a path pattern to a regular expression. `globset` would not do: a pattern may hold any
/// bytes, and `/**` at its end matches the directory too.
fn glob(pattern: &[u8]) -> Result<Regex, String> {
    if pattern.first() != Some(&b'/') {
        return Err(format!("a pattern begins with a slash: {}", pattern.escape_ascii()));
    }
    let mut regex = String::from("(?s-u)^");
    let mut rest = pattern;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'/' if after == b"**" => {
                regex += "(/.*)?";
                rest = &[];
            }
            b'*' if after.first() == Some(&b'*') => {
                regex += ".*";
                rest = &after[1..];
            }
            b'*' => regex += "[^/]*",
            b'?' => regex += "[^/]",
            first => {
                let escaped = if first == b'\\' { after.split_first() } else { None };
                let literal = escaped.map_or(first, |(&literal, _)| literal);
                rest = escaped.map_or(rest, |(_, after)| after);
                let _ = write!(regex, "\\x{literal:02x}"); // to a string: cannot fail
            }
        }
    }
    regex.push('$');
    Regex::new(&regex).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(owners: &Owners, path: &[u8], uid: u32, gid: u32) -> (u32, u32) {
        let mut meta = Meta { uid, gid, ..Meta::default() };
        owners.set_owner(path, &mut meta);
        (meta.uid, meta.gid)
    }

    #[test]
    fn rules_decide_the_owner_of_each_path() {
        let map = b"# a comment\n\
            uid 1000 0 # another\n\
            uid 1000-1999 5000\n\
            gid 100-199 300\n\
            \n\
            path /home/** 7 -\n\
            path /home/*/mail - 12\n\
            path /with\\ blank\\*[x] 1 2\n";
        let owners = Owners::parse(map).unwrap();
        assert_eq!(own(&owners, b"/x", 1000, 99), (0, 99));
        assert_eq!(own(&owners, b"/x", 1001, 199), (5001, 399));
        assert_eq!(own(&owners, b"/home", 1, 1), (7, 1));
        assert_eq!(own(&owners, b"/home/j\n\xff/mail", 1, 1), (7, 12));
        assert_eq!(own(&owners, b"/home/j/x/mail", 1, 1), (7, 1));
        assert_eq!(own(&owners, b"/homes", 3, 4), (3, 4));
        assert_eq!(own(&owners, b"/with blank*[x]", 3, 4), (1, 2));
        let all = Owners::all(5, 6);
        assert_eq!(own(&all, b"/", 1, 2), (5, 6));
        assert_eq!(own(&all, b"/a/b", 0, 0), (5, 6));
    }

    #[test]
    fn a_line_that_is_no_rule_is_named() {
        for wrong in [
            "uid 1",
            "uid a 1",
            "uid 5-4 1",
            "gid 1 4294967295",
            "path x 1 2",
            "path /x 1",
            "x y z",
        ] {
            let error = Owners::parse(format!("\n{wrong}\n").as_bytes()).unwrap_err();
            assert_eq!(error.line, 2, "{wrong}");
        }
    }
}
