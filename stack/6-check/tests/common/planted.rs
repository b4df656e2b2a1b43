//! The language of the planted faults: one line a fault.
//!
//! ```text
//! id | image | structure  byte=bytes byte=bytes … & structure  byte=bytes …
//! ```
//!
//! Bytes are hexadecimal, `byte` is the first byte in the structure. The structure's checksum is
//! made right, unless an exclamation mark follows it. Text after `#` is a comment.
//!
//! | structure | meaning |
//! | --- | --- |
//! | `sb:1` `agf:0` `agi:0` `agfl:0` | a header of that group |
//! | `leaf:AB3B:0` `node:AB3B:0` | the n-th btree block with that magic, on level 0 or above |
//! | `block:XDD3:0` | another block with that magic |
//! | `at:0/2695` | the block with a magic at that group and block |
//! | `da:3df1:0` | a block of a hash btree with that magic |
//! | `ino:131` | an inode |
//! | `log:0` | a sector of the journal, without checksum |
//! | `raw:4096` | a sector at that byte of the device, without checksum |
//! | `dquot:3` | a record of the first block of quota records |

use xfskit_block::OverlayDevice;
use xfskit_units::{AgBlock, AgNumber, Ino};

use super::{Block, Image, damage};

/// One planted fault.
pub struct Fault<'t> {
    /// Its number in the list, from 0.
    pub number: usize,
    /// Its row.
    pub row: &'t str,
    /// The id that it yields.
    pub id: &'t str,
    /// Name of the kept image.
    pub image: &'t str,
    edits: &'t str,
}

/// Returns all planted faults.
pub fn all() -> Vec<Fault<'static>> {
    let lines = include_str!("../planted.txt").lines();
    let rows = lines.map(|line| line.split('#').next().unwrap_or("").trim());
    rows.filter(|row| !row.is_empty()).enumerate().map(Fault::of).collect()
}

impl<'t> Fault<'t> {
    fn of((number, row): (usize, &'t str)) -> Self {
        let mut parts = row.splitn(3, '|').map(str::trim);
        let mut part = || parts.next().unwrap_or_else(|| panic!("three parts: {row}"));
        Self { number, row, id: part(), image: part(), edits: part() }
    }

    /// Returns true if the image yields the id as it is.
    pub fn is_none(&self) -> bool {
        self.edits.is_empty()
    }

    /// Returns `image` with the fault.
    pub fn plant(&self, image: &Image) -> OverlayDevice {
        let dev = image.copy();
        for edit in self.edits.split('&').filter(|edit| !edit.trim().is_empty()) {
            let mut words = edit.split_whitespace();
            let name = words.next().expect("a structure");
            let mut block = structure(image, name.trim_end_matches('!'));
            if name.ends_with('!') {
                block.crc = None;
            }
            damage(&dev, block, |bytes| {
                for word in words {
                    let (at, new) = word.split_once('=').expect("byte=bytes");
                    let (at, new) = (number(at), unhex(new));
                    let old = &mut bytes[at..at + new.len()];
                    assert_ne!(old, new, "{}: {name} {word} changes nothing", self.id);
                    old.copy_from_slice(&new);
                }
            });
        }
        dev
    }
}

/// Parses a decimal number, or a hexadecimal one after `0x`.
fn number(text: &str) -> usize {
    let hex = text.strip_prefix("0x").map(|hex| usize::from_str_radix(hex, 16));
    hex.unwrap_or_else(|| text.parse()).unwrap_or_else(|_| panic!("a number: {text}"))
}

fn unhex(text: &str) -> Vec<u8> {
    assert!(text.len().is_multiple_of(2), "whole bytes: {text}");
    let byte = |at: usize| u8::from_str_radix(&text[at..at + 2], 16);
    (0..text.len()).step_by(2).map(|at| byte(at).expect("hexadecimal")).collect()
}

/// Returns the structure of that name.
fn structure(image: &Image, name: &str) -> Block {
    let mut parts = name.split(':');
    let kind = parts.next().unwrap_or("");
    let first = parts.next().unwrap_or("");
    let nth = parts.next().map_or(0, number);
    let header = |index| image.header(u32::try_from(number(first)).unwrap(), index);
    let plain = |offset| Block { offset, len: 512, crc: None };
    let magic = |fits: fn(u8) -> bool| {
        let mut found = image.metadata();
        found.retain(|block| {
            let bytes = &image.bytes[block.offset..];
            bytes.starts_with(first.as_bytes()) && fits(bytes[5])
        });
        *found.get(nth).unwrap_or_else(|| panic!("{name}: only {} of them", found.len()))
    };
    match kind {
        "sb" => header(0),
        "agf" => header(1),
        "agi" => header(2),
        "agfl" => header(3),
        "leaf" => magic(|level| level == 0),
        "node" => magic(|level| level > 0),
        "block" => magic(|_| true),
        "at" => {
            let (agno, agbno) = first.split_once('/').expect("group/block");
            let agno = AgNumber(u32::try_from(number(agno)).unwrap());
            let agbno = AgBlock(u32::try_from(number(agbno)).unwrap());
            let daddr = image.geo.agb_to_daddr(agno, agbno);
            let offset = usize::try_from(daddr.0).unwrap() * 512;
            let mut found = image.metadata().into_iter().filter(|block| block.offset == offset);
            found.next().unwrap_or_else(|| panic!("{name}: no magic"))
        }
        "da" => image.da(u16::from_str_radix(first, 16).unwrap(), nth),
        "ino" => {
            let offset = image.geo.ino_to_byte(Ino(number(first) as u64)).expect("an inode");
            let offset = usize::try_from(offset.0).unwrap();
            Block { offset, len: image.geo.inodesize(), crc: image.geo.v5().then_some(100) }
        }
        "log" => {
            let log = image.geo.log_daddr().expect("a journal inside");
            plain((usize::try_from(log.0).unwrap() + number(first)) * 512)
        }
        "raw" => plain(number(first)),
        "dquot" => {
            let mut blocks = (0..image.bytes.len()).step_by(image.geo.blocksize());
            let start = blocks.find(|at| image.bytes[*at..].starts_with(b"DQ\x01")).unwrap();
            Block { offset: start + 136 * number(first), len: 136, crc: Some(108) }
        }
        _ => panic!("no such structure: {name}"),
    }
}
