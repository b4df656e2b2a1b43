//! `xfskit xattr list`, `xfskit xattr get`: print extended attributes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde::Serialize;
use xfskit::{Volume, Xattr};

use super::open;
use crate::exit::{Failure, Outcome};
use crate::grammar::read::{XattrGet, XattrList};
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

/// `xfskit xattr list`: lists names and values of extended attributes.
pub(crate) fn list(volume: &Volume, args: &XattrList, out: &Out) -> Outcome {
    for xattr in &read(volume, &args.path, out)? {
        print(xattr, out)?;
    }
    Ok(out.status())
}

/// `xfskit xattr get`: prints the value of an attribute, byte for byte.
pub(crate) fn get(volume: &Volume, args: &XattrGet, out: &Out) -> Outcome {
    let xattrs = read(volume, &args.path, out)?;
    let Some(xattr) = xattrs.iter().find(|xattr| xattr.name() == args.name) else {
        let (path, name) = (args.path.to_string_lossy(), args.name.to_string_lossy());
        return Err(Failure::problem(format!("{path}: no attribute {name}"))
            .hint("`xfskit xattr list TARGET PATH` lists the attributes."));
    };
    if out.json() {
        print(xattr, out)?;
    } else {
        out.raw(xattr.value())?;
    }
    Ok(out.status())
}

/// Returns the attributes of the file `path` by name; damaged ones are reported.
fn read(volume: &Volume, path: &OsStr, out: &Out) -> Result<Vec<Xattr>, Failure> {
    let found = volume.list_xattrs_nofollow(open::inside(path)?);
    let mut xattrs = Vec::new();
    for xattr in found.map_err(|error| open::failure(&error))? {
        match xattr {
            Ok(xattr) => xattrs.push(xattr),
            Err(error) => out.fault(path.as_bytes(), &error),
        }
    }
    xattrs.sort_unstable_by(|a, b| a.name().cmp(b.name()));
    Ok(xattrs)
}

/// Prints one attribute on a line.
fn print(xattr: &Xattr, out: &Out) -> Result<(), Failure> {
    let (name, value) = (xattr.name().as_bytes(), xattr.value());
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
