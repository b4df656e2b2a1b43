//! `xfskit md dump` and `md load`: copy an array's content out and in.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use xfskit::target::Device;

use super::failed;
use crate::command::open;
use crate::exit::{ExitStatus, Failure, Outcome};
use crate::out::Out;
use crate::progress::{Progress, Unit};
use crate::stop::Stop;

/// Bytes that are read and written at once.
const PIECE: usize = 4 << 20;

/// `xfskit md dump`: writes bytes of an array to standard output.
pub(crate) fn dump(name: &str, offset: u64, length: Option<u64>, out: &Out) -> Outcome {
    open::warn(name, out)?;
    let device = Device::open(name).map_err(|e| failed(name, &e))?;
    let size = device.size();
    let end = length.map_or(size, |length| offset.saturating_add(length).min(size));
    let progress = Progress::beside_output(out, "dump", Unit::Bytes);
    let mut piece = vec![0; PIECE];
    let mut at = offset;
    while at < end {
        let part = &mut piece[..usize::try_from(end - at).unwrap_or(PIECE).min(PIECE)];
        device.read_exact_at(part, at).map_err(|e| failed(name, &e))?;
        out.raw(part)?;
        at += part.len() as u64;
        progress.set(at - offset, end - offset);
    }
    Ok(ExitStatus::Success)
}

/// `xfskit md load`: writes a file, or standard input, into an array.
pub(crate) fn load(name: &str, file: &Path, offset: u64, write: bool, out: &Out) -> Outcome {
    if !write {
        return Err(Failure::cannot(format!("{name} would be overwritten"))
            .hint("Add --write to overwrite it."));
    }
    let unreadable = |e: io::Error| Failure::cannot(format!("{}: {e}", file.display()));
    let stop = Stop::on_signals()?;
    let mut input: Box<dyn Read> = match file.to_str() {
        Some("-") => Box::new(stop.stdin()),
        _ => Box::new(File::open(file).map_err(unreadable)?),
    };
    let device = Device::open_writable(name).map_err(|e| failed(name, &e))?;
    let progress = Progress::new(out, "load", Unit::Bytes);
    let mut piece = vec![0; PIECE];
    let mut at = offset;
    loop {
        let filled = fill(&mut input, &mut piece);
        stop.check()?;
        let filled = filled.map_err(unreadable)?;
        if filled == 0 {
            break;
        }
        device.write_all_at(&piece[..filled], at).map_err(|e| failed(name, &e))?;
        at += filled as u64;
        progress.set(at - offset, device.size().saturating_sub(offset));
    }
    device.sync().map_err(|e| failed(name, &e))?;
    out.note(&format!("{} bytes written", at - offset));
    Ok(ExitStatus::Success)
}

/// Reads until `piece` is full or the input ends.
fn fill(input: &mut dyn Read, piece: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < piece.len() {
        match input.read(&mut piece[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}
