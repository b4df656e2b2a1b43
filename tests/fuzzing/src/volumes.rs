//! The volumes that inputs belong to.

use xfskit_units::{Features, FsBlock, Geometry, Ino, RfsBlock, Uuid, Version};

/// The UUID of the golden blocks.
const UUID: u128 = 0x1111_1111_2222_3333_4444_5555_5555_5555;

/// 1 GiB, 4 KiB blocks, every default feature of xfsprogs 6.13, parent pointers too.
pub fn v5() -> Geometry {
    let uuid = Uuid::from_u128(UUID);
    Geometry {
        features: Features {
            version: Version::V5,
            versionnum: 0xb4a0,
            features2: 0x18a,
            compat: 0,
            ro_compat: 0xf,
            incompat: 0xeb,
            log_incompat: 0,
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
        agcount: 4,
        agblocks: 65_536,
        logstart: Some(FsBlock(0x2_0007)),
        logblocks: 16_384,
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
        uuid,
        meta_uuid: uuid,
    }
}

/// The same with 1 KiB blocks and directory blocks of four.
pub fn v5_small_blocks() -> Geometry {
    Geometry {
        blocklog: 10,
        inopblog: 1,
        agblklog: 18,
        dirblklog: 2,
        dblocks: RfsBlock(1_048_576),
        agblocks: 262_144,
        logstart: Some(FsBlock(0x8_000c)),
        logblocks: 65_536,
        inoalignmt: 32,
        spino_align: 16,
        ..v5()
    }
}

/// Version 4, 256-byte inodes.
pub fn v4() -> Geometry {
    Geometry {
        features: Features {
            version: Version::V4,
            features2: 0x28a,
            ro_compat: 0,
            incompat: 0,
            ..v5().features
        },
        inodelog: 8,
        inopblog: 4,
        inoalignmt: 2,
        spino_align: 0,
        ..v5()
    }
}

/// The volume that `choice` picks, and whether CRCs are to be made right.
pub fn pick(choice: u8) -> (Geometry, bool) {
    let geo = match choice % 4 {
        0 | 3 => v5(),
        1 => v5_small_blocks(),
        _ => v4(),
    };
    (geo, choice & 0x80 == 0)
}
