//! `xfskit md examine`: prints the superblock of a member, as `mdadm --examine` does.

use std::fmt::Write as _;

use serde_json::{Value, json};
use xfskit::md::{
    DeviceEntry, Format, FormatV1, FormatV090, Layout, Level, Role, Superblock, Time, examine,
    format_uuid,
};

use super::failed;
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::out::{Out, chain};
use crate::show;

/// `xfskit md examine`: prints the superblock of each member. Exit code 1 if a member has no
/// superblock, or a damaged one.
pub(crate) fn run(names: &[String], out: &Out) -> Outcome {
    let mut whole = true;
    let array = super::array_target(names)?.to_string();
    for examined in examine(names).map_err(|e| failed(&array, &e))? {
        let name = &examined.name;
        let found =
            examined.superblock.map_err(|e| Failure::cannot(format!("{name}: {}", chain(&e))))?;
        let Some(sb) = found else {
            whole = false;
            let none = json!({ "member": name, "superblock": null });
            out.result(&none, |_| format!("{name}: no md superblock\n"))?;
            continue;
        };
        whole &= sb.corruption.is_none();
        if out.json() {
            out.object(&object(name, &sb))?;
        } else {
            out.raw(format!("{name}:\n{}", text(&sb)).as_bytes())?;
        }
        if let Some(fault) = &sb.corruption {
            out.note(&format!("{name}: {fault}"));
        }
    }
    Ok(ExitStatus::of(whole))
}

/// Formats what `mdadm --examine` prints below the member's name.
fn text(sb: &Superblock) -> String {
    let mut text = String::new();
    let ok = match &sb.format {
        Format::V090(format) => text_v090(&mut text, sb, format),
        Format::V1(format) => text_v1(&mut text, sb, format),
        _ => Ok(()),
    };
    // Writing to a string cannot fail.
    debug_assert!(ok.is_ok());
    text
}

/// `Key : value`, as mdadm aligns it.
macro_rules! row {
    ($text:expr, $key:literal, $($value:tt)*) => {
        writeln!($text, "{:>15} : {}", $key, format_args!($($value)*))
    };
}

fn text_v1(text: &mut String, sb: &Superblock, format: &FormatV1) -> std::fmt::Result {
    row!(text, "Magic", "{:08x}", sb.magic)?;
    row!(text, "Version", "{}", sb.version)?;
    row!(text, "Feature Map", "{:#x}", format.feature_map)?;
    row!(text, "Array UUID", "{}", format_uuid(sb.set_uuid))?;
    let name = sb.set_name.as_deref().unwrap_or_default();
    row!(text, "Name", "{}", show::name(name.as_bytes()))?;
    row!(text, "Creation Time", "{}", time(sb.created))?;
    row!(text, "Raid Level", "{}", level(sb.level))?;
    row!(text, "Raid Devices", "{}\n", sb.raid_disks)?;
    sizes(text, sb, format)?;
    row!(text, "Super Offset", "{} sectors", sb.at)?;
    if let Some(offset) = format.recovery_offset {
        row!(text, "Recovery Offset", "{offset} sectors")?;
    }
    if sb.reshape.is_none() {
        let (before, after) = format.unused;
        row!(text, "Unused Space", "before={before} sectors, after={after} sectors")?;
    }
    row!(text, "State", "{}", if sb.resync_offset.is_none() { "clean" } else { "active" })?;
    let device = sb.device_uuid.map(format_uuid).unwrap_or_default();
    row!(text, "Device UUID", "{device}\n")?;
    if sb.has_bitmap {
        row!(text, "Internal Bitmap", "{} sectors from superblock", format.bitmap_offset)?;
    }
    if let Some((offset, len)) = format.ppl {
        row!(text, "PPL", "{len} sectors at offset {offset} sectors from superblock")?;
    }
    reshape(text, sb)?;
    flags(text, sb)?;
    row!(text, "Update Time", "{}", time(sb.updated))?;
    if let Some((offset, len)) = format.bad_block_log {
        let entries = len.byte_len().0 / 8;
        let present = if format.has_bad_blocks { " - bad blocks present." } else { "" };
        row!(
            text,
            "Bad Block Log",
            "{entries} entries available at offset {offset} sectors{present}"
        )?;
    }
    checksum(text, sb)?;
    row!(text, "Events", "{}\n", sb.events)?;
    chunks(text, sb, format.has_raid0_layout)?;
    writeln!(text)?;
    writeln!(text, "   Device Role : {}", role(sb))?;
    let states = "('A' == active, '.' == missing, 'R' == replacing)";
    writeln!(text, "   Array State : {} {states}", sb.array_state)
}

