//! What xfskit makes of a volume: its verdict, and the manifest of its tree.

mod entry;
mod tree;

pub use entry::open;
pub use tree::{content, differences, lookups, manifest};

use std::path::Path;

use xfskit_block::{BlockDevice, FileDevice, OpenMode};
use xfskit_check::{Severity, check};
use xfskit_mkfs::{DeviceFacts, Stamp};

use crate::image::Image;

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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyResult {
    /// Untidy, or worth knowing.
    pub warnings: Vec<String>,
    /// What makes `xfskit check` exit with 1.
    pub errors: Vec<String>,
}

impl VerifyResult {
    /// Nothing at all to say.
    pub fn is_silent(&self) -> bool {
        self.warnings.is_empty() && self.errors.is_empty()
    }
}

/// Has `xfskit check` judge the volume.
pub fn verdict(image: &Image) -> VerifyResult {
    let device = FileDevice::open(image.path(), OpenMode::ReadOnly).expect("open the image");
    let log =
        image.log().map(|path| FileDevice::open(path, OpenMode::ReadOnly).expect("open the log"));
    let log = log.as_ref().map(|log| log as &dyn BlockDevice);
    let mut verdict = VerifyResult::default();
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
