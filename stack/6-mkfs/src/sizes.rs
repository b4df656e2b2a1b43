//! Sizes in bytes: of the devices, of blocks, sectors and inodes. All other decisions use them.

use xfskit_block::{BlockDevice, Topology};
use xfskit_units::ByteLen;

use crate::error::{Error, refuse};
use crate::options::{Options, Quantity};

pub(crate) const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;

/// Smallest allocation group, in bytes.
pub(crate) const AG_MIN: u64 = 16 * MIB;
/// Below this size mkfs.xfs refuses, and its log rules differ, in bytes.
pub(crate) const SMALL: u64 = 300 * MIB;

/// Properties of the devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// Size of the data device.
    pub size: ByteLen,
    /// Smallest unit of I/O, in bytes.
    pub logical_sector: u32,
    /// Unit of I/O without read-modify-write, in bytes: the default sector size.
    pub physical_sector: u32,
    /// The stripes of the data device.
    pub stripes: Topology,
    /// The device for an external log.
    pub log: Option<LogFacts>,
}

/// Properties of a log device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFacts {
    /// Its size.
    pub size: ByteLen,
    /// Its sector in bytes.
    pub sector: u32,
}

impl DeviceFacts {
    /// Returns the properties of a plain file of `size`: sectors of 512 bytes, no stripes, no log
    /// device.
    pub fn file(size: ByteLen) -> Self {
        let stripes = Topology::default();
        Self { size, logical_sector: 512, physical_sector: 512, stripes, log: None }
    }

    /// Reads the properties of the devices.
    pub fn of(data: &dyn BlockDevice, log: Option<&dyn BlockDevice>) -> Self {
        Self {
            logical_sector: data.logical_block_size(),
            physical_sector: data.physical_block_size(),
            stripes: data.topology(),
            log: log.map(|log| LogFacts { size: log.size(), sector: log.physical_block_size() }),
            ..Self::file(data.size())
        }
    }
}

/// Sizes in bytes that all other decisions use.
pub(crate) struct Sizes {
    pub(crate) block: u32,
    pub(crate) sector: u32,
    pub(crate) log_sector: u32,
    pub(crate) inode: u32,
    pub(crate) dir_block: u32,
    /// The part of the device to use, in bytes.
    pub(crate) bytes: u64,
    /// The part of the device to use, in blocks.
    pub(crate) dblocks: u64,
}

impl Sizes {
    /// Decides the sizes by the options, else by the devices.
    pub(crate) fn decide(options: &Options, facts: &DeviceFacts) -> Result<Self, Error> {
        let block = options.block_size.unwrap_or(4096);
        let sector = options.sector_size.unwrap_or(facts.physical_sector.clamp(512, 32768));
        if sector < facts.logical_sector {
            refuse!(
                "sector size {sector} is smaller than the device's logical sector of {}",
                facts.logical_sector
            );
        }
        if sector > block {
            refuse!("block size {block} cannot be smaller than sector size {sector}");
        }
        let inode = match options.inodes_per_block {
            Some(n) => block / n,
            None => options.inode_size.unwrap_or(512),
        };
        if !(512..=2048).contains(&inode) || inode > block / 2 {
            refuse!(
                "illegal inode size {inode}: from 512 to {} with blocks of {block}",
                2048.min(block / 2)
            );
        }
        let dir_block = options.dir_block_size.unwrap_or(block.max(4096));
        if dir_block < block {
            refuse!("directory block size {dir_block} is smaller than block size {block}");
        }
        let log_sector = match facts.log {
            Some(log) => options.log_sector_size.or(options.sector_size).unwrap_or(log.sector),
            None => options.log_sector_size.unwrap_or(sector),
        };
        if facts.log.is_none() && log_sector != sector {
            refuse!("an internal log has the sectors of the data: {sector}, not {log_sector}");
        }
        let mut sizes = Self { block, sector, log_sector, inode, dir_block, bytes: 0, dblocks: 0 };
        sizes.bytes = match options.data_size {
            Some(size) => sizes.in_bytes(size)?,
            None => facts.size.0 / 512 * 512,
        };
        if sizes.bytes > facts.size.0 {
            refuse!("size {} is more than the device's {} bytes", sizes.bytes, facts.size);
        }
        sizes.dblocks = sizes.bytes / u64::from(block);
        if sizes.bytes < AG_MIN {
            let bytes = if options.data_size.is_some() { sizes.bytes } else { facts.size.0 };
            let noun = if bytes == 1 { "byte is" } else { "bytes are" };
            refuse!("{bytes} {noun} too few: a volume has at least 16 MiB");
        }
        Ok(sizes)
    }

    /// Converts a quantity to bytes, once block and sector are known.
    pub(crate) fn in_bytes(&self, quantity: Quantity) -> Result<u64, Error> {
        match quantity.bytes(self.block, self.sector) {
            Some(bytes) => Ok(bytes),
            None => refuse!("{quantity:?} is more than 64 bits can count"),
        }
    }
}
