//! Memory for one request and its reply.

use std::io;
use std::sync::Arc;

use rustix::io::Errno;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

use super::Home;
use crate::message::{InHeader, OutHeader};
use crate::reply::Sink;
use crate::request::Request;

/// Least bytes of data of an entry, for the kernel.
const PAYLOAD_MIN: usize = 8192;

/// What the kernel and the server tell each other beside the data (`fuse_uring_req_header`).
#[derive(Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Header {
    /// The header of a request, then of its reply.
    in_out: [u8; 128],
    /// The structure of the operation.
    operation: [u8; 128],
    flags: u64,
    /// Which request a reply is for.
    commit_id: u64,
    /// Bytes of data.
    payload_bytes: u32,
    padding: u32,
    reserved: u64,
}

/// Address and size of a part of an entry (`iovec`).
#[derive(Debug)]
#[repr(C)]
struct Part {
    address: usize,
    bytes: usize,
}

/// Memory for one request and its reply, which stays where it is.
#[derive(Debug)]
pub struct Entry(Box<Memory>);

#[derive(Debug)]
struct Memory {
    header: Header,
    /// Names and data of a request; structures and data of a reply.
    payload: Box<[u8]>,
    parts: [Part; 2],
    /// A reply to a request with data, which are in use until it is complete.
    beside: Vec<u8>,
    result: Replied,
    slot: usize,
    home: Arc<Home>,
}

/// What the reply of an entry is.
#[derive(Clone, Copy, Debug)]
enum Replied {
    Error(Errno),
    /// So many bytes, in the payload.
    Payload(usize),
    /// … beside it.
    Beside,
}

/// Takes the reply to the request of an entry, which [`Entry::finish`] sends.
#[derive(Debug)]
pub struct Stage<'e> {
    room: Room<'e>,
    result: &'e mut Replied,
    max: usize,
}

