//! Volumes on arrays: what one member has damaged is healed from the others, and nothing is lost.

use std::collections::HashMap;
use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_md::array::Array;
use xfskit_md::assemble::{Member, assemble};
use xfskit_md::create::{BitmapOption, CreateOptions, NewMember};
use xfskit_md::superblock::Version;
use xfskit_md::{Layout, Level};
use xfskit_repair::{Prepared, Repair, StepKind};
use xfskit_units::{ByteLen, ByteOffset, Sectors};

use crate::common::{Image, check_all};
use crate::survivors::content;

/// The time of the arrays, in seconds since 1970.
const NOW: u64 = 1_800_000_000;
/// Bytes of a sector.
const SECTOR: usize = 512;
/// Bytes of a member beside its data.
const OVERHEAD: u64 = 4 << 20;

/// The members of an array.
struct Members(Vec<Arc<MemDevice>>);

impl Members {
    /// Creates an array that holds an image. `data`: members with data in a stripe.
    fn with(image: &Image, level: Level, members: usize, data: usize) -> Self {
        let size = (image.bytes.len().div_ceil(data) as u64).next_multiple_of(1 << 20);
        let new = || Arc::new(MemDevice::new(ByteLen(size + OVERHEAD)));
        let set = Self((0..members).map(|_| new()).collect());
        let options = CreateOptions {
            layout: Layout::default_of(level),
            chunk: Sectors(if level == Level::Raid1 { 0 } else { 32 }),
            version: Version::V1_2,
            name: "test".into(),
            uuid: [0xab; 16],
            size: Some(Sectors(size / SECTOR as u64)),
            data_offset: None,
            bitmap: BitmapOption::No,
            assume_clean: true,
            now: NOW,
        };
        let member = |(n, device): (usize, &Arc<MemDevice>)| {
            let uuid = [u8::try_from(n + 1).unwrap(); 16];
            Some(NewMember { name: format!("m{n}"), device: Arc::clone(device) as _, uuid })
        };
        let roles: Vec<_> = set.0.iter().enumerate().map(member).collect();
        options.create(&roles, &[]).unwrap();
        let array = set.open();
        array.write_at(ByteOffset(0), &image.bytes).unwrap();
        array.flush().unwrap();
        array.close().unwrap();
        set
    }

    fn open(&self) -> Array {
        let member = |(n, device): (usize, &Arc<MemDevice>)| Member {
            name: format!("m{n}"),
            device: Arc::clone(device) as _,
        };
        let assembly = assemble(self.0.iter().enumerate().map(member).collect()).unwrap();
        assembly.open_writable(NOW).unwrap()
    }

    /// Inverts those of the given sectors that are read from a member. Returns how many there are.
    fn invert(&self, member: usize, sectors: &Sectors512<'_>) -> usize {
        let (device, array) = (&self.0[member], self.open());
        let all = content(&**device);
        let mut count = 0;
        for (n, bytes) in all.chunks(SECTOR).enumerate() {
            let Some(at) = sectors.get(bytes) else { continue };
            let inverted: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
            let mut read = vec![0; SECTOR];
            let place = ByteOffset((n * SECTOR) as u64);
            device.write_at(place, &inverted).unwrap();
            array.read_alternative(*at, &mut read, 0).unwrap();
            if read == inverted {
                count += 1;
            } else {
                // Parity that is like data, because the other chunks are zero.
                device.write_at(place, bytes).unwrap();
            }
        }
        array.close().unwrap();
        count
    }

    fn contents(&self) -> Vec<Vec<u8>> {
        self.0.iter().map(|device| content(&**device)).collect()
    }
}

/// Sectors and where they are.
type Sectors512<'i> = HashMap<&'i [u8], ByteOffset>;

