//! A block of a file or a header of a group, as the journal has it.
//!
//! The journal has the parts of a block that changed. Two blocks are made of them:
//!
//! 1. The block on disk with the logged parts laid over it. If the damage lies within those parts,
//!    that is the block as it was written, and its checksum on disk is right for it.
//! 2. The logged parts alone. The rest is unknown, and does not matter if the block is sound and
//!    says the same whatever is put there: unused space of a directory block, for example.

use xfskit_format::agf::Agf;
use xfskit_format::agfl::Agfl;
use xfskit_format::agi::Agi;
use xfskit_format::bmbt::{BmbtBlock, Rec};
use xfskit_format::da::Node;
use xfskit_format::dir::data::Data;
use xfskit_format::dir::free::Free;
use xfskit_format::dir::leaf::Leaf;
use xfskit_format::log::Stamp;
use xfskit_format::log::item::buf::{Buf, BufType, CHUNK};
use xfskit_format::{Ctx, Fork, Location, attr, bytes, symlink};
use xfskit_units::{ByteLen, Geometry, Lsn};

use crate::error::Result;
use crate::view::View;

/// Values for unknown bytes, in turn.
const FILLS: [u8; 2] = [0, 0xa5];
/// Bytes of offset and length in the header of a symbolic link's block.
const SYMLINK_OFFSET: usize = 4;
const SYMLINK_BYTES: usize = 8;

/// The logged parts of a block.
#[derive(Debug)]
pub(crate) struct BlockCopy {
    buf_type: BufType,
    /// The block on disk.
    disk: Vec<u8>,
    /// That with the logged parts over it.
    over: Vec<u8>,
    /// The logged parts alone.
    alone: Vec<u8>,
    /// Of each 128 bytes, whether they are logged.
    known: Vec<bool>,
    /// The newest transaction.
    pub lsn: Lsn,
}

impl BlockCopy {
    /// Returns the copy of a block of which nothing is known yet.
    pub(crate) fn new(view: View<'_>, buf: &Buf<'_>) -> Result<Self> {
        let mut disk = vec![0; buf.byte_len()];
        view.dev.read_at(buf.daddr().byte_offset(), &mut disk)?;
        Ok(Self {
            buf_type: buf.buf_type(),
            over: disk.clone(),
            alone: vec![0; disk.len()],
            known: vec![false; disk.len().div_ceil(CHUNK)],
            disk,
            lsn: Lsn::NONE,
        })
    }

    /// Returns true if an item is of the same block: freed blocks are used again.
    pub(crate) fn is_of(&self, buf: &Buf<'_>) -> bool {
        (self.buf_type, self.disk.len()) == (buf.buf_type(), buf.byte_len())
    }

    /// Takes the parts of a newer item.
    pub(crate) fn take(&mut self, buf: &Buf<'_>, lsn: Lsn) {
        for change in buf.changes() {
            let range = change.offset..change.offset.saturating_add(change.bytes.len());
            for block in [&mut self.over, &mut self.alone] {
                if let Some(part) = block.get_mut(range.clone()) {
                    part.copy_from_slice(change.bytes);
                }
            }
            let chunks = range.start / CHUNK..range.end / CHUNK;
            self.known.get_mut(chunks).into_iter().for_each(|known| known.fill(true));
        }
        self.lsn = lsn;
    }

    /// Returns the block as it was, and why it is believed; `None` if the one on disk is sound, or
    /// the journal does not have all of it.
    pub(crate) fn sound(&self, at: Location, geo: &Geometry) -> Option<(Vec<u8>, &'static str)> {
        if meaning(&self.disk, at, geo).is_some() {
            return None;
        }
        let laid_over = self.laid_over(geo).filter(|block| meaning(block, at, geo).is_some());
        if let Some(block) = laid_over {
            return Some((block, "with the logged parts over it, the checksum on disk is right"));
        }
        // The verifier of a file's block knows the owner only by the inode that leads there.
        let is_header = matches!(self.buf_type, BufType::Agf | BufType::Agi | BufType::Agfl);
        if !(is_header || at.ino.is_some()) || self.is_older_than_disk(geo) {
            return None;
        }
        let [block, other] = FILLS.map(|fill| self.filled(fill, geo));
        let says = meaning(block.as_ref()?, at, geo)?;
        let same = meaning(other.as_ref()?, at, geo).is_some_and(|other| other == says);
        Some((block?, "all of its content is logged")).filter(|_| same)
    }

