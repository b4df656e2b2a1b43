//! Which blocks of the realtime device are free: the realtime bitmap, a file of the volume itself.
//!
//! The bitmap has a bit for each realtime extent, set where it is free, in words of 32 bits. Before
//! realtime groups the words have the byte order of the machine. This one takes them for
//! little-endian, as all common machines write them.

use std::ops::Range;

use xfskit_core::{Error, Inode, Result, Volume};
use xfskit_units::{ByteOffset, index};

/// The realtime bitmap of a volume.
#[derive(Debug)]
pub(crate) struct Bitmap<'v> {
    volume: &'v Volume,
    inode: Inode,
    /// The block that was read last, and its number in the file.
    block: (Option<u64>, Vec<u8>),
}

impl<'v> Bitmap<'v> {
    /// Opens the bitmap of `volume`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for realtime groups; [`Error::Missing`] if there is no realtime
    /// device; its inode cannot be read.
    pub(crate) fn open(volume: &'v Volume) -> Result<Self> {
        let geo = volume.geo();
        if geo.features.metadir() {
            return Err(Error::Unsupported("reading the free space of realtime groups".into()));
        }
        let ino = geo.rbmino.filter(|_| geo.rblocks.0 > 0 && geo.rextsize > 0);
        let inode = volume.iget(ino.ok_or(Error::Missing("realtime device"))?)?;
        Ok(Self { volume, inode, block: (None, vec![0; geo.blocksize()]) })
    }

    /// Passes the parts of `blocks` of the realtime device that are not free to `each`: whole
    /// realtime extents, of which the first and the last may reach beyond `blocks`.
    ///
    /// # Errors
    /// The bitmap cannot be read.
    pub(crate) fn each_used(
        &mut self,
        blocks: Range<u64>,
        each: &mut dyn FnMut(Range<u64>),
    ) -> Result<()> {
        let geo = self.volume.geo();
        let (size, count) = (u64::from(geo.rextsize), geo.rextents);
        let last = blocks.end.div_ceil(size);
        for extent in (blocks.start / size)..last {
            if extent >= count || !self.is_free(extent)? {
                let start = extent.saturating_mul(size);
                each(start..start.saturating_add(size));
            }
        }
        Ok(())
    }

    fn is_free(&mut self, extent: u64) -> Result<bool> {
        let bits = (self.block.1.len() as u64).saturating_mul(8);
        let (number, bit) = (extent / bits, extent % bits);
        if self.block.0 != Some(number) {
            self.block.0 = None;
            self.block.1.fill(0);
            let at = ByteOffset(number.saturating_mul(bits / 8));
            self.volume.read_at(&self.inode, at, &mut self.block.1)?;
            self.block.0 = Some(number);
        }
        Ok(self.block.1.get(index(bit / 8)).is_some_and(|byte| byte >> (bit % 8) & 1 != 0))
    }
}
