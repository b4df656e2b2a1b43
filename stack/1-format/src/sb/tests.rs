use super::*;
use crate::testing::{broken, each_check_fails, geo_v4, geo_v5, golden};

/// Written by mkfs.xfs 6.13 with its defaults on 1 GiB.
const PRIMARY_1G: &str = "
    000: 58465342 00001000 00000000 00040000
    020: 11111111 22223333 44445555 55555555
    030: 00000000 00020007 00000000 00000080
    040: 00000000 00000081 00000000 00000082
    050: 00000001 00010000 00000004 00000000
    060: 00004000 b4a50200 02000008 00000000
    070: 00000000 00000000 0c090903 10000019
    080: 00000000 00000040 00000000 0000003d
    090: 00000000 0003bfdc 00000000 00000000
    0b0: 00000000 00000008 00000000 00000000
    0c0: 00000000 00000001 0000018a 0000018a
    0d0: 00000000 0000000f 0000002b 00000000
    0e0: 3c32328c 00000004 00000000 00000000";

/// Written by mkfs.xfs 6.1 -m crc=0 on 320 MiB.
const PRIMARY_V4: &str = "
    000: 58465342 00001000 00000000 00014000
    020: 11111111 22223333 44445555 55555555
    030: 00000000 00010004 00000000 00000080
    040: 00000000 00000081 00000000 00000082
    050: 00000001 00005000 00000004 00000000
    060: 00004000 b4a40200 01000010 00000000
    070: 00000000 00000000 0c090804 0f000019
    080: 00000000 00000040 00000000 0000003d
    090: 00000000 0000ffec 00000000 00000000
    0b0: 00000000 00000002 00000000 00000000
    0c0: 00000000 00000001 0000028a 0000028a";

/// Written by mkfs.xfs 6.1 -r extsize=64k, 100 MiB.
const PRIMARY_RT: &str = "
    000: 58465342 00001000 00000000 00040000
    010: 00000000 00006400 00000000 00000640
    020: 11111111 22223333 44445555 55555555
    030: 00000000 00020005 00000000 00000080
    040: 00000000 00000081 00000000 00000082
    050: 00000010 00010000 00000004 00000001
    060: 00004000 b4a50200 02000008 00000000
    070: 00000000 00000000 0c090903 100a0019
    080: 00000000 00000040 00000000 0000003d
    090: 00000000 0003bfe2 00000000 00000640
    0b0: 00000000 00000008 00000000 00000000
    0c0: 00000000 00000001 0000018a 0000018a
    0d0: 00000000 00000009 0000000b 00000000
    0e0: 77f97efc 00000004 00000000 00000000";

/// Written by mkfs.xfs 6.1 -i sparse=0.
const PRIMARY_WHOLE_CHUNKS: &str = "
    000: 58465342 00001000 00000000 00040000
    020: 11111111 22223333 44445555 55555555
    030: 00000000 00020006 00000000 00000060
    040: 00000000 00000061 00000000 00000062
    050: 00000001 00010000 00000004 00000000
    060: 00004000 b4a50200 02000008 00000000
    070: 00000000 00000000 0c090903 10000019
    080: 00000000 00000040 00000000 0000003d
    090: 00000000 0003bfe0 00000000 00000000
    0b0: 00000000 00000004 00000000 00000000
    0c0: 00000000 00000001 0000018a 0000018a
    0d0: 00000000 0000000d 00000009 00000000
    0e0: 35914a26 00000000 00000000 00000000";

fn verify(sector: &[u8]) -> VerifyResult {
    match Superblock::verify(sector, AgNumber(0)) {
        Ok(_) => Ok(()),
        Err(SbError::Corrupt(fault)) => Err(fault),
        // Refusals are not corruptions; tests of fields must not end here.
        Err(_) => Err(Ctx::new(&geo_v5(), Location::of("superblock")).short("sb.refused", 0)),
    }
}

#[test]
fn real_superblocks_describe_their_geometry() {
    let v5 = golden(512, PRIMARY_1G);
    let sb = Superblock::verify(&v5, AgNumber(0)).unwrap();
    assert_eq!(sb.geometry(), geo_v5());
    assert_eq!((sb.icount.get(), sb.ifree.get(), sb.fdblocks.get()), (64, 61, 0x3bfdc));
    let v4 = golden(512, PRIMARY_V4);
    assert_eq!(Superblock::verify(&v4, AgNumber(0)).unwrap().geometry(), geo_v4());
}