#[derive(Debug)]
enum Room<'e> {
    Payload(&'e mut [u8]),
    Beside(&'e mut Vec<u8>),
}

impl Entry {
    pub(super) fn new(slot: usize, payload: usize, home: &Arc<Home>) -> Self {
        Self(Box::new(Memory {
            header: Header::new_zeroed(),
            payload: vec![0; payload.max(PAYLOAD_MIN)].into(),
            parts: [Part { address: 0, bytes: 0 }, Part { address: 0, bytes: 0 }],
            beside: Vec::new(),
            result: Replied::Error(Errno::IO),
            slot,
            home: Arc::clone(home),
        }))
    }

    pub(super) fn slot(&self) -> usize {
        self.0.slot
    }

    pub(super) fn commit_id(&self) -> u64 {
        self.0.header.commit_id
    }

    /// Returns where its parts are said, and how many there are.
    pub(super) fn parts(&mut self) -> (u64, u32) {
        let Memory { header, payload, parts, .. } = &mut *self.0;
        *parts = [
            Part { address: (&raw mut *header).expose_provenance(), bytes: size_of::<Header>() },
            Part { address: payload.as_mut_ptr().expose_provenance(), bytes: payload.len() },
        ];
        ((&raw const *parts).expose_provenance() as u64, 2)
    }

    /// Returns the request, unless it is malformed, and where its reply goes.
    pub fn open(&mut self) -> (Option<Request<'_>>, Stage<'_>) {
        let Memory { header, payload, beside, result, .. } = &mut *self.0;
        let (max, bytes) = (payload.len(), header.payload_bytes as usize);
        let (data, room) = if bytes == 0 {
            (Some(&[][..]), Room::Payload(payload))
        } else {
            (payload.get(..bytes), Room::Beside(beside))
        };
        let parse = |data| Request::parse_parts(&header.in_out, &header.operation, data);
        *result = Replied::Error(Errno::IO);
        (data.and_then(parse), Stage { room, result, max })
    }

    /// Has the queue of the entry use another one, since this one stays away for long.
    pub fn set_aside(&self) {
        self.0.home.set_aside();
    }

    /// Sends the reply.
    pub fn finish(mut self) {
        let Memory { header, payload, beside, result, .. } = &mut *self.0;
        let (error, bytes) = match *result {
            Replied::Error(errno) => (-errno.raw_os_error(), 0),
            Replied::Payload(bytes) => (0, bytes),
            Replied::Beside => {
                payload[..beside.len()].copy_from_slice(beside);
                (0, beside.len())
            }
        };
        let request = InHeader::read_from_prefix(&header.in_out);
        let unique = request.map_or(0, |(request, _)| request.unique);
        let len = u32::try_from(size_of::<OutHeader>() + bytes).unwrap_or(u32::MAX);
        let reply = OutHeader { len, error, unique };
        header.in_out[..size_of::<OutHeader>()].copy_from_slice(reply.as_bytes());
        header.payload_bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let home = Arc::clone(&self.0.home);
        home.take_back(self);
    }
}

impl Sink for Stage<'_> {
    fn reply(&mut self, reply: Result<&[&[u8]], Errno>) -> io::Result<()> {
        let parts = match reply {
            Ok(parts) => parts,
            Err(errno) => {
                *self.result = Replied::Error(errno);
                return Ok(());
            }
        };
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
        if bytes > self.max {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        *self.result = match &mut self.room {
            Room::Payload(payload) => {
                let mut rest = &mut **payload;
                for part in parts {
                    let (here, behind) = rest.split_at_mut(part.len());
                    here.copy_from_slice(part);
                    rest = behind;
                }
                Replied::Payload(bytes)
            }
            Room::Beside(beside) => {
                beside.clear();
                for part in parts {
                    beside.extend_from_slice(part);
                }
                Replied::Beside
            }
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Operation;

    fn entry(opcode: u32, data: &[u8]) -> Entry {
        let mut entry = Entry::new(0, PAYLOAD_MIN, &Arc::new(Home::new().unwrap()));
        let header = InHeader { opcode, unique: 6, ..InHeader::default() };
        entry.0.header.in_out[..size_of::<InHeader>()].copy_from_slice(header.as_bytes());
        entry.0.header.payload_bytes = u32::try_from(data.len()).unwrap();
        let room = data.len().min(PAYLOAD_MIN);
        entry.0.payload[..room].copy_from_slice(&data[..room]);
        entry
    }

    /// Sends the reply, and returns its header and data.
    fn sent(entry: Entry) -> (OutHeader, Vec<u8>) {
        let home = Arc::clone(&entry.0.home);
        entry.finish();
        let entry = home.leave().done.pop().unwrap();
        let (header, _) = OutHeader::read_from_prefix(&entry.0.header.in_out).unwrap();
        (header, entry.0.payload[..entry.0.header.payload_bytes as usize].to_vec())
    }

    #[test]
    fn a_reply_does_not_overwrite_the_names_of_its_request() {
        let mut entry = entry(1, b"name\0");
        let (request, mut stage) = entry.open();
        let Operation::Lookup { name } = request.unwrap().operation else { panic!("no lookup") };
        stage.reply(Ok(&[b"01", b"234567"])).unwrap();
        assert_eq!(name, b"name");
        let (header, data) = sent(entry);
        assert_eq!((header.unique, header.error, header.len), (6, 0, 24));
        assert_eq!(data, b"01234567");
    }

    #[test]
    fn a_request_without_data_gets_a_reply_as_long_as_the_payload() {
        let mut entry = entry(3, b"");
        let (request, mut stage) = entry.open();
        assert!(matches!(request.unwrap().operation, Operation::Getattr));
        assert!(stage.reply(Ok(&[b"1", &[7; PAYLOAD_MIN]])).is_err());
        stage.reply(Ok(&[b"1", &[7; PAYLOAD_MIN - 1]])).unwrap();
        let (header, data) = sent(entry);
        assert_eq!((header.error, data.len(), data[0], data[1]), (0, PAYLOAD_MIN, b'1', 7));
    }

    #[test]
    fn what_is_malformed_or_has_no_reply_is_an_error() {
        for data in [&b"no end of a name"[..], &[1; PAYLOAD_MIN + 1]] {
            let mut entry = entry(1, data);
            assert!(entry.open().0.is_none());
            let (header, data) = sent(entry);
            assert_eq!((header.error, data.len()), (-Errno::IO.raw_os_error(), 0));
        }
        let mut entry = entry(1, b"name\0");
        entry.open().1.reply(Err(Errno::NOENT)).unwrap();
        assert_eq!(sent(entry).0.error, -Errno::NOENT.raw_os_error());
    }
}