fn sizes(text: &mut String, sb: &Superblock, format: &FormatV1) -> std::fmt::Result {
    let (avail, used) = (sb.data_size.0, sb.size.0);
    row!(text, "Avail Dev Size", "{avail} sectors{}", sized(avail))?;
    if let Some(array) = sb.array_size() {
        row!(text, "Array Size", "{} KiB{}", array.0 / 2, sized(array.0))?;
    }
    if used != avail && sb.level != 0 {
        row!(text, "Used Dev Size", "{used} sectors{}", sized(used))?;
    }
    if sb.data_offset.0 != 0 {
        row!(text, "Data Offset", "{} sectors", sb.data_offset)?;
    }
    if let Some(new) = format.new_data_offset {
        row!(text, "New Offset", "{new} sectors")?;
    }
    Ok(())
}

fn reshape(text: &mut String, sb: &Superblock) -> std::fmt::Result {
    let Some(reshape) = sb.reshape else { return Ok(()) };
    let position = reshape.position.0;
    row!(text, "Reshape pos'n", "{}{}", position / 2, sized(position))?;
    let (delta, disks) = (reshape.delta_disks, i64::from(sb.raid_disks));
    let other = disks - i64::from(delta.unsigned_abs());
    match delta {
        0 => {}
        1.. => row!(text, "Delta Devices", "{delta} ({other}->{disks})")?,
        _ => row!(text, "Delta Devices", "{delta} ({disks}->{other})")?,
    }
    if reshape.new_level != sb.level {
        row!(text, "New Level", "{}", level(reshape.new_level))?;
    }
    if reshape.new_layout != sb.layout {
        let new = Layout::from_numbers(reshape.new_level, reshape.new_layout).ok();
        let name = new.and_then(Layout::name).unwrap_or_else(|| reshape.new_layout.to_string());
        row!(text, "New Layout", "{name}")?;
    }
    if reshape.new_chunk != sb.chunk {
        row!(text, "New Chunksize", "{}K", reshape.new_chunk.0 / 2)?;
    }
    writeln!(text)
}

fn flags(text: &mut String, sb: &Superblock) -> std::fmt::Result {
    let named = [(sb.write_mostly, "write-mostly"), (sb.failfast, "failfast")];
    let set: Vec<&str> = named.iter().filter(|(set, _)| *set).map(|(_, name)| *name).collect();
    if set.is_empty() { Ok(()) } else { row!(text, "Flags", "{}", set.join(" ")) }
}

fn checksum(text: &mut String, sb: &Superblock) -> std::fmt::Result {
    let (found, expected) = sb.checksum;
    if found == expected {
        row!(text, "Checksum", "{found:x} - correct")
    } else {
        row!(text, "Checksum", "{found:x} - expected {expected:x}")
    }
}

fn chunks(text: &mut String, sb: &Superblock, has_raid0_layout: bool) -> std::fmt::Result {
    if let Some(name) = sb.layout_name().filter(|_| sb.level != 0 || has_raid0_layout) {
        row!(text, "Layout", "{name}")?;
    }
    match sb.level {
        -1 => row!(text, "Rounding", "{}K", sb.chunk.0 / 2),
        0 | 4 | 5 | 6 | 10 => row!(text, "Chunk Size", "{}K", sb.chunk.0 / 2),
        _ => Ok(()),
    }
}

fn text_v090(text: &mut String, sb: &Superblock, format: &FormatV090) -> std::fmt::Result {
    row!(text, "Magic", "{:08x}", sb.magic)?;
    let (major, minor, patch) = format.version;
    row!(text, "Version", "{major}.{minor}.{patch:02}")?;
    row!(text, "UUID", "{}", format_uuid(sb.set_uuid))?;
    row!(text, "Creation Time", "{}", time(sb.created))?;
    row!(text, "Raid Level", "{}", level(sb.level))?;
    if sb.size.0 != 0 {
        row!(text, "Used Dev Size", "{}{}", sb.size.0 / 2, sized(sb.size.0))?;
    }
    if let Some(array) = sb.array_size() {
        row!(text, "Array Size", "{}{}", array.0 / 2, sized(array.0))?;
    }
    row!(text, "Raid Devices", "{}", sb.raid_disks)?;
    row!(text, "Total Devices", "{}", format.total_devices)?;
    row!(text, "Preferred Minor", "{}\n", format.preferred_minor)?;
    reshape(text, sb)?;
    row!(text, "Update Time", "{}", time(sb.updated))?;
    row!(text, "State", "{}", if format.is_clean { "clean" } else { "active" })?;
    if sb.has_bitmap {
        row!(text, "Internal Bitmap", "present")?;
    }
    row!(text, "Active Devices", "{}", format.active_devices)?;
    row!(text, "Working Devices", "{}", format.working_devices)?;
    row!(text, "Failed Devices", "{}", format.failed_devices)?;
    row!(text, "Spare Devices", "{}", format.spare_devices)?;
    checksum(text, sb)?;
    row!(text, "Events", "{}\n", sb.events)?;
    chunks(text, sb, false)?;
    writeln!(text, "\n      Number   Major   Minor   RaidDevice State")?;
    device(text, "this", &format.this)?;
    writeln!(text)?;
    for (i, entry) in &format.devices {
        device(text, &format!("{i:4}"), entry)?;
    }
    Ok(())
}

