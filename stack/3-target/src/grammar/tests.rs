use super::*;
use xfskit_md::Raid6Layout;
use xfskit_units::ByteLen;

fn array(name: &str) -> (ArrayName, Option<Part>) {
    let target = Target::parse(name).unwrap();
    let Base::Array(array) = target.base else { panic!("{name} is no array") };
    (*array, target.part)
}

fn members(name: &str) -> Vec<String> {
    let name = array(name).0;
    let shown = |m: &Option<Target>| m.as_ref().map_or("-".into(), Target::to_string);
    name.members.iter().map(shown).collect()
}

#[test]
fn arrays_print_back_as_they_were_read() {
    for name in [
        "md:a.img,b.img",
        "md:a.img,missing,c.img",
        "md:/images/m*.img",
        "md:[md:a,b],[md:c,missing]",
        "md:a.img#p2,b.img#p2",
        "md:a.img,[b.img#p2]",
        "md:[a,b.img],c.img",
        "[md:a.img,b.img]#p1",
        "[md:a.img#p1,b.img#p1]#lv:vg/root",
        "md:level=raid6,layout=left-symmetric,chunk=512K,offset=1024K:a,missing,c,d",
        "md:level=raid10,layout=near=2,chunk=64K,offset=0K,size=1000K:a,b",
        "md:level=linear,chunk=0K,offset=512:a,b",
        "md:force:a,b",
        "md:overlay=/tmp/changes:a,missing",
        "md:force,overlay=changes:a,b",
        "md:overlay=changes:level=raid1,chunk=0K,offset=0K:a,b",
        "md:overlay=changes:[overlay=o:a],b",
        "md:forced,b",
    ] {
        let target = Target::parse(name).unwrap();
        assert_eq!(target.to_string(), name);
        assert_eq!(Target::parse(&target.to_string()).unwrap(), target);
    }
}

#[test]
fn a_part_at_the_end_belongs_to_the_array_unless_all_members_have_one() {
    let part = Some(Part::Partition(1));
    assert_eq!(array("md:a,b#p1").1, part);
    assert_eq!(array("[md:a,b]#p1").1, part);
    assert_eq!(array("md:a#p1").1, part);
    assert_eq!(array("md:a#p1,b#p1").1, None);
    assert_eq!(array("md:a#p2,b#p2#p1").1, part);
    assert_eq!(members("md:a#p2,b#p2#p1"), ["a#p2", "b#p2"]);
    assert_eq!(members("md:a,[b#p1]"), ["a", "b#p1"]);
    assert_eq!(members("md:[md:a,b],missing,[c,d]"), ["md:a,b", "-", "c,d"]);
}

#[test]
fn arrays_without_superblocks_give_their_geometry() {
    let (name, _) = array("md:level=6,layout=rs,chunk=64K,offset=1M:a,b,c,d");
    let manual = name.manual.unwrap();
    assert_eq!(manual.layout, Layout::Raid6(Raid6Layout::RightSymmetric));
    assert_eq!((manual.chunk, manual.offset, manual.size), (Sectors(128), Sectors(2048), None));
    assert_eq!(array("md:level=1:a,b").0.manual.unwrap().layout, Layout::Raid1);
}

#[test]
fn an_invalid_array_name_reports_why() {
    let why = |name: &str| Target::parse(name).unwrap_err().to_string();
    for (name, says) in [
        ("md:", "it is empty"),
        ("md:a,,b", "it is empty"),
        ("md:missing,missing", "no member"),
        ("md:[a,b", "brackets"),
        ("md:a],b", "brackets"),
        ("md:level=7:a", "unknown level"),
        ("md:level=5,layout=near:a", "does not have this layout"),
        ("md:level=5:a,b", "needs chunk"),
        ("md:force:level=1:a,b", "force has no effect"),
        ("md:level=5,chunk=1000:a,b", "whole sectors"),
        ("md:level=5,chunks=64K:a,b", "only options"),
        (&format!("{}a{}", "[md:".repeat(20), "]".repeat(20)), "eight"),
    ] {
        assert!(why(name).contains(says), "{name}: {}", why(name));
    }
}

#[test]
fn every_form_parses_and_prints_back() {
    let file = |path: &str| Base::File(path.into());
    let lv = Part::Volume { group: "vg0".into(), volume: "root-a".into() };
    for (name, base, part) in [
        ("/dev/sdb", file("/dev/sdb"), None),
        ("a b.img", file("a b.img"), None),
        ("mem:1048576", Base::Memory(ByteLen(1 << 20)), None),
        ("disk.img#p2", file("disk.img"), Some(Part::Partition(2))),
        ("disk#1.img#p12", file("disk#1.img"), Some(Part::Partition(12))),
        ("disk.img#lv:vg0/root-a", file("disk.img"), Some(lv)),
        (
            "overlay=changes:disk.img#p2",
            Base::Overlay("changes".into(), Box::new(file("disk.img"))),
            Some(Part::Partition(2)),
        ),
        // Not a part: it belongs to the file's name.
        ("#p2", file("#p2"), None),
        ("disk#px", file("disk#px"), None),
        ("disk#p0", file("disk#p0"), None),
        ("disk#p", file("disk#p"), None),
        ("disk#p99999999999", file("disk#p99999999999"), None),
        ("disk#lv:vg0", file("disk#lv:vg0"), None),
        ("disk#lv:vg0/a/b", file("disk#lv:vg0/a/b"), None),
    ] {
        let target = Target::parse(name).unwrap();
        assert_eq!(target, Target { base, part }, "{name}");
        assert_eq!(target.to_string(), name);
    }
}

#[test]
fn an_invalid_target_name_reports_why() {
    assert!(matches!(Target::parse(""), Err(Error::BadName { .. })));
    assert!(matches!(Target::parse("mem:lots"), Err(Error::Size(_))));
    for name in ["overlay=a:overlay=b:c", "overlay=a:md:overlay=b:c,d", "overlay=:c"] {
        assert!(matches!(Target::parse(name), Err(Error::BadName { .. })), "{name}");
    }
}

#[test]
fn force_and_overlay_are_part_of_the_name() {
    let named = |name: &str| Target::parse(name).unwrap();
    let aside = |name: &str| named(name).with_overlay("o").unwrap().to_string();
    assert_eq!(aside("disk.img#p1"), "overlay=o:disk.img#p1");
    assert_eq!(aside("md:force:a,b#p1"), "[md:force,overlay=o:a,b]#p1");
    assert_eq!(named("overlay=o:md:a,b").to_string(), "md:overlay=o:a,b");
    assert_eq!(named("md:a,b").with_force().unwrap().to_string(), "md:force:a,b");
    for name in ["disk.img", "overlay=o:disk.img", "md:level=1:a,b"] {
        assert!(matches!(named(name).with_force(), Err(Error::BadName { .. })), "{name}");
    }
    for path in ["", "a,b", "a:b"] {
        assert!(named("disk.img").with_overlay(path).is_err(), "{path}");
    }
}
