//! xfskit's view of a volume: its findings, and the manifest of its tree.

mod entry;
mod tree;

pub use entry::open;
pub use tree::{content, differences, lookups, manifest};

use std::path::Path;

use xfskit_block::{BlockDevice, FileDevice, OpenMode};
use xfskit_check::Severity;
use xfskit_mkfs::{DeviceFacts, Stamp};

use crate::image::Image;

/// Formats a volume on the image with `xfskit mkfs`; `options` are those of mkfs.xfs.
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

/// The findings of `xfskit check`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Findings that leave the exit status at 0.
    pub warnings: Vec<String>,
    /// Findings that make `xfskit check` exit with 1.
    pub errors: Vec<String>,
}

impl CheckReport {
    /// Returns whether there are no findings.
    pub fn is_clean(&self) -> bool {
        self.warnings.is_empty() && self.errors.is_empty()
    }
}

/// Checks the volume with `xfskit check`.
pub fn check(image: &Image) -> CheckReport {
    let device = FileDevice::open(image.path(), OpenMode::ReadOnly).expect("open the image");
    let log =
        image.log().map(|path| FileDevice::open(path, OpenMode::ReadOnly).expect("open the log"));
    let log = log.as_ref().map(|log| log as &dyn BlockDevice);
    let mut found = CheckReport::default();
    let mut take = |finding: xfskit_check::Finding| match finding.severity {
        Severity::Warning => found.warnings.push(finding.to_string()),
        Severity::Error | Severity::Fatal => found.errors.push(finding.to_string()),
    };
    let options = xfskit_check::Options { threads: 2, ..xfskit_check::Options::default() };
    match xfskit_check::check(&device, log, &options, &mut take) {
        Ok(report) => assert_eq!(report.clean(), found.errors.is_empty(), "report and findings"),
        Err(error) => found.errors.push(error.to_string()),
    }
    found
}
