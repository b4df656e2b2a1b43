//! An example volume, for tests and documentation of all floors.

use uuid::Uuid;

use crate::features::{Compat, Features2, Incompat, LogIncompat, RoCompat, VersionNum};
use crate::{Features, FsBlock, Geometry, Ino, RfsBlock, Version};

/// The UUID of the example.
pub const UUID: Uuid = Uuid::from_u128(0x1111_1111_2222_3333_4444_5555_5555_5555);

/// Returns 1 GiB as mkfs.xfs 6.13 makes it: 4 KiB blocks, 512-byte inodes and sectors, 4 groups of
/// 65536 blocks, every default feature (rmapbt, reflink, finobt, sparse, bigtime, nrext64).
pub const fn geometry() -> Geometry {
    Geometry {
        features: Features {
            version: Version::V5,
            versionnum: VersionNum::from_bits_retain(0xb4a0),
            features2: Features2::from_bits_retain(0x18a),
            compat: Compat::empty(),
            ro_compat: RoCompat::from_bits_retain(0xf),
            incompat: Incompat::from_bits_retain(0x2b),
            log_incompat: LogIncompat::empty(),
        },
        blocklog: 12,
        sectlog: 9,
        inodelog: 9,
        inopblog: 3,
        agblklog: 16,
        dirblklog: 0,
        dblocks: RfsBlock(262_144),
        rblocks: RfsBlock(0),
        rextents: 0,
        rextsize: 1,
        rgblocks: 0,
        rgblklog: 0,
        rtstart: RfsBlock(0),
        agcount: 4,
        agblocks: 65536,
        logstart: Some(FsBlock(0x2_0007)),
        logblocks: 16384,
        logsectlog: 9,
        logsunit: 1,
        inoalignmt: 8,
        spino_align: 4,
        imax_pct: 25,
        unit: 0,
        width: 0,
        rootino: Ino(128),
        rbmino: Some(Ino(129)),
        rsumino: Some(Ino(130)),
        metadirino: None,
        uuid: UUID,
        meta_uuid: UUID,
    }
}
