//! `xfskit md create`: makes a new array.

use serde_json::json;
use xfskit::md::{BitmapOption, Layout, Level, NewDevices, Version, format_uuid, parse_uuid};

use super::manage::not_taken;
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::md::create::{BitmapKind, Create, MetadataVersion};
use crate::out::Out;
use crate::show;

/// `xfskit md create`: makes an array, and prints its properties.
pub(crate) fn run(args: &Create, out: &Out) -> Outcome {
    let create = builder(args)?.spares(spares(args)?);
    let created = create.create(&args.targets).map_err(|e| not_taken("", &e))?;
    let report = json!({
        "target": created.target,
        "set_uuid": format_uuid(created.uuid),
        "level": created.level.name(),
        "layout": created.layout.name(),
        "chunk_bytes": created.chunk_size,
        "raid_disks": created.raid_disks,
        "spares": args.spare_devices,
        "size_bytes": created.size,
    });
    out.result(&report, |_| format!("{}\n", created.target))?;
    let (level, raid_disks) = (created.level, created.raid_disks);
    out.note(&format!("{level} of {raid_disks} members, {}", show::human(created.size)));
    Ok(ExitStatus::Success)
}

/// Converts the command line to options.
fn builder(args: &Create) -> Result<xfskit::md::Create, Failure> {
    let level = Level::from_name(&args.level).ok_or_else(|| {
        Failure::cannot(format!("--level {}: there is no such level", args.level))
    })?;
    let layout = match &args.layout {
        None => Layout::default_of(level),
        Some(name) => Layout::from_name(level, name).ok_or_else(|| {
            Failure::cannot(format!("--layout {name}: {level} has no such layout"))
        })?,
    };
    let bitmap_chunk = args.bitmap_chunk.map(u32::try_from).transpose();
    let bitmap_chunk =
        bitmap_chunk.map_err(|_| Failure::cannot("--bitmap-chunk: at most 2 GiB"))?;
    let bitmap = match (args.bitmap, bitmap_chunk) {
        (Some(BitmapKind::None), _) => BitmapOption::No,
        (Some(BitmapKind::Internal), chunk) => BitmapOption::Internal(chunk),
        (None, Some(chunk)) => BitmapOption::Internal(Some(chunk)),
        (None, None) => BitmapOption::Default,
    };
    let version = match args.metadata {
        MetadataVersion::V1_0 => Version::V1_0,
        MetadataVersion::V1_1 => Version::V1_1,
        MetadataVersion::V1_2 => Version::V1_2,
    };
    let mut create = xfskit::md::Create::new(level)
        .layout(layout)
        .version(version)
        .name(&args.name)
        .bitmap(bitmap)
        .assume_clean(args.assume_clean)
        .time(super::now()?);
    if !matches!(level, Level::Raid1 | Level::Linear) {
        create = create.chunk_size(sectors("--chunk", args.chunk)?);
    }
    if let Some(size) = args.size {
        create = create.member_size(sectors("--size", size)?);
    }
    if let Some(offset) = args.data_offset {
        create = create.data_offset(sectors("--data-offset", offset)?);
    }
    if let Some(uuid) = &args.uuid {
        let parsed = parse_uuid(uuid);
        create = create.uuid(parsed.map_err(|e| Failure::cannot(format!("--uuid {e}")))?);
    }
    let devices = NewDevices::new().force(args.force);
    Ok(create.devices(args.member_size.into_iter().fold(devices, NewDevices::create)))
}

/// Returns bytes that are whole sectors.
fn sectors(option: &str, bytes: u64) -> Result<u64, Failure> {
    let whole = bytes.is_multiple_of(512).then_some(bytes);
    whole.ok_or_else(|| Failure::cannot(format!("{option}: {bytes} bytes are not whole sectors")))
}

/// Returns the number of spares, which come last.
fn spares(args: &Create) -> Result<usize, Failure> {
    let (count, spares) = (args.targets.len(), args.spare_devices);
    let members = args.members.unwrap_or(count.saturating_sub(spares));
    if members == 0 || members.checked_add(spares) != Some(count) {
        return Err(Failure::cannot(format!(
            "{count} targets are named, not {members} members and {spares} spares"
        ))
        .hint("Use `missing` for a member that is added later."));
    }
    Ok(spares)
}
