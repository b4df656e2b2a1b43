//! The journal: cleared, replayed in memory, or copied.
//!
//! The journal holds old copies of metadata, with clear names. A clean journal is cleared: there
//! remain a last record, which says that it is clean, and the first word of each other block, which
//! is the cycle that finds the end. LSNs on the volume remain behind the end of the journal. A
//! dirty one cannot be cleared. With obfuscation it is replayed first, in memory, as a mount does
//! it. Without, it is copied as it is.

use std::io::Write;
use std::sync::Arc;

use xfskit_block::{BlockDevice, OverlayDevice};
use xfskit_core::superblock::read_superblock;
use xfskit_core::{OpenOptions, Volume};
use xfskit_format::log::record::BLOCK;
use xfskit_format::log::unmount_record;
use xfskit_log::{Cleared, Log};
use xfskit_recovery::open_log;
use xfskit_units::{ByteLen, Daddr, Geometry, LogBlock, Lsn};

use crate::copy::Copy;
use crate::error::{Error, Result};
use crate::format::{Part, SECTOR};
use crate::mode::{Handling, JournalMode};
use crate::report::{Phase, WarningKind};
use crate::walk::byte_of;
use crate::writer::Writer;

/// Bytes that are read and written at once.
const PIECE: usize = 1 << 20;
/// Blocks of the journal in a piece.
const PIECE_BLOCKS: usize = PIECE / SECTOR;
/// Most memory that a replay in memory takes for what it changes, in bytes.
const REPLAY_MEMORY_MAX: u64 = 64 << 20;
const _: () = assert!(BLOCK == SECTOR);

/// The devices to dump, and what to do with the journal.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) dev: Arc<dyn BlockDevice>,
    pub(crate) log_dev: Option<Arc<dyn BlockDevice>>,
    pub(crate) handling: Handling,
    /// The journal in the file has to be replayed.
    pub(crate) dirty: bool,
    clear: Option<Cleared>,
}

/// Decides what to do with the journal, and replays it where that is it.
pub(crate) fn plan(
    dev: Arc<dyn BlockDevice>,
    log_dev: Option<Arc<dyn BlockDevice>>,
    geo: &Geometry,
    (mode, obfuscate, zero_stale): (JournalMode, bool, bool),
) -> Result<Plan> {
    let external = geo.logstart.is_none();
    let plan = |handling, dirty, clear| Plan {
        dev: Arc::clone(&dev),
        log_dev: log_dev.clone(),
        handling,
        dirty,
        clear,
    };
    if mode == JournalMode::Omit {
        if !external {
            return Err(Error::Unsupported("dumps without an internal journal".to_owned()));
        }
        return Ok(plan(Handling::Omitted, false, None));
    }
    match &log_dev {
        None if external => return Err(Error::ExternalLog),
        Some(_) if !external => return Err(Error::InternalLog),
        _ => {}
    }
    let state = {
        let log = open_log(&*dev, log_dev.as_deref(), geo);
        log.map(|log| (log.is_clean(), clear_of(&log)))
    };
    match (state, mode) {
        (Ok((true, Some(clear))), JournalMode::Auto | JournalMode::Replay) if zero_stale => {
            Ok(plan(Handling::Cleared, false, Some(clear)))
        }
        (Ok((true, _)), _) => Ok(plan(Handling::Copied, false, None)),
        (Ok((false, _)), JournalMode::Auto) if obfuscate => replayed(dev, log_dev, geo, zero_stale),
        (Ok((false, _)), JournalMode::Replay) => replayed(dev, log_dev, geo, zero_stale),
        (Err(error), JournalMode::Replay) => Err(Error::Journal(error.to_string())),
        (Err(error), JournalMode::Auto) if obfuscate => Err(Error::Journal(error.to_string())),
        (Ok((false, _)) | Err(_), _) => Ok(plan(Handling::Copied, true, None)),
    }
}

/// Returns how a clean journal is cleared. Its last record is made anew, because the kernel writes
/// stale memory after the operation in it, and that has names.
fn clear_of(log: &Log<'_>) -> Option<Cleared> {
    log.last_record()?;
    let (head, geo, ring) = (log.head().block(), log.ring().geo(), log.ring());
    let len = unmount_record(geo, Lsn::new(log.cycle_of(head), head), u32::MAX).len();
    let start = ring.back(head, u32::try_from(len / SECTOR).ok()?);
    Some(Cleared::new(geo, Lsn::new(log.cycle_of(start), start)))
}

