//! Patterns in the names of members: `*` and `?`, in any part of the path.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// Returns the files that `pattern` matches, sorted. Returns the pattern itself if it has no
/// wildcard or is the name of a file. Hidden files match only a pattern that begins with a dot.
pub(crate) fn expand(pattern: &Path) -> Vec<PathBuf> {
    let is_pattern = |text: &Path| text.to_str().is_some_and(|text| text.contains(['*', '?']));
    if !is_pattern(pattern) || pattern.exists() {
        return vec![pattern.into()];
    }
    let mut found = vec![PathBuf::new()];
    for component in pattern.components() {
        let part: &Path = component.as_ref();
        found = match component {
            Component::Normal(name) if is_pattern(part) => {
                let name = name.to_str().unwrap_or_default();
                found.iter().flat_map(|directory| within(directory, name)).collect()
            }
            _ => found.into_iter().map(|directory| directory.join(part)).collect(),
        };
    }
    found.retain(|path| path.exists());
    found.sort();
    found
}

/// Returns the entries of a directory that match.
fn within(directory: &Path, pattern: &str) -> Vec<PathBuf> {
    let path = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let names = fs::read_dir(path).into_iter().flatten().flatten();
    names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with('.') == pattern.starts_with('.'))
        .filter(|name| matches(pattern.as_bytes(), name.as_bytes()))
        .map(|name| directory.join(name))
        .collect()
}

/// Returns true if `name` matches `pattern`. On a mismatch the last star takes one byte more, so
/// the work is bounded by the product of the lengths.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, n));
                p += 1;
            }
            Some(c) if *c == b'?' || *c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((after, taken)) = star else { return false };
                star = Some((after, taken + 1));
                (p, n) = (after, taken + 1);
            }
        }
    }
    pattern.get(p..).unwrap_or_default().iter().all(|c| *c == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_match_as_in_a_shell() {
        let hit = |pattern: &str, name: &str| matches(pattern.as_bytes(), name.as_bytes());
        assert!(
            hit("m*.img", "m0.img") && hit("m*.img", "m.img") && hit("*", "") && hit("**", "a")
        );
        assert!(hit("m?.img", "m1.img") && hit("*a*b*", "xxaxxbxx") && hit("*ab", "aab"));
        assert!(!hit("m?.img", "m10.img") && !hit("m*.img", "m0.imgx") && !hit("", "a"));
    }

    #[test]
    fn a_pattern_becomes_the_files_it_matches_in_order() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a/m1.img", "a/m0.img", "b/m0.img", "b/.m.img", "b/x"] {
            let path = directory.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"").unwrap();
        }
        let found = |pattern: &str| -> Vec<String> {
            let found = expand(&directory.path().join(pattern));
            let below = |path: &PathBuf| path.strip_prefix(directory.path()).unwrap().to_owned();
            found.iter().map(|path| below(path).display().to_string()).collect()
        };
        assert_eq!(found("?/m*.img"), ["a/m0.img", "a/m1.img", "b/m0.img"]);
        assert_eq!(found("b/*"), ["b/m0.img", "b/x"]);
        assert_eq!(found("c*/m0.img"), Vec::<String>::new());
        assert_eq!(found("plain"), ["plain"]);
    }
}
