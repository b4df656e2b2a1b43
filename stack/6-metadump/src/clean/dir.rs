//! Blocks of directories.

use xfskit_format::bytes::{be16, be32};
use xfskit_format::dir::data::{FREETAG, Form};
use xfskit_format::dir::entry_len;
use xfskit_format::{Layout, da, dir};
use xfskit_units::{Geometry, index};

use super::Cleaner;

/// Returns where the CRC of a block of a directory is on version 5; `None` for another block.
pub(super) fn crc_offset(block: &[u8], geo: &Geometry) -> Option<usize> {
    let layout = Layout::of(geo);
    let magic = be32(block, 0)?;
    if [layout.dir_data_magic, layout.dir_block_magic, layout.dir_free_magic].contains(&magic) {
        return Some(dir::data::CRC_OFFSET);
    }
    let magics = [layout.dir_leaf1_magic, layout.dir_leafn_magic, layout.da_node_magic];
    magics.contains(&da::magic(block)?).then_some(da::CRC_OFFSET)
}

/// Cleans a block for which [`crc_offset`] knows the CRC. Returns false if a part is damaged.
pub(super) fn clean(cleaner: &Cleaner<'_>, block: &mut [u8], obfuscate: bool) -> bool {
    let layout = Layout::of(cleaner.geo);
    if let Some(form) = Form::of(block, cleaner.geo) {
        return clean_data(cleaner, block, form, obfuscate);
    }
    if be32(block, 0) == Some(layout.dir_free_magic) {
        let nvalid = be32(block, layout.dir_free_fields + 4).map_or(0, |n| index(n.into()));
        let known = nvalid <= dir::free_max(cleaner.geo);
        if known {
            cleaner.zero(block, layout.dir_free_header + 2 * nvalid..usize::MAX);
        }
        return known;
    }
    let magic = da::magic(block).unwrap_or(0);
    let count = be16(block, layout.da_count).map_or(0, usize::from);
    let (header, tail) = if magic == layout.da_node_magic {
        (layout.da_node_header, 0)
    } else if magic == layout.dir_leaf1_magic {
        let bests = be32(block, block.len().saturating_sub(4)).unwrap_or(u32::MAX);
        (layout.dir_leaf_header, index(bests.into()).saturating_mul(2).saturating_add(4))
    } else {
        (layout.dir_leaf_header, 0)
    };
    let (start, end) = (header + 8 * count, block.len().checked_sub(tail));
    let Some(end) = end.filter(|end| start <= *end) else { return false };
    cleaner.zero(block, start..end);
    true
}

/// Cleans a block with names: entries and unused spaces, which tile it.
fn clean_data(cleaner: &Cleaner<'_>, block: &mut [u8], form: Form, obfuscate: bool) -> bool {
    let geo = cleaner.geo;
    let Some(end) = entries_end(block, form) else {
        cleaner.hide(block, Layout::of(geo).dir_data_header..usize::MAX, obfuscate);
        return false;
    };
    let mut at = Layout::of(geo).dir_data_header;
    while at < end {
        let next = if be16(block, at) == Some(FREETAG) {
            clean_unused(cleaner, block, at, end)
        } else {
            clean_entry(cleaner, block, at, end, obfuscate)
        };
        let Some(next) = next else {
            cleaner.hide(block, at..end, obfuscate);
            return false;
        };
        at = next;
    }
    true
}

/// Returns where the entries of a block end: before its hash table, in block form.
fn entries_end(block: &[u8], form: Form) -> Option<usize> {
    if form == Form::Data {
        return Some(block.len());
    }
    let tail = block.len().checked_sub(8)?;
    let count = index(be32(block, tail)?.into());
    tail.checked_sub(count.checked_mul(8)?)
}

/// Clears an unused space but for its length and its tag, and returns its end.
fn clean_unused(cleaner: &Cleaner<'_>, block: &mut [u8], at: usize, end: usize) -> Option<usize> {
    let len = usize::from(be16(block, at + 2)?);
    let next = at.checked_add(len)?;
    if len < dir::ENTRY_ALIGN || !len.is_multiple_of(dir::ENTRY_ALIGN) || next > end {
        return None;
    }
    cleaner.zero(block, at + 4..next - 2);
    Some(next)
}

/// Changes the name of an entry, clears its padding, and returns its end.
fn clean_entry(
    cleaner: &Cleaner<'_>,
    block: &mut [u8],
    at: usize,
    end: usize,
    obfuscate: bool,
) -> Option<usize> {
    let len = usize::from(*block.get(at + 8)?);
    let next = at + entry_len(cleaner.geo, len);
    if len == 0 || next > end {
        return None;
    }
    let name = at + 9;
    if let Some(obfuscator) = cleaner.obfuscator.filter(|_| obfuscate) {
        obfuscator.entry(block.get_mut(name..name + len)?);
    }
    let used = name + len + usize::from(cleaner.geo.features.ftype());
    cleaner.zero(block, used..next - 2);
    Some(next)
}
