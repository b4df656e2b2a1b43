//! Targets of symbolic links.

use xfskit_format::bmbt::Extent;
use xfskit_format::inode::{Dinode, Format, InodeMut};
use xfskit_format::{Ctx, Fork, Layout, symlink};
use xfskit_units::{ByteLen, Daddr, Ino, index};

use crate::attributes;
use crate::damage::Damage;
use crate::error::Result;
use crate::forks::{Content, Forks};
use crate::layer::Layer;
use crate::lost_forks;
use crate::plan::{Step, StepKind};
use crate::view::View;

/// Makes the target of a symbolic link again, if its bytes are there. Otherwise the link is freed.
pub(crate) fn mend(
    layer: &mut Layer<'_, '_>,
    ino: Ino,
    inode: &Dinode<'_>,
    bytes: &mut [u8],
) -> Result<Option<Step>> {
    let target = match read(layer, ino, inode, is_too_long(inode))? {
        // Of two lengths that disagree, the other one may have the target.
        None => read(layer, ino, inode, true)?,
        target => target,
    };
    let mut evidence = Vec::new();
    let target = match target {
        None => {
            let map = lost_forks::target_map(layer.view, ino, inode.size().0);
            evidence.extend(map.as_ref().map(|_| lost_forks::TARGET.to_owned()));
            map.map_or(Ok(None), |map| read_mapped(layer.view, ino, inode, &map, false))?
        }
        target => target,
    };
    let Some(target) = target else {
        layer.clear(ino, Damage::default(), &[])?;
        return Ok(layer.plan.steps.pop());
    };
    let data = if inode.format() == Some(Format::Local) {
        Content::Local(target.clone())
    } else {
        let header = Layout::V5.symlink_header;
        let room = layer.view.geo.blocksize() - header;
        let blocks = target.len().div_ceil(room) as u64;
        let map = layer.writer.room.map(layer.writer.near(ino), &[(0, blocks)])?;
        let mut offset = 0;
        for extent in &map {
            let home = layer.view.geo.fsb_to_daddr(extent.startblock).unwrap_or_default();
            let mut block = vec![0; index(extent.blockcount.0) << layer.view.geo.blocklog];
            offset += symlink::make(&mut block, layer.view.geo, (home, ino), offset, &target);
            symlink::stamp(&mut block);
            layer.writer.put(Some(Daddr::byte_offset(home)), &block)?;
        }
        Content::Mapped(map)
    };
    if let Some(inode) = InodeMut::new(bytes) {
        inode.core.core.size = (target.len() as u64).into();
    }
    let attr = attributes::content(layer.view, bytes, ino);
    evidence.push(format!("its {} bytes", target.len()));
    layer.writer.write(ino, bytes, &Forks { data, attr, forkoff: None })?;
    Ok(Some(Step {
        id: format!("target.{ino}"),
        kind: StepKind::Inode,
        what: format!("make the target of symbolic link {ino} again"),
        evidence,
        lost: Vec::new(),
        findings: Vec::new(),
        path: None,
    }))
}

/// Returns true if no target is as long as the inode says.
pub(crate) fn is_too_long(inode: &Dinode<'_>) -> bool {
    inode.size().0 > symlink::MAX_LEN.into()
}

/// Returns the target, if all of its bytes are there, without a NUL: as long as the inode says, or
/// `by_headers`.
fn read(
    layer: &Layer<'_, '_>,
    ino: Ino,
    inode: &Dinode<'_>,
    by_headers: bool,
) -> Result<Option<Vec<u8>>> {
    let size = inode.size().0.min(symlink::MAX_LEN.into());
    if inode.format() == Some(Format::Local) {
        let fork = inode.data_fork();
        let target = fork.get(..index(size)).unwrap_or(fork);
        let end = target.iter().position(|byte| *byte == 0).unwrap_or(target.len());
        return Ok(Some(target[..end].to_vec()).filter(|target| !target.is_empty()));
    }
    let map = layer.view.map(inode, ino, Fork::Data).extents;
    read_mapped(layer.view, ino, inode, &map, by_headers)
}

/// Returns the target in the blocks of a map, as [`read`] does.
fn read_mapped(
    view: View<'_>,
    ino: Ino,
    inode: &Dinode<'_>,
    map: &[Extent],
    by_headers: bool,
) -> Result<Option<Vec<u8>>> {
    let size = inode.size().0.min(symlink::MAX_LEN.into());
    let mut target = Vec::new();
    for extent in map {
        let len = index(extent.blockcount.0.min(4)) << view.geo.blocklog;
        let Some(daddr) = view.geo.fsb_to_daddr(extent.startblock) else { return Ok(None) };
        let mut block = vec![0; len];
        view.dev.read_at(daddr.byte_offset(), &mut block)?;
        let ctx = Ctx::new(
            view.geo,
            symlink::location(view.geo, extent.startblock, extent.blockcount).ino(ino),
        );
        let offset = u32::try_from(target.len()).unwrap_or(u32::MAX);
        let payload = block.get(Layout::V5.symlink_header..).unwrap_or(&[]);
        let len = if by_headers {
            block
                .get(BYTES_AT)
                .and_then(|bytes| bytes.try_into().ok())
                .map_or(0, u32::from_be_bytes)
        } else {
            u32::try_from(size).unwrap_or(u32::MAX).saturating_sub(offset)
        };
        let due = ByteLen(len.into());
        let part = match symlink::verify(&block, &ctx, offset, due) {
            Ok(part) => part,
            Err(_) if !is_own(&block) => return Ok(None),
            Err(_) => payload.get(..index(due.0)).unwrap_or(payload),
        };
        target.extend_from_slice(part);
    }
    let fits = if by_headers {
        target.len() as u64 <= symlink::MAX_LEN.into()
    } else {
        target.len() as u64 == size
    };
    let whole = fits && !target.is_empty() && !target.contains(&0);
    Ok(Some(target).filter(|_| whole))
}

/// The length of its part in the header of a block.
const BYTES_AT: std::ops::Range<usize> = 8..12;

/// Returns true if a block has the magic of a target.
fn is_own(block: &[u8]) -> bool {
    block.starts_with(b"XSLM")
}
