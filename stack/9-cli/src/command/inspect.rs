//! `xfskit inspect`: decodes any structure.

use xfskit::raw::VolumeExt as _;
use xfskit::raw::inspect::{Structure, inspect};

use super::open;
use crate::exit::{Failure, Outcome};
use crate::grammar::metadata::Inspect;
use crate::out::Out;

/// `xfskit inspect`
pub(crate) fn run(args: &Inspect, out: &Out) -> Outcome {
    let mut words = vec![args.structure.clone()];
    words.extend_from_slice(&args.arguments);
    let structure: Structure = words.join(" ").parse().map_err(|error: String| {
        Failure::cannot(error).hint("`xfskit inspect --help` lists the structures.")
    })?;
    let volume = open::volume(&args.target, out)?;
    let dump =
        inspect(volume.fs().volume(), structure).map_err(|error| open::failure(&error.into()))?;
    out.result(&dump.to_json(), |_| dump.to_string())?;
    Ok(out.status())
}
