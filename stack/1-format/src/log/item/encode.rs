//! Encodes log items of changed blocks and inodes.
//!
//! Changes are given in runs of whole 128-byte chunks, counted from the start of the block or
//! inode, in ascending order and with a gap between them.
//!
//! | changed | items |
//! | --- | --- |
//! | a block | [`buf`]: its changed chunks |
//! | a block, freed | [`cancel`]: earlier items of it must not be replayed |
//! | an inode | [`inode()`]: the core, and each changed fork as a whole |
//! | an inode's pointer of the unlinked list | [`unlinked`]: inode items do not carry it |
//! | a chunk of inodes, new | [`icreate`] |
//!
//! [`intent()`] and [`done`] encode intents and their done items.

use std::ops::Range;

use xfskit_units::{AgBlock, AgIno, AgNumber, Daddr, ExtLen, Geometry, Ino, Lsn, Sectors};
use zerocopy::little_endian::U32;
use zerocopy::{FromZeros, IntoBytes, big_endian};

use super::buf::{BufFlags, BufFormat, BufType, CHUNK, LEN_MAX};
use super::inode::{
    ABROOT, ADATA, AEXT, CORE, CORE_LEN, DBROOT, DDATA, DEV, DEXT, InodeFormat, LogDinode,
    NEXT_UNLINKED_OFFSET,
};
use super::{Icreate, Regions, kind};
use crate::bmbt::REC_LEN;
use crate::bytes;
use crate::corruption::Fork;
use crate::image::Image;
use crate::inode::{self, Dinode, Format};
use crate::log::Stamp;

mod intent;

pub use intent::{done, intent};

/// Chunks of the longest buffer.
const CHUNKS_MAX: usize = LEN_MAX as usize * 512 / CHUNK;

/// The address and length of a buffer.
pub type BufAddr = (Daddr, Sectors);

// ---- buffers
// -------------------------------------------------------------------------------------

/// Encodes the changed chunks of the block `block`, which lies at `pieces`.
///
/// A directory block may consist of several pieces, each of which is logged as a buffer of its own.
/// If the item's type is a directory type, Linux verifies each piece as a whole block, fails, and
/// never mounts the volume again. So the pieces are logged without a type, and Linux writes the
/// bytes as they are. The first piece then carries what is otherwise stamped at the end: `lsn`, the
/// start of this checkpoint, and the CRC of the whole block.
pub fn buf(
    out: &mut impl Regions,
    geo: &Geometry,
    block: &[u8],
    pieces: &[BufAddr],
    changed: &[Range<usize>],
    lsn: Lsn,
) {
    if let &[place] = pieces {
        let buf_type = buf_type(block, geo);
        return item(out, place, buf_type.flags(), block, changed);
    }
    let mut whole = block.to_vec();
    if let Some(stamp) = Stamp::of(&whole, geo) {
        stamp.write(&mut whole, lsn);
    }
    let changed = with_first_chunk(changed);
    let mut start = 0usize;
    for &place in pieces {
        let end = start.saturating_add(xfskit_units::index(place.1.byte_len().0));
        let runs: Vec<_> = changed.iter().filter_map(|run| within(run, start..end)).collect();
        if !runs.is_empty() {
            let piece = whole.get(start..end).unwrap_or(&[]);
            item(out, place, BufType::Unknown.flags(), piece, &runs);
        }
        start = end;
    }
}

/// Returns the type under which a block is logged.
fn buf_type(block: &[u8], geo: &Geometry) -> BufType {
    match Stamp::of(block, geo) {
        Some(stamp) => stamp.buf_type,
        None if bytes::be16(block, 0) == Some(inode::MAGIC) => BufType::Inode,
        None => BufType::Unknown,
    }
}

/// Returns `runs` with the first chunk among them.
fn with_first_chunk(runs: &[Range<usize>]) -> Vec<Range<usize>> {
    let (joined, behind) = match runs {
        [first, behind @ ..] if first.start <= CHUNK => (0..first.end.max(CHUNK), behind),
        _ => (0..CHUNK, runs),
    };
    [&[joined], behind].concat()
}

/// Returns the part of `run` in `piece`, counted from the start of `piece`.
fn within(run: &Range<usize>, piece: Range<usize>) -> Option<Range<usize>> {
    let (start, end) = (run.start.max(piece.start), run.end.min(piece.end));
    (start < end).then(|| start.saturating_sub(piece.start)..end.saturating_sub(piece.start))
}

