//! The tree of a volume: every node, by path.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use xfskit_vfs::{Error, FileType, Fs, Ino};

/// Depth at which the walk of a damaged tree with a cycle ends.
const DEEPEST: usize = 8;

/// One node: its attributes and its content, each as a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// Digest of type, mode, owner, links, size, attributes, target, names.
    pub attrs: u64,
    /// Digest of a regular file's content.
    pub content: u64,
    /// Whether it is a directory.
    pub directory: bool,
}

/// A tree: nodes by path.
pub type Tree = BTreeMap<Vec<u8>, Node>;

fn number(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Returns the tree of `fs`.
///
/// # Errors
/// The first error of a read.
pub fn tree(fs: &Fs) -> Result<Tree, Error> {
    let mut errors = Vec::new();
    let tree = readable(fs, &mut errors);
    errors.into_iter().next().map_or(Ok(tree), Err)
}

/// Returns all nodes of `fs` that can be read, and appends an error to `errors` for each of the
/// others.
pub fn readable(fs: &Fs, errors: &mut Vec<Error>) -> Tree {
    let mut tree = Tree::new();
    let root = fs.volume().geo().rootino;
    add(fs, root, &[], DEEPEST, &mut tree, errors);
    tree
}

fn add(fs: &Fs, ino: Ino, path: &[u8], deep: usize, tree: &mut Tree, errors: &mut Vec<Error>) {
    match node(fs, ino) {
        Ok((node, entries)) => {
            tree.insert(path.to_vec(), node);
            for (name, ino) in entries.into_iter().filter(|_| deep > 0) {
                add(fs, ino, &[path, b"/", &name].concat(), deep - 1, tree, errors);
            }
        }
        Err(error) => errors.push(error),
    }
}

/// Returns a node, and the entries of a directory.
fn node(fs: &Fs, ino: Ino) -> Result<(Node, BTreeMap<Vec<u8>, Ino>), Error> {
    let inode = fs.inode(ino)?;
    let stat = fs.stat(&inode);
    let (xattrs, errors) = fs.xattrs(&inode);
    if let Some(error) = errors.into_iter().next() {
        return Err(error);
    }
    let xattrs: BTreeMap<_, _> = xattrs.into_iter().map(|x| (x.name, x.value)).collect();
    let (mut content, mut target, mut entries) = (0, Vec::new(), BTreeMap::new());
    match stat.file_type {
        FileType::Symlink => target = fs.read_link(&inode)?,
        FileType::Directory => {
            let portion = fs.read_dir(&inode);
            if let Some(error) = portion.errors.into_iter().next() {
                return Err(error);
            }
            entries = portion.entries.into_iter().map(|entry| (entry.name, entry.ino)).collect();
        }
        FileType::Regular => {
            let mut all = vec![0; usize::try_from(stat.size.min(1 << 24)).unwrap_or(0)];
            let len = fs.read(ino, 0, &mut all)?;
            content = number(&&all[..len]);
        }
        _ => {}
    }
    let names: Vec<_> = entries.keys().collect();
    // The size of a directory depends on its form.
    let size = if stat.file_type == FileType::Directory { 0 } else { stat.size };
    let core = (stat.mode, stat.nlink, stat.uid, stat.gid, size, stat.rdev);
    let directory = stat.file_type == FileType::Directory;
    Ok((Node { attrs: number(&(core, xattrs, target, names)), content, directory }, entries))
}
