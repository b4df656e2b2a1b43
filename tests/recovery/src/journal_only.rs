//! A volume that is changed through its journal only, record by record.

use std::path::Path;
use std::sync::Arc;

use xfskit_block::{BlockDevice, OpenMode};
use xfskit_core::superblock::read_superblock;
use xfskit_format::log::item::encode::{self, BufAddr};
use xfskit_log::{LogWriter, Payload};
use xfskit_test_support::Image;
use xfskit_units::{AgBlock, Geometry, Ino, Sectors, index};

use crate::open;

/// A clean volume of the kernel, and its journal, opened for writing.
#[derive(Debug)]
pub struct JournalOnly {
    /// The data device.
    pub dev: Arc<dyn BlockDevice>,
    /// Its geometry.
    pub geo: Geometry,
    /// Its journal.
    pub writer: LogWriter,
}

impl JournalOnly {
    /// Opens `image`, whose journal is clean.
    ///
    /// # Panics
    /// If it cannot be opened.
    pub fn open(image: &Image<'_>, record_size: u32) -> Self {
        let open =
            |path: &Path| -> Arc<dyn BlockDevice> { Arc::new(open(path, OpenMode::ReadWrite)) };
        let dev = open(image.path());
        let log_dev = image.log().map_or_else(|| Arc::clone(&dev), open);
        let geo = read_superblock(&*dev).expect("a sound volume").geometry();
        let writer = {
            let log =
                xfskit_recovery::open_log(&*dev, Some(&*log_dev), &geo).expect("a sound volume");
            assert!(log.is_clean());
            LogWriter::new(&log, Arc::clone(&log_dev), Arc::clone(&dev), record_size)
                .expect("a sound volume")
        };
        Self { dev, geo, writer }
    }

    /// Returns the bytes of a block.
    ///
    /// # Panics
    /// If the device fails.
    pub fn read(&self, (daddr, len): BufAddr) -> Vec<u8> {
        let mut bytes = vec![0; index(len.byte_len().0)];
        self.dev.read_at(daddr.byte_offset(), &mut bytes).expect("a sound volume");
        bytes
    }

    /// Returns the location of inode `ino`: its cluster, and the byte offset in it.
    fn location(&self, ino: Ino) -> (BufAddr, usize) {
        let geo = &self.geo;
        let (agno, agino) = geo.ino_split(ino).expect("a sound volume");
        let cluster = geo.cluster_blocks();
        let first = AgBlock(geo.agino_to_agb(agino).0 / cluster * cluster);
        let daddr = geo.agb_to_daddr(agno, first);
        let len = Sectors(geo.block_sectors().0 * u64::from(cluster));
        let offset = geo.ino_to_byte(ino).expect("a sound volume").0 - daddr.byte_offset().0;
        ((daddr, len), index(offset))
    }

    /// Returns the bytes of an inode.
    pub fn inode(&self, ino: Ino) -> Vec<u8> {
        let (addr, offset) = self.location(ino);
        self.read(addr)[offset..offset + self.geo.inodesize()].to_vec()
    }

    /// Logs `image` as inode `ino`, with its forks if `forks` is set.
    pub fn log_inode(&self, out: &mut Payload, ino: Ino, image: &[u8], forks: bool) {
        let end = if forks { image.len() } else { 128 };
        encode::inode(
            out,
            &self.geo,
            ino,
            self.location(ino),
            image,
            std::slice::from_ref(&(0..end)),
        );
    }

    /// Logs the chunk around byte `byte` of the block at `addr`.
    pub fn log_chunk(&self, out: &mut Payload, addr: BufAddr, block: &[u8], byte: usize) {
        let start = byte / 128 * 128;
        let lsn = self.writer.next_lsn();
        encode::buf(
            out,
            &self.geo,
            block,
            &[addr],
            std::slice::from_ref(&(start..start + 128)),
            lsn,
        );
    }
}
