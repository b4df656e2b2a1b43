//! The first pages of an overlay: the devices that it belongs to.
//!
//! ```text
//! page 0          magic; number of devices; size of each in bytes. The last four bytes are the
//!                 CRC32c, little-endian, of page 0 (its own four bytes as zero) and of the records
//! records         version 2 only: 512 bytes for each device (whole pages): identity, padded with
//!                 zeroes to 256 bytes, and state, padded to 256
//! ```
//!
//! Version 1 has neither records nor checksum.

use crate::device::{BlockDevice, Error, Result};
use xfskit_units::{ByteOffset, index};

pub(super) const PAGE: u64 = 4096;
const MAGIC_V1: &[u8; 16] = b"xfskit overlay 1";
const MAGIC: &[u8; 16] = b"xfskit overlay 2";
/// Most devices whose changes one file can hold: as many sizes as fit into the first page.
const DEVICES_MAX: usize = 500;
const CRC_AT: usize = 4092;
/// Size of an identity or a state, in bytes.
const TEXT: usize = 256;

/// An overlay's record of one of its devices. Each text has at most 256 bytes; longer ones are
/// truncated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fingerprint {
    /// Identity of the device, independent of its content; empty if unknown.
    pub identity: String,
    /// A text that changes with every change of the device's content.
    pub state: String,
}

/// The header of an overlay.
pub(super) struct Header {
    /// Bytes of each device.
    sizes: Vec<u64>,
    /// One for each device; none in version 1.
    recorded: Vec<Fingerprint>,
}

impl Header {
    /// Makes the header of a new overlay.
    pub(super) fn new(sizes: Vec<u64>, recorded: &[Fingerprint]) -> Result<Self> {
        if sizes.len() > DEVICES_MAX || sizes.len() != recorded.len() {
            return Err(Error::Overlay(
                "an overlay holds the changes of 500 devices at most".into(),
            ));
        }
        Ok(Self { sizes, recorded: recorded.to_vec() })
    }

    /// Reads the header of an overlay.
    ///
    /// # Errors
    /// If the file is no overlay, or its header is damaged.
    pub(super) fn read(file: &dyn BlockDevice) -> Result<Self> {
        let mut page = vec![0; index(PAGE)];
        if file.size().0 < PAGE {
            return Err(Error::Overlay("the file is no overlay".into()));
        }
        file.read_at(ByteOffset(0), &mut page)?;
        let number =
            |at: usize| page[at..at + 8].iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
        let recorded = match page.first_chunk() {
            Some(MAGIC) => true,
            Some(MAGIC_V1) => false,
            _ => return Err(Error::Overlay("the file is no overlay".into())),
        };
        let count = usize::try_from(number(16)).unwrap_or(usize::MAX);
        if count > DEVICES_MAX {
            return Err(Error::Overlay("the overlay's header is damaged".into()));
        }
        let sizes = (0..count).map(|i| number(24 + i * 8)).collect();
        if !recorded {
            return Ok(Self { sizes, recorded: Vec::new() });
        }
        let mut records = vec![0; index(records_len(count))];
        file.read_at(ByteOffset(PAGE), &mut records)?;
        let stored = page.split_off(CRC_AT);
        page.resize(index(PAGE), 0);
        if checksum(&page, &records).to_le_bytes() != *stored {
            return Err(Error::Overlay("the overlay's header is damaged".into()));
        }
        let texts: Vec<String> = records.chunks(TEXT).map(text).collect();
        let print = |i: usize| Fingerprint {
            identity: texts[2 * i].clone(),
            state: texts[2 * i + 1].clone(),
        };
        Ok(Self { sizes, recorded: (0..count).map(print).collect() })
    }

    /// Writes the header, durably.
    pub(super) fn write(&self, file: &dyn BlockDevice) -> Result<()> {
        let mut page = MAGIC.to_vec();
        for number in std::iter::once(self.sizes.len() as u64).chain(self.sizes.iter().copied()) {
            page.extend_from_slice(&number.to_le_bytes());
        }
        page.resize(index(PAGE), 0);
        let mut records = Vec::new();
        for print in &self.recorded {
            for text in [&print.identity, &print.state] {
                let start = records.len();
                records.extend_from_slice(&text.as_bytes()[..text.len().min(TEXT)]);
                records.resize(start + TEXT, 0);
            }
        }
        records.resize(index(records_len(self.sizes.len())), 0);
        let crc = checksum(&page, &records);
        page[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
        file.write_at(ByteOffset(PAGE), &records)?;
        file.write_fua(ByteOffset(0), &page)
    }

    /// Returns the length of the header: the offset of the first device's bitmap, in bytes.
    pub(super) fn len(&self) -> u64 {
        if self.recorded.is_empty() { PAGE } else { PAGE + records_len(self.sizes.len()) }
    }

    /// Returns true if the overlay belongs to devices of these sizes.
    pub(super) fn fits(&self, sizes: &[u64]) -> bool {
        self.sizes == sizes
    }

    /// Returns the records of the devices; none in version 1.
    pub(super) fn recorded(&self) -> &[Fingerprint] {
        &self.recorded
    }
}

/// Compares the recorded devices with the present ones. Returns one line for each that has changed
/// since.
///
/// # Errors
/// If a device is not the one that the overlay was made on.
pub(super) fn compare(recorded: &[Fingerprint], now: &[Fingerprint]) -> Result<Vec<String>> {
    let mut changed = Vec::new();
    for (was, is) in recorded.iter().zip(now) {
        let was = (text(was.identity.as_bytes()), text(was.state.as_bytes()));
        let is = (truncate(&is.identity), truncate(&is.state));
        if was.0 != is.0 && !was.0.is_empty() {
            let is = if is.0.is_empty() { "something else" } else { &is.0 };
            return Err(Error::Overlay(format!("the overlay was made on {}; this is {is}", was.0)));
        }
        if was.1 != is.1 {
            let what = if is.0.is_empty() { "a device" } else { &is.0 };
            let (before, now) = (was.1, is.1);
            changed.push(format!(
                "{what} has changed since the overlay was made on it ({before} then, {now} now): changed \
                 and unchanged blocks need not belong together"
            ));
        }
    }
    Ok(changed)
}

/// Truncates a text to the length of a record.
fn truncate(text: &str) -> String {
    self::text(&text.as_bytes()[..text.len().min(TEXT)])
}

/// Returns the text before the padding of zeroes.
fn text(bytes: &[u8]) -> String {
    let len = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..len]).into_owned()
}

fn records_len(devices: usize) -> u64 {
    (devices as u64 * 2 * TEXT as u64).next_multiple_of(PAGE)
}

fn checksum(page: &[u8], records: &[u8]) -> u32 {
    xfskit_crc::append(xfskit_crc::crc32c(page), records)
}
