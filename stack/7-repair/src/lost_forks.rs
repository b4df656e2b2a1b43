//! Blocks that nothing claims, by the inode that each names: where content is whose map is lost.
//!
//! A block counts only if its checksum is right, it is of this volume, names its own place, and
//! neither the btrees of its group nor a file have it, free or in use. Blocks in free space may be
//! those of a removed file, and are no evidence.

use std::collections::BTreeMap;

use xfskit_format::attr::leaf::Leaf;
use xfskit_format::attr::remote;
use xfskit_format::bmbt::Extent;
use xfskit_format::log::Stamp;
use xfskit_format::{Ctx, Location, bytes, symlink};
use xfskit_units::{AgBlock, ByteLen, Daddr, FilBlks, FileOff, Ino};
use zerocopy::FromBytes;

use crate::error::Result;
use crate::ground;
use crate::headers;
use crate::unclaimed::{Kind, Part, Stray, Unclaimed};
use crate::view::View;

/// Blocks that are read at most.
const BLOCKS_MAX: u64 = 1 << 18;
/// Magics of a leaf of attributes, and of a node of a hash btree.
const LEAF: u16 = 0x3bee;
const NODE: u16 = 0x3ebe;

/// The evidence for a target that was found in such blocks.
pub(crate) const TARGET: &str = "blocks of its target that nothing claims, and that name it";

/// Returns the blocks that nothing claims and that name an inode, of all groups whose btrees can be
/// read.
pub(crate) fn find(view: View<'_>) -> Result<Unclaimed> {
    let mut found = Unclaimed::default();
    let mut read = 0;
    for group in &view.survey.groups {
        for range in ground::unclaimed(group)? {
            let mut at = range.start;
            while at < range.end && read < BLOCKS_MAX {
                read += 1;
                let daddr = view.geo.agb_to_daddr(group.agno, AgBlock(at));
                let named = named(view, daddr, range.end - at)?;
                let blocks = named.map_or(1, |(_, kind)| kind.blocks());
                if let Some((owner, kind)) = named {
                    let at = view.geo.agb_to_fsb(group.agno, AgBlock(at));
                    found.add(owner, Stray { at, kind });
                }
                at = at.saturating_add(u32::try_from(blocks).unwrap_or(u32::MAX));
            }
        }
    }
    Ok(found)
}

/// Returns the owner and the kind of the block at `at`, behind which `room` blocks are unclaimed.
fn named(view: View<'_>, at: Daddr, room: u32) -> Result<Option<(Ino, Kind)>> {
    let geo = view.geo;
    let mut block = vec![0; geo.blocksize()];
    view.dev.read_at(at.byte_offset(), &mut block)?;
    let Some(owner) = headers::owner(geo, &block, at).map(Ino) else { return Ok(None) };
    let ctx = Ctx::new(geo, location(owner, at));
    let is_whole = Stamp::of(&block, geo).is_some_and(|stamp| stamp.is_whole(&block));
    let kind = match bytes::be32(&block, 0) {
        Some(symlink::MAGIC) => return target(view, (owner, at), &block, room),
        Some(remote::MAGIC) => value(&block, &ctx).map(Kind::Value),
        _ if block.starts_with(b"BMA3") => is_whole.then_some(Kind::Map),
        _ => match xfskit_format::da::magic(&block) {
            Some(LEAF) => Leaf::verify(&block, &ctx).is_ok().then_some(Kind::Leaf),
            Some(NODE) => is_whole.then_some(Kind::Node),
            _ => None,
        },
    };
    Ok(kind.map(|kind| (owner, kind)))
}

fn location(owner: Ino, at: Daddr) -> Location {
    Location::of("block").ino(owner).daddr(at, xfskit_units::Sectors(0))
}

/// Returns the part that a block of an attribute's value has, if the block is sound.
fn value(block: &[u8], ctx: &Ctx<'_>) -> Option<Part> {
    let (head, _) = remote::Hdr::ref_from_prefix(block).ok()?;
    let part = Part { offset: head.offset.get(), bytes: head.bytes.get() };
    let len = part.offset.checked_add(part.bytes)?;
    (part.bytes > 0 && remote::verify_part(block, ctx, part.offset, len).is_ok()).then_some(part)
}

/// Returns the owner of a part of a target that begins with `block`, if all of it is sound.
fn target(
    view: View<'_>,
    (owner, at): (Ino, Daddr),
    block: &[u8],
    room: u32,
) -> Result<Option<(Ino, Kind)>> {
    let Ok((head, _)) = symlink::Header::ref_from_prefix(block) else { return Ok(None) };
    let part = Part { offset: head.offset.get(), bytes: head.bytes.get() };
    let len = size_of::<symlink::Header>().saturating_add(xfskit_units::index(part.bytes.into()));
    let blocks = len.div_ceil(view.geo.blocksize()) as u64;
    if part.bytes == 0 || part.bytes > symlink::MAX_LEN || blocks > room.into() {
        return Ok(None);
    }
    let mut extent = vec![0; xfskit_units::index(blocks) << view.geo.blocklog];
    view.dev.read_at(at.byte_offset(), &mut extent)?;
    let ctx = Ctx::new(view.geo, location(owner, at));
    let sound = symlink::verify(&extent, &ctx, part.offset, ByteLen(part.bytes.into())).is_ok();
    Ok(sound.then_some((owner, Kind::Target(part, blocks))))
}

/// Returns the map of the target of symbolic link `ino`, `size` bytes long, if unclaimed blocks
/// that name it have each part of it, and none twice.
pub(crate) fn target_map(view: View<'_>, ino: Ino, size: u64) -> Option<Vec<Extent>> {
    let mut parts = BTreeMap::new();
    for stray in view.unclaimed?.of(ino) {
        let Kind::Target(part, blocks) = stray.kind else { continue };
        if parts.insert(part.offset, (part.bytes, stray.at, blocks)).is_some() {
            return None;
        }
    }
    let (mut map, mut len, mut fileoff) = (Vec::new(), 0u64, 0);
    for (offset, (bytes, at, blocks)) in parts {
        if u64::from(offset) != len {
            return None;
        }
        // Each part has a header: two that touch are two extents.
        map.push(Extent {
            startoff: FileOff(fileoff),
            startblock: at,
            blockcount: FilBlks(blocks),
            unwritten: false,
        });
        len += u64::from(bytes);
        fileoff += blocks;
    }
    (len > 0 && len == size).then_some(map)
}