#[test]
fn each_field_is_checked() {
    let cases: &[(&str, usize, &[u8])] = &[
        ("sb.blocksize", 4, &[0, 0, 0x20, 0]),
        ("sb.blocklog", 120, &[17]),
        ("sb.sectlog", 121, &[8]),
        ("sb.inodelog", 122, &[12]),
        ("sb.sectsize", 102, &[4, 0]),
        ("sb.inodesize", 104, &[4, 0]),
        ("sb.inopblock", 106, &[0, 7]),
        ("sb.inopblog", 123, &[4]),
        ("sb.dirblklog", 192, &[5]),
        ("sb.logsectlog", 193, &[9]),
        ("sb.logsectsize", 194, &[2, 0]),
        ("sb.agblocks", 84, &[0, 0, 0, 1]),
        ("sb.agblklog", 124, &[17]),
        ("sb.agcount", 88, &[0, 0, 0, 5]),
        ("sb.agcount", 8, &[0, 0, 0, 0, 0, 0, 0xff, 0xff]),
        ("sb.dblocks", 8, &[0xff; 8]),
        ("sb.imax_pct", 127, &[101]),
        ("sb.flags", 178, &[1]),
        ("sb.shared_vn", 179, &[1]),
        ("sb.inprogress", 126, &[1]),
        ("sb.rootino", 56, &[0; 8]),
        ("sb.logblocks", 96, &[0; 4]),
        ("sb.logstart", 48, &[0, 0, 0, 0, 0, 2, 0xff, 0]),
        ("sb.logsunit", 196, &[0, 0, 0x10, 1]),
        ("sb.unit", 184, &[0, 0, 0, 4]),
        ("sb.width", 188, &[0, 0, 0, 4]),
        ("sb.rextents", 24, &[0, 0, 0, 0, 0, 0, 0, 1]),
        ("sb.rbmblocks", 92, &[0, 0, 0, 1]),
        ("sb.rextslog", 125, &[1]),
        ("sb.inoalignmt", 180, &[0, 0, 0, 4]),
        ("sb.tail", 300, &[1]),
        ("sb.crc", CRC_OFFSET, &[0; 4]),
    ];
    each_check_fails(&golden(512, PRIMARY_1G), Some(CRC_OFFSET), cases, verify);
}

#[test]
fn a_refused_superblock_is_a_corruption_if_another_copy_is_sound() {
    let mut other = golden(512, PRIMARY_1G);
    other[0] = b'Y';
    let refused = Superblock::verify(&other, AgNumber(0)).unwrap_err();
    assert!(matches!(refused, SbError::NotXfs { .. }));
    assert_eq!(refused.corruption().check.0, "sb.magicnum");
    let mut unsealed = golden(512, PRIMARY_1G);
    unsealed[120] = 17;
    let corrupt = Superblock::verify(&unsealed, AgNumber(0)).unwrap_err();
    assert_eq!(corrupt.corruption().check.0, "sb.crc");
    let good = golden(512, PRIMARY_1G);
    for (check, offset, bytes) in
        [("sb.versionnum", 100, &[0xb4, 0xa3][..]), ("sb.refused", 216, &[0, 0, 0x10, 0x2b])]
    {
        let newer = broken(&good, offset, bytes, Some(CRC_OFFSET));
        let refused = Superblock::verify(&newer, AgNumber(0)).unwrap_err();
        assert_eq!(refused.corruption().check.0, check);
    }
}

