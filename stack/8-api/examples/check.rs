//! Checks a volume and prints what is wrong: `check disk.img`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let target = std::env::args().nth(1).ok_or("usage: check TARGET")?;
    let checked = xfskit::Check::new().run(target)?;
    for finding in &checked.findings {
        println!("{finding}");
    }
    println!("{} inodes, {} errors", checked.report.inodes, checked.report.errors);
    std::process::exit(i32::from(!checked.is_clean()));
}
