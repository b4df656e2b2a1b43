//! Volumes with right checksums and wrong structure. Every command ends, reports it, and leaves
//! nothing half done.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

use crate::common::{Bench, Run, begin, damage, ended, expect, inode_at, shown, signal, xfskit};

/// Byte of the leaf of `/frag`'s extent tree, and of records 168 and 169 in it.
const LEAF: u64 = 2523 << 12;
const RECORDS: u64 = LEAF + 72;

/// Reads `len` bytes of an image.
fn bytes(image: &Path, offset: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fs::File::open(image).unwrap().read_exact_at(&mut bytes, offset).unwrap();
    bytes
}

/// Changes the block of 4 KiB at `offset`, and corrects its checksum at `crc`.
fn edit(image: &Path, offset: u64, crc: usize, change: impl FnOnce(&mut [u8])) {
    let mut block = bytes(image, offset, 4096);
    change(&mut block);
    xfskit_crc::update(&mut block, crc);
    damage(image, offset, &block);
}

/// Makes a volume in which two records of a leaf of `/frag`'s extent tree are exchanged.
fn disordered(bench: &Bench) -> PathBuf {
    let image = bench.kept("hostile/base");
    assert_eq!(bytes(&image, LEAF, 4), b"BMA3");
    edit(&image, LEAF, 64, |block| {
        let at = usize::try_from(RECORDS - LEAF).unwrap() + 16 * 100;
        block[at..at + 32].rotate_left(16);
    });
    image
}

/// Returns the output of `check`, without numbers that a harmless change moves.
fn findings(image: &Path) -> Vec<String> {
    let run = xfskit(&["check", &shown(image)]);
    run.stdout.lines().filter(|line| line.contains(" [")).map(str::to_owned).collect()
}

fn names_the_order(run: &Run) {
    let said = [&*run.stdout, &run.stderr].concat();
    assert!(said.contains("[bmbt.rec.order]"), "{said}");
}

#[test]
fn a_disordered_extent_tree_fails_changes_and_is_not_changed() {
    let bench = Bench::new();
    let image = shown(&disordered(&bench));
    let before = findings(Path::new(&image));
    let grown = (3_u64 << 30).to_string();
    for args in [
        &["cat", &image, "/frag"][..],
        &["cp", &image, "/frag", "/copy"],
        &["cp", "--reflink", &image, "/frag", "/copy"],
        &["truncate", &image, "/frag", "-s", "4096"],
        &["fallocate", &image, "/frag", "-p", "-l", &grown],
        &["fallocate", &image, "/frag", "-z", "-l", &grown],
        &["fallocate", &image, "/frag", "-c", "-l", "4096"],
        &["fallocate", &image, "/frag", "-i", "-l", "4096"],
    ] {
        let run = expect(1, args);
        names_the_order(&run);
        let copies = expect(0, &["ls", "-a", &image, "/"]).stdout;
        assert!(!copies.contains("copy") && !copies.contains(".xfskit"), "{args:?}: {copies}");
        let stat = expect(0, &["stat", "--json", &image, "/frag"]).stdout;
        assert!(stat.contains("\"size\":4911104"), "{args:?}: {stat}");
        assert_eq!(findings(Path::new(&image)), before, "{args:?}");
    }
}

#[test]
fn a_damaged_orphan_stays_on_its_list_and_the_volume_opens_for_writing() {
    let bench = Bench::new();
    let image = shown(&disordered(&bench));
    let free = || expect(0, &["df", "--json", &image]).stdout;
    names_the_order(&expect(1, &["rm", &image, "/frag"]));
    let with_orphan = free();
    for args in [&["recover", "-n", &image][..], &["recover", &image], &["recover", "-n", &image]] {
        let run = expect(1, args);
        names_the_order(&run);
        assert!(run.stdout.contains("inode 2728, which is deleted"), "{}", run.stdout);
    }
    let made = expect(0, &["mkdir", &image, "/new"]);
    assert!(made.stderr.contains("inode 2728"), "{}", made.stderr);
    expect(0, &["rm", "-r", &image, "/new"]);
    assert_eq!(free(), with_orphan);
    names_the_order(&expect(1, &["check", &image]));
}

