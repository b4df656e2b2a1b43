//! A request, parsed.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::message::{
    BatchForgetIn, CopyFileRangeIn, CreateIn, FallocateIn, ForgetIn, ForgetOne, GetxattrIn,
    InHeader, InitIn, IoctlIn, LinkIn, LseekIn, MkdirIn, MknodIn, Opcode, OpenIn, ReadIn,
    Rename2In, RenameIn, SetattrIn, SetxattrIn, StatxIn, WriteIn,
};

/// One request of the kernel.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Its number, inode and caller.
    pub header: InHeader,
    /// Its kind and arguments.
    pub operation: Operation<'a>,
}

/// The kind of a request, with its arguments.
#[derive(Clone, Debug)]
#[allow(missing_docs)] // the fields are those of the protocol
pub enum Operation<'a> {
    Lookup {
        name: &'a [u8],
    },
    Forget(ForgetIn),
    BatchForget(Forgets<'a>),
    Getattr,
    Setattr(SetattrIn),
    Readlink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    Mknod {
        arg: MknodIn,
        name: &'a [u8],
    },
    Mkdir {
        arg: MkdirIn,
        name: &'a [u8],
    },
    Unlink {
        name: &'a [u8],
    },
    Rmdir {
        name: &'a [u8],
    },
    Rename {
        arg: Rename2In,
        name: &'a [u8],
        new_name: &'a [u8],
    },
    Link {
        arg: LinkIn,
        name: &'a [u8],
    },
    Open(OpenIn),
    Create {
        arg: CreateIn,
        name: &'a [u8],
    },
    /// A file without a name in a directory (`O_TMPFILE`).
    Tmpfile(CreateIn),
    Read(ReadIn),
    Write {
        arg: WriteIn,
        data: &'a [u8],
    },
    Statfs,
    Release,
    Fsync,
    Fsyncdir,
    /// sync(2) and syncfs(2) of the whole filesystem.
    Syncfs,
    Setxattr {
        arg: SetxattrIn,
        name: &'a [u8],
        value: &'a [u8],
    },
    Getxattr {
        arg: GetxattrIn,
        name: &'a [u8],
    },
    Listxattr(GetxattrIn),
    Removexattr {
        name: &'a [u8],
    },
    Flush,
    Init(InitIn),
    Opendir,
    Readdir(ReadIn),
    Readdirplus(ReadIn),
    Releasedir,
    Interrupt,
    Destroy,
    Ioctl {
        arg: IoctlIn,
        argument: &'a [u8],
    },
    Fallocate(FallocateIn),
    Lseek(LseekIn),
    CopyFileRange(CopyFileRangeIn),
    Statx(StatxIn),
    /// One that is not known here.
    Unknown(u32),
}

impl<'a> Request<'a> {
    /// Parses `message`; `None` if it is shorter than it should be. A kernel never sends such.
    pub fn parse(message: &'a [u8]) -> Option<Self> {
        let (header, rest) = InHeader::read_from_prefix(message).ok()?;
        Self::of(header, None, rest)
    }

    /// Parses a request of a ring: its header, the structure of its operation, and the rest are
    /// apart from each other. `None` as of [`parse`](Self::parse).
    pub(crate) fn parse_parts(head: &[u8], structure: &'a [u8], rest: &'a [u8]) -> Option<Self> {
        let (header, _) = InHeader::read_from_prefix(head).ok()?;
        Self::of(header, Some(structure), rest)
    }

    fn of(header: InHeader, structure: Option<&'a [u8]>, rest: &'a [u8]) -> Option<Self> {
        let extension = usize::from(header.total_extlen).checked_mul(8)?;
        let rest = rest.get(..rest.len().checked_sub(extension)?)?;
        let operation = match Opcode::from_code(header.opcode) {
            Some(opcode) => parse_body(opcode, Arguments { structure, rest })?,
            None => Operation::Unknown(header.opcode),
        };
        Some(Self { header, operation })
    }
}

