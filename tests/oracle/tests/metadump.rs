//! Files of metadata are interchangeable with those of xfs_metadump, and the images made of them
//! are valid to Linux.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use rustix::fs::{XattrFlags, lsetxattr};
use xfskit::{
    JournalHandling, Metadump, MetadumpFormat, MetadumpJournal, MetadumpReport, RestoreMetadump,
};
use xfskit_format::hash::name_hash;
use xfskit_test_support::tools::run;
use xfskit_test_support::{
    Image, Mount, Need, Scratch, Xfsprogs, bytes, dirty, long, matrix, needs, ours,
};

volumes! {
    default_is_interchangeable: "default",
    default_newer_is_interchangeable: "default-newer",
    block_1k_is_interchangeable: "block-1k",
    block_16k_is_interchangeable: "block-16k",
    dir_block_16k_is_interchangeable: "dir-block-16k",
    dir_block_64k_of_1k_is_interchangeable: "dir-block-64k-of-1k",
    inode_1k_is_interchangeable: "inode-1k",
    sector_4k_is_interchangeable: "sector-4k",
    bare_is_interchangeable: "bare",
    rmapbt_is_interchangeable: "rmapbt",
    nrext64_is_interchangeable: "nrext64",
    parent_is_interchangeable: "parent",
    new_uuid_is_interchangeable: "new-uuid",
    stripe_is_interchangeable: "stripe",
    many_groups_is_interchangeable: "many-groups",
    external_log_is_interchangeable: "external-log",
    external_log_newer_is_interchangeable: "external-log-newer",
    block_64k_is_interchangeable: "block-64k",
}

/// Dumps a volume in both ways, restores each file with both programs, and verifies the images.
fn verify_volume(name: &str) {
    let case = matrix::named(name);
    if case.long && !long() || !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("metadump");
    let Some(image) = case.filled(&scratch) else { return };
    let external = image.log().is_some();
    let tree = shape(&image, &scratch);
    let first = if external { MetadumpFormat::V2 } else { MetadumpFormat::V1 };
    for (obfuscate, format) in [(true, first), (false, MetadumpFormat::V2)] {
        let what = format!("{name}, obfuscated: {obfuscate}, {format:?}");
        let file = scratch.path().join("ours.metadump");
        let report = dump(&image, &file, Metadump::new().obfuscate(obfuscate).format(format));
        assert!(report.is_clean(), "{what}: {report:#?}");
        assert_eq!(report.journal, Some(JournalHandling::Cleared), "{what}");
        let copy = restored_by_us(&image, &scratch, &file, "copy.img");
        restored_by_both(&image, &scratch, &file, &copy, format, &what);
        for tools in case.repair_tools() {
            tools.repair_n(&copy, &[]).unwrap_or_else(|why| panic!("{what}: {why}"));
        }
        let check = ours::check(&copy);
        assert!(check.is_clean(), "{what}: {check:#?}");
        let shown = shape(&copy, &scratch);
        let lost: Vec<_> = tree.difference(&shown).take(5).collect();
        assert!(tree.len() == shown.len() && lost.is_empty(), "{what}: {lost:?}");
        fs::remove_file(file).expect("removed");
    }
    theirs(&image, &scratch, name);
}

/// Has both versions of xfs_metadump write files, and compares what we and they make of them.
fn theirs(image: &Image<'_>, scratch: &Scratch, name: &str) {
    let newer = |tools: &Xfsprogs| !tools.version.starts_with("6.1.");
    for tools in matrix::named(name).repair_tools() {
        for format in [MetadumpFormat::V1, MetadumpFormat::V2] {
            if format == MetadumpFormat::V2 && !newer(&tools)
                || format == MetadumpFormat::V1 && image.log().is_some()
            {
                continue;
            }
            let what = format!("{name}, xfs_metadump {}, {format:?}", tools.version);
            let file = scratch.path().join("theirs.metadump");
            let mut command = tools.command("xfs_metadump");
            if format == MetadumpFormat::V2 {
                command.args(["-v", "2"]);
            }
            if let Some(log) = image.log() {
                command.arg("-l").arg(log);
            }
            run(command.arg(image.path()).arg(&file)).expect("xfs_metadump");
            let copy = restored_by_us(image, scratch, &file, "theirs.img");
            restored_by_both(image, scratch, &file, &copy, format, &what);
            fs::remove_file(file).expect("removed");
        }
    }
}

fn dump(image: &Image<'_>, file: &Path, metadump: Metadump<'_>) -> MetadumpReport {
    let metadump = image.log().into_iter().fold(metadump, Metadump::log);
    let prepared = metadump.prepare(image.path()).expect("prepared");
    prepared.write(File::create(file).expect("a file")).expect("written")
}

/// Restores a file with xfskit to an image `name`.
fn restored_by_us<'s>(of: &Image<'_>, scratch: &'s Scratch, file: &Path, name: &str) -> Image<'s> {
    let copy = empty(of, scratch, name);
    let restore = copy.log().into_iter().fold(RestoreMetadump::new(), RestoreMetadump::log);
    let file = File::open(file).expect("a file");
    restore.force(true).run(file, copy.path()).expect("restored");
    copy
}

