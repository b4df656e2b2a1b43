//! Tells the crate which commit it is built from: reports say it. Without a checkout, as in a published crate, nothing.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let git = |args: &[&str]| {
        let out =
            Command::new("git").args(args).output().ok().filter(|out| out.status.success())?;
        Some(String::from_utf8_lossy(&out.stdout).trim().to_owned())
    };
    // Within somebody else's checkout it is not our commit.
    if git(&["rev-parse", "--show-prefix"]).as_deref() != Some("stack/6-workload/") {
        return;
    }
    // Every commit and every change of branch appends a line there.
    let history = git(&["rev-parse", "--git-path", "logs/HEAD"]);
    if let (Some(history), Some(commit)) = (history, git(&["rev-parse", "--short=12", "HEAD"])) {
        println!("cargo:rerun-if-changed={history}");
        println!("cargo:rustc-env=XFSKIT_COMMIT={commit}");
    }
}