fn parse_body(opcode: Opcode, mut of: Arguments<'_>) -> Option<Operation<'_>> {
    Some(match opcode {
        Opcode::Lookup => Operation::Lookup { name: of.name()? },
        Opcode::Forget => Operation::Forget(of.take()?),
        Opcode::BatchForget => {
            let BatchForgetIn { count, .. } = of.take()?;
            Operation::BatchForget(Forgets { left: count, bytes: of.rest })
        }
        Opcode::Getattr => Operation::Getattr,
        Opcode::Setattr => Operation::Setattr(of.take()?),
        Opcode::Readlink => Operation::Readlink,
        Opcode::Symlink => Operation::Symlink { name: of.name()?, target: of.name()? },
        Opcode::Mknod => Operation::Mknod { arg: of.take()?, name: of.name()? },
        Opcode::Mkdir => Operation::Mkdir { arg: of.take()?, name: of.name()? },
        Opcode::Unlink => Operation::Unlink { name: of.name()? },
        Opcode::Rmdir => Operation::Rmdir { name: of.name()? },
        Opcode::Rename => {
            let RenameIn { newdir } = of.take()?;
            let arg = Rename2In { newdir, ..Rename2In::default() };
            Operation::Rename { arg, name: of.name()?, new_name: of.name()? }
        }
        Opcode::Rename2 => {
            Operation::Rename { arg: of.take()?, name: of.name()?, new_name: of.name()? }
        }
        Opcode::Link => Operation::Link { arg: of.take()?, name: of.name()? },
        Opcode::Open => Operation::Open(of.take()?),
        Opcode::Create => Operation::Create { arg: of.take()?, name: of.name()? },
        Opcode::Tmpfile => Operation::Tmpfile(of.take()?),
        Opcode::Read => Operation::Read(of.take()?),
        Opcode::Write => {
            let arg: WriteIn = of.take()?;
            Operation::Write { arg, data: of.bytes(arg.size)? }
        }
        Opcode::Statfs => Operation::Statfs,
        Opcode::Release => Operation::Release,
        Opcode::Fsync => Operation::Fsync,
        Opcode::Fsyncdir => Operation::Fsyncdir,
        Opcode::Syncfs => Operation::Syncfs,
        Opcode::Setxattr => {
            let arg: SetxattrIn = of.take()?;
            Operation::Setxattr { arg, name: of.name()?, value: of.bytes(arg.size)? }
        }
        Opcode::Getxattr => Operation::Getxattr { arg: of.take()?, name: of.name()? },
        Opcode::Listxattr => Operation::Listxattr(of.take()?),
        Opcode::Removexattr => Operation::Removexattr { name: of.name()? },
        Opcode::Flush => Operation::Flush,
        Opcode::Init => Operation::Init(of.take_short()),
        Opcode::Opendir => Operation::Opendir,
        Opcode::Readdir => Operation::Readdir(of.take()?),
        Opcode::Readdirplus => Operation::Readdirplus(of.take()?),
        Opcode::Releasedir => Operation::Releasedir,
        Opcode::Interrupt => Operation::Interrupt,
        Opcode::Destroy => Operation::Destroy,
        Opcode::Ioctl => {
            let arg: IoctlIn = of.take()?;
            Operation::Ioctl { arg, argument: of.bytes(arg.in_size)? }
        }
        Opcode::Fallocate => Operation::Fallocate(of.take()?),
        Opcode::Lseek => Operation::Lseek(of.take()?),
        Opcode::CopyFileRange => Operation::CopyFileRange(of.take()?),
        Opcode::Statx => Operation::Statx(of.take()?),
    })
}

/// The arguments of a request that are not parsed yet.
struct Arguments<'a> {
    /// The structure that comes first, if it is apart from the rest.
    structure: Option<&'a [u8]>,
    rest: &'a [u8],
}

impl<'a> Arguments<'a> {
    /// Returns the structure that comes next.
    fn take<T: FromBytes + KnownLayout + Immutable>(&mut self) -> Option<T> {
        if let Some(structure) = self.structure.take() {
            return T::read_from_prefix(structure).ok().map(|(value, _)| value);
        }
        let (value, rest) = T::read_from_prefix(self.rest).ok()?;
        self.rest = rest;
        Some(value)
    }

    /// … of which an older kernel sends the first fields.
    fn take_short<T: FromBytes + zerocopy::IntoBytes + Default>(&mut self) -> T {
        let mut value = T::default();
        let len = self.rest.len().min(size_of::<T>());
        value.as_mut_bytes()[..len].copy_from_slice(&self.rest[..len]);
        self.rest = &self.rest[len..];
        value
    }

