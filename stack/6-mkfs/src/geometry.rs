//! Decides every size and location: options and device in, [`Plan`] out.
//!
//! Every rule here is that of mkfs.xfs 6.13, found by experiment (`mkfs.xfs -N`). The tests compare
//! with its output: sizes first, then features, the stripe, groups, inodes, the log, and last the
//! location of the root directory, which follows from all the others.

use xfskit_format::timestamp::Timestamp;
use xfskit_units::features::{Compat, Features2, Incompat, LogIncompat, RoCompat, VersionNum};
use xfskit_units::flags::FlagWord;
use xfskit_units::{AgNumber, Features, Geometry, Ino, RfsBlock, Uuid, Version};

use crate::error::{Error, refuse};
use crate::layout::AgLayout;
use crate::logspace;
use crate::options::{Autofsck, Options};
use crate::sizes::{AG_MIN, DeviceFacts, GIB, MIB, SMALL, Sizes};
use crate::stripe::Stripe;

const TIB: u64 = 1 << 40;

/// Largest allocation group, in bytes; mkfs stays a block below.
const AG_MAX: u64 = TIB;
/// Smallest allocation group that `concurrency` leads to, in bytes.
const AG_CONCURRENT_MIN: u64 = 4 * GIB;
/// Values that do not follow from options and device. The caller supplies them, so that making a
/// volume can be repeated to the byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The volume's UUID where the options name none.
    pub uuid: Uuid,
    /// Time of all timestamps: seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds of all timestamps, below 10^9.
    pub nanoseconds: u32,
    /// Generation number of the first inodes (the root directory's is always 0).
    pub generation: u32,
}

impl Stamp {
    /// Returns the time of all timestamps.
    pub fn time(&self) -> Timestamp {
        Timestamp { sec: self.seconds, nsec: self.nanoseconds }
    }
}

/// All decisions for a volume.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Sizes, counts, locations.
    pub geometry: Geometry,
    /// The label, padded with NUL.
    pub label: [u8; 12],
    /// UUID, time and generation.
    pub stamp: Stamp,
    /// The autofsck property of the root directory, if requested.
    pub autofsck: Option<Autofsck>,
    /// Overwrites existing contents.
    pub force: bool,
    /// Discards the old contents of the device.
    pub discard: bool,
    /// Notes for the user, in whole sentences.
    pub notes: Vec<String>,
}

/// Decides everything.
///
/// # Errors
/// [`Error::Refused`] if options do not fit each other or the device.
pub fn plan(options: &Options, facts: &DeviceFacts, stamp: Stamp) -> Result<Plan, Error> {
    let mut notes = Vec::new();
    let uuid = options.uuid.unwrap_or(stamp.uuid);
    let stamp = Stamp { uuid, ..stamp };
    let sizes = Sizes::decide(options, facts)?;
    let features = features(options)?;
    let mut geo = sizes.geometry(features, uuid);
    let stripe = Stripe::decide(options, facts, &sizes, &mut notes)?;
    decide_groups(&mut geo, options, &sizes, &stripe, &mut notes)?;
    decide_inodes(&mut geo, options, &sizes);
    logspace::decide(&mut geo, options, facts, &sizes, &stripe)?;
    decide_root(&mut geo)?;
    set_version_bits(&mut geo, options);
    if uuid.is_nil() {
        notes.push("Linux mounts no volume whose UUID is nil".into());
    }
    if options.ascii_ci {
        notes.push("case-insensitive names (ascii-ci) are deprecated in Linux".into());
    }
    if sizes.bytes < SMALL {
        notes.push("mkfs.xfs itself makes no volume smaller than 300 MiB".into());
    }
    if geo.agcount == 1 {
        notes.push(
            "the volume has a single allocation group: xfs_repair asks for -o force_geometry"
                .into(),
        );
    }
    let mut label = [0; 12];
    for (to, from) in label.iter_mut().zip(options.label.as_deref().unwrap_or("").bytes()) {
        *to = from;
    }
    Ok(Plan {
        geometry: geo,
        label,
        stamp,
        autofsck: options.autofsck,
        force: options.force,
        discard: !options.no_discard,
        notes,
    })
}

