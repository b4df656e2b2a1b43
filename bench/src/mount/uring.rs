//! Has the kernel offer io_uring for FUSE, which it does while a parameter of its module is set.

use std::fs;

use crate::frame::Result;

const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";

/// The kernel offers io_uring to mounts that begin while this is held. Then the parameter is what
/// it was.
#[derive(Debug)]
pub struct Offer {
    before: String,
}

impl Offer {
    /// Sets the parameter.
    ///
    /// # Errors
    /// If there is none, or it cannot be set.
    pub fn new() -> Result<Self> {
        let why = |error| format!("{PARAMETER} cannot be set: {error}");
        let before = fs::read_to_string(PARAMETER).map_err(why)?;
        fs::write(PARAMETER, "Y").map_err(why)?;
        Ok(Self { before })
    }
}

impl Drop for Offer {
    fn drop(&mut self) {
        let _ = fs::write(PARAMETER, self.before.trim());
    }
}
