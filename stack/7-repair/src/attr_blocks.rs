//! The map of an attribute fork, of the blocks that can be read of it and those that nothing
//! claims.
//!
//! Each block of such a fork names its inode. Leaves are chained, in the order of their hashes: the
//! number of each is in its neighbours. A block of a value names its part of the value, and not the
//! value: it belongs where only one value lacks such a part. Nodes are left out: they follow from
//! the leaves.

use std::collections::{BTreeMap, BTreeSet};

use xfskit_bulk::bmbt::append;
use xfskit_format::Ctx;
use xfskit_format::attr::leaf::{AttrValue, Leaf};
use xfskit_format::attr::{VALUE_MAX, remote};
use xfskit_format::bmbt::Extent;
use xfskit_format::inode::Dinode;
use xfskit_format::{Fork, Location};
use xfskit_units::{FileOff, FsBlock, Ino, Sectors};

use crate::error::Result;
use crate::headers;
use crate::maps;
use crate::unclaimed::{Kind, Part};
use crate::view::View;

/// Blocks of a map that are read at most.
const BLOCKS_MAX: u64 = 1 << 16;

/// A map that was put together.
#[derive(Debug)]
pub(crate) struct Assembled {
    pub map: Vec<Extent>,
    /// No leaf is missing.
    pub is_complete: bool,
    /// The evidence, in words.
    pub why: String,
}

/// A leaf, and what its neighbours and its entries say.
#[derive(Clone, Debug)]
struct Found {
    at: FsBlock,
    /// Its number in the fork, if a map has it.
    place: Option<u32>,
    first: u32,
    last: u32,
    forw: u32,
    back: u32,
    /// First block and length of each value that is not in the leaf.
    values: Vec<(u32, u32)>,
}

/// Returns the map of the attribute fork of inode `ino`; `None` if no unclaimed leaf or value names
/// it, or more blocks do than the inode counts. `nblocks`: what it counts beside its data fork.
pub(crate) fn assemble(
    view: View<'_>,
    inode: &Dinode<'_>,
    ino: Ino,
    nblocks: Option<u64>,
) -> Result<Option<Assembled>> {
    let Some(unclaimed) = view.unclaimed else { return Ok(None) };
    let strays = unclaimed.of(ino);
    if !strays.iter().any(|stray| matches!(stray.kind, Kind::Leaf | Kind::Value(_))) {
        return Ok(None);
    }
    let known = maps::readable(view, inode, ino, Fork::Attr)?;
    if known.iter().map(|extent| extent.blockcount.0).sum::<u64>() > BLOCKS_MAX {
        return Ok(None);
    }
    let mut parts = Parts::default();
    let mut leaves = Vec::new();
    let mut kept = BTreeMap::new();
    for extent in &known {
        for fileoff in extent.startoff.0..extent.end().0 {
            let Ok(place) = u32::try_from(fileoff) else { break };
            let Some(at) = extent.block_at(FileOff(fileoff)) else { break };
            if names(view, ino, at)? {
                kept.insert(place, at);
                let found = leaf(view, ino, at)?;
                leaves.extend(found.map(|leaf| Found { place: Some(place), ..leaf }));
            }
        }
    }
    for stray in strays {
        match stray.kind {
            Kind::Leaf => leaves.extend(leaf(view, ino, stray.at)?),
            Kind::Value(part) => parts.have.entry(part).or_default().push(stray.at),
            _ => {}
        }
    }
    let of_fork = |kind: Kind| !matches!(kind, Kind::Target(..));
    let count = strays.iter().filter(|stray| of_fork(stray.kind)).count() as u64;
    if nblocks.is_some_and(|nblocks| kept.len() as u64 + count > nblocks) {
        return Ok(None);
    }
    let is_counted = nblocks == Some(kept.len() as u64 + count);
    let is_complete = place(&mut leaves);
    if !is_complete && !place_apart(&mut leaves) {
        return Ok(None);
    }
    // A fork of which nothing is left in the inode is one only if the inode counts its blocks.
    if known.is_empty() && inode.fork_nextents(Fork::Attr) == 0 && !(is_complete && is_counted) {
        return Ok(None);
    }
    let wanted = leaves.iter().flat_map(|leaf| &leaf.values);
    wanted.for_each(|value| parts.want(view, &kept, *value));
    let mut places = kept;
    places.extend(leaves.iter().filter_map(|leaf| Some((leaf.place?, leaf.at))));
    places.extend(parts.placed());
    let mut map = Vec::new();
    for (dablk, at) in places {
        append(&mut map, FileOff(dablk.into()), at, 1);
    }
    let why = format!("{count} blocks that nothing claims, and that name the inode");
    Ok(Some(Assembled { map, is_complete, why }))
}

