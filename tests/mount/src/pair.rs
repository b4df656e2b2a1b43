//! Two mounts of equal volumes: one by Linux, one by xfskit.

use std::path::{Path, PathBuf};
use std::time::Duration;

use xfskit_test_support::image::{Image, Mount, Scratch};
use xfskit_test_support::need::{Need, needs};
use xfskit_test_support::tools::Xfsprogs;
use xfskit_test_support::transport::{Offered, Transport};
use xfskit_test_support::{skip, verify};

use crate::run::Run;
use crate::tree;

/// Size of the volumes.
const SIZE: u64 = 1 << 30;

/// Time in which a mount ends.
const SOON: Duration = Duration::from_mins(1);

/// A volume that xfskit has mounted. It is unmounted and verified by [`Served::end`].
pub struct Served<'scratch> {
    transport: Transport,
    image: Image<'scratch>,
    scratch: &'scratch Scratch,
    dir: PathBuf,
    mounted: Option<xfskit::Mounted>,
    /// Held as long as the mount: another test may need it for the next one.
    _offered: Option<Offered>,
}

/// Returns whether volumes can be mounted by Linux and by xfskit. If not, the test counts as
/// skipped.
pub fn possible() -> bool {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return false;
    }
    if !Path::new("/dev/fuse").exists() {
        skip::skip("/dev/fuse");
        return false;
    }
    true
}

/// Makes an empty volume with the options of mkfs.xfs.
///
/// # Panics
/// mkfs.xfs fails.
pub fn empty<'scratch>(
    scratch: &'scratch Scratch,
    name: &str,
    options: &[&str],
) -> Image<'scratch> {
    let image = Image::sparse(scratch, name, SIZE);
    Xfsprogs::installed().expect("mkfs.xfs").mkfs(&image, options).expect("a volume");
    image
}

impl<'scratch> Served<'scratch> {
    /// Mounts the volume `image` by xfskit, with mount options.
    ///
    /// # Panics
    /// It cannot be mounted.
    pub fn new(image: Image<'scratch>, scratch: &'scratch Scratch, options: &str) -> Self {
        Self::by(Transport::Device, image, scratch, options)
    }

    /// Mounts the volume as [`new`](Self::new). Its requests come by `transport`.
    ///
    /// # Panics
    /// It cannot be mounted.
    pub fn by(
        transport: Transport,
        image: Image<'scratch>,
        scratch: &'scratch Scratch,
        options: &str,
    ) -> Self {
        let offered = transport.offer();
        let name = image.path().file_name().expect("a name").to_string_lossy().into_owned();
        let dir = scratch.path().join(format!("{name}.fuse"));
        std::fs::create_dir_all(&dir).expect("a mount point");
        let mount = xfskit::Mount::new().options(options).expect("options");
        let mount = mount.options(transport.option()).expect("an option");
        let write = !mount.is_read_only();
        let volume = xfskit::VolumeOptions::new().write(write).cache_bytes(64 << 20);
        let volume = volume.open(image.path()).expect("a volume");
        let mounted = Some(mount.start(volume, &dir).expect("a mount"));
        Self { transport, image, scratch, dir, mounted, _offered: offered }
    }

    /// Returns the mount point.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Returns the requests of one kind so far.
    pub fn requests(&self, kind: xfskit::RequestKind) -> u64 {
        let requests = self.mounted.iter().flat_map(xfskit::Mounted::requests);
        requests.filter(|requests| requests.kind == kind).map(|requests| requests.requests).sum()
    }

    /// Unmounts, and closes the volume.
    ///
    /// # Panics
    /// Something else than the requests of programs failed.
    pub fn unmount(mut self) -> Image<'scratch> {
        let mounted = self.mounted.take().expect("mounted once");
        let by = mounted.carried();
        assert_eq!(by.carrier.name(), self.transport.name());
        assert_eq!(by.io_uring > 0, self.transport == Transport::IoUring, "{by:?}");
        mounted.unmount().expect("an unmount");
        assert!(mounted.wait(SOON), "the mount is gone");
        assert_eq!(mounted.first_failure(), None);
        mounted.close().expect("a closed volume");
        self.image
    }

    /// Unmounts, and lets all tools verify the volume.
    ///
    /// # Panics
    /// One of them finds something.
    pub fn end(self) -> Image<'scratch> {
        let scratch = self.scratch;
        let image = self.unmount();
        verify::volume(&image, scratch).expect("a sound volume");
        image
    }
}

/// Runs `program` in Linux' mount of an empty volume and in ours, and compares what it says and
/// what it leaves behind: the trees where they were made, the trees on the volumes, and how full
/// these are. Ours is mounted by each transport.
///
/// # Panics
/// The two differ.
pub fn same<R: Into<Run>>(options: &[&str], program: impl Fn(&Path) -> R) {
    same_with(options, "allow_other,dev,suid", program);
}

/// Does what [`same`] does, with options of our mount.
///
/// # Panics
/// The two differ.
pub fn same_with<R: Into<Run>>(options: &[&str], mount: &str, program: impl Fn(&Path) -> R) {
    let scratch = Scratch::new("mount");
    let linux = empty(&scratch, "linux.img", options);
    let by_linux = Mount::read_write(&linux, &scratch).expect("a mount by Linux");
    let expected: Run = program(by_linux.path()).into();
    let expected_live = tree::live(by_linux.path(), &expected.exempt);
    by_linux.unmount().expect("an unmount");
    let mut linux = tree::on_disk(&linux, &scratch, &expected.exempt);
    for transport in Transport::all() {
        let name = format!("{}.img", transport.name());
        let served = Served::by(transport, empty(&scratch, &name, options), &scratch, mount);
        let found: Run = program(served.path()).into();
        expected.assert_same(&found);
        let found_live = tree::live(served.path(), &found.exempt);
        expected_live.assert_same(&found_live, &expected, "the mounted trees");
        let ours = served.end();
        let mut ours = tree::on_disk(&ours, &scratch, &found.exempt);
        if mount.contains("idmap=") {
            linux.tree = tree::without_owners(linux.tree);
            ours.tree = tree::without_owners(ours.tree);
        }
        linux.assert_same(&ours, &expected, "the trees on the volumes");
    }
}
