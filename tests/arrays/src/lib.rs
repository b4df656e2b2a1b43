//! Test support for arrays: arrays made by the kernel, kept in `tests/images/md` (see its README),
//! as devices in memory; arrays created here, as a [`member_set`]; and a [`recording`] of writes,
//! to compute what a crash leaves. The tests are in `tests/`.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_test_support::kept;
use xfskit_units::{ByteLen, ByteOffset};

pub mod helpers;
pub mod member_set;
pub mod recording;

pub use helpers::{NOW, assembly, content, is_consistent, read_only_views, sha256};
pub use member_set::MemberSet;
pub use recording::{Crash, Recording, WriteHistory};

/// Unit in which zeroes are detected, in bytes.
const PIECE: usize = 64 * 1024;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../images/md")
}

/// A line of the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The array's name.
    pub name: String,
    /// How many members it has, with spares and the journal.
    pub members: usize,
    /// Bytes of the array.
    pub bytes: u64,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
}

/// Returns the manifest.
pub fn manifest() -> Vec<Entry> {
    let text = std::fs::read_to_string(folder().join("manifest.tsv")).expect("the manifest");
    let entry = |line: &str| {
        let mut fields = line.split('\t').map(str::to_owned);
        let mut field = || fields.next().expect("four fields");
        let (name, members, bytes, sha256) = (field(), field(), field(), field());
        let number = |text: String| text.parse().expect("a number");
        let members = usize::try_from(number(members)).expect("a count");
        Entry { name, members, bytes: number(bytes), sha256 }
    };
    text.lines().filter(|line| !line.starts_with('#')).map(entry).collect()
}

/// One array: its members, and the tools' output about them.
#[derive(Debug)]
pub struct Fixture {
    /// Its line in the manifest.
    pub entry: Entry,
    /// `m0`, `m1`, … in order.
    pub members: Vec<Arc<MemDevice>>,
    texts: BTreeMap<String, String>,
}

impl Fixture {
    /// Opens the array called `name`.
    pub fn open(name: &str) -> Self {
        let entry = manifest().into_iter().find(|entry| entry.name == name).expect("a known array");
        let unpacked = kept::decompress(&folder().join(format!("{name}.tar.zst")));
        let mut archive = tar::Archive::new(unpacked.as_slice());
        let (mut members, mut texts) = (BTreeMap::new(), BTreeMap::new());
        for file in archive.entries().expect("a tar archive") {
            let mut file = file.expect("an entry");
            let path = file.path().expect("a name").into_owned();
            let name = path.display().to_string();
            if path.extension().is_some_and(|kind| kind == "img") {
                members.insert(name, Arc::new(device(&mut file)));
            } else {
                let mut text = String::new();
                file.read_to_string(&mut text).expect("text");
                texts.insert(name, text);
            }
        }
        let members: Vec<_> = members.into_values().collect();
        assert_eq!(members.len(), entry.members, "members of {name}");
        Self { entry, members, texts }
    }

    /// Returns the output of a tool: `m0.examine`, `m0.bitmap`, `detail.txt`.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.texts.get(name).map(String::as_str)
    }

    /// Returns the members as devices.
    pub fn devices(&self) -> Vec<Arc<dyn BlockDevice>> {
        self.members.iter().map(|member| Arc::clone(member) as _).collect()
    }

    /// Returns the members as devices, with their names.
    pub fn named(&self) -> Vec<(String, Arc<dyn BlockDevice>)> {
        let device = |member: &Arc<MemDevice>| Arc::clone(member) as Arc<dyn BlockDevice>;
        self.members.iter().enumerate().map(|(i, m)| (format!("m{i}.img"), device(m))).collect()
    }
}

/// Copies a file of the archive to a device in memory. Zeroes use no memory.
fn device(file: &mut tar::Entry<'_, impl Read>) -> MemDevice {
    let device = MemDevice::new(ByteLen(file.size()));
    let (mut offset, mut piece) = (0, vec![0; PIECE]);
    loop {
        let mut filled = 0;
        while filled < PIECE {
            match file.read(&mut piece[filled..]).expect("the archive is whole") {
                0 => break,
                n => filled += n,
            }
        }
        if filled == 0 {
            return device;
        }
        if piece[..filled].iter().any(|byte| *byte != 0) {
            device.write_at(ByteOffset(offset), &piece[..filled]).expect("memory");
        }
        offset += filled as u64;
    }
}

/// Returns a sector of the pattern that fills most arrays: `tag` is 1 initially, 2 if written
/// later.
pub fn pattern(tag: u64, sector: u64) -> [u8; 512] {
    let mut x = ((tag << 40) ^ sector).wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^= x >> 31;
    let mut bytes = [0; 512];
    let (words, _) = bytes.as_chunks_mut::<8>();
    words.fill(x.to_le_bytes());
    words[0] = sector.to_le_bytes();
    bytes
}