/// Returns true if a block names inode `ino` as its owner.
fn names(view: View<'_>, ino: Ino, at: FsBlock) -> Result<bool> {
    let Some(daddr) = view.geo.fsb_to_daddr(at) else { return Ok(false) };
    let mut block = vec![0; view.geo.blocksize()];
    view.dev.read_at(daddr.byte_offset(), &mut block)?;
    Ok(headers::owner(view.geo, &block, daddr) == Some(ino.0))
}

/// Reads the leaf of inode `ino` in a block; `None` if there is none, or it is damaged.
fn leaf(view: View<'_>, ino: Ino, at: FsBlock) -> Result<Option<Found>> {
    let Some(daddr) = view.geo.fsb_to_daddr(at) else { return Ok(None) };
    let mut block = vec![0; view.geo.blocksize()];
    view.dev.read_at(daddr.byte_offset(), &mut block)?;
    let ctx = Ctx::new(view.geo, Location::of("block").ino(ino).daddr(daddr, Sectors(0)));
    let Ok(leaf) = Leaf::verify(&block, &ctx) else { return Ok(None) };
    let (Some(first), Some(last)) = (leaf.entries.first(), leaf.last_hash()) else {
        return Ok(None);
    };
    let values = leaf.attrs().filter(|attr| !attr.is_incomplete());
    let values = values.filter_map(|attr| match attr.value {
        AttrValue::Remote { valueblk, valuelen } => Some((valueblk.0, valuelen)),
        AttrValue::Local(_) => None,
    });
    Ok(Some(Found {
        at,
        place: None,
        first: first.hashval.get(),
        last,
        forw: leaf.info.forw.get(),
        back: leaf.info.back.get(),
        values: values.collect(),
    }))
}

/// Gives each leaf its number in the fork. Returns false, and changes nothing, if they are not one
/// chain from its first to its last leaf.
fn place(leaves: &mut [Found]) -> bool {
    leaves.sort_by_key(|leaf| (leaf.first, leaf.last));
    let (Some(first), Some(last)) = (leaves.first(), leaves.last()) else { return false };
    let ordered = leaves.windows(2).all(|pair| pair[0].last <= pair[1].first);
    if first.back != 0 || last.forw != 0 || !ordered {
        return false;
    }
    let mut places = Vec::with_capacity(leaves.len());
    for (n, leaf) in leaves.iter().enumerate() {
        let before = n.checked_sub(1).and_then(|n| leaves.get(n)).map(|leaf| leaf.forw);
        let behind = leaves.get(n + 1).map(|leaf| leaf.back);
        let told: BTreeSet<u32> = [before, behind, leaf.place].into_iter().flatten().collect();
        // A single leaf is the root, which is block 0; others are below it.
        let place = match told.into_iter().collect::<Vec<_>>()[..] {
            [] => 0,
            [place] if (place == 0) == (leaves.len() == 1) => place,
            _ => return false,
        };
        places.push(place);
    }
    if places.iter().collect::<BTreeSet<_>>().len() != places.len() {
        return false;
    }
    for (leaf, place) in leaves.iter_mut().zip(places) {
        leaf.place = Some(place);
    }
    true
}

/// Gives leaves without a number one behind all others: some are lost. Returns false if hashes of
/// two overlap, so that one of them is no leaf of the fork.
fn place_apart(leaves: &mut [Found]) -> bool {
    if leaves.is_empty() || leaves.windows(2).any(|pair| pair[0].last > pair[1].first) {
        return false;
    }
    let named = leaves.iter().flat_map(|leaf| {
        let values = leaf.values.iter().map(|(block, len)| block.saturating_add(*len));
        [leaf.forw, leaf.back, leaf.place.unwrap_or(0)].into_iter().chain(values)
    });
    let mut next = named.max().unwrap_or(0);
    for leaf in leaves.iter_mut().filter(|leaf| leaf.place.is_none()) {
        let Some(free) = next.checked_add(1) else { return false };
        (next, leaf.place) = (free, Some(free));
    }
    true
}

