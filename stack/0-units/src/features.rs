//! The format of a volume: version and feature words, exactly as the superblock stores them.

use serde::{Deserialize, Serialize};

use crate::flag_word;
use crate::flags::FlagWord;

/// Major version of the format: the low nibble of `versionnum`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Version {
    /// `crc=0`: no checksums, no self-describing headers. Read only, for old volumes.
    V4,
    /// Self-describing metadata with CRC32c.
    V5,
}

flag_word! {
    /// Bits of `versionnum`, above the version nibble.
    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    pub struct VersionNum: u16 {
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

flag_word! {
    /// Bits of `features2`.
    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    pub struct Features2: u32 {
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

flag_word! {
    /// Bits of `features_compat`: no reader or writer need know them. There are none yet.
    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    pub struct Compat: u32 {}
}

flag_word! {
    /// Bits of `features_ro_compat`: a reader that does not know one may still read.
    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    pub struct RoCompat: u32 {
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

flag_word! {
    /// Bits of `features_incompat`: a reader that does not know one must refuse.
    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    pub struct Incompat: u32 {
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

flag_word! {
    /// Bits of `features_log_incompat`: kinds of items that the journal may hold.
    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    pub struct LogIncompat: u32 {
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
    pub versionnum: VersionNum,
    /// `features2`, merged with `bad_features2`; 0 when MOREBITS is clear.
    pub features2: Features2,
    /// `features_compat`.
    pub compat: Compat,
    /// `features_ro_compat`.
    pub ro_compat: RoCompat,
    /// `features_incompat`.
    pub incompat: Incompat,
    /// `features_log_incompat`.
    pub log_incompat: LogIncompat,
}

/// Returns a word with all of these flags, as a constant.
macro_rules! all_of {
    ($word:ident: $($flag:ident)|+) => { $word::empty()$(.union($word::$flag))+ };
}

/// The features that this code writes, as masks of the feature words. A bit belongs here only when
/// everything that it means is kept up to date by every change; a bit that the code merely knows by
/// name does not. `compat` has no mask: by its definition a writer need not know its bits.
pub const WRITABLE: Features = Features {
    version: Version::V5,
    versionnum: all_of!(
        VersionNum: ATTR | NLINK | QUOTA | ALIGN | DALIGN | LOGV2 | SECTOR | EXTFLG | DIRV2 | BORG
            | MOREBITS
    ),
    features2: all_of!(Features2: LAZYSBCOUNT | ATTR2 | PROJID32 | CRC | FTYPE),
    compat: Compat::all(),
    ro_compat: all_of!(RoCompat: FINOBT | RMAPBT | REFLINK | INOBTCNT),
    incompat: all_of!(
        Incompat: FTYPE | SPINODES | META_UUID | BIGTIME | NREXT64 | EXCHRANGE | PARENT
    ),
    log_incompat: LogIncompat::XATTRS,
};

impl Features {
    /// Returns the names of all features that are set, in the order of the feature words. A feature
    /// with bits in two words is named once.
    pub fn names(&self) -> Vec<&'static str> {
        let v4 = self.versionnum.names().chain(self.features2.names());
        let v5 = self.ro_compat.names().chain(self.incompat.names());
        let mut names: Vec<&'static str> = Vec::new();
        for name in v4.chain(v5).chain(self.log_incompat.names()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// Returns the names of the bits that `allowed` does not have, of the first word with such
    /// bits: `ro_compat features finobt, 0x80000000`.
    pub fn beyond(&self, allowed: &Self) -> Option<String> {
        fn listed<W: FlagWord>(word: &str, bits: W) -> Option<String> {
            (!bits.is_empty()).then(|| format!("{word} features {}", bits.list()))
        }
        [
            listed("versionnum", self.versionnum - allowed.versionnum),
            listed("features2", self.features2 - allowed.features2),
            listed("compat", self.compat - allowed.compat),
            listed("ro_compat", self.ro_compat - allowed.ro_compat),
            listed("incompat", self.incompat - allowed.incompat),
            listed("log_incompat", self.log_incompat - allowed.log_incompat),
        ]
        .into_iter()
        .flatten()
        .next()
    }

    /// Returns true if metadata carries CRC, LSN, UUID, address and owner: version 5.
    pub fn crc(&self) -> bool {
        self.version == Version::V5
    }
    /// Returns true if the volume has a free-inode btree.
    pub fn finobt(&self) -> bool {
        self.ro_compat.contains(RoCompat::FINOBT)
    }
    /// Returns true if the volume has a reverse-mapping btree.
    pub fn rmapbt(&self) -> bool {
        self.ro_compat.contains(RoCompat::RMAPBT)
    }
    /// Returns true if the volume has a reference-count btree and may share extents.
    pub fn reflink(&self) -> bool {
        self.ro_compat.contains(RoCompat::REFLINK)
    }
    /// Returns true if the AGI counts the blocks of its btrees.
    pub fn inobtcount(&self) -> bool {
        self.ro_compat.contains(RoCompat::INOBTCNT)
    }
    /// Returns true if directory entries carry the file type: always on version 5, by a bit on
    /// version 4.
    pub fn ftype(&self) -> bool {
        match self.version {
            Version::V5 => self.incompat.contains(Incompat::FTYPE),
            Version::V4 => self.features2.contains(Features2::FTYPE),
        }
    }
    /// Returns true if inode chunks may be sparse.
    pub fn sparse(&self) -> bool {
        self.incompat.contains(Incompat::SPINODES)
    }
    /// Returns true if metadata carries `meta_uuid` rather than `uuid`.
    pub fn meta_uuid(&self) -> bool {
        self.incompat.contains(Incompat::META_UUID)
    }
    /// Returns true if inodes may hold 64-bit nanosecond timestamps.
    pub fn bigtime(&self) -> bool {
        self.incompat.contains(Incompat::BIGTIME)
    }
    /// Returns true if only repair may touch the volume.
    pub fn needsrepair(&self) -> bool {
        self.incompat.contains(Incompat::NEEDSREPAIR)
    }
    /// Returns true if inodes may hold 64-bit extent counters.
    pub fn nrext64(&self) -> bool {
        self.incompat.contains(Incompat::NREXT64)
    }
    /// Returns true if the journal may hold exchange-range items.
    pub fn exchange(&self) -> bool {
        self.incompat.contains(Incompat::EXCHRANGE)
    }
    /// Returns true if every directory entry has a parent pointer on its child.
    pub fn parent(&self) -> bool {
        self.incompat.contains(Incompat::PARENT)
    }
    /// Returns true if the volume has a metadata directory tree and realtime groups.
    pub fn metadir(&self) -> bool {
        self.incompat.contains(Incompat::METADIR)
    }
    /// Returns true if the realtime section is zoned.
    pub fn zoned(&self) -> bool {
        self.incompat.contains(Incompat::ZONED)
    }
    /// Returns true if names are compared without regard to ASCII case.
    pub fn ascii_ci(&self) -> bool {
        self.versionnum.contains(VersionNum::BORG)
    }
    /// Returns true if superblock counters are exact only after a clean unmount.
    pub fn lazysbcount(&self) -> bool {
        self.crc() || self.features2.contains(Features2::LAZYSBCOUNT)
    }
    /// Returns true if the attribute fork's offset is flexible.
    pub fn attr2(&self) -> bool {
        self.crc() || self.features2.contains(Features2::ATTR2)
    }
    /// Returns true if project ids have 32 bits.
    pub fn projid32(&self) -> bool {
        self.crc() || self.features2.contains(Features2::PROJID32)
    }
    /// Returns true if log records are of version 2.
    pub fn logv2(&self) -> bool {
        self.crc() || self.versionnum.contains(VersionNum::LOGV2)
    }
    /// Returns true if `inoalignmt` is valid.
    pub fn align(&self) -> bool {
        self.crc() || self.versionnum.contains(VersionNum::ALIGN)
    }
    /// Returns true if some inode had an attribute fork at some time.
    pub fn attr(&self) -> bool {
        self.versionnum.contains(VersionNum::ATTR)
    }
    /// Returns true if quota was on at some time.
    pub fn quota(&self) -> bool {
        self.versionnum.contains(VersionNum::QUOTA)
    }
    /// Returns true if the sector size differs from 512.
    pub fn sector(&self) -> bool {
        self.versionnum.contains(VersionNum::SECTOR)
    }
    /// Returns true if extents carry the unwritten bit.
    pub fn extflg(&self) -> bool {
        self.crc() || self.versionnum.contains(VersionNum::EXTFLG)
    }
}
