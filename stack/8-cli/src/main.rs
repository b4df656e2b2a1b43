//! The command `xfskit`.
fn main() {
    println!("xfskit {}", env!("CARGO_PKG_VERSION"));
}
