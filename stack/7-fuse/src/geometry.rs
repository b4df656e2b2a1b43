//! `struct xfs_fsop_geom`, the result of `XFS_IOC_FSGEOMETRY`: sizes and features of the volume,
//! as ioctl_xfs_fsgeometry(2) describes them.
//!
//! | bytes | content |
//! | --- | --- |
//! | 0 | block size, realtime extent size, blocks of a group, groups |
//! | 16 | log blocks, sector size, inode size, maximum percentage of inodes |
//! | 32 | data blocks, realtime blocks, realtime extents, start of the log: 64 bits each |
//! | 64 | UUID |
//! | 80 | stripe unit, stripe width, version of this structure, features |
//! | 96 | log sector size, realtime sector size, directory block size, log stripe unit |
//! | 112 | damage found, structures checked, unused |

use xfskit_format::sb::Superblock;
use xfskit_units::features::Version;
use xfskit_units::{Features, Geometry};

/// The version of the structure that a program asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Without the log's stripe unit.
    V1,
    /// 112 bytes, as the first.
    V4,
    /// 256 bytes.
    V5,
}

impl Form {
    fn len(self) -> usize {
        if self == Self::V5 { 256 } else { 112 }
    }

    /// Returns the version that the structure names itself.
    fn version(self) -> u32 {
        if self == Self::V5 { 5 } else { 0 }
    }
}

/// Version 2 of the log, whose stripe unit the first version of the structure does not have.
const LOGV2: u32 = 1 << 8;
/// Version 2 of directories, which every volume has.
const DIRV2: u32 = 1 << 7;
/// Link counts of 32 bits, which every volume has.
const NLINK: u32 = 1 << 1;

/// Returns the flags of the features.
fn flags(features: &Features, geo: &Geometry) -> u32 {
    let v5 = features.version == Version::V5;
    let has = [
        (0, features.attr()),
        (2, features.quota()),
        (3, features.align()),
        (4, geo.unit != 0),
        (6, features.extflg()),
        (8, features.logv2()),
        (9, features.sector()),
        (10, features.attr2()),
        (11, features.projid32()),
        (12, features.ascii_ci()),
        (14, features.lazysbcount()),
        (15, v5),
        (16, features.ftype()),
        (17, features.finobt()),
        (18, features.sparse()),
        (19, features.rmapbt()),
        (20, features.reflink()),
        (21, features.bigtime()),
        (22, features.inobtcount()),
        (23, features.nrext64()),
        (24, features.exchange()),
        (25, features.parent()),
        (26, features.metadir()),
    ];
    let set = has.iter().filter(|(_, has)| *has);
    set.fold(DIRV2 | NLINK, |flags, (bit, _)| flags | 1 << bit)
}

/// Returns the structure in this form.
pub(crate) fn geometry(geo: &Geometry, sb: &Superblock, form: Form) -> Vec<u8> {
    let (mut flags, mut logsunit) = (flags(&geo.features, geo), geo.logsunit);
    if form == Form::V1 {
        (flags, logsunit) = (flags & !LOGV2, 0);
    }
    let size = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(form.len());
    let words = |bytes: &mut Vec<u8>, words: [u32; 4]| {
        for word in words {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
    };
    words(&mut bytes, [size(geo.blocksize()), geo.rextsize, geo.agblocks, geo.agcount]);
    let (sectsize, imaxpct) = (size(geo.sectsize()), u32::from(geo.imax_pct));
    words(&mut bytes, [geo.logblocks, sectsize, size(geo.inodesize()), imaxpct]);
    for number in [sb.dblocks.get(), geo.rblocks.0, geo.rextents, sb.logstart.get()] {
        bytes.extend_from_slice(&number.to_ne_bytes());
    }
    bytes.extend_from_slice(geo.uuid.as_bytes());
    words(&mut bytes, [geo.unit, geo.width, form.version(), flags]);
    let (logsectsize, dirblksize) = (size(geo.logsectsize()), size(geo.dirblksize()));
    // Linux returns the block size as the size of realtime sectors, where there are none, too.
    words(&mut bytes, [logsectsize, size(geo.blocksize()), dirblksize, logsunit]);
    bytes.resize(form.len(), 0);
    bytes
}
