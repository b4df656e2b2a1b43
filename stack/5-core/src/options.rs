//! Options for opening a volume.

use std::str::FromStr;
use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_log::{BUFFERS_MAX, RECORD_SIZE};
use xfskit_recovery::ReplayOptions;

/// Options for opening a volume.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Replay a dirty journal (in memory). When off, the volume is shown as it is on disk.
    pub recovery: bool,
    /// Open for writing: a dirty journal is replayed onto the device itself.
    pub write: bool,
    /// The device of an external log.
    pub log_dev: Option<Arc<dyn BlockDevice>>,
    /// Memory for metadata, in bytes: blocks, inodes, and changes that are not written in place
    /// yet.
    pub cache_bytes: usize,
    /// Journal options of a volume that is open for writing.
    pub journal: JournalOptions,
    /// Options of the replay of a dirty journal.
    pub replay: ReplayOptions,
    /// Discard freed blocks on the device, when it is durable that they are free.
    pub discard: bool,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            recovery: true,
            write: false,
            log_dev: None,
            cache_bytes: 256 << 20,
            journal: JournalOptions::default(),
            replay: ReplayOptions::default(),
            discard: false,
        }
    }
}

/// Journal options, in the words of mount(8): [`FromStr`] reads `logbsize=256k,wsync`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalOptions {
    /// Longest record in bytes: 16 KiB to 256 KiB, a power of two. A larger stripe unit of the
    /// journal takes precedence.
    pub logbsize: u32,
    /// Number of records written between two flushes: 2 to 8.
    pub logbufs: u32,
    /// Make every change durable before its call returns.
    pub wsync: bool,
    /// Flush the devices where the order of writes matters. When off, a power failure may damage
    /// the volume beyond what journal recovery can repair.
    pub barrier: bool,
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self { logbsize: RECORD_SIZE, logbufs: BUFFERS_MAX, wsync: false, barrier: true }
    }
}

/// The reason why an option cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// There is no such option.
    #[error(
        "there is no option {0:?}; there are logbsize=16k…256k, logbufs=2…8, wsync, barrier and nobarrier"
    )]
    Unknown(String),
    /// The value is out of range.
    #[error("{0}: logbsize is 16k, 32k, 64k, 128k or 256k")]
    Logbsize(String),
    /// The value is out of range.
    #[error("{0}: logbufs is 2 to 8")]
    Logbufs(String),
    /// A volume that is open for writing always has its journal replayed.
    #[error("norecovery is for reading: a volume to be changed has its journal replayed first")]
    Norecovery,
}

impl FromStr for JournalOptions {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        let mut options = Self::default();
        options.add(text)?;
        Ok(options)
    }
}

impl JournalOptions {
    /// Parses options with commas between them, and adds them to these.
    ///
    /// # Errors
    /// An option that is unknown or not valid.
    pub fn add(&mut self, text: &str) -> Result<(), OptionError> {
        for word in text.split(',').filter(|word| !word.is_empty()) {
            let (name, value) = word.split_once('=').map_or((word, None), |(n, v)| (n, Some(v)));
            match (name, value) {
                ("logbsize", Some(value)) => {
                    let bytes =
                        kibibytes(value).ok_or_else(|| OptionError::Logbsize(word.into()))?;
                    self.logbsize = bytes;
                }
                ("logbufs", Some(value)) => {
                    let count = value.parse().ok().filter(|n| (2..=BUFFERS_MAX).contains(n));
                    self.logbufs = count.ok_or_else(|| OptionError::Logbufs(word.into()))?;
                }
                ("wsync", None) => self.wsync = true,
                ("barrier", None) => self.barrier = true,
                ("nobarrier", None) => self.barrier = false,
                ("norecovery", None) => return Err(OptionError::Norecovery),
                _ => return Err(OptionError::Unknown(word.into())),
            }
        }
        Ok(())
    }
}

/// Parses `32k` or `32768` into bytes, if it is a valid record length.
fn kibibytes(text: &str) -> Option<u32> {
    let bytes = match text.strip_suffix(['k', 'K']) {
        Some(number) => number.parse::<u32>().ok()?.checked_mul(1024)?,
        None => text.parse().ok()?,
    };
    (bytes.is_power_of_two() && (16 << 10..=256 << 10).contains(&bytes)).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_mount_reads_them() {
        let read = |text: &str| text.parse::<JournalOptions>();
        let default = JournalOptions::default();
        assert_eq!(read("").unwrap(), default);
        assert_eq!(
            read("logbsize=256k,logbufs=2,wsync,nobarrier").unwrap(),
            JournalOptions { logbsize: 262_144, logbufs: 2, wsync: true, barrier: false }
        );
        assert_eq!(read("logbsize=16384").unwrap().logbsize, 16384);
        assert_eq!(read("norecovery"), Err(OptionError::Norecovery));
        for wrong in ["logbsize=8k", "logbsize=512k", "logbsize=33k", "logbsize", "logbufs=9", "x"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
