//! The tree is the stack: a crate in `stack/N-name` depends only on crates on floors below N.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
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
    assert!(programs.contains(&"xfskit") && programs.contains(&"xfskit-bench"), "{programs:?}");
    programs.retain(|name| *name != "xfskit");
    programs.retain(|name| !name.starts_with("xfskit-"));
    assert!(programs.is_empty(), "the system may have programs of these names: {programs:?}");
}

#[test]
fn the_command_line_names_the_facade_and_the_workloads_only() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    let cli = packages.iter().find(|package| package["name"] == "xfskit-cli").expect("the command");
    let floors: Vec<&str> = cli["dependencies"]
        .as_array()
        .expect("dependencies")
        .iter()
        .filter(|dependency| dependency["kind"].as_str() != Some("dev"))
        .filter_map(|dependency| dependency["name"].as_str())
        .filter(|name| name.starts_with("xfskit"))
        .collect();
    assert_eq!(floors, ["xfskit", "xfskit-workload"]);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../stack/9-cli/src");
    let mut files = Vec::new();
    sources(&source, &mut files);
    assert!(files.len() > 50, "the command line was not found");
    let on_raw: Vec<String> = files
        .iter()
        .filter(|file| std::fs::read_to_string(file).expect("UTF-8").contains("raw::"))
        .map(|file| file.strip_prefix(&source).expect("below").display().to_string())
        .collect();
    assert!(on_raw.is_empty(), "these files name `xfskit::raw`: {on_raw:?}");
}

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).expect("a readable tree").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(path);
        }
    }
}
