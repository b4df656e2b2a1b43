//! Names that a terminal or a line cannot show, rows for programs, and messages on wrong command
//! lines.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use crate::common::{Bench, Run, expect, feed, json, objects, shown, xfskit};
use xfskit_test_support::Random;

/// Makes an image with a directory whose name moves the cursor, and one that is not UTF-8.
fn odd(bench: &Bench) -> String {
    let image = shown(&bench.kept("v5"));
    for name in [&b"/odd/it's\x1b[2J\n"[..], b"/odd/\xff"] {
        let words =
            [OsStr::new("mkdir"), OsStr::new("-p"), OsStr::new(&image), OsStr::from_bytes(name)];
        assert_eq!(xfskit(&words).code, 0);
    }
    image
}

#[test]
fn names_are_written_in_the_requested_style() {
    let bench = Bench::new();
    let image = odd(&bench);
    let list = |options: &[&str]| expect(0, &[&["ls", &image, "/odd"], options].concat()).bytes;
    assert_eq!(list(&[]), b"it's\x1b[2J\n\n\xff\n", "a program gets them as they are");
    assert_eq!(list(&["-Q"]), b"\"it's\\033[2J\\n\"\n\"\\377\"\n");
    assert_eq!(list(&["--quoting-style=escape"]), b"it's\\033[2J\\n\n\\377\n");
    let shell = b"'it'\\''s'$'\\033''[2J'$'\\n'\n''$'\\377'\n";
    assert_eq!(list(&["--quoting-style", "shell-escape"]), shell);
    let found = expect(0, &["find", "-Q", &image, "/odd", "--name", "it*"]).stdout;
    assert_eq!(found, "\"/odd/it's\\033[2J\\n\"\n");
}

#[test]
fn messages_do_not_move_the_cursor() {
    let bench = Bench::new();
    let image = odd(&bench);
    let gone = "/odd/\u{1b}[2Jgone";
    for words in [["ls", &image, gone], ["rm", &image, gone], ["cat", &image, gone]] {
        let Run { stderr, stdout, .. } = expect(1, &words);
        assert!(!stderr.contains('\u{1b}') && stderr.contains("[2Jgone"), "{words:?}: {stderr}");
        assert_eq!(stdout, "");
    }
    assert!(!expect(2, &["ls", &image, "--\u{1b}"]).stderr.contains('\u{1b}'));
}

#[test]
fn a_path_in_json_is_text_with_its_bytes_if_it_is_not_utf8() {
    let bench = Bench::new();
    let image = odd(&bench);
    for words in [["ls", "--json", &image, "/odd"], ["tree", "--json", &image, "/odd"]] {
        let last = json(&words).pop().unwrap();
        assert_eq!(last["path"], "/odd/\u{fffd}");
        assert_eq!(last["path_bytes"], "L29kZC//");
    }
    let found = json(&["find", "--json", &image, "/odd", "--type", "d"]);
    let with_bytes = found.iter().filter(|line| line.get("path_bytes").is_some()).count();
    assert_eq!((found.len(), with_bytes), (3, 1));
}

