//! What other filesystems in user space got wrong.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use xfskit::RequestKind;
use xfskit_test_mount::pair::{Served, empty, possible};
use xfskit_test_support::image::Scratch;

#[test]
fn a_directory_is_emptied_while_it_is_listed() {
    if !possible() {
        return;
    }
    let scratch = Scratch::new("mount-rm");
    let served = Served::new(empty(&scratch, "ours.img", &[]), &scratch, "");
    let dir = served.path().join("many");
    fs::create_dir(&dir).expect("a directory");
    for n in 0..20_000 {
        fs::write(dir.join(format!("name-{n}")), "").expect("a file");
    }
    let mut removed = 0;
    for entry in fs::read_dir(&dir).expect("a listing") {
        fs::remove_file(entry.expect("an entry").path()).expect("removed");
        removed += 1;
    }
    assert_eq!(removed, 20_000, "each name was listed once");
    fs::remove_dir(&dir).expect("empty");
    served.end();
}

#[test]
fn a_removed_file_stays_while_it_is_open_and_is_freed_then() {
    if !possible() {
        return;
    }
    let scratch = Scratch::new("mount-unlinked");
    let served = Served::new(empty(&scratch, "ours.img", &[]), &scratch, "");
    let path = served.path().join("file");
    let mut file = fs::File::create_new(&path).expect("a file");
    file.write_all(&vec![7; 100_000]).expect("written");
    fs::remove_file(&path).expect("removed");
    assert_eq!(fs::read_dir(served.path()).expect("a listing").count(), 0, "no name is left");
    file.write_all(b"more").expect("written after that");
    assert_eq!(file.metadata().expect("metadata").nlink(), 0);
    assert_eq!(file.metadata().expect("metadata").len(), 100_004);
    drop(file);
    let mut over = fs::File::create_new(&path).expect("another");
    over.write_all(b"old").expect("written");
    fs::write(served.path().join("new"), "new").expect("a file");
    fs::rename(served.path().join("new"), &path).expect("renamed over an open file");
    let mut held = fs::OpenOptions::new().read(true).open(&path).expect("the new one");
    let mut text = String::new();
    held.read_to_string(&mut text).expect("read");
    assert_eq!(text, "new");
    over.seek(SeekFrom::Start(0)).expect("the old one");
    over.write_all(b"OLD").expect("still writable");
    drop((over, held));
    served.end();
}

#[test]
fn a_create_is_two_requests_and_nothing_is_asked_twice() {
    if !possible() {
        return;
    }
    let scratch = Scratch::new("mount-requests");
    let served = Served::new(empty(&scratch, "ours.img", &[]), &scratch, "");
    fs::create_dir(served.path().join("d")).expect("a directory");
    let before = |kind| served.requests(kind);
    let (lookups, creates) = (before(RequestKind::Lookup), before(RequestKind::Create));
    for n in 0..100 {
        fs::File::create(served.path().join("d").join(n.to_string())).expect("a file");
    }
    assert_eq!(served.requests(RequestKind::Lookup) - lookups, 100);
    assert_eq!(served.requests(RequestKind::Create) - creates, 100);
    for kind in [RequestKind::GetXattr, RequestKind::SetAttr, RequestKind::FSync] {
        assert!(served.requests(kind) <= 3, "{kind:?}: {}", served.requests(kind));
    }
    // The kernel forgets the attributes of a directory in which a file was made, and asks for them
    // when it checks permissions the next time.
    assert!(served.requests(RequestKind::GetAttr) <= 103);
    let lookups = served.requests(RequestKind::Lookup);
    for n in 0..100 {
        fs::metadata(served.path().join("d").join(n.to_string())).expect("metadata");
        assert!(fs::metadata(served.path().join("d").join("none")).is_err());
    }
    assert_eq!(served.requests(RequestKind::Lookup) - lookups, 1, "known, or known not to be");
    served.end();
}

#[test]
fn a_write_takes_setuid_and_capabilities_away() {
    if !possible() {
        return;
    }
    let scratch = Scratch::new("mount-setuid");
    let served = Served::new(empty(&scratch, "ours.img", &[]), &scratch, "suid");
    let path = served.path().join("program");
    fs::write(&path, "#!").expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o6755)).expect("setuid");
    std::os::unix::fs::chown(&path, Some(5), Some(5)).expect("chown");
    let mode = fs::metadata(&path).expect("metadata").mode() & 0o7777;
    assert_eq!(mode, 0o755, "a change of the owner takes them");
    // Version 2 of the capability of binding low ports.
    let capability = [1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&path, "security.capability", &capability, flags).expect("set");
    let mut file = fs::OpenOptions::new().append(true).open(&path).expect("open");
    file.write_all(b"more").expect("written");
    let mut value = [0; 64];
    let left = rustix::fs::getxattr(&path, "security.capability", &mut value);
    assert_eq!(left, Err(rustix::io::Errno::NODATA), "a write takes capabilities");
    drop(file);
    served.end();
}
