//! Makes a volume in a file and changes it: `cargo run --example change -- new.img`.
//!
//! Each step says what it does; at the end the volume is closed, and any XFS can mount it.

use std::sync::Arc;

use xfskit::block::FileDevice;
use xfskit::units::ByteLen;
use xfskit::vfs::{NewNode, RenameMode, SetMode};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(path) = std::env::args().nth(1) else { return Err("usage: change NEW-IMAGE".into()) };
    let device = FileDevice::create(path, ByteLen(512 << 20))?;
    let volume = xfskit::make(Arc::new(device), &xfskit::mkfs::Options::default())?;
    let fs = volume.fs();

    // Paths.
    volume.make_dirs("/var/lib/app")?;
    volume.write("/var/lib/app/config", b"color = blue\n")?;
    volume.write("/var/lib/app/config.new", b"color = green\n")?;
    volume.rename_as("/var/lib/app/config.new", "/var/lib/app/config", RenameMode::Exchange)?;
    volume.link("/var/lib/app/config", "/config")?;
    fs.set_xattr(volume.stat("/config")?.ino, b"user.origin", b"example", SetMode::Create)?;

    // One file, at any offset. What is between is a hole.
    volume.write("/var/lib/app/data", &[])?;
    let data = volume.file("/var/lib/app/data")?;
    data.write(1 << 30, &vec![1; 100_000])?;
    data.preallocate(0..1 << 20, false)?;
    data.punch(64 << 10..128 << 10)?;
    data.insert(0..4096)?;
    data.collapse(0..4096)?;
    data.fsync()?;

    // Two files, the same blocks, until one of them is written.
    volume.write("/var/lib/app/snapshot", &[])?;
    let snapshot = volume.file("/var/lib/app/snapshot")?;
    snapshot.share(0, &data, 0..data.size())?;
    data.write(1 << 30, b"changed")?;
    snapshot.unshare(0..snapshot.size())?;

    // A file without a name: gone with its last holder, or after a crash.
    let temporary = fs.make_unnamed(volume.stat("/var")?.ino, &NewNode::file(0o600))?;
    fs.write(temporary.ino(), 0, b"scratch")?;
    drop(temporary);

    // Many threads.
    std::thread::scope(|scope| {
        let make = |worker: usize| {
            (0..1000).try_for_each(|n| volume.write(format!("/var/{worker}-{n}"), b"content"))
        };
        let workers: Vec<_> = (0..8).map(|worker| scope.spawn(move || make(worker))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))
    })?;

    // Names in portions; a cookie stays good while names come and go.
    let (dir, mut cookie, mut names) = (fs.inode(volume.stat("/var")?.ino)?, Some(0), 0);
    while let Some(from) = cookie {
        let portion = fs.read_dir_from(&dir, from, 100);
        (cookie, names) = (portion.next, names + portion.entries.len());
    }
    println!("{names} names in /var, {} bytes in its data", data.size());

    drop((data, snapshot));
    volume.close()?;
    Ok(())
}