/// An entry of `/a/b` was renamed to "..".
#[test]
fn a_second_dotdot_is_a_fault_in_every_reader_and_the_rest_is_read() {
    let bench = Bench::new();
    let image = shown(&bench.kept("hostile/second-dotdot"));
    let out = shown(&bench.path("out"));
    for args in [
        &["ls", &image, "/a/b"][..],
        &["ls", "-R", &image, "/"],
        &["tree", &image, "/"],
        &["find", &image, "/"],
        &["get", &image, "/", &out],
        &["get", &image, "/", "-"],
        &["cp", "-r", &image, "/a", "/copy"],
        &["rm", "-r", &image, "/a"],
        &["chmod", "-R", &image, "700", "/a"],
        &["chown", "-R", &image, "7:7", "/a"],
    ] {
        let run = xfskit(args);
        assert_eq!(run.code, 1, "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains("[dir.dots]"), "{args:?}: {}", run.stderr);
    }
    assert!(bench.path("out/a/b").is_dir());
    assert!(expect(1, &["check", &image]).stdout.contains("[dir.dots]"));
}

/// `/a/b/c` leads to `/a`.
#[test]
fn a_directory_cycle_ends_every_walk_and_both_paths_are_named() {
    let bench = Bench::new();
    let image = shown(&bench.kept("hostile/directory-cycle"));
    let out = shown(&bench.path("out"));
    for args in [
        &["ls", "-R", &image, "/"][..],
        &["tree", &image, "/"],
        &["find", &image, "/"],
        &["get", &image, "/", &out],
        &["get", &image, "/", "-"],
        &["chmod", "-R", &image, "700", "/a"],
        &["chown", "-R", &image, "7:7", "/a"],
        &["rm", "-r", &image, "/a"],
    ] {
        let run = expect(1, args);
        let both = "reached a second time as /a/b/c, first as /a:";
        assert!(run.stderr.contains(both), "{args:?}: {}", run.stderr);
    }
    assert!(expect(0, &["ls", &image, "/a"]).stdout.contains('b'), "what cannot be emptied stays");
    let run = expect(1, &["cp", "-r", &image, "/a", "/copy"]);
    assert!(run.stderr.contains("[dir.twice]"), "{}", run.stderr);
    assert!(
        !expect(0, &["ls", &image, "/"]).stdout.contains("copy"),
        "found before anything is made"
    );
}

/// A tree of every group: where the group's second or third sector has its root, and bytes of a
/// record and of a key.
const TREES: [(&str, u64, usize, usize, usize); 5] = [
    ("bnobt", 1, 16, 8, 8),
    ("cntbt", 1, 20, 8, 8),
    ("rmapbt", 1, 24, 24, 40),
    ("refcountbt", 1, 88, 12, 4),
    ("inobt", 2, 20, 16, 4),
];

#[test]
fn a_disordered_tree_of_a_group_ends_changes_in_an_error_that_names_it() {
    let bench = Bench::new();
    let content = shown(&bench.file("content", &vec![7; 3 << 20]));
    let base = bench.kept("hostile/base");
    let superblock = bytes(&base, 0, 512);
    let number = |bytes: &[u8], at: usize| {
        u64::from(u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()))
    };
    let (agblocks, agcount) = (number(&superblock, 84), number(&superblock, 88));
    for (tree, sector, root_at, record, key) in TREES {
        let image = bench.path("damaged.img");
        fs::copy(&base, &image).unwrap();
        let mut damaged = 0;
        for agno in 0..agcount {
            let group = agno * agblocks * 4096;
            let root = number(&bytes(&base, group + sector * 512, 512), root_at);
            edit(&image, group + root * 4096, 52, |block| {
                let (level, count) = (block[5], block[7]);
                let len = if level > 0 { key } else { record };
                if count >= 2 {
                    block[56..56 + 2 * len].rotate_left(len);
                    damaged += 1;
                }
            });
        }
        assert!(damaged > 0, "{tree}");
        let image = shown(&image);
        let runs = [
            &["put", &image, &content, "/new"][..],
            &["cp", "--reflink", &image, "/frag", "/copy"],
            &["mkdir", &image, "/newdir"],
            &["truncate", &image, "/frag", "-s", "0"],
            &["rm", &image, "/frag"],
        ]
        .map(xfskit);
        let said: String = runs.iter().map(|run| &*run.stderr).collect();
        assert!(said.contains(&format!("[{tree}.order]")), "{tree}: {said}");
        assert!(runs.iter().any(|run| run.code != 0), "{tree}: {said}");
    }
}

