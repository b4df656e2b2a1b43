//! The devices of a volume as they were at one moment, in this process or in another.
//!
//! A process that has a snapshot serves it to another one through a stream. The other one says
//! hello, and receives the sizes of the devices; then it asks for ranges. All numbers are little
//! endian:
//!
//! ```text
//!   hello     MAGIC
//!   reply     count of devices: u32; for each: size u64, logical block u32, physical block u32
//!   request   count: u32; for each range: device u32, kind u32, length u32, 0 u32, offset u64
//!   reply     for each range: errno or 0: i32; then, if 0, the bytes
//! ```
//!
//! A range is of 1 MiB at most, and a request of 4 MiB, so that a peer does not decide how much
//! memory the other takes.

use std::fmt;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::io::Errno;
use xfskit_block::snapshot::BROKEN;
use xfskit_block::{BlockDevice, Error as DeviceError, IoRead, Result as DeviceResult};
use xfskit_units::{ByteLen, ByteOffset};

use crate::target::Device;
use crate::{Error, Result, Volume, VolumeOptions};

const MAGIC: u32 = 0x7866_736b;
/// Devices of a volume: its data, and an external journal.
const DEVICES_MAX: usize = 2;
/// Bytes of a range at most.
const RANGE_MAX: usize = 1 << 20;
/// Bytes of the ranges of a request at most.
const BYTES_MAX: usize = 4 << 20;
/// Ranges of a request at most.
const RANGES_MAX: usize = 128;

/// Memory for what is overwritten while there is a snapshot, for each device.
const MEMORY: ByteLen = ByteLen(16 << 20);

/// A read of a range.
const READ: u32 = 0;
/// The number of its sources; the reply has four bytes.
const ALTERNATIVES: u32 = 1;
/// A read from source 0; the following numbers are those of the other sources.
const SOURCE: u32 = 2;

/// The devices of a volume as they were at one moment: of [`Volume::snapshot`], or of a mount.
///
/// It ends with its last device. Meanwhile, what is overwritten on the volume is kept, in memory
/// and in a file without a name; if there is no more room for that, reads of the snapshot fail.
#[derive(Clone, Debug)]
pub struct Snapshot {
    devices: Vec<Arc<dyn BlockDevice>>,
    /// Of the process that serves it.
    link: Option<Arc<Link>>,
}

impl Volume {
    /// Takes a snapshot of the devices below the volume. Other threads may change the volume
    /// meanwhile: the snapshot has all changes so far, and is as a crash would leave the devices,
    /// with a journal to be replayed.
    ///
    /// # Errors
    /// [`Unsupported`](crate::ErrorKind::Unsupported) where the volume is open for writing without
    /// [`VolumeOptions::snapshots`]; [`Shutdown`](crate::ErrorKind::Shutdown).
    pub fn snapshot(&self) -> Result<Snapshot> {
        let _running = self.owner.enter()?;
        if self.owner.is_writable() {
            self.owner.volume().write_back().map_err(Error::new)?;
        }
        self.snapshot_now()
    }

    /// Takes a snapshot of the devices as they are now.
    pub(crate) fn snapshot_now(&self) -> Result<Snapshot> {
        let devices = match &self.snapshots {
            Some(snapshots) => {
                let dir = snapshots.dir.clone().unwrap_or_else(std::env::temp_dir);
                snapshots.group.take(MEMORY, &dir).devices()
            }
            None if self.owner.is_writable() => {
                let what = "a snapshot of a volume that was not opened for that".to_owned();
                return Err(Error::new(xfskit_core::Error::Unsupported(what)));
            }
            // Nothing changes it.
            None => vec![Arc::clone(self.owner.volume().device())],
        };
        Ok(Snapshot { devices, link: None })
    }
}

impl Snapshot {
    /// Returns the data device.
    pub fn data(&self) -> Device {
        Device::new(Arc::clone(&self.devices[0]))
    }

    /// Returns the device of the journal, if that is external.
    pub fn log(&self) -> Option<Device> {
        self.devices.get(1).map(|device| Device::new(Arc::clone(device)))
    }