/// Returns the first sectors of all inodes in use, and of all blocks of directories, attributes and
/// maps.
fn of_files(image: &Image) -> Sectors512<'_> {
    let blocks = image.metadata().into_iter();
    let of_group = [&b"XFSB"[..], b"XAG", b"XAFL", b"AB3", b"IAB3", b"FIB3", b"RMB3", b"R3FC"];
    let is_free = |bytes: &[u8]| bytes.starts_with(b"IN\0\0");
    blocks
        .map(|block| (&image.bytes[block.offset..][..SECTOR], ByteOffset(block.offset as u64)))
        .filter(|(bytes, _)| {
            !of_group.iter().any(|magic| bytes.starts_with(magic)) && !is_free(bytes)
        })
        .collect()
}

/// Returns the repair of an array, which wrote nothing and loses nothing.
fn prepared(set: &Members, array: &Arc<Array>, what: &str) -> Prepared {
    let before = set.contents();
    let prepared = Repair::new().prepare(Arc::clone(array) as _).unwrap();
    assert!(set.contents() == before, "{what}: the plan wrote");
    assert!(prepared.is_clean(), "{what}: {:#?}\n{:#?}", prepared.left(), prepared.plan());
    assert!(!prepared.loses_too_much(), "{what}: {:#?}", prepared.plan());
    prepared
}

/// Returns true if all members agree.
fn is_consistent(array: &Array) -> bool {
    (0..array.scrub_stripes()).all(|stripe| array.scrub_stripe(stripe, false).unwrap().is_empty())
}

#[test]
fn what_one_member_has_damaged_is_healed_from_the_others() {
    // Level, members, members with data, damaged members.
    let arrays: [(Level, usize, usize, &[usize]); 5] = [
        (Level::Raid1, 2, 1, &[0]),
        (Level::Raid5, 4, 3, &[1]),
        (Level::Raid6, 5, 3, &[2]),
        (Level::Raid6, 5, 3, &[0, 3]),
        (Level::Raid10, 4, 2, &[0]),
    ];
    for name in ["v5", "v5-1k"] {
        let image = Image::kept(name);
        for (level, members, data, damaged) in arrays {
            let what = format!("{name} on {level:?}, members {damaged:?}");
            let set = Members::with(&image, level, members, data);
            let sectors = of_files(&image);
            let count: usize = damaged.iter().map(|m| set.invert(*m, &sectors)).sum();
            assert!(count >= 5, "{what}: {count} sectors");
            let array = Arc::new(set.open());
            let prepared = prepared(&set, &array, &what);
            let steps = &prepared.plan().steps;
            println!("{what}: {count} sectors\n{}", steps[0]);
            assert!(steps.len() == 1 && steps[0].kind == StepKind::Copy, "{what}: {steps:#?}");
            prepared.commit(&*array, None).unwrap();
            drop(prepared);
            assert!(content(&*array)[..image.bytes.len()] == image.bytes, "{what}");
            assert!(is_consistent(&array), "{what}: the members disagree");
            let (report, findings) = check_all(&*array);
            assert!(report.clean(), "{what}: {findings:#?}");
        }
    }
}

/// Damage that all members agree on is repaired with it.
#[test]
fn damage_of_the_volume_is_repaired_beside_that_of_a_member() {
    let image = Image::kept("v5");
    for (level, members, data) in [(Level::Raid1, 2, 1), (Level::Raid5, 4, 3), (Level::Raid6, 5, 3)]
    {
        let what = format!("{level:?}");
        let set = Members::with(&image, level, members, data);
        let array = set.open();
        for block in [image.header(1, 1), image.magic(b"AB3C", 0), image.da(0x3dff, 0)] {
            array.write_at(ByteOffset(block.offset as u64), &vec![0xa5; block.len]).unwrap();
        }
        array.flush().unwrap();
        array.close().unwrap();
        assert!(set.invert(0, &of_files(&image)) >= 3, "{what}");
        let array = Arc::new(set.open());
        let prepared = prepared(&set, &array, &what);
        assert!(prepared.plan().steps.len() >= 3, "{what}: {:#?}", prepared.plan());
        prepared.commit(&*array, None).unwrap();
        assert!(is_consistent(&array), "{what}: the members disagree");
        let (report, findings) = check_all(&*array);
        assert!(report.clean(), "{what}: {findings:#?}");
    }
}
