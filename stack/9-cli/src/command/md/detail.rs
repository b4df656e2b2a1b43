//! `xfskit md assemble` and `md detail`: describe the array that members form.

use std::fmt::Write as _;

use serde_json::{Value, json};
use xfskit::raw::block::OpenMode;
use xfskit::raw::md::assemble::{AssembledMember, Freshness};
use xfskit::raw::md::superblock;
use xfskit::raw::md::{Assembly, Level};
use xfskit::raw::target::{self, ArrayName, Base, Target};

use super::examine::sized;
use crate::command::open::target_failure;
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::out::Out;
use crate::show;

/// `xfskit md assemble`
pub(crate) fn assemble(names: &[String], out: &Out) -> Outcome {
    let name = super::array_name(names);
    let assembly = assembly(&name)?;
    out.result(&object(&assembly), |_| brief(&assembly))?;
    warn(&assembly, out);
    Ok(ExitStatus::Success)
}

/// `xfskit md detail`
pub(crate) fn detail(name: &str, out: &Out) -> Outcome {
    let assembly = assembly(name)?;
    out.result(&object(&assembly), |_| full(name, &assembly))?;
    warn(&assembly, out);
    Ok(ExitStatus::Success)
}

fn warn(assembly: &Assembly, out: &Out) {
    for warning in &assembly.warnings {
        out.note(warning);
    }
}

fn assembly(name: &str) -> Result<Assembly, Failure> {
    let failed = |e: target::Error| target_failure(name, &e);
    let target = Target::parse(name).map_err(failed)?;
    match &target.base {
        Base::Array(array) if array.manual.is_none() => {
            target::assemble(array, OpenMode::ReadOnly).map_err(failed)
        }
        _ => Err(Failure::cannot(format!("{name} is not an array with superblocks"))
            .hint("Name an array by its members: md:MEMBER,MEMBER,…")),
    }
}

/// Returns the target that names the array by its members, in role order, then its journal,
/// replacements and spares. A writer that leaves these out would leave them behind.
fn target_of(assembly: &Assembly) -> String {
    let member =
        |i: &Option<usize>| i.as_ref().and_then(|i| Target::parse(&assembly.members[*i].name).ok());
    let mut members: Vec<Option<Target>> = assembly.roles.iter().map(member).collect();
    let beside = |member: &&AssembledMember| {
        matches!(
            member.freshness,
            Freshness::Journal | Freshness::Replacement { .. } | Freshness::Spare
        )
    };
    let beside = assembly.members.iter().filter(beside);
    members.extend(beside.filter_map(|member| Target::parse(&member.name).ok()).map(Some));
    ArrayName::new(None, members).to_string()
}

/// Returns the state of the array: clean, degraded, …
fn state(assembly: &Assembly) -> String {
    let mut words = vec![if assembly.is_dirty() { "active" } else { "clean" }];
    words.extend(assembly.is_degraded().then_some("degraded"));
    words.extend(assembly.is_dirty().then_some("resyncing"));
    words.extend(rebuilt(assembly).map(|_| "recovering"));
    words.extend(assembly.reshaped.is_some().then_some("reshaping"));
    words.join(", ")
}

/// Returns the progress of rebuilding members and replacements, in percent: that of the one with
/// the least.
fn rebuilt(assembly: &Assembly) -> Option<u64> {
    let has = |member: &AssembledMember| match member.freshness {
        Freshness::Rebuilding { until, .. } => Some(until.0),
        Freshness::Replacement { .. } => {
            Some(member.superblock.recovery_offset().map_or(u64::MAX, |until| until.0))
        }
        _ => None,
    };
    let least = assembly.members.iter().filter_map(has).min()?;
    Some(percent(least, assembly.geometry.component_size().0))
}

/// Returns the part of the array that is in sync after an unclean shutdown, in percent.
fn resynced(assembly: &Assembly) -> Option<u64> {
    let geometry = &assembly.geometry;
    let all = match geometry.level() {
        Level::Raid10 => geometry.array_size(),
        _ => geometry.component_size(),
    };
    let from = assembly.superblock().resync_offset().filter(|_| assembly.is_dirty())?;
    Some(percent(from.0, all.0))
}

fn percent(part: u64, all: u64) -> u64 {
    (u128::from(part.min(all)) * 100 / u128::from(all.max(1))).try_into().unwrap_or(100)
}