/// Applies a kept patch of `hostile/base`: byte offsets, and the bytes there, in hexadecimal.
pub(crate) fn patched(bench: &Bench, name: &str) -> PathBuf {
    let image = bench.kept("hostile/base");
    let packed = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../../tests/images/hostile/{name}.patch.zst"));
    let patch = xfskit_test_support::kept::decompress(&packed);
    let patch: BTreeMap<String, String> = serde_json::from_slice(&patch).unwrap();
    for (offset, hex) in patch {
        let byte = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let change: Vec<u8> = (0..hex.len()).step_by(2).map(byte).collect();
        damage(&image, offset.parse().unwrap(), &change);
    }
    image
}

/// Sets the UUID of the block of 4 KiB (or the inode) at `offset` to the volume's own, and corrects
/// its checksum: the patch was made on another volume of the same shape.
fn adopt(image: &Path, offset: u64, len: usize, uuid_at: usize, crc_at: usize) {
    let uuid = bytes(image, 32, 16);
    let mut block = bytes(image, offset, len);
    block[uuid_at..uuid_at + 16].copy_from_slice(&uuid);
    xfskit_crc::update(&mut block, crc_at);
    damage(image, offset, &block);
}

#[test]
fn kept_extent_trees_out_of_order_end_every_change_of_the_file() {
    let bench = Bench::new();
    let loops = [("bmbt-loop", 10_334_208, "/frag"), ("bmbt-loop2", 10_391_552, "/ref2")];
    for (name, leaf, file) in loops {
        let image = patched(&bench, name);
        adopt(&image, leaf, 4096, 40, 64);
        let image = shown(&image);
        for args in [
            &["cat", &image, file][..],
            &["cp", &image, file, "/copy"],
            &["cp", "--reflink", &image, file, "/copy"],
            &["truncate", &image, file, "-s", "4096"],
            &["rm", &image, file],
        ] {
            names_the_order(&expect(1, args));
        }
        assert!(!expect(0, &["ls", &image, "/"]).stdout.contains("copy"), "{name}");
    }
}

#[test]
fn a_kept_orphan_in_a_dirty_journal_is_named_and_the_volume_opens_for_writing() {
    let bench = Bench::new();
    let image = shown(&patched(&bench, "damaged-orphan"));
    for args in [&["recover", "-n", &image][..], &["recover", &image]] {
        names_the_order(&expect(1, args));
    }
    expect(0, &["mkdir", &image, "/new"]);
    names_the_order(&expect(1, &["check", &image]));
}

