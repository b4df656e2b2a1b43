//! A file read as a stream.

use std::io::{self, Read};

use xfskit_format::sb::{self, Superblock};
use xfskit_units::{Daddr, index};

use crate::error::{Error, Result};
use crate::format::{
    BLOCKLOG, BLOCKLOG_MAX, Content, EXTENT_HEADER, FileFormat, HEADER_V2, INDEX_HEADER, MAGIC_V1,
    MAGIC_V2, Part, SECTOR,
};

/// Longest part of an extent that is returned at once, in bytes.
const PIECE_MAX: u32 = 1 << 20;

/// Sectors of a file that are consecutive in it and on their device.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'r> {
    /// The device.
    pub part: Part,
    /// The first sector.
    pub daddr: Daddr,
    /// Whole sectors.
    pub bytes: &'r [u8],
}

/// Reads a file of either format from `input`.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    format: FileFormat,
    content: Option<Content>,
    state: State,
    /// Bytes taken from the stream.
    read: u64,
    superblock: Box<Superblock>,
    /// True until the first piece, which `open` has read already, was returned.
    first: bool,
    buffer: Vec<u8>,
}

#[derive(Debug)]
enum State {
    /// Version 1: the addresses of the group, and the next of them.
    Group { index: Vec<u64>, next: usize, blocklog: u8, last: bool },
    /// Version 2: what is left of an extent.
    Extent { part: Part, daddr: Daddr, sectors: u32 },
    /// The file has ended.
    End,
}

impl<R: Read> Reader<R> {
    /// Reads the beginning of a file, with the superblock.
    ///
    /// # Errors
    /// [`Error::NotAMetadump`], [`Error::Truncated`], [`Error::DamagedFile`] and the like.
    pub fn open(mut input: R) -> Result<Self> {
        let mut head = [0; INDEX_HEADER];
        let got = fill(&mut input, &mut head)?;
        let magic = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        let mut reader = Self {
            input,
            format: FileFormat::V1,
            content: None,
            state: State::End,
            read: got as u64,
            superblock: Box::new(<Superblock as zerocopy::FromZeros>::new_zeroed()),
            first: false,
            buffer: Vec::new(),
        };
        match magic {
            _ if got < head.len() => return Err(Error::not_a_metadump(&head[..got])),
            MAGIC_V1 => reader.open_group(head)?,
            MAGIC_V2 => reader.open_v2(head)?,
            _ => return Err(Error::not_a_metadump(&head)),
        }
        reader.take_superblock()?;
        Ok(reader)
    }

    fn open_v2(&mut self, head: [u8; INDEX_HEADER]) -> Result<()> {
        let version = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        let mut rest = [0; HEADER_V2 - INDEX_HEADER];
        self.fill_all(&mut rest)?;
        if version != 2 {
            return Err(Error::Unsupported(format!("version {version} of the file format")));
        }
        let word = |at: usize| xfskit_format::bytes::be32(&rest, at).unwrap_or(0);
        let content = Content::from_words(word(0), word(4));
        let content = content
            .map_err(|bits| Error::Unsupported(format!("unknown flags {bits:#x} of the file")))?;
        self.format = FileFormat::V2;
        self.content = Some(content);
        self.next_extent()
    }

    /// Reads the index of a group, whose first bytes are `head`.
    fn open_group(&mut self, head: [u8; INDEX_HEADER]) -> Result<()> {
        let [m0, m1, m2, m3, c0, c1, blocklog, info] = head;
        let damaged = |what: String| Error::DamagedFile { offset: self.read, what };
        if u32::from_be_bytes([m0, m1, m2, m3]) != MAGIC_V1 {
            return Err(damaged("there is no index where one must be".to_owned()));
        }
        if !(BLOCKLOG..=BLOCKLOG_MAX).contains(&blocklog) {
            return Err(damaged(format!("blocks of 2^{blocklog} bytes")));
        }
        let room = ((1 << blocklog) - INDEX_HEADER) / 8;
        let count = usize::from(u16::from_be_bytes([c0, c1]));
        if count > room {
            return Err(damaged(format!("an index has {count} addresses and room for {room}")));
        }
        let mut bytes = vec![0; (1 << blocklog) - INDEX_HEADER];
        self.fill_all(&mut bytes)?;
        let (words, _) = bytes.as_chunks::<8>();
        let index = words[..count].iter().map(|word| u64::from_be_bytes(*word)).collect();
        self.content = self.content.or(Content::from_info(info));
        self.state = State::Group { index, next: 0, blocklog, last: count < room };
        Ok(())
    }

