//! The tree is the stack: a crate in `stack/N-name` depends only on crates on floors below N.

use std::collections::HashMap;
use std::process::Command;

use serde_json::Value;

/// Returns the floor of a manifest: 5 for `stack/5-core/Cargo.toml`, none outside `stack/`.
fn floor(manifest: &str) -> Option<u32> {
    let (_, rest) = manifest.rsplit_once("/stack/")?;
    rest.split_once('-')?.0.parse().ok()
}

fn metadata() -> Value {
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .output()
        .expect("cargo metadata runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("cargo metadata speaks JSON")
}

#[test]
fn a_crate_depends_only_on_crates_of_lower_floors() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let floors: HashMap<&str, u32> = packages
        .iter()
        .filter_map(|p| Some((p["name"].as_str()?, floor(p["manifest_path"].as_str()?)?)))
        .collect();
    assert!(floors.len() > 10, "the stack was not found");
    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().expect("name");
        let Some(&own) = floors.get(name) else { continue };
        for dep in package["dependencies"].as_array().expect("dependencies") {
            let dep_name = dep["name"].as_str().expect("name");
            let is_dev = dep["kind"].as_str() == Some("dev");
            if let Some(&below) = floors.get(dep_name)
                && below >= own
                && !is_dev
            {
                wrong.push(format!("{name} (floor {own}) names {dep_name} (floor {below})"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn crates_of_tests_are_used_by_tests_only() {
    let metadata = metadata();
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("name");
        for dep in package["dependencies"].as_array().expect("dependencies") {
            let dep_name = dep["name"].as_str().expect("name");
            let is_dev = dep["kind"].as_str() == Some("dev");
            if dep_name.starts_with("xfskit-test-") && !name.starts_with("xfskit-test-") && !is_dev
            {
                wrong.push(format!("{name} depends on {dep_name} outside of tests"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_two_programs_have_the_same_name() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let mut programs: Vec<&str> = packages
        .iter()
        .flat_map(|package| package["targets"].as_array().expect("targets"))
        .filter(|target| target["kind"] == serde_json::json!(["bin"]))
        .map(|target| target["name"].as_str().expect("name"))
        .collect();
    assert!(programs.contains(&"xfskit") && programs.contains(&"bench-find"), "{programs:?}");
    programs.retain(|name| *name != "xfskit");
    programs.retain(|name| !name.starts_with("bench-") && !name.starts_with("xfskit-"));
    assert!(programs.is_empty(), "the system may have programs of these names: {programs:?}");
}