#[test]
fn rows_have_the_requested_fields() {
    let bench = Bench::new();
    let image = shown(&bench.kept("v5"));
    expect(0, &["touch", "-d", "2050-01-01T00:00:00.000000001Z", &image, "/fragmented"]);
    let stat = &json(&["stat", "--json", &image, "/fragmented"])[0];
    let mode = stat["mode"].as_str().unwrap();
    assert!(mode.starts_with("0100") && u32::from_str_radix(mode, 8).is_ok(), "{mode}");
    let ino = stat["ino"].to_string();
    let find = ["find", "--inum", &ino, "--fields", "path,mode,mtime", "--epoch"];
    let (sec, nsec) =
        (stat["mtime"]["sec"].as_i64().unwrap(), stat["mtime"]["nsec"].as_i64().unwrap());
    let time = format!("{sec}.{nsec:09}");
    let csv = expect(0, &[&find[..], &["--csv", &image]].concat()).stdout;
    assert_eq!(csv, format!("path,mode,mtime\n/fragmented,{mode},{time}\n"));
    let text = expect(0, &[&find[..], &[&image]].concat()).stdout;
    assert_eq!(text, format!("/fragmented\t{mode}\t{time}\n"));
    let row = &json(&[&find[..], &["--json", &image]].concat())[0];
    assert_eq!(row.as_object().unwrap().len(), 3);
    assert!((row["mtime"].as_f64().unwrap() - time.parse::<f64>().unwrap()).abs() < 1e-6);
    let all = json(&["bulkstat", "--json", &image]);
    assert!(all.iter().any(|row| row["ino"].as_u64() == ino.parse().ok() && row["mode"] == mode));
    let csv = expect(0, &["bulkstat", "--csv", "--fields", "ino,size", &image]).stdout;
    assert_eq!(csv.lines().count(), all.len() + 1);
    assert!(expect(2, &["bulkstat", "--fields", "path", &image]).stderr.contains("its path"));
    expect(2, &["find", "--csv", "--json", &image]);
}

#[test]
fn find_compares_times_with_newer() {
    let bench = Bench::new();
    let image = shown(&bench.kept("v5"));
    expect(0, &["mkdir", &image, "/older", "/newer"]);
    expect(0, &["touch", "-d", "2050-01-01T00:00:00Z", &image, "/older"]);
    expect(0, &["touch", "-d", "2050-01-01T00:00:00.000000001Z", &image, "/newer"]);
    assert_eq!(expect(0, &["find", &image, "--newer", "/older"]).stdout, "/newer\n");
    expect(1, &["find", &image, "--newer", "/gone"]);
}

#[test]
fn du_adds_the_space_of_files_and_counts_each_once() {
    let bench = Bench::new();
    let image = shown(&bench.kept("v5"));
    expect(0, &["mkdir", &image, "/du", "/du/below"]);
    feed(0, &["put", &image, "-", "/du/below/file"], &[7; 9000]);
    expect(0, &["ln", &image, "/du/below/file", "/du/again"]);
    let sizes = |options: &[&str]| -> BTreeMap<String, u64> {
        let lines = json(&[&["du", "--json", &image][..], options].concat());
        let of = |line: &serde_json::Value| {
            (line["path"].as_str().unwrap().to_owned(), line["bytes"].as_u64().unwrap())
        };
        lines.iter().map(of).collect()
    };
    let apparent = sizes(&["-a", "--apparent-size", "/du"]);
    let expected = [("/du", 9000), ("/du/again", 9000), ("/du/below", 0)];
    assert_eq!(apparent, BTreeMap::from(expected.map(|(path, bytes)| (path.to_owned(), bytes))));
    assert_eq!(expect(0, &["du", "-s", &image, "/du"]).stdout, "12\t/du\n");
    assert_eq!(expect(0, &["du", "-h", "-d", "0", &image, "/du"]).stdout, "12 KiB\t/du\n");
    // Every file of the volume once, from the inodes.
    let mut blocks = BTreeMap::new();
    for row in json(&["find", "--json", "--fields", "ino,blocks", &image]) {
        blocks.insert(row["ino"].as_u64().unwrap(), row["blocks"].as_u64().unwrap());
    }
    assert_eq!(sizes(&["-s"])["/"], blocks.values().sum::<u64>() * 512);
}