#[test]
fn a_kept_cycle_below_the_root_ends_every_walk() {
    let bench = Bench::new();
    let image = patched(&bench, "cycle");
    adopt(&image, 79_301_120, 512, 160, 100);
    let image = shown(&image);
    let out = shown(&bench.path("out"));
    for args in [
        &["find", &image, "/"][..],
        &["get", &image, "/", &out],
        &["cp", "-r", &image, "/a", "/copy"],
        &["chmod", "-R", &image, "700", "/"],
        &["rm", "-r", &image, "/a"],
    ] {
        let run = expect(1, args);
        assert!(run.stderr.contains("[dir.twice]"), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn free_realtime_extents_of_a_secondary_superblock_are_compared() {
    let bench = Bench::new();
    let image = patched(&bench, "sb");
    assert!(expect(1, &["check", &shown(&image)]).stdout.contains("[sb.frextents]"));
}

/// Two names of the root are the same: one of a symbolic link that leads away, one of a directory.
#[test]
fn a_name_that_comes_twice_is_a_fault_in_every_reader_and_nothing_is_written_outside() {
    let bench = Bench::new();
    let (tree, away) = (bench.path("tree"), bench.path("away"));
    fs::create_dir_all(tree.join("n2/sub")).unwrap();
    fs::create_dir(&away).unwrap();
    fs::write(tree.join("n2/file"), "content").unwrap();
    symlink(&away, tree.join("n1")).unwrap();
    let (image, out) = (bench.path("twice.img"), shown(&bench.path("out")));
    expect(0, &["mkfs", "--from", &shown(&tree), &shown(&image)]);
    let mut root = bytes(&image, 128 * 512, 512);
    let name = root.windows(2).rposition(|name| name == b"n2").unwrap();
    root[name + 1] = b'1';
    xfskit_crc::update(&mut root, 100);
    damage(&image, 128 * 512, &root);
    let image = shown(&image);
    for args in [
        &["ls", &image, "/"][..],
        &["ls", "-R", &image, "/"],
        &["tree", &image, "/"],
        &["find", &image, "/"],
        &["du", &image, "/"],
        &["get", &image, "/", "-"],
        &["get", &image, "/", &out],
        &["chmod", "-R", &image, "700", "/"],
    ] {
        let run = xfskit(args);
        assert_eq!(run.code, 1, "{args:?}: {}", run.stderr);
        assert!(
            run.stderr.contains("name is n1") || run.stderr.contains("\"n1\" is there twice"),
            "{args:?}: {}",
            run.stderr
        );
    }
    assert_eq!(fs::read_dir(away).unwrap().count(), 0);
}

#[test]
fn a_named_pipe_without_a_writer_is_not_waited_for_against_a_signal() {
    let bench = Bench::new();
    let (pipe, image) = (bench.path("pipe"), bench.path("piped.img"));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (pipe, image) = (shown(&pipe), shown(&image));
    let args = ["mkfs", "--from", &pipe, &image];
    let child = begin(&args);
    std::thread::sleep(std::time::Duration::from_millis(700));
    signal(&child, "TERM");
    ended(130, child, &args);
    assert!(!Path::new(&image).exists());
}

/// Fails unless every command that lists the directory `/leaf` of `image` reports it with these
/// words. `out` is a new directory, to which everything is copied.
fn every_listing_says(words: &str, image: &str, out: &str) {
    for args in [
        &["ls", "-R", image][..],
        &["ls", image, "/leaf"],
        &["find", image, "/"],
        &["tree", image],
        &["du", image],
        &["get", image, "/", out],
        &["get", image, "/leaf", "-"],
    ] {
        let run = xfskit(args);
        assert_eq!(run.code, 1, "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(words), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn a_name_that_cannot_be_looked_up_is_reported_by_every_command_that_lists_it() {
    // A byte of the name changes, and its hash in the leaf stays.
    for (kept, magic, crc) in [("v4", b"XD2D", None), ("v5", b"XDD3", Some(4))] {
        let bench = Bench::new();
        let image = bench.kept(kept);
        let all = fs::read(&image).unwrap();
        let wanted = b"\x0elink-number-56";
        let (n, at) = (0..)
            .zip(all.chunks(4096))
            .filter(|(_, block)| block.starts_with(magic))
            .find_map(|(n, block)| {
                Some((n, block.windows(15).position(|name| name == wanted)? + 1))
            })
            .unwrap();
        match crc {
            Some(crc) => edit(&image, n * 4096, crc, |block| block[at] = b'X'),
            None => damage(&image, n * 4096 + at as u64, b"X"),
        }
        let (image, out) = (shown(&image), shown(&bench.path("out")));
        every_listing_says("the name \"Xink-number-56\" cannot be looked up", &image, &out);
        // The file is there all the same.
        assert!(bench.path("out/leaf/Xink-number-56").exists(), "{kept}");
    }
}

#[test]
fn an_index_with_more_entries_than_names_is_reported_by_every_command_that_lists() {
    // A stale entry of the leaf of /leaf becomes one in use.
    let bench = Bench::new();
    let image = bench.kept("v5");
    let all = fs::read(&image).unwrap();
    let word = |block: &[u8], at: usize| u16::from_be_bytes([block[at], block[at + 1]]);
    let leaf = |block: &&[u8]| word(block, 8) == 0x3df1 && word(block, 58) > 0;
    let (n, _) = (0_u64..).zip(all.chunks(4096)).find(|(_, block)| leaf(block)).unwrap();
    edit(&image, n * 4096, 12, |block| {
        let stale = word(block, 58) - 1;
        block[58..60].copy_from_slice(&stale.to_be_bytes());
        let entries = 64..64 + 8 * usize::from(word(block, 56));
        let mut free = entries.clone().step_by(8).filter(|at| block[at + 4..at + 8] == [0; 4]);
        let at = free.next().unwrap();
        let mut used = entries.step_by(8).filter(|at| block[at + 4..at + 8] != [0; 4]);
        let other = used.next().unwrap();
        block.copy_within(other + 4..other + 8, at + 4);
    });
    let (image, out) = (shown(&image), shown(&bench.path("out")));
    every_listing_says("[dir.leaf.extra]", &image, &out);
    assert_eq!(fs::read_dir(bench.path("out/leaf")).unwrap().count(), 200);
}

#[test]
fn a_time_with_a_second_of_nanoseconds_is_reported_and_the_file_is_copied() {
    let bench = Bench::new();
    let image = bench.kept("v4");
    damage(&image, inode_at(&image, "/sf/a").1 + 44, &u32::MAX.to_be_bytes());
    let (image, out, one) = (shown(&image), bench.path("out"), bench.path("one"));
    for args in [
        &["get", &image, "/", &shown(&out)][..],
        &["get", &image, "/sf/a", &shown(&one)],
        &["get", &image, "/", "-"],
        &["find", "--json", &image, "/"],
    ] {
        let run = xfskit(args);
        assert_eq!(run.code, 1, "{args:?}: {}", run.stderr);
        let said = run.stdout.clone() + &run.stderr;
        assert!(said.contains("inode.mtime"), "{args:?}: {said}");
    }
    assert_eq!(fs::read(out.join("sf/a")).unwrap(), fs::read(&one).unwrap());
    assert!(!fs::read(one).unwrap().is_empty());
}

/// An attribute that Linux lists and does not find, as its hash leads elsewhere: a byte of its name
/// is another one, or a node leads to the wrong leaf, so that others are not listed at all.
#[test]
fn an_attribute_that_cannot_be_looked_up_is_reported_by_every_command_that_reads_it() {
    // Magics of leaf and node in a block's bytes 8 and 9, and where entries and checksum are.
    let kinds = [("v4", 0xfbee, 0xfebe, 16, None), ("v5", 0x3bee, 0x3ebe, 64, Some(12))];
    for (kept, leaf, node, head, crc) in kinds {
        let bench = Bench::new();
        let base = bench.kept(kept);
        let all = fs::read(&base).unwrap();
        let blocks = || (0_u64..).zip(all.chunks(4096));
        let word =
            |block: &[u8], at: usize| u32::from_be_bytes(block[at..at + 4].try_into().unwrap());
        let has = |block: &[u8], magic: u16| block[8..10] == magic.to_be_bytes();
        let name = blocks().find_map(|(n, block)| {
            let at = block.windows(7).position(|name| name == b"name154")?;
            has(block, leaf).then_some((n, at, 1))
        });
        // The first two leaves of the attribute fork's root; a directory's are far away.
        let leaves = blocks().find_map(|(n, block)| {
            let is_attr = has(block, node) && word(block, head + 4) < 1 << 20;
            is_attr.then_some((n, head + 4, 4))
        });
        let checks = ["[attr.leaf.hashval]", "[da.node.hashval]"];
        for ((n, at, len), check) in [name, leaves].map(Option::unwrap).into_iter().zip(checks) {
            let image = bench.path("damaged.img");
            fs::copy(&base, &image).unwrap();
            let mut block = bytes(&image, n * 4096, 4096);
            if len == 1 {
                block[at] = b'f';
            } else {
                block.copy_within(at + 8..at + 12, at);
            }
            if let Some(crc) = crc {
                xfskit_crc::update(&mut block, crc);
            }
            damage(&image, n * 4096, &block);
            let (image, out) = (shown(&image), shown(&bench.path(check)));
            for args in [
                &["xattr", "list", &image, "/attr-node"][..],
                &["get", &image, "/attr-node", &out],
                &["get", &image, "/attr-node", "-"],
            ] {
                let run = xfskit(args);
                assert_eq!(run.code, 1, "{kept} {args:?}: {}", run.stderr);
                assert!(run.stderr.contains(check), "{kept} {args:?}: {}", run.stderr);
            }
        }
    }
}
