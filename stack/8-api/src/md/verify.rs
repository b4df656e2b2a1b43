//! Reads that compare members before they deliver.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use xfskit_block::OpenMode;
use xfskit_check::{FileRange, Mismatches};
use xfskit_md::array::scrub::Mismatch;
use xfskit_target::{self as target, Nested};

use super::stack::{ArrayStack, DoubtfulContent};
use super::sync::{Corrected, corrected};
use crate::cause::array::ArrayError;
use crate::target::{Device, Target};
use crate::{Check, Error, Result};

/// A volume on an array whose reads are compared with the array's redundancy.
///
/// XFS has no checksums of content, but an array has redundancy: every stripe that is read is
/// compared with its parity, or its other copies. What a single member explains is corrected in
/// what is read. The rest is [reported](Self::report), and [`doubtful_content`] finds the files.
///
/// A volume that is changed is read, too: metadata, and the old content of stripes that are written
/// in part, on which the new parity depends.
///
/// ```no_run
/// # fn main() -> Result<(), xfskit::Error> {
/// use xfskit::{Check, VolumeOptions, md::VerifiedArray};
///
/// let array = VerifiedArray::open("md:a.img,b.img,c.img")?;
/// let volume = VolumeOptions::new().open_on(&array.device())?;
/// let content = volume.read("/srv/db")?;
/// drop(volume);
/// for place in array.doubtful_content(&Check::new())?.known {
///     eprintln!("inode {}: {} bytes at {}", place.ino, place.len, place.offset);
/// }
/// # Ok(()) }
/// ```
///
/// [`doubtful_content`]: Self::doubtful_content
pub struct VerifiedArray {
    stack: ArrayStack,
    unverified: Vec<String>,
}

/// What verified reads of one array found.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The array: the one of the volume first, then those within it.
    pub array: String,
    /// Members that were found wrong, and corrected in what was read.
    pub corrected: Vec<Corrected>,
    /// Pages of 4 KiB that do not agree, where no member is known to be wrong.
    pub undecided_pages: u64,
    /// Pages that do not agree, beyond those that are recorded.
    pub pages_not_listed: u64,
    /// True if some of what was read has nothing left to be compared with.
    pub unchecked: bool,
}

/// The content that verified reads found doubtful: members disagree, and which is wrong is not
/// known.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Doubtful {
    /// Parts of files, by inode and offset.
    pub known: Vec<DoubtfulContent>,
    /// Pages that may hold content of any file.
    pub unknown_pages: usize,
}

impl fmt::Debug for VerifiedArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerifiedArray").field("device", &self.stack.device).finish_non_exhaustive()
    }
}

impl VerifiedArray {
    /// Opens the array of `target` for reading.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) where it is no array, is being reshaped, or
    /// nothing is left to compare members with; those of opening the members.
    pub fn open(target: impl AsRef<Path>) -> Result<Self> {
        Self::open_mode(&Target::parse(target)?, OpenMode::ReadOnly)
    }

    /// Opens the array of `target` for writing, too.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_writable(target: impl AsRef<Path>) -> Result<Self> {
        Self::open_mode(&Target::parse(target)?, OpenMode::ReadWrite)
    }

    fn open_mode(target: &Target, mode: OpenMode) -> Result<Self> {
        let name = || target.to_string();
        let array = target.array_name().ok_or_else(|| ArrayError::NotVerifiable(name()).error())?;
        if target::is_reshaped(array).map_err(Error::new)? {
            return Err(ArrayError::Reshaped(name()).error());
        }
        let stack = ArrayStack::open(target, mode)?;
        let stack = stack.ok_or_else(|| ArrayError::NotVerifiable(name()).error())?;
        let is_redundant = |nested: &&Nested| nested.array.scrub_stripes() > 0;
        let (can, cannot): (Vec<_>, Vec<_>) = stack
            .arrays
            .iter()
            .filter(is_redundant)
            .partition(|nested| nested.array.can_be_scrubbed());
        if can.is_empty() {
            return Err(ArrayError::NothingLeft(name()).error());
        }
        for nested in can {
            nested.array.verify_reads();
        }
        let unverified = cannot.into_iter().map(|nested| nested.name.to_string()).collect();
        Ok(Self { stack, unverified })
    }

    /// Returns the arrays, of several within each other, in which nothing is left to compare
    /// members with.
    pub fn unverified(&self) -> &[String] {
        &self.unverified
    }

    /// Returns the device of the volume:
    /// [`VolumeOptions::open_on`](crate::VolumeOptions::open_on) takes it.
    pub fn device(&self) -> Device {
        Device::new(Arc::clone(&self.stack.device))
    }

    /// Returns what the reads so far have found, for each array.
    pub fn report(&self) -> Vec<VerifyReport> {
        let report = |nested: &Nested| {
            let found = nested.array.verify_report();
            let undecided = found.pages.iter().filter(|page| page.role.is_none()).count();
            VerifyReport {
                array: nested.name.to_string(),
                corrected: corrected(&nested.array, &found.pages),
                undecided_pages: undecided as u64,
                pages_not_listed: found.more,
                unchecked: found.unchecked,
            }
        };
        self.stack.arrays.iter().map(report).collect()
    }

    /// Finds the files with content in pages of which no member is known to be wrong, by a check of
    /// the volume. Its findings are dropped. The check is left out where there are no such pages.
    ///
    /// # Errors
    /// Those of [`Check::run`].
    pub fn doubtful_content(&self, check: &Check<'_>) -> Result<Doubtful> {
        let reports: Vec<_> = self.stack.arrays.iter().map(|n| n.array.verify_report()).collect();
        let pages = reports
            .iter()
            .enumerate()
            .flat_map(|(index, report)| report.pages.iter().map(move |page| (index, page)));
        let pages: Vec<(usize, &Mismatch)> =
            pages.filter(|(_, page)| page.role.is_none()).collect();
        if pages.is_empty() {
            return Ok(Doubtful::default());
        }
        let places = pages.iter().filter_map(|(index, page)| self.stack.places(*index, page));
        let mismatches = Mismatches::new(places.flatten());
        let device = Arc::clone(&self.stack.device);
        check.run_on(device, Some(&mismatches), &mut |_| {})?;
        let files =
            |(index, page): &(usize, &Mismatch)| self.stack.files(*index, page, &mismatches);
        let found: Vec<Option<Vec<FileRange>>> = pages.iter().map(files).collect();
        let unknown_pages = found.iter().filter(|files| files.is_none()).count();
        let mut files: Vec<FileRange> = found.into_iter().flatten().flatten().collect();
        files.sort_by_key(|file| (file.ino.0, file.offset));
        files.dedup();
        let paths = self.stack.paths(check.options(), &files);
        let known = files.iter().map(|file| DoubtfulContent::new(file, &paths)).collect();
        Ok(Doubtful { known, unknown_pages })
    }
}
