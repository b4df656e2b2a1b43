//! Files that are incomplete, damaged, or something else.

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_metadump::{Dump, Error, FileFormat, Reader, Restore, Targets};
use xfskit_test_support::kept;
use xfskit_test_support::random::Random;
use xfskit_units::{ByteLen, ByteOffset};

use crate::common::{dump, restored};

fn file(format: FileFormat) -> Vec<u8> {
    let options = Dump { format: Some(format), ..Dump::default() };
    dump(&kept::device("v4-old"), &options).0
}

fn restore_partly(file: &[u8], size: u64, partial: bool) -> Result<bool, Error> {
    let device = MemDevice::new(ByteLen(size));
    let restore = Restore { partial, ..Restore::default() };
    let restored =
        restore.run(Reader::open(file)?, Targets { data: &device, log: None, realtime: None })?;
    Ok(restored.incomplete)
}

#[test]
fn an_incomplete_file_is_refused_or_restored_up_to_its_end() {
    for format in [FileFormat::V1, FileFormat::V2] {
        let file = file(format);
        let size = restored(&file).0.size().0;
        for len in [600, 1000, 40_000, file.len() / 2 + 7, file.len() - 1] {
            let cut = &file[..len];
            let refused = restore_partly(cut, size, false).unwrap_err();
            assert!(matches!(refused, Error::Truncated { .. }), "{format:?} {len}: {refused}");
            if len > 40_000 {
                assert!(restore_partly(cut, size, true).unwrap());
            }
        }
    }
}

#[test]
fn other_files_are_named() {
    for (head, program) in [
        (&[0x28, 0xb5, 0x2f, 0xfd, 0, 0, 0, 0][..], "zstd -dc"),
        (&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0], "gzip -dc"),
        (b"XFSB\0\0\0\0", "xfs_metadump"),
        (b"", "xfs_metadump"),
    ] {
        let error = Reader::open(head).unwrap_err();
        assert!(matches!(error, Error::NotAMetadump { .. }), "{error}");
        assert!(error.hint().unwrap().contains(program), "{error}");
    }
    let unknown = [&b"XMD2\0\0\0\x02\0\0\x01\0"[..], &[0; 40]].concat();
    let error = Reader::open(&unknown[..]).unwrap_err();
    assert_eq!(error.to_string(), "unknown flags 0x100 of the file are not supported");
}

#[test]
fn a_small_target_is_refused_before_it_is_written() {
    let file = file(FileFormat::V1);
    let device = MemDevice::new(ByteLen(1 << 20));
    device.write_at(ByteOffset(0), b"precious").unwrap();
    let targets = Targets { data: &device, log: None, realtime: None };
    let refused = Restore::default().run(Reader::open(&file[..]).unwrap(), targets).unwrap_err();
    assert!(matches!(refused, Error::TooSmall { .. }), "{refused}");
    let mut bytes = [0; 8];
    device.read_at(ByteOffset(0), &mut bytes).unwrap();
    assert_eq!(&bytes, b"precious");
}

#[test]
fn damaged_files_cause_no_panic() {
    let mut random = Random::of_test(11);
    for format in [FileFormat::V1, FileFormat::V2] {
        let file = file(format);
        let size = restored(&file).0.size().0;
        for _ in 0..60 {
            let mut damaged = file[..file.len().min(400_000)].to_vec();
            for _ in 0..=random.below(8usize) {
                let near = [40, 2000, damaged.len()][random.below(3usize)];
                let at = random.below(near);
                damaged[at] = random.byte();
            }
            let _ = restore_partly(&damaged, size, true);
        }
    }
}
