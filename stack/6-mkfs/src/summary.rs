//! The summary that mkfs.xfs and xfs_info print.

use std::fmt;

use serde::Serialize;
use xfskit_format::sb::Superblock;
use xfskit_units::Geometry;

/// The properties of a volume, in the order and the words of mkfs.xfs. [`fmt::Display`] prints them
/// as text; serde has the same data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// The data device, as the user named it.
    pub data: String,
    /// The log device; `None` for an internal log.
    pub log: Option<String>,
    /// All other properties.
    pub geometry: Geometry,
    /// Realtime groups; only volumes with a metadata directory have any.
    pub rgcount: u32,
    /// Realtime extents of one such group.
    pub rgsize: u32,
}

impl Summary {
    /// Returns the summary of a volume on the device named `data`; `log` names the device of an
    /// external log.
    pub fn of(geometry: &Geometry, data: &str, log: Option<&str>) -> Self {
        Self {
            data: data.into(),
            log: log.map(Into::into).filter(|_| geometry.logstart.is_none()),
            geometry: geometry.clone(),
            rgcount: 0,
            rgsize: 0,
        }
    }

    /// Returns the summary of an existing volume, from its superblock, as xfs_info prints it.
    pub fn of_superblock(sb: &Superblock, data: &str, log: Option<&str>) -> Self {
        let geometry = sb.geometry();
        let metadir = geometry.features.metadir();
        Self {
            rgcount: if metadir { sb.rgcount.get() } else { 0 },
            rgsize: if metadir { sb.rgextents.get() } else { 0 },
            ..Self::of(&geometry, data, log)
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let geo = &self.geometry;
        let features = &geo.features;
        let bit = u8::from;
        let block = geo.blocksize();
        let log_sunit = if geo.logsunit > 1 { geo.logsunit as usize / block } else { 0 };
        let log = match (&geo.logstart, &self.log) {
            (Some(_), _) => "internal log",
            (None, Some(name)) => name,
            (None, None) => "external",
        };
        let attr = if features.attr2() { 2 } else { 1 };
        let (isize, agcount, agsize) = (geo.inodesize(), geo.agcount, geo.agblocks);
        writeln!(
            f,
            "meta-data={:<22} isize={isize:<6} agcount={agcount}, agsize={agsize} blks",
            self.data
        )?;
        writeln!(
            f,
            "         ={:<22} sectsz={:<5} attr={attr}, projid32bit={}",
            "",
            geo.sectsize(),
            bit(features.projid32())
        )?;
        writeln!(
            f,
            "         ={:<22} crc={:<8} finobt={}, sparse={}, rmapbt={}",
            "",
            bit(features.crc()),
            bit(features.finobt()),
            bit(features.sparse()),
            bit(features.rmapbt())
        )?;
        writeln!(
            f,
            "         ={:<22} reflink={:<4} bigtime={} inobtcount={} nrext64={}",
            "",
            bit(features.reflink()),
            bit(features.bigtime()),
            bit(features.inobtcount()),
            bit(features.nrext64())
        )?;
        writeln!(
            f,
            "         ={:<22} exchange={:<3} metadir={}",
            "",
            bit(features.exchange()),
            bit(features.metadir())
        )?;
        writeln!(
            f,
            "data     ={:<22} bsize={block:<6} blocks={}, imaxpct={}",
            "", geo.dblocks, geo.imax_pct
        )?;
        writeln!(f, "         ={:<22} sunit={:<6} swidth={} blks", "", geo.unit, geo.width)?;
        writeln!(
            f,
            "naming   =version {:<14} bsize={:<6} ascii-ci={}, ftype={}, parent={}",
            2,
            geo.dirblksize(),
            bit(features.ascii_ci()),
            bit(features.ftype()),
            bit(features.parent())
        )?;
        writeln!(
            f,
            "log      ={log:<22} bsize={block:<6} blocks={}, version={}",
            geo.logblocks,
            if features.logv2() { 2 } else { 1 }
        )?;
        writeln!(
            f,
            "         ={:<22} sectsz={:<5} sunit={log_sunit} blks, lazy-count={}",
            "",
            geo.logsectsize(),
            bit(features.lazysbcount())
        )?;
        let realtime = if geo.rblocks.0 == 0 { "none" } else { "external" };
        writeln!(
            f,
            "realtime ={realtime:<22} extsz={:<6} blocks={}, rtextents={}",
            geo.rextsize as usize * block,
            geo.rblocks,
            geo.rextents
        )?;
        writeln!(
            f,
            "         ={:<22} rgcount={:<4} rgsize={} extents",
            "", self.rgcount, self.rgsize
        )
    }
}
