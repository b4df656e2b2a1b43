//! The matrix: one volume for every option of `mkfs.xfs` that changes the on-disk format.

use crate::image::{Image, Mount, Scratch};
use crate::tools::Xfsprogs;
use crate::trees::{self, Shape};
use crate::{long, note, skip};

/// One volume of the matrix.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Short name, for messages.
    pub name: &'static str,
    /// Whether xfsprogs 6.13 formats it, instead of the installed version.
    pub newer: bool,
    /// Options of `mkfs.xfs`, separated by blanks.
    pub options: &'static str,
    /// Size of the data device, in MiB.
    pub mebibytes: u64,
    /// Size of an external log, in MiB; 0 for an internal one.
    pub log_mebibytes: u64,
    /// Whether the volume's UUID is changed afterwards, which leaves the old one in the metadata.
    pub new_uuid: bool,
    /// Properties on which the trees depend.
    pub shape: Shape,
    /// Whether it belongs to the long run only.
    pub long: bool,
}

const fn case(name: &'static str, options: &'static str) -> Case {
    Case {
        name,
        newer: false,
        options,
        mebibytes: 512,
        log_mebibytes: 0,
        new_uuid: false,
        shape: Shape::DEFAULT,
        long: false,
    }
}

const fn newer(name: &'static str, options: &'static str) -> Case {
    Case { newer: true, ..case(name, options) }
}

impl Case {
    const fn long(self) -> Self {
        Self { long: true, ..self }
    }

    const fn tall(self) -> Self {
        Self { shape: Shape { tall: true, ..self.shape }, mebibytes: 1024, ..self }
    }

    const fn blocks(self, block: u64, dir_block: u64) -> Self {
        Self { shape: Shape { block, dir_block, ..self.shape }, ..self }
    }

    const fn no_reflink(self) -> Self {
        Self { shape: Shape { reflink: false, ..self.shape }, ..self }
    }

    /// Formats the volume. Returns `None`, with a note, if the tools do not support the options.
    pub fn make<'scratch>(&self, scratch: &'scratch Scratch) -> Option<Image<'scratch>> {
        let tools = if self.newer { Xfsprogs::newer() } else { Xfsprogs::installed() };
        let Some(tools) = tools else {
            skip(&format!("xfsprogs 6.13 for volume `{}`", self.name));
            return None;
        };
        let mut image = Image::sparse(scratch, &format!("{}.img", self.name), self.mebibytes << 20);
        let mut log_option = String::new();
        if self.log_mebibytes > 0 {
            image = image.with_external_log(self.log_mebibytes << 20);
            let log = image.log().expect("just made");
            log_option = format!("logdev={}", log.display());
        }
        let mut options: Vec<&str> = self.options.split_whitespace().collect();
        if !log_option.is_empty() {
            options.extend(["-l", &log_option]);
        }
        if let Err(why) = tools.mkfs(&image, &options) {
            note(&format!("volume `{}` cannot be made: {why}", self.name));
            return None;
        }
        if self.new_uuid {
            let change = "uuid 5a5a5a5a-0102-4304-8506-0708090a0b0c";
            tools.db(&image, true, &[change]).expect("xfs_db changes the UUID");
        }
        Some(image)
    }

    /// Formats the volume and fills it with every corner case. Returns `None`, with a note, if the
    /// machine does not support it.
    pub fn filled<'scratch>(&self, scratch: &'scratch Scratch) -> Option<Image<'scratch>> {
        let image = self.make(scratch)?;
        let mount = self.mount(&image, scratch, "")?;
        trees::corners(mount.path(), &self.shape).expect("the kernel makes the corner cases");
        mount.unmount().expect("unmount");
        Some(image)
    }

    /// Returns the versions of xfsprogs that know all features of the volume.
    pub fn repair_tools(&self) -> Vec<Xfsprogs> {
        let unknown_to_6_1 = ["parent=1", "exchange=1"];
        let only_newer = unknown_to_6_1.iter().any(|feature| self.options.contains(feature));
        if only_newer { Xfsprogs::newer().into_iter().collect() } else { Xfsprogs::all() }
    }

    /// Mounts for writing, with more `options`. Returns `None`, with a note, if the kernel refuses.
    pub fn mount(&self, image: &Image, scratch: &Scratch, options: &str) -> Option<Mount> {
        let mounted = Mount::read_write_with(image, scratch, options);
        mounted
            .inspect_err(|why| {
                note(&format!("volume `{}` is not mounted here: {why}", self.name));
            })
            .ok()
    }
}