#[test]
fn fields_of_optional_features_are_checked_on_volumes_that_have_them() {
    let realtime: &[(&str, usize, &[u8])] = &[
        ("sb.rextsize", 80, &[0, 0, 0, 0]),
        ("sb.rextsize", 80, &[0, 4, 0, 1]),
        ("sb.crc", CRC_OFFSET, &[0; 4]),
    ];
    each_check_fails(&golden(512, PRIMARY_RT), Some(CRC_OFFSET), realtime, verify);
    let whole_chunks: &[(&str, usize, &[u8])] =
        &[("sb.spino_align", 228, &[0, 0, 0, 4]), ("sb.crc", CRC_OFFSET, &[0; 4])];
    let good = golden(512, PRIMARY_WHOLE_CHUNKS);
    each_check_fails(&good, Some(CRC_OFFSET), whole_chunks, verify);
    let v4: &[(&str, usize, &[u8])] = &[
        ("sb.agblocks", 84, &[0, 0, 0, 1]),
        ("sb.logsectlog", 193, &[9]),
        ("sb.logsectsize", 194, &[2, 0]),
        ("sb.tail", 208, &[1]),
    ];
    each_check_fails(&golden(512, PRIMARY_V4), None, v4, verify);
}

#[test]
fn unreadable_superblocks_are_refused_with_the_reason() {
    let good = golden(512, PRIMARY_1G);
    let refusal = |offset, bytes: &[u8]| {
        let bad = broken(&good, offset, bytes, Some(CRC_OFFSET));
        Superblock::verify(&bad, AgNumber(0)).unwrap_err().to_string()
    };
    assert!(refusal(0, b"EXT4").contains("not an XFS volume"));
    assert!(refusal(100, &[0xb4, 0xa3]).contains("version 3"));
    assert!(refusal(216, &[0, 0, 0x10, 0x2b]).contains("incompat feature bits 0x1000"));
    let v4 = golden(512, PRIMARY_V4);
    let bad = broken(&v4, 200, &[0, 0, 0, 4], None);
    let refused = Superblock::verify(&bad, AgNumber(0)).unwrap_err().to_string();
    assert!(refused.contains("features2 feature bits 0x4"), "{refused}");
}

type Change = fn(&mut Superblock);

#[test]
fn a_journal_moves_nothing_that_says_where_things_are() {
    let sector = golden(512, PRIMARY_1G);
    let before = Superblock::verify(&sector, AgNumber(0)).unwrap();
    let changed = |change: Change| {
        let mut sb = before.clone();
        change(&mut sb);
        sb.verify_successor(before).map_err(|corruption| corruption.check.0)
    };
    // Growth, shrinking, a label, counters, quota and the bits that are set by use.
    let allowed: [Change; 7] = [
        |sb| sb.dblocks = (sb.dblocks.get() + 70_000).into(),
        |sb| sb.dblocks = (sb.dblocks.get() - 1).into(),
        |sb| sb.agcount = 6.into(),
        |sb| sb.fname = *b"another name",
        |sb| (sb.icount, sb.fdblocks) = (128.into(), 1.into()),
        |sb| sb.versionnum = (sb.versionnum.get() | 0x50).into(),
        |sb| sb.features_log_incompat = 1.into(),
    ];
    for change in allowed {
        assert_eq!(changed(change), Ok(()));
    }
    let refused: [(&str, Change); 14] = [
        ("sb.logstart", |sb| sb.logstart = (sb.logstart.get() + 256).into()),
        ("sb.logstart", |sb| sb.logstart = 0.into()),
        ("sb.logblocks", |sb| sb.logblocks = (sb.logblocks.get() - 1).into()),
        ("sb.logsunit", |sb| sb.logsunit = 4096.into()),
        ("sb.agblocks", |sb| sb.agblocks = (sb.agblocks.get() + 1).into()),
        ("sb.agcount", |sb| sb.agcount = 3.into()),
        ("sb.dirblklog", |sb| sb.dirblklog = 1),
        ("sb.inodelog", |sb| sb.inodelog = 10),
        ("sb.inoalignmt", |sb| sb.inoalignmt = 4.into()),
        ("sb.rootino", |sb| sb.rootino = 131.into()),
        ("sb.metadirino", |sb| sb.metadirino = 132.into()),
        ("sb.uuid", |sb| sb.uuid[3] ^= 1),
        ("sb.features_incompat", |sb| sb.features_incompat = 0x0b.into()),
        ("sb.features_ro_compat", |sb| sb.features_ro_compat = 7.into()),
    ];
    for (check, change) in refused {
        assert_eq!(changed(change), Err(check));
    }
}
