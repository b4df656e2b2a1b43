//! Twins: guesses that put the volume's sectors in the same places of the same members.
//!
//! An array that begins where a partition or a logical volume of another array begins can hold the
//! volume in the same places. Both read the same. The table that says where the volume lies tells
//! them apart: the guess that explains it leaves fewer blocks astray.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use xfskit_units::{ArraySector, Sectors};

use super::evidence::{Address, Placement, Volume};
use super::shape::Shape;
use super::{Guess, ManualGeometry};
use crate::layout::Layout;

/// Removes each guess with a twin that leaves fewer blocks astray.
pub(super) fn remove_worse(guesses: &mut Vec<(Guess, &Placement)>, volume: &Volume) {
    let digest = |(guess, placement): &(Guess, &Placement)| digest(guess, placement, volume);
    let digests: Vec<Option<u64>> = guesses.iter().map(digest).collect();
    let mut least: HashMap<u64, usize> = HashMap::new();
    for (digest, (guess, _)) in digests.iter().zip(&*guesses) {
        if let Some(digest) = digest {
            let astray = least.entry(*digest).or_insert(usize::MAX);
            *astray = guess.astray().min(*astray);
        }
    }
    let mut digests = digests.into_iter();
    guesses.retain(|(guess, _)| {
        let least = digests.next().flatten().and_then(|digest| least.get(&digest));
        least.is_none_or(|least| guess.astray() == *least)
    });
}

/// Returns a digest of the places of the volume's sectors and of their parity; `None` where they
/// depend on the array's size.
fn digest(guess: &Guess, placement: &Placement, volume: &Volume) -> Option<u64> {
    let ManualGeometry { layout, chunk, offset, size } = guess.manual;
    if matches!(layout, Layout::Raid10(layout) if layout.far() > 1) {
        return None;
    }
    let shape = Shape { layout, chunk, size, members: guess.order.len() };
    let mut digest = DefaultHasher::new();
    (layout, chunk.0).hash(&mut digest);
    let mut places = Vec::new();
    for at in samples(chunk, guess.order.len(), volume) {
        let sector = placement.sector(Address::Volume(at))?;
        places.clear();
        shape.add_places(sector, &mut places);
        for (role, at) in &places {
            (guess.order.get(*role), offset.0.checked_add(*at)?).hash(&mut digest);
            let stripe = shape.stripe(*at);
            let parity = stripe.map(|stripe| (Some(stripe.p), stripe.q));
            let (p, q) = parity.unwrap_or_default();
            [p, q].map(|role| guess.order.get(role?)).hash(&mut digest);
        }
    }
    Some(digest.finish())
}

/// Returns sectors of so many chunks that each layout of these members comes back to where it
/// began: at the volume's start, and in its middle.
fn samples(chunk: Sectors, members: usize, volume: &Volume) -> impl Iterator<Item = ArraySector> {
    let (end, chunk) = (volume.sectors(), chunk.0.max(1));
    let chunks = (members * members) as u64;
    [0, end / 2].into_iter().flat_map(move |start| {
        let at = move |i: u64| start.checked_add(i.checked_mul(chunk)?).filter(|at| *at < end);
        (0..chunks).map_while(at).map(ArraySector)
    })
}
