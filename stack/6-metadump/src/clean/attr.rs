//! Blocks of attribute forks: leaves, nodes, remote values.

use xfskit_format::bytes::{be16, be32, round_up};
use xfskit_format::{Layout, attr, da};
use xfskit_units::{Geometry, index};

use super::Cleaner;

/// Byte of the CRC field of all of them on version 5.
pub(super) const CRC_OFFSET: usize = da::CRC_OFFSET;
const _: () = assert!(CRC_OFFSET == attr::remote::CRC_OFFSET);

/// The kinds of blocks with a magic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Leaf,
    Node,
    Remote,
}

impl Known {
    pub(super) fn of(block: &[u8], geo: &Geometry) -> Option<Self> {
        let layout = Layout::of(geo);
        if geo.v5() && be32(block, 0) == Some(attr::remote::MAGIC) {
            return Some(Self::Remote);
        }
        match da::magic(block)? {
            magic if magic == layout.attr_leaf_magic => Some(Self::Leaf),
            magic if magic == layout.da_node_magic => Some(Self::Node),
            _ => None,
        }
    }
}

/// Cleans a block of one of these kinds. Returns false if a part is damaged.
pub(super) fn clean(
    cleaner: &Cleaner<'_>,
    block: &mut [u8],
    known: Known,
    obfuscate: bool,
) -> bool {
    let layout = Layout::of(cleaner.geo);
    match known {
        Known::Leaf => clean_leaf(cleaner, block, obfuscate),
        Known::Node => {
            let count = be16(block, layout.da_count).map_or(0, usize::from);
            cleaner.zero(block, layout.da_node_header + 8 * count..usize::MAX);
            layout.da_node_header + 8 * count <= block.len()
        }
        Known::Remote => {
            let start = layout.attr_remote_header;
            let used = start.saturating_add(be32(block, 8).map_or(0, |n| index(n.into())));
            cleaner.hide(block, start..used, obfuscate);
            cleaner.zero(block, used..usize::MAX);
            used <= block.len()
        }
    }
}

/// An entry of a leaf: where its parts are in the block, in bytes.
struct Parts {
    start: usize,
    name: usize,
    name_len: usize,
    /// A value in the leaf; empty if it is remote.
    value: std::ops::Range<usize>,
    end: usize,
}

fn parts(block: &[u8], at: usize, flags: u8) -> Option<Parts> {
    let parts = if flags & attr::LOCAL != 0 {
        let value_len = usize::from(be16(block, at)?);
        let name_len = usize::from(*block.get(at + 2)?);
        let name = at + 3;
        let value = name + name_len..name + name_len + value_len;
        Parts { start: at, name, name_len, end: value.end, value }
    } else {
        let name_len = usize::from(*block.get(at + 8)?);
        let end = at + 9 + name_len;
        Parts { start: at, name: at + 9, name_len, value: end..end, end }
    };
    (parts.end <= block.len()).then_some(parts)
}

/// Changes names, clears values, and clears what lies between entries.
fn clean_leaf(cleaner: &Cleaner<'_>, block: &mut [u8], obfuscate: bool) -> bool {
    let layout = Layout::of(cleaner.geo);
    let first = layout.attr_leaf_header;
    let count = be16(block, layout.da_count).map_or(0, usize::from);
    let table_end = first + 8 * count;
    if table_end > block.len() {
        cleaner.hide(block, first..usize::MAX, obfuscate);
        return false;
    }
    let obfuscator = cleaner.obfuscator.filter(|_| obfuscate);
    let old = block.to_vec();
    let mut sound = true;
    // Without a sound table nothing is known to be stale. Names that no entry leads to are hidden.
    let located: Vec<_> = (0..count)
        .map(|i| {
            let (at, flags) = (first + 8 * i, old[first + 8 * i + 6]);
            let start = usize::from(be16(&old, at + 4)?);
            let parts = parts(&old, start, flags).filter(|parts| parts.start >= table_end)?;
            Some((parts, flags))
        })
        .collect();
    let complete = located.iter().all(Option::is_some);
    if (cleaner.zero_stale && complete) || (obfuscator.is_some() && !complete) {
        block[table_end..].fill(0);
    }
    for located in located {
        let Some((parts, flags)) = located else {
            sound = false;
            continue;
        };
        let padded = round_up(parts.end - parts.start, 4).min(old.len() - parts.start);
        let end = parts.start + if cleaner.zero_stale { parts.end - parts.start } else { padded };
        block[parts.start..end].copy_from_slice(&old[parts.start..end]);
        let Some(obfuscator) = obfuscator else { continue };
        let name = &mut block[parts.name..parts.name + parts.name_len];
        if flags & attr::PARENT != 0 {
            obfuscator.entry(name);
        } else {
            obfuscator.attr(name);
            block[parts.value].fill(0);
        }
    }
    sound
}
