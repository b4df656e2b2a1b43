//! The kept corpus: the minimised inputs of long runs, one archive for each target, and inputs that
//! once failed, each in a file.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Window of the compressed archives, as a power of two.
const WINDOW_LOG: u32 = 27;
/// Compression level.
const LEVEL: i32 = 19;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus")
}

fn archive(target: &str) -> PathBuf {
    folder().join(format!("{target}.tar.zst"))
}

/// Returns the kept inputs of a target: those of its archive, then those that once failed
/// (`corpus/failed/TARGET-*`).
///
/// # Panics
/// If the repository holds them but they cannot be read.
pub fn inputs(target: &str) -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    if let Ok(packed) = File::open(archive(target)) {
        let mut decoder = zstd::Decoder::new(packed).expect("zstd");
        decoder.window_log_max(WINDOW_LOG).expect("a window");
        for file in tar::Archive::new(decoder).entries().expect("a tar archive") {
            let mut input = Vec::new();
            file.expect("an entry").read_to_end(&mut input).expect("an input");
            inputs.push(input);
        }
    }
    inputs.extend(failed(target).into_iter().map(|(_, input)| input));
    inputs
}

/// Returns the inputs that once failed, with their file names, sorted by name.
///
/// # Panics
/// If one cannot be read.
pub fn failed(target: &str) -> Vec<(String, Vec<u8>)> {
    let Ok(entries) = std::fs::read_dir(folder().join("failed")) else { return Vec::new() };
    let prefix = format!("{target}-");
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let named = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.to_owned();
        name.starts_with(&prefix).then(|| (name, std::fs::read(&path).expect("an input")))
    };
    paths.into_iter().filter_map(named).collect()
}

/// Packs the files of `dir` as the corpus of `target`. The same files give the same bytes. Does
/// nothing if the directory does not exist.
///
/// # Errors
/// A file cannot be read or written.
pub fn pack(target: &str, dir: &Path) -> io::Result<()> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Ok(()) };
    let mut inputs = Vec::new();
    for entry in entries {
        inputs.push(std::fs::read(entry?.path())?);
    }
    inputs.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
    let mut builder = tar::Builder::new(Vec::new());
    for (number, input) in inputs.iter().enumerate() {
        let mut header = tar::Header::new_old();
        header.set_size(input.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, format!("{number}"), input.as_slice())?;
    }
    let bytes = builder.into_inner()?;
    std::fs::create_dir_all(folder())?;
    let mut encoder = zstd::Encoder::new(File::create(archive(target))?, LEVEL)?;
    encoder.long_distance_matching(true)?;
    encoder.window_log(WINDOW_LOG)?;
    io::Write::write_all(&mut encoder, &bytes)?;
    encoder.finish()?.sync_all()
}
