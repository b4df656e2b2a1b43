//! `xfskit md examine`: prints the superblock of a member, as `mdadm --examine` does.

use std::fmt::Write as _;

use serde_json::{Value, json};
use xfskit::raw::md::superblock::v1::{DevFlags, FeatureMap};
use xfskit::raw::md::superblock::{
    self, Found, Role, Superblock, SuperblockV1, SuperblockV090, v090,
};
use xfskit::raw::md::{Layout, Level, Member, bad_blocks, ppl};
use xfskit::raw::units::Sectors;
use xfskit::raw::units::flags::FlagWord as _;

use crate::exit::{ExitStatus, Failure, Outcome};
use crate::out::{Out, chain};
use crate::show;

/// `xfskit md examine`. Exit code 1 if a member has no superblock, or a damaged one.
pub(crate) fn run(names: &[String], out: &Out) -> Outcome {
    let mut whole = true;
    for member in super::members(names)?.into_iter().flatten() {
        let found = superblock::read(&member.device)
            .map_err(|e| Failure::cannot(format!("{}: {}", member.name, chain(&e))))?;
        let Some(found) = found else {
            whole = false;
            let none = json!({ "member": member.name, "superblock": null });
            out.result(&none, |_| format!("{}: no md superblock\n", member.name))?;
            continue;
        };
        whole &= found.corruption.is_none();
        if out.json() {
            out.object(&object(&member, &found))?;
        } else {
            out.raw(format!("{}:\n{}", member.name, text(&found)).as_bytes())?;
        }
        if let Some(fault) = &found.corruption {
            out.note(&format!("{}: {fault}", member.name));
        }
    }
    Ok(ExitStatus::of(whole))
}

