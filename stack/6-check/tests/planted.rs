//! Every id of the table of checks has a planted fault that yields it, and nothing but the ids
//! listed beside it.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::planted::{self, Fault};
use common::{Image, check_all};

#[test]
fn dev() {
    let path = std::env::var("PLANT").unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    let faults = planted::parse(&text);
    let names: BTreeSet<&str> = faults.iter().map(|f| f.image).collect();
    let images: BTreeMap<&str, Image> = names.into_iter().map(|n| (n, Image::kept(n))).collect();
    let next = AtomicUsize::new(0);
    let out = Mutex::new(BTreeMap::new());
    std::thread::scope(|scope| {
        for t in 0..2 {
            let (next, out, faults, images) = (&next, &out, &faults, &images);
            scope.spawn(move || {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let Some(fault) = faults.get(n) else { return };
                    let text = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        one(fault, &images[fault.image], t)
                    }));
                    let text = text.unwrap_or_else(|p| {
                        format!("{}\tPANIC {:?}\n", fault.id, p.downcast_ref::<String>())
                    });
                    out.lock().unwrap().insert(n, text);
                }
            });
        }
    });
    let mut all = String::new();
    for text in out.into_inner().unwrap().values() {
        all.push_str(text);
    }
    std::fs::write(std::env::var("PLANT_OUT").unwrap(), all).unwrap();
}

fn one(fault: &Fault<'_>, image: &Image, thread: usize) -> String {
    let dev = fault.plant(image);
    let start = std::time::Instant::now();
    let (_, findings) = check_all(&dev);
    let time = start.elapsed();
    let mut text = format!("{}\t{:?}\n", fault.id, time);
    for finding in &findings {
        text += &format!("{}\t  {finding}\n", fault.id);
    }
    if let Ok(repair) = std::env::var("PLANT_REPAIR") {
        use std::os::unix::fs::FileExt;
        let path = format!("/dev/shm/planted-{}-{thread}.img", std::process::id());
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(image.bytes.len() as u64).unwrap();
        let mut piece = vec![0; 65536];
        for at in (0..image.bytes.len() as u64).step_by(65536) {
            use xfskit_block::BlockDevice;
            dev.read_at(xfskit_units::ByteOffset(at), &mut piece).unwrap();
            if piece.iter().any(|b| *b != 0) {
                file.write_all_at(&piece, at).unwrap();
            }
        }
        let said = std::process::Command::new(repair).arg("-n").arg(&path).output().unwrap();
        std::fs::remove_file(&path).unwrap();
        text += &format!("{}\t  RC {:?}\n", fault.id, said.status.code());
        for stream in [&said.stdout, &said.stderr] {
            for line in String::from_utf8_lossy(stream).lines() {
                text += &format!("{}\t  R {line}\n", fault.id);
            }
        }
    }
    text
}
