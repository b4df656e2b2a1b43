//! Helpers of this crate's tests: example volumes, golden bytes, and a loop that breaks one field
//! after the other.

use xfskit_units::features::{Compat, Features2, Incompat, LogIncompat, RoCompat, VersionNum};
use xfskit_units::{Features, FsBlock, Geometry, Ino, RfsBlock, Version, example};

use crate::corruption::Corruption;

/// Returns 1 GiB of version 5, with every default feature.
pub(crate) fn geo_v5() -> Geometry {
    example::geometry()
}

/// Returns 320 MiB as `mkfs.xfs -m crc=0` 6.1 makes it: 4 KiB blocks, 256-byte inodes, 4 groups of
/// 20480.
pub(crate) fn geo_v4() -> Geometry {
    Geometry {
        features: Features {
            version: Version::V4,
            versionnum: VersionNum::from_bits_retain(0xb4a0),
            features2: Features2::from_bits_retain(0x28a),
            compat: Compat::empty(),
            ro_compat: RoCompat::empty(),
            incompat: Incompat::empty(),
            log_incompat: LogIncompat::empty(),
        },
        inodelog: 8,
        inopblog: 4,
        agblklog: 15,
        dblocks: RfsBlock(81_920),
        agblocks: 20_480,
        logstart: Some(FsBlock(0x1_0004)),
        inoalignmt: 2,
        spino_align: 0,
        ..geo_v5()
    }
}

/// Parses rows of `offset: hex hex …`. Missing rows, and the rest up to `len`, are zero. Text after
/// `|` or `#` in a row is a comment.
pub(crate) fn golden(len: usize, rows: &str) -> Vec<u8> {
    let mut bytes = vec![0; len];
    for row in rows.lines().map(str::trim).filter(|row| !row.is_empty()) {
        let (offset, hex) = row.split_once(':').expect("offset: bytes");
        let hex = hex.split(['|', '#']).next().unwrap_or("");
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let at = usize::from_str_radix(offset.trim(), 16).expect("a hexadecimal offset");
        for (i, pair) in digits.chunks(2).enumerate() {
            let pair = std::str::from_utf8(pair).unwrap();
            bytes[at + i] = u8::from_str_radix(pair, 16).unwrap();
        }
    }
    bytes
}

/// Returns `good` with `bytes` at `offset`, and with its CRC (at `crc`, if it has one) corrected.
pub(crate) fn broken(good: &[u8], offset: usize, bytes: &[u8], crc: Option<usize>) -> Vec<u8> {
    let mut bad = good.to_vec();
    bad[offset..offset + bytes.len()].copy_from_slice(bytes);
    if let Some(field) = crc {
        xfskit_crc::update(&mut bad, field);
    }
    bad
}

/// Breaks one field after the other. Each case is the check that must fail, the field's offset and
/// the bytes to put there. `verify` verifies the whole block. A block with a CRC (at `crc`) has a
/// case that breaks just that.
pub(crate) fn each_check_fails(
    good: &[u8],
    crc: Option<usize>,
    cases: &[(&str, usize, &[u8])],
    verify: impl Fn(&[u8]) -> Result<(), Box<Corruption>>,
) {
    verify(good).expect("the golden bytes pass");
    for (id, offset, bytes) in cases {
        let bad = broken(good, *offset, bytes, crc.filter(|field| field != offset));
        let fault: Corruption =
            *verify(&bad).expect_err(&format!("{id}: byte {offset:#x} broken, nothing noticed"));
        assert_eq!(fault.check.0, *id, "byte {offset:#x} broken: {fault}");
    }
    if let Some(field) = crc {
        let tried = cases.iter().any(|(_, offset, _)| *offset == field);
        assert!(tried, "no case breaks the CRC at {field:#x}");
    }
    for len in [0, 1, good.len() / 2] {
        assert!(verify(&good[..len]).is_err(), "a block cut to {len} bytes");
    }
}

/// Returns 320 MiB with blocks of 1 KiB and directory blocks of 4 KiB, as `mkfs.xfs -b size=1024 -n
/// parent=1` 6.13 makes it, so that golden blocks are short.
pub(crate) fn geo_v5_1k() -> Geometry {
    let geo = geo_v5();
    Geometry {
        features: Features { incompat: Incompat::from_bits_retain(0xeb), ..geo.features },
        blocklog: 10,
        inopblog: 1,
        agblklog: 17,
        dirblklog: 2,
        dblocks: RfsBlock(327_680),
        agblocks: 81_920,
        logstart: Some(FsBlock(262_152)),
        logblocks: 65_536,
        inoalignmt: 32,
        spino_align: 16,
        rootino: Ino(64),
        ..geo
    }
}

/// Returns [`geo_v5_1k`] as `mkfs.xfs -m crc=0` 6.1 makes it, with inodes of 256 bytes.
pub(crate) fn geo_v4_1k() -> Geometry {
    let v4 = geo_v4();
    Geometry {
        features: v4.features,
        inodelog: 8,
        inopblog: 2,
        inoalignmt: 8,
        spino_align: 0,
        ..geo_v5_1k()
    }
}

/// Returns 64 MiB as `mkfs.xfs -m crc=0 -i projid32bit=0 -l version=1,lazy-count=0 -n ftype=0 -b
/// size=1024` 6.1 makes it: the volume kept as `v4-old`, without any feature newer than 2008.
pub(crate) fn geo_v4_old() -> Geometry {
    let v4 = geo_v4_1k();
    Geometry {
        features: Features {
            versionnum: VersionNum::from_bits_retain(0x30b0),
            features2: Features2::empty(),
            ..v4.features
        },
        agblklog: 14,
        dirblklog: 0,
        dblocks: RfsBlock(65_536),
        agblocks: 16_384,
        logstart: Some(FsBlock(32_773)),
        ..v4
    }
}
