//! No circle between sibling modules: of two modules with the same parent, at most one names the
//! other, directly or by way of others. A reader can then take the modules of a crate one after
//! the other.
//!
//! The arrows are taken from `use` declarations and from paths that begin with `crate`, `super` or
//! `self`. What a module names inside of another counts for the two ancestors that are siblings.
//! Tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module's path in its crate; empty for the root.
type Module = Vec<String>;

/// For each parent, the arrows between its children.
type Arrows = BTreeMap<Module, BTreeMap<String, BTreeSet<String>>>;

fn stack() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../stack")
}

/// Returns the source of each module below `dir`, without comments and tests.
fn modules(dir: &Path) -> BTreeMap<Module, String> {
    let mut found = BTreeMap::new();
    collect(dir, &Module::new(), &mut found);
    let tests: Vec<Module> =
        found.iter().flat_map(|(module, code)| tests_of(module, code)).collect();
    found.retain(|module, _| !tests.iter().any(|test| module.starts_with(test)));
    found
}

fn collect(dir: &Path, parent: &Module, found: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("UTF-8").to_owned();
        let is_root = ["lib", "main", "mod"].contains(&name.as_str());
        let module: Module = parent.iter().cloned().chain((!is_root).then_some(name)).collect();
        if path.is_dir() {
            collect(&path, &module, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.entry(module).or_default().push_str(&code(&path));
        }
    }
}

/// Returns a file's code without comments, and without the tests at its end.
fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).expect("UTF-8");
    let line = |line: &str| line.split("//").next().unwrap_or("").to_owned() + "\n";
    let text: String = text.lines().map(line).collect();
    let end = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    text[..end].to_owned()
}

/// Returns the children of a module that only tests have: `#[cfg(test)] mod name;`.
fn tests_of<'m>(module: &'m Module, code: &'m str) -> impl Iterator<Item = Module> + 'm {
    code.split("#[cfg(test)]\n").skip(1).filter_map(|rest| {
        let (line, _) = rest.split_once(";\n")?;
        let name = line.rsplit_once("mod ").map(|(_, name)| name.trim())?;
        let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_');
        is_name.then(|| module.iter().cloned().chain([name.to_owned()]).collect())
    })
}

/// Returns the paths that a use tree stands for.
fn expand(tree: &str) -> Vec<String> {
    let Some((prefix, rest)) = tree.split_once('{') else {
        return vec![tree.split(" as ").next().unwrap_or("").trim().to_owned()];
    };
    let body = rest.rsplit_once('}').map_or(rest, |(body, _)| body);
    let (mut depth, mut parts) = (0, vec![String::new()]);
    for c in body.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 {
            parts.push(String::new());
        } else {
            parts.last_mut().expect("a part").push(c);
        }
    }
    let whole = |part: &String| {
        expand(part.trim()).into_iter().map(|path| prefix.trim().to_owned() + &path)
    };
    parts.iter().filter(|part| !part.trim().is_empty()).flat_map(whole).collect()
}

/// Returns the paths that a module's code names, as written.
fn paths(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = String::new();
    for statement in code.split_inclusive(';') {
        let at = statement.rfind("use ").filter(|&at| {
            let before = statement[..at].trim_end();
            before.is_empty()
                || before.ends_with(['}', '{', ';', ']', ')'])
                || before.ends_with("pub")
        });
        match at {
            Some(at) => found.extend(expand(statement[at + 4..].trim_end_matches(';'))),
            None => rest.push_str(statement),
        }
    }
    let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = rest.split(|c| !is_path(c));
    let own =
        |word: &&str| ["crate::", "super::", "self::"].iter().any(|root| word.starts_with(root));
    found.extend(words.filter(own).map(|word| word.trim_end_matches(':').to_owned()));
    found
}

