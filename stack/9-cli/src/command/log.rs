//! `xfskit log`: prints the journal as it is on the device.

use xfskit::raw::inspect::log::{self, Options, Show, Span};
use xfskit::raw::log::Log;
use xfskit::raw::units::Daddr;

use super::open::{self, about};
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::metadata::{self, View};
use crate::out::Out;

/// `xfskit log`
pub(crate) fn run(args: &metadata::Log, out: &Out) -> Outcome {
    let name = &*args.target.name;
    let device = open::device(name)?;
    let geo = open::superblock(name, &*device, out)?.geometry();
    let external = args.target.log().as_deref().map(open::device_whole).transpose()?;
    let (device, start) = match (geo.log_daddr(), external) {
        (Some(start), _) => (device, start),
        (None, Some(log)) => (log, Daddr(0)),
        (None, None) => {
            return Err(Failure::cannot(format!("{name}: the journal is on a device of its own"))
                .hint("Name it with --logdev DEVICE."));
        }
    };
    let damaged = |error: &xfskit::raw::log::Error| {
        Failure::problem(about(name, error))
            .hint("--norecovery has other commands read the volume without its journal.")
    };
    let journal = Log::open(&*device, start, &geo).map_err(|e| damaged(&e))?;
    for record in journal.healed() {
        out.note(&format!("healed: {}; read from the other members", record.corruption));
    }
    let options = Options {
        show: match args.show {
            View::Records => Show::Records,
            View::Operations => Show::Operations,
            View::Transactions => Show::Transactions,
        },
        span: if args.all { Span::Lap } else { Span::Active },
        data: args.data,
        json: out.json(),
    };
    match log::print(&journal, options, &mut out.writer()) {
        Ok(()) => Ok(ExitStatus::Success),
        Err(log::Error::Log(error)) => Err(damaged(&error)),
        Err(log::Error::Output(error)) => Err(Failure::cannot(format!("standard output: {error}"))),
    }
}
