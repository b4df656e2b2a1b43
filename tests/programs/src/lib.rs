//! Other people's programs in a volume that `xfskit mount` serves.
//!
//! For each program a volume is made (by `xfskit mkfs` or by mkfs.xfs, in turns) and mounted by the
//! built command; the program works inside; and the volume is unmounted by `xfskit umount`. Then
//! these claims are verified:
//!
//! 1. The program found nothing wrong, and ended in its time.
//! 2. The process that served the mount ended with code 0, and no thread of it panicked.
//! 3. `xfskit check` and `xfs_repair -n` find nothing.
//! 4. The kernel mounts the volume, and shows the tree that the mount showed: names, types, modes,
//!    owners, sizes, times, attributes, holes and content. The library shows it too.
//!
//! `make programs` runs all of them, and `make torture` does so for longer. [`programs::ALL`] lists
//! them with the amount of work of each. `tests/programs/setup.sh` installs them; one that is
//! missing counts as skipped, by name.
//!
//! | module | contents |
//! | --- | --- |
//! | [`command`] | programs that run within a bound, and the log of what they print |
//! | [`served`] | the process that serves a mount |
//! | [`volume`] | a volume: made, mounted, ended and verified |
//! | [`tree`] | the tree that a mount shows, compared with the one that Linux shows |
//! | [`stage`] | what a program is given: space, time, volumes |
//! | [`programs`] | the programs |

pub mod command;
pub mod programs;
pub mod served;
pub mod stage;
pub mod tree;
pub mod volume;
