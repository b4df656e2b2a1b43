//! The journal's state: is it clean, and how far has it come?

use xfskit_block::BlockDevice;
use xfskit_format::{Expected, Location};
use xfskit_log::Log;
use xfskit_units::{Daddr, Lsn};

use crate::finding::{Healing, Severity};
use crate::volume::Volume;

/// What the later phases need to know of the journal.
pub(crate) struct Journal {
    /// No block of the volume may be newer than this.
    pub head: Option<Lsn>,
    /// True where nothing waits for its replay.
    pub clean: bool,
}

/// Judges the journal, which lies on `log_dev` where the volume has none inside.
pub(crate) fn judge(vol: &Volume<'_>, log_dev: Option<&dyn BlockDevice>) -> Journal {
    let unknown = Journal { head: None, clean: false };
    let at = Location::of("journal");
    let inside = vol.geo.log_daddr().map(|daddr| (vol.dev, daddr));
    let Some((dev, start)) = inside.or(log_dev.map(|dev| (dev, Daddr(0)))) else {
        let verdict = vol.ctx(at).require("log.device", false, "the journal's device", "none");
        vol.sink.warning(verdict);
        return unknown;
    };
    let log = match Log::open(dev, start, &vol.geo) {
        Ok(log) => log,
        Err(xfskit_log::Error::Corrupt(fault)) => {
            vol.sink.report(Severity::Error, fault);
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
    let wanted = "a journal without changes to replay";
    let found = format!("changes from {} to {}", log.tail(), log.head());
    vol.sink.warning(vol.ctx(at).require("log.dirty", clean, wanted, found));
    // A record that is damaged keeps all behind it from being replayed.
    for transaction in log.transactions() {
        match transaction {
            Ok(_) => {}
            Err(xfskit_log::Error::Corrupt(fault)) => vol.sink.report(Severity::Error, fault),
            Err(xfskit_log::Error::Device(_)) => break,
        }
    }
    Journal { head: Some(log.head()), clean }
}
