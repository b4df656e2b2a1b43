//! What a mount of Linux shows, and what is lost of it.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

use serde::{Deserialize, Serialize};
use xfskit_test_support::kernel;
use xfskit_test_support::manifest::show;

/// One file of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    ino: u64,
    /// Digest of type, size, content, target and device.
    content: u64,
    /// Digest of permissions, owner, and attributes.
    attributes: u64,
}

/// A tree: path to file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree(BTreeMap<String, Node>);

/// What of a tree is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loss {
    /// Inodes without any name.
    pub files: usize,
    /// Inodes with other content.
    pub content: usize,
    /// Inodes with another owner, mode, or other extended attributes.
    pub attributes: usize,
    /// Names of inodes that have another name still.
    pub names: usize,
}

impl Loss {
    /// Returns whether nothing is lost.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

fn digest(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Tree {
    /// Reads the tree of a mount.
    ///
    /// # Panics
    /// A file cannot be read.
    pub fn of(mount: &Path) -> Self {
        let shown = kernel::manifest(mount);
        let node = |entry: &xfskit_test_support::Entry| {
            // A directory's content is its names; its size is its own affair.
            let is_dir = entry.mode & 0o170000 == 0o040000;
            let size = if is_dir { 0 } else { entry.size };
            let kind = entry.mode & 0o170000;
            Node {
                ino: entry.ino,
                content: digest((kind, size, entry.digest, &entry.data, &entry.target, entry.rdev)),
                attributes: digest((entry.mode, entry.uid, entry.gid, &entry.xattrs)),
            }
        };
        Self(shown.entries.iter().map(|(path, entry)| (show(path), node(entry))).collect())
    }

    /// Returns the number of names.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether there is no name.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn inodes(&self) -> BTreeMap<u64, &Node> {
        self.0.values().map(|node| (node.ino, node)).collect()
    }

    /// Returns what `after` does not have any more.
    pub fn loss(&self, after: &Self) -> Loss {
        let left = after.inodes();
        let mut loss = Loss::default();
        for (ino, node) in self.inodes() {
            match left.get(&ino) {
                None => loss.files += 1,
                Some(now) => {
                    loss.content += usize::from(now.content != node.content);
                    loss.attributes += usize::from(now.attributes != node.attributes);
                }
            }
        }
        let same =
            |path: &String, node: &Node| after.0.get(path).is_some_and(|n| n.ino == node.ino);
        let gone = self.0.iter().filter(|(path, node)| !same(path, node));
        loss.names = gone.filter(|(_, node)| left.contains_key(&node.ino)).count();
        loss
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(nodes: &[(&str, u64, u64)]) -> Tree {
        let node = |ino, content| Node { ino, content, attributes: 0 };
        Tree(nodes.iter().map(|(path, ino, c)| ((*path).to_owned(), node(*ino, *c))).collect())
    }

    #[test]
    fn a_file_moved_to_lost_and_found_has_lost_its_name_only() {
        let before = tree(&[("/", 1, 0), ("/a", 2, 5), ("/b", 3, 6), ("/c", 4, 7)]);
        let after = tree(&[("/", 1, 0), ("/lost+found/2", 2, 5), ("/c", 4, 8)]);
        assert_eq!(before.loss(&after), Loss { files: 1, content: 1, attributes: 0, names: 1 });
        assert!(before.loss(&before).is_nothing());
    }
}
