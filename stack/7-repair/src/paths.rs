//! The paths of the inodes that a plan names.
//!
//! A parent pointer, or the ".." of a directory, tells where the name of an inode is; one pass over
//! all directories finds it otherwise. The way up is followed for all inodes together, directory
//! by directory. What the repair frees has a path before it only, and an inode without a name
//! after it only.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use xfskit_format::inode::Dinode;
use xfskit_units::Ino;

use crate::attributes;
use crate::directories;
use crate::error::Result;
use crate::links;
use crate::plan::{Plan, Step};
use crate::view::View;

/// Directories on a way up, at most.
const DEPTH_MAX: usize = 1 << 12;
/// Passes over all directories, at most. The second is for ways up that damage has interrupted.
const PASSES_MAX: usize = 2;
/// Words before the number of an inode.
const INODE_WORDS: [&str; 3] = ["inode ", "directory ", "symbolic link "];

/// The paths that are known.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    known: BTreeMap<Ino, String>,
}

/// The directory of each inode, and its name there.
type Names = BTreeMap<Ino, (Ino, Vec<u8>)>;

impl Paths {
    /// Finds the paths of inodes, unless they are known.
    pub(crate) fn find(
        &mut self,
        view: View<'_>,
        inos: impl IntoIterator<Item = Ino>,
    ) -> Result<()> {
        let wanted = inos.into_iter().filter(|ino| !self.known.contains_key(ino));
        let wanted: BTreeSet<Ino> = wanted.collect();
        let names = names_up(view, &wanted)?;
        for ino in wanted {
            self.known.extend(path(view, &names, ino).map(|path| (ino, path)));
        }
        Ok(())
    }

    /// Returns the path of an inode.
    pub(crate) fn of(&self, ino: Ino) -> Option<&String> {
        self.known.get(&ino)
    }

    /// Puts the paths into the plan.
    pub(crate) fn name(&self, plan: &mut Plan) {
        for step in plan.steps.iter_mut().chain(&mut plan.unwritten) {
            step.path = step.inode().and_then(|ino| self.of(ino)).cloned();
            for lost in &mut step.lost {
                *lost = self.named(lost);
            }
        }
    }

    /// Returns the text with the path of each inode behind its number.
    fn named(&self, text: &str) -> String {
        let mut named = String::with_capacity(text.len());
        let mut copied = 0;
        for (end, ino) in mentioned(text) {
            if let Some(path) = self.of(ino) {
                named.push_str(&text[copied..end]);
                let _ = write!(named, " ({path})");
                copied = end;
            }
        }
        named.push_str(&text[copied..]);
        named
    }
}

/// Returns the inodes that the plan changes, and those that its losses name.
pub(crate) fn inodes_of(plan: &Plan) -> BTreeSet<Ino> {
    let lost = plan.losses().flat_map(mentioned).map(|(_, ino)| ino);
    plan.steps.iter().filter_map(Step::inode).chain(lost).collect()
}

/// Returns the inodes that a text names, outside of quotes, and where each number ends.
fn mentioned(text: &str) -> Vec<(usize, Ino)> {
    let mut found = Vec::new();
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, char) in text.char_indices() {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = is_quoted,
            '"' => is_quoted = !is_quoted,
            _ => {}
        }
        let rest = &text[at..];
        let word = INODE_WORDS.iter().find_map(|word| rest.strip_prefix(word));
        let Some(number) = word.filter(|_| !is_quoted) else { continue };
        let len = number.bytes().take_while(u8::is_ascii_digit).count();
        if let Ok(ino) = number[..len].parse() {
            found.push((text.len() - number.len() + len, Ino(ino)));
        }
    }
    found
}