fn device(text: &mut String, name: &str, entry: &DeviceEntry) -> std::fmt::Result {
    let DeviceEntry { number, major, minor, raid_disk, state, .. } = entry;
    writeln!(text, "{name}{number:6}{major:8}{minor:9}{raid_disk:9}      {state}")
}

fn time(time: Time) -> String {
    show::time_c(i64::try_from(time.seconds).unwrap_or(i64::MAX))
}

/// Returns the name of a level, or its number.
fn level(number: i32) -> String {
    Level::from_number(number).map_or_else(|| number.to_string(), |level| level.name().into())
}

/// Formats sectors in MiB or GiB and MB or GB, if they are that large.
pub(super) fn sized(sectors: u64) -> String {
    let bytes = u128::from(sectors) * 512;
    let parts = |binary: u128, decimal: u128, letter: char| {
        let two = |unit: u128| {
            let hundredths = (bytes * 200 / unit).div_ceil(2);
            format!("{}.{:02}", hundredths / 100, hundredths % 100)
        };
        format!(" ({} {letter}iB {} {letter}B)", two(binary), two(decimal))
    };
    match bytes {
        0..5_120_000 => String::new(),
        _ if bytes < 2 << 30 => parts(1 << 20, 1_000_000, 'M'),
        _ if bytes < 2 << 40 => parts(1 << 30, 1_000_000_000, 'G'),
        _ => parts(1 << 40, 1_000_000_000_000, 'T'),
    }
}

fn role(sb: &Superblock) -> String {
    match sb.role {
        Role::Active(role) if sb.is_replacement => format!("Replacement device {role}"),
        Role::Active(role) => format!("Active device {role}"),
        Role::Spare | Role::Faulty => "spare".into(),
        Role::Journal => "Journal".into(),
    }
}

/// Returns the superblock for programs.
fn object(name: &str, sb: &Superblock) -> Value {
    let bitmap = sb.bitmap.map(|bitmap| {
        json!({
            "version": bitmap.version,
            "events": bitmap.events,
            "events_cleared": bitmap.events_cleared,
            "chunksize": bitmap.chunk_size,
            "sync_size": bitmap.sync_size,
            "bits": bitmap.bits,
            "dirty": bitmap.dirty,
        })
    });
    let ppl = sb.ppl.map(|log| json!({ "generation": log.generation, "entries": log.entries }));
    json!({
        "member": name,
        "version": sb.version,
        "corruption": sb.corruption,
        "at": sb.at,
        "set_uuid": format_uuid(sb.set_uuid),
        "set_name": sb.set_name,
        "device_uuid": sb.device_uuid.map(format_uuid),
        "ctime": sb.created,
        "utime": sb.updated,
        "level": level(sb.level),
        "layout": sb.layout_name(),
        "chunksize": sb.chunk,
        "raid_disks": sb.raid_disks,
        "size": sb.size,
        "data_offset": sb.data_offset,
        "data_size": sb.data_size,
        "events": sb.events,
        "resync_offset": sb.resync_offset,
        "recovery_offset": sb.recovery_offset,
        "dev_number": sb.dev_number,
        "role": sb.role,
        "array_state": sb.array_state,
        "reshape": sb.reshape,
        "write_mostly": sb.write_mostly,
        "journal": sb.has_journal,
        "bitmap": bitmap,
        "bad_blocks": sb.bad_blocks.iter().map(|r| [r.start.0, r.end.0]).collect::<Vec<_>>(),
        "ppl": ppl,
    })
}
