//! Inodes: names and values in their forks, and bytes that their forks do not use.

use std::ops::Range;

use xfskit_format::bmbt;
use xfskit_format::bytes::be16;
use xfskit_format::inode::{self, Dinode, FileType, Format, InodeFlags2};
use xfskit_format::{Fork, Layout, attr};
use xfskit_units::index;

use super::{Cleaner, fill};

/// Facts about a fork, taken before its bytes are changed.
struct ForkFacts {
    range: Range<usize>,
    format: Option<Format>,
    extents: u64,
}

/// Cleans an inode. Returns false if it is none, or a part is damaged.
pub(super) fn clean(cleaner: &Cleaner<'_>, bytes: &mut [u8]) -> bool {
    let core = Layout::of(cleaner.geo).inode_core;
    let Some(inode) = Dinode::parse(bytes, cleaner.geo) else { return false };
    if inode.core.magic.get() != inode::MAGIC {
        cleaner.hide(bytes, core..usize::MAX, true);
        return false;
    }
    if inode.is_free() {
        cleaner.zero(bytes, core..usize::MAX);
        return true;
    }
    let fork = |which: Fork, range| ForkFacts {
        range,
        format: inode.fork_format(which),
        extents: inode.fork_nextents(which),
    };
    let boundary = core + inode.data_fork().len();
    let data = fork(Fork::Data, core..boundary);
    let attrs = inode.attr_fork().map(|_| fork(Fork::Attr, boundary..bytes.len()));
    let (file_type, size) = (inode.file_type(), index(inode.size().0));
    // The kernel finds the files of the metadata tree by their names.
    let obfuscate = !inode.flags2().contains(InodeFlags2::METADATA);
    let data_sound = clean_data_fork(cleaner, bytes, &data, (file_type, size), obfuscate);
    let attrs_sound = attrs.is_none_or(|attrs| clean_attr_fork(cleaner, bytes, &attrs, obfuscate));
    data_sound && attrs_sound
}

fn clean_data_fork(
    cleaner: &Cleaner<'_>,
    bytes: &mut [u8],
    fork: &ForkFacts,
    (file_type, size): (Option<FileType>, usize),
    obfuscate: bool,
) -> bool {
    let part = &mut bytes[fork.range.clone()];
    match fork.format {
        Some(Format::Local) => {
            let used = size.min(part.len());
            let sound = match file_type {
                Some(FileType::Directory) => clean_sf_dir(cleaner, &mut part[..used], obfuscate),
                Some(FileType::Symlink) => {
                    if let Some(obfuscator) = cleaner.obfuscator {
                        obfuscator.path(&mut part[..used]);
                    }
                    true
                }
                _ => {
                    cleaner.hide(part, 0..usize::MAX, true);
                    false
                }
            };
            cleaner.zero(part, used..usize::MAX);
            sound && size <= used
        }
        Some(Format::Dev) => {
            cleaner.zero(part, 8..usize::MAX);
            true
        }
        Some(Format::Extents | Format::Btree) => clean_map(cleaner, part, fork),
        Some(Format::MetaBtree) => true,
        Some(Format::Uuid) | None => {
            cleaner.hide(part, 0..usize::MAX, obfuscate);
            false
        }
    }
}

/// Clears what the extent list, or the root of the extent btree, does not use.
fn clean_map(cleaner: &Cleaner<'_>, part: &mut [u8], fork: &ForkFacts) -> bool {
    if fork.format == Some(Format::Extents) {
        let used = index(fork.extents).saturating_mul(bmbt::REC_LEN);
        cleaner.zero(part, used..usize::MAX);
        return used <= part.len();
    }
    let max = bmbt::root_maxrecs(part.len());
    let count = be16(part, 2).map_or(0, usize::from);
    if count > max {
        return false;
    }
    let ptrs = 4 + 8 * max;
    cleaner.zero(part, 4 + 8 * count..ptrs);
    cleaner.zero(part, ptrs + 8 * count..usize::MAX);
    true
}

/// Changes the names of a short-form directory.
fn clean_sf_dir(cleaner: &Cleaner<'_>, part: &mut [u8], obfuscate: bool) -> bool {
    let Some(obfuscator) = cleaner.obfuscator.filter(|_| obfuscate) else { return true };
    let (Some(&count), Some(&i8count)) = (part.first(), part.get(1)) else { return false };
    let ino = if i8count == 0 { 4 } else { 8 };
    let after = ino + usize::from(cleaner.geo.features.ftype());
    let mut at = 2 + ino;
    for _ in 0..count {
        let len = part.get(at).map_or(0, |&len| usize::from(len));
        let next = at + 3 + len + after;
        if len == 0 || next > part.len() {
            fill(part, at..usize::MAX);
            return false;
        }
        obfuscator.entry(&mut part[at + 3..at + 3 + len]);
        at = next;
    }
    true
}

fn clean_attr_fork(
    cleaner: &Cleaner<'_>,
    bytes: &mut [u8],
    fork: &ForkFacts,
    obfuscate: bool,
) -> bool {
    let part = &mut bytes[fork.range.clone()];
    match fork.format {
        Some(Format::Local) => clean_sf_attrs(cleaner, part, obfuscate),
        Some(Format::Extents | Format::Btree) => clean_map(cleaner, part, fork),
        _ => {
            cleaner.hide(part, 0..usize::MAX, obfuscate);
            false
        }
    }
}

/// Changes the names of short-form attributes, and clears their values.
fn clean_sf_attrs(cleaner: &Cleaner<'_>, part: &mut [u8], obfuscate: bool) -> bool {
    let Some(total) = be16(part, 0).map(usize::from) else { return false };
    let count = part.get(2).copied().unwrap_or(0);
    let mut at = attr::sf::HEADER_LEN;
    let end = total.min(part.len());
    for _ in 0..count {
        let &[name_len, value_len, flags, ..] = part.get(at..end).unwrap_or(&[]) else {
            cleaner.hide(part, at..usize::MAX, obfuscate);
            return false;
        };
        let name = at + 3;
        let value = name + usize::from(name_len);
        let next = value + usize::from(value_len);
        if next > end {
            cleaner.hide(part, at..usize::MAX, obfuscate);
            return false;
        }
        if let Some(obfuscator) = cleaner.obfuscator.filter(|_| obfuscate) {
            if flags & attr::PARENT != 0 {
                obfuscator.entry(&mut part[name..value]);
            } else {
                obfuscator.attr(&mut part[name..value]);
                part[value..next].fill(0);
            }
        }
        at = next;
    }
    cleaner.zero(part, end..usize::MAX);
    total <= part.len()
}