impl Sizes {
    /// Returns a geometry with the sizes known so far; the rest is zero.
    fn geometry(&self, features: Features, uuid: Uuid) -> Geometry {
        let log2 = |n: u32| u8::try_from(n.ilog2()).unwrap_or(0);
        let (blocklog, inodelog) = (log2(self.block), log2(self.inode));
        Geometry {
            features,
            blocklog,
            sectlog: log2(self.sector),
            inodelog,
            inopblog: blocklog - inodelog,
            agblklog: 0,
            dirblklog: log2(self.dir_block) - blocklog,
            dblocks: RfsBlock(self.dblocks),
            rblocks: RfsBlock(0),
            rextents: 0,
            rextsize: (4096 / self.block).max(1),
            rgblocks: 0,
            rgblklog: 0,
            rtstart: RfsBlock(0),
            agcount: 0,
            agblocks: 0,
            logstart: None,
            logblocks: 0,
            logsectlog: log2(self.log_sector),
            logsunit: 1,
            inoalignmt: 0,
            spino_align: 0,
            imax_pct: 0,
            unit: 0,
            width: 0,
            rootino: Ino(0),
            rbmino: None,
            rsumino: None,
            metadirino: None,
            uuid,
            meta_uuid: uuid,
        }
    }
}

/// Returns the feature words. The defaults are those of mkfs.xfs 6.13.
fn features(options: &Options) -> Result<Features, Error> {
    let finobt = options.finobt.unwrap_or(true);
    if !finobt && options.inobtcount == Some(true) {
        refuse!("-m inobtcount=1 counts blocks of the free-inode btree: it needs finobt=1");
    }
    let inobtcount = options.inobtcount.unwrap_or(finobt);
    let checked = options.autofsck.is_some_and(|value| value != Autofsck::None);
    let parent = options.parent.unwrap_or(checked);
    // Repairs of parent pointers exchange directories' contents, so one feature brings the other.
    let exchange = options.exchange.unwrap_or(parent);
    Ok(Features {
        version: Version::V5,
        versionnum: VersionNum::empty(),
        features2: Features2::LAZYSBCOUNT | Features2::ATTR2 | Features2::PROJID32 | Features2::CRC,
        compat: Compat::empty(),
        ro_compat: chosen([
            (finobt, RoCompat::FINOBT),
            (options.rmapbt.unwrap_or(true), RoCompat::RMAPBT),
            (options.reflink.unwrap_or(true), RoCompat::REFLINK),
            (inobtcount, RoCompat::INOBTCNT),
        ]),
        incompat: chosen([
            (true, Incompat::FTYPE),
            (options.sparse.unwrap_or(true), Incompat::SPINODES),
            (options.bigtime.unwrap_or(true), Incompat::BIGTIME),
            (options.nrext64.unwrap_or(true), Incompat::NREXT64),
            (exchange, Incompat::EXCHRANGE),
            (parent, Incompat::PARENT),
        ]),
        log_incompat: LogIncompat::empty(),
    })
}

/// Sets the bits of `versionnum` that follow from other decisions.
fn set_version_bits(geo: &mut Geometry, options: &Options) {
    let always = VersionNum::NLINK
        | VersionNum::ALIGN
        | VersionNum::LOGV2
        | VersionNum::EXTFLG
        | VersionNum::DIRV2
        | VersionNum::MOREBITS;
    let others = chosen([
        (geo.features.parent(), VersionNum::ATTR),
        (geo.unit != 0, VersionNum::DALIGN),
        (geo.sectlog > 9 || geo.logsectlog > 9, VersionNum::SECTOR),
        (options.ascii_ci, VersionNum::BORG),
    ]);
    geo.features.versionnum = always | others;
}

/// Returns a word with the bits that are chosen.
fn chosen<W: FlagWord>(bits: impl IntoIterator<Item = (bool, W)>) -> W {
    bits.into_iter().filter(|(on, _)| *on).fold(W::empty(), |all, (_, bit)| all.union(bit))
}

/// Returns the number of groups of a device of `bytes`; `None` for as few as possible.
fn default_agcount(bytes: u64, striped: bool) -> Option<u64> {
    let table: &[(u64, u64)] = if striped {
        &[
            (32 * MIB, 1),
            (64 * MIB, 2),
            (128 * MIB, 4),
            (8 * GIB + 1, 8),
            (512 * GIB + 1, 16),
            (32 * TIB, 32),
        ]
    } else {
        &[(32 * MIB, 1), (64 * MIB, 2), (4 * TIB, 4)]
    };
    table.iter().find(|(below, _)| bytes < *below).map(|(_, count)| *count)
}

