//! The kept corpus. `xfskit-fuzz-corpus seeds DIR` writes the seeds of each target, kept inputs
//! included, to `DIR/TARGET/`. `… pack DIR` packs these inputs into one archive for each target.
//! `… targets` lists the targets with their weights and the length of their longest inputs.

use std::path::Path;

use xfskit_test_fuzzing::{Target, kept, targets};

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["targets"] => {
            let line = |t: &Target| println!("{} {} {}", t.name, t.weight, t.max_len);
            targets().for_each(line);
            Ok(())
        }
        ["seeds", dir] => targets().try_for_each(|target| {
            let folder = Path::new(dir).join(target.name);
            std::fs::create_dir_all(&folder)?;
            let inputs = kept::inputs(target.name).into_iter().chain((target.seeds)());
            for (number, input) in inputs.enumerate() {
                std::fs::write(folder.join(format!("seed-{number:05}")), input)?;
            }
            Ok(())
        }),
        ["pack", dir] => targets()
            .try_for_each(|target| kept::pack(target.name, &Path::new(dir).join(target.name))),
        _ => {
            eprintln!("usage: xfskit-fuzz-corpus targets | seeds DIR | pack DIR");
            std::process::exit(2);
        }
    }
}
