//! The reasons why a volume is not made.

use crate::options::OptionError;

/// The reason why a volume is not made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option is not valid.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// Options do not fit each other or the device.
    #[error("{0}")]
    Refused(String),
    /// The device has contents already.
    #[error("the target appears to contain {what}; use -f to write over it")]
    Occupied {
        /// The recognised contents: "an XFS filesystem", "a GPT partition table", ….
        what: &'static str,
    },
    /// The volume's log is external, and its device is missing or too small.
    #[error("the log device is missing or too small")]
    LogDevice,
    /// The device failed.
    #[error(transparent)]
    Device(#[from] xfskit_block::Error),
}

/// Returns a refusal, with the arguments of `format!`.
macro_rules! refuse {
    ($($message:tt)*) => {
        return Err($crate::Error::Refused(format!($($message)*)))
    };
}
pub(crate) use refuse;
