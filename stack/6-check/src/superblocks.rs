//! Phase 1: the primary superblock, without which nothing can be checked, and the secondaries.

use std::cmp::Reverse;

use xfskit_block::BlockDevice;
use xfskit_format::agf::{self, Agf};
use xfskit_format::corruption::{CheckId, Severity};
use xfskit_format::sb::{self, SbError, Superblock};
use xfskit_format::sb_search::{self, Rebuilt, Source};
use xfskit_format::{Corruption, Ctx, Expected, Location};
use xfskit_units::features::{Features2, Incompat, VersionNum};
use xfskit_units::{AgNumber, ByteLen, ByteOffset, Features};

use crate::Error;
use crate::finding::Healing;
use crate::volume::Volume;

/// Size of the largest sector that the format defines, in bytes.
const MAX_SECTOR: usize = 32768;

/// The superblock that the check uses, and what is wrong with the primary.
pub(crate) struct Primary {
    pub sb: Superblock,
    pub corruptions: Vec<(Box<Corruption>, Option<Healing>)>,
    /// The sector of the primary and its corruption, if a secondary is used in its place.
    pub refused: Option<(Vec<u8>, Box<Corruption>)>,
}

impl Primary {
    fn new(sb: Superblock, corruptions: Vec<(Box<Corruption>, Option<Healing>)>) -> Self {
        Self { sb, corruptions, refused: None }
    }
}

/// Reads and verifies the primary superblock.
fn read_primary(dev: &dyn BlockDevice) -> Result<Superblock, Error> {
    let room = dev.size().0.min(MAX_SECTOR as u64);
    let mut sector = vec![0; usize::try_from(room).unwrap_or(MAX_SECTOR)];
    dev.read_at(ByteOffset(0), &mut sector)?;
    Ok(verified(&sector)?.0)
}

/// Verifies the primary superblock at the start of `bytes`. Returns it and its sector.
fn verified(bytes: &[u8]) -> Result<(Superblock, Vec<u8>), SbError> {
    let size = Superblock::parse(bytes).map_or(0, |sb| usize::from(sb.sectsize.get()));
    let size = if (512..=MAX_SECTOR).contains(&size) { size } else { 512 };
    let sector = bytes.get(..size).unwrap_or(bytes);
    Ok((Superblock::verify(sector, AgNumber(0))?.clone(), sector.to_vec()))
}

/// Returns the primary superblock of `dev`. A damaged one is rebuilt from a secondary.
pub(crate) fn find(dev: &dyn BlockDevice, heal: bool) -> Result<Primary, Error> {
    let error = match read_primary(dev) {
        Ok(sb) => return Ok(Primary::new(sb, Vec::new())),
        Err(Error::Superblock(error)) => error,
        Err(other) => return Err(other),
    };
    if let Some((sb, healing)) = read_alternatives(dev, heal) {
        return Ok(Primary::new(sb, vec![(error.corruption(), Some(healing))]));
    }
    let corruption = error.corruption();
    if corruption.check.0 == "sb.crc"
        && let Some(sb) = with_crc_mended(dev)
    {
        return Ok(Primary::new(sb, vec![(corruption, None)]));
    }
    if matches!(error, SbError::UnknownFeature { .. } | SbError::Unsupported(_)) {
        return Err(error.into());
    }
    let copy = find_copy(dev).ok_or(error)?;
    let mut sector = vec![0; usize::from(copy.sb.sectsize.get())];
    dev.read_at(ByteOffset(0), &mut sector)?;
    Ok(Primary { sb: copy.sb, corruptions: Vec::new(), refused: Some((sector, corruption)) })
}

/// Returns the superblock that the copies on `dev` show, whatever the primary has.
pub(crate) fn find_copy(dev: &dyn BlockDevice) -> Option<Rebuilt> {
    sb_search::find_copy(&Source {
        size: dev.size().0,
        read: &|offset, buf| dev.read_at(ByteOffset(offset), buf).is_ok(),
        skip_hole: &|offset| dev.skip_hole(ByteOffset(offset)).0,
    })
}

