//! Paths of inodes and owners of blocks, on volumes that the kernel filled: every name that the
//! mounted kernel shows is found by its inode, and every block has the owner that `fsmap` of the
//! kernel and `blockuse` of xfs_db give.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use xfskit::{
    BlockOwner, BlockRange, FileFork, FindOwners, FindPaths, OwnedBlocks, Volume, VolumeOptions,
};
use xfskit_test_support::{Image, Mount, Need, Scratch, Xfsprogs, kernel, matrix, needs, tools};

/// Names by inode.
type Names = BTreeMap<u64, BTreeSet<PathBuf>>;

/// Number of blocks of which xfs_db is asked.
const ASKED: u64 = 250;

volumes! {
    owners_and_paths_are_linuxs_on_default: "default",
    owners_and_paths_are_linuxs_on_bare: "bare",
    owners_and_paths_are_linuxs_on_rmapbt: "rmapbt",
    owners_and_paths_are_linuxs_on_rmapbt_no_reflink: "rmapbt-no-reflink",
    owners_and_paths_are_linuxs_on_parent: "parent",
    owners_and_paths_are_linuxs_on_block_1k: "block-1k",
    owners_and_paths_are_linuxs_on_sector_4k: "sector-4k",
    owners_and_paths_are_linuxs_on_many_groups: "many-groups",
    owners_and_paths_are_linuxs_on_external_log: "external-log",
}

fn verify_volume(name: &str) {
    let case = matrix::named(name);
    if !needs(&[Need::Xfsprogs, Need::Mount]) {
        return;
    }
    let scratch = Scratch::new("locate");
    let Some(image) = case.filled(&scratch) else { return };
    for tools in case.repair_tools() {
        tools.repair_n(&image, &[]).expect("clean to xfs_repair");
    }
    let mount = Mount::read_only(&image, &scratch).expect("mount");
    let names = names(mount.path());
    let fsmap = tools::run(Command::new("xfs_io").args(["-c", "fsmap"]).arg(mount.path()));
    let device = mount.path().metadata().unwrap().dev();
    let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    mount.unmount().expect("unmount");
    let options = VolumeOptions::new();
    let options = image.log().into_iter().fold(options, VolumeOptions::log);
    let volume = options.open(image.path()).expect("open");
    verify_paths(&volume, &names);
    let owned = verify_owners(&volume);
    verify_fsmap(&volume, &owned, &device, &fsmap.expect("fsmap"));
    // xfs_db is not told where an external journal is.
    if image.log().is_none()
        && let Some(tools) = case.repair_tools().first()
    {
        verify_blockuse(&volume, &image, tools, &owned, &names);
        verify_ncheck(&image, tools, &names);
    }
}

/// Returns all names that the kernel shows.
fn names(root: &Path) -> Names {
    let mut names = Names::new();
    for (path, entry) in kernel::manifest(root).entries {
        names.entry(entry.ino).or_default().insert(OsString::from_vec(path).into());
    }
    names
}

fn verify_paths(volume: &Volume, names: &Names) {
    let found = FindPaths::new(volume).run(names.keys().copied()).unwrap();
    assert!(found.warnings.is_empty(), "{:?}", found.warnings);
    assert_eq!(found.inodes.len(), names.len());
    for inode in found.inodes {
        let paths: BTreeSet<PathBuf> = inode.paths.iter().cloned().collect();
        assert_eq!(paths.len(), inode.paths.len(), "inode {}", inode.ino);
        assert_eq!(Some(&paths), names.get(&inode.ino), "inode {}", inode.ino);
    }
    let one = FindPaths::new(volume).limit(1).run(names.keys().copied()).unwrap();
    for inode in one.inodes {
        assert!(names[&inode.ino].contains(&inode.paths[0]) && inode.paths.len() == 1);
    }
}