    /// Returns the options with which the volume in the snapshot is opened.
    pub fn options(&self, options: VolumeOptions) -> VolumeOptions {
        self.log().into_iter().fold(options, VolumeOptions::log_on)
    }

    /// Serves the snapshot to the peer of `stream` until that ends.
    ///
    /// # Errors
    /// The stream fails, or the peer does not keep to the protocol.
    pub fn serve(&self, mut stream: &UnixStream) -> io::Result<()> {
        if u32_of(stream)? != MAGIC {
            return Err(protocol());
        }
        let mut hello = Vec::new();
        put(&mut hello, self.devices.len());
        for device in &self.devices {
            hello.extend_from_slice(&device.size().0.to_le_bytes());
            hello.extend_from_slice(&device.logical_block_size().to_le_bytes());
            hello.extend_from_slice(&device.physical_block_size().to_le_bytes());
        }
        stream.write_all(&hello)?;
        let mut reply = Vec::new();
        loop {
            let ranges = match u32_of(stream) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                count => self.receive(stream, count?)?,
            };
            reply.clear();
            self.answer(&ranges, &mut reply);
            stream.write_all(&reply)?;
        }
    }

    /// Receives the ranges of a request.
    fn receive(&self, mut stream: &UnixStream, count: u32) -> io::Result<Vec<Range>> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count > RANGES_MAX {
            return Err(protocol());
        }
        let mut bytes = vec![0; count * Range::LEN];
        stream.read_exact(&mut bytes)?;
        let ranges: Vec<Range> = bytes.chunks_exact(Range::LEN).map(Range::parse).collect();
        let valid = |range: &Range| range.device < self.devices.len() && range.len <= RANGE_MAX;
        let sum: usize = ranges.iter().map(|range| range.len).sum();
        if ranges.iter().all(valid) && sum <= BYTES_MAX { Ok(ranges) } else { Err(protocol()) }
    }

    /// Appends the reply to a request. Neighbouring reads of one device are one batch.
    fn answer(&self, ranges: &[Range], reply: &mut Vec<u8>) {
        let alike = |one: &Range, next: &Range| {
            one.kind == READ && next.kind == READ && one.device == next.device
        };
        for some in ranges.chunk_by(alike) {
            let device = &self.devices[some[0].device];
            let mut bufs: Vec<Vec<u8>> = some.iter().map(|range| vec![0; range.len]).collect();
            let results = if some[0].kind == READ {
                let mut batch: Vec<IoRead<'_>> = some
                    .iter()
                    .zip(&mut bufs)
                    .map(|(range, buf)| IoRead { offset: range.offset, buf })
                    .collect();
                device.read_batch(&mut batch)
            } else {
                vec![some[0].answer_other(&**device, &mut bufs[0])]
            };
            for (buf, result) in bufs.iter().zip(results) {
                let errno = result.err().map_or(0, |error| errno(&error));
                reply.extend_from_slice(&errno.to_le_bytes());
                if errno == 0 {
                    reply.extend_from_slice(buf);
                }
            }
        }
    }

    /// Returns the snapshot that the peer of `stream` serves. Its devices belong to this snapshot,
    /// whose stream is closed with the last of them.
    ///
    /// # Errors
    /// The stream fails, or the peer serves none.
    pub fn connect(mut stream: UnixStream) -> Result<Self> {
        let connected = || -> io::Result<Self> {
            stream.write_all(&MAGIC.to_le_bytes())?;
            let count = usize::try_from(u32_of(&stream)?).unwrap_or(usize::MAX);
            if !(1..=DEVICES_MAX).contains(&count) {
                return Err(protocol());
            }
            let mut hello = vec![0; count * 16];
            stream.read_exact(&mut hello)?;
            let link = Arc::new(Link { stream: Mutex::new(stream), lost: AtomicBool::new(false) });
            let device = |(number, hello): (usize, &[u8])| -> Arc<dyn BlockDevice> {
                Arc::new(Remote {
                    link: Arc::clone(&link),
                    number,
                    size: ByteLen(u64_at(hello, 0)),
                    logical: u32_at(hello, 8),
                    physical: u32_at(hello, 12),
                })
            };
            let devices = hello.chunks_exact(16).enumerate().map(device).collect();
            Ok(Self { devices, link: Some(link) })
        };
        connected().map_err(Error::new)
    }

    /// Returns false if reads have failed because the process that serves the snapshot is gone, or
    /// because the snapshot found no more room.
    pub fn is_whole(&self) -> bool {
        self.link.as_ref().is_none_or(|link| !link.lost.load(Ordering::Acquire))
    }
}

