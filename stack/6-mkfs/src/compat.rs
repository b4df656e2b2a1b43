//! The readers that can use a volume, and the features to leave out for a given reader.
//!
//! A kernel refuses to mount a volume with an unknown incompat feature, and mounts one with an
//! unknown ro-compat feature for reading only. GRUB looks at the incompat features alone, never
//! replays the log, and never writes. `TABLE` lists the first release of each reader that supports
//! each feature. Everything else here is derived from it. The sources are kernel pull requests,
//! xfsprogs' change log and its LTS configuration files, and GRUB's releases.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use xfskit_units::flags::FlagWord;
use xfskit_units::{Features, Geometry};

use crate::options::Options;

/// Major and minor number of a release.
pub type Release = (u16, u16);

/// The kind of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A kernel.
    Linux,
    /// A boot loader; it only reads.
    Grub,
}

/// A reader: a kernel's or a boot loader's release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(into = "String")]
pub struct Target {
    /// The kind.
    pub kind: Kind,
    /// The release.
    pub release: Release,
}

const fn linux(major: u16, minor: u16) -> Target {
    Target { kind: Kind::Linux, release: (major, minor) }
}

const fn grub(major: u16, minor: u16) -> Target {
    Target { kind: Kind::Grub, release: (major, minor) }
}

impl Target {
    /// All known readers: the kernels with long support, and GRUB's releases.
    pub const ALL: &[Self] = &[
        linux(4, 19),
        linux(5, 4),
        linux(5, 10),
        linux(5, 15),
        linux(6, 1),
        linux(6, 6),
        linux(6, 12),
        linux(6, 18),
        grub(2, 2),
        grub(2, 4),
        grub(2, 6),
        grub(2, 12),
        grub(2, 14),
    ];
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.release;
        match self.kind {
            Kind::Linux => write!(f, "linux-{major}.{minor}"),
            Kind::Grub => write!(f, "grub-{major}.{minor:02}"),
        }
    }
}

impl From<Target> for String {
    fn from(target: Target) -> Self {
        target.to_string()
    }
}

/// There is no reader of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown target {0}; known are {list}", list = names())]
pub struct UnknownTarget(String);

fn names() -> String {
    Target::ALL.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

impl FromStr for Target {
    type Err = UnknownTarget;

    fn from_str(text: &str) -> Result<Self, UnknownTarget> {
        let found = Self::ALL.iter().find(|target| target.to_string() == text);
        found.copied().ok_or_else(|| UnknownTarget(text.into()))
    }
}

/// What a kernel does with a volume that has an unknown feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unknown {
    /// Ro-compat: mounts it for reading only.
    ReadOnly,
    /// Incompat: refuses.
    Refused,
}

/// One feature, and the releases that support it.
struct FeatureRow {
    /// The name that mkfs.xfs and xfs_info use.
    name: &'static str,
    /// Returns true if a volume has it.
    has: fn(&Geometry) -> bool,
    /// Turns it on or off, unless the options set it already. `None` if this mkfs never writes it,
    /// or always does.
    choose: Option<fn(&mut Options, bool)>,
    unknown: Unknown,
    /// First kernel that writes to such volumes; `None` for none.
    linux: Option<Release>,
    /// First kernel that does not call it experimental.
    stable: Option<Release>,
    /// First kernel whose mkfs turns it on by default.
    default: Option<Release>,
    /// First GRUB that reads such volumes; `None` for none.
    grub: Option<Release>,
}

const ANY: Option<Release> = Some((0, 0));

const fn row(name: &'static str, unknown: Unknown, has: fn(&Geometry) -> bool) -> FeatureRow {
    FeatureRow {
        name,
        has,
        choose: None,
        unknown,
        linux: ANY,
        stable: ANY,
        default: None,
        grub: ANY,
    }
}

impl FeatureRow {
    /// Sets the first kernel that supports it, and the first where it is not experimental.
    const fn linux(self, linux: Release, stable: Option<Release>) -> Self {
        Self { linux: Some(linux), stable, ..self }
    }

    /// Sets the first GRUB that supports it.
    const fn grub(self, grub: Option<Release>) -> Self {
        Self { grub, ..self }
    }

    /// Sets the first kernel whose mkfs turns it on, and the function that turns it on and off.
    const fn chosen(self, default: Release, choose: fn(&mut Options, bool)) -> Self {
        Self { default: Some(default), choose: Some(choose), ..self }
    }
}

use Unknown::{ReadOnly, Refused};

