//! Existing contents of a device: enough magic numbers to keep users from losing their data.

use xfskit_block::{BlockDevice, Result};
use xfskit_format::sb::{self, Superblock};
use xfskit_units::{ByteLen, ByteOffset};

/// Bytes read from the start of the device: the furthest magic is that of btrfs, at 64 KiB.
const HEAD: u64 = 68 * 1024;

/// Magic of md superblocks.
const MD_MAGIC: u32 = 0xa92b_4efc;
/// Superblocks of version 0.90 begin at a multiple of this many bytes.
const MD_090_ALIGN: u64 = 64 * 1024;

/// A magic number: its offset, its bytes, its owner.
struct Magic {
    offset: usize,
    bytes: &'static [u8],
    what: &'static str,
}

const fn magic(offset: usize, bytes: &'static [u8], what: &'static str) -> Magic {
    Magic { offset, bytes, what }
}

const MAGICS: &[Magic] = &[
    magic(0, b"XFSB", "an XFS filesystem"),
    magic(0x438, &[0x53, 0xef], "an ext2/ext3/ext4 filesystem"),
    magic(0x10040, b"_BHRfS_M", "a btrfs filesystem"),
    magic(0xff6, b"SWAPSPACE2", "a swap area"),
    magic(0, b"LUKS\xba\xbe", "a LUKS volume"),
    magic(0x218, b"LVM2 001", "an LVM physical volume"),
    magic(0x18, b"LVM2 001", "an LVM physical volume"),
    magic(0, &[0xfc, 0x4e, 0x2b, 0xa9], "an md array member"),
    magic(4096, &[0xfc, 0x4e, 0x2b, 0xa9], "an md array member"),
    magic(0x400, &[0x10, 0x20, 0xf5, 0xf2], "an F2FS filesystem"),
    magic(0x8001, b"CD001", "an ISO 9660 filesystem"),
    magic(0, b"hsqs", "a squashfs filesystem"),
    magic(3, b"NTFS    ", "an NTFS filesystem"),
    magic(3, b"EXFAT   ", "an exFAT filesystem"),
    magic(0x36, b"FAT1", "a FAT filesystem"),
    magic(0x52, b"FAT32", "a FAT filesystem"),
    magic(512, b"EFI PART", "a GPT partition table"),
    magic(4096, b"EFI PART", "a GPT partition table"),
    magic(510, &[0x55, 0xaa], "a partition table"),
];

/// Returns what the device holds, if it is recognised.
///
/// # Errors
/// Errors of the device.
pub fn find(data: &dyn BlockDevice) -> Result<Option<&'static str>> {
    let mut head = vec![0; usize::try_from(HEAD.min(data.size().0)).unwrap_or(0)];
    data.read_at(ByteOffset(0), &mut head)?;
    let known = MAGICS
        .iter()
        .find(|magic| head.get(magic.offset..).is_some_and(|rest| rest.starts_with(magic.bytes)));
    match known {
        Some(magic) => Ok(Some(magic.what)),
        None => md_at_end(data),
    }
}

/// Finds superblocks of md arrays at the end of a member: 64 KiB before it (version 0.90, in the
/// byte order of its machine), or 8 KiB (1.0).
fn md_at_end(data: &dyn BlockDevice) -> Result<Option<&'static str>> {
    let size = data.size().0;
    let places = [
        (size / MD_090_ALIGN).checked_sub(1).map(|n| n * MD_090_ALIGN),
        (size / 4096 * 4096).checked_sub(8192),
    ];
    for at in places.into_iter().flatten() {
        let mut magic = [0; 4];
        data.read_at(ByteOffset(at), &mut magic)?;
        if magic == MD_MAGIC.to_le_bytes() || magic == MD_MAGIC.to_be_bytes() {
            return Ok(Some("an md array member"));
        }
    }
    Ok(None)
}

/// Zeroes the superblocks of an earlier XFS volume, so that a search for secondaries does not find
/// them among the new ones.
///
/// # Errors
/// Errors of the device.
pub fn wipe_old_superblocks(data: &dyn BlockDevice) -> Result<()> {
    let mut sector = [0; 512];
    data.read_at(ByteOffset(0), &mut sector)?;
    let Some(old) = Superblock::parse(&sector).filter(|sb| sb.magicnum.get() == sb::MAGIC) else {
        return Ok(());
    };
    let ag_bytes = u64::from(old.agblocks.get()).saturating_mul(old.blocksize.get().into());
    if ag_bytes < 1 << 20 {
        return Ok(()); // no such volume: its groups would be smaller than any
    }
    let starts = (1..u64::from(old.agcount.get())).map(|agno| agno.saturating_mul(ag_bytes));
    for at in starts.take_while(|at| at.saturating_add(512) <= data.size().0) {
        data.read_at(ByteOffset(at), &mut sector)?;
        if sector.starts_with(b"XFSB") {
            data.write_zeroes(ByteOffset(at), ByteLen(512))?;
        }
    }
    Ok(())
}
