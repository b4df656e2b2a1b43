//! `xfskit log`: prints the journal as it is on the device.

use xfskit::inspect::{JournalPrint, Show, Span};
use xfskit::{ErrorKind, Journal};

use super::open::{self, about};
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::metadata::{self, View};
use crate::out::Out;

/// `xfskit log`: prints the journal, every item decoded.
pub(crate) fn run(args: &metadata::Log, out: &Out) -> Outcome {
    let name = &*args.target.name;
    let superblock = open::superblock(name, out)?;
    let log = args.target.log();
    let failed = |error: xfskit::Error| failure(name, &error);
    let journal = Journal::of(&superblock, name, log.as_deref()).map_err(failed)?;
    for corruption in journal.state().map_err(failed)?.healed {
        out.note(&format!("healed: {corruption}; read from the other members"));
    }
    let options = JournalPrint {
        show: match args.show {
            View::Records => Show::Records,
            View::Operations => Show::Operations,
            View::Transactions => Show::Transactions,
        },
        span: if args.all { Span::Lap } else { Span::Active },
        data: args.data,
        json: out.json(),
    };
    journal.print(options, &mut out.writer()).map_err(failed)?;
    Ok(ExitStatus::Success)
}

fn failure(name: &str, error: &xfskit::Error) -> Failure {
    let text = about(name, error.reason());
    match error.kind() {
        ErrorKind::JournalDamaged => Failure::problem(text)
            .hint("--norecovery has other commands read the volume without its journal."),
        ErrorKind::JournalUnreadable => {
            Failure::cannot(format!("{name}: the journal is on a device of its own"))
                .hint("Name it with --logdev DEVICE.")
        }
        _ => open::not_opened(name, error),
    }
}
