//! Every check of floor 1 has a test that makes it fail: a test of `1-format` expects each id that
//! a verifier of that crate can return. The table of checks, `1-format/src/checks`, has every id
//! that the code of any floor names, and no other.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The six trees pass these ids to the code that walks them. That code checks order, content and
/// keys of records, and `6-check` tests it, since it needs several blocks at once.
const LENT_BY: [&str; 6] = ["bnobt", "cntbt", "inobt", "finobt", "rmapbt", "refcountbt"];
const LENT: [&str; 4] = [".order", ".rec", ".key", ".ptr"];

/// Literals of the same form that are the names of ACLs.
const OTHER_NAMES: [&str; 2] = ["system.posix_acl_access", "system.posix_acl_default"];

/// Macros that make several ids: the suffixes that each appends to its argument.
type Macros = BTreeMap<String, Vec<String>>;

fn stack() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../stack")
}

fn crate_root() -> PathBuf {
    stack().join("1-format")
}

fn table() -> PathBuf {
    crate_root().join("src/checks")
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

/// Splits a source file without its comments into code and tests.
fn split(path: &Path) -> (String, String) {
    let text = fs::read_to_string(path).expect("UTF-8");
    let code = |line: &&str| !line.trim_start().starts_with("//");
    let text: String = text.lines().filter(code).flat_map(|line| [line, "\n"]).collect();
    let name = path.strip_prefix(stack()).expect("below the stack");
    let tests_dir = name.components().any(|part| part.as_os_str() == "tests");
    if tests_dir || name.ends_with("tests.rs") || name.ends_with("testing.rs") {
        return (String::new(), text);
    }
    let at = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    let (ships, tests) = text.split_at(at);
    (ships.to_owned(), tests.to_owned())
}

/// Returns whether the literal has the form of an id, such as "agf.flcount" and
/// "block.claimed-twice".
fn is_id(literal: &str) -> bool {
    let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    let word = |word: &str| !word.is_empty() && word.chars().all(known);
    literal.contains('.') && literal.split('.').all(word) && !OTHER_NAMES.contains(&literal)
}

/// Returns the macros of `text` that contain `magic: concat!($tree, ".magic")` and the like.
fn macros(text: &str) -> Macros {
    let mut found = Macros::new();
    for body in text.split("macro_rules! ").skip(1) {
        let body = body.split_once("\n}\n").map_or(body, |(body, _)| body);
        let body = body.split_once("\n    }\n").map_or(body, |(body, _)| body);
        let name = body.split(' ').next().unwrap_or("").to_owned();
        let suffix =
            |line: &str| Some(line.split_once("concat!($")?.1.split('"').nth(1)?.to_owned());
        let suffixes: Vec<String> = body.lines().filter_map(suffix).collect();
        if !suffixes.is_empty() {
            found.insert(name, suffixes);
        }
    }
    found
}

/// Returns the ids in `text`: literals, and those that `macros` make.
fn ids(text: &str, macros: &Macros) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut text = text.to_owned();
    for (name, suffixes) in macros {
        // The character before the name distinguishes `ids!` from `tree_ids!`.
        for before in ["&", " ", "(", "[", "::"] {
            let call = format!("{before}{name}!(\"");
            for argument in text.split(&call).skip(1).filter_map(|rest| rest.split('"').next()) {
                found.extend(suffixes.iter().map(|suffix| format!("{argument}{suffix}")));
            }
            text = text.replace(&call, "(\"the argument of a macro, ");
        }
    }
    let literals = text.lines().flat_map(|line| line.split('"').skip(1).step_by(2));
    found.extend(literals.filter(|literal| is_id(literal)).map(str::to_owned));
    found
}

#[test]
fn every_check_of_the_format_crate_has_a_test_that_expects_its_id() {
    let mut files = Vec::new();
    rust_files(&crate_root().join("src"), &mut files);
    rust_files(&crate_root().join("tests"), &mut files);
    files.retain(|path| !path.starts_with(table()));
    let (ships, tests): (Vec<String>, Vec<String>) = files.iter().map(|path| split(path)).unzip();
    let all = |parts: &[String]| {
        let macros = parts.iter().flat_map(|text| macros(text)).collect();
        parts.iter().flat_map(|text| ids(text, &macros)).collect::<BTreeSet<_>>()
    };
    let (used, expected) = (all(&ships), all(&tests));
    assert!(used.len() > 300, "only {} ids found: does this test still see them?", used.len());

    let lent: BTreeSet<String> =
        LENT_BY.iter().flat_map(|tree| LENT.map(|id| format!("{tree}{id}"))).collect();
    assert!(lent.is_subset(&used), "ids that no tree lends any more");
    let missing: Vec<_> = used.difference(&expected).filter(|id| !lent.contains(*id)).collect();
    assert!(missing.is_empty(), "checks that no test breaks: {missing:#?}");
    // Other words with a dot count only if they begin like an id of the code.
    let family = |id: &str| id.split('.').next().unwrap_or("").to_owned();
    let families: BTreeSet<String> = used.iter().map(|id| family(id)).collect();
    let unknown: Vec<_> =
        expected.difference(&used).filter(|id| families.contains(&family(id))).collect();
    assert!(unknown.is_empty(), "expected by tests, but no check: {unknown:#?}");
}

/// Returns the ids of the table: the first literal of each row.
fn listed() -> BTreeSet<String> {
    let mut files = Vec::new();
    rust_files(&table(), &mut files);
    let mut listed = BTreeSet::new();
    for path in files.iter().filter(|path| !path.ends_with("mod.rs")) {
        let text = fs::read_to_string(path).expect("UTF-8");
        let row = |line: &str| Some(line.strip_prefix("        \"")?.split_once('"')?.0.to_owned());
        listed.extend(text.lines().filter_map(row));
    }
    listed
}

#[test]
fn the_table_of_checks_has_every_id_of_the_code_and_no_other() {
    let mut files = Vec::new();
    for floor in fs::read_dir(stack()).into_iter().flatten().flatten() {
        rust_files(&floor.path().join("src"), &mut files);
    }
    files.retain(|path| !path.starts_with(table()));
    let texts: Vec<String> = files.iter().map(|path| split(path).0).collect();
    let macros = texts.iter().flat_map(|text| macros(text)).collect();
    let named: BTreeSet<String> = texts.iter().flat_map(|text| ids(text, &macros)).collect();
    let listed = listed();
    assert!(listed.len() > 500, "only {} rows: does this test still see them?", listed.len());
    let family = |id: &String| id.split('.').next().unwrap_or("").to_owned();
    let families: BTreeSet<String> = listed.iter().map(family).collect();
    let named: BTreeSet<_> =
        named.into_iter().filter(|id| families.contains(&family(id))).collect();
    let unlisted: Vec<_> = named.difference(&listed).collect();
    assert!(unlisted.is_empty(), "not in stack/1-format/src/checks: {unlisted:#?}");
    let idle: Vec<_> = listed.difference(&named).collect();
    assert!(idle.is_empty(), "in the table, but no check: {idle:#?}");
}
