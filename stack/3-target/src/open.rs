//! Opening names as devices.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use xfskit_block::cow::{self, Fingerprint};
use xfskit_block::{BlockDevice, FileDevice, MemDevice, OpenMode, WindowDevice};
use xfskit_md::array::Array;
use xfskit_md::array::monitor::{self, MonitoredArray};
use xfskit_md::{Assembly, Member};
use xfskit_units::{ByteLen, ByteOffset};

use crate::discover::{discover, volume_groups};
use crate::error::{Error, Result};
use crate::fingerprint;
use crate::glob;
use crate::linear::LinearDevice;
use crate::name::{ArrayName, Base, Part, Target};
use crate::partition::{has_xfs_magic, partitions};

/// Opens a target as a volume. A whole disk that is not an XFS volume but has parts is refused with
/// their names, because one of them was probably meant.
///
/// # Errors
/// Returns [`Error::WhichPart`] in that case and if the named part does not exist,
/// [`Error::Unsupported`] for a logical volume that is not linear, and [`Error::Device`].
pub fn open(target: &Target, mode: OpenMode) -> Result<Arc<dyn BlockDevice>> {
    volume_on(target, open_unchecked(target, mode)?)
}

/// Refuses a whole disk with parts that is not an XFS volume.
fn volume_on(target: &Target, device: Arc<dyn BlockDevice>) -> Result<Arc<dyn BlockDevice>> {
    if target.part.is_none() && !has_xfs_magic(&device, ByteOffset(0)) {
        let found = discover(&device);
        if !found.is_empty() {
            let what = format!("{target} is not an XFS volume but a disk with parts");
            return Err(Error::WhichPart { what, base: target.to_string(), found });
        }
    }
    Ok(device)
}

/// An array that runs below a device, with its monitor.
#[derive(Clone, Debug)]
pub struct LiveArray {
    /// Its members, as they were when it was opened.
    pub assembly: Assembly,
    /// The array.
    pub array: Arc<MonitoredArray>,
}

/// Opens a target as a volume for writing, like [`open()`]. Returns the array below, too, if the
/// target is one with superblocks or a part of one.
///
/// # Errors
/// See [`open()`].
pub fn open_live(target: &Target) -> Result<(Arc<dyn BlockDevice>, Option<LiveArray>)> {
    let Base::Array(name) = &target.base else {
        return Ok((open(target, OpenMode::ReadWrite)?, None));
    };
    if name.manual.is_some() {
        return Ok((open(target, OpenMode::ReadWrite)?, None));
    }
    let assembly = assemble(name, OpenMode::ReadWrite)?;
    let array = MonitoredArray::new(start(name, &assembly)?, monitor::SAFE_MODE_DELAY);
    let live = LiveArray { assembly, array: Arc::new(array) };
    let device = part_of(target, Arc::clone(&live.array) as _)?;
    Ok((volume_on(target, device)?, Some(live)))
}

/// Opens a target with any content, as mkfs needs it.
///
/// # Errors
/// See [`open()`]. A whole disk is never refused for its parts.
pub fn open_unchecked(target: &Target, mode: OpenMode) -> Result<Arc<dyn BlockDevice>> {
    part_of(target, whole(&target.base, mode)?)
}

fn whole(base: &Base, mode: OpenMode) -> Result<Arc<dyn BlockDevice>> {
    Ok(match base {
        Base::File(path) => Arc::new(FileDevice::open(path, mode)?),
        Base::Memory(size) => Arc::new(MemDevice::new(*size)),
        Base::Array(name) => array(name, mode)?,
        Base::Overlay(path, below) => {
            let below = whole(below, OpenMode::ReadOnly)?;
            overlaid(path, &[Arc::clone(&below)], mode)?.pop().unwrap_or(below)
        }
    })
}

/// Returns overlay views of these devices; none if they are only read and the overlay file does not
/// exist.
fn overlaid(
    path: &Path,
    devices: &[Arc<dyn BlockDevice>],
    mode: OpenMode,
) -> Result<Vec<Arc<dyn BlockDevice>>> {
    if mode == OpenMode::ReadOnly && !path.exists() {
        return Ok(Vec::new());
    }
    let views = cow::open(path, devices, &fingerprints(devices), mode)?;
    Ok(views.into_iter().map(|view| Arc::new(view) as _).collect())
}

fn fingerprints(devices: &[Arc<dyn BlockDevice>]) -> Vec<Fingerprint> {
    devices.iter().map(fingerprint::of).collect()
}