#[test]
fn wrong_command_lines_get_a_hint() {
    let bench = Bench::new();
    let image = shown(&bench.kept("v5"));
    let run = expect(2, &["find", &image, "/", "-name", "x"]);
    assert!(run.stderr.contains("--name") && !run.stderr.contains("-- -n"), "{}", run.stderr);
    let run = expect(2, &["find", "--json", &image, "/", "-name", "x"]);
    let error = &objects(&run)[0]["error"];
    assert_eq!(error["exit"], 2);
    assert!(error["hint"].as_str().unwrap().contains("--name"), "{error}");
    for length in [20, 2000] {
        let text = shown(&bench.file("text", &vec![b'x'; length]));
        let made = shown(&bench.path("made.img"));
        let run = expect(2, &["mkfs", "--from", &text, &made]);
        assert!(run.stderr.contains("neither a directory nor a tar archive"), "{}", run.stderr);
    }
    let run = expect(1, &["rm", &image, "/sf"]);
    assert!(run.stderr.contains("-r removes a directory"), "{}", run.stderr);
    let run = expect(1, &["rm", "--json", &image, "/sf"]);
    assert!(objects(&run)[0]["fault"]["hint"].as_str().unwrap().contains("-r"));
}

#[test]
fn the_shell_prints_the_wrong_line() {
    let bench = Bench::new();
    let image = shown(&bench.kept("v5"));
    let script = shown(&bench.file("script", b"mkdir /fine\n\nrm /gone\nfrobnicate\nls 'open\n"));
    let run = expect(1, &["shell", &image, "--file", &script]);
    for line in ["line 3: ", "line 4: ", "line 5: "] {
        assert!(run.stderr.contains(line), "{line}: {}", run.stderr);
    }
    let lines: Vec<_> = objects(&expect(1, &["shell", "--json", &image, "--file", &script]))
        .iter()
        .filter_map(|object| {
            let told = object.get("fault").or_else(|| object.get("error"))?;
            told["line"].as_u64()
        })
        .collect();
    // The directory exists by now.
    assert_eq!(lines, [1, 3, 4, 5]);
}

/// Returns a word of any kind.
fn word(random: &mut Random, images: &[String], options: &[String]) -> OsString {
    let odd: [&[u8]; 12] = [
        b"",
        b"-",
        b"--",
        b"/",
        b"/sf",
        b"../..",
        b"0",
        b"-1",
        b"18446744073709551616",
        b"\xff\xfe",
        b"1k",
        b"a=b:c,d",
    ];
    match random.below(4) {
        0 => images[random.below(images.len())].clone().into(),
        1 => OsStr::from_bytes(random.pick(&odd)).into(),
        _ => options[random.below(options.len())].clone().into(),
    }
}

#[test]
fn any_command_line_ends_and_an_error_in_json_is_json() {
    let bench = Bench::new();
    let kept = shown(&bench.kept("v5"));
    let text = shown(&bench.file("text", b"no volume"));
    let images =
        [kept.clone(), text, shown(&bench.path("missing")), "md:a,b".into(), "mem:1".into()];
    let commands = [
        "info",
        "ls",
        "tree",
        "stat",
        "cat",
        "xattr",
        "find",
        "df",
        "du",
        "stats",
        "inspect",
        "log",
        "bulkstat",
        "check",
        "targets",
        "md",
        "completions",
        "nonsense",
    ];
    let before = std::fs::read(&kept).unwrap();
    let mut random = Random::of_test(1);
    for command in commands {
        let help = xfskit(&[command, "--help"]).stdout;
        let mut options: Vec<String> = help
            .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
            .filter(|word| word.starts_with('-') && !word.starts_with("--overlay"))
            .map(String::from)
            .collect();
        options.push("list".into());
        for _ in 0..12 {
            let mut words = vec![OsString::from(command), "--json".into()];
            words.extend((0..random.below(6)).map(|_| word(&mut random, &images, &options)));
            let run = xfskit(&words);
            assert!([0, 1, 2].contains(&run.code), "{words:?}: {}", run.code);
            if run.code == 2 {
                let last =
                    run.stdout.lines().last().unwrap_or_else(|| panic!("{words:?}: nothing"));
                let error: serde_json::Value = serde_json::from_str(last).unwrap();
                assert!(error["error"]["message"].is_string(), "{words:?}: {last}");
                assert_eq!(error["error"]["exit"], 2, "{words:?}");
            }
        }
    }
    assert!(std::fs::read(&kept).unwrap() == before, "commands that only read have written");
}
