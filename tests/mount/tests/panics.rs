//! A panic in the process that serves a mount, wherever it happens: the request fails, nothing is
//! written any more, and what was durable is there after recovery.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use rustix::io::Errno;
use xfskit::raw::VolumeOptionsExt;
use xfskit::raw::block::{BlockDevice, FileDevice, OpenMode, Result, forward, plain};
use xfskit::raw::units::ByteOffset;
use xfskit::{Mounted, Volume, VolumeOptions};
use xfskit_test_mount::pair::{empty, possible};
use xfskit_test_support::image::{Image, Mount, Scratch};
use xfskit_test_support::transport::Transport;
use xfskit_test_support::verify;

/// Time in which what a thread does in the background is done.
const SOON: Duration = Duration::from_secs(30);

/// What panics, the next time that it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum Trap {
    None,
    Read,
    Write,
    Clock,
}

/// The trap that is set, and the number of writes to the device.
#[derive(Debug, Default)]
struct Traps {
    set: AtomicU64,
    writes: AtomicU64,
}

impl Traps {
    fn set(&self, trap: Trap) {
        self.set.store(trap as u64, Ordering::SeqCst);
    }

    fn is_set(&self) -> bool {
        self.set.load(Ordering::SeqCst) != Trap::None as u64
    }

    fn pass(&self, trap: Trap) {
        let (set, none) = (trap as u64, Trap::None as u64);
        let is_set = self.set.compare_exchange(set, none, Ordering::SeqCst, Ordering::SeqCst);
        assert!(is_set.is_err(), "the trap for {trap:?}");
    }

    fn writes(&self) -> u64 {
        self.writes.load(Ordering::SeqCst)
    }
}

/// A device with traps.
#[derive(Debug)]
struct TrapDevice {
    base: FileDevice,
    traps: Arc<Traps>,
}

impl BlockDevice for TrapDevice {
    forward!(this => this.base;
        size, logical_block_size, physical_block_size, topology, is_read_only, discard, will_need,
        skip_hole, alternatives, read_alternative
    );
    // Each request passes the traps.
    plain!(read_batch, lend, write_batch, write_fua, write_zeroes, heal);
    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        self.traps.pass(Trap::Read);
        self.base.read_at(offset, buf)
    }
    fn write_at(&self, offset: ByteOffset, buf: &[u8]) -> Result<()> {
        self.traps.pass(Trap::Write);
        self.traps.writes.fetch_add(1, Ordering::SeqCst);
        self.base.write_at(offset, buf)
    }
    fn flush(&self) -> Result<()> {
        self.base.flush()
    }
}

/// A mount of a volume with traps.
struct Trapped<'m> {
    mounted: &'m Mounted,
    dir: &'m Path,
    traps: &'m Traps,
}

fn is_eio<T>(result: io::Result<T>) -> bool {
    result.is_err_and(|error| error.raw_os_error() == Some(Errno::IO.raw_os_error()))
}

