//! SELinux labels by path, from a policy's `file_contexts`. Each line has a regular expression for
//! whole paths, optionally a file type (`--` regular, `-d`, `-l`, `-c`, `-b`, `-p`, `-s`), and a
//! context or `<<none>>`.
//!
//! A line whose expression is a plain path comes before all others. Among the others the last match
//! counts. If that is `<<none>>`, or nothing matches, a file keeps the label of its source.
//!
//! A policy has thousands of lines. Each is indexed by the literal prefix of the paths that it
//! matches, so few lines are tried on a path, and only those are compiled.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use regex::bytes::{Regex, RegexBuilder};
use xfskit_format::attr::Namespace;

use super::SourceError;
use super::node_id::NodeId;
use super::owner::{MapError, rooted};
use super::tree::{Kind, Tree, Xattr, XattrsId};

/// Contexts by path.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    lines: Vec<Line>,
    /// Lines by the prefix of their paths.
    by_prefix: HashMap<Vec<u8>, Vec<usize>>,
    /// Lengths of the prefixes.
    lengths: BTreeSet<usize>,
    contexts: Vec<Arc<[u8]>>,
}

#[derive(Clone, Debug)]
struct Line {
    number: usize,
    expression: String,
    /// Compiled on first use.
    regex: OnceLock<Option<Regex>>,
    /// True if it matches one path only.
    plain: bool,
    /// The letter in the file: `d` and so on, `-` for a regular file.
    kind: Option<u8>,
    /// Index of the context; `None` for `<<none>>`.
    context: Option<usize>,
}

impl Labels {
    /// Parses the text of `file_contexts`.
    ///
    /// # Errors
    /// A line is not valid.
    pub fn parse(text: &[u8]) -> Result<Self, MapError> {
        let mut labels = Self::default();
        let mut numbers = HashMap::new();
        for (number, line) in (1..).zip(text.split(|&b| b == b'\n')) {
            let wrong = |what: &str| MapError { line: number, what: what.into() };
            let line = std::str::from_utf8(line).map_err(|_| wrong("not UTF-8"))?;
            let words: Vec<&str> = line.split_whitespace().collect();
            let (expression, kind, context) = match *words {
                [] => continue,
                [first, ..] if first.starts_with('#') => continue,
                [expression, context] => (expression, None, context),
                [expression, kind, context] => {
                    let kind = kind.as_bytes();
                    let known = kind.len() == 2 && kind[0] == b'-' && b"-dlcbps".contains(&kind[1]);
                    let kind = kind.get(1).filter(|_| known).ok_or(wrong("no kind of file"))?;
                    (expression, Some(*kind), context)
                }
                _ => return Err(wrong("not PATTERN [-KIND] CONTEXT")),
            };
            let context = (context != "<<none>>").then(|| {
                *numbers.entry(context.to_owned()).or_insert_with(|| {
                    // Stored with a zero at the end.
                    labels.contexts.push([context.as_bytes(), b"\0"].concat().into());
                    labels.contexts.len() - 1
                })
            });
            let (prefix, plain) = literal(expression);
            labels.lengths.insert(prefix.len());
            labels.by_prefix.entry(prefix).or_default().push(labels.lines.len());
            let regex = OnceLock::new();
            let expression = expression.to_owned();
            labels.lines.push(Line { number, expression, regex, plain, kind, context });
        }
        Ok(labels)
    }

    /// Sets the labels of everything in `tree`. A file with several names gets the label of the
    /// first.
    pub(super) fn apply(&self, tree: &mut Tree) -> Result<(), SourceError> {
        let mut sets: HashMap<(XattrsId, usize), XattrsId> = HashMap::new();
        for id in tree.ids() {
            let Some(kind) = letter(&tree.node(id).kind) else { continue };
            let path = rooted(tree, id);
            let Some(context) = self.context(&path, kind)? else { continue };
            let old = tree.node(id).xattrs;
            let new = match sets.get(&(old, context)) {
                Some(&new) => new,
                None => *sets.entry((old, context)).or_insert(self.labelled(tree, id, context)?),
            };
            tree.nodes[id.index()].xattrs = new;
        }
        Ok(())
    }

    /// Returns the label for `path`, which begins with `/`, as it is stored; `None` if the file
    /// keeps its own.
    ///
    /// # Errors
    /// An expression that has to be tried is not valid.
    pub fn label(&self, path: &[u8], kind: &Kind) -> Result<Option<&[u8]>, SourceError> {
        let Some(kind) = letter(kind) else { return Ok(None) };
        Ok(self.context(path, kind)?.map(|context| &*self.contexts[context]))
    }

    /// Returns the number of the set of attributes `id` with the label replaced.
    fn labelled(
        &self,
        tree: &mut Tree,
        id: NodeId,
        context: usize,
    ) -> Result<XattrsId, SourceError> {
        let label = Xattr {
            namespace: Namespace::Secure,
            name: (*b"selinux").into(),
            value: (*self.contexts[context]).into(),
        };
        let same = |xattr: &Xattr| (xattr.namespace, &xattr.name) == (label.namespace, &label.name);
        let mut set: Vec<Xattr> = tree.xattrs(id).iter().filter(|x| !same(x)).cloned().collect();
        set.push(label);
        set.sort();
        let number = u32::try_from(tree.xattrs.len()).map_err(|_| SourceError::Unfit {
            path: rooted(tree, id),
            what: "more than 2^32 sets of attributes".into(),
        })?;
        tree.xattrs.push(set.into());
        Ok(XattrsId(number))
    }