/// Encodes one buffer item: the header with its map, then every run.
fn item(out: &mut impl Regions, place: BufAddr, flags: u16, block: &[u8], runs: &[Range<usize>]) {
    head(out, place, flags, runs);
    for run in runs {
        out.region(&[block.get(run.clone()).unwrap_or(&[])]);
    }
}

/// Encodes the first region of a buffer item.
fn head(out: &mut impl Regions, (daddr, len): BufAddr, flags: u16, runs: &[Range<usize>]) {
    let mut map = [U32::ZERO; CHUNKS_MAX / 32];
    for chunk in runs.iter().flat_map(|run| run.start / CHUNK..run.end.div_ceil(CHUNK)) {
        if let Some(word) = map.get_mut(chunk / 32) {
            *word |= U32::new(1 << (chunk % 32));
        }
    }
    let len = u16::try_from(len.0).unwrap_or(u16::MAX);
    let words = usize::from(len).saturating_mul(512 / CHUNK).div_ceil(32).clamp(1, map.len());
    let format = BufFormat {
        r#type: kind::BUF.into(),
        size: u16::try_from(runs.len().saturating_add(1)).unwrap_or(u16::MAX).into(),
        flags: flags.into(),
        len: len.into(),
        blkno: daddr.0.into(),
        map_size: u32::try_from(words).unwrap_or(0).into(),
    };
    out.region(&[format.as_bytes(), map.get(..words).unwrap_or(&[]).as_bytes()]);
}

/// Encodes that the buffer at `place` was freed. Each piece of a block in several pieces is
/// cancelled by itself.
pub fn cancel(out: &mut impl Regions, place: BufAddr) {
    head(out, place, BufFlags::CANCEL.bits(), &[]);
}

/// Encodes the unlinked pointers of some inodes of the cluster at `cluster`, in ascending order:
/// the byte at which each inode begins, and the inode that it points to.
pub fn unlinked(out: &mut impl Regions, cluster: BufAddr, pointers: &[(usize, Option<AgIno>)]) {
    let chunk = |start: usize| start..start.saturating_add(CHUNK);
    let runs: Vec<_> = pointers.iter().map(|&(start, _)| chunk(start)).collect();
    head(out, cluster, BufType::Inode.flags() | BufFlags::INODE_BUF.bits(), &runs);
    for (_, next) in pointers {
        let next = next.map_or(inode::NULLAGINO, |agino| agino.0);
        let before = [0; NEXT_UNLINKED_OFFSET];
        out.region(&[&before, &next.to_be_bytes(), &[0; CHUNK - NEXT_UNLINKED_OFFSET - 4]]);
    }
}

// ---- inodes
// --------------------------------------------------------------------------------------

/// Encodes the inode `ino` in its present state `image`, which begins at byte `offset` of the
/// cluster at `cluster`: its core, and the forks that `changed` touches.
pub fn inode(
    out: &mut impl Regions,
    geo: &Geometry,
    ino: Ino,
    (cluster, offset): (BufAddr, usize),
    image: &[u8],
    changed: &[Range<usize>],
) {
    let (Some(core), Some(disk)) = (LogDinode::from_disk(image), Dinode::parse(image, geo)) else {
        return debug_assert!(false, "an inode in memory is whole");
    };
    let boundary = CORE_LEN.saturating_add(disk.data_fork().len());
    let touched =
        |part: Range<usize>| changed.iter().any(|run| within(run, part.clone()).is_some());
    let data = if touched(CORE_LEN..boundary) { fork(geo, ino, &disk, Fork::Data) } else { None };
    let attr =
        if touched(boundary..image.len()) { fork(geo, ino, &disk, Fork::Attr) } else { None };

    let mut format = InodeFormat::new_zeroed();
    let mut fields = CORE;
    let mut regions = 2u16;
    for (logged, size) in [(&data, &mut format.dsize), (&attr, &mut format.asize)] {
        if let Some(logged) = logged {
            fields |= logged.field;
            size.set(u16::try_from(logged.len()).unwrap_or(u16::MAX));
            regions = regions.saturating_add(1);
        }
    }
    if disk.format() == Some(Format::Dev) && !disk.is_free() {
        fields |= DEV;
        format.rdev = bytes::be32(disk.data_fork(), 0).unwrap_or(0).into();
    }
    format.r#type = kind::INODE.into();
    format.size = regions.into();
    format.fields = fields.into();
    format.ino = ino.0.into();
    format.blkno = cluster.0.0.into();
    format.len = u32::try_from(cluster.1.0).unwrap_or(0).into();
    format.boffset = u32::try_from(offset).unwrap_or(0).into();

    out.region(&[format.as_bytes()]);
    out.region(&[core.as_bytes()]);
    for logged in [data, attr].into_iter().flatten() {
        out.region(&[
            logged.head.as_ref().map_or(&[], <[u8; ROOT_HEAD]>::as_slice),
            logged.bytes[0],
            logged.bytes[1],
        ]);
    }
}

