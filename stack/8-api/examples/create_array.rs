//! Makes a RAID6 array of new files with an empty volume on it, and compares its members:
//! `create_array a.img b.img c.img d.img`.

use xfskit::md::{ArrayOptions, Create, Level, NewDevices, Rebuild, Scrub};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let members: Vec<String> = std::env::args().skip(1).collect();
    let devices = NewDevices::new().create(160 << 20);
    let created = Create::new(Level::Raid6).devices(devices).create(&members)?;
    let mut array = ArrayOptions::new().write(true).open(&created.target)?;
    Rebuild::new().run(&mut array)?; // the first resync
    array.close()?;
    xfskit::Mkfs::new().create(&created.target)?.close()?;
    let scrubbed = Scrub::new().run(&mut xfskit::md::Array::open(&created.target)?)?;
    println!("{}: {} bytes, {} pages differ", created.target, created.size, scrubbed.pages);
    Ok(())
}