/// Returns the module that `path`, written in `module`, names or names something of.
fn resolve(path: &str, module: &Module, all: &BTreeMap<Module, String>) -> Option<Module> {
    let mut segments: Vec<&str> = path.split("::").map(str::trim).collect();
    let mut base = module.clone();
    match segments[0] {
        "crate" => base.clear(),
        "self" | "super" => {}
        first => {
            let child: Module = module.iter().cloned().chain([first.to_owned()]).collect();
            all.contains_key(&child).then_some(())?;
        }
    }
    while segments.first() == Some(&"super") {
        base.pop();
        segments.remove(0);
    }
    let names = segments.iter().filter(|name| !["crate", "self"].contains(name));
    base.extend(names.map(|name| (*name).to_owned()));
    while !all.contains_key(&base) {
        base.pop()?;
    }
    Some(base)
}

/// Returns the arrows between the modules of the crate whose sources are in `src`.
fn arrows(src: &Path) -> Arrows {
    let all = modules(src);
    let mut found = Arrows::new();
    for (module, code) in &all {
        for target in paths(code).iter().filter_map(|path| resolve(path, module, &all)) {
            let common = module.iter().zip(&target).take_while(|(a, b)| a == b).count();
            if let (Some(from), Some(to)) = (module.get(common), target.get(common)) {
                let siblings = found.entry(module[..common].to_vec()).or_default();
                siblings.entry(from.clone()).or_default().insert(to.clone());
            }
        }
    }
    found
}

/// Returns a shortest circle through `start`, if there is one.
fn circle(start: &str, arrows: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    let mut queue = vec![vec![start.to_owned()]];
    let mut seen = BTreeSet::new();
    while !queue.is_empty() {
        let mut next = Vec::new();
        for path in queue {
            for to in arrows.get(path.last()?).into_iter().flatten() {
                let longer: Vec<String> = path.iter().cloned().chain([to.clone()]).collect();
                if to == start {
                    return Some(longer);
                }
                if seen.insert(to.clone()) {
                    next.push(longer);
                }
            }
        }
        queue = next;
    }
    None
}

/// Returns the crates of the stack by folder.
fn crates() -> Vec<String> {
    let folders = fs::read_dir(stack()).expect("the stack").flatten();
    let mut names: Vec<String> =
        folders.map(|entry| entry.file_name().into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

#[test]
fn no_two_sibling_modules_name_each_other_by_any_way() {
    let mut wrong = Vec::new();
    let mut counted = 0;
    for name in crates() {
        for (parent, siblings) in arrows(&stack().join(&name).join("src")) {
            counted += siblings.values().map(BTreeSet::len).sum::<usize>();
            let full = |module: &String| {
                parent.iter().chain([module]).map(String::as_str).collect::<Vec<_>>().join("/")
            };
            let circles = siblings.keys().filter_map(|module| circle(module, &siblings));
            wrong.extend(circles.map(|path| {
                let path: Vec<_> = path.iter().map(full).collect();
                format!("{name}: {}", path.join(" -> "))
            }));
        }
    }
    assert!(counted > 500, "only {counted} arrows found: does this test still see them?");
    assert!(wrong.is_empty(), "circles between sibling modules:\n{}", wrong.join("\n"));
}

#[test]
fn use_trees_and_paths_are_seen() {
    let code = "pub use crate::a::{b::{C, D as E}, self};\nlet x = super::f::g(crate::h::I);\n";
    let found = paths(code);
    assert_eq!(
        found,
        ["crate::a::b::C", "crate::a::b::D", "crate::a::self", "super::f::g", "crate::h::I"]
    );
}

#[test]
fn a_circle_is_named_by_its_modules() {
    let arrow = |to: &[&str]| to.iter().map(|to| (*to).to_owned()).collect::<BTreeSet<_>>();
    let graph = BTreeMap::from([
        ("a".to_owned(), arrow(&["b"])),
        ("b".to_owned(), arrow(&["c", "d"])),
        ("d".to_owned(), arrow(&["a"])),
    ]);
    assert_eq!(circle("a", &graph).unwrap(), ["a", "b", "d", "a"]);
    assert_eq!(circle("c", &graph), None);
}
