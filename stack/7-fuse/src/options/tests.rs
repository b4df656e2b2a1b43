//! Tests of the options of a mount.

use super::*;

fn refused(list: &str) -> String {
    Options::default().add(list).unwrap_err().to_string()
}

#[test]
fn a_map_of_owners_has_the_ranges_of_all_its_options() {
    let mut options = Options::default();
    options.add("idmap=u:0:1000:1,noatime,idmap=g:0:1000:1 g:5:6:7").unwrap();
    let whole = "b:0:1000:1 g:5:6:7".parse().unwrap();
    assert_eq!(options.idmap, Some(whole));
    assert!(options.add("idmap=g:4:99:2").is_err());
}

#[test]
fn owners_of_the_whole_mount_are_refused_with_the_option_that_maps_them() {
    for option in ["uid=1000", "gid=0"] {
        let said = refused(option);
        assert!(said.contains(option) && said.contains("idmap="), "{said}");
    }
}

fn added(list: &str) -> Options {
    let mut options = Options::default();
    options.add(list).unwrap_or_else(|error| panic!("{list}: {error}"));
    options
}

#[test]
fn sync_is_more_than_wsync_in_each_order() {
    for (list, durable) in [
        ("noatime", Durable::Nothing),
        ("dirsync", Durable::Names),
        ("wsync,sync", Durable::Everything),
        ("sync,wsync", Durable::Everything),
        ("sync,wsync,async", Durable::Names),
        ("sync,async", Durable::Nothing),
        ("async,sync", Durable::Everything),
    ] {
        assert_eq!(added(list).durable(), durable, "{list}");
    }
}

#[test]
fn the_last_of_two_opposites_holds() {
    for (list, means) in [
        ("ro,rw", ""),
        ("rw,ro", "ro"),
        ("rw,norecovery", "norecovery"),
        ("norecovery,rw", "norecovery"),
        ("noatime,atime", ""),
        ("strictatime,atime", ""),
        ("strictatime,nostrictatime", ""),
        ("noatime,relatime", ""),
        ("relatime,noatime", "noatime"),
        ("strictatime,noatime", "noatime"),
        ("noatime,strictatime", "strictatime"),
        ("noatime,norelatime", "noatime"),
        ("nodiratime,diratime", ""),
        ("diratime,nodiratime", "nodiratime"),
        ("discard,nodiscard", ""),
        ("nodiscard,discard", "discard"),
        ("suid,nosuid", ""),
        ("nosuid,suid", "suid"),
        ("dev,nodev", ""),
        ("nodev,dev", "dev"),
        ("nodev,allow_dev,allow_suid", "dev,suid"),
        ("noexec,exec", ""),
        ("exec,noexec", "noexec"),
        ("io_uring,no_io_uring", ""),
        ("no_io_uring,io_uring", "io_uring"),
        ("lazytime,nolazytime", ""),
        ("threads=2,threads=3", "threads=3"),
        ("logbufs=2,logbufs=4", "logbufs=4"),
        ("idle-timeout=5,idle-timeout=6", "idle-timeout=6"),
    ] {
        assert_eq!(added(list), added(means), "{list}");
    }
}

#[test]
fn what_fstab_says_to_other_programs_changes_nothing() {
    let fstab = "defaults,auto,noauto,user,users,owner,group,nofail,_netdev,loop,comment=a b,\
                 user=me,x-systemd.automount,x-systemd.requires=/srv,X-mount.mkdir";
    assert_eq!(added(fstab), Options::default());
}

#[test]
fn options_of_the_kernels_xfs_are_taken_or_refused_with_the_reason() {
    let hints = "ikeep,noikeep,largeio,nolargeio,noalign,swalloc,filestreams,nogrpid,sysvgroups,\
                 inode64,attr2,noattr2,nouuid,noquota,dax=never,dax=inode";
    assert_eq!(added(hints), Options::default());
    for (option, why) in [
        ("uquota", "quotas"),
        ("qnoenforce", "quotas"),
        ("grpid", "g+s"),
        ("inode32", "32 bits"),
        ("dax", "cached"),
        ("dax=always", "cached"),
        ("rtdev=/dev/sdb", "realtime"),
        ("sunit=8", "stripe"),
        ("context=system_u:object_r:removable_t:s0", "SELinux"),
    ] {
        let said = refused(option);
        assert!(said.contains(option) && said.contains(why), "{said}");
    }
}

#[test]
fn a_refusal_has_the_option_its_range_and_an_example() {
    for valued in VALUED {
        let Valued { name, takes, example } = valued;
        added(example);
        for missing in [name.to_string(), format!("{name}=")] {
            let said = refused(&missing);
            let whole = format!("{missing}: a value is missing; it takes {takes}, as in {example}");
            assert!(said.ends_with(&whole), "{said}");
        }
        if !matches!(*name, "fsname" | "idmap") {
            let said = refused(&format!("{name}=x"));
            let whole = format!("{name}=x: not a valid value; it takes {takes}, as in {example}");
            assert!(said.ends_with(&whole), "{said}");
        }
    }
    for flag in ["ro=1", "discard=yes", "nofail=", "inode64=3"] {
        assert!(refused(flag).ends_with(&format!("{flag}: it takes no value")));
    }
    assert_eq!(refused("=4"), "unknown mount option =4");
}

#[test]
fn sizes_are_those_that_xfs_takes() {
    for good in ["4096", "4k", "64K", "1m", "1024M", "1g", "1G", "3m", "12k", "1500m", "5g"] {
        added(&format!("allocsize={good}"));
    }
    for bad in ["0", "1", "2k", "5k", "2g", "4097", "k", "-4k", "4kk", "4294967296g", "4kä"] {
        refused(&format!("allocsize={bad}"));
    }
    for (name, bad) in [
        ("logbsize", &["8k", "512k", "33k", "0", "k"][..]),
        ("logbufs", &["1", "9", "2k", "-2"]),
        ("threads", &["0", "257", "1.5"]),
        ("busy_poll", &["-1", "10001"]),
    ] {
        for value in bad {
            refused(&format!("{name}={value}"));
        }
    }
}

#[test]
fn every_flag_is_known_by_its_name() {
    FLAGS.iter().chain(IGNORED).for_each(|flag| drop(added(flag)));
}

#[test]
fn how_the_journal_is_written_is_said_as_to_mount() {
    let options = added("logbsize=64k,discard,logbufs=4");
    assert!(options.discard);
    assert_eq!((options.journal.logbsize, options.journal.logbufs), (65536, 4));
}

#[test]
fn a_time_is_a_positive_number_of_seconds() {
    let mut options = Options::default();
    options.add("x-systemd.idle-timeout=3,idle-timeout=60").unwrap();
    assert_eq!(options.idle_timeout, Some(Duration::from_secs(60)));
    for value in ["0", "-1", "1.5", "1h"] {
        assert!(refused(&format!("idle-timeout={value}")).contains("not a valid value"));
    }
}
