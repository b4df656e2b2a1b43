//! Arrays with a small volume on them.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use xfskit::md::{Array, Create, Level, NewDevices};
use xfskit::target::Device;
use xfskit::{Build, Mkfs};
use xfskit_test_support::{Random, verify};

/// Bytes of a page: members are compared page by page.
pub(crate) const PAGE: u64 = 4096;
/// Bytes of `/file`: several stripes of each array.
pub(crate) const FILE: u64 = 1 << 20;
/// Bytes of a chunk.
const CHUNK: u64 = 64 << 10;

/// Returns the paths of so many members.
pub(crate) fn members(dir: &Path, count: usize) -> Vec<PathBuf> {
    (0..count).map(|i| dir.join(format!("m{i}.img"))).collect()
}

/// Returns what mdadm reads from the superblock of a member.
pub(crate) fn examined(member: &Path) -> String {
    let output = Command::new("mdadm").arg("--examine").arg(member).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// An array with a volume that holds `/file`, without two equal pages, and small files beside it.
pub(crate) struct FilledArray {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) members: Vec<PathBuf>,
    pub(crate) target: String,
    pub(crate) file: Vec<u8>,
}

impl FilledArray {
    /// Makes an array of `count` members of which `member_size` bytes are used, and `files` small
    /// files.
    pub(crate) fn new(level: Level, count: usize, member_size: u64, files: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let members = members(dir.path(), count);
        let devices = NewDevices::new().create(member_size + (2 << 20));
        let create = Create::new(level).devices(devices).assume_clean(true);
        let create = create.chunk_size(CHUNK).data_offset(1 << 20).member_size(member_size);
        let target = create.create(&members).unwrap().target;
        let mut random = Random::of_test(18);
        let file = random.bytes(usize::try_from(FILE).unwrap());
        let root = dir.path().join("root");
        fs::create_dir(&root).unwrap();
        fs::write(root.join("file"), &file).unwrap();
        for n in 0..files {
            let dir = root.join(format!("dir{}", n / 20));
            fs::create_dir_all(&dir).unwrap();
            let len = random.pick(&[300, 1500, 4000, 9000]);
            fs::write(dir.join(format!("file-with-a-longer-name-{n}")), random.bytes(len)).unwrap();
        }
        Build::new().dir(&root).mkfs(Mkfs::new().force(true)).create(&target).unwrap();
        let this = Self { dir, members, target, file };
        this.verify();
        this
    }

    /// Returns a page of `/file`.
    pub(crate) fn page(&self, number: usize) -> &[u8] {
        self.file.chunks(PAGE.try_into().unwrap()).nth(number).unwrap()
    }

    /// Returns the member that holds these bytes, and where they begin: at the start of a page.
    pub(crate) fn find(&self, page: &[u8]) -> (usize, u64) {
        let find = |(role, member): (usize, &PathBuf)| {
            let bytes = fs::read(member).unwrap();
            let at = bytes.chunks(page.len()).position(|here| here == page)?;
            Some((role, at as u64 * PAGE))
        };
        self.members.iter().enumerate().find_map(find).expect("a member holds the page")
    }

    /// Damages the member that holds this page of `/file`. Returns its role.
    pub(crate) fn damage_page(&self, number: usize) -> usize {
        let (role, at) = self.find(self.page(number));
        self.damage(role, at + 7, b"not what was written");
        role
    }

    /// Overwrites bytes of a member.
    pub(crate) fn damage(&self, role: usize, at: u64, bytes: &[u8]) {
        let file = File::options().write(true).open(&self.members[role]).unwrap();
        file.write_all_at(bytes, at).unwrap();
    }

    /// Returns the bytes of all members.
    pub(crate) fn bytes(&self) -> Vec<Vec<u8>> {
        self.members.iter().map(|member| fs::read(member).unwrap()).collect()
    }

    /// Verifies the volume by all tools, and that mdadm finds the array clean and whole.
    pub(crate) fn verify(&self) {
        let whole = "A".repeat(self.members.len());
        for member in &self.members {
            let found = examined(member);
            assert!(found.contains("State : clean"), "{found}");
            assert!(found.contains(&format!("Array State : {whole} ")), "{found}");
        }
        let device = Device::open(&self.target).unwrap();
        let mut volume = vec![0; usize::try_from(device.size()).unwrap()];
        device.read_exact_at(&mut volume, 0).unwrap();
        let image = self.dir.path().join("volume.img");
        fs::write(&image, volume).unwrap();
        verify::file(&image).unwrap();
    }

    /// Returns where the data of a member begin, in bytes.
    pub(crate) fn data_offset(&self, role: usize) -> u64 {
        Array::open(&self.target).unwrap().members()[role].data_offset.0 * 512
    }
}
