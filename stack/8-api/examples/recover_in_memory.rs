//! Shows what the replay of a dirty journal brings, in memory: `recover_in_memory disk.img`. The
//! image stays as it is.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target = std::env::args().nth(1).ok_or("usage: recover_in_memory TARGET")?;
    let as_it_lies = xfskit::VolumeOptions::new().recovery(false).open(&target)?;
    let recovered = xfskit::Volume::open(&target)?;
    let before = as_it_lies.walk_dir("/")?.filter_map(Result::ok).count();
    let after = recovered.walk_dir("/")?.filter_map(Result::ok).count();
    println!("{before} files as the volume lies, {after} with its journal replayed");
    Ok(())
}