/// The parts of values: those that are there, and those that are missing, by what they are.
#[derive(Debug, Default)]
struct Parts {
    have: BTreeMap<Part, Vec<FsBlock>>,
    want: BTreeMap<Part, Vec<u32>>,
}

impl Parts {
    /// Adds the parts of a value that no map has.
    fn want(&mut self, view: View<'_>, kept: &BTreeMap<u32, FsBlock>, (first, len): (u32, u32)) {
        if len > VALUE_MAX {
            return;
        }
        let payload = u32::try_from(remote::payload_max(view.geo)).unwrap_or(u32::MAX).max(1);
        for n in 0..remote::blocks(view.geo, len) {
            let (offset, place) = (n.saturating_mul(payload), first.saturating_add(n));
            let part = Part { offset, bytes: len.saturating_sub(offset).min(payload) };
            if !kept.contains_key(&place) {
                self.want.entry(part).or_default().push(place);
            }
        }
    }

    /// Returns the places of the blocks of which only one can be meant.
    fn placed(&self) -> impl Iterator<Item = (u32, FsBlock)> + '_ {
        self.want.iter().filter_map(|(part, places)| {
            let have = self.have.get(part)?;
            let ([place], [at]) = (&places[..], &have[..]) else { return None };
            Some((*place, *at))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(first: u32, last: u32, back: u32, forw: u32) -> Found {
        Found {
            at: FsBlock(first.into()),
            place: None,
            first,
            last,
            forw,
            back,
            values: Vec::new(),
        }
    }

    fn places(leaves: &[Found]) -> Vec<Option<u32>> {
        leaves.iter().map(|leaf| leaf.place).collect()
    }

    #[test]
    fn neighbours_tell_the_places_of_a_chain() {
        // In any order, and one of them known.
        let mut leaves = [leaf(50, 60, 4, 0), leaf(1, 9, 0, 7), leaf(10, 40, 2, 9)];
        leaves[1].place = Some(2);
        assert!(!place(&mut leaves), "the last one has block 4 before it, and that is block 7");
        assert_eq!(places(&leaves), [Some(2), None, None]);
        leaves[2].back = 7;
        assert!(place(&mut leaves));
        assert_eq!(places(&leaves), [Some(2), Some(7), Some(9)]);
        let mut single = [leaf(1, 9, 0, 0)];
        assert!(place(&mut single));
        assert_eq!(places(&single), [Some(0)]);
    }

    #[test]
    fn what_is_no_chain_has_no_places() {
        let cases = [
            vec![],
            vec![leaf(1, 9, 0, 7)],
            vec![leaf(1, 9, 3, 0)],
            vec![leaf(1, 9, 0, 0), leaf(10, 20, 0, 0)],
            vec![leaf(1, 11, 0, 7), leaf(10, 20, 2, 0)],
            vec![leaf(1, 9, 0, 7), leaf(10, 20, 7, 0)],
        ];
        for mut leaves in cases {
            assert!(!place(&mut leaves), "{leaves:?}");
            assert!(places(&leaves).iter().all(Option::is_none));
        }
    }

    #[test]
    fn leaves_of_a_broken_chain_are_apart_only_if_their_hashes_are() {
        let mut leaves = [leaf(1, 9, 0, 7), leaf(30, 40, 9, 0)];
        leaves[0].values.push((100, 5));
        assert!(place_apart(&mut leaves));
        assert_eq!(places(&leaves), [Some(106), Some(107)]);
        assert!(!place_apart(&mut [leaf(1, 9, 0, 7), leaf(5, 40, 9, 0)]));
    }

    #[test]
    fn a_part_that_two_values_lack_belongs_to_neither() {
        let (one, two) = (Part { offset: 0, bytes: 100 }, Part { offset: 0, bytes: 200 });
        let mut parts = Parts::default();
        parts.want.insert(one, vec![3]);
        parts.have.insert(one, vec![FsBlock(30)]);
        parts.want.insert(two, vec![4, 5]);
        parts.have.insert(two, vec![FsBlock(40)]);
        assert_eq!(parts.placed().collect::<Vec<_>>(), [(3, FsBlock(30))]);
        parts.have.insert(one, vec![FsBlock(30), FsBlock(31)]);
        assert_eq!(parts.placed().count(), 0);
    }
}
