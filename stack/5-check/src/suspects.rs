//! Users of blocks whose owner is in doubt.
//!
//! An array whose members do not agree knows pages that are wrong somewhere, and not where. What
//! lies there says more: metadata has passed its checksums, free space and what the journal has
//! replayed count for nothing, and only the content of files has nothing to judge it by.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use xfskit_format::rmap;
use xfskit_units::{AgBlock, AgNumber, ByteOffset, Ino};

use crate::census::Used;
use crate::volume::Volume;

/// A part of a place that a file uses for its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFile {
    /// Where on the device, in bytes.
    pub bytes: Range<ByteOffset>,
    /// The file.
    pub ino: Ino,
    /// Where in the file `bytes` begin, in bytes.
    pub offset: ByteOffset,
}

/// Places in doubt, to be told of by a check.
#[derive(Debug, Default)]
pub struct Suspects {
    /// Sorted, apart from each other, in bytes of the device.
    places: Vec<Range<u64>>,
    found: Mutex<Found>,
}

#[derive(Debug, Default)]
struct Found {
    files: Vec<InFile>,
    /// Places of which nobody knows who uses them.
    unknown: Vec<Range<u64>>,
}

impl Suspects {
    /// These places of the device.
    pub fn new(places: impl IntoIterator<Item = Range<ByteOffset>>) -> Self {
        let mut places: Vec<Range<u64>> =
            places.into_iter().map(|place| place.start.0..place.end.0).collect();
        places.sort_unstable_by_key(|place| (place.start, place.end));
        let mut apart: Vec<Range<u64>> = Vec::with_capacity(places.len());
        for place in places {
            match apart.last_mut() {
                Some(last) if place.start <= last.end => last.end = last.end.max(place.end),
                _ => apart.push(place),
            }
        }
        Self { places: apart, found: Mutex::default() }
    }

    /// What of `place` is content of files, where the check has found out who uses it; `None` where
    /// it has not, or where it could not be judged.
    pub fn files(&self, place: &Range<ByteOffset>) -> Option<Vec<InFile>> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let touches = |bytes: &Range<u64>| bytes.start < place.end.0 && place.start.0 < bytes.end;
        if found.unknown.iter().any(touches) {
            return None;
        }
        let here = |file: &&InFile| touches(&(file.bytes.start.0..file.bytes.end.0));
        Some(found.files.iter().filter(here).cloned().collect())
    }

    /// True where a range of the device is in doubt, if only in part.
    pub(crate) fn touches(&self, start: u64, len: u64) -> bool {
        self.within(start..start.saturating_add(len)).next().is_some()
    }

    /// Group `agno` is judged: these are its extents in use, all of them where `known`.
    pub(crate) fn note(&self, vol: &Volume<'_>, agno: AgNumber, used: &[Used], known: bool) {
        let geo = &vol.geo;
        let byte = |agbno: u32| geo.agb_to_daddr(agno, AgBlock(agbno)).byte_offset().0;
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        // Metadata of version 4 has no checksums.
        if !known || !geo.v5() {
            found.unknown.extend(self.within(byte(0)..byte(geo.ag_length(agno))));
            return;
        }
        for extent in used.iter().filter(|extent| extent.is_content() && !extent.is_unwritten()) {
            let start = byte(extent.start);
            for place in self.within(start..byte(extent.end())) {
                let position = (extent.offset & rmap::OFF_MASK) << geo.blocklog;
                found.files.push(InFile {
                    offset: ByteOffset(position + (place.start - start)),
                    bytes: ByteOffset(place.start)..ByteOffset(place.end),
                    ino: Ino(extent.owner),
                });
            }
        }
    }

    /// The parts of places that lie in a range.
    fn within(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> + '_ {
        let first = self.places.partition_point(|place| place.end <= range.start);
        let (start, end) = (range.start, range.end);
        self.places[first..]
            .iter()
            .take_while(move |place| place.start < end)
            .map(move |place| place.start.max(start)..place.end.min(end))
    }
}