/// Returns the case of that name.
pub fn named(name: &str) -> Case {
    *CASES.iter().find(|case| case.name == name).expect("a case of the matrix")
}

/// Returns the volumes of `make test`, or those of the long run as well.
pub fn cases() -> Vec<Case> {
    CASES.iter().copied().filter(|case| long() || !case.long).collect()
}

const BARE: &str = "-m finobt=0,rmapbt=0,reflink=0,bigtime=0,inobtcount=0 -i sparse=0";

/// All volumes.
pub const CASES: &[Case] = &[
    case("default", "").tall(),
    newer("default-newer", "").tall(),
    // Sizes.
    case("block-1k", "-b size=1024").blocks(1024, 4096).tall(),
    case("block-2k", "-b size=2048").blocks(2048, 4096).long(),
    newer("block-8k", "-b size=8192").blocks(8192, 8192),
    newer("block-16k", "-b size=16384").blocks(16384, 16384),
    newer("block-32k", "-b size=32768").blocks(32768, 32768).long(),
    Case { mebibytes: 3000, ..newer("block-64k", "-b size=65536").blocks(65536, 65536) },
    case("dir-block-8k", "-n size=8192").blocks(4096, 8192),
    case("dir-block-16k", "-n size=16384").blocks(4096, 16384),
    case("dir-block-64k", "-n size=65536").blocks(4096, 65536).long(),
    newer("dir-block-64k-of-1k", "-b size=1024 -n size=65536").blocks(1024, 65536),
    case("inode-1k", "-i size=1024"),
    newer("inode-2k", "-i size=2048"),
    case("sector-4k", "-s size=4096"),
    newer("sector-4k-newer", "-s size=4096 -b size=4096 -l su=16k").long(),
    // Features, each off and on.
    case("bare", BARE).no_reflink(),
    case("no-finobt", "-m finobt=0,inobtcount=0").long(),
    case("no-inobtcount", "-m inobtcount=0"),
    case("no-bigtime", "-m bigtime=0"),
    case("no-sparse", "-i sparse=0").long(),
    case("no-reflink", "-m reflink=0").no_reflink().long(),
    case("rmapbt", "-m rmapbt=1"),
    case("rmapbt-no-reflink", "-m rmapbt=1,reflink=0").no_reflink(),
    case("nrext64", "-i nrext64=1"),
    newer("no-rmapbt", "-m rmapbt=0"),
    newer("no-nrext64", "-i nrext64=0").long(),
    newer("parent", "-n parent=1"),
    newer("parent-block-1k", "-n parent=1 -b size=1024").blocks(1024, 4096).long(),
    newer("exchange", "-i exchange=1").long(),
    Case { new_uuid: true, ..case("new-uuid", "") },
    Case { new_uuid: true, ..newer("new-uuid-newer", "-n parent=1") }.long(),
    // Layouts.
    newer("stripe", "-d su=64k,sw=3"),
    case("stripe-odd", "-d sunit=24,swidth=72 -l su=32k").long(),
    newer("many-groups", "-d agcount=30 -l size=4096b"),
    case("inherited", "-d projinherit=77,extszinherit=4,cowextsize=8").long(),
    Case { log_mebibytes: 64, ..case("external-log", "") },
    Case { log_mebibytes: 40, ..newer("external-log-newer", "-s size=4096") },
    // Inode numbers of more than 32 bits: allocation groups of one TiB each.
    Case { mebibytes: 8 << 20, ..newer("huge", "-l size=64m") },
];
