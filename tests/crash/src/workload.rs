//! The workloads.

use crate::worker::OpMix;
use crate::worker::Operation::{
    Collapse, Copy, Exchange, Insert, Link, Make, MakeDir, Orphan, Preallocate, Punch, Release,
    Remove, RemoveXattr, Rename, SetAttr, SetXattr, Share, Swap, Symlink, Truncate, Unshare, Write,
    Zero,
};

/// Operations of one kind on a volume of one kind.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Name of the workload.
    pub name: &'static str,
    /// Options of mkfs, one per `-x y` pair.
    pub options: &'static [(&'static str, &'static str)],
    /// Size of the volume, in bytes. The journal is the smallest that Linux accepts for it, unless
    /// an option sets it.
    pub size: u64,
    /// Number of workers, each with a directory of its own.
    pub threads: u16,
    /// Operations of each worker.
    pub steps: usize,
    /// Free blocks of an otherwise full volume; `None` for an empty one.
    pub leave: Option<u64>,
    /// Extent size hint of new files, for copies on write too, in blocks; 0 for none.
    pub hint: u32,
    /// Memory for metadata, in bytes. With little memory, blocks are written in place all the time.
    pub cache: usize,
    /// The mix of operations.
    pub mix: OpMix,
}

const NAMES: OpMix = OpMix {
    operations: &[
        (Make, 6, 2),
        (MakeDir, 2, 0),
        (Symlink, 2, 1),
        (Remove, 2, 6),
        (Link, 2, 1),
        (Rename, 3, 3),
        (Swap, 1, 1),
        (SetAttr, 1, 1),
        (SetXattr, 1, 1),
    ],
    phase_len: 40,
    names: 60,
    name_max: 255,
    dirs: 3,
    content: 1,
    value: 2000,
    sync_one_in: 6,
};

/// One directory, through all forms and back. None of its names is in use twice.
const DIRECTORY: OpMix = OpMix {
    operations: &[(Make, 20, 1), (Symlink, 1, 0), (Link, 4, 0), (Rename, 2, 2), (Remove, 1, 24)],
    phase_len: 130,
    names: 4000,
    name_max: 250,
    dirs: 0,
    sync_one_in: 12,
    ..NAMES
};

const ATTRIBUTES: OpMix = OpMix {
    operations: &[(Make, 2, 1), (SetXattr, 20, 3), (RemoveXattr, 2, 20), (Remove, 0, 1)],
    phase_len: 60,
    names: 6,
    dirs: 0,
    value: 9000,
    sync_one_in: 6,
    ..NAMES
};

const CONTENT: OpMix = OpMix {
    operations: &[
        (Make, 2, 1),
        (Write, 14, 6),
        (Truncate, 2, 4),
        (Punch, 2, 4),
        (Zero, 2, 2),
        (Preallocate, 2, 1),
        (Collapse, 1, 2),
        (Insert, 1, 1),
        (Rename, 1, 1),
        (Remove, 0, 2),
    ],
    phase_len: 30,
    names: 8,
    name_max: 30,
    dirs: 0,
    content: 120_000,
    value: 10,
    sync_one_in: 4,
};

const SHARING: OpMix = OpMix {
    operations: &[
        (Make, 2, 1),
        (Write, 10, 6),
        (Share, 6, 2),
        (Copy, 3, 2),
        (Unshare, 1, 3),
        (Exchange, 1, 1),
        (Truncate, 1, 2),
        (Punch, 1, 3),
        (Remove, 0, 2),
    ],
    ..CONTENT
};

const ORPHANS: OpMix = OpMix {
    operations: &[
        (Make, 6, 4),
        (Write, 6, 2),
        (SetXattr, 2, 1),
        (Orphan, 3, 3),
        (Release, 1, 3),
        (Remove, 0, 2),
    ],
    names: 20,
    value: 5000,
    ..CONTENT
};

/// Whole inode chunks are allocated and freed.
const CHUNKS: OpMix = OpMix {
    operations: &[(Make, 20, 0), (Symlink, 3, 0), (Remove, 0, 25), (MakeDir, 1, 0)],
    phase_len: 150,
    names: 2000,
    name_max: 20,
    dirs: 1,
    sync_one_in: 14,
    ..NAMES
};

