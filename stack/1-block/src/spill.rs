//! Pages in a file without a name, for what shall not stay in memory.
//!
//! The file is made for the first page, or at once, and ends with this table. The kernel decides
//! what of it is in memory. Where no such file can be made, or its filesystem is full, pages are
//! not taken.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::OnceLock;

use parking_lot::RwLock;
use rustix::fs::{Mode, OFlags};
use xfskit_units::{ByteLen, ByteOffset, index};

use crate::device::{Error, Result};
use crate::pages::parts;

/// Pages of one size, by their number.
#[derive(Debug)]
pub(crate) struct Spill {
    page_bytes: u64,
    dir: PathBuf,
    file: OnceLock<Option<File>>,
    /// The place of each page in the file, in pages. Held while a page is written; a leaf lock.
    slots: RwLock<HashMap<u64, u64>>,
}

impl Spill {
    /// Makes an empty table whose file will be in `dir`.
    pub(crate) fn new(page_bytes: u64, dir: PathBuf) -> Self {
        Self { page_bytes, dir, file: OnceLock::new(), slots: RwLock::default() }
    }

    /// Makes an empty table like [`new`](Self::new), with its file: a thread that writes to the
    /// table opens nothing.
    pub(crate) fn opened(page_bytes: u64, dir: PathBuf) -> Self {
        let spill = Self::new(page_bytes, dir);
        spill.file();
        spill
    }

    fn file(&self) -> Option<&File> {
        let open = || {
            let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
            rustix::fs::open(&self.dir, flags, Mode::RUSR | Mode::WUSR).ok().map(File::from)
        };
        self.file.get_or_init(open).as_ref()
    }

    /// Returns true if the page is in the file.
    pub(crate) fn holds(&self, page: u64) -> bool {
        self.slots.read().contains_key(&page)
    }

    /// Returns the numbers of all pages.
    pub(crate) fn pages(&self) -> Vec<u64> {
        self.slots.read().keys().copied().collect()
    }

    /// Copies the pages over `buf`, whose bytes begin at `offset`. Missing pages leave `buf`
    /// unchanged.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub(crate) fn read_over(&self, offset: ByteOffset, buf: &mut [u8]) -> Result<()> {
        let slots = self.slots.read();
        if slots.is_empty() {
            return Ok(());
        }
        for part in parts(self.page_bytes, offset, buf.len()) {
            let (Some(slot), Some(file)) = (slots.get(&part.page), self.file()) else { continue };
            let at = slot * self.page_bytes + part.in_page.start as u64;
            let buf = &mut buf[part.in_buf];
            let len = ByteLen(buf.len() as u64);
            file.read_exact_at(buf, at).map_err(|source| Error::Io {
                op: "read",
                offset,
                len,
                source,
            })?;
        }
        Ok(())
    }

    /// Writes `buf` to a part of a page. A missing page is first filled by `fill(page)`, which
    /// receives it zeroed. Returns false if the page is missing and cannot be taken.
    ///
    /// # Errors
    /// If a page in the file cannot be written, or `fill` fails.
    pub(crate) fn write(
        &self,
        page: u64,
        start: usize,
        buf: &[u8],
        fill: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<bool> {
        let Some(file) = self.file() else { return Ok(false) };
        let mut slots = self.slots.write();
        if let Some(slot) = slots.get(&page) {
            let at = slot * self.page_bytes + start as u64;
            let (offset, len) = (ByteOffset(page * self.page_bytes), ByteLen(self.page_bytes));
            file.write_all_at(buf, at).map_err(|source| Error::Io {
                op: "write",
                offset,
                len,
                source,
            })?;
            return Ok(true);
        }
        let mut whole = vec![0; index(self.page_bytes)];
        fill(&mut whole)?;
        whole[start..start + buf.len()].copy_from_slice(buf);
        let slot = slots.len() as u64;
        if file.write_all_at(&whole, slot * self.page_bytes).is_err() {
            return Ok(false);
        }
        slots.insert(page, slot);
        Ok(true)
    }
}
