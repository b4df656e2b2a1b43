//! The header block of a member.
//!
//! | bytes | what | | bytes | what |
//! | --- | --- | --- | --- | --- |
//! | 0..100 | name | | 157..257 | target of a link |
//! | 100..108 | mode | | 257..265 | `ustar\0` `00`, or GNU's `ustar  \0` |
//! | 108..116 | owner | | 265..329 | names of owner and group, not used |
//! | 116..124 | group | | 329..345 | device, major and minor |
//! | 124..136 | bytes that follow | | 345..500 | ustar: prefix of the name |
//! | 136..148 | mtime | | 386..482 | GNU: first ranges of a sparse file |
//! | 148..156 | checksum | | 482 | GNU: further ranges follow |
//! | 156 | type | | 483..495 | GNU: size of a sparse file |

use super::{BLOCK, Problem};

/// The bytes of a block.
pub(super) type Block = [u8; BLOCK];

/// A parsed header.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) path: Vec<u8>,
    pub(super) perm: u16,
    pub(super) uid: Option<u32>,
    pub(super) gid: Option<u32>,
    /// Number of bytes that follow.
    pub(super) size: u64,
    /// Seconds since 1970.
    pub(super) mtime: i64,
    pub(super) kind: u8,
    pub(super) target: Vec<u8>,
    pub(super) major: u32,
    pub(super) minor: u32,
    /// The whole block, for the map of a sparse file.
    pub(super) block: Box<Block>,
}

impl Header {
    pub(super) fn parse(block: &Block) -> Result<Self, Problem> {
        let sum = |as_number: fn(u8) -> i64| -> i64 {
            let blank = |(i, &b): (usize, &u8)| if (148..156).contains(&i) { b' ' } else { b };
            block.iter().enumerate().map(blank).map(as_number).sum()
        };
        // Some old programs summed signed bytes.
        let written = number(&block[148..156], "checksum")?;
        if written != sum(i64::from) && written != sum(|b| i64::from(b.cast_signed())) {
            return Err("no tar header here (its checksum is wrong)".into());
        }
        let ustar = &block[257..263] == b"ustar\0";
        let gnu = &block[257..265] == b"ustar  \0";
        let mut path = text(&block[..100]).to_vec();
        if ustar {
            let end = if &block[508..] == b"tar\0" { 476 } else { 500 };
            let prefix = text(&block[345..end]);
            if !prefix.is_empty() {
                path = [prefix, b"/", &path].concat();
            }
        }
        let device = |range| if ustar || gnu { number(range, "device") } else { Ok(0) };
        let of_32 = |what: &str, value: i64| {
            u32::try_from(value).map_err(|_| format!("{what} {value} is too large"))
        };
        let kind = block[156];
        let (mut major, mut minor) = (0, 0);
        if matches!(kind, b'3' | b'4') {
            major = of_32("device", device(&block[329..337])?)?;
            minor = of_32("device", device(&block[337..345])?)?;
        }
        let size = number(&block[124..136], "size")?;
        Ok(Self {
            path,
            perm: u16::try_from(number(&block[100..108], "mode")? & 0o7777).unwrap_or(0),
            uid: number(&block[108..116], "owner").ok().and_then(|id| u32::try_from(id).ok()),
            gid: number(&block[116..124], "group").ok().and_then(|id| u32::try_from(id).ok()),
            size: u64::try_from(size).map_err(|_| format!("a member of {size} bytes"))?,
            mtime: number(&block[136..148], "mtime")?,
            kind,
            target: text(&block[157..257]).to_vec(),
            major,
            minor,
            block: Box::new(*block),
        })
    }

    /// Returns true if the member is a directory: v7 marks it by a slash after the name.
    pub(super) fn is_dir(&self, path: &[u8]) -> bool {
        matches!(self.kind, b'5' | b'D') || matches!(self.kind, b'0' | 0) && path.ends_with(b"/")
    }
}

/// Returns the bytes before the first zero.
fn text(field: &[u8]) -> &[u8] {
    field.split(|&b| b == 0).next().unwrap_or_default()
}

/// Parses a number: octal digits, with blanks and zeroes around; or, if it is too large for that,
/// binary with the highest bit set.
pub(super) fn number(field: &[u8], what: &str) -> Result<i64, Problem> {
    let wrong = || format!("{what} is not a number: {}", field.escape_ascii());
    match field {
        [first, rest @ ..] if first & 0x80 != 0 => {
            // 0x80 begins a positive number, 0xff a negative one in two's complement.
            let negative = first & 0x40 != 0;
            let first = if negative { first | 0x80 } else { first & 0x7f };
            let start = if negative { -1_i128 << 8 | i128::from(first) } else { first.into() };
            let value = rest.iter().try_fold(start, |value, &b| {
                let value = value << 8 | i128::from(b);
                (value.unsigned_abs() < 1 << 100).then_some(value)
            });
            value.and_then(|value| i64::try_from(value).ok()).ok_or_else(wrong)
        }
        _ => {
            let digits = field.split(|&b| b == 0).next().unwrap_or_default().trim_ascii();
            digits.iter().try_fold(0_i64, |value, &b| match b {
                b'0'..=b'7' => value
                    .checked_mul(8)
                    .and_then(|value| value.checked_add(i64::from(b - b'0')))
                    .ok_or_else(wrong),
                _ => Err(wrong()),
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_are_octal_or_binary() {
        for (field, value) in [
            (&b"0000644\0"[..], 0o644),
            (b"   644 \0", 0o644),
            (b"\0\0\0\0\0\0\0\0", 0),
            (b"77777777", 0o77_777_777),
            (b"\x80\0\0\0\0\0\0\0\x02\0\0\0", 1 << 25),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xfe", -2),
            (b"\xff\xff\xff\xff\xff\xff\xff\xfe", -2),
        ] {
            assert_eq!(number(field, "x"), Ok(value), "{}", field.escape_ascii());
        }
        for wrong in [&b"0000648\0"[..], b"x", b"\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"]
        {
            assert!(number(wrong, "x").is_err(), "{}", wrong.escape_ascii());
        }
    }
}
