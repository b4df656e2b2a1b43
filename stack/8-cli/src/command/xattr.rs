//! `xfskit xattr list`, `xfskit xattr get`: print extended attributes.

use std::os::unix::ffi::OsStrExt;

use serde::Serialize;
use xfskit::Volume;
use xfskit::vfs::{Follow, Xattr};

use super::open;
use crate::exit::{Failure, Outcome};
use crate::grammar::read::{self, XattrCommand};
use crate::out::Out;
use crate::show::{self, Named};

/// One attribute, for JSON.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    name: Named<'a>,
    #[serde(flatten)]
    value: Named<'a>,
}

/// `xfskit xattr list`, `xfskit xattr get`
pub(crate) fn run(volume: &Volume, args: &read::Xattr, out: &Out) -> Outcome {
    let (XattrCommand::List { path, .. }
    | XattrCommand::Get { path, .. }
    | XattrCommand::Set { path, .. }
    | XattrCommand::Rm { path, .. }) = &args.what;
    let inode = open::resolve(volume, path, Follow::No)?;
    let (mut xattrs, errors) = volume.fs().xattrs(&inode);
    for error in &errors {
        out.fault(path.as_bytes(), error);
    }
    xattrs.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    match &args.what {
        XattrCommand::Set { .. } | XattrCommand::Rm { .. } => {}
        XattrCommand::List { .. } => xattrs.iter().try_for_each(|xattr| print(xattr, out))?,
        XattrCommand::Get { name, .. } => {
            let found = xattrs.iter().find(|xattr| xattr.name == name.as_bytes());
            let Some(xattr) = found else {
                let (path, name) = (path.to_string_lossy(), name.to_string_lossy());
                return Err(Failure::problem(format!("{path}: no attribute {name}"))
                    .hint("`xfskit xattr list TARGET PATH` lists the attributes."));
            };
            if out.json() {
                print(xattr, out)?;
            } else {
                out.raw(&xattr.value)?;
            }
        }
    }
    Ok(out.status())
}

/// Prints one attribute on a line.
fn print(xattr: &Xattr, out: &Out) -> Result<(), Failure> {
    let Xattr { name, value } = xattr;
    if out.json() {
        return out.object(&Line { name: Named("name", name), value: Named("value", value) });
    }
    let name = show::name(name);
    match std::str::from_utf8(value) {
        Ok(text) if !text.contains(|c: char| c.is_control()) => {
            out.line(format!("{name}=\"{}\"", text.replace('"', "\\\"")))
        }
        _ => out.line(format!("{name}=0s{}", show::base64(value))),
    }
}
