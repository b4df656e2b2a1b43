//! Which studies, in which sizes: from words of the command line to what suites take.

use std::io;
use std::time::Duration;

use xfskit::core::OpenOptions;
use xfskit::mkfs::options::Quantity;
use xfskit::units::ByteLen;
use xfskit_workload::report::Section;
use xfskit_workload::side::Bed;
use xfskit_workload::suite::{Audience, Settings, crc_update, inodes, xattrs};

use crate::grammar::bench::{Against, CrcUpdate, How, Inodes, Shape, XattrPart, Xattrs};

type Sections = io::Result<Vec<Section>>;

/// Bytes of a disk where the study does not name one.
const DISK: u64 = 1 << 40;
/// Threads where the study is about many.
const THREADS: usize = 8;

/// Space of a quick run: every kind of case once.
const QUICK_CASES: [&str; 4] = [
    "n20000-40",
    "n20000-120-150-200-220-255-d25",
    "n20000-20-40-60-80-100-o25",
    "n20000--s-50-60--N-8000",
];

pub(super) fn xattrs(args: &Xattrs, audience: &mut dyn Audience) -> Sections {
    let mut options = if args.how.quick {
        xattrs::Options {
            cases: QUICK_CASES.iter().filter_map(|case| case.parse().ok()).collect(),
            cost: Some(xattrs::cost::Counts { most: 50_000, step: 10_000 }),
            links: Some(10_000),
        }
    } else {
        xattrs::Options {
            cost: Some(xattrs::cost::Counts { most: args.count, step: args.step }),
            links: Some(args.links),
            ..xattrs::Options::default()
        }
    };
    if !args.cases.is_empty() {
        options.cases.clone_from(&args.cases);
    }
    let wanted = |part| args.only.is_empty() || args.only.contains(&part);
    if !wanted(XattrPart::Space) {
        options.cases.clear();
    }
    options.cost = options.cost.filter(|_| wanted(XattrPart::Cost));
    options.links = options.links.filter(|_| wanted(XattrPart::Links));
    let settings = settings(&args.how, ByteLen(DISK));
    xattrs::run(&options, &settings, audience)
}

/// Bytes of a disk of the test as it was published.
const INODES_DISK: u64 = 500 << 40;
/// Bytes of the journal: "hundreds of MB".
const INODES_LOG: u64 = 512 << 20;
/// Largest group.
const GROUP_MAX: u64 = 1 << 40;

pub(super) fn inodes(args: &Inodes, audience: &mut dyn Audience) -> Sections {
    let mut settings = settings(&args.how, ByteLen(INODES_DISK));
    let mut options = inodes::Options {
        shapes: args.shape.iter().map(|shape| shape_of(*shape)).collect(),
        files: args.files,
        loops: args.loops,
        file_size: args.file_size,
        subdirs: args.subdirs,
    };
    if args.how.quick {
        (options.files, options.loops) = (2000, 2);
    }
    settings.threads = args.how.threads.map_or(THREADS, usize::from);
    let groups = u32::try_from(settings.threads * 2).unwrap_or(u32::MAX);
    let usual = settings.bed.size.0.div_ceil(GROUP_MAX) >= u64::from(groups);
    settings.bed.mkfs.agcount = args.groups.or((!usual).then_some(groups));
    if settings.bed.size.0 >= 8 * INODES_LOG {
        settings.bed.mkfs.log_size = Some(Quantity::Bytes(INODES_LOG));
    }
    inodes::run(&options, &settings, audience)
}

pub(super) fn crc_update(args: &CrcUpdate, audience: &mut dyn Audience) -> Sections {
    let mut settings = settings(&args.how, ByteLen(DISK));
    settings.threads = args.how.threads.map_or(THREADS, usize::from);
    let mut options = crc_update::Options {
        appends: args.appends,
        bytes: args.bytes,
        ..crc_update::Options::default()
    };
    if args.how.quick {
        (options.turn, options.appends) = (Duration::from_micros(50), 200);
    }
    crc_update::run(&options, &settings, audience)
}

fn shape_of(shape: Shape) -> inodes::shape::Shape {
    match shape {
        Shape::Separate => inodes::shape::Shape::Separate,
        Shape::Shared => inodes::shape::Shape::Shared,
        Shape::Deep => inodes::shape::Shape::Deep,
        Shape::Racing => inodes::shape::Shape::Racing,
    }
}

/// What every suite takes; its disks have `size` unless the user says otherwise.
fn settings(how: &How, size: ByteLen) -> Settings {
    let against_kernel = how.against == Some(Against::Kernel);
    let bed = Bed {
        dir: how.dir.clone(),
        size: how.size.map_or(size, ByteLen),
        mkfs: xfskit::mkfs::Options::default(),
        open: OpenOptions { cache_bytes: xfskit::quarter_of_memory(), ..OpenOptions::default() },
    };
    Settings {
        bed: bed.shared(against_kernel),
        against_kernel,
        threads: how.threads.map_or(1, usize::from),
        seed: how.seed,
        repetitions: how.repetitions.map_or(1, usize::from),
    }
}
