//! Lists the files on an array, of which members may be missing:
//! `degraded_array a.img missing c.img`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let members: Vec<String> = std::env::args().skip(1).collect();
    let volume = xfskit::Volume::open(format!("md:{}", members.join(",")))?;
    for entry in volume.walk_dir("/")? {
        let entry = entry?;
        println!("{:>10} {}", entry.metadata().len(), entry.path().display());
    }
    Ok(())
}
