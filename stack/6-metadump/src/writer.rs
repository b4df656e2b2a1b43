//! A file written as a stream.

use std::io::{self, Write};

use xfskit_units::Daddr;

use crate::format::{
    BLOCKLOG, Content, FileFormat, HEADER_V2, INDEX_HEADER, MAGIC_V1, MAGIC_V2, Part, SECTOR,
};

/// Addresses of one index of version 1.
const INDEX_MAX: usize = (SECTOR - INDEX_HEADER) / 8;
/// Bytes that are gathered before they are written.
const BUFFER: usize = 1 << 20;

/// Writes a file of either format to `out`.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    format: FileFormat,
    content: Content,
    buffer: Vec<u8>,
    /// Version 1: where in `buffer` the index of the open group begins, and its addresses.
    index: Option<(usize, usize)>,
    bytes: u64,
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    pub fn new(out: W, format: FileFormat, content: Content) -> Self {
        let mut buffer = Vec::with_capacity(BUFFER + BUFFER / 4);
        if format == FileFormat::V2 {
            buffer.extend_from_slice(&MAGIC_V2.to_be_bytes());
            buffer.extend_from_slice(&2u32.to_be_bytes());
            buffer.extend_from_slice(&content.to_incompat().to_be_bytes());
            buffer.extend_from_slice(&content.to_compat().to_be_bytes());
            buffer.resize(HEADER_V2, 0);
        }
        Self { out, format, content, buffer, index: None, bytes: 0 }
    }

    /// Writes the sectors `bytes`, which begin at `daddr` of `part`. Version 1 has no other part
    /// than the data device.
    ///
    /// # Errors
    /// Those of the stream.
    ///
    /// # Panics
    /// If `bytes` are no whole sectors, which is the caller's mistake.
    pub fn put(&mut self, part: Part, daddr: Daddr, bytes: &[u8]) -> io::Result<()> {
        assert!(bytes.len().is_multiple_of(SECTOR), "whole sectors");
        match self.format {
            FileFormat::V1 if part != Part::Data => Ok(()),
            FileFormat::V1 => self.put_v1(daddr, bytes),
            FileFormat::V2 => self.put_v2(part, daddr, bytes),
        }
    }

    fn put_v1(&mut self, daddr: Daddr, bytes: &[u8]) -> io::Result<()> {
        let mut at = daddr.0;
        let mut rest = bytes;
        while !rest.is_empty() {
            let (start, count) = match self.index {
                Some(open) if open.1 < INDEX_MAX => open,
                _ => self.begin_group()?,
            };
            let now = (rest.len() / SECTOR).min(INDEX_MAX - count);
            for i in 0..now {
                let slot = start + INDEX_HEADER + 8 * (count + i);
                self.buffer[slot..slot + 8].copy_from_slice(&at.to_be_bytes());
                at += 1;
            }
            let (block, after) = rest.split_at(now * SECTOR);
            self.buffer.extend_from_slice(block);
            rest = after;
            self.index = Some((start, count + now));
        }
        Ok(())
    }

    /// Closes the open group and begins another.
    fn begin_group(&mut self) -> io::Result<(usize, usize)> {
        self.end_group();
        if self.buffer.len() >= BUFFER {
            self.drain()?;
        }
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&MAGIC_V1.to_be_bytes());
        self.buffer.extend_from_slice(&[0, 0, BLOCKLOG, self.content.to_info()]);
        self.buffer.resize(start + SECTOR, 0);
        Ok((start, 0))
    }

    fn end_group(&mut self) {
        if let Some((start, count)) = self.index.take() {
            let count = u16::try_from(count).unwrap_or(u16::MAX);
            self.buffer[start + 4..start + 6].copy_from_slice(&count.to_be_bytes());
        }
    }

    fn put_v2(&mut self, part: Part, daddr: Daddr, bytes: &[u8]) -> io::Result<()> {
        let sectors = u32::try_from(bytes.len() / SECTOR).map_err(io::Error::other)?;
        self.buffer.extend_from_slice(&part.address(daddr).to_be_bytes());
        self.buffer.extend_from_slice(&sectors.to_be_bytes());
        if bytes.len() >= BUFFER {
            self.drain()?;
            self.bytes += bytes.len() as u64;
            return self.out.write_all(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER { self.drain() } else { Ok(()) }
    }

    fn drain(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Ends the file, and returns the stream and the number of bytes written to it.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn finish(mut self) -> io::Result<(W, u64)> {
        if self.format == FileFormat::V1 {
            // A reader takes a full index for a promise that another one follows.
            if self.index.is_none_or(|(_, count)| count == INDEX_MAX) {
                self.index = Some(self.begin_group()?);
            }
            self.end_group();
        }
        self.drain()?;
        self.out.flush()?;
        Ok((self.out, self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: FileFormat, sectors: usize) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new(), format, Content::default());
        writer.put(Part::Data, Daddr(8), &vec![7; sectors * SECTOR]).unwrap();
        let (file, bytes) = writer.finish().unwrap();
        assert_eq!(file.len() as u64, bytes);
        file
    }

    #[test]
    fn a_full_group_is_followed_by_an_empty_index() {
        let file = written(FileFormat::V1, 63);
        assert_eq!(file.len(), 65 * SECTOR);
        assert_eq!(file[..8], [0x58, 0x46, 0x53, 0x4d, 0, 63, 9, 1]);
        assert_eq!(file[64 * SECTOR..64 * SECTOR + 8], [0x58, 0x46, 0x53, 0x4d, 0, 0, 9, 1]);
        assert_eq!(written(FileFormat::V1, 62).len(), 63 * SECTOR);
        assert_eq!(written(FileFormat::V1, 64).len(), 66 * SECTOR);
    }

    #[test]
    fn addresses_follow_their_blocks() {
        let file = written(FileFormat::V1, 100);
        assert_eq!(file[8..16], 8u64.to_be_bytes());
        assert_eq!(file[16..24], 9u64.to_be_bytes());
        assert_eq!(file[64 * SECTOR + 8..64 * SECTOR + 16], 71u64.to_be_bytes());
    }

    #[test]
    fn version_2_has_extents() {
        let file = written(FileFormat::V2, 5);
        assert_eq!(file.len(), HEADER_V2 + 12 + 5 * SECTOR);
        assert_eq!(file[HEADER_V2..HEADER_V2 + 12], [0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 5]);
    }
}
