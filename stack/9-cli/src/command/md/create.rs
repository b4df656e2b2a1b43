//! `xfskit md create`: makes a new array.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::json;
use xfskit::raw::block::{BlockDevice, OpenMode};
use xfskit::raw::md::create::{BitmapOption, CreateOptions, Error, NewMember};
use xfskit::raw::md::superblock::{self, Version};
use xfskit::raw::md::{Layout, Level};
use xfskit::raw::mkfs::existing;
use xfskit::raw::target::{self, ArrayName, Base, Target};
use xfskit::raw::units::{ByteLen, Sectors, Uuid};

use crate::command::open::{device_hint, target_failure};
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::grammar::md::create::{BitmapKind, Create, MetadataVersion};
use crate::out::{Out, chain};
use crate::show;

/// `xfskit md create`
pub(crate) fn run(args: &Create, out: &Out) -> Outcome {
    let recipe = create_options(args)?;
    let (roles, spares) = roles_and_spares(args)?;
    let named: Vec<&Target> = roles.iter().flatten().chain(&spares).collect();
    let made: Vec<PathBuf> = named.iter().filter_map(|target| new_file(target)).collect();
    let mut members = open_all(&named, args)?.into_iter();
    let taken: Vec<Option<NewMember>> =
        roles.iter().map(|role| role.as_ref().and_then(|_| members.next())).collect();
    let spare_members: Vec<NewMember> = members.collect();
    let geometry = recipe.create(&taken, &spare_members).map_err(|e| {
        // Files that were made for a failed creation are removed.
        for path in &made {
            let _ = fs::remove_file(path);
        }
        create_failure(&e)
    })?;
    let target = ArrayName::new(None, roles).to_string();
    let report = json!({
        "target": target,
        "set_uuid": superblock::hex(recipe.uuid),
        "level": geometry.level().name(),
        "layout": geometry.layout().name(),
        "chunk_bytes": geometry.chunk_bytes(),
        "raid_disks": geometry.raid_disks(),
        "spares": spare_members.len(),
        "size_bytes": geometry.array_size().byte_len(),
    });
    out.result(&report, |_| format!("{target}\n"))?;
    out.note(&format!(
        "{} of {} members, {}",
        geometry.level(),
        geometry.raid_disks(),
        show::human(geometry.array_size().byte_len().0)
    ));
    Ok(ExitStatus::Success)
}

/// Converts the command line to options.
fn create_options(args: &Create) -> Result<CreateOptions, Failure> {
    let level = Level::from_name(&args.level).ok_or_else(|| {
        Failure::cannot(format!("--level {}: there is no such level", args.level))
    })?;
    let layout = match &args.layout {
        None => Layout::default_of(level),
        Some(name) => Layout::from_name(level, name).ok_or_else(|| {
            Failure::cannot(format!("--layout {name}: {level} has no such layout"))
        })?,
    };
    let chunk = if matches!(level, Level::Raid1 | Level::Linear) { 0 } else { args.chunk };
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
    Ok(CreateOptions {
        layout,
        chunk: sectors("--chunk", chunk)?,
        version,
        name: args.name.clone(),
        uuid: args.uuid.as_deref().map_or_else(|| Ok(*Uuid::new_v4().as_bytes()), parse_uuid)?,
        size: args.size.map(|size| sectors("--size", size)).transpose()?,
        data_offset: args.data_offset.map(|size| sectors("--data-offset", size)).transpose()?,
        bitmap,
        assume_clean: args.assume_clean,
        now: super::now()?,
    })
}

fn sectors(option: &str, bytes: u64) -> Result<Sectors, Failure> {
    let whole = bytes.is_multiple_of(512).then_some(Sectors(bytes / 512));
    whole.ok_or_else(|| Failure::cannot(format!("{option}: {bytes} bytes are not whole sectors")))
}

/// Parses an identity: 32 hexadecimal digits, in groups as in md or as in UUIDs.
fn parse_uuid(text: &str) -> Result<[u8; 16], Failure> {
    let digits: String = text.chars().filter(|c| !matches!(c, ':' | '-' | '.')).collect();
    Uuid::parse_str(&digits)
        .map(|uuid| *uuid.as_bytes())
        .map_err(|e| Failure::cannot(format!("--uuid {text}: {e}")))
}

/// Returns the targets of the roles, and those of the spares.
fn roles_and_spares(args: &Create) -> Result<(Vec<Option<Target>>, Vec<Target>), Failure> {
    let count = args.targets.len();
    let members = args.members.unwrap_or(count.saturating_sub(args.spare_devices));
    if members == 0 || members + args.spare_devices != count {
        return Err(Failure::cannot(format!(
            "{count} targets are named, not {members} members and {} spares",
            args.spare_devices
        ))
        .hint("Use `missing` for a member that is added later."));
    }
    let target = |name: &String| match name.as_str() {
        "missing" => Ok(None),
        name => Target::parse(name).map(Some).map_err(|e| target_failure(name, &e)),
    };
    let mut roles = args.targets.iter().map(target).collect::<Result<Vec<_>, _>>()?;
    let spares = roles.split_off(members);
    if spares.iter().any(Option::is_none) {
        return Err(Failure::cannot("a spare cannot be missing"));
    }
    Ok((roles, spares.into_iter().flatten().collect()))
}

/// Opens the targets. Those with contents are refused before any file is made.
fn open_all(targets: &[&Target], args: &Create) -> Result<Vec<NewMember>, Failure> {
    let mut opened = Vec::new();
    for target in targets {
        let device = match new_file(target) {
            Some(path) if args.member_size.is_none() => {
                return Err(Failure::cannot(format!("{}: no such file", path.display()))
                    .hint("--member-size SIZE makes missing files."));
            }
            Some(_) => None,
            None => Some(open_empty(target, args.force)?),
        };
        opened.push((target, device));
    }
    let size = ByteLen(args.member_size.unwrap_or(0));
    let member = |(target, device): (&&Target, Option<Arc<dyn BlockDevice>>)| {
        let name = target.to_string();
        let made = || target::create(target, size).map_err(|e| target_failure(&name, &e));
        let device = device.map_or_else(made, Ok)?;
        Ok(NewMember { name, device, uuid: *Uuid::new_v4().as_bytes() })
    };
    opened.into_iter().map(member).collect()
}

/// Returns the path of a file that does not exist.
pub(super) fn new_file(target: &Target) -> Option<PathBuf> {
    match (&target.base, &target.part) {
        (Base::File(path), None) if !path.exists() => Some(path.clone()),
        _ => None,
    }
}

/// Opens a target for writing. One with contents is refused without `force`.
pub(super) fn open_empty(target: &Target, force: bool) -> Result<Arc<dyn BlockDevice>, Failure> {
    let name = target.to_string();
    let device = target::open_unchecked(target, OpenMode::ReadWrite)
        .map_err(|e| target_failure(&name, &e))?;
    if force {
        return Ok(device);
    }
    match existing::find(&device) {
        Ok(None) => Ok(device),
        Ok(Some(what)) => Err(Failure::cannot(format!("{name} holds {what}"))
            .hint("--force uses it anyway; its contents are lost.")),
        Err(e) => Err(device_hint(Failure::cannot(format!("{name}: {}", chain(&e))), &e)),
    }
}

pub(super) fn create_failure(error: &Error) -> Failure {
    let failure = Failure::cannot(chain(error));
    match error {
        Error::Device { source, .. } => device_hint(failure, source),
        _ => failure,
    }
}
