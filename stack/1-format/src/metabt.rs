//! Btrees of realtime groups, each below the inode of a metadata file: reverse mappings (`rtrmap`)
//! and reference counts (`rtrefcount`).
//!
//! Blocks have the long header of the [`bmbt`](crate::bmbt), and its checks. Keys and records are
//! those of the trees of allocation groups: of reverse mappings 20 bytes for a key, of which a
//! child has two (the lowest and the highest), and 24 for a record; of reference counts 4 and 12.
//! They are not decoded here.
//!
//! ```text
//! root    level, numrecs | records                    level 0: a leaf in the inode
//! root    level, numrecs | keys[max] | pointers[max]  max from the size of the fork
//! block   long header    | keys[max] | pointers[max]  max from the size of the block
//! leaf    long header    | records
//! ```

use xfskit_units::{FsBlock, Lsn};
use zerocopy::FromBytes;
use zerocopy::big_endian::U16;

use crate::bmbt::{CRC_OFFSET, Header, NULLFSBLOCK, SelfDescription, Word};
use crate::corruption::VerifyResult;
use crate::ctx::Ctx;
use crate::layout::Layout;

/// Bytes before the keys of the root in the inode.
const ROOT_HEAD: usize = 4;
/// Bytes of a pointer.
const PTR_LEN: usize = 8;
/// Levels below the root at most: more than a group of 2^32 blocks needs.
const LEVEL_MAX: u16 = 10;
/// The metadata files that have such a tree.
const RTRMAP: u16 = 7;
const RTREFCOUNT: u16 = 8;

/// A kind of tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    magic: u32,
    /// Bytes of the keys of a child.
    key_len: usize,
    rec_len: usize,
}

/// A verified block, or the root in the inode.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    /// 0 for a leaf.
    pub level: u16,
    /// The children ([`FsBlock`]); of a leaf, none.
    pub ptrs: &'a [Word],
    /// Left neighbour; of the root, none.
    pub leftsib: Option<FsBlock>,
    /// Right neighbour; of the root, none.
    pub rightsib: Option<FsBlock>,
}

impl Kind {
    /// Returns the kind of the tree below a metadata file of type `metatype`.
    ///
    /// # Errors
    /// `inode.metatype`: it has none.
    pub fn of(metatype: u16, ctx: &Ctx<'_>) -> VerifyResult<Self> {
        ctx.within("inode.metatype", RTRMAP..=RTREFCOUNT, metatype)?;
        Ok(if metatype == RTRMAP {
            Self { magic: u32::from_be_bytes(*b"MAPR"), key_len: 40, rec_len: 24 }
        } else {
            Self { magic: u32::from_be_bytes(*b"RCNT"), key_len: 4, rec_len: 12 }
        })
    }

