//! A volume with quota. xfskit does not account quota. Like a kernel that mounts without quota, it
//! records that before the first change, so the next mount with quota counts anew.

use std::sync::Arc;

use xfskit::raw::block::{FileDevice, OpenMode};
use xfskit::raw::core::{OpenOptions, Volume};
use xfskit::raw::vfs::{Clock, Fs, NewNode};
use xfskit_test_support::{Image, Need, Scratch, Xfsprogs, needs, verify};

fn field(tools: &Xfsprogs, image: &Image, name: &str) -> u64 {
    let print = format!("print {name}");
    let output = tools.db(image, false, &["sb 0", &print]).expect("xfs_db");
    let value = output.trim().rsplit(' ').next().expect("a value").to_owned();
    let hex = value.strip_prefix("0x").map(|hex| u64::from_str_radix(hex, 16));
    hex.unwrap_or_else(|| value.parse()).expect("a number")
}

#[test]
fn the_kernel_recounts_quota_after_xfskit_has_written() {
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
        Fs::new(Volume::open(Arc::new(device), &options).expect("open the volume"), Clock::system())
    };
    // All three types of quota, accounted, enforced and checked.
    tools.db(&image, true, &["sb 0", "write -d qflags 0x7cf"]).expect("xfs_db");
    assert_eq!(field(&tools, &image, "qflags"), 0x7cf);

    open(OpenMode::ReadOnly, false).close().expect("close");
    assert_eq!(field(&tools, &image, "qflags"), 0x7cf, "reading changes nothing");

    let fs = open(OpenMode::ReadWrite, true);
    let root = fs.volume().geo().rootino;
    fs.make(root, b"uncounted", &NewNode::file(0o644).owner(1000, 2000)).expect("make");
    fs.close().expect("close");
    assert_eq!(field(&tools, &image, "qflags"), 0);
    verify::volume(&image, &scratch).expect("sound");
}
