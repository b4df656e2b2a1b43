//! The format of a volume: version and feature words, exactly as the superblock stores them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Major version of the format: the low nibble of `versionnum`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Version {
    /// `crc=0`: no checksums, no self-describing headers. Read only, for old volumes.
    V4,
    /// Self-describing metadata with CRC32c.
    V5,
}

/// One feature: its bit, and its name as `xfs_info` and the documentation spell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureBit {
    /// The bit, as a mask.
    pub mask: u32,
    /// The kernel's name for the bit, in lower case.
    pub name: &'static str,
}

macro_rules! bits {
    ($($(#[$doc:meta])* $id:ident = $mask:expr, $name:expr;)*) => {
        $($(#[$doc])* pub const $id: u32 = $mask;)*
        /// Every bit of this word that the format defines.
        pub const ALL: &[super::FeatureBit] = &[$(super::FeatureBit { mask: $id, name: $name }),*];
        /// Returns the name of the single bit `mask`, if the format defines it.
        pub fn name(mask: u32) -> Option<&'static str> {
            ALL.iter().find(|b| b.mask == mask).map(|b| b.name)
        }
    };
}

/// Bits of `versionnum`, above the version nibble.
pub mod versionnum {
    bits! {
        /// Some inode has an attribute fork.
        ATTR = 0x0010, "attr";
        /// 32-bit link counts.
        NLINK = 0x0020, "nlink";
        /// Quota was on at some time.
        QUOTA = 0x0040, "quota";
        /// `inoalignmt` is valid.
        ALIGN = 0x0080, "align";
        /// `unit` and `width` are valid.
        DALIGN = 0x0100, "dalign";
        /// Never used by Linux.
        SHARED = 0x0200, "shared";
        /// Log records of version 2.
        LOGV2 = 0x0400, "logv2";
        /// A sector size other than 512, of data or log.
        SECTOR = 0x0800, "sector";
        /// Extents carry the unwritten bit.
        EXTFLG = 0x1000, "extflg";
        /// Directories of version 2.
        DIRV2 = 0x2000, "dirv2";
        /// ASCII case-insensitive names.
        BORG = 0x4000, "ascii-ci";
        /// `features2` is valid.
        MOREBITS = 0x8000, "morebits";
    }
}

/// Bits of `features2`.
pub mod features2 {
    bits! {
        /// Superblock counters are exact only after a clean unmount.
        LAZYSBCOUNT = 0x002, "lazysbcount";
        /// Flexible attribute fork offset.
        ATTR2 = 0x008, "attr2";
        /// An early design of parent pointers, never used.
        OLD_PARENT = 0x010, "old-parent";
        /// 32-bit project ids.
        PROJID32 = 0x080, "projid32bit";
        /// Checksums; set on version 5.
        CRC = 0x100, "crc";
        /// File types in directory entries (the bit of version 4).
        FTYPE = 0x200, "ftype";
    }
}

/// Bits of `features_ro_compat`: a reader that does not know one may still read.
pub mod ro_compat {
    bits! {
        /// Free-inode btree.
        FINOBT = 0x1, "finobt";
        /// Reverse-mapping btree.
        RMAPBT = 0x2, "rmapbt";
        /// Reference-count btree; shared extents.
        REFLINK = 0x4, "reflink";
        /// AGI counts its btrees' blocks.
        INOBTCNT = 0x8, "inobtcount";
    }
}

/// Bits of `features_incompat`: a reader that does not know one must refuse.
pub mod incompat {
    bits! {
        /// File types in directory entries.
        FTYPE = 0x001, "ftype";
        /// Sparse inode chunks.
        SPINODES = 0x002, "sparse";
        /// `meta_uuid` identifies metadata, `uuid` is the user's.
        META_UUID = 0x004, "meta_uuid";
        /// 64-bit nanosecond timestamps.
        BIGTIME = 0x008, "bigtime";
        /// Only repair may touch the volume.
        NEEDSREPAIR = 0x010, "needsrepair";
        /// 64-bit extent counters.
        NREXT64 = 0x020, "nrext64";
        /// Exchange-range log items may be used.
        EXCHRANGE = 0x040, "exchange";
        /// Parent pointers.
        PARENT = 0x080, "parent";
        /// Metadata directory tree and realtime groups.
        METADIR = 0x100, "metadir";
        /// Zoned realtime allocator.
        ZONED = 0x200, "zoned";
        /// Realtime groups have address gaps.
        ZONE_GAPS = 0x400, "zone_gaps";
    }
}

/// Bits of `features_log_incompat`: kinds of items that the journal may hold.
pub mod log_incompat {
    bits! {
        /// Logged extended attributes.
        XATTRS = 0x1, "logged-xattrs";
    }
}

/// The feature words of one volume, as its superblock stores them. On version 4 they follow from
/// its own bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Features {
    /// Major version.
    pub version: Version,
    /// `versionnum` without the version nibble.
    pub versionnum: u16,
    /// `features2`, merged with `bad_features2`; 0 when MOREBITS is clear.
    pub features2: u32,
    /// `features_compat`.
    pub compat: u32,
    /// `features_ro_compat`.
    pub ro_compat: u32,
    /// `features_incompat`.
    pub incompat: u32,
    /// `features_log_incompat`.
    pub log_incompat: u32,
}

/// The features that this code writes, as masks of the feature words. A bit belongs here only when
/// everything that it means is kept up to date by every change; a bit that the code merely knows by
/// name does not. `compat` has no mask: by its definition a writer need not know its bits.
pub const WRITABLE: Features = Features {
    version: Version::V5,
    versionnum: narrow(
        versionnum::ATTR
            | versionnum::NLINK
            | versionnum::QUOTA
            | versionnum::ALIGN
            | versionnum::DALIGN
            | versionnum::LOGV2
            | versionnum::SECTOR
            | versionnum::EXTFLG
            | versionnum::DIRV2
            | versionnum::BORG
            | versionnum::MOREBITS,
    ),
    features2: features2::LAZYSBCOUNT
        | features2::ATTR2
        | features2::PROJID32
        | features2::CRC
        | features2::FTYPE,
    compat: u32::MAX,
    ro_compat: ro_compat::FINOBT | ro_compat::RMAPBT | ro_compat::REFLINK | ro_compat::INOBTCNT,
    incompat: incompat::FTYPE
        | incompat::SPINODES
        | incompat::META_UUID
        | incompat::BIGTIME
        | incompat::NREXT64
        | incompat::EXCHRANGE
        | incompat::PARENT,
    log_incompat: log_incompat::XATTRS,
};

/// Returns `bits` as the superblock's 16-bit word.
const fn narrow(bits: u32) -> u16 {
    assert!(bits <= 0xffff);
    #[allow(clippy::cast_possible_truncation)] // asserted
    {
        bits as u16
    }
}

/// Bits of one feature word, by name where the format defines them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FeatureBits {
    /// The word, as `xfs_db` names the field behind `features_`.
    pub word: &'static str,
    /// The bits, as a mask.
    pub bits: u32,
    /// Every bit that the format defines in the word.
    defined: &'static [FeatureBit],
}

impl fmt::Display for FeatureBits {
    /// Writes `ro_compat features finobt, 0x80000000`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} features ", self.word)?;
        let known = self.defined.iter().filter(|bit| self.bits & bit.mask != 0);
        let unknown = known.clone().fold(self.bits, |bits, bit| bits & !bit.mask);
        let mut separator = "";
        for bit in known {
            write!(f, "{separator}{}", bit.name)?;
            separator = ", ";
        }
        if unknown != 0 {
            write!(f, "{separator}{unknown:#x}")?;
        }
        Ok(())
    }
}

