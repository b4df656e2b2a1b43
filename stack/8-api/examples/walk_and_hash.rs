//! Prints a checksum of every file below a directory: `walk_and_hash disk.img /etc`.

use std::hash::{DefaultHasher, Hasher};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [_, target, dir] = &std::env::args().collect::<Vec<_>>()[..] else {
        return Err("usage: walk_and_hash TARGET DIRECTORY".into());
    };
    let volume = xfskit::Volume::open(target)?;
    for entry in volume.walk_dir(dir)? {
        match entry {
            Ok(entry) if entry.file_type().is_file() => {
                let mut hasher = DefaultHasher::new();
                hasher.write(&volume.read(entry.path())?);
                println!("{:016x} {}", hasher.finish(), entry.path().display());
            }
            Ok(_) => {}
            Err(damage) => eprintln!("{damage}"), // and the rest still comes
        }
    }
    Ok(())
}