fn decide_groups(
    geo: &mut Geometry,
    options: &Options,
    sizes: &Sizes,
    stripe: &Stripe,
    notes: &mut Vec<String>,
) -> Result<(), Error> {
    let block = u64::from(sizes.block);
    let (min, max) = (AG_MIN / block, (AG_MAX - 1) / block);
    let mut dblocks = sizes.dblocks;
    let mut agsize = match (options.agsize, options.agcount) {
        (Some(size), _) => {
            let bytes = sizes.in_bytes(size)?;
            if !bytes.is_multiple_of(block) {
                refuse!("-d agsize of {bytes} bytes is not a multiple of the block size {block}");
            }
            bytes / block
        }
        (None, Some(count)) => dblocks.div_ceil(count.into()),
        (None, None) => match default_agcount(dblocks * block, stripe.unit != 0) {
            Some(count) => dblocks.div_ceil(count).min(max),
            None => max,
        },
    };
    if let Some(threads) = options.concurrency {
        // More groups than by default, so that threads use different ones, but not small ones.
        let count = u64::from(threads).min(dblocks * block / AG_CONCURRENT_MIN);
        if count >= dblocks.div_ceil(agsize) {
            agsize = dblocks / count;
        }
    }
    if stripe.unit != 0 {
        agsize = align_agsize(agsize, stripe, max);
        let aligned_disks = agsize.is_multiple_of(stripe.width.into())
            && stripe.width != stripe.unit
            && dblocks.div_ceil(agsize) > 1;
        let unit = u64::from(stripe.unit);
        match aligned_disks {
            true if options.agsize.is_some() || options.agcount.is_some() => notes
                .push("groups of a multiple of the stripe width all begin on the same disk".into()),
            true => agsize = if agsize - unit < min { agsize + unit } else { agsize - unit },
            false => (),
        }
    }
    if agsize > dblocks {
        refuse!("groups of {agsize} blocks are larger than the {dblocks} blocks there are");
    }
    if agsize < min || agsize > max {
        refuse!(
            "allocation groups of {agsize} blocks: at least {min} and at most {max} are allowed"
        );
    }
    let mut agcount = dblocks.div_ceil(agsize);
    if agcount > 1 && dblocks - (agcount - 1) * agsize < min {
        agcount -= 1;
        dblocks = agcount * agsize;
    }
    let (Ok(agblocks), Ok(agcount)) = (u32::try_from(agsize), u32::try_from(agcount)) else {
        refuse!("{agcount} allocation groups are too many");
    };
    geo.dblocks = RfsBlock(dblocks);
    geo.agblocks = agblocks;
    geo.agcount = agcount;
    geo.agblklog = u8::try_from(u32::BITS - (agblocks - 1).leading_zeros()).unwrap_or(32);
    (geo.unit, geo.width) = (stripe.unit, stripe.width);
    Ok(())
}

/// Rounds the group size so that groups begin on stripe units.
fn align_agsize(agsize: u64, stripe: &Stripe, max: u64) -> u64 {
    let unit = u64::from(stripe.unit);
    let up = agsize.next_multiple_of(unit);
    if up > max { agsize / unit * unit } else { up }
}

fn decide_inodes(geo: &mut Geometry, options: &Options, sizes: &Sizes) {
    let block = u64::from(sizes.block);
    let bytes = geo.dblocks.0 * block;
    geo.imax_pct = options.imax_pct.filter(|pct| *pct != 0).unwrap_or(match bytes {
        b if b < TIB => 25,
        b if b < 50 * TIB => 5,
        _ => 1,
    });
    let cluster = 8192 * (sizes.inode / 256) / sizes.block;
    if geo.features.sparse() {
        geo.spino_align = cluster;
        geo.inoalignmt = 64 * sizes.inode / sizes.block;
    } else {
        geo.inoalignmt = if options.inode_align == Some(false) { 0 } else { cluster };
    }
}

/// Places the root directory: the first inode of the first chunk; the two realtime inodes follow.
fn decide_root(geo: &mut Geometry) -> Result<(), Error> {
    let layout = AgLayout::of(geo, AgNumber(0));
    let Some(chunk) = layout.chunk.filter(|chunk| {
        let behind_log = layout.log.is_none_or(|log| log.end() <= chunk.start.0);
        behind_log && chunk.end() <= geo.ag_length(AgNumber(0))
    }) else {
        refuse!("group 0 has no room for the root directory where xfs_repair looks for it");
    };
    let root = geo.agino_to_ino(AgNumber(0), geo.agb_to_agino(chunk.start));
    geo.rootino = root;
    geo.rbmino = Some(Ino(root.0 + 1));
    geo.rsumino = Some(Ino(root.0 + 2));
    Ok(())
}