/// A fork as the journal carries it.
struct LoggedFork<'a> {
    field: u32,
    /// The block header of a btree root.
    head: Option<[u8; ROOT_HEAD]>,
    bytes: [&'a [u8]; 2],
}

/// Bytes of a long-form block header.
const ROOT_HEAD: usize = 72;

impl<'a> LoggedFork<'a> {
    fn plain(field: u32, bytes: Option<&'a [u8]>) -> Option<Self> {
        let bytes = bytes.filter(|bytes| !bytes.is_empty())?;
        Some(Self { field, head: None, bytes: [bytes, &[]] })
    }

    fn len(&self) -> usize {
        let head = if self.head.is_some() { ROOT_HEAD } else { 0 };
        self.bytes.iter().fold(head, |sum, part| sum.saturating_add(part.len()))
    }
}

/// Returns the logged form of `fork`; `None` if it is empty, which the core records.
fn fork<'a>(geo: &Geometry, ino: Ino, disk: &Dinode<'a>, fork: Fork) -> Option<LoggedFork<'a>> {
    let room = disk.fork(fork)?;
    let data = fork == Fork::Data;
    match disk.fork_format(fork)? {
        Format::Local => {
            let len = if data {
                xfskit_units::index(disk.size().0)
            } else {
                bytes::be16(room, 0)?.into()
            };
            LoggedFork::plain(if data { DDATA } else { ADATA }, room.get(..len))
        }
        Format::Extents => {
            let count = usize::try_from(disk.fork_nextents(fork)).ok()?;
            let len = count.checked_mul(REC_LEN)?;
            LoggedFork::plain(if data { DEXT } else { AEXT }, room.get(..len))
        }
        Format::Btree => root(geo, ino, room, if data { DBROOT } else { ABROOT }),
        Format::Dev | Format::Uuid | Format::MetaBtree => None,
    }
}

/// Returns a btree root as Linux has it in memory: a block header, keys, pointers, without space
/// for more of them.
fn root<'a>(geo: &Geometry, ino: Ino, room: &'a [u8], field: u32) -> Option<LoggedFork<'a>> {
    let numrecs = usize::from(bytes::be16(room, 2)?);
    let len = numrecs.checked_mul(8)?;
    let most = room.len().saturating_sub(4) / 16;
    let ptrs = most.saturating_mul(8).saturating_add(4);
    let bytes = [bytes::slice(room, 4, len)?, bytes::slice(room, ptrs, len)?];

    let mut head = [0; ROOT_HEAD];
    let mut image = &mut head[..];
    image.put(0, b"BMA3");
    image.put(4, room.get(..4)?);
    // No siblings and no address.
    image.put(8, &[0xff_u8; 24]);
    image.put(40, geo.meta_uuid.as_bytes());
    image.put(56, &big_endian::U64::new(ino.0));
    Some(LoggedFork { field, head: Some(head), bytes })
}

/// Encodes the new chunk of inodes that begins at block `agbno` of group `agno` and has `length`
/// blocks: empty inodes of generation `generation`.
pub fn icreate(
    geo: &Geometry,
    agno: AgNumber,
    agbno: AgBlock,
    length: ExtLen,
    generation: u32,
) -> Icreate {
    Icreate {
        r#type: kind::ICREATE.into(),
        size: 1.into(),
        ag: agno.0.into(),
        agbno: agbno.0.into(),
        count: length.0.saturating_mul(geo.inopblock()).into(),
        isize: u32::try_from(geo.inodesize()).unwrap_or(0).into(),
        length: length.0.into(),
        r#gen: generation.into(),
    }
}

#[cfg(test)]
mod tests;
