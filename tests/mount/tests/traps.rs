//! What other filesystems in user space got wrong.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use xfskit::RequestKind;
use xfskit_test_mount::pair::{Served, empty, possible};
use xfskit_test_support::Random;
use xfskit_test_support::image::{Mount, Scratch};
use xfskit_test_support::transport::Transport;

#[test]
fn a_directory_is_emptied_while_it_is_listed() {
    const LISTED: usize = 20_000;
    const BY_RM: usize = 100_000;
    if !possible() {
        return;
    }
    for transport in Transport::all() {
        let scratch = Scratch::new("mount-rm");
        let served = Served::by(transport, empty(&scratch, "ours.img", &[]), &scratch, "");
        let [listed, by_rm] = ["listed", "by-rm"].map(|name| served.path().join(name));
        for dir in [&listed, &by_rm] {
            fs::create_dir(dir).expect("a directory");
        }
        for n in 0..LISTED {
            fs::write(listed.join(format!("name-{n}")), "").expect("a file");
        }
        let mut removed = 0;
        for entry in fs::read_dir(&listed).expect("a listing") {
            fs::remove_file(entry.expect("an entry").path()).expect("removed");
            removed += 1;
        }
        assert_eq!(removed, LISTED, "each name was listed once");
        fs::remove_dir(&listed).expect("empty");
        // Names of one file: they take less time than files.
        let file = served.path().join("file");
        fs::write(&file, "").expect("a file");
        for n in 0..BY_RM {
            fs::hard_link(&file, by_rm.join(format!("name-{n}"))).expect("a link");
        }
        let ended = Command::new("rm").arg("-r").arg(&by_rm).status().expect("rm");
        assert!(ended.success() && !by_rm.exists(), "rm -r: {ended}");
        assert_eq!(file.metadata().expect("metadata").nlink(), 1);
        served.end();
    }
}

/// Returns the sorted names of a directory.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a listing").map(|entry| entry.expect("an entry"));
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_listing_shows_each_change_since_the_last_one() {
    if !possible() {
        return;
    }
    for transport in Transport::all() {
        let scratch = Scratch::new("mount-listing");
        let served = Served::by(transport, empty(&scratch, "ours.img", &[]), &scratch, "");
        let dir = served.path().join("d");
        fs::create_dir(&dir).expect("a directory");
        let mut expected = BTreeSet::new();
        let add = |expected: &mut BTreeSet<String>, n: usize| {
            // Long names, so that a listing takes several requests.
            let name = format!("{n:0200}");
            fs::write(dir.join(&name), "").expect("a file");
            expected.insert(name);
        };
        (0..200).for_each(|n| add(&mut expected, n));
        let mut random = Random::of_test(1);
        // One directory stays open, and is listed again and again.
        let open = fs::File::open(&dir).expect("a directory");
        let mut listing = rustix::fs::Dir::read_from(&open).expect("a listing");
        for n in 200..400 {
            let all: Vec<String> = expected.iter().cloned().collect();
            let old = &all[random.below(all.len())];
            match n % 3 {
                0 => add(&mut expected, n),
                1 => {
                    fs::remove_file(dir.join(old)).expect("removed");
                    expected.remove(old);
                }
                _ => {
                    let new = format!("renamed-{n}");
                    fs::rename(dir.join(old), dir.join(&new)).expect("renamed");
                    expected.remove(old);
                    expected.insert(new);
                }
            }
            listing.rewind();
            let listed = listing.by_ref().map(|entry| entry.expect("an entry"));
            let listed = listed.map(|entry| entry.file_name().to_string_lossy().into_owned());
            let listed: BTreeSet<String> = listed.filter(|name| !name.starts_with('.')).collect();
            assert_eq!(listed, expected, "the open directory, change {n}");
            assert!(names(&dir).iter().eq(&expected), "the directory, change {n}");
        }
        drop((listing, open));
        served.end();
    }
}

