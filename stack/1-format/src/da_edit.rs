//! Edits the structures that directories and attribute forks share: the header of their blocks, and
//! nodes.
//!
//! Everything here is version 5, the only version that is written. Blocks were verified before; an
//! index outside of one is the caller's mistake.

use xfskit_units::{DaBlock, Daddr, Geometry, Ino};
use zerocopy::IntoBytes;
use zerocopy::big_endian::{U16, U32, U64};

use crate::corruption::Fork;
use crate::da::{self, BlkInfo, NodeEntry, SelfDescription};
use crate::image::Image;
use crate::layout::Layout;

const V5: Layout = Layout::V5;
/// Byte of `bno`, a block's own address.
const BNO: usize = size_of::<BlkInfo>() + std::mem::offset_of!(SelfDescription, bno);
/// Byte of `level` in a node.
const LEVEL: usize = V5.da_count + 2;

/// The identity that a block carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The inode whose fork it belongs to.
    pub owner: Ino,
    /// Its address on the device.
    pub daddr: Daddr,
}

/// Writes the header of a new block of kind `magic`, without siblings; LSN and CRC are 0.
pub fn init(image: &mut impl Image, geo: &Geometry, magic: u16, id: Identity) {
    let info = BlkInfo { forw: U32::ZERO, back: U32::ZERO, magic: magic.into(), pad: U16::ZERO };
    let own = SelfDescription {
        crc: [0; 4],
        bno: id.daddr.0.into(),
        lsn: U64::ZERO,
        uuid: *geo.meta_uuid.as_bytes(),
        owner: id.owner.0.into(),
    };
    image.put(0, &info);
    image.put(size_of::<BlkInfo>(), &own);
}

/// Makes `image` a copy, with address `daddr`, of the block `from` of the same fork. Used for a
/// root whose content moves down, or a last child whose content moves up.
pub fn copy(image: &mut impl Image, from: &[u8], daddr: Daddr) {
    image.put(0, from);
    image.put(BNO, &U64::new(daddr.0));
}

/// Sets the next block of this level.
pub fn set_forw(image: &mut impl Image, forw: DaBlock) {
    image.put(std::mem::offset_of!(BlkInfo, forw), &U32::new(forw.0));
}

/// Sets the previous block of this level.
pub fn set_back(image: &mut impl Image, back: DaBlock) {
    image.put(std::mem::offset_of!(BlkInfo, back), &U32::new(back.0));
}

/// Stamps the CRC of a finished block: of a node, a directory leaf or an attribute leaf.
///
/// # Panics
/// If `block` is shorter than its header, which is the caller's mistake.
pub fn stamp(block: &mut [u8]) {
    xfskit_crc::update(block, da::CRC_OFFSET);
}

/// Makes `image` a node without children, which must get one before it is written. `level` is 1
/// above leaves.
pub fn init_node(image: &mut impl Image, geo: &Geometry, id: Identity, level: u16) {
    init(image, geo, V5.da_node_magic, id);
    image.zero(V5.da_count..V5.da_node_header);
    image.put(LEVEL, &U16::new(level));
}

/// Returns the byte of child `index` of a node.
fn child_at(index: usize) -> usize {
    V5.da_node_header.saturating_add(index.saturating_mul(size_of::<NodeEntry>()))
}

/// Returns the number of children of the node in `image`.
fn count(image: &impl Image) -> usize {
    crate::bytes::be16(image.bytes(), V5.da_count).unwrap_or(0).into()
}

/// Replaces the `len` children from `at` on by `children`. Returns false and changes nothing if
/// they do not fit.
pub fn splice_children(
    image: &mut impl Image,
    geo: &Geometry,
    fork: Fork,
    at: usize,
    len: usize,
    children: &[NodeEntry],
) -> bool {
    let old = count(image);
    let behind = at.saturating_add(len).min(old);
    let new = old.saturating_sub(len).saturating_add(children.len());
    let (true, Ok(new16)) = (new <= da::node_max(geo, fork), u16::try_from(new)) else {
        return false;
    };
    image.shift(child_at(behind)..child_at(old), child_at(at.saturating_add(children.len())));
    if !children.is_empty() {
        image.put(child_at(at), children.as_bytes());
    }
    if new != old {
        image.put(V5.da_count, &U16::new(new16));
    }
    true
}

/// Sets the hash of child `index`.
pub fn set_hash(image: &mut impl Image, index: usize, hash: u32) {
    image.put(child_at(index), &U32::new(hash));
}

/// Makes the entry of one child: the last hash below it, and its address.
pub fn child(hash: u32, before: DaBlock) -> NodeEntry {
    NodeEntry { hashval: hash.into(), before: before.0.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::da::Node;
    use crate::testing::geo_v5_1k;
    use crate::{Ctx, Location};

    const ID: Identity = Identity { owner: Ino(75), daddr: Daddr(56) };

    fn check(block: &[u8], geo: &Geometry) -> Vec<(u32, u32)> {
        let mut block = block.to_vec();
        stamp(&mut block);
        let at = Location::of("test").ino(ID.owner).fork(Fork::Attr);
        let at = Location { daddr: Some(ID.daddr), ..at };
        let node = Node::verify(&block, &Ctx::new(geo, at), Fork::Attr).unwrap();
        assert_eq!(node.level, 2);
        node.btree.iter().map(|c| (c.hashval.get(), c.before.get())).collect()
    }

    #[test]
    fn children_are_inserted_replaced_and_removed() {
        let geo = geo_v5_1k();
        let mut block = vec![0xff; 1024];
        init_node(&mut block, &geo, ID, 2);
        let kid = |n: u32| child(n * 10, DaBlock(n));
        let attr = Fork::Attr;
        assert!(splice_children(&mut block, &geo, attr, 0, 0, &[kid(1), kid(3)]));
        assert!(splice_children(&mut block, &geo, attr, 1, 0, &[kid(2)]));
        assert_eq!(check(&block, &geo), [(10, 1), (20, 2), (30, 3)]);
        assert!(splice_children(&mut block, &geo, attr, 0, 2, &[kid(2)]));
        set_hash(&mut block, 1, 35);
        assert_eq!(check(&block, &geo), [(20, 2), (35, 3)]);
        let many: Vec<NodeEntry> = (4..=121).map(kid).collect();
        assert!(splice_children(&mut block, &geo, attr, 2, 0, &many));
        assert_eq!(check(&block, &geo).len(), da::node_max(&geo, attr));
        let full = block.clone();
        assert!(!splice_children(&mut block, &geo, attr, 0, 0, &[kid(0)]));
        assert_eq!(block, full, "nothing was done");
        assert!(splice_children(&mut block, &geo, attr, 2, 118, &[]));
        assert_eq!(check(&block, &geo), [(20, 2), (35, 3)]);
    }

    #[test]
    fn a_copy_carries_its_new_address() {
        let geo = geo_v5_1k();
        let mut old = vec![0; 1024];
        init_node(&mut old, &geo, Identity { daddr: Daddr(8), ..ID }, 2);
        splice_children(&mut old, &geo, Fork::Attr, 0, 0, &[child(7, DaBlock(1))]);
        set_forw(&mut old, DaBlock(5));
        set_back(&mut old, DaBlock(6));
        let mut new = vec![0; 1024];
        copy(&mut new, &old, ID.daddr);
        assert_eq!(check(&new, &geo), [(7, 1)]);
        let node = Node::parse(&new, &geo).unwrap();
        assert_eq!((node.info.forw.get(), node.info.back.get()), (5, 6));
    }
}