/// Returns the owners of all blocks. Each block has one, or is shared by files. The scan gives the
/// same as the rmapbt.
fn verify_owners(volume: &Volume) -> Vec<OwnedBlocks> {
    let all: Vec<BlockRange> = (0..volume.geometry().agcount)
        .map(|agno| {
            let length = volume.geometry().ag_length(xfskit::raw::units::AgNumber(agno));
            BlockRange::AgBlocks(agno, 0..=length - 1)
        })
        .collect();
    let search = |scan| {
        let found = FindOwners::new(volume).scan(scan).run(&all).unwrap();
        assert!(found.warnings.is_empty(), "{:?}", found.warnings);
        found.ranges.into_iter().map(Result::unwrap).collect::<Vec<_>>()
    };
    let (owned, scanned) = (search(false), search(true));
    for (owned, scanned) in owned.iter().zip(&scanned) {
        for (owned, scanned) in owned.iter().zip(scanned) {
            assert_eq!(owned, scanned);
        }
        assert_eq!(owned.len(), scanned.len());
    }
    for (agno, owned) in (0..).zip(&owned) {
        let mut covered = 0;
        let mut before: Option<&OwnedBlocks> = None;
        for run in owned {
            assert!(!matches!(run.owner, BlockOwner::Leaked | BlockOwner::Unknown), "{run:?}");
            assert!(run.agbno <= covered, "a gap before {run:?}");
            if run.agbno < covered {
                let is_shared = matches!(run.owner, BlockOwner::Extent { shared: true, .. });
                assert!(is_shared, "{before:?} and {run:?}");
            }
            covered = covered.max(run.agbno + run.blockcount);
            before = Some(run);
        }
        let length = volume.geometry().ag_length(xfskit::raw::units::AgNumber(agno));
        assert_eq!(covered, length, "group {agno}");
    }
    owned.into_iter().flatten().collect()
}

/// Formats an owner as `fsmap` prints it, without the offset.
fn as_fsmap(owner: &BlockOwner) -> String {
    let fork_name = |fork: &FileFork| match fork {
        FileFork::Data => "data",
        FileFork::Attr => "attr",
    };
    match owner {
        BlockOwner::Free => "free space".into(),
        BlockOwner::Headers => "static fs metadata".into(),
        BlockOwner::Log => "journalling log".into(),
        BlockOwner::Btree("inobt" | "finobt") => "inode btree".into(),
        BlockOwner::Btree("refcountbt") => "refcount btree".into(),
        BlockOwner::Btree(_) | BlockOwner::FreeList => "per-AG metadata".into(),
        BlockOwner::Inodes(_) => "inodes".into(),
        BlockOwner::Staging => "cow reservation".into(),
        BlockOwner::Extent { ino, fork, .. } => format!("inode {ino} {}", fork_name(fork)),
        BlockOwner::ExtentTree { ino, fork, .. } => {
            format!("inode {ino} {} extent map", fork_name(fork))
        }
        other => panic!("{other:?}"),
    }
}

/// Compares the owners with those of the kernel, block by block. Without an rmapbt the kernel knows
/// only what is free.
fn verify_fsmap(volume: &Volume, owned: &[OwnedBlocks], device: &str, fsmap: &str) {
    let knows_owners = volume.geometry().features.rmapbt();
    let sectors = u64::from(volume.statfs().unwrap().blocksize) / 512;
    let mut ours = BTreeSet::new();
    for run in owned {
        let name = as_fsmap(&run.owner);
        let offset = match run.owner {
            BlockOwner::Extent { startoff, .. } => Some(startoff),
            _ => None,
        };
        let is_known = knows_owners || name == "free space";
        let name = if is_known { name } else { "unknown".to_owned() };
        for block in 0..u64::from(run.blockcount) {
            let offset = offset.filter(|_| knows_owners).map(|offset| (offset + block) * sectors);
            ours.insert((run.device_offset / 512 + block * sectors, name.clone(), offset));
        }
    }
    let mut linux = BTreeSet::new();
    for line in fsmap.lines() {
        // `	6: 7:1 [104..111]: inode 132 data 0..7 8`
        let (_, line) = line.split_once(": ").unwrap();
        let (dev, line) = line.split_once(" [").unwrap();
        // Another device has the journal.
        if dev != device {
            continue;
        }
        let (range, line) = line.split_once("]: ").unwrap();
        let (start, end) = range.split_once("..").unwrap();
        let (start, end): (u64, u64) = (start.parse().unwrap(), end.parse().unwrap());
        let (name, _total) = line.rsplit_once(' ').unwrap();
        let (name, offset) = match name.rsplit_once(' ') {
            Some((name, offset)) if offset.contains("..") => {
                let (first, _) = offset.split_once("..").unwrap();
                (name, Some(first.parse::<u64>().unwrap()))
            }
            _ => (name, None),
        };
        for sector in (start..=end).step_by(usize::try_from(sectors).unwrap()) {
            let offset = offset.map(|offset| offset + sector - start);
            linux.insert((sector, name.to_owned(), offset));
        }
    }
    let only_ours: Vec<_> = ours.difference(&linux).take(10).collect();
    let only_linux: Vec<_> = linux.difference(&ours).take(10).collect();
    assert!(only_ours.is_empty() && only_linux.is_empty(), "{only_ours:?}\n{only_linux:?}");
}