/// Returns the names of inodes, and of all directories above them.
fn names_up(view: View<'_>, wanted: &BTreeSet<Ino>) -> Result<Names> {
    let mut names = Names::new();
    let mut due: BTreeSet<Ino> = wanted.clone();
    let (mut passes, mut depth) = (0, 0);
    while !due.is_empty() && depth < DEPTH_MAX {
        let missing = names_by_parents(view, &due, &mut names)?;
        if !missing.is_empty() && passes < PASSES_MAX {
            passes += 1;
            for (ino, links) in links::of(view, &missing)? {
                let link = links.into_iter().next().map(|link| (link.dir, link.name));
                names.extend(link.map(|link| (ino, link)));
            }
        }
        let above = due.iter().filter_map(|ino| names.get(ino)).map(|(dir, _)| *dir);
        due = above.filter(|dir| !names.contains_key(dir)).collect();
        due.remove(&view.geo.rootino);
        depth += 1;
    }
    Ok(names)
}

/// Finds the names of inodes whose parent pointer has it, or of directories in the one that ".."
/// names. Returns the others.
fn names_by_parents(
    view: View<'_>,
    due: &BTreeSet<Ino>,
    names: &mut Names,
) -> Result<BTreeSet<Ino>> {
    let mut by_parent: BTreeMap<Ino, BTreeSet<Ino>> = BTreeMap::new();
    for ino in due {
        if let Some(link) = attributes::parents_of(view, *ino)?.into_iter().next() {
            names.insert(*ino, (link.dir, link.name));
        } else if let Some(parent) = dotdot(view, *ino)? {
            by_parent.entry(parent).or_default().insert(*ino);
        }
    }
    for (dir, children) in by_parent {
        let Some(bytes) = view.inode(dir)? else { continue };
        let inode = Dinode::verify(&bytes, &view.ctx(dir), dir).ok();
        let Some(inode) = inode.filter(Dinode::is_dir) else { continue };
        directories::each_entry(view, &inode, dir, &mut |entry| {
            if children.contains(&entry.inumber) && !matches!(entry.name, b"." | b"..") {
                names.insert(entry.inumber, (dir, entry.name.to_vec()));
            }
            Ok(())
        })?;
    }
    let is_missing = |ino: &&Ino| !names.contains_key(ino) && **ino != view.geo.rootino;
    Ok(due.iter().filter(is_missing).copied().collect())
}

/// Returns the directory that ".." of a directory names.
fn dotdot(view: View<'_>, ino: Ino) -> Result<Option<Ino>> {
    let Some(bytes) = view.inode(ino)? else { return Ok(None) };
    let inode = Dinode::verify(&bytes, &view.ctx(ino), ino).ok();
    match inode.filter(Dinode::is_dir) {
        Some(inode) => directories::dotdot(view, &inode, ino),
        None => Ok(None),
    }
}

/// Returns the path of an inode, if its names lead to the root.
fn path(view: View<'_>, names: &Names, ino: Ino) -> Option<String> {
    let root = view.geo.rootino;
    let (mut way, mut at) = (Vec::new(), ino);
    while at != root {
        let (dir, name) = names.get(&at).filter(|_| way.len() < DEPTH_MAX)?;
        way.push(String::from_utf8_lossy(name));
        at = *dir;
    }
    let path: String = way.iter().rev().flat_map(|name| ["/", &**name]).collect();
    let path = if path.is_empty() { "/".to_owned() } else { path };
    // A line of the plan stays a line.
    let is_plain = !path.chars().any(char::is_control);
    Some(if is_plain { path } else { path.escape_debug().to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_follow_the_numbers_of_inodes_but_not_those_in_names() {
        let known = [(77, "/a/b"), (64, "/"), (9, "/never")];
        let known = known.into_iter().map(|(ino, path)| (Ino(ino), path.to_owned()));
        let paths = Paths { known: known.collect() };
        for (text, named) in [
            ("inode 77 (\"b\" of directory 64)", "inode 77 (/a/b) (\"b\" of directory 64 (/))"),
            ("content of inode 7 that its map", "content of inode 7 that its map"),
            ("\"inode 9 \\\" inode 9\" of directory 5", "\"inode 9 \\\" inode 9\" of directory 5"),
            ("inode 77, which is beyond use", "inode 77 (/a/b), which is beyond use"),
            ("inode", "inode"),
            ("inode 77", "inode 77 (/a/b)"),
            ("9 inodes and directory x", "9 inodes and directory x"),
            ("inode 99999999999999999999", "inode 99999999999999999999"),
        ] {
            assert_eq!(paths.named(text), named);
        }
    }
}