/// Reads the alternative copies of the primary. Returns the newest that passes, rewritten if `heal`
/// is set.
fn read_alternatives(dev: &dyn BlockDevice, heal: bool) -> Option<(Superblock, Healing)> {
    let len = dev.size().0.min(MAX_SECTOR as u64);
    let copies = dev.alternatives(ByteOffset(0), ByteLen(len));
    let mut copy = vec![0; usize::try_from(len).unwrap_or(MAX_SECTOR)];
    let read = |k: usize| {
        dev.read_alternative(ByteOffset(0), &mut copy, k).ok()?;
        let (sb, sector) = verified(&copy).ok()?;
        Some((sb.lsn(), k, sb, sector))
    };
    let found = (0..copies).filter(|_| copies > 1).filter_map(read);
    let (_, k, sb, sector) = found.max_by_key(|(lsn, k, ..)| (*lsn, Reverse(*k)))?;
    let rewritten = heal && dev.heal(ByteOffset(0), &sector, k).unwrap_or(false);
    Some((sb, if rewritten { Healing::Rewritten } else { Healing::Read }))
}

/// Returns the primary if only its checksum is wrong.
fn with_crc_mended(dev: &dyn BlockDevice) -> Option<Superblock> {
    let mut sector = vec![0; MAX_SECTOR.min(usize::try_from(dev.size().0).unwrap_or(MAX_SECTOR))];
    dev.read_at(ByteOffset(0), &mut sector).ok()?;
    let size = usize::from(Superblock::parse(&sector)?.sectsize.get()).clamp(512, MAX_SECTOR);
    let sector = sector.get_mut(..size)?;
    xfskit_crc::update(sector, sb::CRC_OFFSET);
    Superblock::verify(sector, AgNumber(0)).ok().cloned()
}

/// Checks the primary beyond its verifier.
pub(crate) fn check_primary(vol: &Volume<'_>, sb: &Superblock) {
    let ctx = vol.ctx(sb::location(&vol.geo, AgNumber(0)));
    let sink = &vol.sink;
    vol.fatal(ctx.at_least("sb.dblocks", vol.geo.data_bytes().0, vol.dev.size().0));
    sink.error(ctx.lsn("sb.lsn", sb.lsn()));
    let features = &vol.geo.features;
    sink.error(ctx.require(
        "sb.features_incompat",
        !features.needsrepair(),
        "a volume that is not waiting for repair",
        "needsrepair",
    ));
    check_feature_words(&ctx, vol, sb);
    if features.metadir() {
        return;
    }
    check_quota_fields(&ctx, vol, sb);
    if sb.rblocks.get() == 0 {
        sink.error(ctx.eq("sb.frextents", 0, sb.frextents.get()));
    } else {
        let (rextents, size) = (sb.rextents.get(), u64::from(sb.rextsize.get()).max(1));
        sink.error(ctx.eq("sb.rextents", sb.rblocks.get() / size, rextents));
        let bitmap_bits = 8 * u64::from(sb.blocksize.get());
        let bitmap = rextents.div_ceil(bitmap_bits.max(1));
        sink.error(ctx.eq("sb.rbmblocks", bitmap, sb.rbmblocks.get().into()));
        let log = rextents.checked_ilog2().unwrap_or(0);
        sink.error(ctx.eq("sb.rextslog", log, sb.rextslog.into()));
        sink.error(ctx.at_most("sb.frextents", rextents, sb.frextents.get()));
    }
}

/// Checks that the two copies of `features2` agree, and that features that need each other are set
/// together.
fn check_feature_words(ctx: &Ctx<'_>, vol: &Volume<'_>, sb: &Superblock) {
    let features = &vol.geo.features;
    let (word, copy) = (sb.features2.get(), sb.bad_features2.get());
    if copy == 0 {
        // Linux corrects this silently at the next mount.
        vol.sink.warning(ctx.eq_hex("sb.bad_features2", word, copy));
    } else {
        vol.sink.error(ctx.eq_hex("sb.features2", copy, word));
    }
    if vol.geo.v5() {
        let bits = sb.versionnum.get();
        vol.sink.error(ctx.eq_hex("sb.versionnum", bits | V5_BITS.bits(), bits));
    }
    let unknown = sb.unknown_ro_compat().bits();
    vol.sink.warning(ctx.eq_hex("sb.features_ro_compat", 0u32, unknown));
    let needs = "the free-inode btree beside inobtcount";
    let sound = !features.inobtcount() || features.finobt();
    vol.sink.error(ctx.require("sb.features_ro_compat", sound, needs, "inobtcount alone"));
    if vol.log_clean && vol.geo.v5() {
        // Linux clears the bits that it knows at the next mount.
        let stale = features.log_incompat;
        let id = "sb.features_log_incompat";
        if vol.sink.error(ctx.eq_hex(id, 0u32, sb.unknown_log_incompat().bits())) {
            vol.sink.warning(ctx.eq_hex(id, 0u32, stale.bits()));
        }
    }
}

