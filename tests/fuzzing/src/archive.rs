//! Archives: tar in its dialects, compressed or not, built into a new volume or copied into an
//! existing one.
//!
//! An input is one byte of choices and the archive. No input may cause a panic, a hang or unbounded
//! memory use. A volume that is built from an accepted archive must be clean.

use std::fs::File;
use std::io::Write;
use std::ops::ControlFlow;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use rustix::fs::MemfdFlags;
use xfskit_block::{BlockDevice, MemDevice, OverlayDevice};
use xfskit_copy::build::{self, Blueprint, Free, WriteOptions};
use xfskit_copy::source::{self, Kind, Source, SourceOptions, Tree};
use xfskit_copy::{Destination, PutOptions, put};
use xfskit_core::{OpenOptions, Volume};
use xfskit_mkfs::{DeviceFacts, Options, Stamp};
use xfskit_units::{ByteLen, Uuid};
use xfskit_vfs::{Clock, Fs};

/// Bit of the first byte: header checksums stay as they are.
const KEEP_CHECKSUMS: u8 = 1;
/// Bit of the first byte: whiteouts are applied.
const WHITEOUTS: u8 = 2;
/// Bit of the first byte: the archive is compressed with zstd before it is read.
const COMPRESS: u8 = 4;
/// Bit of the first byte: the archive is copied into an existing volume.
const PUT: u8 = 8;
/// Largest content of a tree that a volume is built from, in bytes.
const CONTENT_MAX: u64 = 4 << 20;
/// Size of a header, in bytes.
const BLOCK: usize = 512;

/// Recomputes the checksum of everything that looks like a header.
fn seal(archive: &mut [u8]) {
    for block in archive.chunks_exact_mut(BLOCK) {
        if &block[257..262] != b"ustar" {
            continue;
        }
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
}

/// Returns a file in memory with these bytes, and its path.
fn file(bytes: &[u8]) -> (OwnedFd, PathBuf) {
    let fd = rustix::fs::memfd_create("archive", MemfdFlags::CLOEXEC).expect("memory");
    let mut file = File::from(fd.try_clone().expect("a handle"));
    file.write_all(bytes).expect("memory");
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    (fd, PathBuf::from(path))
}

/// Reads an archive and builds a volume from it.
pub fn read(data: &[u8]) {
    let Some((&choice, archive)) = data.split_first() else { return };
    let mut archive = archive.to_vec();
    if choice & KEEP_CHECKSUMS == 0 {
        seal(&mut archive);
    }
    if choice & COMPRESS != 0 {
        archive = zstd::bulk::compress(&archive, 1).expect("memory");
    }
    let (_fd, path) = file(&archive);
    let options = SourceOptions {
        whiteouts: choice & WHITEOUTS != 0,
        spool_dir: Some(PathBuf::from("/dev/shm")).filter(|dir| dir.is_dir()),
        accounts: Some(PathBuf::from("/nowhere")),
        content_limit: Some(4 * CONTENT_MAX),
        ..SourceOptions::default()
    };
    let tree = source::read_tree(&[Source::Tar(path)], &options, &|_| ControlFlow::Continue(()));
    let Ok(tree) = tree else { return };
    if content(&tree).is_none_or(|bytes| bytes > CONTENT_MAX) {
        return;
    }
    if choice & PUT != 0 { put_into(&tree) } else { build_from(&tree) }
}

/// Returns the size of all files' content, or `None` if a file cannot be read.
fn content(tree: &Tree) -> Option<u64> {
    let files = tree.ids().filter(|&id| matches!(tree.node(id).kind, Kind::File { .. }));
    files
        .map(|id| {
            tree.segments(id)
                .ok()?
                .iter()
                .map(|segment| segment.len)
                .reduce(|a, b| a + b)
                .or(Some(0))
        })
        .sum()
}

fn stamp() -> Stamp {
    Stamp { uuid: Uuid::from_bytes([7; 16]), seconds: 1, nanoseconds: 2, generation: 3 }
}

/// Builds a volume of the right size, which must be clean.
fn build_from(tree: &Tree) {
    let call_accessors = DeviceFacts::file(ByteLen(64 << 20));
    let Ok(plan) = build::fit(tree, &Options::default(), &call_accessors, stamp(), Free::Bytes(0))
    else {
        return;
    };
    let Ok(blueprint) = Blueprint::new(tree, &plan) else { return };
    let dev = MemDevice::new(blueprint.data_bytes());
    let options = WriteOptions { threads: std::num::NonZero::new(1) };
    if build::write(&dev, None, &blueprint, options, &|_| ControlFlow::Continue(())).is_ok() {
        clean(&dev);
    }
}

fn clean(dev: &dyn BlockDevice) {
    let mut found = Vec::new();
    let options = xfskit_check::Options { threads: 1, ..Default::default() };
    let report = xfskit_check::check(dev, None, &options, &mut |finding| found.push(finding));
    assert!(report.is_ok_and(|report| report.clean()), "not clean: {found:#?}");
}

/// Returns an empty volume.
fn empty() -> &'static Arc<dyn BlockDevice> {
    static EMPTY: OnceLock<Arc<dyn BlockDevice>> = OnceLock::new();
    EMPTY.get_or_init(|| {
        let dev = MemDevice::new(ByteLen(64 << 20));
        let options = Options::default();
        let call_accessors = DeviceFacts::file(ByteLen(64 << 20));
        let plan = xfskit_mkfs::plan(&options, &call_accessors, stamp()).expect("a plan");
        xfskit_mkfs::make(&dev, None, &plan).expect("a volume");
        Arc::new(dev)
    })
}

