//! A volume on an array, and the arrays within that array, each by itself.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;

use xfskit_block::{BlockDevice, OpenMode};
use xfskit_check::{FileRange, Mismatches};
use xfskit_md::array::scrub::Mismatch;
use xfskit_target::{self as target, Nested};
use xfskit_units::{ByteLen, ByteOffset, Ino};

use crate::target::Target;
use crate::{Error, Result, VolumeOptions};

/// A part of a file whose content may be wrong: members of the array below disagree there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DoubtfulContent {
    /// The inode's number.
    pub ino: u64,
    /// A path of the file, if a directory names it.
    pub path: Option<PathBuf>,
    /// The first byte in the file.
    pub offset: u64,
    /// The number of bytes.
    pub len: u64,
}

/// A volume on an array, and the arrays within that array: the outermost first, each before its
/// members.
pub(super) struct ArrayStack {
    pub(super) arrays: Vec<Nested>,
    /// The volume, through the arrays.
    pub(super) device: Arc<dyn BlockDevice>,
    /// Where the volume is on the outermost array, in order.
    pieces: Vec<(ByteOffset, ByteLen)>,
}

impl ArrayStack {
    /// Opens the volume on `target`. Returns `None` if that is no array.
    pub(super) fn open(target: &Target, mode: OpenMode) -> Result<Option<Self>> {
        let Some(name) = target.array_name() else { return Ok(None) };
        let arrays = target::open_nested(name, mode).map_err(Error::new)?;
        let disk = Arc::clone(&arrays[0].array) as Arc<dyn BlockDevice>;
        let pieces = target::pieces(target.parsed(), &disk).map_err(Error::new)?;
        let device = target::part_of(target.parsed(), disk).map_err(Error::new)?;
        Ok(Some(Self { arrays, device, pieces }))
    }

    /// Returns the ranges of the volume in a page of one of the arrays; `None` if a part of the
    /// page is not in the volume.
    pub(super) fn places(&self, index: usize, page: &Mismatch) -> Option<Vec<Range<ByteOffset>>> {
        let nested = |i: usize| &self.arrays[i];
        let contents = self.arrays[index].array.mismatch_ranges(page);
        let places = contents
            .iter()
            .map(|place| target::ranges_in_part(&nested, &self.pieces, index, place));
        Some(places.collect::<Option<Vec<_>>>()?.concat())
    }

    /// Returns the file contents in a page; `None` if they are not known.
    pub(super) fn files(
        &self,
        index: usize,
        page: &Mismatch,
        mismatches: &Mismatches,
    ) -> Option<Vec<FileRange>> {
        let mut files = Vec::new();
        for place in self.places(index, page)? {
            files.extend(mismatches.files(&place)?);
        }
        Some(files)
    }

    /// Returns the paths of the files of these ranges, as far as directories name them.
    pub(super) fn paths<'f>(
        &self,
        options: &VolumeOptions,
        files: impl IntoIterator<Item = &'f FileRange>,
    ) -> BTreeMap<u64, PathBuf> {
        let inos: Vec<Ino> = files.into_iter().map(|file| file.ino).collect();
        if inos.is_empty() {
            return BTreeMap::new();
        }
        let log = options.log_device().ok().flatten();
        let Ok(volume) = options.open_device(Arc::clone(&self.device), log) else {
            return BTreeMap::new();
        };
        let paths = volume.owner.paths_of(inos);
        let path = |(ino, path): (Ino, Vec<u8>)| (ino.0, OsString::from_vec(path).into());
        paths.into_iter().map(path).collect()
    }
}

impl DoubtfulContent {
    pub(super) fn new(file: &FileRange, paths: &BTreeMap<u64, PathBuf>) -> Self {
        let Ino(ino) = file.ino;
        let len = file.bytes.end.0 - file.bytes.start.0;
        Self { ino, path: paths.get(&ino).cloned(), offset: file.offset.0, len }
    }
}