/// Formats what `mdadm --examine` prints below the member's name.
pub(crate) fn text(found: &Found) -> String {
    let mut text = String::new();
    let ok = match &found.superblock {
        Superblock::V1(sb) => text_v1(&mut text, found, sb),
        Superblock::V090(sb) => text_v090(&mut text, found, sb),
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

fn text_v1(text: &mut String, found: &Found, sb: &SuperblockV1) -> std::fmt::Result {
    let common = &found.superblock;
    row!(text, "Magic", "{:08x}", sb.magic)?;
    row!(text, "Version", "{}", found.version)?;
    row!(text, "Feature Map", "{:#x}", sb.feature_map)?;
    row!(text, "Array UUID", "{}", superblock::hex(sb.set_uuid))?;
    row!(text, "Name", "{}", show::name(sb.name().as_bytes()))?;
    row!(text, "Creation Time", "{}", time(common.ctime()))?;
    row!(text, "Raid Level", "{}", level(sb.level.get()))?;
    row!(text, "Raid Devices", "{}\n", sb.raid_disks)?;
    sizes(text, sb)?;
    row!(text, "Super Offset", "{} sectors", sb.super_offset)?;
    if common.role() != Role::Journal && sb.has(FeatureMap::RECOVERY_OFFSET) {
        row!(text, "Recovery Offset", "{} sectors", sb.recovery_offset)?;
    }
    if !sb.has(FeatureMap::RESHAPE_ACTIVE) {
        let (before, after) = unused(sb);
        row!(text, "Unused Space", "before={before} sectors, after={after} sectors")?;
    }
    let clean = common.resync_offset().is_none();
    row!(text, "State", "{}", if clean { "clean" } else { "active" })?;
    row!(text, "Device UUID", "{}\n", superblock::hex(sb.device_uuid))?;
    if common.bitmap().is_some() {
        row!(text, "Internal Bitmap", "{} sectors from superblock", sb.bitmap_offset)?;
    }
    if let Some(area) = sb.ppl() {
        let offset = distance(area.at.0, sb);
        row!(text, "PPL", "{} sectors at offset {offset} sectors from superblock", area.len)?;
    }
    reshape(text, common)?;
    flags(text, sb.dev_flags())?;
    row!(text, "Update Time", "{}", time(common.utime()))?;
    if let Some(log) = sb.bad_blocks() {
        let (entries, offset) = (log.len.byte_len().0 / 8, distance(log.at.0, sb));
        let present = if sb.has(FeatureMap::BAD_BLOCKS) { " - bad blocks present." } else { "" };
        row!(
            text,
            "Bad Block Log",
            "{entries} entries available at offset {offset} sectors{present}"
        )?;
    }
    checksum(text, sb.sb_csum.get(), sb.expected_csum().unwrap_or(0))?;
    row!(text, "Events", "{}\n", sb.events)?;
    chunks(text, common)?;
    writeln!(text)?;
    writeln!(text, "   Device Role : {}", role(common))?;
    let states = "('A' == active, '.' == missing, 'R' == replacing)";
    writeln!(text, "   Array State : {} {states}", letters(common))
}

fn sizes(text: &mut String, sb: &SuperblockV1) -> std::fmt::Result {
    let (avail, used) = (sb.data_size.get(), sb.size.get());
    row!(text, "Avail Dev Size", "{avail} sectors{}", sized(avail))?;
    let n = u64::from(sb.raid_disks.get());
    let array = match Layout::from_numbers(sb.level.get(), sb.layout.get()) {
        Ok(Layout::Raid10(layout)) => used.saturating_mul(n) / u64::from(layout.copies()),
        Ok(Layout::Raid1) => used,
        Ok(Layout::Raid4 | Layout::Raid5(_)) => used.saturating_mul(n.saturating_sub(1)),
        Ok(Layout::Raid6(_)) => used.saturating_mul(n.saturating_sub(2)),
        _ => 0,
    };
    if array > 0 {
        row!(text, "Array Size", "{} KiB{}", array / 2, sized(array))?;
    }
    if used != avail && sb.level.get() != 0 {
        row!(text, "Used Dev Size", "{used} sectors{}", sized(used))?;
    }
    if sb.data_offset.get() != 0 {
        row!(text, "Data Offset", "{} sectors", sb.data_offset)?;
    }
    if sb.has(FeatureMap::NEW_OFFSET) {
        let new = i128::from(sb.data_offset.get()) + i128::from(sb.new_offset.get());
        row!(text, "New Offset", "{new} sectors")?;
    }
    Ok(())
}

/// Returns the unused sectors before and after the data.
fn unused(sb: &SuperblockV1) -> (u64, u64) {
    let (at, data) = (sb.super_offset.get(), sb.data_offset.get());
    let areas = [sb.ppl(), sb.bad_blocks()];
    let areas = areas.into_iter().flatten();
    if at > data {
        let bitmap = Superblock::V1(Box::new(sb.clone())).bitmap().map(|place| place.0);
        let first = areas.map(|area| area.at.0).chain(bitmap).chain([at]).min().unwrap_or(at);
        return (0, first.saturating_sub(data.saturating_add(sb.size.get())));
    }
    // mdadm keeps 36 KiB after the superblock for itself.
    let end = areas.map(|area| area.at.0.saturating_add(area.len.0)).chain([at + 72]).max();
    let used = match (sb.size.get(), sb.role()) {
        (0, _) | (_, Role::Journal) => sb.data_size.get(),
        (size, _) => size,
    };
    let after = sb.data_size.get().saturating_sub(used);
    (data.saturating_sub(end.unwrap_or(at)), after)
}

fn reshape(text: &mut String, sb: &Superblock) -> std::fmt::Result {
    let Some(reshape) = sb.reshape() else { return Ok(()) };
    let position = reshape.position;
    row!(text, "Reshape pos'n", "{}{}", position / 2, sized(position))?;
    let (delta, disks) = (reshape.delta_disks, i64::from(sb.raid_disks()));
    let other = disks - i64::from(delta.unsigned_abs());
    match delta {
        0 => {}
        1.. => row!(text, "Delta Devices", "{delta} ({other}->{disks})")?,
        _ => row!(text, "Delta Devices", "{delta} ({disks}->{other})")?,
    }
    if reshape.new_level != sb.level() {
        row!(text, "New Level", "{}", level(reshape.new_level))?;
    }
    if reshape.new_layout != sb.layout() {
        let new = Layout::from_numbers(reshape.new_level, reshape.new_layout).ok();
        let name = new.and_then(Layout::name).unwrap_or_else(|| reshape.new_layout.to_string());
        row!(text, "New Layout", "{name}")?;
    }
    if reshape.new_chunk != sb.chunk() {
        row!(text, "New Chunksize", "{}K", reshape.new_chunk.0 / 2)?;
    }
    writeln!(text)
}

fn flags(text: &mut String, devflags: DevFlags) -> std::fmt::Result {
    let set: Vec<&str> = devflags.names().collect();
    if set.is_empty() { Ok(()) } else { row!(text, "Flags", "{}", set.join(" ")) }
}

fn checksum(text: &mut String, found: u32, expected: u32) -> std::fmt::Result {
    if found == expected {
        row!(text, "Checksum", "{found:x} - correct")
    } else {
        row!(text, "Checksum", "{found:x} - expected {expected:x}")
    }
}

fn chunks(text: &mut String, sb: &Superblock) -> std::fmt::Result {
    let said = match sb {
        Superblock::V1(v1) => v1.has(FeatureMap::RAID0_LAYOUT),
        Superblock::V090(_) => false,
    };
    let layout = Layout::from_numbers(sb.level(), sb.layout()).ok().and_then(Layout::name);
    if let Some(name) = layout.filter(|_| sb.level() != 0 || said) {
        row!(text, "Layout", "{name}")?;
    }
    match sb.level() {
        -1 => row!(text, "Rounding", "{}K", sb.chunk().0 / 2),
        0 | 4 | 5 | 6 | 10 => row!(text, "Chunk Size", "{}K", sb.chunk().0 / 2),
        _ => Ok(()),
    }
}

fn text_v090(text: &mut String, found: &Found, sb: &SuperblockV090) -> std::fmt::Result {
    let (fields, common) = (&sb.fields, &found.superblock);
    row!(text, "Magic", "{:08x}", fields.md_magic)?;
    let (minor, patch) = (fields.minor_version, fields.patch_version.get());
    row!(text, "Version", "{}.{minor}.{patch:02}", fields.major_version)?;
    row!(text, "UUID", "{}", superblock::hex(sb.set_uuid()))?;
    row!(text, "Creation Time", "{}", time(common.ctime()))?;
    row!(text, "Raid Level", "{}", level(fields.level.get()))?;
    let n = u64::from(fields.raid_disks.get());
    let size = sb.size().0;
    let array = match fields.level.get() {
        1 => size,
        4 | 5 => size * n.saturating_sub(1),
        6 => size * n.saturating_sub(2),
        _ => 0,
    };
    if fields.size.get() != 0 {
        row!(text, "Used Dev Size", "{}{}", size / 2, sized(size))?;
    }
    if array > 0 {
        row!(text, "Array Size", "{}{}", array / 2, sized(array))?;
    }
    row!(text, "Raid Devices", "{}", fields.raid_disks)?;
    row!(text, "Total Devices", "{}", fields.nr_disks)?;
    row!(text, "Preferred Minor", "{}\n", fields.md_minor)?;
    reshape(text, common)?;
    row!(text, "Update Time", "{}", time(common.utime()))?;
    let clean = fields.state.get() & v090::state::CLEAN != 0;
    row!(text, "State", "{}", if clean { "clean" } else { "active" })?;
    if common.bitmap().is_some() {
        row!(text, "Internal Bitmap", "present")?;
    }
    row!(text, "Active Devices", "{}", fields.active_disks)?;
    row!(text, "Working Devices", "{}", fields.working_disks)?;
    row!(text, "Failed Devices", "{}", fields.failed_disks)?;
    row!(text, "Spare Devices", "{}", fields.spare_disks)?;
    checksum(text, fields.sb_csum.get(), sb.expected_csum())?;
    row!(text, "Events", "{}\n", sb.events())?;
    chunks(text, common)?;
    writeln!(text, "\n      Number   Major   Minor   RaidDevice State")?;
    descriptor(text, "this", &fields.this_disk)?;
    writeln!(text)?;
    for (i, disk) in fields.disks.iter().enumerate() {
        if disk.state.get() != 0 || disk.major.get() != 0 {
            descriptor(text, &format!("{i:4}"), disk)?;
        }
    }
    Ok(())
}

fn descriptor(text: &mut String, name: &str, disk: &v090::Descriptor) -> std::fmt::Result {
    use v090::disk::{ACTIVE, FAULTY, REMOVED, SYNC};
    let bits = disk.state.get();
    let words = [(FAULTY, "faulty"), (ACTIVE, "active"), (SYNC, "sync"), (REMOVED, "removed")];
    let words: Vec<&str> = words.iter().filter(|(b, _)| bits & b != 0).map(|(_, w)| *w).collect();
    let state = if words.is_empty() { "spare".into() } else { words.join(" ") };
    let (number, major, minor) = (disk.number, disk.major, disk.minor);
    let raid_disk = disk.raid_disk;
    writeln!(text, "{name}{number:6}{major:8}{minor:9}{raid_disk:9}      {state}")
}

fn time(time: superblock::Time) -> String {
    show::time_c(i64::try_from(time.seconds).unwrap_or(i64::MAX))
}

pub(super) fn level(number: i32) -> String {
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

/// Returns the sectors from the superblock to `at`.
fn distance(at: u64, sb: &SuperblockV1) -> i128 {
    i128::from(at) - i128::from(sb.super_offset.get())
}

fn role(sb: &Superblock) -> String {
    match sb.role() {
        Role::Active(role) if sb.is_replacement() => format!("Replacement device {role}"),
        Role::Active(role) => format!("Active device {role}"),
        Role::Spare | Role::Faulty => "spare".into(),
        Role::Journal => "Journal".into(),
    }
}

/// Returns a letter for each role: A active, R with a replacement, `.` missing.
pub(super) fn letters(sb: &Superblock) -> String {
    let roles: Vec<Role> = (0..sb.max_dev()).map(|number| sb.role_of(number)).collect();
    let holders = |role| roles.iter().filter(|other| **other == Role::Active(role)).count();
    let letter = |role| match holders(role) {
        0 => '.',
        1 => 'A',
        _ => 'R',
    };
    (0..sb.raid_disks().min(sb.max_dev())).map(letter).collect()
}

/// Returns the superblock for programs.
fn object(member: &Member, found: &Found) -> Value {
    let sb = &found.superblock;
    let sectors = |sectors: Sectors| sectors.0;
    let ranges = bad_blocks::read(&member.device, sb).unwrap_or_default();
    let bitmap = xfskit::raw::md::bitmap::Bitmap::read(&member.device, sb);
    let bitmap = bitmap.ok().flatten().map(|bitmap| {
        json!({
            "version": bitmap.superblock.version.get(),
            "events": bitmap.superblock.events.get(),
            "events_cleared": bitmap.superblock.events_cleared.get(),
            "chunksize": bitmap.superblock.chunksize.get(),
            "sync_size": bitmap.superblock.sync_size.get(),
            "bits": bitmap.count(),
            "dirty": bitmap.dirty(),
        })
    });
    let ppl = ppl::read(&member.device, sb).ok().flatten().map(|log| {
        json!({
            "generation": log.header.generation.get(),
            "entries": log.header.entries().len(),
        })
    });
    json!({
        "member": member.name,
        "version": found.version,
        "corruption": found.corruption,
        "at": sb.at(),
        "set_uuid": superblock::hex(sb.set_uuid()),
        "set_name": sb.name(),
        "device_uuid": sb.device_uuid().map(superblock::hex),
        "ctime": sb.ctime(),
        "utime": sb.utime(),
        "level": level(sb.level()),
        "layout": Layout::from_numbers(sb.level(), sb.layout()).ok().and_then(Layout::name),
        "chunksize": sectors(sb.chunk()),
        "raid_disks": sb.raid_disks(),
        "size": sectors(sb.size()),
        "data_offset": sectors(sb.data_offset()),
        "data_size": sectors(sb.data_size()),
        "events": sb.events(),
        "resync_offset": sb.resync_offset(),
        "recovery_offset": sb.recovery_offset(),
        "dev_number": sb.dev_number(),
        "role": sb.role(),
        "array_state": letters(sb),
        "reshape": sb.reshape(),
        "write_mostly": sb.write_mostly(),
        "journal": sb.has_journal(),
        "bitmap": bitmap,
        "bad_blocks": ranges.iter().map(|r| [r.start.0, r.end.0]).collect::<Vec<_>>(),
        "ppl": ppl,
    })
}
