//! What xfskit makes of a volume: its verdict, and the manifest of its tree.

use xfskit_block::{BlockDevice, FileDevice, OpenMode};
use xfskit_check::{Options, Severity, check};

use crate::image::Image;

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
    let options = Options { threads: 2, ..Options::default() };
    match check(&device, log, &options, &mut take) {
        Ok(report) => assert_eq!(report.clean(), verdict.errors.is_empty(), "report and findings"),
        Err(error) => verdict.errors.push(error.to_string()),
    }
    verdict
}