const TABLE: &[FeatureRow] = &[
    row("sparse", Refused, |geo| geo.features.sparse())
        .linux((4, 2), Some((4, 8)))
        .grub(Some((2, 4)))
        .chosen((4, 16), |o, on| default_to(&mut o.sparse, on)),
    row("reflink", ReadOnly, |geo| geo.features.reflink())
        .linux((4, 9), Some((4, 16)))
        .chosen((5, 1), |o, on| default_to(&mut o.reflink, on)),
    row("rmapbt", ReadOnly, |geo| geo.features.rmapbt())
        .linux((4, 8), Some((4, 16)))
        .chosen((6, 5), |o, on| default_to(&mut o.rmapbt, on)),
    row("bigtime", Refused, |geo| geo.features.bigtime())
        .linux((5, 10), Some((5, 15)))
        .grub(Some((2, 6)))
        .chosen((5, 15), |o, on| default_to(&mut o.bigtime, on)),
    row("inobtcount", ReadOnly, |geo| geo.features.inobtcount())
        .linux((5, 10), Some((5, 15)))
        .chosen((5, 15), |o, on| default_to(&mut o.inobtcount, on && o.finobt != Some(false))),
    // GRUB 2.12 accepts it, yet reads the old extent counter of directories.
    row("nrext64", Refused, |geo| geo.features.nrext64())
        .linux((5, 19), Some((6, 5)))
        .grub(Some((2, 14)))
        .chosen((6, 5), |o, on| default_to(&mut o.nrext64, on)),
    row("exchange", Refused, |geo| geo.features.exchange())
        .linux((6, 10), Some((6, 16)))
        .grub(Some((2, 14)))
        .chosen((6, 18), |o, on| default_to(&mut o.exchange, on)),
    row("parent", Refused, |geo| geo.features.parent())
        .linux((6, 10), Some((6, 16)))
        .grub(Some((2, 14)))
        .chosen((6, 18), |o, on| default_to(&mut o.parent, on)),
    row("finobt", ReadOnly, |geo| geo.features.finobt()).linux((3, 16), ANY),
    row("meta_uuid", Refused, |geo| geo.features.meta_uuid()).linux((4, 3), ANY),
    row("metadir", Refused, |geo| geo.features.metadir())
        .linux((6, 13), Some((7, 0)))
        .grub(Some((2, 14))),
    row("zoned", Refused, |geo| geo.features.zoned()).linux((6, 15), Some((7, 2))).grub(None),
    row("blocks larger than 4096 bytes", Refused, |geo| geo.v5() && geo.blocklog > 12)
        .linux((6, 12), Some((7, 0))),
    row("realtime section with reflink or rmapbt", Refused, |geo| {
        geo.rblocks.0 > 0 && (geo.features.reflink() || geo.features.rmapbt())
    })
    .linux((6, 14), Some((7, 0))),
    FeatureRow {
        linux: None,
        ..row("needsrepair", Refused, |geo| geo.features.needsrepair()).grub(Some((2, 6)))
    },
    row("logged-xattrs", ReadOnly, |geo| !geo.features.log_incompat.is_empty())
        .linux((5, 19), None),
];

fn default_to(field: &mut Option<bool>, on: bool) {
    field.get_or_insert(on);
}

/// Returns true if a reader of release `have` has reached `need`.
fn reaches(need: Option<Release>, have: Release) -> bool {
    need.is_some_and(|need| have >= need)
}

impl FeatureRow {
    /// Returns true if `target` can use such volumes fully: write, or for GRUB read.
    fn known_to(&self, target: Target) -> bool {
        match target.kind {
            Kind::Linux => reaches(self.linux, target.release),
            Kind::Grub => reaches(self.grub, target.release),
        }
    }

    /// Returns true if `target` supports it and does not call it experimental.
    fn stable_in(&self, target: Target) -> bool {
        self.known_to(target) && (target.kind == Kind::Grub || reaches(self.stable, target.release))
    }

    /// Returns true if the mkfs of `target`'s time turned it on by default.
    fn default_in(&self, target: Target) -> bool {
        self.known_to(target)
            && (target.kind == Kind::Grub || reaches(self.default, target.release))
    }

    /// Returns the first release of `target`'s kind that supports it.
    fn since(&self, target: Target) -> String {
        let (word, release) = match target.kind {
            Kind::Linux => ("Linux", self.linux),
            Kind::Grub => ("GRUB", self.grub),
        };
        match release {
            Some(release) => format!("known since {word} {}", show(target.kind, release)),
            None => format!("not known to any {word}"),
        }
    }
}

fn show(kind: Kind, (major, minor): Release) -> String {
    match kind {
        Kind::Linux => format!("{major}.{minor}"),
        Kind::Grub => format!("{major}.{minor:02}"),
    }
}

/// A feature that is left out, and the reader it is left out for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The feature.
    pub feature: &'static str,
    /// The reader that does not support it.
    pub target: Target,
    /// The reason, as half a sentence.
    pub why: String,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is left out for {}: {}", self.feature, self.target, self.why)
    }
}

/// The features to make a volume with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    /// Features to turn on.
    pub on: Vec<&'static str>,
    /// Features to leave out.
    pub left_out: Vec<LeftOut>,
}

