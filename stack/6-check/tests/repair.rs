//! What `xfs_repair -n` 6.13 says of the planted faults, as the table of checks has it. All of them
//! with `XFSKIT_LONG=1`, else one in [`SHORT`].

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::Image;
use crate::common::planted::{self, Fault};
use xfskit_block::{BlockDevice, OverlayDevice};
use xfskit_format::checks;
use xfskit_test_support::{long, repository, skip};
use xfskit_units::ByteOffset;

/// The short run takes every fault of this number.
const SHORT: usize = 24;

/// Volumes that need a second device, which `xfs_repair` asks for before it looks at anything.
const WITH_REALTIME: &str = "v5-rt";

/// Writes the device to a sparse file.
fn write(dev: &OverlayDevice, path: &Path) {
    let file = File::create(path).unwrap();
    let len = dev.size().0;
    file.set_len(len).unwrap();
    let mut piece = vec![0; 1 << 16];
    for at in (0..len).step_by(piece.len()) {
        dev.read_at(ByteOffset(at), &mut piece).unwrap();
        if piece.iter().any(|&byte| byte != 0) {
            file.write_all_at(&piece, at).unwrap();
        }
    }
}

/// Replaces each number of a line by N.
fn without_numbers(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let end = rest.find(|c| word(c) != word(first)).unwrap_or(rest.len());
        let (piece, behind) = rest.split_at(end);
        let hex = piece.strip_prefix("0x").filter(|hex| !hex.is_empty());
        let number = match hex {
            Some(hex) => hex.chars().all(|c| c.is_ascii_hexdigit()),
            None => piece.chars().all(|c| c.is_ascii_digit()),
        };
        text.push_str(if number { "N" } else { piece });
        rest = behind;
    }
    text
}

/// Returns the output of `xfs_repair -n` for the fault, without numbers, and whether it found
/// anything.
fn repair_output(repair: &Path, image: &Image, fault: &Fault<'_>) -> (String, bool) {
    let name = format!("xfskit-planted.{}.{}.img", std::process::id(), fault.number);
    let path = std::env::temp_dir().join(name);
    write(&fault.plant(image), &path);
    let output = Command::new(repair).arg("-n").arg(&path).output();
    std::fs::remove_file(&path).unwrap();
    let output = output.unwrap();
    let text = [output.stdout, output.stderr].concat();
    let lines = String::from_utf8_lossy(&text).lines().map(without_numbers).collect::<Vec<_>>();
    (lines.join("\n"), !output.status.success())
}

#[test]
fn xfs_repair_says_of_each_planted_fault_what_the_table_has() {
    let repair = repository().join(".cache/xfsprogs-6.13/bin/xfs_repair");
    if !repair.exists() {
        skip("xfsprogs 6.13 in .cache/xfsprogs-6.13 (run tests/setup-tools.sh)");
        return;
    }
    let mut faults = planted::all();
    faults.retain(|fault| fault.image != WITH_REALTIME && (long() || fault.number % SHORT == 0));
    let images: BTreeMap<&str, Image> =
        faults.iter().map(|fault| (fault.image, Image::kept(fault.image))).collect();
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    // Of several faults of one id, some may be called otherwise.
    let named = Mutex::new(BTreeMap::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(fault) = faults.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (text, found) = repair_output(&repair, &images[fault.image], fault);
                    let words = checks::find(fault.id).expect("a check").repair;
                    let same = words.is_some_and(|words| text.contains(words));
                    *named.lock().unwrap().entry(fault.id).or_insert(false) |= same;
                    let dirty = !fault.image.starts_with("v5") || fault.image == "v5-dirty";
                    if words.is_none() && found && !dirty {
                        wrong.lock().unwrap().push(format!("{}: it says\n{text}", fault.row));
                    }
                }
            });
        }
    });
    let mut wrong = wrong.into_inner().unwrap();
    for (id, same) in named.into_inner().unwrap() {
        // The short run may have left out the fault that has the words.
        if let Some(words) = checks::find(id).unwrap().repair.filter(|_| long() && !same) {
            wrong.push(format!("{id}: it does not say {words:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
