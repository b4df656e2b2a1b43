//! What xfskit makes of a volume: its verdict, and the manifest of its tree.

pub mod entry;

use std::collections::BTreeMap;
use std::path::Path;

use xfskit_block::{BlockDevice, FileDevice, OpenMode};
use xfskit_check::{Severity, check};
use xfskit_mkfs::{DeviceFacts, Stamp};
use xfskit_units::Ino;

use crate::image::Image;
use crate::manifest::{Entry, Manifest, show};
use crate::need::note;

/// Has `xfskit mkfs` make a volume on the image; `options` in the words of mkfs.xfs.
pub fn mkfs(image: &Image, options: &[&str]) -> Result<(), String> {
    let mut asked = xfskit_mkfs::Options::default();
    asked.force = true;
    for pair in options.chunks(2) {
        asked.sub(pair[0], pair[1]).map_err(|refusal| refusal.to_string())?;
    }
    let open = |path: &Path| FileDevice::open(path, OpenMode::ReadWrite).expect("open the image");
    let device = open(image.path());
    let log = image.log().map(open);
    let log = log.as_ref().map(|log| log as &dyn BlockDevice);
    let facts = DeviceFacts::of(&device, log);
    let stamp = Stamp {
        uuid: "0b0c0d0e-0102-4304-8506-070809aabbcc".parse().expect("a UUID"),
        seconds: 1_700_000_000,
        nanoseconds: 123_456_789,
        generation: 77,
    };
    let plan = xfskit_mkfs::plan(&asked, &facts, stamp).map_err(|why| why.to_string())?;
    xfskit_mkfs::make(&device, log, &plan).map_err(|why| why.to_string())
}

/// What `xfskit check` says of a volume.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// Untidy, or worth knowing.
    pub warnings: Vec<String>,
    /// What makes `xfskit check` exit with 1.
    pub errors: Vec<String>,
}

impl Verdict {
    /// Nothing at all to say.
    pub fn is_silent(&self) -> bool {
        self.warnings.is_empty() && self.errors.is_empty()
    }
}

/// Has `xfskit check` judge the volume.
pub fn verdict(image: &Image) -> Verdict {
    let device = FileDevice::open(image.path(), OpenMode::ReadOnly).expect("open the image");
    let log =
        image.log().map(|path| FileDevice::open(path, OpenMode::ReadOnly).expect("open the log"));
    let log = log.as_ref().map(|log| log as &dyn BlockDevice);
    let mut verdict = Verdict::default();
    let mut take = |finding: xfskit_check::Finding| match finding.severity {
        Severity::Warning => verdict.warnings.push(finding.to_string()),
        Severity::Error | Severity::Fatal => verdict.errors.push(finding.to_string()),
    };
    let options = xfskit_check::Options { threads: 2, ..xfskit_check::Options::default() };
    match check(&device, log, &options, &mut take) {
        Ok(report) => assert_eq!(report.clean(), verdict.errors.is_empty(), "report and findings"),
        Err(error) => verdict.errors.push(error.to_string()),
    }
    verdict
}

/// How the inodes of `linux` look to xfskit, differences first found, at most `limit` lines. Names
/// and attributes are not looked at.
pub fn inode_differences(image: &Image, linux: &Manifest, limit: usize) -> Vec<String> {
    let (volume, unfinished) = entry::open(image);
    let mut found = Vec::new();
    let mut seen: BTreeMap<u64, Result<Entry, String>> = BTreeMap::new();
    for (path, expected) in &linux.entries {
        let ours = seen.entry(expected.ino).or_insert_with(|| {
            let inode = volume.iget(Ino(expected.ino)).map_err(|error| error.to_string())?;
            entry::entry(&volume, &inode)
        });
        match ours {
            Err(why) => found.push(format!("{}: {why}", show(path))),
            Ok(ours) => {
                let expected = Entry { xattrs: BTreeMap::new(), ..expected.clone() };
                expected.differences(ours, &show(path), &mut found);
            }
        }
        if found.len() > limit {
            break;
        }
    }
    if unfinished > 0 {
        // Mostly space of removed files, on its way to be freed: nothing that the tree shows. But
        // where it does show, only finishing the change would give what Linux gives.
        note(&format!("{unfinished} intents are unfinished; {} differences", found.len()));
        found.clear();
    }
    found
}
