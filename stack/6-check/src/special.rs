//! Files that the superblock names: quota, and the bitmap of a realtime device's free extents.

use xfskit_format::bmbt::Extent;
use xfskit_format::dquot::{self, Dqblk};
use xfskit_format::inode::{self, Dinode};
use xfskit_format::sb::Superblock;
use xfskit_format::{Fork, Location, VerifyResult};
use xfskit_units::{FsBlock, Ino};

use crate::forks::{self, Mapped};
use crate::inodes::Context;

/// Checks the content of the files that the superblock names; they are regular files.
pub(crate) fn check(shared: &Context<'_, '_>, primary: &Superblock) {
    let geo = &shared.vol.geo;
    if geo.features.metadir() {
        return;
    }
    for (ino, kind) in quota_files(shared, primary) {
        check_quota(shared, ino, kind);
    }
    if let Some(ino) = geo.rbmino.filter(|_| geo.rblocks.0 != 0) {
        check_bitmap(shared, primary, ino);
    }
}

/// Returns the quota files with their kinds. On version 4 the second file is for groups or for
/// projects, as the flags say.
fn quota_files(shared: &Context<'_, '_>, primary: &Superblock) -> Vec<(Ino, dquot::Kind)> {
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

/// Returns the inode's size and the map of its data fork.
fn map_of(shared: &Context<'_, '_>, ino: Ino) -> Option<(u64, Vec<Extent>)> {
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
    // Phase 3 has reported errors of the map.
    let whole = forks::walk(shared.quiet, &mut scratch, &inode, at, Fork::Data, keep);
    whole.then(|| (inode.size().0, map))
}

/// Returns every block of `map` in file order: its number in the file, and its location.
fn blocks(map: &[Extent]) -> impl Iterator<Item = (u64, FsBlock)> {
    map.iter().flat_map(|extent| {
        (0..extent.blockcount.0).map_while(|n| {
            Some((extent.startoff.0.checked_add(n)?, extent.startblock.checked_add(n)?))
        })
    })
}

/// Checks a quota file. Its block n holds the dquots from n times [`dquot::per_block`].
fn check_quota(shared: &Context<'_, '_>, ino: Ino, kind: dquot::Kind) {
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
        let results = |bytes: &[u8]| -> Vec<VerifyResult> {
            let slots = bytes.chunks_exact(size_of::<Dqblk>()).take(per_block).enumerate();
            let check = |(slot, bytes): (usize, &[u8])| {
                let id = number.saturating_mul(per_block as u64).saturating_add(slot as u64);
                let id = u32::try_from(id).unwrap_or(u32::MAX);
                Dqblk::verify(bytes, &vol.ctx(at.index(slot)), kind, id).map(drop)
            };
            slots.map(check).collect()
        };
        let found = results(&buf);
        let Some(Err(corruption)) = found.iter().find(|result| result.is_err()) else { continue };
        let sound = |bytes: &[u8]| results(bytes).into_iter().collect::<VerifyResult>();
        if let Some(((), healing)) = vol.read_alternatives(at, &mut buf, sound) {
            vol.sink.report_healed(corruption.clone(), healing);
            continue;
        }
        for result in found {
            vol.sink.error(result);
        }
    }
}

/// Checks the bitmap: one bit for each realtime extent, set if it is free. The byte order is that
/// of the machine that wrote it, which does not matter to a count.
fn check_bitmap(shared: &Context<'_, '_>, primary: &Superblock, ino: Ino) {
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