/// Returns the features that all of `targets` support. Without `max`, these are the features that
/// the mkfs of the time turned on. With `max`, these are all that the reader can mount,
/// experimental ones too.
pub fn features_for(targets: &[Target], max: bool) -> Choice {
    let mut choice = Choice { on: Vec::new(), left_out: Vec::new() };
    for row in TABLE.iter().filter(|row| row.choose.is_some()) {
        let fits = |target: Target| if max { row.known_to(target) } else { row.default_in(target) };
        match targets.iter().find(|target| !fits(**target)) {
            None => choice.on.push(row.name),
            Some(&target) => choice.left_out.push(LeftOut {
                feature: row.name,
                target,
                why: match () {
                    () if !row.known_to(target) => row.since(target),
                    () if !row.stable_in(target) => {
                        "it can mount it, but calls it experimental".into()
                    }
                    () => "it can mount it, but its mkfs left it off".into(),
                },
            }),
        }
    }
    choice
}

impl Choice {
    /// Sets the choice in `options`, where they have no value yet.
    pub fn apply(&self, options: &mut Options) {
        for row in TABLE {
            if let Some(choose) = row.choose {
                choose(options, self.on.contains(&row.name));
            }
        }
    }
}

/// How far a reader can use a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Not at all.
    No,
    /// Read.
    ReadOnly,
    /// Read and write.
    ReadWrite,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::No => "no",
            Self::ReadOnly => "read only",
            Self::ReadWrite => "read and write",
        })
    }
}

/// A feature that keeps a reader from using a volume in full.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stop {
    /// The feature.
    pub feature: &'static str,
    /// What the reader can still do.
    pub leaves: Access,
    /// The reason, as half a sentence.
    pub why: String,
}

/// How far `target` can use a volume, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Compatibility {
    /// The reader.
    pub target: Target,
    /// How far it can use the volume.
    pub access: Access,
    /// Features that keep it from doing more; empty for a kernel that can do everything.
    pub stops: Vec<Stop>,
    /// Remarks: experimental and deprecated features.
    pub notes: Vec<String>,
}

/// Returns how far `target` can use the volume `geo`.
pub fn compatibility(geo: &Geometry, target: Target) -> Compatibility {
    let mut stops = Vec::new();
    let mut notes = Vec::new();
    for row in TABLE.iter().filter(|row| (row.has)(geo)) {
        if !row.known_to(target) {
            let grub_ignores = target.kind == Kind::Grub && row.unknown == ReadOnly;
            if !grub_ignores {
                let leaves = if row.unknown == ReadOnly { Access::ReadOnly } else { Access::No };
                stops.push(Stop { feature: row.name, leaves, why: row.since(target) });
            }
        } else if !row.stable_in(target) {
            notes.push(format!("{} is experimental there", row.name));
        }
    }
    stops.extend(unknown_bits(&geo.features));
    version_4(geo, target, &mut stops, &mut notes);
    name_rules(geo, target, &mut notes);
    let most = match target.kind {
        Kind::Linux => Access::ReadWrite,
        Kind::Grub => Access::ReadOnly,
    };
    let access = stops.iter().map(|stop| stop.leaves).fold(most, Access::min);
    Compatibility { target, access, stops, notes }
}

/// Returns a stop for feature bits that no known release has.
fn unknown_bits(features: &Features) -> Option<Stop> {
    let why = "no release is known that has it".into();
    if !features.incompat.undefined().is_empty() {
        Some(Stop { feature: "unknown incompat", leaves: Access::No, why })
    } else if !features.ro_compat.undefined().is_empty() {
        Some(Stop { feature: "unknown ro-compat", leaves: Access::ReadOnly, why })
    } else {
        None
    }
}

/// Adds the remarks on version 4: kernels deprecate it, and GRUB 2.06 cannot read it.
fn version_4(geo: &Geometry, target: Target, stops: &mut Vec<Stop>, notes: &mut Vec<String>) {
    if geo.v5() {
        return;
    }
    match (target.kind, target.release) {
        (Kind::Grub, (2, 6)) => stops.push(Stop {
            feature: "version 4",
            leaves: Access::No,
            why: "GRUB 2.06 takes the inode size for a mistake".into(),
        }),
        (Kind::Linux, release) if release >= (6, 18) => {
            notes.push("version 4 must be enabled in the kernel's configuration".into());
        }
        (Kind::Linux, release) if release >= (5, 10) => {
            notes.push("version 4 is deprecated".into());
        }
        _ => (),
    }
}

/// Adds the remarks on names that are compared without case.
fn name_rules(geo: &Geometry, target: Target, notes: &mut Vec<String>) {
    if !geo.features.ascii_ci() {
        return;
    }
    match (target.kind, target.release) {
        (Kind::Grub, _) => notes.push("names must be given in their exact case".into()),
        (Kind::Linux, release) if release >= (6, 18) => {
            notes.push("ascii-ci must be enabled in the kernel's configuration".into());
        }
        (Kind::Linux, release) if release >= (6, 4) => notes.push("ascii-ci is deprecated".into()),
        _ => (),
    }
}

#[cfg(test)]
mod tests;