/// Copies the tree into an empty volume, which must be clean afterwards.
fn put_into(tree: &Tree) {
    let dev: Arc<dyn BlockDevice> = Arc::new(OverlayDevice::new(Arc::clone(empty())));
    let options = OpenOptions { write: true, ..OpenOptions::default() };
    let fs = Fs::new(
        Volume::open(Arc::clone(&dev), &options).expect("an empty volume"),
        Clock::system(),
    );
    let dir = fs.volume().geo().rootino;
    let to = Destination { dir, path: b"/", name: None, set_root: true };
    let _ = put(&fs, tree, &to, &PutOptions::default(), &|_| ControlFlow::Continue(()));
    fs.close().expect("a volume that closes");
    clean(&dev);
}

/// Returns the header of a member.
fn header(name: &str, kind: u8, len: usize) -> Vec<u8> {
    let mut block = vec![0; BLOCK];
    block[..name.len()].copy_from_slice(name.as_bytes());
    block[100..108].copy_from_slice(b"0000644\0");
    block[108..116].copy_from_slice(b"0001750\0");
    block[116..124].copy_from_slice(b"0001750\0");
    block[124..136].copy_from_slice(format!("{len:011o}\0").as_bytes());
    block[136..148].copy_from_slice(b"14000000000\0");
    block[156] = kind;
    block[257..265].copy_from_slice(b"ustar\x0000");
    block
}

/// Returns a member with its content, padded.
fn member(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = header(name, kind, content.len());
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    bytes
}

/// Returns a PAX record: its length, the keyword and the value.
fn pax(word: &str, value: &str) -> Vec<u8> {
    let rest = format!(" {word}={value}\n");
    let digits = if rest.len() < 8 {
        1
    } else if rest.len() < 97 {
        2
    } else {
        3
    };
    format!("{}{rest}", rest.len() + digits).into_bytes()
}

/// Returns the seeds: members of every type, PAX and GNU extensions, whiteouts, sparse files; each
/// plain, compressed, and copied into a volume.
pub fn seeds() -> Vec<Vec<u8>> {
    let link = |name: &str, kind: u8, target: &str| {
        let mut block = header(name, kind, 0);
        block[157..157 + target.len()].copy_from_slice(target.as_bytes());
        block
    };
    let gnu = |mut bytes: Vec<u8>| {
        bytes[257..265].copy_from_slice(b"ustar  \0");
        bytes
    };
    let records = [
        pax("path", "a/very/long/path/of/a/file"),
        pax("size", "5"),
        pax("mtime", "1700000000.123456789"),
        pax("SCHILY.xattr.user.k", "v"),
        pax("SCHILY.acl.access", "user::rw-,user:7:r--,group::r--,mask::r--,other::r--"),
        pax("LIBARCHIVE.xattr.user.b", "dmFsdWU="),
    ]
    .concat();
    let sparse = [
        pax("GNU.sparse.major", "1"),
        pax("GNU.sparse.minor", "0"),
        pax("GNU.sparse.name", "sparse"),
        pax("GNU.sparse.realsize", "8192"),
    ]
    .concat();
    let mut map = b"1\n4096\n5\n".to_vec();
    map.resize(BLOCK, 0);
    map.extend_from_slice(b"hello");
    let sparse01 = [
        pax("GNU.sparse.size", "8192"),
        pax("GNU.sparse.numblocks", "1"),
        pax("GNU.sparse.map", "4096,5"),
        pax("GNU.sparse.name", "sparse01"),
    ]
    .concat();
    let mut old = gnu(header("old-sparse", b'S', 5));
    old[386..410].copy_from_slice(b"00000010000\x0000000000005\0");
    old[483..495].copy_from_slice(b"00000020000\0");
    old.extend_from_slice(b"hello");
    old.resize(2 * BLOCK, 0);
    let archives = [
        [member("d/", b'5', b""), member("d/f", b'0', b"hello"), member("e", b'0', &[7; 1500])]
            .concat(),
        [
            member("f", b'0', b"hello"),
            link("l", b'1', "f"),
            link("s", b'2', "d/../f"),
            member("s/x", b'0', b"x"),
        ]
        .concat(),
        [member("c", b'3', b""), member("b", b'4', b""), member("p", b'6', b"")].concat(),
        [member("x", b'x', &records), member("short", b'0', b"hello")].concat(),
        [member("g", b'g', &records), member("one", b'0', b"12345"), member("two", b'0', b"12345")]
            .concat(),
        [gnu(member("././@LongLink", b'L', b"a/long/name\0")), gnu(member("n", b'0', b"hi"))]
            .concat(),
        [gnu(member("././@LongLink", b'K', b"a/target\0")), gnu(link("n", b'2', "t"))].concat(),
        [member("x", b'x', &sparse), member("GNUSparseFile.0/s", b'0', &map)].concat(),
        [member("x", b'x', &sparse01), member("GNUSparseFile.0/t", b'0', b"hello")].concat(),
        old,
        [
            member("d/f", b'0', b"1"),
            member("d/.wh.f", b'0', b""),
            member("d/.wh..wh..opq", b'0', b""),
        ]
        .concat(),
    ];
    let mut seeds = Vec::new();
    for archive in archives {
        let archive = [archive, vec![0; 2 * BLOCK]].concat();
        for choice in [0, WHITEOUTS, COMPRESS, PUT] {
            seeds.push([&[choice], archive.as_slice()].concat());
        }
        let mut sealed = archive;
        seal(&mut sealed);
        let packed = zstd::bulk::compress(&sealed, 1).expect("memory");
        seeds.push([&[KEEP_CHECKSUMS], packed.as_slice()].concat());
    }
    seeds
}
