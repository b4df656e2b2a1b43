//! The journal's state: whether it is clean, and its head.

use xfskit_block::BlockDevice;
use xfskit_format::corruption::Severity;
use xfskit_format::{Expected, Location};
use xfskit_log::Log;
use xfskit_units::{Daddr, Lsn};

use crate::finding::Healing;
use crate::volume::Volume;

/// What later phases need from the journal.
pub(crate) struct Journal {
    /// No block of the volume may be newer than this.
    pub head: Option<Lsn>,
    /// True if nothing waits for replay.
    pub clean: bool,
}

/// Checks the journal, which is on `log_dev` if it is not internal.
pub(crate) fn check(vol: &Volume<'_>, log_dev: Option<&dyn BlockDevice>) -> Journal {
    let unknown = Journal { head: None, clean: false };
    let at = Location::of("journal");
    let inside = vol.geo.log_daddr().map(|daddr| (vol.dev, daddr));
    let Some((dev, start)) = inside.or(log_dev.map(|dev| (dev, Daddr(0)))) else {
        let result = vol.ctx(at).require("log.device", false, "the journal's device", "none");
        vol.sink.warning(result);
        return unknown;
    };
    let log = match Log::open(dev, start, &vol.geo) {
        Ok(log) => log,
        Err(xfskit_log::Error::Corrupt(corruption)) => {
            vol.sink.report(Severity::Error, corruption);
            return unknown;
        }
        Err(xfskit_log::Error::Device(error)) => {
            let readable = Expected::Described("readable bytes".into());
            vol.fatal(Err(vol.ctx(at).corruption("device.read", readable, error.to_string())));
            return unknown;
        }
    };
    for record in log.healed() {
        let healing = if record.rewritten { Healing::Rewritten } else { Healing::Read };
        vol.sink.report_healed(Box::new(record.corruption.clone()), healing);
    }
    let clean = log.is_clean();
    if !clean {
        let wanted = "a journal without changes to replay";
        let found = format!("changes from {} to {} wait for replay", log.tail(), log.head());
        vol.sink.warning(vol.ctx(at).fail("log.dirty", wanted, found));
    }
    if let Ok(Some(cycle)) = log.misleading_cycle() {
        let expected =
            Expected::Described(format!("{}, or one beside it", log.head().cycle()).into());
        vol.sink.report(Severity::Error, vol.ctx(at).corruption("log.cycle", expected, cycle));
    }
    // Its checksum is right: no write was torn. Linux does not mount with some of these.
    if let Some(damaged) = log.torn().filter(|torn| torn.is_whole) {
        vol.sink.report(Severity::Error, damaged.corruption.clone());
    }
    // A damaged record keeps all records behind it from being replayed.
    for transaction in log.transactions() {
        match transaction {
            Ok(_) => {}
            Err(xfskit_log::Error::Corrupt(corruption)) => {
                vol.sink.report(Severity::Error, corruption);
            }
            Err(xfskit_log::Error::Device(_)) => break,
        }
    }
    Journal { head: Some(log.head()), clean }
}