/// Returns warnings about the overlay that a target names: devices that have changed since it was
/// made. Returns none if the target has no overlay, or the overlay does not exist yet.
///
/// # Errors
/// See [`open_unchecked`]. Also returns an error if the overlay was made on other devices.
pub fn overlay_warnings(target: &Target) -> Result<Vec<String>> {
    let (path, devices) = match &target.base {
        Base::Overlay(path, below) if path.exists() => {
            (path, vec![whole(below, OpenMode::ReadOnly)?])
        }
        Base::Array(name) => match &name.overlay {
            Some(path) if path.exists() => {
                let manual = ArrayName { overlay: None, ..(**name).clone() };
                let members = members(&manual, OpenMode::ReadOnly)?;
                (path, members.into_iter().flatten().map(|member| member.device).collect())
            }
            _ => return Ok(Vec::new()),
        },
        _ => return Ok(Vec::new()),
    };
    Ok(cow::warnings(path, &fingerprints(&devices))?)
}

/// Returns the part of its disk that a target names, or the disk itself.
///
/// # Errors
/// See [`open_unchecked`].
pub fn part_of(target: &Target, disk: Arc<dyn BlockDevice>) -> Result<Arc<dyn BlockDevice>> {
    let pieces = pieces(target, &disk)?;
    match (&target.part, pieces.as_slice()) {
        (None, _) => Ok(disk),
        (Some(Part::Partition(_)), [(start, len)]) => {
            Ok(Arc::new(WindowDevice::new(disk, *start, *len)?))
        }
        _ => Ok(Arc::new(LinearDevice::new(disk, pieces)?)),
    }
}

/// Returns where on its disk a target's bytes lie, in order: one piece, or those of a logical
/// volume.
///
/// # Errors
/// See [`open_unchecked`].
pub fn pieces(target: &Target, disk: &Arc<dyn BlockDevice>) -> Result<Vec<(ByteOffset, ByteLen)>> {
    match &target.part {
        None => Ok(vec![(ByteOffset(0), disk.size())]),
        Some(part @ Part::Partition(number)) => {
            let wanted = partitions(disk).into_iter().find(|p| p.number == *number);
            let wanted = wanted.ok_or_else(|| no_such_part(target, part, disk))?;
            Ok(vec![(wanted.offset, wanted.len)])
        }
        Some(part @ Part::Volume { group, volume }) => {
            let wanted = volume_groups(disk)
                .into_iter()
                .filter(|g| g.name == *group)
                .flat_map(|g| g.volumes)
                .find(|v| v.name == *volume)
                .ok_or_else(|| no_such_part(target, part, disk))?;
            wanted.pieces.map_err(|why| Error::Unsupported { target: target.clone(), why })
        }
    }
}

/// Opens an array. An array that is opened for writing gets a monitor.
fn array(name: &ArrayName, mode: OpenMode) -> Result<Arc<dyn BlockDevice>> {
    if name.manual.is_some() || mode != OpenMode::ReadOnly {
        let array = open_array(name, mode)?;
        return Ok(if mode == OpenMode::ReadOnly || name.manual.is_some() {
            Arc::new(array)
        } else {
            Arc::new(MonitoredArray::new(array, monitor::SAFE_MODE_DELAY))
        });
    }
    Ok(assemble(name, mode)?.open()?)
}

/// Opens an array that is not being reshaped.
///
/// # Errors
/// Returns an error if a member cannot be opened, if the members make no array, or if the array
/// cannot be written and `mode` requires it.
pub fn open_array(name: &ArrayName, mode: OpenMode) -> Result<Array> {
    array_of(name, members(name, mode)?, mode)
}

/// Opens the array of these members.
pub(crate) fn array_of(
    name: &ArrayName,
    members: Vec<Option<Member>>,
    mode: OpenMode,
) -> Result<Array> {
    if let Some(manual) = &name.manual {
        return Ok(manual.open(&members)?);
    }
    let assembly = assembly_of(name, members)?;
    if mode == OpenMode::ReadOnly {
        return Ok(assembly.open_array()?);
    }
    start(name, &assembly)
}

