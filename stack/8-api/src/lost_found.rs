//! Where removed files are given back whose old place is gone, and their names there.

use xfskit_format::dir::NAME_MAX;
use xfskit_undelete::Candidate;

/// Where files go whose old place is gone.
pub(crate) const LOST_FOUND: &str = "lost+found";

/// Returns names for a file whose old place is gone: they have its number, and the name that it
/// had (`own`, empty if it is not known), cut to the length of one; then also its generation.
pub(crate) fn telling_names(file: &Candidate, own: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let number = format!("inode-{}", file.ino.0);
    let generation = file.generation.map(|generation| format!("{number}-{generation:x}"));
    std::iter::once(number).chain(generation).map(move |head| {
        let mut name = head.into_bytes();
        if !own.is_empty() {
            name.push(b'-');
            name.extend_from_slice(own);
        }
        name.truncate(NAME_MAX);
        name
    })
}