/// Describes a member's role in the array.
fn role_words(member: &AssembledMember) -> String {
    match (member.freshness, member.superblock.recovery_offset()) {
        (Freshness::Replacement { .. }, Some(until)) => {
            format!("{}, {until} sectors are valid", words(member.freshness))
        }
        (Freshness::Rebuilding { .. }, _) if member.superblock.recovers_by_bitmap() => {
            "came back, lacks what the bitmap names".into()
        }
        _ => words(member.freshness),
    }
}

/// Describes a member's freshness.
pub(super) fn words(freshness: Freshness) -> String {
    match freshness {
        Freshness::InSync { .. } => "in sync".into(),
        Freshness::Rebuilding { until, .. } => format!("rebuilding, {until} sectors are valid"),
        Freshness::Replacement { role } => format!("to replace role {role}"),
        Freshness::Spare => "spare".into(),
        Freshness::Journal => "journal".into(),
        Freshness::Stale { events } => format!("stale, at {events} events"),
        Freshness::Faulty => "left out, the others say it failed".into(),
    }
}

/// Returns the member of each role, then the members without a role.
fn rows(assembly: &Assembly) -> Vec<(String, String, String)> {
    let serving = assembly.roles.iter().enumerate().map(|(role, member)| {
        let member = member.map(|i| &assembly.members[i]);
        let name = member.map_or("missing".to_owned(), |member| member.name.clone());
        (role.to_string(), name, member.map_or(String::new(), role_words))
    });
    let others = assembly.members.iter().enumerate();
    let others = others.filter(|(i, _)| !assembly.roles.contains(&Some(*i)));
    let others = others.map(|(_, m)| ("-".to_owned(), m.name.clone(), role_words(m)));
    serving.chain(others).collect()
}

/// Returns level, layout, chunk and size in a line.
fn shape(assembly: &Assembly) -> String {
    let geometry = &assembly.geometry;
    let mut parts = vec![geometry.level().to_string()];
    parts.extend(geometry.layout().name().filter(|_| geometry.level() != Level::Raid0));
    if geometry.chunk().0 != 0 {
        parts.push(format!("chunks of {}", show::human(geometry.chunk_bytes().0)));
    }
    parts.push(format!("{} members", geometry.raid_disks()));
    parts.push(show::human(geometry.array_size().byte_len().0));
    parts.join(", ")
}