/// Waits until `is_so`.
fn wait(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < SOON, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Opens the volume of `image` on a device with traps.
fn open(image: &Image<'_>, traps: &Arc<Traps>) -> Volume {
    let base = FileDevice::open(image.path(), OpenMode::ReadWrite).unwrap();
    let device = Arc::new(TrapDevice { base, traps: Arc::clone(traps) });
    let clock = Arc::clone(traps);
    let now = move || {
        clock.pass(Trap::Clock);
        SystemTime::now()
    };
    let options = VolumeOptions::new().write(true).cache_bytes(64 << 20).snapshots(true).clock(now);
    VolumeOptionsExt::open_device(&options, device, None).unwrap()
}

/// Mounts a volume with a few files by each transport, and lets `springs` spring a trap. The
/// request fails, all others do, nothing is written, the mount ends, and recovery by xfskit and by
/// Linux brings back what was durable.
fn survives(springs: impl Fn(&Trapped<'_>)) {
    if !possible() {
        return;
    }
    let scratch = Scratch::new("panics");
    for transport in Transport::all() {
        let _offered = transport.offer();
        let name = format!("{}.img", transport.name());
        let image = empty(&scratch, &name, &[]);
        let dir = scratch.path().join(format!("{name}.dir"));
        fs::create_dir_all(&dir).unwrap();
        let before = VolumeOptions::new().write(true).open(image.path()).unwrap();
        before.create_dir("/old").unwrap();
        before.write("/old/file", b"old").unwrap();
        before.close().unwrap();
        let traps = Arc::new(Traps::default());
        let mount = xfskit::Mount::new().options(transport.option()).unwrap();
        let mounted = mount.start(open(&image, &traps), &dir).unwrap();
        let durable = dir.join("durable");
        fs::write(&durable, "durable").unwrap();
        File::open(&durable).unwrap().sync_all().unwrap();

        let trapped = Trapped { mounted: &mounted, dir: &dir, traps: &traps };
        springs(&trapped);
        assert!(!traps.is_set(), "the trap was not sprung");
        let writes = traps.writes();
        let cause = mounted.first_failure().unwrap_or_default();
        assert!(cause.contains("a bug in xfskit: panic during"), "{cause}");
        assert!(is_eio(fs::write(dir.join("new"), "new")));
        assert!(is_eio(fs::metadata(dir.join("unknown"))));
        assert!(is_eio(fs::read(dir.join("old/file"))));
        assert!(is_eio(fs::read_dir(&dir).and_then(|mut entries| entries.next().unwrap())));
        assert!(is_eio(File::open(&durable).and_then(|file| file.sync_all())));
        rustix::fs::statvfs(&dir).unwrap();

        mounted.unmount().unwrap();
        assert!(mounted.wait(SOON), "the mount is gone");
        assert_eq!(mounted.first_failure(), Some(cause));
        let error = mounted.close().unwrap_err().to_string();
        assert!(error.contains("shut down") && error.contains("panic during"), "{error}");
        assert_eq!(traps.writes(), writes, "nothing is written after a panic");

        let by_linux = image.copy(&format!("linux-{name}"));
        Mount::recover(&by_linux, &scratch).unwrap();
        VolumeOptions::new().write(true).open(image.path()).unwrap().close().unwrap();
        for image in [&image, &by_linux] {
            verify::volume(image, &scratch).unwrap();
            let volume = Volume::open(image.path()).unwrap();
            assert_eq!(volume.read("/durable").unwrap(), b"durable");
            assert_eq!(volume.read("/old/file").unwrap(), b"old");
        }
    }
}

#[test]
fn a_panic_in_the_midst_of_a_change_costs_what_was_not_durable() {
    survives(|Trapped { dir, traps, .. }| {
        let file = dir.join("durable");
        traps.set(Trap::Clock);
        assert!(is_eio(fs::set_permissions(file, fs::Permissions::from_mode(0o600))));
    });
}

#[test]
fn a_panic_in_a_read_is_an_error_of_the_request() {
    survives(|Trapped { dir, traps, .. }| {
        traps.set(Trap::Read);
        assert!(is_eio(fs::read(dir.join("old/file"))));
    });
}

#[test]
fn a_panic_in_a_write_of_content_leaves_no_file_with_the_blocks_of_another() {
    survives(|Trapped { dir, traps, .. }| {
        let mut file = File::create(dir.join("content")).unwrap();
        file.write_all(&vec![7; 1 << 20]).unwrap();
        traps.set(Trap::Write);
        assert!(is_eio(file.sync_all()));
    });
}

#[test]
fn a_panic_in_a_write_of_the_journal_fails_the_fsync() {
    survives(|Trapped { dir, traps, .. }| {
        let file = File::create(dir.join("empty")).unwrap();
        traps.set(Trap::Write);
        assert!(is_eio(file.sync_all()));
    });
}

#[test]
fn a_panic_in_a_commit_of_the_background_is_known_to_the_next_request() {
    survives(|Trapped { dir, traps, mounted }| {
        traps.set(Trap::Write);
        fs::create_dir(dir.join("soon")).unwrap();
        wait("a commit", || mounted.first_failure().is_some());
    });
}

#[test]
fn a_panic_where_metadata_is_written_in_place_shuts_the_volume_down() {
    survives(|Trapped { dir, traps, mounted }| {
        fs::create_dir(dir.join("frozen")).unwrap();
        File::open(dir).unwrap().sync_all().unwrap();
        traps.set(Trap::Write);
        let error = mounted.freeze().unwrap_err().to_string();
        assert!(error.contains("panic during"), "{error}");
        assert!(!mounted.is_frozen());
    });
}
