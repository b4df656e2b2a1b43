use super::*;
use crate::geometry::{Stamp, plan};
use crate::sizes::DeviceFacts;
use xfskit_units::{ByteLen, Uuid};

fn target(name: &str) -> Target {
    name.parse().unwrap()
}

fn volume(options: &Options) -> Geometry {
    let facts = DeviceFacts::file(ByteLen(1 << 30));
    let stamp = Stamp { uuid: Uuid::nil(), seconds: 0, nanoseconds: 0, generation: 0 };
    plan(options, &facts, stamp).unwrap().geometry
}

#[test]
fn each_target_gets_the_features_of_its_mkfs() {
    // The LTS configuration files of xfsprogs, and what GRUB's releases accept.
    for (name, on) in [
        ("linux-4.19", "sparse"),
        ("linux-5.4", "sparse reflink"),
        ("linux-5.10", "sparse reflink"),
        ("linux-5.15", "sparse reflink bigtime inobtcount"),
        ("linux-6.1", "sparse reflink bigtime inobtcount"),
        ("linux-6.6", "sparse reflink rmapbt bigtime inobtcount nrext64"),
        ("linux-6.12", "sparse reflink rmapbt bigtime inobtcount nrext64"),
        ("linux-6.18", "sparse reflink rmapbt bigtime inobtcount nrext64 exchange parent"),
        ("grub-2.02", "reflink rmapbt inobtcount"),
        ("grub-2.04", "sparse reflink rmapbt inobtcount"),
        ("grub-2.06", "sparse reflink rmapbt bigtime inobtcount"),
        ("grub-2.12", "sparse reflink rmapbt bigtime inobtcount"),
        ("grub-2.14", "sparse reflink rmapbt bigtime inobtcount nrext64 exchange parent"),
    ] {
        let choice = features_for(&[target(name)], false);
        assert_eq!(choice.on.join(" "), on, "{name}");
    }
}

#[test]
fn the_most_a_target_can_mount_includes_experimental_features() {
    let on = |name| features_for(&[target(name)], true).on.join(" ");
    assert_eq!(on("linux-4.19"), "sparse reflink rmapbt");
    assert_eq!(on("linux-5.10"), "sparse reflink rmapbt bigtime inobtcount");
    assert_eq!(on("linux-6.1"), "sparse reflink rmapbt bigtime inobtcount nrext64");
    assert!(on("linux-6.12").ends_with("exchange parent"));
}

#[test]
fn several_targets_get_what_all_of_them_have() {
    let choice = features_for(&[target("linux-6.12"), target("grub-2.04")], false);
    assert_eq!(choice.on.join(" "), "sparse reflink rmapbt inobtcount");
    let left: Vec<_> = choice.left_out.iter().map(ToString::to_string).collect();
    assert_eq!(
        left,
        [
            "bigtime is left out for grub-2.04: known since GRUB 2.06",
            "nrext64 is left out for grub-2.04: known since GRUB 2.14",
            "exchange is left out for linux-6.12: it can mount it, but calls it experimental",
            "parent is left out for linux-6.12: it can mount it, but calls it experimental",
        ]
    );
}

#[test]
fn a_volume_made_for_a_target_is_usable_by_it() {
    for &target in Target::ALL {
        for max in [false, true] {
            let mut options = Options::default();
            features_for(&[target], max).apply(&mut options);
            let result = compatibility(&volume(&options), target);
            let most = match target.kind {
                Kind::Linux => Access::ReadWrite,
                Kind::Grub => Access::ReadOnly,
            };
            assert_eq!(result.access, most, "{result:?}");
            assert_eq!(result.stops, [], "{target}");
            assert!(max || result.notes.is_empty(), "{result:?}");
        }
    }
}

#[test]
fn features_that_stop_a_reader_are_named() {
    let default = volume(&Options::default());
    let result = compatibility(&default, target("linux-4.19"));
    assert_eq!(result.access, Access::No);
    let stops: Vec<_> = result.stops.iter().map(|s| (s.feature, s.leaves)).collect();
    assert_eq!(
        stops,
        [("bigtime", Access::No), ("inobtcount", Access::ReadOnly), ("nrext64", Access::No)]
    );
    let mut options = Options::default();
    options.sub("-i", "nrext64=0").unwrap();
    options.sub("-m", "bigtime=0").unwrap();
    assert_eq!(compatibility(&volume(&options), target("linux-5.4")).access, Access::ReadOnly);
    assert_eq!(compatibility(&volume(&options), target("grub-2.04")).access, Access::ReadOnly);
    options.sub("-b", "size=16k").unwrap();
    assert_eq!(compatibility(&volume(&options), target("linux-6.6")).access, Access::No);
    assert_eq!(compatibility(&volume(&options), target("linux-6.12")).access, Access::ReadWrite);
}

#[test]
fn options_of_the_user_are_not_changed() {
    let mut options = Options::default();
    options.sub("-m", "reflink=0").unwrap();
    features_for(&[target("linux-6.6")], false).apply(&mut options);
    assert_eq!((options.reflink, options.rmapbt), (Some(false), Some(true)));
}

#[test]
fn an_unknown_target_is_refused_with_those_known() {
    let message = "linux-3.0".parse::<Target>().unwrap_err().to_string();
    assert!(message.starts_with("unknown target linux-3.0; known are linux-4.19, linux-5.4,"));
}