/// Formats the output of `md assemble`.
fn brief(assembly: &Assembly) -> String {
    let sb = assembly.superblock();
    let name = sb.name().map_or_else(String::new, |name| show::name(name.as_bytes()));
    let mut text = format!("{} {name}\n", superblock::hex(sb.set_uuid()));
    let _ = writeln!(text, "  {}", shape(assembly));
    let (version, events) = (assembly.version(), sb.events());
    let _ = writeln!(text, "  metadata {version}, {events} events, {}", state(assembly));
    let rows = rows(assembly);
    let width = rows.iter().map(|(_, name, _)| name.len()).max().unwrap_or(0);
    for (role, name, words) in rows {
        let line = format!("  {role:>4}  {name:width$}  {words}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let _ = writeln!(text, "{}", target_of(assembly));
    text
}

/// `Key : value`, as mdadm aligns it.
macro_rules! row {
    ($text:expr, $key:literal, $($value:tt)*) => {
        let _ = writeln!($text, "{:>18} : {}", $key, format_args!($($value)*));
    };
}

/// Formats the output of `md detail`.
fn full(name: &str, assembly: &Assembly) -> String {
    let (sb, geometry) = (assembly.superblock(), &assembly.geometry);
    let time =
        |time: superblock::Time| show::time_c(i64::try_from(time.seconds).unwrap_or(i64::MAX));
    let mut text = format!("{name}:\n");
    row!(text, "Version", "{}", assembly.version());
    row!(text, "Creation Time", "{}", time(sb.ctime()));
    row!(text, "Raid Level", "{}", geometry.level());
    let size = geometry.array_size().0;
    row!(text, "Array Size", "{}{}", size / 2, sized(size));
    let used = geometry.component_size().0;
    if used != 0 {
        row!(text, "Used Dev Size", "{}{}", used / 2, sized(used));
    }
    row!(text, "Raid Devices", "{}", sb.raid_disks());
    row!(text, "Total Devices", "{}", assembly.members.len());
    if assembly.bitmap.is_some() {
        row!(text, "Intent Bitmap", "Internal");
    }
    let _ = writeln!(text);
    row!(text, "Update Time", "{}", time(sb.utime()));
    row!(text, "State", "{}", state(assembly));
    let count = |wanted: fn(Freshness) -> bool| {
        assembly.members.iter().filter(|member| wanted(member.freshness)).count()
    };
    row!(text, "Active Devices", "{}", count(|s| matches!(s, Freshness::InSync { .. })));
    let out = |s| matches!(s, Freshness::Stale { .. } | Freshness::Faulty);
    row!(text, "Working Devices", "{}", assembly.members.len() - count(out));
    row!(text, "Failed Devices", "{}", count(out));
    let spare = |s| {
        matches!(s, Freshness::Spare | Freshness::Rebuilding { .. } | Freshness::Replacement { .. })
    };
    row!(text, "Spare Devices", "{}\n", count(spare));
    if let Some(layout) = geometry.layout().name() {
        row!(text, "Layout", "{layout}");
    }
    if geometry.chunk().0 != 0 {
        row!(text, "Chunk Size", "{}K", geometry.chunk().0 / 2);
    }
    row!(text, "Consistency Policy", "{}", policy(assembly));
    if let Some(percent) = resynced(assembly) {
        row!(text, "Resync Status", "{percent}% complete");
    }
    if let Some(percent) = rebuilt(assembly) {
        row!(text, "Rebuild Status", "{percent}% complete");
    }
    if let Some(reshaped) = &assembly.reshaped {
        row!(text, "Reshape Position", "{} sectors", reshaped.reshape.position);
        row!(text, "Delta Devices", "{}", reshaped.reshape.delta_disks);
    }
    let _ = writeln!(text);
    if let Some(name) = sb.name() {
        row!(text, "Name", "{}", show::name(name.as_bytes()));
    }
    row!(text, "UUID", "{}", superblock::hex(sb.set_uuid()));
    row!(text, "Events", "{}", sb.events());
    let _ = writeln!(text, "\n    RaidDevice  Member  State");
    for (role, name, words) in rows(assembly) {
        let line = format!("{role:>14}  {name}  {words}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Describes how the array becomes consistent after a crash.
fn policy(assembly: &Assembly) -> &'static str {
    let sb = assembly.superblock();
    match assembly.geometry.level() {
        Level::Linear | Level::Raid0 => "none",
        _ if sb.has_journal() => "journal",
        _ if sb.ppl().is_some() => "ppl",
        _ if sb.bitmap().is_some() => "bitmap",
        _ => "resync",
    }
}

/// Returns the description for programs.
fn object(assembly: &Assembly) -> Value {
    let (sb, geometry) = (assembly.superblock(), &assembly.geometry);
    let member = |(i, member): (usize, &AssembledMember)| {
        json!({
            "name": member.name,
            "role": assembly.roles.iter().position(|role| *role == Some(i)),
            "freshness": member.freshness,
            "state": role_words(member),
            "recovery_offset": member.superblock.recovery_offset(),
            "events": member.superblock.events(),
            "data_offset": member.superblock.data_offset(),
            "data_size": member.superblock.data_size(),
        })
    };
    json!({
        "target": target_of(assembly),
        "set_uuid": superblock::hex(sb.set_uuid()),
        "set_name": sb.name(),
        "version": assembly.version(),
        "level": geometry.level().name(),
        "layout": geometry.layout().name(),
        "chunk_bytes": geometry.chunk_bytes(),
        "raid_disks": geometry.raid_disks(),
        "size_bytes": geometry.array_size().byte_len(),
        "events": sb.events(),
        "reference": assembly.reference(),
        "clean": !assembly.is_dirty(),
        "degraded": assembly.is_degraded(),
        "missing": assembly.missing(),
        "state": state(assembly),
        "resync_offset": sb.resync_offset(),
        "resync_percent": resynced(assembly),
        "rebuild_percent": rebuilt(assembly),
        "policy": policy(assembly),
        "bitmap_dirty": assembly.bitmap.as_ref().map(xfskit::raw::md::bitmap::Bitmap::dirty),
        "reshape": assembly.reshaped.as_ref().map(|reshaped| reshaped.reshape),
        "warnings": assembly.warnings,
        "members": assembly.members.iter().enumerate().map(member).collect::<Vec<_>>(),
    })
}
