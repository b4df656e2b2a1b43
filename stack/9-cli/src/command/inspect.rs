//! `xfskit inspect`: decodes any structure.

use xfskit::ErrorKind;

use super::{mount, open};
use crate::exit::{Failure, Outcome};
use crate::grammar::metadata::Inspect;
use crate::out::Out;

/// `xfskit inspect`: prints a structure of the volume, decoded with xfs_db's field names.
pub(crate) fn run(args: &Inspect, out: &Out) -> Outcome {
    let mut words = vec![args.structure.clone()];
    words.extend_from_slice(&args.arguments);
    let volume = mount::volume_to_read(&args.target, out)?;
    let dump = volume.inspect(&words.join(" ")).map_err(|error| match error.kind() {
        ErrorKind::InvalidInput => {
            Failure::cannot(error.to_string()).hint("`xfskit inspect --help` lists the structures.")
        }
        ErrorKind::NotFound => Failure::cannot(error.to_string()),
        _ => open::failure(&error),
    })?;
    out.result(&dump.to_json(), |_| dump.to_string())?;
    Ok(out.status())
}