    /// Verifies the data fork of the inode as the root of a tree. `ctx.at` names inode and fork.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn root<'a>(self, room: &'a [u8], ctx: &Ctx<'_>) -> VerifyResult<Node<'a>> {
        let Ok((head, body)) = <[U16; 2]>::ref_from_prefix(room) else {
            return Err(ctx.short("bmdr.level", room.len()));
        };
        let [level, numrecs] = head.map(U16::get);
        ctx.at_most("bmdr.level", LEVEL_MAX, level)?;
        let numrecs = usize::from(numrecs);
        let most = self.most(room.len().saturating_sub(ROOT_HEAD), level);
        let least = usize::from(level > 0);
        ctx.within("bmdr.numrecs", least..=most, numrecs)?;
        let ptrs = self.ptrs("bmdr.ptrs", ctx, body, (level, numrecs))?;
        Ok(Node { level, ptrs, leftsib: None, rightsib: None })
    }

    /// Verifies `block` (one filesystem block) as part of the tree of inode `ctx.at.ino`.
    ///
    /// # Errors
    /// The first check that fails.
    pub fn block<'a>(self, block: &'a [u8], ctx: &Ctx<'_>) -> VerifyResult<Node<'a>> {
        ctx.crc("bmbt.crc", block, CRC_OFFSET)?;
        let short = || ctx.short("bmbt.magic", block.len());
        let Ok((head, rest)) = Header::ref_from_prefix(block) else { return Err(short()) };
        ctx.eq_hex("bmbt.magic", self.magic, head.magic.get())?;
        let Ok((own, _)) = SelfDescription::ref_from_prefix(rest) else { return Err(short()) };
        ctx.uuid("bmbt.uuid", own.uuid)?;
        ctx.blkno("bmbt.bno", own.bno.get())?;
        if let Some(ino) = ctx.at.ino {
            ctx.eq("bmbt.owner", ino.0, own.owner.get())?;
        }
        ctx.lsn("bmbt.lsn", Lsn(own.lsn.get()))?;
        let level = head.level.get();
        ctx.at_most("bmbt.level", LEVEL_MAX, level)?;
        let body = block.get(Layout::V5.long_header..).unwrap_or(&[]);
        let numrecs = usize::from(head.numrecs.get());
        ctx.within("bmbt.numrecs", 1..=self.most(body.len(), level), numrecs)?;
        let ptrs = self.ptrs("bmbt.ptrs", ctx, body, (level, numrecs))?;
        let sibling = |word: Word| (word.get() != NULLFSBLOCK).then_some(FsBlock(word.get()));
        let (leftsib, rightsib) = (sibling(head.leftsib), sibling(head.rightsib));
        Ok(Node { level, ptrs, leftsib, rightsib })
    }

    /// Returns the most records, or children, of `room` bytes.
    fn most(self, room: usize, level: u16) -> usize {
        let each = if level == 0 { self.rec_len } else { self.key_len.saturating_add(PTR_LEN) };
        room.checked_div(each).unwrap_or(0)
    }

    /// Returns the pointers in `body`, which lead to blocks of the volume.
    fn ptrs<'a>(
        self,
        id: &'static str,
        ctx: &Ctx<'_>,
        body: &'a [u8],
        (level, numrecs): (u16, usize),
    ) -> VerifyResult<&'a [Word]> {
        if level == 0 {
            return Ok(&[]);
        }
        let at = self.most(body.len(), level).saturating_mul(self.key_len);
        let area = body.get(at..).unwrap_or(&[]);
        let Ok((ptrs, _)) = <[Word]>::ref_from_prefix_with_elems(area, numrecs) else {
            return Err(ctx.short(id, body.len()));
        };
        for (index, ptr) in ptrs.iter().enumerate() {
            let exists = ctx.geo.valid_fsbno(FsBlock(ptr.get()));
            let wanted = "a block after the group headers";
            ctx.entry(index).require(id, exists, wanted, ptr.get())?;
        }
        Ok(ptrs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corruption::Location;
    use crate::testing::geo_v5;
    use xfskit_units::{Daddr, Geometry, Ino, Sectors};

    /// Returns a context of a block of inode 131.
    fn ctx(geo: &Geometry) -> Ctx<'_> {
        let at = Location::of("bmbt").daddr(Daddr(800), Sectors(8));
        Ctx::new(geo, Location { ino: Some(Ino(131)), ..at })
    }

    /// Returns a node of level 1 of a tree of reference counts, with two children.
    fn node(geo: &Geometry) -> Vec<u8> {
        let mut block = vec![0; geo.blocksize()];
        block[..4].copy_from_slice(b"RCNT");
        block[5] = 1;
        block[7] = 2;
        block[8..24].fill(0xff);
        block[24..32].copy_from_slice(&800u64.to_be_bytes());
        block[40..56].copy_from_slice(geo.meta_uuid.as_bytes());
        block[56..64].copy_from_slice(&131u64.to_be_bytes());
        let most = (geo.blocksize() - 72) / 12;
        for (index, child) in [90u64, 91].into_iter().enumerate() {
            let at = 72 + 4 * most + 8 * index;
            block[at..at + 8].copy_from_slice(&child.to_be_bytes());
        }
        xfskit_crc::update(&mut block, CRC_OFFSET);
        block
    }

    #[test]
    fn a_node_leads_to_its_children_and_each_broken_field_is_named() {
        let geo = geo_v5();
        let (ctx, good) = (ctx(&geo), node(&geo));
        let kind = Kind::of(8, &ctx).unwrap();
        let read = kind.block(&good, &ctx).unwrap();
        let ptrs: Vec<u64> = read.ptrs.iter().map(|ptr| ptr.get()).collect();
        assert_eq!((read.level, ptrs), (1, vec![90, 91]));
        assert_eq!((read.leftsib, read.rightsib), (None, None));
        let ptrs_at = 72 + 4 * ((geo.blocksize() - 72) / 12);
        for (offset, byte, id) in [
            (3, b'X', "bmbt.magic"),
            (4, 1, "bmbt.level"),
            (6, 9, "bmbt.numrecs"),
            (31, 1, "bmbt.bno"),
            (40, 1, "bmbt.uuid"),
            (63, 1, "bmbt.owner"),
            (ptrs_at, 1, "bmbt.ptrs"),
        ] {
            let mut bad = good.clone();
            bad[offset] ^= byte;
            xfskit_crc::update(&mut bad, CRC_OFFSET);
            assert_eq!(kind.block(&bad, &ctx).unwrap_err().check.0, id, "byte {offset}");
        }
        assert_eq!(Kind::of(3, &ctx).unwrap_err().check.0, "inode.metatype");
    }

    #[test]
    fn a_root_in_the_inode_has_records_or_children() {
        let geo = geo_v5();
        let ctx = ctx(&geo);
        let kind = Kind::of(7, &ctx).unwrap();
        let mut room = vec![0; 4 + 3 * 48];
        assert!(kind.root(&room, &ctx).unwrap().ptrs.is_empty());
        room[3] = 7;
        assert_eq!(kind.root(&room, &ctx).unwrap_err().check.0, "bmdr.numrecs");
        room[1..4].copy_from_slice(&[1, 0, 1]);
        room[4 + 3 * 40 + 7] = 90;
        let root = kind.root(&room, &ctx).unwrap();
        assert_eq!((root.level, root.ptrs[0].get()), (1, 90));
        room[3] = 0;
        assert_eq!(kind.root(&room, &ctx).unwrap_err().check.0, "bmdr.numrecs");
        room[0] = 1;
        assert_eq!(kind.root(&room, &ctx).unwrap_err().check.0, "bmdr.level");
    }
}