/// Checks for quota flags that this version of the format does not have.
fn check_quota_fields(ctx: &Ctx<'_>, vol: &Volume<'_>, sb: &Superblock) {
    let illegal: u16 = if vol.geo.v5() { 0x30 } else { 0x780 };
    vol.sink.error(ctx.eq_hex("sb.qflags", 0u16, sb.qflags.get() & illegal));
    let accounted = sb.qflags.get() & 0x49 != 0;
    let some = |ino: u64| ino != 0 && ino != u64::MAX;
    let mut inodes =
        [("sb.uquotino", sb.uquotino), ("sb.gquotino", sb.gquotino), ("sb.pquotino", sb.pquotino)];
    if !vol.geo.v5() {
        inodes[2].1 = 0.into();
    }
    let mut any = false;
    for (id, ino) in inodes {
        let ino = ino.get();
        any |= some(ino);
        let valid = !some(ino) || vol.geo.valid_ino(xfskit_units::Ino(ino));
        vol.sink.error(ctx.require(id, valid, "a valid inode number or none", ino));
    }
    let sound = !accounted || any;
    vol.sink.error(ctx.require("sb.qflags", sound, "a quota inode beside accounting", "none"));
}

/// A field of a secondary that differs from the primary's.
#[derive(Clone, Copy)]
pub(crate) struct Difference {
    id: &'static str,
    primary: u64,
    copy: u64,
}

/// A secondary that was compared, and its differences.
pub(crate) type Compared = (AgNumber, Vec<Difference>);

/// Reports differences between the secondaries and the primary. If all secondaries have the same
/// other value, the primary is wrong, unless it is a larger size and the groups are there.
pub(crate) fn report_differences(vol: &Volume<'_>, copies: &[Compared]) {
    let primary_ctx = vol.ctx(sb::location(&vol.geo, AgNumber(0)));
    let has_last_group = has_last_group(vol);
    let says = |copy: &Compared, other: &Difference| {
        copy.1.iter().any(|difference| (difference.id, difference.copy) == (other.id, other.copy))
    };
    for (place, (agno, differences)) in copies.iter().enumerate() {
        for difference in differences {
            let Difference { id, primary, copy } = *difference;
            // An interrupted growth leaves the old sizes in the copies.
            let is_size = matches!(id, "sb.dblocks" | "sb.agcount");
            let is_grown = is_size && primary > copy && has_last_group;
            let all =
                copies.len() > 1 && !is_grown && copies.iter().all(|other| says(other, difference));
            if !all {
                let ctx = vol.ctx(sb::location(&vol.geo, *agno));
                vol.sink.error(ctx.eq(id, primary, copy));
            } else if place == 0 {
                let wanted = format!("{copy}, as all {} copies have it", copies.len());
                let wanted = Expected::Described(wanted.into());
                vol.sink.error(Err(primary_ctx.corruption(id, wanted, primary)));
            }
        }
    }
}

/// Returns true if the last group of the primary is there, with the length that it gives.
fn has_last_group(vol: &Volume<'_>) -> bool {
    let last = AgNumber(vol.geo.agcount.saturating_sub(1));
    let at = agf::location(&vol.geo, last);
    let mut sector = vec![0; vol.geo.sectsize()];
    let length = vol.geo.ag_length(last);
    vol.quiet().read(at, &mut sector)
        && Agf::verify(&sector, &vol.ctx(at), last).is_ok_and(|agf| agf.length.get() == length)
}

/// Checks the superblock of group `agno`. Returns its differences from the primary, if it can be
/// compared.
pub(crate) fn check_secondary(
    vol: &Volume<'_>,
    primary: &Superblock,
    agno: AgNumber,
) -> Option<Compared> {
    let ctx = vol.ctx(sb::location(&vol.geo, agno));
    let mut sector = vec![0; vol.geo.sectsize()];
    if !vol.read(ctx.at, &mut sector) {
        return None;
    }
    let mut result = verify(&sector, agno, ctx.at);
    if let Err(corruption) = &result
        && let Some((sb, healing)) =
            vol.read_alternatives(ctx.at, &mut sector, |s| verify(s, agno, ctx.at))
    {
        vol.sink.report_healed(corruption.clone(), healing);
        result = Ok(sb);
    }
    if result.as_ref().is_err_and(|corruption| corruption.check.0 == "sb.crc") {
        vol.sink.error(result.map(drop));
        xfskit_crc::update(&mut sector, sb::CRC_OFFSET);
        result = verify(&sector, agno, ctx.at);
    }
    match result {
        Ok(sb) => {
            compare(vol, &ctx, primary, &sb);
            Some((agno, geometry_differences(primary, &sb)))
        }
        Err(corruption) => {
            report_refused(vol, agno, primary, &sector, &corruption);
            None
        }
    }
}

