//! The requested options, in the option syntax of mkfs.xfs.
//!
//! `-d su=64k,sw=4` is option `-d` with two suboptions. [`Options::sub`] reads one such argument by
//! the table in `suboptions`. A field that was not given stays `None`, and the
//! [geometry](crate::geometry) decides. What this mkfs cannot write (version 4, realtime, metadata
//! directories) is parsed and refused by name.

use std::collections::BTreeSet;

use uuid::Uuid;

/// An option that is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// No option or suboption of this name.
    #[error("unknown option {option}{}{name}", if name.is_empty() { "" } else { " " })]
    Unknown {
        /// "-b", ….
        option: String,
        /// The suboption.
        name: String,
    },
    /// A suboption that needs a value has none.
    #[error("{option} {name} requires a value: {allowed}")]
    NoValue {
        /// "-b", ….
        option: &'static str,
        /// The suboption.
        name: &'static str,
        /// The allowed values.
        allowed: &'static str,
    },
    /// A value that is not allowed.
    #[error("invalid value {value} for {option} {name}: {allowed}")]
    Value {
        /// "-b", ….
        option: &'static str,
        /// The suboption.
        name: &'static str,
        /// The value given.
        value: String,
        /// The allowed values.
        allowed: &'static str,
    },
    /// A suboption that is given twice.
    #[error("{option} {name} is given twice")]
    Twice {
        /// "-b", ….
        option: &'static str,
        /// The suboption.
        name: &'static str,
    },
    /// Two suboptions that set the same thing.
    #[error("{option} {name} and {option} {other} exclude each other")]
    Conflict {
        /// "-b", ….
        option: &'static str,
        /// The suboption given last.
        name: &'static str,
        /// The suboption given before.
        other: &'static str,
    },
    /// Parsed, but not supported by this mkfs.
    #[error("{option} {name} is not supported: {why}")]
    Unsupported {
        /// "-b", ….
        option: &'static str,
        /// The suboption.
        name: &'static str,
        /// The unsupported part.
        why: &'static str,
    },
}

/// A length as written. Its unit may be the block or the sector, which are not known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// In bytes: no suffix, or one of k, m, g, t, p, e (powers of 1024).
    Bytes(u64),
    /// In filesystem blocks: suffix b.
    Blocks(u64),
    /// In sectors: suffix s.
    Sectors(u64),
}

impl Quantity {
    /// Parses a number with an optional suffix: decimal, hexadecimal (`0x`) or octal (`0`), as C
    /// does.
    pub fn parse(text: &str) -> Option<Self> {
        let digits_end = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(hex) => text.len() - hex.trim_start_matches(|c: char| c.is_ascii_hexdigit()).len(),
            None => text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len(),
        };
        let (digits, suffix) = text.split_at(digits_end);
        let number = if let Some(hex) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
            u64::from_str_radix(hex, 16).ok()?
        } else if digits.len() > 1 && digits.starts_with('0') {
            u64::from_str_radix(digits, 8).ok()?
        } else {
            digits.parse().ok()?
        };
        let shift = match suffix.to_ascii_lowercase().as_str() {
            "" => 0,
            "b" => return Some(Self::Blocks(number)),
            "s" => return Some(Self::Sectors(number)),
            "k" => 10,
            "m" => 20,
            "g" => 30,
            "t" => 40,
            "p" => 50,
            "e" => 60,
            _ => return None,
        };
        number.checked_mul(1 << shift).map(Self::Bytes)
    }

    /// Returns the length in bytes; `None` if it does not fit into 64 bits.
    pub fn bytes(self, block_size: u32, sector_size: u32) -> Option<u64> {
        match self {
            Self::Bytes(n) => Some(n),
            Self::Blocks(n) => n.checked_mul(block_size.into()),
            Self::Sectors(n) => n.checked_mul(sector_size.into()),
        }
    }
}

/// The stripe unit of the data or of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StripeUnit {
    /// `su=`: a length.
    Su(Quantity),
    /// `sunit=`: a count of 512-byte units.
    Sunit(u32),
}

/// The width of the data stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StripeWidth {
    /// `sw=`: a count of stripe units.
    Sw(u32),
    /// `swidth=`: a count of 512-byte units.
    Swidth(u32),
}

