//! Writes the blocks of a value that is too large for its leaf. They are not logged, so a block is
//! finished, with its CRC, when it is filled.

use xfskit_units::Geometry;
use zerocopy::big_endian::U32;
use zerocopy::{FromZeros, IntoBytes};

use crate::attr::remote::{CRC_OFFSET, Hdr, MAGIC, NULL_LSN, payload_max};
use crate::da_edit::Identity;

/// Fills `block` with the part of `value` that block `index` (from 0) of its blocks holds.
///
/// # Panics
/// If `block` is not one filesystem block, or `value` does not reach it, which is the caller's
/// mistake.
#[expect(clippy::indexing_slicing, reason = "the doc comment documents this panic")]
pub fn fill(block: &mut [u8], geo: &Geometry, id: Identity, value: &[u8], index: u32) {
    let payload = payload_max(geo);
    let offset = payload.saturating_mul(xfskit_units::index(index.into()));
    let rest = &value[offset..];
    let part = &rest[..rest.len().min(payload)];
    let number = |n: usize| U32::new(u32::try_from(n).unwrap_or(u32::MAX));
    let hdr = Hdr {
        magic: MAGIC.into(),
        offset: number(offset),
        bytes: number(part.len()),
        crc: [0; 4],
        uuid: *geo.meta_uuid.as_bytes(),
        owner: id.owner.0.into(),
        bno: id.daddr.0.into(),
        lsn: NULL_LSN.into(),
    };
    let (head, body) = block.split_at_mut(size_of::<Hdr>());
    head.copy_from_slice(hdr.as_bytes());
    let (content, behind) = body.split_at_mut(part.len());
    content.copy_from_slice(part);
    behind.zero();
    xfskit_crc::update(block, CRC_OFFSET);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attr::remote;
    use crate::testing::geo_v5_1k;
    use crate::{Ctx, Location};
    use xfskit_units::{Daddr, Ino};

    #[test]
    fn a_value_in_pieces_reads_back() {
        let geo = geo_v5_1k();
        let value: Vec<u8> = (0..65536u32).map(|i| u8::try_from(i % 251).unwrap()).collect();
        for len in [1, 967, 968, 969, 1500, 65536] {
            let len32 = u32::try_from(len).unwrap();
            let mut back: Vec<u8> = Vec::new();
            for k in 0..remote::blocks(&geo, len32) {
                let id = Identity { owner: Ino(74), daddr: Daddr(58 + u64::from(k)) };
                let mut block = vec![0xff; 1024];
                fill(&mut block, &geo, id, &value[..len], k);
                let at = Location { daddr: Some(id.daddr), ..Location::of("test").ino(id.owner) };
                let offset = u32::try_from(back.len()).unwrap();
                back.extend(remote::verify(&block, &Ctx::new(&geo, at), offset, len32).unwrap());
            }
            assert_eq!(back, &value[..len]);
        }
    }
}
