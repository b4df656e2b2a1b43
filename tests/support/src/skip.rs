//! Skips and notes, which are printed past the test runner's capture, and the long run.

use std::io::Write;

/// Reports the running test as skipped, with what it needs. If skips are not allowed
/// (`XFSKIT_REQUIRE_ORACLE=1`, as in CI), the test fails instead.
///
/// # Panics
/// Panics if skips are not allowed.
pub fn skip(needed: &str) {
    let message = format!("SKIPPED {}: needs {needed}\n", test());
    assert!(!is_set("XFSKIT_REQUIRE_ORACLE"), "{message}");
    print(&message);
}

/// Reports that a part of the running test does not apply here, for example because the kernel does
/// not support a feature. That is never a failure.
pub fn note(text: &str) {
    print(&format!("NOTE {}: {text}\n", test()));
}

/// Returns whether the long runs were requested (`XFSKIT_LONG=1`): more seeds, bigger trees, the
/// whole matrix of volumes.
pub fn long() -> bool {
    is_set("XFSKIT_LONG")
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| value == "1")
}

/// Returns the name of the running test.
fn test() -> String {
    std::thread::current().name().unwrap_or("a test").to_owned()
}

fn print(message: &str) {
    // A closed stderr is no reason to fail a test.
    let _ = std::io::stderr().write_all(message.as_bytes());
}