    /// Returns the index of the context for a path and a file type.
    fn context(&self, path: &[u8], kind: u8) -> Result<Option<usize>, SourceError> {
        let prefixes = self.lengths.iter().map_while(|&len| path.get(..len));
        let lines = prefixes.filter_map(|prefix| self.by_prefix.get(prefix)).flatten().copied();
        let of_kind = |&line: &usize| self.lines[line].kind.is_none_or(|its| its == kind);
        let mut lines: Vec<usize> = lines.filter(of_kind).collect();
        lines.sort_unstable_by_key(|&line| (self.lines[line].plain, line));
        for line in lines.into_iter().rev().map(|line| &self.lines[line]) {
            if line.is_match(path)? {
                return Ok(line.context);
            }
        }
        Ok(None)
    }
}

impl Line {
    fn is_match(&self, path: &[u8]) -> Result<bool, SourceError> {
        let regex = self.regex.get_or_init(|| {
            let whole = format!("^(?:{})$", self.expression);
            RegexBuilder::new(&whole).unicode(false).dot_matches_new_line(true).build().ok()
        });
        match regex {
            Some(regex) => Ok(regex.is_match(path)),
            None => Err(SourceError::Unfit {
                path: self.expression.clone().into_bytes(),
                what: format!("line {} of the contexts: no expression we understand", self.number),
            }),
        }
    }
}

/// Returns the letter of a file type in `file_contexts`.
fn letter(kind: &Kind) -> Option<u8> {
    Some(match kind {
        Kind::Dir { .. } => b'd',
        Kind::File { .. } => b'-',
        Kind::Symlink { .. } => b'l',
        Kind::Char { .. } => b'c',
        Kind::Block { .. } => b'b',
        Kind::Fifo => b'p',
        Kind::Socket => b's',
        Kind::HardLink(_) => return None,
    })
}

/// Returns the literal prefix of all paths that match `expression`, and whether the expression is
/// only that.
fn literal(expression: &str) -> (Vec<u8>, bool) {
    let mut prefix = Vec::new();
    let mut bytes = expression.bytes().peekable();
    if may_begin_otherwise(expression) {
        return (prefix, false);
    }
    while let Some(byte) = bytes.next() {
        let literal = match byte {
            b'\\' => match bytes.next() {
                Some(escaped) if !escaped.is_ascii_alphanumeric() => escaped,
                _ => return (prefix, false),
            },
            b'.' | b'^' | b'$' | b'(' | b')' | b'[' | b']' | b'{' | b'}' | b'*' | b'+' | b'?' => {
                return (prefix, false);
            }
            byte => byte,
        };
        // The byte is optional or repeated, so it is not part of the prefix.
        if matches!(bytes.peek(), Some(b'*' | b'?' | b'{' | b'+')) {
            return (prefix, false);
        }
        prefix.push(literal);
    }
    (prefix, true)
}

/// Returns false only if all alternatives in `expression` are within parentheses for sure.
fn may_begin_otherwise(expression: &str) -> bool {
    let mut depth = 0_i32;
    let outside = expression.bytes().any(|byte| {
        depth += i32::from(byte == b'(') - i32::from(byte == b')');
        byte == b'|' && depth <= 0
    });
    // Parentheses in a class are literal and would confuse the count.
    outside || expression.contains('|') && (expression.contains('[') || expression.contains('\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_that_matches_counts_and_a_plain_path_before_all() {
        let labels = Labels::parse(
            b"/bin/exact\\.sh -- exact\n\
              # a comment\n\
              /.* default\n\
              /usr/(.*/)?lib(/.*)? lib\n\
              /usr/lib/x.* -d dir\n\
              /usr/lib/x.* -l link\n\
              /(usr|opt)/none(/.*)? <<none>>\n\
              /bin(/.*)? bin\n\
              /a? maybe\n",
        )
        .unwrap();
        let of = |path: &[u8], kind| {
            let context = labels.context(path, kind).unwrap()?;
            Some(String::from_utf8_lossy(&labels.contexts[context]).into_owned())
        };
        let expect = |path: &[u8], kind, context: &str| {
            let found = of(path, kind).unwrap_or_default();
            assert_eq!(found.trim_end_matches('\0'), context, "{}", path.escape_ascii());
        };
        expect(b"/etc/\xff\n", b'-', "default");
        expect(b"/usr/lib", b'd', "lib");
        expect(b"/usr/local/lib/y", b'd', "lib");
        expect(b"/usr/lib/xyz", b'd', "dir");
        expect(b"/usr/lib/xyz", b'-', "lib");
        expect(b"/usr/lib/xyz", b'l', "link");
        expect(b"/opt/none/x", b'-', "");
        expect(b"/bin/exact.sh", b'-', "exact");
        expect(b"/bin/exact.sh", b'd', "bin");
        expect(b"/bin/exact-sh", b'-', "bin");
        expect(b"/", b'd', "maybe");
    }

    #[test]
    fn lines_of_another_kind_are_named() {
        for wrong in ["/x", "/x -q c", "/x -- c d"] {
            let error = Labels::parse(format!("# 1\n{wrong}\n").as_bytes()).unwrap_err();
            assert_eq!(error.line, 2, "{wrong}");
        }
        let labels = Labels::parse(b"/(?=x) c\n").unwrap();
        assert!(labels.context(b"/x", b'-').is_err());
    }
}