/// A range that the peer asks for.
#[derive(Clone, Copy, Debug)]
struct Range {
    device: usize,
    kind: u32,
    len: usize,
    offset: ByteOffset,
}

impl Range {
    /// Bytes of a range in a request.
    const LEN: usize = 24;

    fn parse(bytes: &[u8]) -> Self {
        let size = |at| usize::try_from(u32_at(bytes, at)).unwrap_or(usize::MAX);
        let (device, kind, len) = (size(0), u32_at(bytes, 4), size(8));
        Self { device, kind, len, offset: ByteOffset(u64_at(bytes, 16)) }
    }

    fn put(&self, request: &mut Vec<u8>) {
        put(request, self.device);
        request.extend_from_slice(&self.kind.to_le_bytes());
        put(request, self.len);
        put(request, 0);
        request.extend_from_slice(&self.offset.0.to_le_bytes());
    }

    /// Carries out what is no plain read.
    fn answer_other(&self, device: &dyn BlockDevice, buf: &mut Vec<u8>) -> DeviceResult<()> {
        if self.kind == ALTERNATIVES {
            let count = device.alternatives(self.offset, ByteLen(self.len as u64));
            buf.clear();
            put(buf, count);
            return Ok(());
        }
        let source = usize::try_from(self.kind - SOURCE).unwrap_or(usize::MAX);
        device.read_alternative(self.offset, buf, source)
    }
}

/// The stream to the process that serves a snapshot.
struct Link {
    stream: Mutex<UnixStream>,
    /// The stream failed, or the snapshot broke.
    lost: AtomicBool,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Link")
    }
}

impl Link {
    /// Asks for ranges, and fills the buffers beside them.
    fn exchange(&self, ranges: &mut [(Range, &mut [u8])]) -> Vec<io::Result<()>> {
        let mut stream = self.stream.lock();
        let mut request = Vec::with_capacity(4 + ranges.len() * Range::LEN);
        put(&mut request, ranges.len());
        for (range, _) in ranges.iter() {
            range.put(&mut request);
        }
        let mut broken = stream.write_all(&request).err();
        let mut results = Vec::with_capacity(ranges.len());
        for (_, buf) in ranges {
            let mut receive = || -> io::Result<io::Result<()>> {
                let errno = u32_of(&stream)?.cast_signed();
                if errno != 0 {
                    return Ok(Err(io::Error::from_raw_os_error(errno)));
                }
                stream.read_exact(buf)?;
                Ok(Ok(()))
            };
            let result = if broken.is_some() {
                Err(lost())
            } else {
                receive().unwrap_or_else(|error| {
                    broken = Some(error);
                    Err(lost())
                })
            };
            let is_lost = |error: &io::Error| {
                error.raw_os_error() == Some(BROKEN.raw_os_error()) || broken.is_some()
            };
            if result.as_ref().is_err_and(is_lost) {
                self.lost.store(true, Ordering::Release);
            }
            results.push(result);
        }
        results
    }
}

/// A device of a snapshot that another process serves.
#[derive(Debug)]
struct Remote {
    link: Arc<Link>,
    number: usize,
    size: ByteLen,
    logical: u32,
    physical: u32,
}

