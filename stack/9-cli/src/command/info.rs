//! `xfskit info`: describes a volume.

use serde::Serialize;
use xfskit::Volume;
use xfskit::raw::VolumeExt as _;
use xfskit::raw::core;
use xfskit::raw::log::Log;
use xfskit::raw::mkfs::{Summary, compat};
use xfskit::raw::units::Daddr;
use xfskit::raw::units::flags::FlagWord as _;

use super::df::Usage;
use super::open;
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

/// `xfskit info`
pub(crate) fn run(args: &Info, out: &Out) -> Outcome {
    if args.compat {
        return readers(args, out);
    }
    let volume = open::volume(&args.target, out)?;
    let name = &*args.target.name;
    let description = Description {
        summary: Summary::of(volume.fs().volume().geo(), name, args.target.log().as_deref()),
        label: label(volume.fs().volume()),
        features: features(volume.fs().volume()),
        usage: Usage::of(&volume),
        journal: journal(args, &volume),
    };
    out.result(&description, text)?;
    Ok(out.status())
}

/// `xfskit info --compat`: lists the readers that can mount the volume. Reads only the superblock.
fn readers(args: &Info, out: &Out) -> Outcome {
    let name = &*args.target.name;
    let device = open::device(name)?;
    let sb = open::superblock(name, &*device, out)?;
    for &target in compat::Target::ALL {
        out.result(&compat::compatibility(&sb.geometry(), target), |compatibility| {
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

fn label(volume: &core::Volume) -> String {
    String::from_utf8_lossy(&volume.label()).into_owned()
}

/// Returns the names of all features, in the order of the feature words.
fn features(volume: &core::Volume) -> Vec<&'static str> {
    let f = &volume.geo().features;
    let v4 = f.versionnum.names().chain(f.features2.names());
    let v5 = f.ro_compat.names().chain(f.incompat.names()).chain(f.log_incompat.names());
    let mut names: Vec<&'static str> = v4.chain(v5).collect();
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(*name));
    names
}

/// Reads the journal as it is on the device, before any replay.
fn journal(args: &Info, volume: &Volume) -> Journal {
    let geo = volume.fs().volume().geo();
    let unknown = |error| Journal { clean: None, head: None, tail: None, error: Some(error) };
    let log = args.target.log();
    let (name, start) = match (geo.log_daddr(), &log) {
        (Some(start), _) => (&*args.target.name, start),
        (None, Some(name)) => (name.as_str(), Daddr(0)),
        (None, None) => return unknown("it is external; name its device with --logdev".into()),
    };
    let device = match open::device_whole(name) {
        Ok(device) => device,
        Err(failure) => return unknown(failure.message),
    };
    match Log::open(&*device, start, geo) {
        Ok(log) => Journal {
            clean: Some(log.is_clean()),
            head: Some(log.head().to_string()),
            tail: Some(log.tail().to_string()),
            error: None,
        },
        Err(error) => unknown(chain(&error)),
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
