//! Floor 5: bulk building of whole structures, for a new volume.
//!
//! Nothing here reads or writes a device, and nothing is logged. Each part first plans how many
//! blocks it takes, and their offsets in its fork. Once they have a location on the device it fills
//! them one by one, in any order, on any thread. The same input gives the same bytes.
//!
//! | module | contents |
//! | --- | --- |
//! | [`dir`] | directories in all their forms |
//! | [`attr`] | attribute forks, values in blocks of their own too |
//! | [`bmbt`] | extent maps |
//! | [`btree`] | the btrees of a group |
//! | `level` | the distribution of entries over the blocks of one level |

pub mod attr;
pub mod bmbt;
pub mod btree;
pub mod dir;

mod level;
