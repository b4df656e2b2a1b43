//! Edits the free index.

use xfskit_units::Geometry;
use zerocopy::big_endian::{U16, U32};

use crate::da_edit::Identity;
use crate::dir::free::Free;
use crate::dir::{NULLDATAOFF, data_edit};
use crate::image::Image;
use crate::layout::Layout;

const V5: Layout = Layout::V5;
/// Byte of `nvalid` and `nused`.
const COUNTS: usize = V5.dir_free_fields + 4;

/// Makes `image` a block of the free index, for the data blocks from `firstdb` on, which are
/// `bests`.
///
/// # Panics
/// If there are more than [`free_max`](crate::dir::free_max).
pub fn init(image: &mut impl Image, geo: &Geometry, id: Identity, firstdb: u32, bests: &[U16]) {
    data_edit::put_hdr(image, geo, V5.dir_free_magic, id);
    image.zero(V5.dir_free_fields..V5.dir_free_header);
    image.put(V5.dir_free_fields, &U32::new(firstdb));
    if !bests.is_empty() {
        image.put(V5.dir_free_header, bests);
    }
    let used = bests.iter().filter(|best| best.get() != NULLDATAOFF).count();
    put_counts(image, bests.len(), used);
}

fn put_counts(image: &mut impl Image, nvalid: usize, nused: usize) {
    let number = |n: usize| U32::new(u32::try_from(n).unwrap_or(u32::MAX));
    image.put(COUNTS, &[number(nvalid), number(nused)]);
}

/// Sets slot `slot` of the verified block in `image` to the longest unused space of its data block
/// in bytes, or to [`NULLDATAOFF`] if that block no longer exists. Returns the number of slots
/// whose data blocks exist. Returns `None` and changes nothing if the block cannot be parsed.
///
/// # Panics
/// If a block has no such slot.
pub fn set_best(image: &mut impl Image, geo: &Geometry, slot: usize, best: u16) -> Option<usize> {
    let free = Free::parse(image.bytes(), geo)?;
    let (old, nused) = (free.fbests.get(slot), xfskit_units::index(free.nused.into()));
    let was = old.is_some_and(|old| old.get() != NULLDATAOFF);
    let is = best != NULLDATAOFF;
    let used = nused.saturating_add(usize::from(is)).saturating_sub(usize::from(was));
    let nvalid = free.fbests.len();
    let now = if is {
        nvalid.max(slot.saturating_add(1))
    } else if slot.saturating_add(1) == nvalid {
        // The last slot is removed, with those after the previous used one.
        let before = free.fbests.iter().take(slot).rposition(|best| best.get() != NULLDATAOFF);
        before.map_or(0, |last| last.saturating_add(1))
    } else {
        nvalid
    };
    let at = |slot: usize| V5.dir_free_header.saturating_add(slot.saturating_mul(2));
    if slot > nvalid {
        image.edit(at(nvalid)..at(slot)).fill(0xff);
    }
    image.put(at(slot), &U16::new(best));
    if (now, used) != (nvalid, nused) {
        put_counts(image, now, used);
    }
    Some(used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dir::free_max;
    use crate::testing::geo_v5_1k;
    use crate::{Ctx, Fork, Location};
    use xfskit_units::{Daddr, FileOff, Ino};

    const NULL: u16 = NULLDATAOFF;
    const ID: Identity = Identity { owner: Ino(75), daddr: Daddr(56) };

    #[test]
    fn slots_are_counted_and_trailing_ones_dropped() {
        let geo = geo_v5_1k();
        let mut block = vec![0xff; geo.dirblksize()];
        let firstdb = u32::try_from(free_max(&geo)).unwrap();
        init(&mut block, &geo, ID, firstdb, &[]);
        let read = |block: &[u8]| -> (u32, Vec<u16>) {
            let mut block = block.to_vec();
            data_edit::stamp(&mut block);
            let fileoff = FileOff(u64::from(geo.dir_freeblk().0 + geo.dirblkfsbs()));
            let at = Location::of("test").ino(ID.owner).fork(Fork::Data).fileoff(fileoff);
            let at = Location { daddr: Some(ID.daddr), ..at };
            let free = Free::verify(&block, &Ctx::new(&geo, at)).unwrap();
            (free.nused, free.fbests.iter().map(|b| b.get()).collect())
        };
        set_best(&mut block, &geo, 0, 10);
        set_best(&mut block, &geo, 3, 30);
        assert_eq!(read(&block), (2, vec![10, NULL, NULL, 30]));
        set_best(&mut block, &geo, 3, 31);
        set_best(&mut block, &geo, 1, 0);
        assert_eq!(read(&block), (3, vec![10, 0, NULL, 31]));
        set_best(&mut block, &geo, 1, NULL);
        assert_eq!(read(&block), (2, vec![10, NULL, NULL, 31]));
        set_best(&mut block, &geo, 3, NULL);
        assert_eq!(read(&block), (1, vec![10]));
        set_best(&mut block, &geo, 0, NULL);
        assert_eq!(read(&block), (0, vec![]));
        set_best(&mut block, &geo, free_max(&geo) - 1, 8);
        assert_eq!(read(&block).0, 1);
    }
}
