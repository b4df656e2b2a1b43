//! A volume that is kept under quota. xfskit does not count: like a kernel that is mounted without quota, it says so
//! before the first change, and the next mount with quota counts anew.

use std::sync::Arc;

use xfskit::block::{FileDevice, OpenMode};
use xfskit::core::{OpenOptions, Volume};
use xfskit::vfs::{Fs, NewNode};
use xfskit_test_oracle::{Image, Need, Scratch, Xfsprogs, judge, needs};

fn field(tools: &Xfsprogs, image: &Image, name: &str) -> u64 {
    let print = format!("print {name}");
    let said = tools.db(image, false, &["sb 0", &print]).expect("xfs_db");
    let value = said.trim().rsplit(' ').next().expect("a value").to_owned();
    let hex = value.strip_prefix("0x").map(|hex| u64::from_str_radix(hex, 16));
    hex.unwrap_or_else(|| value.parse()).expect("a number")
}

#[test]
fn a_volume_under_quota_is_written_such_that_the_kernel_counts_anew() {
    if !needs(&[Need::Xfsprogs]) {
        return;
    }
    let tools = Xfsprogs::installed().expect("needed");
    let scratch = Scratch::new("quota");
    let image = Image::sparse(&scratch, "volume.img", 300 << 20);
    tools.mkfs(&image, &[]).expect("mkfs");
    let open = |mode, write| {
        let device = FileDevice::open(image.path(), mode).expect("open the image");
        let options = OpenOptions { write, ..OpenOptions::default() };
        Fs::new(Volume::open(Arc::new(device), &options).expect("open the volume"))
    };
    // All three kinds of quota, accounted, enforced and checked.
    tools.db(&image, true, &["sb 0", "write -d qflags 0x7cf"]).expect("xfs_db");
    assert_eq!(field(&tools, &image, "qflags"), 0x7cf);

    open(OpenMode::ReadOnly, false).close().expect("close");
    assert_eq!(field(&tools, &image, "qflags"), 0x7cf, "reading changes nothing");

    let fs = open(OpenMode::ReadWrite, true);
    let root = fs.volume().geo().rootino;
    fs.make(root, b"uncounted", &NewNode::file(0o644).owner(1000, 2000)).expect("make");
    fs.close().expect("close");
    assert_eq!(field(&tools, &image, "qflags"), 0);
    judge::volume(&image, &scratch).expect("sound");
}
