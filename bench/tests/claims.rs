//! The commands of `claims.toml` that are programs of this package.

use std::collections::HashMap;
use std::process::Command;

/// The programs, and where they were built.
fn programs() -> HashMap<&'static str, &'static str> {
    macro_rules! built {
        ($($name:literal),*) => {
            HashMap::from([$(($name, env!(concat!("CARGO_BIN_EXE_", $name)))),*])
        };
    }
    built!(
        "bench-against",
        "bench-batch",
        "bench-bulkstat",
        "bench-check",
        "bench-crc",
        "bench-create",
        "bench-degraded",
        "bench-fill",
        "bench-find",
        "bench-from",
        "bench-get",
        "bench-growth",
        "bench-journal",
        "bench-mount",
        "bench-parity",
        "bench-rebuild",
        "bench-scale"
    )
}

/// Returns the values of `command = "…"` anywhere in the file.
fn commands() -> Vec<String> {
    let text = include_str!("../claims.toml");
    let of = |part: &str| part.split_once('"').map(|(command, _)| command.to_owned());
    text.split("command = \"").skip(1).filter_map(of).collect()
}

#[test]
fn every_command_is_one_that_its_program_accepts() {
    let (programs, mut seen) = (programs(), 0);
    for command in commands() {
        let mut words: Vec<&str> = command.split(' ').collect();
        let name = words.remove(0);
        if name == "xfskit" {
            continue; // The tests of the command line parse it.
        }
        let program = programs.get(name).unwrap_or_else(|| panic!("{name}: no such program"));
        let out = Command::new(program).args(words).arg("--dry-run").output().expect("it runs");
        let errors = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{command}: {errors}");
        assert!(out.stdout.is_empty(), "{command} measured");
        seen += 1;
    }
    assert!(seen > 10, "{seen} commands");
}

#[test]
fn wrong_arguments_are_refused() {
    for words in [&["/nowhere", "names", "many"][..], &["/nowhere", "nothing"], &["--turns", "0"]] {
        let program = programs()["bench-scale"];
        let status = Command::new(program).args(words).arg("--dry-run").output().expect("it runs");
        assert_eq!(status.status.code(), Some(2), "{words:?}");
    }
    for word in ["--only=names,nothing", "--sides=nfs", "--seconds=-1", "--files=0", "--tree=0"] {
        let program = programs()["bench-mount"];
        let out = Command::new(program).args([".", word, "--dry-run"]).output().expect("it runs");
        assert_eq!(out.status.code(), Some(2), "{word}");
    }
}
