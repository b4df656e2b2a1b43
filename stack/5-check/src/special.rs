//! Files that the superblock names: quota, and the map of a realtime device's free extents.

use xfskit_format::bmbt::Extent;
use xfskit_format::dquot::{self, Dqblk};
use xfskit_format::inode::{self, Dinode};
use xfskit_format::sb::Superblock;
use xfskit_format::{Fork, Location, VerifyResult};
use xfskit_units::{FsBlock, Ino};

use crate::forks::{self, Mapped};
use crate::inodes::Inodes;

/// Judges the content of the files that the superblock names; they are regular files.
pub(crate) fn judge(shared: &Inodes<'_, '_>, primary: &Superblock) {
    let geo = &shared.vol.geo;
    if geo.features.metadir() {
        return;
    }
    for (ino, kind) in quota_files(shared, primary) {
        judge_quota(shared, ino, kind);
    }
    if let Some(ino) = geo.rbmino.filter(|_| geo.rblocks.0 != 0) {
        judge_bitmap(shared, primary, ino);
    }
}

/// The quota files, and whose quota each keeps. On version 4 the second belongs to groups or to
/// projects, as the flags say.
fn quota_files(shared: &Inodes<'_, '_>, primary: &Superblock) -> Vec<(Ino, dquot::Kind)> {
    const V4_PROJECTS: u16 = 0x08;
    let v5 = shared.vol.geo.v5();
    let projects = !v5 && primary.qflags.get() & V4_PROJECTS != 0;
    let second = if projects { dquot::Kind::Project } else { dquot::Kind::Group };
    let mut files =
        vec![(primary.uquotino.get(), dquot::Kind::User), (primary.gquotino.get(), second)];
    if v5 {
        files.push((primary.pquotino.get(), dquot::Kind::Project));
    }
    let some = files.into_iter().filter(|(ino, _)| *ino != 0 && *ino != u64::MAX);
    some.map(|(ino, kind)| (Ino(ino), kind)).collect()
}

/// The inode's size, and the map of its data fork.
fn map_of(shared: &Inodes<'_, '_>, ino: Ino) -> Option<(u64, Vec<Extent>)> {
    let vol = shared.vol;
    let at = inode::location(&vol.geo, ino);
    let mut block = vec![0; vol.geo.blocksize()];
    if !vol.read(at, &mut block) {
        return None;
    }
    let offset = vol.geo.agino_block_offset(vol.geo.ino_split(ino)?.1);
    let inode = Dinode::parse(block.get(offset..)?, &vol.geo)?;
    let mut map = Vec::new();
    let mut scratch = forks::Scratch::default();
    let keep = &mut |mapped| {
        if let Mapped::Extent(extent) = mapped {
            map.push(extent);
        }
    };
    // Phase 3 has reported what is wrong with the map.
    let whole = forks::walk(shared.quiet, &mut scratch, &inode, at, Fork::Data, keep);
    whole.then(|| (inode.size().0, map))
}

/// Every block of `map` in file order: its number in the file, and where it lies.
fn blocks(map: &[Extent]) -> impl Iterator<Item = (u64, FsBlock)> {
    map.iter().flat_map(|extent| {
        (0..extent.blockcount.0).map_while(|n| {
            Some((extent.startoff.0.checked_add(n)?, extent.startblock.checked_add(n)?))
        })
    })
}

/// Block n of a quota file holds the dquots from n times [`dquot::per_block`].
fn judge_quota(shared: &Inodes<'_, '_>, ino: Ino, kind: dquot::Kind) {
    let vol = shared.vol;
    let Some((_, map)) = map_of(shared, ino) else { return };
    let per_block = dquot::per_block(&vol.geo);
    let mut buf = vec![0; vol.geo.blocksize()];
    for (number, fsbno) in blocks(&map) {
        let Some(daddr) = vol.geo.fsb_to_daddr(fsbno) else { continue };
        let at = Location::of("dquot block").ino(ino).daddr(daddr, vol.geo.block_sectors());
        if !vol.read(at, &mut buf) {
            continue;
        }
        let verdicts = |bytes: &[u8]| -> Vec<VerifyResult> {
            let slots = bytes.chunks_exact(size_of::<Dqblk>()).take(per_block).enumerate();
            let judge = |(slot, bytes): (usize, &[u8])| {
                let id = number.saturating_mul(per_block as u64).saturating_add(slot as u64);
                let id = u32::try_from(id).unwrap_or(u32::MAX);
                Dqblk::verify(bytes, &vol.ctx(at.index(slot)), kind, id).map(drop)
            };
            slots.map(judge).collect()
        };
        let found = verdicts(&buf);
        let Some(Err(fault)) = found.iter().find(|verdict| verdict.is_err()) else { continue };
        let sound = |bytes: &[u8]| verdicts(bytes).into_iter().collect::<VerifyResult>();
        if let Some(((), healing)) = vol.other_way(at, &mut buf, sound) {
            vol.sink.report_healed(fault.clone(), healing);
            continue;
        }
        for verdict in found {
            vol.sink.error(verdict);
        }
    }
}

/// One bit for each realtime extent, set where it is free. The order of bytes is that of the
/// machine that wrote it, which does not matter to a count.
fn judge_bitmap(shared: &Inodes<'_, '_>, primary: &Superblock, ino: Ino) {
    let vol = shared.vol;
    let Some((size, map)) = map_of(shared, ino) else { return };
    let ctx = vol.ctx(inode::location(&vol.geo, ino));
    let due = u64::from(primary.rbmblocks.get()) << vol.geo.blocklog;
    vol.sink.error(ctx.eq("inode.size", due, size));
    let mut buf = vec![0; vol.geo.blocksize()];
    let (mut free, mut mapped) = (0u64, 0u64);
    for (_, fsbno) in
        blocks(&map).take_while(|(number, _)| *number < primary.rbmblocks.get().into())
    {
        let Some(daddr) = vol.geo.fsb_to_daddr(fsbno) else { continue };
        let at = Location::of("realtime bitmap").ino(ino);
        if !vol.read(at.daddr(daddr, vol.geo.block_sectors()), &mut buf) {
            return;
        }
        free += buf.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
        mapped += 1;
    }
    let ids = ("rtbitmap.hole", "sb.frextents");
    if vol.sink.error(ctx.eq(ids.0, u64::from(primary.rbmblocks.get()), mapped)) && vol.log_clean {
        vol.sink.error(ctx.eq(ids.1, free, primary.frextents.get()));
    }
}
