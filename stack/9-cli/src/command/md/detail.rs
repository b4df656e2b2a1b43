//! `xfskit md assemble` and `md detail`: describe the array that members form.

use std::fmt::Write as _;

use serde_json::{Value, json};
use xfskit::md::{Array, Freshness, Level, Member, Time, format_uuid};

use super::examine::sized;
use super::failed;
use crate::command::action::{Action, Job};
use crate::command::console::Console;
use crate::command::mount;
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::out::Out;
use crate::show;

/// `xfskit md assemble`: prints the array that members form, without running it.
pub(crate) fn assemble(names: &[String], out: &Out) -> Outcome {
    let array = open(&super::array_target(names)?.to_string())?;
    out.result(&object(&array), |_| brief(&array))?;
    warn(&array, out);
    Ok(ExitStatus::Success)
}

/// `xfskit md detail`: prints properties, state and members of an array, as mdadm does.
pub(crate) fn detail(name: &str, out: &Out) -> Outcome {
    if let Some(status) = mount::run_on_array(name, &Job::new(Action::Detail, None), out)? {
        return Ok(status);
    }
    let array = open(name)?;
    out.result(&object(&array), |_| full(name, &array))?;
    warn(&array, out);
    Ok(ExitStatus::Success)
}

/// Prints the same of an array that runs.
pub(super) fn show(array: &Array, console: &dyn Console) -> Outcome {
    console.result(&object(array), &full(&array.target(), array))?;
    for warning in array.warnings() {
        console.note(warning);
    }
    Ok(ExitStatus::Success)
}

fn open(name: &str) -> Result<Array, Failure> {
    Array::open(name).map_err(|e| failed(name, &e))
}

fn warn(array: &Array, out: &Out) {
    for warning in array.warnings() {
        out.note(warning);
    }
}

/// Returns the member of each role, then the members without a role.
fn rows(array: &Array) -> Vec<(String, String, String)> {
    let members = array.members();
    let serving = (0..).zip(0..array.raid_disks_listed()).map(|(role, _): (usize, u32)| {
        let member = members.iter().find(|member| member.role == Some(role));
        let name = member.map_or("missing".to_owned(), |member| member.name.clone());
        (role.to_string(), name, member.map_or(String::new(), |member| member.state.clone()))
    });
    let others = members.iter().filter(|member| member.role.is_none());
    let others = others.map(|m| ("-".to_owned(), m.name.clone(), m.state.clone()));
    serving.chain(others).collect()
}

/// Returns level, layout, chunk and size in a line.
fn shape(array: &Array) -> String {
    let mut parts = vec![array.level().to_string()];
    parts.extend(array.layout().name().filter(|_| array.level() != Level::Raid0));
    if array.chunk_size() != 0 {
        parts.push(format!("chunks of {}", show::human(array.chunk_size())));
    }
    parts.push(format!("{} members", array.raid_disks()));
    parts.push(show::human(array.size()));
    parts.join(", ")
}

