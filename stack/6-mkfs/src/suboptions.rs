//! The table of suboptions, and the reader of arguments.
//!
//! One row of [`SUBOPTIONS`] defines a suboption: its name, the values it allows, the suboptions it
//! excludes, and the field that takes its value.

use uuid::Uuid;

use crate::options::{Autofsck, OptionError, Options, Quantity, StripeUnit, StripeWidth};

/// The reason why a value was refused.
enum Refusal {
    /// The value is not allowed.
    Value,
    /// This mkfs does not support it.
    Unsupported(&'static str),
}

/// One suboption: its name, its values, and the field that takes its value.
struct Suboption {
    option: &'static str,
    name: &'static str,
    /// The allowed values, for messages.
    allowed: &'static str,
    /// The value if none is given.
    default: Option<&'static str>,
    /// Suboptions of the same option that exclude this one.
    conflicts: &'static [&'static str],
    set: fn(&mut Options, &str) -> Result<(), Refusal>,
}

const BOOL: &str = "0 or 1";
const V5: &str = "only version 5 (crc=1) is written, and it always has this";
const REALTIME: &str = "realtime sections are not written";

/// Every suboption.
const SUBOPTIONS: &[Suboption] = &[
    sub("-b", "size", "a power of two from 1024 to 65536", |o, v| {
        set(&mut o.block_size, power_of_two(v, 1024, 65536))
    }),
    sub("-s", "size", SECTOR, |o, v| set(&mut o.sector_size, power_of_two(v, 512, 32768))),
    sub("-d", "sectsize", SECTOR, |o, v| set(&mut o.sector_size, power_of_two(v, 512, 32768))),
    sub("-d", "agcount", "a number from 1", |o, v| set(&mut o.agcount, number(v, 1, u32::MAX)))
        .not_with(&["agsize", "concurrency"]),
    sub("-d", "agsize", "a size from 16m to 1t", |o, v| set(&mut o.agsize, Quantity::parse(v)))
        .not_with(&["agcount", "concurrency"]),
    sub("-d", "size", "a size", |o, v| set(&mut o.data_size, Quantity::parse(v))),
    sub("-d", "su", "a size", |o, v| {
        set(&mut o.stripe_unit, Quantity::parse(v).map(StripeUnit::Su))
    })
    .not_with(&["sunit", "swidth", "noalign"]),
    sub("-d", "sw", "a number of stripe units", |o, v| {
        set(&mut o.stripe_width, number(v, 0, u32::MAX).map(StripeWidth::Sw))
    })
    .not_with(&["sunit", "swidth", "noalign"]),
    sub("-d", "sunit", UNITS, |o, v| {
        set(&mut o.stripe_unit, number(v, 0, u32::MAX).map(StripeUnit::Sunit))
    })
    .not_with(&["su", "sw", "noalign"]),
    sub("-d", "swidth", UNITS, |o, v| {
        set(&mut o.stripe_width, number(v, 0, u32::MAX).map(StripeWidth::Swidth))
    })
    .not_with(&["su", "sw", "noalign"]),
    sub("-d", "noalign", BOOL, |o, v| flag(&mut o.noalign, v))
        .or("1")
        .not_with(&["su", "sw", "sunit", "swidth"]),
    sub("-d", "concurrency", "a number of threads", |o, v| {
        set(&mut o.concurrency, number(v, 0, u32::MAX))
    })
    .not_with(&["agcount", "agsize"]),
    sub("-d", "name", "a file or device", |o, v| text(&mut o.data_name, v)),
    sub("-d", "file", BOOL, |_, v| only(v, "1", "files need no announcing; leave it away")).or("1"),
    sub("-i", "size", "512, 1024 or 2048", |o, v| {
        set(&mut o.inode_size, power_of_two(v, 512, 2048))
    })
    .not_with(&["perblock"]),
    sub("-i", "perblock", "a power of two", |o, v| {
        set(&mut o.inodes_per_block, power_of_two(v, 2, 128))
    })
    .not_with(&["size"]),
    sub("-i", "maxpct", "0 to 100", |o, v| {
        set(&mut o.imax_pct, number(v, 0, 100).and_then(|n| u8::try_from(n).ok()))
    }),
    sub("-i", "align", BOOL, |o, v| set(&mut o.inode_align, boolean(v))).or("1"),
    sub("-i", "sparse", BOOL, |o, v| set(&mut o.sparse, boolean(v))).or("1"),
    sub("-i", "nrext64", BOOL, |o, v| set(&mut o.nrext64, boolean(v))).or("1"),
    sub("-i", "exchange", BOOL, |o, v| set(&mut o.exchange, boolean(v))).or("1"),
    sub("-i", "attr", "2", |_, v| only(v, "2", V5)),
    sub("-i", "projid32bit", BOOL, |_, v| only(v, "1", V5)).or("1"),
    sub("-l", "size", "a size from 2m to 2038m", |o, v| set(&mut o.log_size, Quantity::parse(v))),
    sub("-l", "agnum", "the number of a group", |o, v| {
        set(&mut o.log_agnum, number(v, 0, u32::MAX))
    })
    .not_with(&["logdev"]),
    sub("-l", "internal", BOOL, |o, v| match boolean(v) {
        Some(internal) => {
            o.log_external = !internal;
            Ok(())
        }
        None => Err(Refusal::Value),
    })
    .or("1")
    .not_with(&["logdev"]),
    sub("-l", "logdev", "a file or device", |o, v| {
        o.log_external = true;
        text(&mut o.log_name, v)
    })
    .not_with(&["internal", "agnum"]),
    sub("-l", "name", "a file or device", |o, v| {
        o.log_external = true;
        text(&mut o.log_name, v)
    })
    .not_with(&["internal", "agnum", "logdev"]),
    sub("-l", "su", "a size up to 256k", |o, v| {
        set(&mut o.log_stripe_unit, Quantity::parse(v).map(StripeUnit::Su))
    })
    .not_with(&["sunit"]),
    sub("-l", "sunit", UNITS, |o, v| {
        set(&mut o.log_stripe_unit, number(v, 1, u32::MAX).map(StripeUnit::Sunit))
    })
    .not_with(&["su"]),
    sub("-l", "sectsize", SECTOR, |o, v| set(&mut o.log_sector_size, power_of_two(v, 512, 32768))),
    sub("-l", "concurrency", "0", |_, v| only(v, "0", "give the log's size instead")),
    sub("-l", "version", "2", |_, v| only(v, "2", V5)),
    sub("-l", "lazy-count", BOOL, |_, v| only(v, "1", V5)).or("1"),
    sub("-n", "size", "a power of two from 4096 to 65536", |o, v| {
        set(&mut o.dir_block_size, power_of_two(v, 4096, 65536))
    }),
    sub("-n", "version", "2 or ci", |o, v| match v {
        "2" | "ci" => {
            o.ascii_ci = v == "ci";
            Ok(())
        }
        _ => Err(Refusal::Value),
    }),
    sub("-n", "ftype", BOOL, |_, v| only(v, "1", V5)).or("1"),
    sub("-n", "parent", BOOL, |o, v| set(&mut o.parent, boolean(v))).or("1"),
    sub("-m", "crc", BOOL, |_, v| only(v, "1", "version 4 (crc=0) is read, never written")).or("1"),
    sub("-m", "finobt", BOOL, |o, v| set(&mut o.finobt, boolean(v))).or("1"),
    sub("-m", "rmapbt", BOOL, |o, v| set(&mut o.rmapbt, boolean(v))).or("1"),
    sub("-m", "reflink", BOOL, |o, v| set(&mut o.reflink, boolean(v))).or("1"),
    sub("-m", "bigtime", BOOL, |o, v| set(&mut o.bigtime, boolean(v))).or("1"),
    sub("-m", "inobtcount", BOOL, |o, v| set(&mut o.inobtcount, boolean(v))).or("1"),
    sub("-m", "autofsck", "0, 1, none, check, optimize or repair", |o, v| {
        set(&mut o.autofsck, Autofsck::parse(v))
    })
    .or("1"),
    sub("-m", "uuid", "a UUID", |o, v| set(&mut o.uuid, Uuid::parse_str(v).ok())),
    sub("-m", "metadir", BOOL, |_, v| only(v, "0", "metadata directories are not written")).or("1"),
    sub("-m", "uquota", "", |_, _| quota()).or(""),
    sub("-m", "gquota", "", |_, _| quota()).or(""),
    sub("-m", "pquota", "", |_, _| quota()).or(""),
    sub("-r", "rtdev", "", |_, _| Err(Refusal::Unsupported(REALTIME))),
    sub("-r", "size", "", |_, _| Err(Refusal::Unsupported(REALTIME))),
    sub("-r", "extsize", "", |_, _| Err(Refusal::Unsupported(REALTIME))),
    sub("-r", "noalign", BOOL, |_, v| match boolean(v) {
        Some(_) => Ok(()),
        None => Err(Refusal::Value),
    })
    .or("1"),
    sub("-r", "rgcount", "", |_, _| Err(Refusal::Unsupported(REALTIME))),
    sub("-r", "rgsize", "", |_, _| Err(Refusal::Unsupported(REALTIME))),
    sub("-r", "zoned", BOOL, |_, v| only(v, "0", "zoned sections are not written")).or("1"),
];

