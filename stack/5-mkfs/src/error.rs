//! Why a volume is not made.

use crate::options::OptionError;

/// Why a volume is not made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option that cannot be.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// Options that do not fit each other or the device.
    #[error("{0}")]
    Refused(String),
    /// Something is on the device already.
    #[error("the target appears to contain {what}; use -f to write over it")]
    Occupied {
        /// What was recognised: "an XFS filesystem", "a GPT partition table", ….
        what: &'static str,
    },
    /// The volume's log lies on a device of its own, and none (or one too small) was given.
    #[error("the log device is missing or too small")]
    LogDevice,
    /// The device failed.
    #[error(transparent)]
    Device(#[from] xfskit_block::Error),
}

/// A refusal in the words of `format!`.
macro_rules! refuse {
    ($($message:tt)*) => {
        return Err($crate::Error::Refused(format!($($message)*)))
    };
}
pub(crate) use refuse;