/// Makes an empty image for a copy of `of`.
fn empty<'s>(of: &Image<'_>, scratch: &'s Scratch, name: &str) -> Image<'s> {
    let copy = Image::sparse(scratch, name, 0);
    match of.log() {
        None => copy,
        Some(log) => copy.with_external_log(log.metadata().expect("a log").len()),
    }
}

/// Restores a file with xfs_mdrestore, and compares the image with `ours`, byte by byte.
fn restored_by_both(
    of: &Image<'_>,
    scratch: &Scratch,
    file: &Path,
    ours: &Image<'_>,
    format: MetadumpFormat,
    what: &str,
) {
    for tools in Xfsprogs::all() {
        if format == MetadumpFormat::V2 && tools.version.starts_with("6.1.") {
            continue;
        }
        let copy = empty(of, scratch, "mdrestore.img");
        let mut command = tools.command("xfs_mdrestore");
        if let Some(log) = copy.log() {
            command.arg("-l").arg(log);
        }
        run(command.arg(file).arg(copy.path())).unwrap_or_else(|why| panic!("{what}: {why}"));
        let mut pairs = vec![(ours.path(), copy.path())];
        pairs.extend(ours.log().zip(copy.log()));
        for (ours, theirs) in pairs {
            let differences = bytes::differences(ours, theirs, &[], 5);
            assert!(differences.is_empty(), "{what}, {}: {differences:#?}", tools.version);
        }
        fs::remove_file(copy.path()).expect("removed");
    }
}

/// An entry: its directory, its inode, length and hash of its name, its metadata.
type Shape = (u64, u64, usize, u32, [u64; 7]);

/// Returns the tree as the kernel shows it, with the hash of each name in place of the name.
fn shape(image: &Image<'_>, scratch: &Scratch) -> BTreeSet<Shape> {
    let mount = Mount::read_only(image, scratch).expect("mount");
    let mut shapes = BTreeSet::new();
    add_shapes(mount.path(), &mut shapes);
    mount.unmount().expect("unmount");
    shapes
}

/// Adds the entries below `dir`. Paths may be longer than the kernel takes, so each directory is
/// opened from the one above it.
fn add_shapes(dir: &Path, shapes: &mut BTreeSet<Shape>) {
    let open = File::open(dir).expect("a directory");
    let dir = Path::new("/proc/self/fd").join(open.as_raw_fd().to_string());
    let parent = open.metadata().expect("stat").ino();
    for entry in fs::read_dir(&dir).expect("a directory") {
        let path = dir.join(entry.expect("an entry").file_name());
        let stat = path.symlink_metadata().expect("stat");
        let [mtime, blocks] = [stat.mtime().cast_unsigned(), stat.blocks()];
        let owner = u64::from(stat.uid()) << 32 | u64::from(stat.gid());
        let facts =
            [stat.mode().into(), stat.nlink(), owner, stat.size(), mtime, blocks, stat.rdev()];
        let name = path.file_name().expect("a name").as_bytes();
        shapes.insert((parent, stat.ino(), name.len(), name_hash(name), facts));
        if stat.is_dir() {
            add_shapes(&path, shapes);
        }
    }
}

/// Text that must not leave a volume.
const SECRET: &str = "TopSecretText";

/// Puts the secret wherever names and values are: in short forms, blocks, remote values, and in
/// what is stale.
fn fill_with_secrets(root: &Path) {
    let attr = |path: &Path, name: &str, len: usize| {
        let value = SECRET.repeat(len / SECRET.len() + 1);
        lsetxattr(path, name, &value.as_bytes()[..len], XattrFlags::empty()).expect("an attribute");
    };
    for (dir, count) in [("sf", 3), ("block", 40), ("leaf", 500), ("node", 6000)] {
        let dir = root.join(format!("{SECRET}-{dir}"));
        fs::create_dir(&dir).expect("a directory");
        for i in 0..count {
            fs::write(dir.join(format!("{SECRET}{i}")), "").expect("a file");
        }
        for i in (0..count).step_by(3) {
            fs::remove_file(dir.join(format!("{SECRET}{i}"))).expect("removed");
        }
    }
    for (i, count) in [1, 5, 60, 900].into_iter().enumerate() {
        let file = root.join(format!("{SECRET}-attr{i}"));
        fs::write(&file, "").expect("a file");
        for n in 0..count {
            attr(&file, &format!("user.{SECRET}{n}"), 20 + n % 40);
        }
        attr(&file, &format!("user.{SECRET}-large"), 9000);
    }
    for len in [30, 900] {
        let target: String = format!("/{SECRET}/{SECRET}").repeat(40).chars().take(len).collect();
        std::os::unix::fs::symlink(target, root.join(format!("{SECRET}-{len}"))).expect("a link");
    }
}

/// Returns true if the file has the secret in it.
fn has_secret(file: &Path) -> bool {
    let bytes = fs::read(file).expect("a file");
    bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes())
}