/// What a machine may do with the volume by itself: the autofsck property of its root directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Autofsck {
    /// Nothing.
    None,
    /// Check.
    Check,
    /// Check and optimize.
    Optimize,
    /// Check, optimize and repair.
    Repair,
}

impl Autofsck {
    /// Returns the property's value as it is stored.
    pub fn value(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Check => "check",
            Self::Optimize => "optimize",
            Self::Repair => "repair",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        match text {
            "0" => Some(Self::None),
            "1" => Some(Self::Repair),
            _ => [Self::None, Self::Check, Self::Optimize, Self::Repair]
                .into_iter()
                .find(|known| known.value() == text),
        }
    }
}

/// All options of mkfs. `None` means the default of mkfs.xfs 6.13.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `-b size`: filesystem block in bytes, a power of two from 1024 to 65536.
    pub block_size: Option<u32>,
    /// `-s size`, `-d sectsize`: sector in bytes, a power of two from 512 to 32768.
    pub sector_size: Option<u32>,
    /// `-d size`: the part of the device to use.
    pub data_size: Option<Quantity>,
    /// `-d agcount`.
    pub agcount: Option<u32>,
    /// `-d agsize`.
    pub agsize: Option<Quantity>,
    /// `-d su`, `-d sunit`.
    pub stripe_unit: Option<StripeUnit>,
    /// `-d sw`, `-d swidth`.
    pub stripe_width: Option<StripeWidth>,
    /// `-d noalign`: ignore the device's stripe geometry.
    pub noalign: bool,
    /// `-d concurrency`: number of threads that the groups are to serve; 0 turns the rule off.
    pub concurrency: Option<u32>,
    /// `-d name`: the device, if it is named by an option.
    pub data_name: Option<String>,
    /// `-i size`: inode in bytes, 512 to 2048.
    pub inode_size: Option<u32>,
    /// `-i perblock`: inodes in a block.
    pub inodes_per_block: Option<u32>,
    /// `-i maxpct`: the percentage of the volume that inodes may take; 0 for no limit.
    pub imax_pct: Option<u8>,
    /// `-i align`: aligns inode chunks to multiples of their clusters.
    pub inode_align: Option<bool>,
    /// `-i sparse`.
    pub sparse: Option<bool>,
    /// `-i nrext64`.
    pub nrext64: Option<bool>,
    /// `-i exchange`.
    pub exchange: Option<bool>,
    /// `-l size`.
    pub log_size: Option<Quantity>,
    /// `-l agnum`: the group that gets the internal log.
    pub log_agnum: Option<u32>,
    /// `-l internal=0` or `-l logdev=`: the log is on a device of its own.
    pub log_external: bool,
    /// `-l logdev`: that device, if it is named by an option.
    pub log_name: Option<String>,
    /// `-l su`, `-l sunit`.
    pub log_stripe_unit: Option<StripeUnit>,
    /// `-l sectsize`: the log's sector in bytes.
    pub log_sector_size: Option<u32>,
    /// `-n size`: directory block in bytes, 4096 to 65536.
    pub dir_block_size: Option<u32>,
    /// `-n version=ci`: compares names without the case of ASCII letters.
    pub ascii_ci: bool,
    /// `-n parent`.
    pub parent: Option<bool>,
    /// `-m finobt`.
    pub finobt: Option<bool>,
    /// `-m rmapbt`.
    pub rmapbt: Option<bool>,
    /// `-m reflink`.
    pub reflink: Option<bool>,
    /// `-m bigtime`.
    pub bigtime: Option<bool>,
    /// `-m inobtcount`.
    pub inobtcount: Option<bool>,
    /// `-m autofsck`: lets the machine check the volume by itself. Stored as a property of the root
    /// directory. Any value but "none" turns parent pointers and exchange-range on.
    pub autofsck: Option<Autofsck>,
    /// `-m uuid`.
    pub uuid: Option<Uuid>,
    /// `-L`: the label, at most 12 bytes.
    pub label: Option<String>,
    /// `-f`: overwrites existing contents.
    pub force: bool,
    /// `-q`: prints no summary.
    pub quiet: bool,
    /// `-N`: writes nothing.
    pub dry_run: bool,
    /// `-K`: discards nothing.
    pub no_discard: bool,
    /// Every suboption that was given, to refuse those that repeat or exclude each other.
    pub(crate) given: BTreeSet<(&'static str, &'static str)>,
}