/// Returns true for a path that is a line of plain text.
fn is_plain(path: &Path) -> bool {
    path.to_str().is_some_and(|path| path.chars().all(|c| c.is_ascii_graphic()))
}

/// Compares some blocks with what `blockuse` of xfs_db says.
fn verify_blockuse(
    volume: &Volume,
    image: &Image,
    tools: &Xfsprogs,
    owned: &[OwnedBlocks],
    names: &Names,
) {
    let step = (owned.len() as u64 / ASKED).max(1);
    let asked: Vec<&OwnedBlocks> = owned.iter().step_by(usize::try_from(step).unwrap()).collect();
    let mut commands = vec!["blockget -n".to_owned()];
    for run in &asked {
        commands.push(format!("fsblock {}", run.fsblock));
        commands.push("blockuse -n".to_owned());
    }
    let commands: Vec<&str> = commands.iter().map(String::as_str).collect();
    let output = tools.db(image, false, &commands).expect("blockuse");
    let mut compared = 0;
    for line in output.lines().filter(|line| line.starts_with("block ")) {
        // `block 13 (0/13) type data inode 132 tail`
        let words: Vec<&str> = line.splitn(8, ' ').collect();
        let fsblock: u64 = words[1].parse().unwrap();
        let found = FindOwners::new(volume).run(&[BlockRange::FsBlocks(fsblock..=fsblock)]);
        let runs = found.unwrap().ranges.remove(0).unwrap();
        let kind = words[4];
        let expected: &[&str] = match &runs[0].owner {
            BlockOwner::Free => &["free1", "free2", "unknown"],
            BlockOwner::FreeList => &["freelist"],
            BlockOwner::Headers => &["sb", "agf", "agi", "agfl"],
            BlockOwner::Log => &["log"],
            BlockOwner::Btree("bnobt") => &["btbno"],
            BlockOwner::Btree("cntbt") => &["btcnt"],
            BlockOwner::Btree("inobt") => &["btino"],
            BlockOwner::Btree("finobt") => &["btfino"],
            BlockOwner::Btree("rmapbt") => &["btrmap"],
            BlockOwner::Btree("refcountbt") => &["btrefcnt"],
            BlockOwner::Inodes(_) => &["inode"],
            // It gives blocks of an extent tree the type of the content.
            BlockOwner::Extent { fork: FileFork::Attr, .. }
            | BlockOwner::ExtentTree { fork: FileFork::Attr, .. } => &["attr"],
            BlockOwner::Extent { .. } | BlockOwner::ExtentTree { .. } => {
                &["data", "rldata", "dir", "symlink", "quota", "rtbitmap", "rtsummary"]
            }
            other => panic!("{other:?}: {line}"),
        };
        assert!(expected.contains(&kind), "{runs:?}: {line}");
        compared += 1;
        if words.get(5) == Some(&"inode") && !matches!(runs[0].owner, BlockOwner::Inodes(_)) {
            let ino: u64 = words[6].parse().unwrap();
            let run = runs.iter().find(|run| run.owner.ino() == Some(ino));
            let run = run.unwrap_or_else(|| panic!("{runs:?}: {line}"));
            let Some(path) = &run.path else { continue };
            assert!(names[&ino].contains(path), "{run:?}: {line}");
            if names[&ino].iter().all(|path| is_plain(path))
                && let Some(said) = words.get(7)
            {
                let said = Path::new("/").join(said);
                assert!(names[&ino].contains(&said), "{:?}: {line}", names[&ino]);
            }
        }
    }
    assert!(compared * 2 > asked.len(), "{compared} of {}:\n{output}", asked.len());
}

/// Compares the names with those of xfs_ncheck, as far as these are lines of plain text.
fn verify_ncheck(image: &Image, tools: &Xfsprogs, names: &Names) {
    let output = tools.db(image, false, &["blockget -n", "ncheck"]).expect("ncheck");
    let mut compared = 0;
    for line in output.lines() {
        let Some((ino, path)) = line.trim_start().split_once(' ') else { continue };
        let Ok(ino) = ino.parse::<u64>() else { continue };
        let Some(names) = names.get(&ino) else { continue };
        if names.iter().all(|path| is_plain(path)) {
            let path = Path::new("/").join(path.strip_suffix("/.").unwrap_or(path));
            assert!(names.contains(&path), "{names:?}: {line}");
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared} names:\n{output}");
}
