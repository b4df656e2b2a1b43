//! `xfskit label`, `xfskit uuid`: show and set the label and UUID of a volume.

use std::os::unix::ffi::OsStrExt;

use serde::Serialize;
use xfskit::{NewUuid, Uuid, Volume, VolumeOptions};

use super::open;
use crate::exit::{ExitStatus, Outcome};
use crate::grammar::change::Target;
use crate::out::Out;
use crate::show::Named;

/// The UUIDs of a volume.
#[derive(Debug, Serialize)]
struct Identity {
    uuid: Uuid,
    /// The UUID in its metadata.
    meta_uuid: Uuid,
}

/// `xfskit label TARGET`: prints the label of the volume.
pub(super) fn label(volume: &Volume, out: &Out) -> Outcome {
    let label = volume.label();
    if out.json() {
        out.object(&Named("label", label.as_bytes()))?;
    } else {
        out.line(out.name(label.as_bytes()))?;
    }
    Ok(ExitStatus::Success)
}

/// `xfskit uuid TARGET`: prints the UUID of the volume.
pub(super) fn uuid(volume: &Volume, out: &Out) -> Outcome {
    print_uuids(&Identity { uuid: volume.uuid(), meta_uuid: volume.meta_uuid() }, out)
}

/// `xfskit uuid TARGET UUID`: sets the UUID of the volume.
pub(super) fn set_uuid(target: &Target, uuid: NewUuid, out: &Out) -> Outcome {
    let options = VolumeOptions::new().cache_bytes(target.cache.bytes());
    let options = target.log().iter().fold(options, VolumeOptions::log);
    let name = &*target.name;
    let (uuid, meta_uuid) =
        options.set_uuid(name, uuid).map_err(|error| open::not_opened(name, &error))?;
    if uuid.is_nil() {
        out.note("Linux mounts a volume without a UUID with -o nouuid only");
    }
    if out.quiet() {
        return Ok(ExitStatus::Success);
    }
    print_uuids(&Identity { uuid, meta_uuid }, out)
}

fn print_uuids(identity: &Identity, out: &Out) -> Outcome {
    out.result(identity, |identity| format!("{}\n", identity.uuid))?;
    Ok(ExitStatus::Success)
}