/// Formats the output of `md assemble`.
fn brief(array: &Array) -> String {
    let name = array.set_name().map_or_else(String::new, |name| show::name(name.as_bytes()));
    let mut text = format!("{} {name}\n", format_uuid(array.uuid()));
    let _ = writeln!(text, "  {}", shape(array));
    let (version, events) = (array.version(), array.events());
    let _ = writeln!(text, "  metadata {version}, {events} events, {}", array.state());
    let rows = rows(array);
    let width = rows.iter().map(|(_, name, _)| name.len()).max().unwrap_or(0);
    for (role, name, words) in rows {
        let line = format!("  {role:>4}  {name:width$}  {words}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    let _ = writeln!(text, "{}", array.target());
    text
}

/// `Key : value`, as mdadm aligns it.
macro_rules! row {
    ($text:expr, $key:literal, $($value:tt)*) => {
        let _ = writeln!($text, "{:>18} : {}", $key, format_args!($($value)*));
    };
}

/// Formats the output of `md detail`.
fn full(name: &str, array: &Array) -> String {
    let time = |time: Time| show::time_c(i64::try_from(time.seconds).unwrap_or(i64::MAX));
    let mut text = format!("{name}:\n");
    row!(text, "Version", "{}", array.version());
    row!(text, "Creation Time", "{}", time(array.created()));
    row!(text, "Raid Level", "{}", array.level());
    let size = array.size() / 512;
    row!(text, "Array Size", "{}{}", size / 2, sized(size));
    let used = array.component_size() / 512;
    if used != 0 {
        row!(text, "Used Dev Size", "{}{}", used / 2, sized(used));
    }
    let members = array.members();
    row!(text, "Raid Devices", "{}", array.raid_disks_listed());
    row!(text, "Total Devices", "{}", members.len());
    if array.bitmap_dirty().is_some() {
        row!(text, "Intent Bitmap", "Internal");
    }
    let _ = writeln!(text);
    row!(text, "Update Time", "{}", time(array.updated()));
    row!(text, "State", "{}", array.state());
    counts(&mut text, &members);
    if let Some(layout) = array.layout().name() {
        row!(text, "Layout", "{layout}");
    }
    if array.chunk_size() != 0 {
        row!(text, "Chunk Size", "{}K", array.chunk_size() / 1024);
    }
    row!(text, "Consistency Policy", "{}", array.consistency_policy());
    if let Some(percent) = array.resynced_percent() {
        row!(text, "Resync Status", "{percent}% complete");
    }
    if let Some(percent) = array.rebuilt_percent() {
        row!(text, "Rebuild Status", "{percent}% complete");
    }
    if let Some(reshape) = array.reshape() {
        row!(text, "Reshape Position", "{} sectors", reshape.position);
        row!(text, "Delta Devices", "{}", reshape.delta_disks);
    }
    let _ = writeln!(text);
    if let Some(name) = array.set_name() {
        row!(text, "Name", "{}", show::name(name.as_bytes()));
    }
    row!(text, "UUID", "{}", format_uuid(array.uuid()));
    row!(text, "Events", "{}", array.events());
    let _ = writeln!(text, "\n    RaidDevice  Member  State");
    for (role, name, words) in rows(array) {
        let line = format!("{role:>14}  {name}  {words}");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Formats how many members are active, left out and spare.
fn counts(text: &mut String, members: &[Member]) {
    let count = |wanted: fn(Freshness) -> bool| {
        members.iter().filter(|member| wanted(member.freshness)).count()
    };
    row!(text, "Active Devices", "{}", count(|s| matches!(s, Freshness::InSync { .. })));
    let out = |s| matches!(s, Freshness::Stale { .. } | Freshness::Faulty);
    row!(text, "Working Devices", "{}", members.len() - count(out));
    row!(text, "Failed Devices", "{}", count(out));
    let spare = |s| {
        matches!(s, Freshness::Spare | Freshness::Rebuilding { .. } | Freshness::Replacement { .. })
    };
    row!(text, "Spare Devices", "{}\n", count(spare));
}

/// Returns the description for programs.
fn object(array: &Array) -> Value {
    let member = |member: &Member| {
        json!({
            "name": member.name,
            "role": member.role,
            "freshness": member.freshness,
            "state": member.state,
            "recovery_offset": member.recovery_offset,
            "events": member.events,
            "data_offset": member.data_offset,
            "data_size": member.data_size,
        })
    };
    json!({
        "target": array.target(),
        "set_uuid": format_uuid(array.uuid()),
        "set_name": array.set_name(),
        "version": array.version(),
        "level": array.level().name(),
        "layout": array.layout().name(),
        "chunk_bytes": array.chunk_size(),
        "raid_disks": array.raid_disks(),
        "size_bytes": array.size(),
        "events": array.events(),
        "reference": array.reference(),
        "clean": array.is_clean(),
        "degraded": array.is_degraded(),
        "missing": array.missing(),
        "state": array.state(),
        "resync_offset": array.resync_offset(),
        "resync_percent": array.resynced_percent(),
        "rebuild_percent": array.rebuilt_percent(),
        "policy": array.consistency_policy(),
        "bitmap_dirty": array.bitmap_dirty(),
        "reshape": array.reshape(),
        "warnings": array.warnings(),
        "members": array.members().iter().map(member).collect::<Vec<_>>(),
    })
}
