//! `xfskit info`: describes a volume.

use serde::Serialize;
use xfskit::{ErrorKind, Summary, Superblock, compat};

use super::df::Usage;
use super::{mount, open};
use crate::exit::Outcome;
use crate::grammar::read::Info;
use crate::out::{Out, chain};
use crate::show;

/// The result.
#[derive(Serialize)]
struct Description {
    #[serde(flatten)]
    summary: Summary,
    label: String,
    features: Vec<&'static str>,
    usage: Usage,
    journal: Journal,
}

/// The state of the journal.
#[derive(Serialize)]
struct Journal {
    /// Clean, or waiting for replay; `None` if it cannot be read.
    clean: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tail: Option<String>,
    /// The reason why it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// `xfskit info`: prints geometry, features, free space and the state of the journal.
pub(crate) fn run(args: &Info, out: &Out) -> Outcome {
    if args.compat {
        return readers(args, out);
    }
    let volume = mount::volume_to_read(&args.target, out)?;
    let name = &*args.target.name;
    let journal = if mount::is_mounted(name) {
        let error = Some("it is in use by the mount".to_owned());
        Journal { clean: None, head: None, tail: None, error }
    } else {
        journal(args)
    };
    let description = Description {
        summary: volume.summary(name, args.target.log().as_deref()),
        label: volume.label().to_string_lossy().into_owned(),
        features: volume.features(),
        usage: Usage::of(&volume)?,
        journal,
    };
    out.result(&description, text)?;
    Ok(out.status())
}

/// `xfskit info --compat`: lists the readers that can mount the volume. Reads only the superblock.
fn readers(args: &Info, out: &Out) -> Outcome {
    let name = &*args.target.name;
    let superblock = open::superblock(name, out)?;
    for &target in compat::Target::ALL {
        out.result(&superblock.compatibility(target), |compatibility| {
            let stops =
                compatibility.stops.iter().map(|stop| format!("{}: {}", stop.feature, stop.why));
            let reasons: Vec<String> = stops.chain(compatibility.notes.iter().cloned()).collect();
            let (target, access) =
                (compatibility.target.to_string(), compatibility.access.to_string());
            let line = format!("{target:<12} {access:<15} {}", reasons.join("; "));
            format!("{}\n", line.trim_end())
        })?;
    }
    Ok(out.status())
}

/// Reads the journal as it is on the device, before any replay.
fn journal(args: &Info) -> Journal {
    let (name, log) = (&*args.target.name, args.target.log());
    let state = Superblock::read(name)
        .and_then(|superblock| xfskit::Journal::of(&superblock, name, log.as_deref()))
        .and_then(|journal| journal.state());
    match state {
        Ok(state) => Journal {
            clean: Some(state.clean),
            head: Some(state.head.to_string()),
            tail: Some(state.tail.to_string()),
            error: None,
        },
        Err(error) => Journal {
            clean: None,
            head: None,
            tail: None,
            error: Some(match error.kind() {
                ErrorKind::JournalUnreadable => {
                    "it is external; name its device with --logdev".into()
                }
                _ => chain(error.reason()),
            }),
        },
    }
}

fn text(info: &Description) -> String {
    let Description { summary, label, features, usage, journal } = info;
    let state = match (journal.clean, &journal.error) {
        (Some(true), _) => "clean".to_owned(),
        (Some(false), _) => "dirty: it waits for its replay".to_owned(),
        (None, error) => format!("unknown: {}", error.as_deref().unwrap_or("not read")),
    };
    let place = match (&journal.head, &journal.tail) {
        (Some(head), Some(tail)) => format!(" (head {head}, tail {tail})"),
        _ => String::new(),
    };
    let label = if label.is_empty() { "none" } else { label };
    let version = if summary.geometry.v5() { 5 } else { 4 };
    format!(
        "{summary}\nlabel     {label}\nuuid      {}\nversion   {version}: {}\nspace     {} of {} in \
         use ({}%)\ninodes    {} in use, {} free\njournal   {state}{place}\n",
        summary.geometry.uuid,
        features.join(" "),
        show::human(usage.used),
        show::human(usage.size),
        usage.percent(),
        usage.inodes_used,
        usage.inodes_free,
    )
}