    /// Returns the bytes before the next NUL.
    fn name(&mut self) -> Option<&'a [u8]> {
        let end = self.rest.iter().position(|&byte| byte == 0)?;
        let name = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        Some(name)
    }

    fn bytes(&mut self, len: u32) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(usize::try_from(len).ok()?)?;
        self.rest = rest;
        Some(bytes)
    }
}

/// The inodes of a request to forget many.
#[derive(Clone, Debug)]
pub struct Forgets<'a> {
    left: u32,
    bytes: &'a [u8],
}

impl Iterator for Forgets<'_> {
    type Item = ForgetOne;

    fn next(&mut self) -> Option<ForgetOne> {
        self.left = self.left.checked_sub(1)?;
        let (one, rest) = ForgetOne::read_from_prefix(self.bytes).ok()?;
        self.bytes = rest;
        Some(one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::IntoBytes;

    fn message(opcode: u32, body: &[u8]) -> Vec<u8> {
        let header = InHeader { opcode, unique: 7, nodeid: 2, ..InHeader::default() };
        [header.as_bytes(), body].concat()
    }

    #[test]
    fn names_end_at_a_nul() {
        let bytes = message(6, b"link\0target\0");
        let request = Request::parse(&bytes).unwrap();
        assert_eq!((request.header.unique, request.header.nodeid), (7, 2));
        let Operation::Symlink { name, target } = request.operation else { panic!("{request:?}") };
        assert_eq!((name, target), (&b"link"[..], &b"target"[..]));
        assert!(Request::parse(&message(6, b"link\0target")).is_none());
    }

    #[test]
    fn data_that_are_announced_must_be_there() {
        let arg = WriteIn { size: 4, offset: 9, ..WriteIn::default() };
        let bytes = message(16, &[arg.as_bytes(), b"data"].concat());
        let Operation::Write { arg, data } = Request::parse(&bytes).unwrap().operation else {
            panic!("no write")
        };
        assert_eq!((arg.offset, data), (9, &b"data"[..]));
        assert!(Request::parse(&bytes[..bytes.len() - 1]).is_none());
    }

    #[test]
    fn the_structure_of_a_request_may_be_apart_from_its_names() {
        let head = message(8, b"");
        let arg = MknodIn { mode: 0o644, ..MknodIn::default() };
        let structure = [arg.as_bytes(), &[0xff; 112]].concat();
        let request = Request::parse_parts(&head, &structure, b"name\0").unwrap();
        let Operation::Mknod { arg, name } = request.operation else { panic!("no mknod") };
        assert_eq!((arg.mode, name), (0o644, &b"name"[..]));
        assert!(Request::parse_parts(&head, &structure, b"name").is_none());
        let request = Request::parse_parts(&message(1, b""), &structure, b"name\0").unwrap();
        assert!(matches!(request.operation, Operation::Lookup { name: b"name" }));
    }

    #[test]
    fn short_and_unknown_requests_are_no_panic() {
        for opcode in 0..60 {
            for len in 0..100 {
                let _ = Request::parse(&message(opcode, &vec![0; len]));
            }
        }
        let unknown = message(9999, b"");
        let request = Request::parse(&unknown).unwrap();
        assert!(matches!(request.operation, Operation::Unknown(9999)));
        assert!(Request::parse(&[0; 39]).is_none());
    }

    #[test]
    fn batches_end_where_their_bytes_end() {
        let two = [ForgetOne { nodeid: 3, nlookup: 1 }, ForgetOne { nodeid: 4, nlookup: 2 }];
        let count = BatchForgetIn { count: 1_000_000, dummy: 0 };
        let bytes = message(42, &[count.as_bytes(), two.as_bytes()].concat());
        let Operation::BatchForget(forgets) = Request::parse(&bytes).unwrap().operation else {
            panic!("no batch")
        };
        let nodes: Vec<_> = forgets.map(|one| (one.nodeid, one.nlookup)).collect();
        assert_eq!(nodes, [(3, 1), (4, 2)]);
    }

    #[test]
    fn an_old_kernel_begins_without_the_second_word_of_features() {
        let bytes = message(26, &[7, 0, 0, 0, 31, 0, 0, 0, 0, 0, 2, 0, 1, 0, 0, 0]);
        let Operation::Init(init) = Request::parse(&bytes).unwrap().operation else {
            panic!("no init")
        };
        assert_eq!((init.major, init.minor, init.flags, init.flags2), (7, 31, 1, 0));
    }
}