    /// Reads the head of the next extent.
    fn next_extent(&mut self) -> Result<()> {
        let mut head = [0; EXTENT_HEADER];
        let got = fill(&mut self.input, &mut head)?;
        self.read += got as u64;
        if got == 0 {
            self.state = State::End;
            return Ok(());
        }
        if got < head.len() {
            return Err(Error::Truncated { bytes: self.read });
        }
        let [a @ .., l0, l1, l2, l3] = head;
        let address = u64::from_be_bytes(a);
        let sectors = u32::from_be_bytes([l0, l1, l2, l3]);
        let Some((part, daddr)) = Part::of_address(address) else {
            let what = format!("an extent is for a device that does not exist ({address:#x})");
            return Err(Error::DamagedFile { offset: self.read, what });
        };
        self.state = State::Extent { part, daddr, sectors };
        Ok(())
    }

    /// Reads the first piece, which must be the primary superblock.
    fn take_superblock(&mut self) -> Result<()> {
        let damaged = |what: &str| Error::DamagedFile { offset: 0, what: what.to_owned() };
        let Some((part, daddr)) = self.advance()? else {
            return Err(damaged("it has no blocks"));
        };
        if part != Part::Data || daddr != Daddr(0) {
            return Err(damaged("the first block is not the superblock"));
        }
        let Some(superblock) = Superblock::parse(&self.buffer) else {
            return Err(damaged("the superblock is too short"));
        };
        if superblock.magicnum.get() == sb::MAGIC {
            let sizes = [superblock.blocklog, superblock.sectlog];
            if !sizes.iter().all(|log| (9..=16).contains(log)) {
                return Err(damaged("the superblock has impossible sizes"));
            }
        }
        *self.superblock = superblock.clone();
        self.first = true;
        Ok(())
    }

    /// Returns the format of the file.
    pub fn format(&self) -> FileFormat {
        self.format
    }

    /// Returns what the file says about its content; `None` where an old program wrote it.
    pub fn content(&self) -> Option<Content> {
        self.content
    }

    /// Returns the primary superblock as it is in the file, which may be damaged.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Returns the number of bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.read
    }

    /// Returns the next piece; `None` at the end.
    ///
    /// # Errors
    /// [`Error::Truncated`], [`Error::DamagedFile`], and those of the stream.
    pub fn next_piece(&mut self) -> Result<Option<Piece<'_>>> {
        if std::mem::take(&mut self.first) {
            return Ok(Some(Piece { part: Part::Data, daddr: Daddr(0), bytes: &self.buffer }));
        }
        let next = self.advance()?;
        Ok(next.map(|(part, daddr)| Piece { part, daddr, bytes: &self.buffer }))
    }

    /// Reads the next piece into `buffer`.
    fn advance(&mut self) -> Result<Option<(Part, Daddr)>> {
        loop {
            match &mut self.state {
                State::End => return Ok(None),
                State::Group { index, next, last, .. } if *next == index.len() => {
                    if *last {
                        self.state = State::End;
                        return Ok(None);
                    }
                    let mut head = [0; INDEX_HEADER];
                    self.fill_all(&mut head)?;
                    self.open_group(head)?;
                }
                State::Group { index, next, blocklog, .. } => {
                    let step = 1u64 << (*blocklog - BLOCKLOG);
                    let run = &index[*next..];
                    let follows = |pair: &&[u64]| pair[0].checked_add(step) == Some(pair[1]);
                    let count = 1 + run.windows(2).take_while(follows).count();
                    let (daddr, len) = (Daddr(run[0]), count << *blocklog);
                    *next += count;
                    self.fill_buffer(len)?;
                    return Ok(Some((Part::Data, daddr)));
                }
                State::Extent { sectors: 0, .. } => self.next_extent()?,
                State::Extent { part, daddr, sectors } => {
                    let now = (*sectors).min(PIECE_MAX >> BLOCKLOG);
                    let piece = (*part, *daddr);
                    let Some(after) = daddr.0.checked_add(now.into()) else {
                        let what = "an extent goes beyond all devices".to_owned();
                        return Err(Error::DamagedFile { offset: self.read, what });
                    };
                    *daddr = Daddr(after);
                    *sectors -= now;
                    self.fill_buffer(index(now.into()) * SECTOR)?;
                    return Ok(Some(piece));
                }
            }
        }
    }

    fn fill_buffer(&mut self, len: usize) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.resize(len, 0);
        let filled = self.fill_all(&mut buffer);
        self.buffer = buffer;
        filled
    }

    fn fill_all(&mut self, bytes: &mut [u8]) -> Result<()> {
        let got = fill(&mut self.input, bytes)?;
        self.read += got as u64;
        if got < bytes.len() {
            return Err(Error::Truncated { bytes: self.read });
        }
        Ok(())
    }
}

/// Reads until `bytes` are full or the stream ends, and returns the number of bytes read.
fn fill(input: &mut impl Read, bytes: &mut [u8]) -> Result<usize> {
    let mut got = 0;
    while got < bytes.len() {
        match input.read(&mut bytes[got..]) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(Error::Read(error)),
        }
    }
    Ok(got)
}