#[test]
fn no_name_and_no_value_is_in_an_obfuscated_file() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    for name in ["default", "block-1k", "bare", "dir-block-16k", "parent"] {
        let scratch = Scratch::new("metadump-secret");
        let Some(image) = matrix::named(name).make(&scratch) else { continue };
        let Some(mount) = matrix::named(name).mount(&image, &scratch, "") else { continue };
        fill_with_secrets(mount.path());
        mount.unmount().expect("unmount");
        let file = scratch.path().join("secret.metadump");
        dump(&image, &file, Metadump::new().obfuscate(false));
        assert!(has_secret(&file), "{name}: the test finds nothing");
        let report = dump(&image, &file, Metadump::new());
        assert!(report.is_clean(), "{name}: {report:#?}");
        assert!(!has_secret(&file), "{name}");
        let copy = restored_by_us(&image, &scratch, &file, "copy.img");
        for tools in matrix::named(name).repair_tools() {
            tools.repair_n(&copy, &[]).expect("clean to xfs_repair");
        }
        assert_eq!(shape(&image, &scratch), shape(&copy, &scratch), "{name}");
    }
}

#[test]
fn a_dirty_journal_is_replayed_or_copied() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    for crash in dirty::CRASHES.iter().take(4) {
        let scratch = Scratch::new("metadump-dirty");
        let Some(image) = crash.leave(&scratch) else { continue };
        let file = scratch.path().join("dirty.metadump");
        let report = dump(&image, &file, Metadump::new());
        let dirty = report.journal == Some(JournalHandling::Replayed);
        let copy = restored_by_us(&image, &scratch, &file, "copy.img");
        for tools in matrix::named(crash.volume).repair_tools() {
            let repair = tools.repair_n(&copy, &[]);
            repair.unwrap_or_else(|why| panic!("{}: {why}", crash.name));
        }
        let replayed = shape(&copy, &scratch);

        let options = Metadump::new().obfuscate(false).journal(MetadumpJournal::Copy);
        let report = dump(&image, &file, options);
        assert_eq!(report.content.dirty_log, dirty, "{}", crash.name);
        let copy = restored_by_us(&image, &scratch, &file, "copy.img");
        Mount::recover(&copy, &scratch).expect("the kernel recovers the copied journal");
        let recovered = shape(&copy, &scratch);
        let difference: Vec<_> = recovered.symmetric_difference(&replayed).take(5).collect();
        assert!(difference.is_empty(), "{}: {difference:?}", crash.name);
    }
}

#[test]
fn a_damaged_volume_looks_to_xfs_repair_as_its_copy_does() {
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("metadump-damaged");
    let case = matrix::named("default");
    let Some(image) = case.filled(&scratch) else { return };
    let tools = Xfsprogs::installed().expect("xfsprogs");
    let findings = |image: &Image<'_>| {
        let output = Command::new("xfs_repair").arg("-n").arg(image.path()).output();
        let output = output.expect("xfs_repair");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        // Threads print in any order, and with their numbers; addresses of the program vary.
        let cache = ["Badness in key lookup", "bp=(bno "];
        let lines = text.lines().filter(|line| !cache.iter().any(|word| line.contains(word)));
        let same = |line: &str| match line.split_once(" detected at 0x") {
            Some((what, place)) => format!("{what} {:?}", place.split_once(", ").map(|p| p.1)),
            None => line.to_owned(),
        };
        lines.map(same).collect::<BTreeSet<String>>()
    };
    let mut seen = 0;
    for commands in [
        &["agf 0", "write -d bnoroot 7777777"][..],
        &["agi 1", "write -d root 5"],
        &["agf 1", "addr bnoroot", "write -d numrecs 9999"],
        &["agi 0", "addr root", "write -d magic 0"],
        &["sb 0", "addr rootino", "write -d core.size 99999999"],
        &["sb 0", "addr rootino", "write -d core.nextents 77"],
        &["agi 0", "addr root", "write -d recs[1].startino 777"],
        &["agi 0", "write -d level 3"],
    ] {
        let damaged = image.copy("damaged.img");
        tools.db(&damaged, true, commands).expect("xfs_db");
        let file = scratch.path().join("damaged.metadump");
        let options = Metadump::new().obfuscate(false).full_blocks(true);
        let report = dump(&damaged, &file, options);
        seen += u32::from(!report.is_clean());
        let copy = restored_by_us(&damaged, &scratch, &file, "copy.img");
        let (before, after) = (findings(&damaged), findings(&copy));
        let differences: Vec<_> = before.symmetric_difference(&after).take(9).collect();
        assert!(differences.is_empty(), "{commands:?}: {differences:#?}");
        dump(&damaged, &file, Metadump::new());
        let copy = restored_by_us(&damaged, &scratch, &file, "copy.img");
        assert!(findings(&copy).len() > 10, "{commands:?}");
    }
    assert!(seen >= 5, "the copy met damage in {seen} of the volumes");
}