    /// Returns the block on disk with the logged parts over it. LSN and checksum are stamped when a
    /// block is written: the journal has older ones.
    fn laid_over(&self, geo: &Geometry) -> Option<Vec<u8>> {
        let stamp = Stamp::of(&self.over, geo)?;
        let mut block = self.over.clone();
        for (at, len) in [(stamp.crc, 4), (stamp.lsn, 8)] {
            let range = at..at.saturating_add(len);
            block.get_mut(range.clone())?.copy_from_slice(self.disk.get(range)?);
        }
        stamp.is_whole(&block).then_some(block)
    }

    /// Returns the logged parts with `fill` between them, stamped as recovery does.
    fn filled(&self, fill: u8, geo: &Geometry) -> Option<Vec<u8>> {
        let mut block = self.alone.clone();
        for (known, part) in self.known.iter().zip(block.chunks_mut(CHUNK)) {
            if !known {
                part.fill(fill);
            }
        }
        let stamp = Stamp::of(&block, geo)?;
        stamp.write(&mut block, self.lsn);
        Some(block)
    }

    /// Returns true if the block on disk names its volume, and a newer transaction.
    fn is_older_than_disk(&self, geo: &Geometry) -> bool {
        Stamp::of(&self.disk, geo)
            .is_some_and(|stamp| stamp.belongs(&self.disk, geo) && stamp.lsn(&self.disk) > self.lsn)
    }
}

/// Returns what a block says, if it is sound and belongs where it is.
fn meaning(block: &[u8], at: Location, geo: &Geometry) -> Option<String> {
    let ctx = Ctx::new(geo, at);
    let fork = at.fork.unwrap_or(Fork::Data);
    let stamp = Stamp::of(block, geo)?;
    Some(match stamp.buf_type {
        BufType::DirBlock | BufType::DirData => {
            let data = Data::verify(block, &ctx, None).ok()?;
            format!("{:?}", data.entries().collect::<Vec<_>>())
        }
        BufType::DirFree => format!("{:?}", Free::verify(block, &ctx).ok()?.fbests),
        BufType::DirLeaf1 | BufType::DirLeafn => {
            format!("{:?}", Leaf::verify(block, &ctx, None).ok()?.lents)
        }
        BufType::DaNode => format!("{:?}", Node::verify(block, &ctx, fork).ok()?.btree),
        BufType::AttrLeaf => {
            let leaf = attr::leaf::Leaf::verify(block, &ctx).ok()?;
            leaf.verify_space(&ctx).ok()?;
            format!("{:?}", leaf.attrs().collect::<Vec<_>>())
        }
        BufType::Btree if block.starts_with(b"BMA3") => {
            let map = BmbtBlock::verify(block, &ctx, fork).ok()?;
            let recs: Vec<_> = map.recs().iter().map(Rec::decode).collect();
            format!("{recs:?} {:?} {:?}", map.keys(), map.ptrs())
        }
        BufType::Symlink => {
            let offset = bytes::be32(block, SYMLINK_OFFSET)?;
            let len = ByteLen(bytes::be32(block, SYMLINK_BYTES)?.into());
            format!("{offset} {:?}", symlink::verify(block, &ctx, offset, len).ok()?)
        }
        // The checksum depends on what is behind the fields.
        BufType::Agf => {
            let agf = Agf::verify(block, &ctx, at.agno?).ok()?;
            format!("{:?}", Agf { crc: [0; 4], ..agf.clone() })
        }
        BufType::Agi => {
            let agi = Agi::verify(block, &ctx, at.agno?).ok()?;
            format!("{:?}", Agi { crc: [0; 4], ..agi.clone() })
        }
        BufType::Agfl => format!("{:?}", Agfl::verify(block, &ctx, at.agno?).ok()?.bno),
        _ => return None,
    })
}