const ANYTHING: OpMix = OpMix {
    operations: &[
        (Make, 8, 3),
        (MakeDir, 1, 1),
        (Symlink, 1, 1),
        (Remove, 1, 8),
        (Link, 1, 1),
        (Rename, 2, 2),
        (Swap, 1, 1),
        (SetAttr, 1, 1),
        (SetXattr, 3, 1),
        (RemoveXattr, 1, 2),
        (Write, 8, 4),
        (Truncate, 1, 2),
        (Punch, 1, 2),
        (Zero, 1, 1),
        (Preallocate, 1, 1),
        (Collapse, 1, 1),
        (Insert, 1, 1),
        (Share, 2, 1),
        (Copy, 1, 1),
        (Unshare, 1, 1),
        (Exchange, 1, 1),
        (Orphan, 1, 1),
        (Release, 1, 1),
    ],
    names: 40,
    name_max: 255,
    dirs: 2,
    content: 60_000,
    value: 4000,
    ..CONTENT
};

const SMALL: &[(&str, &str)] = &[("-b", "size=1024"), ("-n", "parent=1"), ("-i", "exchange=1")];
const EVERYTHING: &[(&str, &str)] = &[("-n", "parent=1"), ("-i", "exchange=1")];
/// A journal that is large enough for transactions, checkpoints and writeback to overlap.
const CONCURRENT: &[(&str, &str)] = &[("-l", "size=32m")];
const PLAIN: &[(&str, &str)] =
    &[("-m", "rmapbt=0,reflink=0,finobt=0"), ("-i", "sparse=0,nrext64=0")];

/// Several threads with little memory: writeback runs while they work.
const fn concurrent(name: &'static str, threads: u16, steps: usize, mix: OpMix) -> Workload {
    let (size, cache) = (160 << 20, 1 << 20);
    Workload { size, threads, steps, cache, ..work(name, CONCURRENT, mix) }
}

const fn work(name: &'static str, options: &'static [(&str, &str)], mix: OpMix) -> Workload {
    let (size, cache) = (64 << 20, 16 << 20);
    Workload { name, options, size, threads: 1, steps: 120, leave: None, hint: 0, cache, mix }
}

/// All workloads.
pub const WORKLOADS: &[Workload] = &[
    work("names", &[], NAMES),
    work("names-plain", PLAIN, NAMES),
    work("names-parents", SMALL, NAMES),
    Workload { steps: 260, ..work("directory", &[], DIRECTORY) },
    Workload { steps: 260, ..work("directory-small-blocks", SMALL, DIRECTORY) },
    work("attributes", &[], ATTRIBUTES),
    work("attributes-small-blocks", SMALL, ATTRIBUTES),
    work("content", &[], CONTENT),
    work("content-small-blocks", SMALL, CONTENT),
    work("content-plain", PLAIN, CONTENT),
    work("sharing", &[], SHARING),
    work("sharing-everything", EVERYTHING, SHARING),
    work("orphans", &[], ORPHANS),
    work("orphans-small-blocks", SMALL, ORPHANS),
    Workload { hint: 8, ..work("hints", EVERYTHING, SHARING) },
    Workload { hint: 7, leave: Some(200), ..work("hints-full", SMALL, SHARING) },
    Workload { steps: 300, ..work("chunks", &[], CHUNKS) },
    Workload { steps: 300, ..work("chunks-small-blocks", SMALL, CHUNKS) },
    Workload { leave: Some(60), ..work("full", &[], ANYTHING) },
    Workload { leave: Some(200), ..work("full-small-blocks", SMALL, ANYTHING) },
    work("anything", EVERYTHING, ANYTHING),
    Workload { threads: 4, steps: 60, ..work("threads", &[], ANYTHING) },
    Workload { threads: 4, steps: 60, ..work("threads-small-blocks", SMALL, ANYTHING) },
    Workload { threads: 4, steps: 60, leave: Some(100), ..work("threads-full", &[], ANYTHING) },
    concurrent("write-back", 4, 60, ANYTHING),
    concurrent("write-back-chunks", 3, 200, CHUNKS),
];