#[test]
fn capabilities_are_not_looked_up_at_each_write() {
    if !possible() {
        return;
    }
    for transport in Transport::all() {
        let scratch = Scratch::new("mount-writes");
        let served = Served::by(transport, empty(&scratch, "ours.img", &[]), &scratch, "");
        let file = fs::File::create_new(served.path().join("file")).expect("a file");
        let before = served.requests(RequestKind::GetXattr);
        for n in 0..200 {
            file.write_all_at(&[7; 5000], n * 5000).expect("written");
            if n % 10 == 0 {
                file.sync_all().expect("synced");
            }
        }
        let asked = served.requests(RequestKind::GetXattr) - before;
        assert!(asked <= 1, "{asked} of 200 writes");
        drop(file);
        served.end();
    }
}

/// The kernel lets a mapping have dirty pages of a filesystem in user space up to a small part of
/// the machine's memory. Beyond that, the program waits for the process that writes them.
#[test]
fn a_large_mapping_is_written_whatever_the_limit_of_dirty_pages_is() {
    const MIB: usize = 400;
    if !possible() {
        return;
    }
    for transport in Transport::all() {
        let scratch = Scratch::new("mount-mapping");
        let served = Served::by(transport, empty(&scratch, "ours.img", &[]), &scratch, "");
        let path = served.path().join("file");
        let script = format!(
            "for part in 0 1; do
            xfs_io -f -c 'truncate {MIB}m' -c 'mmap -rw 0 {MIB}m' \
                -c \"mwrite -S 0x3$part $((part * {MIB} / 2))m $(({MIB} / 2))m\" -c munmap \"$1\" &
            processes=\"$processes $!\"
        done
        for process in $processes; do wait $process; done"
        );
        let mut mapped = Command::new("timeout");
        mapped.args(["300", "bash", "-ec", &script, "mapped"]).arg(&path);
        let ran = mapped.output().expect("xfs_io");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        let verify = |path: &Path| {
            let content = fs::read(path).expect("content");
            let half = MIB << 19;
            assert_eq!(content.len(), 2 * half);
            assert!(content[..half].iter().all(|&byte| byte == 0x30));
            assert!(content[half..].iter().all(|&byte| byte == 0x31));
        };
        verify(&path);
        let image = served.end();
        let mount = Mount::read_only(&image, &scratch).expect("a mount by Linux");
        verify(&mount.path().join("file"));
        mount.unmount().expect("an unmount");
    }
}

#[test]
fn a_removed_file_stays_while_it_is_open_and_is_freed_then() {
    if !possible() {
        return;
    }
    for transport in Transport::all() {
        let scratch = Scratch::new("mount-unlinked");
        let served = Served::by(transport, empty(&scratch, "ours.img", &[]), &scratch, "");
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
        assert_eq!(names(served.path()), ["file"], "no other name keeps the old one");
        over.seek(SeekFrom::Start(0)).expect("the old one");
        over.write_all(b"OLD").expect("still writable");
        drop((over, held));
        served.end();
    }
}

#[test]
fn a_create_is_two_requests_and_nothing_is_asked_twice() {
    if !possible() {
        return;
    }
    for transport in Transport::all() {
        let scratch = Scratch::new("mount-requests");
        let served = Served::by(transport, empty(&scratch, "ours.img", &[]), &scratch, "");
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
        // The kernel forgets the attributes of a directory in which a file was made, and asks for
        // them when it checks permissions the next time.
        assert!(served.requests(RequestKind::GetAttr) <= 103);
        let lookups = served.requests(RequestKind::Lookup);
        for n in 0..100 {
            fs::metadata(served.path().join("d").join(n.to_string())).expect("metadata");
            assert!(fs::metadata(served.path().join("d").join("none")).is_err());
        }
        assert_eq!(served.requests(RequestKind::Lookup) - lookups, 1, "known, or known not to be");
        served.end();
    }
}

#[test]
fn a_write_takes_setuid_and_capabilities_away() {
    if !possible() {
        return;
    }
    for transport in Transport::all() {
        let scratch = Scratch::new("mount-setuid");
        let served = Served::by(transport, empty(&scratch, "ours.img", &[]), &scratch, "suid");
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
}
