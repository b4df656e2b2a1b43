//! Plans of damaged images, literally. `XFSKIT_RENEW=1` writes them anew.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use xfskit_test_support::kept;

use crate::common::{Block, Image};
use crate::survivors::{repair, with};

/// A damaged image: name of the plan, kept image, damage.
type Case = (&'static str, &'static str, fn(&Image, &mut Vec<u8>));

const CASES: [Case; 14] = [
    ("attribute-leaf", "v5", |image, all| flip(all, image.da(0x3bee, 0), 200)),
    ("directory-block", "v5", |image, all| zero(all, image.magic(b"XDB3", 0))),
    ("directory-data", "v5-1k", |image, all| flip(all, image.magic(b"XDD3", 1), 300)),
    ("directory-hash", "v5", |image, all| zero(all, image.da(0x3dff, 0))),
    ("file-zeroed", "v5", |image, all| zero(all, image.file(1))),
    ("first-blocks", "v5", |_, all| all[..1 << 16].fill(0)),
    ("group-headers", "v5", |image, all| {
        (0..4).for_each(|sector| zero(all, image.header(1, sector)));
    }),
    ("group-lost", "v5-plain", |image, all| {
        let (start, end) = (image.header(3, 0).offset, all.len());
        all[start..end].fill(0);
    }),
    ("journal-dirty", "v5-dirty", |_, _| ()),
    ("journal-garbage", "v5-dirty", |image, all| {
        let start = usize::try_from(image.geo.log_daddr().unwrap().byte_offset().0).unwrap();
        let len = (image.geo.logblocks as usize) << image.geo.blocklog;
        all[start..start + len].fill(0xa5);
    }),
    ("map-lost", "v5-plain", |image, all| zero(all, image.magic(b"BMA3", 0))),
    ("map-recorded", "v5", |image, all| zero(all, image.magic(b"BMA3", 0))),
    ("primary-lost", "v5", |image, all| zero(all, image.header(0, 0))),
    ("rmapbt", "v5", |image, all| flip(all, image.magic(b"RMB3", 0), 1000)),
];

fn zero(all: &mut [u8], block: Block) {
    all[block.offset..block.offset + block.len].fill(0);
}

/// Flips a bit, without a right checksum.
fn flip(all: &mut [u8], block: Block, at: usize) {
    all[block.offset + at] ^= 4;
}

/// Returns the place of a plan.
fn place(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/plans/{name}.json"))
}

/// Sorts lists of findings: threads find them in any order.
fn sort(value: &mut Value) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(sort),
        Value::Object(fields) => {
            for (name, value) in fields {
                sort(value);
                if let ("findings" | "beyond", Value::Array(list)) = (&**name, value) {
                    list.sort_by_key(ToString::to_string);
                }
            }
        }
        _ => {}
    }
}

#[test]
fn plans_are_as_they_were_kept() {
    let renew = std::env::var_os("XFSKIT_RENEW").is_some();
    let mut differing = Vec::new();
    for (name, image, damage) in CASES {
        let image = Image::kept(image);
        let damaged = with(&image.bytes, |all| damage(&image, all));
        let prepared = repair().prepare(Arc::new(kept::memory(&damaged)) as _).unwrap();
        assert!(prepared.is_clean(), "{name}: {:#?}", prepared.left());
        let mut plan = serde_json::to_value(prepared.plan()).unwrap();
        sort(&mut plan);
        let text = format!("{plan:#}\n");
        if renew {
            std::fs::create_dir_all(place(name).parent().unwrap()).unwrap();
            std::fs::write(place(name), &text).unwrap();
        }
        if std::fs::read_to_string(place(name)).unwrap_or_default() != text {
            println!("{name} is now\n{text}");
            differing.push(name);
        }
    }
    assert!(differing.is_empty(), "other plans: {differing:?}; XFSKIT_RENEW=1 keeps them");
}