const SECTOR: &str = "a power of two from 512 to 32768";
const UNITS: &str = "a number of 512-byte units";

/// Makes a row of [`SUBOPTIONS`] that requires a value and excludes no other.
const fn sub(
    option: &'static str,
    name: &'static str,
    allowed: &'static str,
    set: fn(&mut Options, &str) -> Result<(), Refusal>,
) -> Suboption {
    Suboption { option, name, allowed, default: None, conflicts: &[], set }
}

impl Suboption {
    /// Allows the name alone, which means `default`.
    const fn or(self, default: &'static str) -> Self {
        Self { default: Some(default), ..self }
    }

    /// Excludes any of `conflicts`.
    const fn not_with(self, conflicts: &'static [&'static str]) -> Self {
        Self { conflicts, ..self }
    }
}

fn set<T>(field: &mut Option<T>, value: Option<T>) -> Result<(), Refusal> {
    *field = Some(value.ok_or(Refusal::Value)?);
    Ok(())
}

fn text(field: &mut Option<String>, value: &str) -> Result<(), Refusal> {
    set(field, (!value.is_empty()).then(|| value.to_owned()))
}

fn flag(field: &mut bool, value: &str) -> Result<(), Refusal> {
    *field = boolean(value).ok_or(Refusal::Value)?;
    Ok(())
}