/// Reports a superblock that its verifier refuses. If fields differ from the sound superblock,
/// these are reported, because the verifier reports only the first field that does not fit the
/// damaged one.
pub(crate) fn report_refused(
    vol: &Volume<'_>,
    agno: AgNumber,
    sound: &Superblock,
    sector: &[u8],
    corruption: &Corruption,
) {
    let ctx = vol.ctx(sb::location(&vol.geo, agno));
    let parsed = Superblock::parse(sector).filter(|sb| sb.magicnum == sound.magicnum);
    let before = vol.sink.total();
    match parsed {
        Some(sb) if sb.version() != sound.version() => {
            let (expected, found) = (sound.versionnum.get(), sb.versionnum.get());
            vol.sink.error(ctx.eq_hex("sb.versionnum", expected, found));
        }
        Some(sb) => {
            for Difference { id, primary, copy } in geometry_differences(sound, sb) {
                vol.sink.error(ctx.eq(id, primary, copy));
            }
            report_feature_words(vol, &ctx, sound, sb);
        }
        None => {}
    }
    if vol.sink.total() == before {
        vol.sink.report(Severity::Error, Box::new(corruption.clone()));
    }
}

/// Verifies a superblock; here every failure is a corruption.
fn verify(sector: &[u8], agno: AgNumber, at: Location) -> Result<Superblock, Box<Corruption>> {
    let corrupt = |id, found: String| {
        Box::new(Corruption {
            check: CheckId::new(id),
            at,
            expected: Expected::Described("what the primary says".into()),
            found: found.into(),
        })
    };
    Superblock::verify(sector, agno).cloned().map_err(|error| match error {
        SbError::Corrupt(mut corruption) => {
            corruption.at = at;
            corruption
        }
        SbError::NotXfs { found } => corrupt("sb.magicnum", format!("{found:#x}")),
        SbError::Version(version) => corrupt("sb.versionnum", version.to_string()),
        other => corrupt("sb.features_incompat", other.to_string()),
    })
}

/// Returns the geometry fields in which `sb` differs. All superblocks agree in them.
fn geometry_differences(primary: &Superblock, sb: &Superblock) -> Vec<Difference> {
    let numbers = [
        ("sb.blocksize", u64::from(primary.blocksize.get()), u64::from(sb.blocksize.get())),
        ("sb.dblocks", primary.dblocks.get(), sb.dblocks.get()),
        ("sb.rblocks", primary.rblocks.get(), sb.rblocks.get()),
        ("sb.rextents", primary.rextents.get(), sb.rextents.get()),
        ("sb.logstart", primary.logstart.get(), sb.logstart.get()),
        ("sb.rextsize", primary.rextsize.get().into(), sb.rextsize.get().into()),
        ("sb.agblocks", primary.agblocks.get().into(), sb.agblocks.get().into()),
        ("sb.agcount", primary.agcount.get().into(), sb.agcount.get().into()),
        ("sb.rbmblocks", primary.rbmblocks.get().into(), sb.rbmblocks.get().into()),
        ("sb.logblocks", primary.logblocks.get().into(), sb.logblocks.get().into()),
        ("sb.sectsize", primary.sectsize.get().into(), sb.sectsize.get().into()),
        ("sb.inodesize", primary.inodesize.get().into(), sb.inodesize.get().into()),
        ("sb.inoalignmt", primary.inoalignmt.get().into(), sb.inoalignmt.get().into()),
        ("sb.unit", primary.unit.get().into(), sb.unit.get().into()),
        ("sb.inopblock", primary.inopblock.get().into(), sb.inopblock.get().into()),
        ("sb.blocklog", primary.blocklog.into(), sb.blocklog.into()),
        ("sb.sectlog", primary.sectlog.into(), sb.sectlog.into()),
        ("sb.inodelog", primary.inodelog.into(), sb.inodelog.into()),
        ("sb.inopblog", primary.inopblog.into(), sb.inopblog.into()),
        ("sb.agblklog", primary.agblklog.into(), sb.agblklog.into()),
        ("sb.rextslog", primary.rextslog.into(), sb.rextslog.into()),
    ];
    let differing = numbers.into_iter().filter(|(_, primary, copy)| primary != copy);
    differing.map(|(id, primary, copy)| Difference { id, primary, copy }).collect()
}