impl Remote {
    /// Reads many ranges, in requests that are not too large.
    fn read(&self, kind: u32, batch: &mut [IoRead<'_>]) -> Vec<DeviceResult<()>> {
        let mut results: Vec<DeviceResult<()>> = batch.iter().map(|_| Ok(())).collect();
        let (mut ranges, mut owners, mut bytes) = (Vec::new(), Vec::new(), 0);
        for (owner, io) in batch.iter_mut().enumerate() {
            let mut offset = io.offset;
            for buf in io.buf.chunks_mut(RANGE_MAX) {
                if ranges.len() == RANGES_MAX || bytes + buf.len() > BYTES_MAX {
                    self.send(&mut ranges, &mut owners, &mut results);
                    bytes = 0;
                }
                bytes += buf.len();
                let len = buf.len();
                ranges.push((Range { device: self.number, kind, len, offset }, buf));
                owners.push(owner);
                offset = ByteOffset(offset.0 + len as u64);
            }
        }
        self.send(&mut ranges, &mut owners, &mut results);
        results
    }

    fn send(
        &self,
        ranges: &mut Vec<(Range, &mut [u8])>,
        owners: &mut Vec<usize>,
        results: &mut [DeviceResult<()>],
    ) {
        if ranges.is_empty() {
            return;
        }
        let answers = self.link.exchange(ranges);
        for ((owner, (range, _)), answer) in owners.iter().zip(&*ranges).zip(answers) {
            if let Err(source) = answer {
                let (offset, len) = (range.offset, ByteLen(range.len as u64));
                results[*owner] = Err(DeviceError::Io { op: "read", offset, len, source });
            }
        }
        ranges.clear();
        owners.clear();
    }
}

impl BlockDevice for Remote {
    xfskit_block::plain!(
        lend,
        topology,
        write_batch,
        write_fua,
        discard,
        write_zeroes,
        will_need,
        skip_hole,
        heal
    );

    fn size(&self) -> ByteLen {
        self.size
    }

    fn logical_block_size(&self) -> u32 {
        self.logical
    }

    fn physical_block_size(&self) -> u32 {
        self.physical
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn read_at(&self, offset: ByteOffset, buf: &mut [u8]) -> DeviceResult<()> {
        self.read(READ, &mut [IoRead { offset, buf }]).remove(0)
    }

    fn read_batch(&self, batch: &mut [IoRead<'_>]) -> Vec<DeviceResult<()>> {
        self.read(READ, batch)
    }

    fn write_at(&self, _: ByteOffset, _: &[u8]) -> DeviceResult<()> {
        Err(DeviceError::ReadOnly)
    }

    fn flush(&self) -> DeviceResult<()> {
        Ok(())
    }

    fn alternatives(&self, offset: ByteOffset, len: ByteLen) -> usize {
        let mut count = [0; 4];
        let len = len.0.min(RANGE_MAX as u64);
        let len = usize::try_from(len).unwrap_or(RANGE_MAX);
        let range = Range { device: self.number, kind: ALTERNATIVES, len, offset };
        let known = self.link.exchange(&mut [(range, &mut count)]).remove(0).is_ok();
        if known { usize::try_from(u32::from_le_bytes(count)).unwrap_or(1) } else { 1 }
    }

    fn read_alternative(&self, offset: ByteOffset, buf: &mut [u8], k: usize) -> DeviceResult<()> {
        let source = u32::try_from(k).ok().and_then(|k| k.checked_add(SOURCE));
        let kind = source.ok_or(DeviceError::NoAlternative(k))?;
        self.read(kind, &mut [IoRead { offset, buf }]).remove(0)
    }
}

/// Returns the errno of a device's error.
fn errno(error: &DeviceError) -> i32 {
    let known = match error {
        DeviceError::Io { source, .. } => source.raw_os_error(),
        DeviceError::BeyondEnd { .. } | DeviceError::NoAlternative(_) => {
            Some(Errno::INVAL.raw_os_error())
        }
        _ => None,
    };
    known.filter(|&errno| errno != 0).unwrap_or(Errno::IO.raw_os_error())
}

fn protocol() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "not the protocol of snapshots")
}

fn lost() -> io::Error {
    io::Error::other("the process that serves the snapshot is gone")
}

fn put(bytes: &mut Vec<u8>, number: usize) {
    bytes.extend_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
}

fn u32_of(mut stream: &UnixStream) -> io::Result<u32> {
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u32::from_le_bytes(*word))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |word| u64::from_le_bytes(*word))
}