/// Accepts the only value that can be written, and refuses the others.
fn only(value: &str, can: &str, why: &'static str) -> Result<(), Refusal> {
    if value == can { Ok(()) } else { Err(Refusal::Unsupported(why)) }
}

fn quota() -> Result<(), Refusal> {
    Err(Refusal::Unsupported("quota flags live in metadata directories, which are not written"))
}

fn boolean(text: &str) -> Option<bool> {
    match text {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// Parses a plain number within `min..=max`. Suffixes of bytes are allowed, as in mkfs.xfs.
fn number(text: &str, min: u32, max: u32) -> Option<u32> {
    match Quantity::parse(text)? {
        Quantity::Bytes(n) => u32::try_from(n).ok().filter(|n| (min..=max).contains(n)),
        Quantity::Blocks(_) | Quantity::Sectors(_) => None,
    }
}

fn power_of_two(text: &str, min: u32, max: u32) -> Option<u32> {
    number(text, min, max).filter(|n| n.is_power_of_two())
}

impl Options {
    /// Reads one argument: `option` is the letter with its dash, `arg` what follows it, for example
    /// `("-m", "crc=1,finobt=0")`. `-L` takes the label; `-f`, `-q`, `-N` and `-K` take nothing.
    ///
    /// # Errors
    /// [`OptionError`] for the first suboption that is not valid. Those before it are set.
    pub fn sub(&mut self, option: &str, arg: &str) -> Result<(), OptionError> {
        match option {
            "-f" => self.force = true,
            "-q" => self.quiet = true,
            "-N" => self.dry_run = true,
            "-K" => self.no_discard = true,
            "-L" => self.set_label(arg)?,
            _ => {
                for part in arg.split(',') {
                    self.set_suboption(option, part)?;
                }
            }
        }
        Ok(())
    }

    fn set_label(&mut self, label: &str) -> Result<(), OptionError> {
        if label.len() > 12 {
            let value = label.to_owned();
            let allowed = "at most 12 bytes";
            return Err(OptionError::Value { option: "-L", name: "label", value, allowed });
        }
        self.label = Some(label.to_owned());
        Ok(())
    }

    fn set_suboption(&mut self, option: &str, part: &str) -> Result<(), OptionError> {
        let (name, value) = match part.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (part, None),
        };
        let row = SUBOPTIONS.iter().find(|row| row.option == option && row.name == name);
        let Some(&Suboption { option, name, allowed, default, conflicts, set }) = row else {
            return Err(OptionError::Unknown { option: option.into(), name: part.into() });
        };
        let value = value.or(default).ok_or(OptionError::NoValue { option, name, allowed })?;
        if let Some(&other) = conflicts.iter().find(|other| self.given.contains(&(option, **other)))
        {
            return Err(OptionError::Conflict { option, name, other });
        }
        if !self.given.insert((option, name)) {
            return Err(OptionError::Twice { option, name });
        }
        set(self, value).map_err(|refusal| match refusal {
            Refusal::Value => OptionError::Value { option, name, value: value.into(), allowed },
            Refusal::Unsupported(why) => OptionError::Unsupported { option, name, why },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[(&str, &str)]) -> Result<Options, String> {
        let mut options = Options::default();
        for (option, arg) in args {
            options.sub(option, arg).map_err(|e| e.to_string())?;
        }
        Ok(options)
    }

    #[test]
    fn suffixes_mean_the_same_as_in_mkfs_xfs() {
        for (text, quantity) in [
            ("4096", Some(Quantity::Bytes(4096))),
            ("0x10", Some(Quantity::Bytes(16))),
            ("010", Some(Quantity::Bytes(8))),
            ("4k", Some(Quantity::Bytes(4096))),
            ("2G", Some(Quantity::Bytes(2 << 30))),
            ("7e", Some(Quantity::Bytes(7 << 60))),
            ("16e", None),
            ("8b", Some(Quantity::Blocks(8))),
            ("8s", Some(Quantity::Sectors(8))),
            ("8x", None),
            ("", None),
            ("k", None),
        ] {
            assert_eq!(Quantity::parse(text), quantity, "{text}");
        }
    }

    #[test]
    fn one_argument_sets_several_suboptions() {
        let options = parse(&[("-m", "crc=1,finobt=0,reflink"), ("-d", "su=64k,sw=4")]).unwrap();
        assert_eq!((options.finobt, options.reflink), (Some(false), Some(true)));
        assert_eq!(options.stripe_unit, Some(StripeUnit::Su(Quantity::Bytes(65536))));
        assert_eq!(options.stripe_width, Some(StripeWidth::Sw(4)));
    }

    #[test]
    fn errors_name_the_option_the_value_and_the_allowed_values() {
        for (option, arg, message) in [
            (
                "-b",
                "size=3000",
                "invalid value 3000 for -b size: a power of two from 1024 to 65536",
            ),
            ("-b", "foo=1", "unknown option -b foo=1"),
            ("-b", "size", "-b size requires a value: a power of two from 1024 to 65536"),
            ("-m", "crc=0", "-m crc is not supported: version 4 (crc=0) is read, never written"),
            ("-m", "bigtime=1,bigtime=1", "-m bigtime is given twice"),
            ("-d", "su=64k,sunit=128", "-d sunit and -d su exclude each other"),
            (
                "-L",
                "a label too long",
                "invalid value a label too long for -L label: at most 12 bytes",
            ),
            ("-z", "3", "unknown option -z 3"),
        ] {
            assert_eq!(parse(&[(option, arg)]).unwrap_err(), message);
        }
    }
}