/// Opens an array for writing.
fn start(name: &ArrayName, assembly: &Assembly) -> Result<Array> {
    if let Some(why) = assembly.write_refusal() {
        return Err(Error::NotWritable { target: name.to_string(), why });
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    Ok(assembly.open_writable(now)?)
}

/// Assembles the members of an array without running it. Writes nothing.
///
/// # Errors
/// Returns an error if a member cannot be opened, or the members make no array.
pub fn assemble(name: &ArrayName, mode: OpenMode) -> Result<Assembly> {
    assembly_of(name, members(name, mode)?)
}

fn assembly_of(name: &ArrayName, members: Vec<Option<Member>>) -> Result<Assembly> {
    let members = members.into_iter().flatten().collect();
    let assembled = if name.force {
        xfskit_md::assemble_by_force(members)
    } else {
        xfskit_md::assemble(members)
    };
    Ok(assembled?)
}

/// Opens the members of an array, with patterns expanded; `None` for a missing one.
///
/// # Errors
/// Returns an error if a member cannot be opened.
pub fn members(name: &ArrayName, mode: OpenMode) -> Result<Vec<Option<Member>>> {
    members_by(name, mode, &mut open_unchecked)
}

/// Returns the files and devices that a target is on: those of all members, with patterns
/// expanded, and overlays.
pub fn files(target: &Target) -> Vec<PathBuf> {
    fn add(base: &Base, files: &mut Vec<PathBuf>) {
        match base {
            Base::File(path) => files.push(path.clone()),
            Base::Memory(_) => {}
            Base::Overlay(overlay, below) => {
                files.push(overlay.clone());
                add(below, files);
            }
            Base::Array(name) => {
                files.extend(name.overlay.clone());
                for member in name.members.iter().flatten() {
                    // What cannot be expanded cannot be opened either.
                    for member in expand(member).unwrap_or_default() {
                        add(&member.base, files);
                    }
                }
            }
        }
    }
    let mut files = Vec::new();
    add(&target.base, &mut files);
    files
}

/// Opens a member.
pub(crate) type Opener<'o> = dyn FnMut(&Target, OpenMode) -> Result<Arc<dyn BlockDevice>> + 'o;

/// Opens [`members`] by `open`.
pub(crate) fn members_by(
    name: &ArrayName,
    mode: OpenMode,
    open: &mut Opener<'_>,
) -> Result<Vec<Option<Member>>> {
    let below = if name.overlay.is_some() { OpenMode::ReadOnly } else { mode };
    let (mut members, mut opened) = (Vec::new(), Vec::new());
    for member in &name.members {
        let Some(target) = member else {
            members.push(None);
            continue;
        };
        for target in expand(target)? {
            check_repeated(&opened, &target)?;
            opened.push(target.clone());
            let device = open(&target, below)?;
            members.push(Some(Member { name: target.to_string(), device }));
        }
    }
    if let Some(path) = &name.overlay {
        let devices: Vec<_> =
            members.iter().flatten().map(|member| Arc::clone(&member.device)).collect();
        for (member, view) in members.iter_mut().flatten().zip(overlaid(path, &devices, mode)?) {
            member.device = view;
        }
    }
    Ok(members)
}

/// Checks that a member is not one of those that are open already, by this or another name.
fn check_repeated(opened: &[Target], target: &Target) -> Result<()> {
    let file = |target: &Target| match &target.base {
        Base::File(path) => std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino())),
        _ => None,
    };
    let id = file(target);
    let is_same = |other: &&Target| {
        *other == target || (id.is_some() && file(other) == id && other.part == target.part)
    };
    match opened.iter().find(is_same) {
        None => Ok(()),
        Some(one) => {
            let (one, other) = (one.to_string(), target.to_string());
            Err(xfskit_md::assemble::Error::Duplicate { one, other }.into())
        }
    }
}

/// Returns the targets that a member's name stands for.
fn expand(target: &Target) -> Result<Vec<Target>> {
    let Base::File(pattern) = &target.base else { return Ok(vec![target.clone()]) };
    let paths = glob::expand(pattern);
    if paths.is_empty() {
        return Err(Error::NoMatch(target.to_string()));
    }
    let named = |path| Target { base: Base::File(path), part: target.part.clone() };
    Ok(paths.into_iter().map(named).collect())
}

/// Creates a target of `size` bytes: a new image file (replacing an existing one), or memory of its
/// own size. A block device and a part of a disk are opened as they are.
///
/// # Errors
/// See [`open_unchecked`].
pub fn create(target: &Target, size: ByteLen) -> Result<Arc<dyn BlockDevice>> {
    match (&target.base, &target.part) {
        (Base::File(path), None) if !path.exists() || path.is_file() => {
            Ok(Arc::new(FileDevice::create(path, size)?))
        }
        _ => open_unchecked(target, OpenMode::ReadWrite),
    }
}

fn no_such_part(target: &Target, part: &Part, disk: &dyn BlockDevice) -> Error {
    let base = target.whole().to_string();
    Error::WhichPart { what: format!("{base} has no part {part}"), base, found: discover(disk) }
}
