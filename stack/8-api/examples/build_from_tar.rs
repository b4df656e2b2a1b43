//! Makes a volume of a tar archive: `build_from_tar rootfs.tar.zst root.img`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let [_, archive, image] = &std::env::args().collect::<Vec<_>>()[..] else {
        return Err("usage: build_from_tar ARCHIVE IMAGE".into());
    };
    let built = xfskit::Build::new().tar(archive).create(image)?;
    println!("{} files in {} bytes, {} of them free", built.inodes, built.size, built.free);
    Ok(())
}