impl Features {
    /// Returns the names of all features that are set, in the order of the feature words. A feature
    /// with bits in two words is named once.
    pub fn names(&self) -> Vec<&'static str> {
        let words = [
            (u32::from(self.versionnum), versionnum::ALL),
            (self.features2, features2::ALL),
            (self.ro_compat, ro_compat::ALL),
            (self.incompat, incompat::ALL),
            (self.log_incompat, log_incompat::ALL),
        ];
        let mut names: Vec<&'static str> = Vec::new();
        for bit in words.iter().flat_map(|&(word, bits)| {
            bits.iter().filter(move |bit| word & bit.mask != 0)
        }) {
            if !names.contains(&bit.name) {
                names.push(bit.name);
            }
        }
        names
    }

    /// Returns the bits that `allowed` does not have, of the first word with such bits.
    pub fn beyond(&self, allowed: &Self) -> Option<FeatureBits> {
        let words = [
            ("versionnum", self.versionnum.into(), allowed.versionnum.into(), versionnum::ALL),
            ("features2", self.features2, allowed.features2, features2::ALL),
            ("compat", self.compat, allowed.compat, &[]),
            ("ro_compat", self.ro_compat, allowed.ro_compat, ro_compat::ALL),
            ("incompat", self.incompat, allowed.incompat, incompat::ALL),
            ("log_incompat", self.log_incompat, allowed.log_incompat, log_incompat::ALL),
        ];
        let mut beyond = words.into_iter().map(|(word, bits, allowed, defined)| FeatureBits {
            word,
            bits: bits & !allowed,
            defined,
        });
        beyond.find(|word| word.bits != 0)
    }

    fn v5_or(&self, word: u32, bit: u32) -> bool {
        self.version == Version::V5 || word & bit != 0
    }

    fn has_version_bit(&self, bit: u32) -> bool {
        u32::from(self.versionnum) & bit != 0
    }

    /// Returns true if metadata carries CRC, LSN, UUID, address and owner: version 5.
    pub fn crc(&self) -> bool {
        self.version == Version::V5
    }
    /// Returns true if the volume has a free-inode btree.
    pub fn finobt(&self) -> bool {
        self.ro_compat & ro_compat::FINOBT != 0
    }
    /// Returns true if the volume has a reverse-mapping btree.
    pub fn rmapbt(&self) -> bool {
        self.ro_compat & ro_compat::RMAPBT != 0
    }
    /// Returns true if the volume has a reference-count btree and may share extents.
    pub fn reflink(&self) -> bool {
        self.ro_compat & ro_compat::REFLINK != 0
    }
    /// Returns true if the AGI counts the blocks of its btrees.
    pub fn inobtcount(&self) -> bool {
        self.ro_compat & ro_compat::INOBTCNT != 0
    }
    /// Returns true if directory entries carry the file type: always on version 5, by a bit on
    /// version 4.
    pub fn ftype(&self) -> bool {
        match self.version {
            Version::V5 => self.incompat & incompat::FTYPE != 0,
            Version::V4 => self.features2 & features2::FTYPE != 0,
        }
    }
    /// Returns true if inode chunks may be sparse.
    pub fn sparse(&self) -> bool {
        self.incompat & incompat::SPINODES != 0
    }
    /// Returns true if metadata carries `meta_uuid` rather than `uuid`.
    pub fn meta_uuid(&self) -> bool {
        self.incompat & incompat::META_UUID != 0
    }
    /// Returns true if inodes may hold 64-bit nanosecond timestamps.
    pub fn bigtime(&self) -> bool {
        self.incompat & incompat::BIGTIME != 0
    }
    /// Returns true if only repair may touch the volume.
    pub fn needsrepair(&self) -> bool {
        self.incompat & incompat::NEEDSREPAIR != 0
    }
    /// Returns true if inodes may hold 64-bit extent counters.
    pub fn nrext64(&self) -> bool {
        self.incompat & incompat::NREXT64 != 0
    }
    /// Returns true if the journal may hold exchange-range items.
    pub fn exchange(&self) -> bool {
        self.incompat & incompat::EXCHRANGE != 0
    }
    /// Returns true if every directory entry has a parent pointer on its child.
    pub fn parent(&self) -> bool {
        self.incompat & incompat::PARENT != 0
    }
    /// Returns true if the volume has a metadata directory tree and realtime groups.
    pub fn metadir(&self) -> bool {
        self.incompat & incompat::METADIR != 0
    }
    /// Returns true if the realtime section is zoned.
    pub fn zoned(&self) -> bool {
        self.incompat & incompat::ZONED != 0
    }
    /// Returns true if names are compared without regard to ASCII case.
    pub fn ascii_ci(&self) -> bool {
        self.has_version_bit(versionnum::BORG)
    }
    /// Returns true if superblock counters are exact only after a clean unmount.
    pub fn lazysbcount(&self) -> bool {
        self.v5_or(self.features2, features2::LAZYSBCOUNT)
    }
    /// Returns true if the attribute fork's offset is flexible.
    pub fn attr2(&self) -> bool {
        self.v5_or(self.features2, features2::ATTR2)
    }
    /// Returns true if project ids have 32 bits.
    pub fn projid32(&self) -> bool {
        self.v5_or(self.features2, features2::PROJID32)
    }
    /// Returns true if log records are of version 2.
    pub fn logv2(&self) -> bool {
        self.v5_or(u32::from(self.versionnum), versionnum::LOGV2)
    }
    /// Returns true if `inoalignmt` is valid.
    pub fn align(&self) -> bool {
        self.v5_or(u32::from(self.versionnum), versionnum::ALIGN)
    }
    /// Returns true if some inode had an attribute fork at some time.
    pub fn attr(&self) -> bool {
        self.has_version_bit(versionnum::ATTR)
    }
    /// Returns true if quota was on at some time.
    pub fn quota(&self) -> bool {
        self.has_version_bit(versionnum::QUOTA)
    }
    /// Returns true if the sector size differs from 512.
    pub fn sector(&self) -> bool {
        self.has_version_bit(versionnum::SECTOR)
    }
    /// Returns true if extents carry the unwritten bit.
    pub fn extflg(&self) -> bool {
        self.v5_or(u32::from(self.versionnum), versionnum::EXTFLG)
    }
}
