//! The commands of `claims.toml` that are benchmarks of this package.

use std::process::{Command, Output};

/// Runs a benchmark, which checks its arguments and measures nothing.
fn dry_run(words: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_xfskit-bench");
    Command::new(program).args(words).arg("--dry-run").output().expect("it runs")
}

/// Returns the values of `command = "…"` anywhere in the file.
fn commands() -> Vec<String> {
    let text = include_str!("../claims.toml");
    let of = |part: &str| part.split_once('"').map(|(command, _)| command.to_owned());
    text.split("command = \"").skip(1).filter_map(of).collect()
}

#[test]
fn every_command_is_one_that_its_program_accepts() {
    let mut seen = 0;
    for command in commands() {
        let mut words: Vec<&str> = command.split(' ').collect();
        match words.remove(0) {
            "xfskit" => continue, // The tests of the command line parse it.
            name => assert_eq!(name, "xfskit-bench", "{command}"),
        }
        let out = dry_run(&words);
        let errors = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "{command}: {errors}");
        assert!(out.stdout.is_empty(), "{command} measured");
        seen += 1;
    }
    assert!(seen > 10, "{seen} commands");
}

#[test]
fn wrong_arguments_are_refused() {
    let scale = [&["/nowhere", "names", "many"][..], &["/nowhere", "nothing"], &["--turns", "0"]];
    for words in scale {
        let status = dry_run(&[&["scale"], words].concat()).status;
        assert_eq!(status.code(), Some(2), "{words:?}");
    }
    for word in ["--only=names,nothing", "--sides=nfs", "--seconds=-1", "--files=0", "--tree=0"] {
        assert_eq!(dry_run(&["mount", ".", word]).status.code(), Some(2), "{word}");
    }
}

#[test]
fn an_unknown_benchmark_is_refused_with_the_list() {
    let out = dry_run(&["nothing"]);
    assert_eq!(out.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(errors.starts_with("nothing: no such benchmark") && errors.contains("\n  growth "));
}
