//! Builds passthrough_ll from the example of Debian's package libfuse3-dev.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::kernel;

/// The examples of the package.
const EXAMPLES: &str = "/usr/share/doc/libfuse3-dev/examples";
const NAME: &str = "passthrough_ll";

/// Returns the program in `dir`, which is built there if it is missing.
///
/// # Errors
/// If the package, a compiler or pkg-config is missing.
pub fn program(dir: &Path) -> io::Result<PathBuf> {
    let program = dir.join(NAME);
    if !program.exists() {
        let source = dir.join(format!("{NAME}-{}", std::process::id()));
        fs::create_dir_all(&source)?;
        let built = build(&source, &program);
        fs::remove_dir_all(&source)?;
        built?;
    }
    Ok(program)
}

fn build(source: &Path, program: &Path) -> io::Result<()> {
    for name in ["passthrough_ll.c", "passthrough_helpers.h"] {
        unpack(name, &source.join(name))?;
    }
    let flags = kernel::run("pkg-config", &["--cflags", "--libs", "fuse3"])?;
    let (from, to) = (source.join("passthrough_ll.c"), program.to_string_lossy());
    let from = from.to_string_lossy();
    let flags = flags.split_whitespace();
    let args: Vec<&str> = ["-O2", "-o", &*to, &*from].into_iter().chain(flags).collect();
    kernel::run("cc", &args).map(drop)
}

/// Copies an example, which the package may have compressed.
fn unpack(name: &str, to: &Path) -> io::Result<()> {
    let plain = Path::new(EXAMPLES).join(name);
    if plain.exists() {
        return fs::copy(plain, to).map(drop);
    }
    let packed = Path::new(EXAMPLES).join(format!("{name}.gz"));
    if !packed.exists() {
        return Err(io::Error::other("Debian's package libfuse3-dev is not installed"));
    }
    let done = Command::new("gzip").arg("-dc").arg(packed).stdout(File::create(to)?).status()?;
    if done.success() { Ok(()) } else { Err(io::Error::other(format!("gzip: {done}"))) }
}
