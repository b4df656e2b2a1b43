//! Looks at a volume: `cargo run --example look -- disk.img /etc [/etc/fstab]`.
//!
//! Walks a tree, adds up what is in it, and prints one file. Damage on the way is reported and does
//! not hide the rest.

use std::io::Write;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(target), Some(tree)) = (args.next(), args.next()) else {
        return Err("usage: look TARGET DIRECTORY [FILE]".into());
    };
    let volume = xfskit::open(&target)?;
    let geo = volume.fs().volume().geo();
    println!("{target}: {} groups, blocks of {} bytes", geo.agcount, geo.blocksize());

    let (mut files, mut bytes) = (0u64, 0u64);
    for step in volume.walk(&tree)? {
        match step {
            Ok(entry) => {
                files += 1;
                bytes += volume.fs().stat(&entry.inode).blocks * 512;
            }
            Err(fault) => eprintln!("damaged: {fault}"),
        }
    }
    println!("{tree}: {files} files take {bytes} bytes");

    if let Some(file) = args.next() {
        for xattr in volume.xattrs(&file)? {
            println!("{} ({} bytes)", String::from_utf8_lossy(&xattr.name), xattr.value.len());
        }
        std::io::stdout().write_all(&volume.read(&file)?)?;
    }
    Ok(())
}