/// Replays the journal into a view of the devices, as a mount does it.
fn replayed(
    dev: Arc<dyn BlockDevice>,
    log_dev: Option<Arc<dyn BlockDevice>>,
    geo: &Geometry,
    zero_stale: bool,
) -> Result<Plan> {
    let over = |dev| -> Arc<dyn BlockDevice> {
        let memory = ByteLen(REPLAY_MEMORY_MAX);
        Arc::new(OverlayDevice::new(dev).limited_to(memory, &std::env::temp_dir()))
    };
    let (dev, log_dev) = (over(dev), log_dev.map(over));
    let options = OpenOptions { write: true, log_dev: log_dev.clone(), ..OpenOptions::default() };
    let failed = |error: &dyn std::fmt::Display| Error::Journal(error.to_string());
    match Volume::open(Arc::clone(&dev), &options) {
        Ok(volume) => volume.close().map_err(|error| failed(&error))?,
        // Nothing was written yet.
        Err(
            xfskit_core::Error::Unsupported(_)
            | xfskit_core::Error::Unwritable(_)
            | xfskit_core::Error::ShortDevice { .. },
        ) => replay_alone(&*dev, log_dev.as_deref(), geo)?,
        Err(error) => return Err(failed(&error)),
    }
    let clear = {
        let log = open_log(&*dev, log_dev.as_deref(), geo).map_err(|error| failed(&error))?;
        clear_of(&log).filter(|_| log.is_clean() && zero_stale)
    };
    Ok(Plan { dev, log_dev, handling: Handling::Replayed, dirty: false, clear })
}

/// Replays the journal of a volume that can be read and not changed, such as one of version 4.
/// Unlinked inodes stay on their lists.
fn replay_alone(
    dev: &dyn BlockDevice,
    log_dev: Option<&dyn BlockDevice>,
    geo: &Geometry,
) -> Result<()> {
    let failed = |error: &dyn std::fmt::Display| Error::Journal(error.to_string());
    let superblock = read_superblock(dev).map_err(|error| failed(&error))?;
    let replay = xfskit_recovery::replay(dev, log_dev, &superblock).map_err(|e| failed(&e))?;
    if !replay.unfinished.is_empty() {
        let what = "changes that it has begun cannot be finished on such a volume";
        return Err(Error::Journal(what.to_owned()));
    }
    let log = open_log(dev, log_dev, geo).map_err(|error| failed(&error))?;
    log.mark_clean().map_err(|error| failed(&error))
}

impl Plan {
    /// Returns the sectors of an internal journal on the data device, as far as the device has
    /// them; the first and the one after the last.
    pub(crate) fn internal(&self, geo: &Geometry) -> Option<(u64, u64)> {
        let start = geo.log_daddr()?.0;
        let end = start.saturating_add(geo.log_bbs().into());
        Some((start, end.min(self.dev.size().0 / SECTOR as u64)))
    }

    /// Writes the journal. Returns the number of bytes.
    pub(crate) fn write<W: Write>(
        &self,
        copy: &Copy<'_>,
        writer: &mut Writer<W>,
        warn_of_names: bool,
    ) -> Result<u64> {
        let geo = copy.source.geo;
        if self.handling == Handling::Omitted {
            return Ok(0);
        }
        let (part, dev, (start, end)) = match (&self.log_dev, self.internal(geo)) {
            (_, Some(range)) => (Part::Data, &self.dev, range),
            (Some(log_dev), None) if geo.logstart.is_none() => {
                let sectors = log_dev.size().0 / SECTOR as u64;
                (Part::Log, log_dev, (0, sectors.min(geo.log_bbs().into())))
            }
            _ => {
                copy.source.broken(|| "the journal does not lie within the volume".to_owned());
                return Ok(0);
            }
        };
        if warn_of_names && self.clear.is_none() {
            let text = || "the journal is in the file with its clear names".to_owned();
            copy.source.sink.warn(WarningKind::Journal, text);
        }
        let total = end.saturating_sub(start) * SECTOR as u64;
        let mut buffer = vec![0; PIECE];
        let mut at = start;
        while at < end {
            copy.check_cancelled()?;
            let blocks = PIECE_BLOCKS.min(usize::try_from(end - at).unwrap_or(PIECE_BLOCKS));
            let bytes = &mut buffer[..blocks * SECTOR];
            match &self.clear {
                Some(clear) => clear_piece(clear, (start, at), bytes),
                None => {
                    if let Err(error) = dev.read_at(byte_of(at), bytes) {
                        copy.source.unreadable(Daddr(at), &error);
                        if copy.stop_on_error {
                            return Err(Error::Device(error));
                        }
                        at += blocks as u64;
                        continue;
                    }
                }
            }
            writer.put(part, Daddr(at), bytes).map_err(Error::Write)?;
            at += blocks as u64;
            copy.progress.report(Phase::Journal, (at - start) * SECTOR as u64, total);
        }
        Ok(total)
    }
}

/// Fills `bytes`, the blocks of the journal from sector `at` on, with what is left of them.
fn clear_piece(clear: &Cleared, (start, at): (u64, u64), bytes: &mut [u8]) {
    bytes.fill(0);
    let first = u32::try_from(at - start).unwrap_or(u32::MAX);
    let (blocks, _) = bytes.as_chunks_mut::<SECTOR>();
    for (number, block) in (first..).zip(blocks) {
        clear.fill(LogBlock(number), block);
    }
}
