//! The options of a mount: those of `-o`, and those of the command line.
//!
//! Each option of the command line can stand in `-o` too, under its long name, for fstab. A value
//! is parsed by the same code in both places.

use xfskit::OptionError;

use crate::exit::Failure;
use crate::grammar::mount::Mount;

/// Returns the arguments with the options in `-o` that say which volume is opened, and the builder
/// of the mount with all others.
pub(super) fn resolve(args: &Mount) -> Result<(Mount, xfskit::Mount), Failure> {
    let mut resolved = args.clone();
    let mut others = Vec::new();
    for option in args.options.iter().flat_map(|list| list.split(',')) {
        let split = option.split_once('=');
        let (name, value) = (split.map_or(option, |(name, _)| name), split.map(|(_, value)| value));
        if !resolved.set_option(name, value).map_err(hinted)? {
            others.push(option.to_owned());
        }
    }
    others.extend(args.idmap.iter().map(|ranges| format!("idmap={ranges}")));
    others.extend(args.idle_timeout.iter().map(|seconds| format!("idle-timeout={seconds}")));
    // As it was typed: `mount -a` compares it with the line of fstab.
    let mut mount = xfskit::Mount::new().source(args.name.to_string());
    for option in others {
        mount = match mount.clone().options(&option) {
            Err(OptionError::Unknown(_)) if args.sloppy => mount,
            added => added.map_err(|error| hinted(error.to_string()))?,
        };
    }
    if let Some(dir) = &resolved.subdir {
        mount = mount.subdir(dir);
    }
    Ok((resolved, mount))
}

fn hinted(message: String) -> Failure {
    Failure::cannot(message).hint("`xfskit mount --help` lists the options")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar::{Cli, Command};
    use clap::Parser;

    fn resolved(line: &str) -> Result<(Mount, xfskit::Mount), Failure> {
        let cli = Cli::try_parse_from(line.split(' ')).unwrap();
        let Command::Mount(args) = cli.command else { panic!("{line}") };
        resolve(&args)
    }

    fn refused(line: &str) -> String {
        resolved(line).unwrap_err().to_string()
    }

    #[test]
    fn an_option_means_the_same_in_both_places() {
        let (words, mount) = resolved(
            "xfskit mount --overlay o.ovl --logdev log.img --subdir /srv --cache 64M --idmap u:0:7:1 \
             --idmap g:0:7:1 --idle-timeout 60 --log m.log a.img /mnt",
        )
        .unwrap();
        let (listed, same) = resolved(
            "xfskit mount a.img /mnt -o overlay=o.ovl,logdev=log.img,idmap=u:0:7:1 \
             -o idmap=g:0:7:1,subdir=/srv,cache=64M,idle-timeout=60,log=m.log",
        )
        .unwrap();
        assert_eq!(words.name, listed.name);
        assert_eq!(words.name.beside("log.img"), listed.name.beside("log.img"));
        assert_eq!((&words.logdev, &words.subdir), (&listed.logdev, &listed.subdir));
        assert_eq!((words.log.is_some(), &words.log), (true, &listed.log));
        assert_eq!(words.cache.bytes(), listed.cache.bytes());
        let (mount, same) = (mount.source("a.img"), same.source("a.img"));
        assert_eq!(format!("{mount:?}"), format!("{same:?}"));
        let (forced, _) = resolved("xfskit mount --force md:a,b /mnt").unwrap();
        let (listed, _) = resolved("xfskit mount -o force md:a,b /mnt").unwrap();
        assert_eq!(forced.name, listed.name);
    }

    #[test]
    fn an_option_with_a_bad_value_is_named() {
        for (options, says) in [
            ("cache=lots", "cache"),
            ("logdev=", "logdev"),
            (
                "subdir",
                "mount option subdir: a value is missing; it takes a directory of the volume, as in subdir=/srv",
            ),
            ("force=yes", "force: it takes no value"),
            ("idmap", "idmap: a value is missing"),
            ("logbsize", "it takes 16k, 32k, 64k, 128k or 256k, as in logbsize=64k"),
            ("allocsize=5k", "allocsize=5k"),
            ("log=", "log"),
            ("overlay=a:b", "overlay"),
            ("force", "force"),
            ("idmap=1:2", "TYPE:VOLUME:SHOWN:COUNT"),
            ("idmap=0:1:2,idmap=1:9:1", "same ids of the volume"),
            ("uid=5", "idmap="),
            ("remount", "remount"),
            ("idle-timeout=0", "idle-timeout=0"),
        ] {
            let said = refused(&format!("xfskit mount a.img /mnt -o {options}"));
            assert!(said.contains(says), "{options}: {said}");
        }
    }

    #[test]
    fn an_option_of_opening_is_given_once() {
        let said = refused("xfskit mount --logdev a --overlay o a.img /mnt -o logdev=b");
        assert!(said.contains("logdev is given twice"), "{said}");
        let said = refused("xfskit mount --overlay o a.img /mnt -o overlay=p");
        assert!(said.contains("already has an overlay"), "{said}");
    }

    #[test]
    fn the_last_of_ro_and_rw_holds() {
        for (options, read_only) in [("ro,rw", false), ("rw -o ro", true), ("ro -o rw", false)] {
            let (_, mount) = resolved(&format!("xfskit mount a.img /mnt -o {options}")).unwrap();
            assert_eq!(mount.is_read_only(), read_only, "{options}");
        }
    }

    #[test]
    fn unknown_options_pass_for_the_sloppy_only() {
        assert!(refused("xfskit mount a.img /mnt -o nonsense").contains("nonsense"));
        let (_, mount) = resolved("xfskit mount --sloppy a.img /mnt -o nonsense,ro").unwrap();
        assert!(mount.is_read_only());
        assert!(refused("xfskit mount --sloppy a.img /mnt -o uquota").contains("quotas"));
    }
}
