//! A repair: `xfskit repair` compared with xfs_repair, cold and warm, time and memory, of a volume
//! without damage, and of one that lost the headers and the roots of all btrees of all groups.
//!
//! `xfskit-bench repair IMAGE DIR`, as root, with GNU time. The image must not be mounted. Each run
//! repairs a new copy in DIR; the measured time excludes the copy.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use xfskit_bench::frame::{self, Result, section};
use xfskit_bench::processes::{cold_and_warm, version};
use xfskit_block::{BlockDevice, FileDevice, OpenMode};
use xfskit_format::agf::{self, Agf};
use xfskit_format::agi::{self, Agi};
use xfskit_format::sb::Superblock;
use xfskit_units::{AgBlock, AgNumber, Daddr, Geometry};
use xfskit_workload::report::Section;

pub(super) const TITLE: &str = "Repair of a whole volume";

#[derive(clap::Args)]
struct Args {
    /// Volume, not mounted
    image: PathBuf,
    /// Directory for a copy of it
    dir: PathBuf,
}

pub(super) fn main() -> ExitCode {
    frame::run(TITLE, 3, measure)
}

fn measure(Args { image, dir }: &Args, turns: usize) -> Result<Vec<Section>> {
    let xfskit = std::env::current_exe()?.with_file_name("xfskit");
    let copy = dir.join(format!("xfskit-bench-repair-{}.img", std::process::id()));
    let words = |words: &[&str]| -> Vec<String> { words.iter().map(ToString::to_string).collect() };
    let (own, target) = (xfskit.to_string_lossy(), copy.to_string_lossy());
    let contenders = [
        ("xfskit repair".to_owned(), words(&[&own, "repair", "-q", "--no-undo", &target])),
        (version("xfs_repair")?, words(&["xfs_repair", "-f", &target])),
    ];
    let lost = lost_places(image)?;
    let mut sections = Vec::new();
    for (title, lost) in [("No damage", &[][..]), ("Headers and btrees lost", &lost)] {
        let make = || copy_without(image, &copy, lost);
        sections.push(section(title, &[], cold_and_warm(&contenders, turns, &copy, make)?));
    }
    let _ = std::fs::remove_file(&copy);
    Ok(sections)
}

/// A place on the device, and its length in bytes.
type Place = (u64, usize);

/// Copies the image, and overwrites these places of the copy.
fn copy_without(image: &Path, copy: &Path, lost: &[Place]) -> Result<()> {
    let status = Command::new("cp").arg("--sparse=always").args([image, copy]).status()?;
    if !status.success() {
        return Err(format!("{} cannot be copied", image.display()).into());
    }
    let file = File::options().write(true).open(copy)?;
    for (at, len) in lost {
        file.write_all_at(&vec![0xa5; *len], *at)?;
    }
    Ok(file.sync_all()?)
}

/// Returns the places of AGF, AGI, AGFL and the roots of all btrees of all groups.
fn lost_places(image: &Path) -> Result<Vec<Place>> {
    let dev = FileDevice::open(image, OpenMode::ReadOnly)?;
    let mut first = vec![0; 512];
    dev.read_at(Daddr(0).byte_offset(), &mut first)?;
    let geo = Superblock::verify(&first, AgNumber(0))?.geometry();
    let mut places = Vec::new();
    for agno in geo.ags() {
        let (agf, agi) = headers(&dev, &geo, agno)?;
        let first = geo.ag_header_daddr(agno, 1);
        places.push((first.byte_offset().0, 3 * geo.sectsize()));
        let roots = [agf.bnoroot, agf.cntroot, agf.rmaproot, agf.refcntroot, agi.root, agi.free_root];
        for root in roots.into_iter().filter(|root| root.get() != 0) {
            let at = geo.agb_to_daddr(agno, AgBlock(root.get())).byte_offset();
            places.push((at.0, geo.blocksize()));
        }
    }
    Ok(places)
}

fn headers(dev: &FileDevice, geo: &Geometry, agno: AgNumber) -> Result<(Agf, Agi)> {
    let read = |sector: u32| -> Result<Vec<u8>> {
        let mut bytes = vec![0; geo.sectsize()];
        dev.read_at(geo.ag_header_daddr(agno, sector).byte_offset(), &mut bytes)?;
        Ok(bytes)
    };
    let ctx = |at| xfskit_format::Ctx::new(geo, at);
    let damaged = |_| format!("group {agno} is damaged already");
    let (agf_bytes, agi_bytes) = (read(1)?, read(2)?);
    let agf = Agf::verify(&agf_bytes, &ctx(agf::location(geo, agno)), agno).map_err(damaged)?;
    let agi = Agi::verify(&agi_bytes, &ctx(agi::location(geo, agno)), agno).map_err(damaged)?;
    Ok((agf.clone(), agi.clone()))
}
