//! Volumes that the kernel here does not mount (version 4, case-insensitive names), filled by
//! `mkfs.xfs -p` from a protofile and by `xfs_db`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::trees::bytes;

/// One file of a protofile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProtoFile {
    /// Type and permission bits.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// Device number.
    pub rdev: (u32, u32),
    /// Content of a regular file, or target of a symbolic link.
    pub content: Vec<u8>,
}

/// A protofile and the tree that it describes.
#[derive(Debug, Default)]
pub struct Proto {
    text: String,
    /// The files by path.
    pub files: BTreeMap<Vec<u8>, ProtoFile>,
}

impl Proto {
    /// Returns a tree with directories of all forms, files of several sizes, links and devices.
    /// Contents are written to `dir`, from where mkfs.xfs copies them. Links have up to
    /// `longest_link` bytes.
    pub fn corners(dir: &Path, longest_link: usize) -> Self {
        let mut proto = Self { text: "/dev/null\n0 0\nd--755 0 0\n".into(), ..Self::default() };
        proto.put("/", ProtoFile { mode: 0o040_755, ..ProtoFile::default() });
        for size in [0_usize, 1, 500, 4096, 70_000] {
            let source = dir.join(format!("content-{size}"));
            let content = bytes(size as u64, size);
            fs::write(&source, &content).expect("content");
            let _ = writeln!(proto.text, "file{size} -u-644 {size} 7 {}", source.display());
            let made = ProtoFile {
                mode: 0o104_644,
                owner: (id(size), 7),
                content,
                ..ProtoFile::default()
            };
            proto.put(&format!("/file{size}"), made);
        }
        let lengths = [1, 50, 155, 156, 157, 300, 411, 412, 500, 900, 1023];
        for length in lengths.into_iter().filter(|&length| length <= longest_link) {
            let target = "t".repeat(length);
            let _ = writeln!(proto.text, "link{length} l--777 0 0 {target}");
            let content = target.into_bytes();
            proto.put(
                &format!("/link{length}"),
                ProtoFile { mode: 0o120_777, content, ..ProtoFile::default() },
            );
        }
        for (major, minor) in [(1, 3), (255, 255), (300, 0x3_0000)] {
            for (letter, kind) in [('c', 0o020_640), ('b', 0o060_640)] {
                let name = format!("{letter}{major}");
                let _ = writeln!(proto.text, "{name} {letter}--640 0 5 {major} {minor}");
                let made = ProtoFile {
                    mode: kind,
                    owner: (0, 5),
                    rdev: (major, minor),
                    ..ProtoFile::default()
                };
                proto.put(&format!("/{name}"), made);
            }
        }
        proto.text.push_str("fifo p--600 0 0\n");
        proto.put("/fifo", ProtoFile { mode: 0o010_600, ..ProtoFile::default() });
        for count in [0, 1, 5, 30, 100, 300, 1500] {
            proto.directory(dir, count);
        }
        proto.text.push_str("$\n");
        proto
    }

    fn directory(&mut self, dir: &Path, count: usize) {
        let source = dir.join("content-0");
        let _ = writeln!(self.text, "dir{count} d--750 3 4");
        self.put(
            &format!("/dir{count}"),
            ProtoFile { mode: 0o040_750, owner: (3, 4), ..ProtoFile::default() },
        );
        for number in 0..count {
            let name = format!("entry-{number}-{}", "x".repeat(number % 40));
            let _ = writeln!(self.text, "{name} ---600 1 2 {}", source.display());
            let made = ProtoFile { mode: 0o100_600, owner: (1, 2), ..ProtoFile::default() };
            self.put(&format!("/dir{count}/{name}"), made);
        }
        self.text.push_str("$\n");
    }

    fn put(&mut self, path: &str, made: ProtoFile) {
        self.files.insert(path.as_bytes().to_vec(), made);
    }

    /// Writes the protofile for `mkfs.xfs -p`.
    pub fn write(&self, path: &Path) {
        fs::write(path, &self.text).expect("protofile");
    }
}

fn id(size: usize) -> u32 {
    u32::try_from(size).expect("small")
}
