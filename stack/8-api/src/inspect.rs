//! Any structure of a volume, decoded field by field: what `xfs_db` prints.
//!
//! ```no_run
//! # fn main() -> Result<(), xfskit::Error> {
//! let volume = xfskit::Volume::open("disk.img")?;
//! print!("{}", volume.inspect("agf 0")?);
//! # Ok(()) }
//! ```

pub use xfskit_inspect::Dump;
pub use xfskit_inspect::log::{Options as JournalPrint, Show, Span};
pub use xfskit_inspect::structure::GRAMMAR;

use xfskit_inspect::Structure;

use crate::cause::Cause;
use crate::{Error, Result, Volume};

impl Volume {
    /// Decodes a structure: `sb 0`, `agf 1`, `inode 131 dir`, … ([`GRAMMAR`] has all). The result
    /// prints as text, and [as JSON](Dump::to_json).
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) for a text that names no structure,
    /// [`NotFound`](crate::ErrorKind::NotFound) for one that the volume does not have; those of the
    /// device.
    pub fn inspect(&self, structure: &str) -> Result<Dump> {
        let _running = self.owner.enter()?;
        let structure: Structure =
            structure.parse().map_err(|error| Error::new(Cause::Structure(error)))?;
        xfskit_inspect::inspect(self.owner.volume(), structure).map_err(Error::new)
    }
}
