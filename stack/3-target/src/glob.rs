//! Patterns in the names of members: `*`, `?` and sets in brackets, in any part of the path.

use std::path::{Component, Path, PathBuf};

use glob::{MatchOptions, glob_with};

/// A star stays within its part. Hidden files are left to [`shows`]: the crate leaves them out of
/// patterns that begin with a dot, too.
const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

/// Returns the files that `pattern` matches, sorted. Returns the pattern itself if it has no `*` or
/// `?`, or is the name of a file. Hidden files match only a pattern that begins with a dot.
pub(crate) fn expand(pattern: &Path) -> Vec<PathBuf> {
    match pattern.to_str() {
        Some(text) if text.contains(['*', '?']) && !pattern.exists() => {
            let found = glob_with(text, OPTIONS).into_iter().flatten().flatten();
            found.filter(|path| shows(pattern, path)).collect()
        }
        _ => vec![pattern.into()],
    }
}

/// Returns true if each hidden part of `path` stands for a part of `pattern` with a leading dot.
fn shows(pattern: &Path, path: &Path) -> bool {
    let is_hidden = |part: Component<'_>| part.as_os_str().as_encoded_bytes().starts_with(b".");
    let mut parts = path.components().rev().zip(pattern.components().rev());
    parts.all(|(part, pattern)| !is_hidden(part) || is_hidden(pattern))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

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
        assert_eq!(found("b/.m*"), ["b/.m.img"]);
        assert_eq!(found("?/?m.*"), Vec::<String>::new(), "hidden");
        assert_eq!(found("a/m[1-9]?img*"), ["a/m1.img"]);
        assert_eq!(found("a/m**"), Vec::<String>::new(), "no pattern");
        assert_eq!(found("c*/m0.img"), Vec::<String>::new());
        assert_eq!(found("plain"), ["plain"]);
    }
}
