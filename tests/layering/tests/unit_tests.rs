//! One layout of unit tests. The tests of a module are its child module `tests`, the last item of
//! its file: inline up to a limit, in `tests.rs` beyond it. What the tests of several modules share
//! is in a module `testing`. Every file of integration tests is built.

use std::fs;
use std::path::{Path, PathBuf};

/// Lines of tests that stand in the file that they test.
const INLINE_LINES: usize = 100;

/// Attributes of modules that only tests have.
const TEST_ONLY: [&str; 2] = ["#[cfg(test)]", "#[cfg(all(test, not(shuttle)))]"];

/// Tests of `make protocols`, which stand for their crate.
const PROTOCOLS: &str = "stack/3-trans/src/protocols.rs";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
}

/// Returns the sources of every crate: the path below the root, and the lines.
fn sources() -> Vec<(PathBuf, Vec<String>)> {
    let mut files = Vec::new();
    for parent in ["stack", "tests"] {
        for entry in fs::read_dir(root().join(parent)).expect("crates").flatten() {
            rust_files(&entry.path().join("src"), &mut files);
        }
    }
    rust_files(&root().join("bench/src"), &mut files);
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).expect("UTF-8");
        let path = path.strip_prefix(root()).expect("below the root").to_owned();
        (path, text.lines().map(str::to_owned).collect())
    };
    files.into_iter().map(read).collect()
}

/// Returns whether a file holds tests only: `tests.rs`, or a file in a folder `tests`.
fn is_of_tests(path: &Path) -> bool {
    let below_src = path.components().skip_while(|part| part.as_os_str() != "src");
    path.ends_with("tests.rs")
        || path == Path::new(PROTOCOLS)
        || below_src.into_iter().any(|part| part.as_os_str() == "tests")
}

/// Returns the modules that `#[cfg(test)]` precedes: line number, name, and whether it is inline.
fn test_modules(lines: &[String]) -> impl Iterator<Item = (usize, &str, bool)> {
    lines.iter().enumerate().filter_map(|(at, line)| {
        let declared = line.trim_start().trim_start_matches("pub(crate) ").strip_prefix("mod ")?;
        let mut above = lines[..at].iter().rev().take_while(|line| line.trim().starts_with("#["));
        above.any(|line| TEST_ONLY.contains(&line.trim())).then_some(())?;
        let name = declared.trim_end_matches([';', '{', ' ']);
        Some((at + 1, name, declared.ends_with('{')))
    })
}

#[test]
fn modules_that_only_tests_have_are_called_tests_or_testing() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for (path, lines) in sources() {
        for (number, name, _) in test_modules(&lines) {
            seen += 1;
            if !["tests", "testing"].contains(&name) {
                wrong.push(format!("{}:{number}: module {name}", path.display()));
            }
        }
    }
    assert!(seen > 100, "only {seen} modules found: does this test still see them?");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn tests_are_the_last_item_of_their_file_or_a_file_of_their_own() {
    let mut wrong = Vec::new();
    for (path, lines) in sources().iter().filter(|(path, _)| !is_of_tests(path)) {
        let mut say =
            |number, what: &str| wrong.push(format!("{}:{number}: {what}", path.display()));
        let tests = test_modules(lines).find(|(_, name, _)| *name == "tests");
        let start = tests.map_or(lines.len(), |(number, ..)| number);
        let is_test = |line: &String| line.trim() == "#[test]";
        if let Some(at) = lines[..start].iter().position(is_test) {
            say(at + 1, "a test outside of `mod tests`");
        }
        match tests {
            Some((number, _, false)) if number < lines.len() => {
                say(number, "`mod tests` is not the last item");
            }
            Some((number, _, true)) => {
                let end = lines[number..].iter().position(|line| line == "}").expect("an end");
                if number + end + 1 < lines.len() {
                    say(number, "`mod tests` is not the last item");
                }
                if end > INLINE_LINES {
                    say(number, "more tests than stand inline: move them to `tests.rs`");
                }
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn short_tests_stand_inline() {
    let short = |(path, lines): &(PathBuf, Vec<String>)| {
        (path.ends_with("tests.rs") && lines.len() <= INLINE_LINES)
            .then(|| format!("{}: {} lines", path.display(), lines.len()))
    };
    let wrong: Vec<String> = sources().iter().filter_map(short).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A crate with many files of integration tests builds them as one program, `tests/all.rs`. A file
/// that neither it nor the manifest names would not run.
#[test]
fn every_file_of_integration_tests_is_built() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for parent in ["stack", "tests"] {
        for entry in fs::read_dir(root().join(parent)).expect("crates").flatten() {
            let folder = entry.path().join("tests");
            let Ok(all) = fs::read_to_string(folder.join("all.rs")) else { continue };
            let manifest = fs::read_to_string(entry.path().join("Cargo.toml")).expect("a manifest");
            for file in fs::read_dir(&folder).expect("tests").flatten() {
                let path = file.path();
                let name = path.file_stem().and_then(|name| name.to_str()).expect("UTF-8");
                if !path.is_dir() && path.extension().is_none_or(|ext| ext != "rs") {
                    continue;
                }
                seen += 1;
                let is_program = manifest.contains(&format!("path = \"tests/{name}.rs\""));
                if !is_program && !all.lines().any(|line| line == format!("mod {name};")) {
                    wrong.push(format!("{}: not in all.rs", path.display()));
                }
            }
        }
    }
    assert!(seen > 50, "only {seen} files found: does this test still see them?");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A library or a program without unit tests has `test = false` in its manifest, so that no program
/// of tests is compiled and linked for it. Unit tests there would not run.
#[test]
fn targets_without_a_program_of_unit_tests_have_no_unit_tests() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    let parents = ["stack", "tests"].map(|parent| fs::read_dir(root().join(parent)));
    let crates = parents.into_iter().flat_map(|entries| entries.expect("crates").flatten());
    for folder in crates.map(|entry| entry.path()).chain([root().join("bench")]) {
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        let mut sources = Vec::new();
        rust_files(&folder.join("src"), &mut sources);
        let has_tests = |path: &Path| {
            fs::read_to_string(path).expect("UTF-8").lines().any(|line| line.trim() == "#[test]")
        };
        for table in manifest.split("\n[").filter(|table| table.contains("\ntest = false")) {
            seen += 1;
            let of_table = |path: &&PathBuf| is_source_of(path, &folder, table);
            let found = sources.iter().filter(of_table).filter(|path| has_tests(path));
            wrong.extend(found.map(|path| format!("{}: its tests do not run", path.display())));
        }
    }
    assert!(seen > 20, "only {seen} targets found: does this test still see them?");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns whether a file of the crate in `folder` belongs to the library or program of `table` of
/// its manifest. A program is one file; all others belong to the library.
fn is_source_of(path: &Path, folder: &Path, table: &str) -> bool {
    let is_program = path.starts_with(folder.join("src/bin")) || path.ends_with("src/main.rs");
    if table.starts_with("lib]") {
        return !is_program;
    }
    let value = |key: &str| table.lines().find_map(|line| line.strip_prefix(key));
    let quoted = |text: &str| text.trim_matches('"').to_owned();
    let file = value("path = ")
        .map(quoted)
        .or_else(|| value("name = ").map(|name| format!("src/bin/{}.rs", quoted(name))));
    file.is_some_and(|file| path == folder.join(file))
}
