//! Dumps a volume to a file, or restores one: `metadump dump|restore SOURCE TARGET [OPTION…]`.

use std::error::Error;
use std::fs::File;
use std::io::BufReader;
use std::sync::Arc;

use xfskit_block::{BlockDevice, FileDevice, OpenMode};
use xfskit_metadump::{Dump, FileFormat, JournalMode, Reader, Restore, Targets, Watch, restore};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [command, source, target, options @ ..] = &args[..] else {
        return Err("usage: metadump dump|restore SOURCE TARGET [OPTION…]".into());
    };
    let has = |option: &str| options.iter().any(|o| o == option);
    if command == "restore" {
        let reader = Reader::open(BufReader::with_capacity(1 << 20, File::open(source)?))?;
        let file = File::create(target)?;
        file.set_len(restore::volume_bytes(&reader).ok_or("the superblock is damaged")?)?;
        drop(file);
        let device = FileDevice::open(target, OpenMode::ReadWrite)?;
        let targets = Targets { data: &device, log: None, realtime: None };
        println!("{:?}", Restore::default().run(reader, targets)?);
        return Ok(());
    }
    let device: Arc<dyn BlockDevice> = Arc::new(FileDevice::open(source, OpenMode::ReadOnly)?);
    let dump = Dump {
        obfuscate: (!has("plain")).then_some(*b"0123456789abcdef"),
        zero_stale: !has("full"),
        format: has("v2").then_some(FileFormat::V2),
        journal: if has("copy") { JournalMode::Copy } else { JournalMode::Auto },
        threads: 4,
        ..Dump::default()
    };
    let prepared = dump.prepare(device, None)?;
    let (_, report) = prepared.write(File::create(target)?, Watch::default())?;
    println!("{report:#?}");
    Ok(())
}
