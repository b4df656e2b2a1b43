//! Prints a file of a volume: `read_file disk.img /etc/fstab`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [_, target, path] = &std::env::args().collect::<Vec<_>>()[..] else {
        return Err("usage: read_file TARGET PATH".into());
    };
    let volume = xfskit::Volume::open(target)?;
    let mut file = volume.open_file(path)?;
    std::io::copy(&mut file, &mut std::io::stdout())?;
    Ok(())
}