/// Bits of `versionnum` that every volume of version 5 has.
const V5_BITS: VersionNum = VersionNum::NLINK
    .union(VersionNum::ALIGN)
    .union(VersionNum::LOGV2)
    .union(VersionNum::EXTFLG)
    .union(VersionNum::DIRV2)
    .union(VersionNum::MOREBITS);

/// Reports feature words of a copy that differ from the primary's, less the bits that Linux changes
/// in the primary alone.
fn report_feature_words(vol: &Volume<'_>, ctx: &Ctx<'_>, primary: &Superblock, sb: &Superblock) {
    let (ours, theirs): (Features, Features) = (primary.features(), sb.features());
    let compared = if vol.geo.v5() { V5_BITS } else { VersionNum::EXTFLG };
    let compared = compared.bits().into();
    let words = [
        ("sb.versionnum", compared, primary.versionnum.get().into(), sb.versionnum.get().into()),
        ("sb.features_compat", u32::MAX, ours.compat.bits(), theirs.compat.bits()),
        ("sb.features_ro_compat", u32::MAX, ours.ro_compat.bits(), theirs.ro_compat.bits()),
        (
            "sb.features_incompat",
            (!Incompat::NEEDSREPAIR).bits(),
            ours.incompat.bits(),
            theirs.incompat.bits(),
        ),
    ];
    for (id, mask, expected, found) in words {
        if (expected ^ found) & mask != 0 {
            vol.sink.error(ctx.eq_hex(id, expected, found));
        }
    }
}

/// Compares the other fields of a copy.
fn compare(vol: &Volume<'_>, ctx: &Ctx<'_>, primary: &Superblock, sb: &Superblock) {
    let sink = &vol.sink;
    // Linux may change it in the primary only.
    sink.warning(ctx.eq("sb.imax_pct", primary.imax_pct, sb.imax_pct));
    // `xfs_repair -n` complains of it and exits 0, and xfs_repair leaves it.
    sink.error(ctx.eq("sb.shared_vn", 0, sb.shared_vn));
    // xfs_repair does not compare it.
    sink.warning(ctx.eq("sb.dirblklog", primary.dirblklog, sb.dirblklog));
    if primary.rblocks.get() == 0 {
        sink.error(ctx.eq("sb.frextents", 0, sb.frextents.get()));
    }
    if vol.geo.v5() {
        // Version 5 has another place for this bit.
        let features2 = |sb: &Superblock| sb.features2.get() & !Features2::FTYPE.bits();
        sink.error(ctx.eq_hex("sb.features2", features2(primary), features2(sb)));
        sink.error(ctx.eq("sb.spino_align", primary.spino_align.get(), sb.spino_align.get()));
    }
    report_feature_words(vol, ctx, primary, sb);
    let (ours, theirs) = (primary.features(), sb.features());
    // Linux sets a bit in the primary alone while its journal may need it.
    let stray = theirs.log_incompat.difference(ours.log_incompat);
    sink.error(ctx.eq_hex("sb.features_log_incompat", 0u32, stray.bits()));
    let uuid = |bytes: [u8; 16]| xfskit_units::Uuid::from_bytes(bytes);
    sink.warning(ctx.eq("sb.uuid", uuid(primary.uuid), uuid(sb.uuid)));
    sink.error(ctx.lsn("sb.lsn", sb.lsn()));
    // mkfs leaves these unset in most secondaries. Any other number is wrong.
    let named = [
        ("sb.rootino", primary.rootino.get(), sb.rootino.get()),
        ("sb.rbmino", primary.rbmino.get(), sb.rbmino.get()),
        ("sb.rsumino", primary.rsumino.get(), sb.rsumino.get()),
    ];
    for (id, expected, found) in named.into_iter().filter(|(_, _, ino)| *ino != u64::MAX) {
        sink.warning(ctx.eq(id, expected, found));
    }
    if sb.inprogress != 0 {
        let quota = [
            ("sb.uquotino", sb.uquotino),
            ("sb.gquotino", sb.gquotino),
            ("sb.pquotino", sb.pquotino),
        ];
        for (id, ino) in quota.into_iter().take(if vol.geo.v5() { 3 } else { 2 }) {
            if ino.get() != u64::MAX {
                sink.error(ctx.eq(id, 0, ino.get()));
            }
        }
        // With metadata directories mkfs writes the flags to all copies.
        if !vol.geo.features.metadir() {
            sink.error(ctx.eq("sb.qflags", 0, sb.qflags.get()));
        }
    }
}
