//! A driver for tests. It records all calls, so that two runs with the same seed can be compared,
//! and keeps the names, so that trees can be walked.

use std::collections::BTreeMap;
use std::io;

use parking_lot::Mutex;

use super::{Driver, Kind, Space, Stat};

/// Records every call in order, by the directory or file that it concerns. Threads that work on
/// different ones do not mix.
#[derive(Debug, Default)]
pub(crate) struct Recorder(Mutex<Recorded>);

#[derive(Debug, Default)]
struct Recorded {
    calls: BTreeMap<String, Vec<String>>,
    /// The names in each directory.
    names: BTreeMap<String, BTreeMap<Vec<u8>, Kind>>,
}

impl Recorded {
    fn add(&mut self, dir: &str, name: &[u8], kind: Kind) {
        self.names.entry(dir.into()).or_default().insert(name.into(), kind);
    }

    fn remove(&mut self, dir: &str, name: &[u8]) -> Kind {
        let gone = self.names.get_mut(dir).and_then(|names| names.remove(name));
        gone.unwrap_or(Kind::File)
    }
}

impl Recorder {
    /// Returns the recorded calls.
    pub(crate) fn calls(self) -> BTreeMap<String, Vec<String>> {
        self.0.into_inner().calls
    }

    #[allow(clippy::unnecessary_wraps)] // the result of every call
    fn record(&self, target: &str, call: String) -> io::Result<()> {
        self.0.lock().calls.entry(target.into()).or_default().push(call);
        Ok(())
    }
}

fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

fn join(dir: &str, name: &[u8]) -> String {
    format!("{dir}/{}", lossy(name))
}

impl Driver for Recorder {
    type Dir = String;
    type File<'d> = String;

    fn name(&self) -> &'static str {
        "recorder"
    }

    fn storage(&self) -> &'static str {
        "nothing"
    }

    fn root(&self) -> io::Result<String> {
        Ok(String::new())
    }

    fn open_dir(&self, dir: &String, name: &[u8]) -> io::Result<String> {
        Ok(join(dir, name))
    }

    fn make_dir(&self, dir: &String, name: &[u8]) -> io::Result<()> {
        self.0.lock().add(dir, name, Kind::Directory);
        self.record(dir, format!("mkdir {}", lossy(name)))
    }

    fn create(&self, dir: &String, name: &[u8]) -> io::Result<String> {
        self.0.lock().add(dir, name, Kind::File);
        self.record(dir, format!("create {}", lossy(name)))?;
        Ok(join(dir, name))
    }

    fn open(&self, dir: &String, name: &[u8]) -> io::Result<String> {
        let file = join(dir, name);
        self.record(&file, "open".into())?;
        Ok(file)
    }

    fn close(&self, _: String) -> io::Result<()> {
        Ok(())
    }

    fn read(&self, file: &String, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.record(file, format!("read {offset} {}", buf.len()))?;
        Ok(buf.len())
    }

    fn write(&self, file: &String, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.record(file, format!("write {offset} {}", xfskit_crc::crc32c(bytes)))
    }

    fn truncate(&self, file: &String, size: u64) -> io::Result<()> {
        self.record(file, format!("truncate {size}"))
    }

    fn fsync(&self, file: &String) -> io::Result<()> {
        self.record(file, "fsync".into())
    }

    fn fstat(&self, _: &String) -> io::Result<Stat> {
        Ok(Stat { ino: 1, kind: Kind::File, size: 0, nlink: 1, ctime: 0 })
    }

    fn set_times(&self, file: &String, _: i64, _: i64) -> io::Result<()> {
        self.record(file, "times".into())
    }

    fn stat(&self, dir: &String, name: &[u8]) -> io::Result<Stat> {
        self.record(dir, format!("stat {}", lossy(name)))?;
        self.fstat(dir)
    }

    fn read_dir(&self, dir: &String, each: &mut dyn FnMut(&[u8], Kind)) -> io::Result<()> {
        let names = self.0.lock().names.get(dir).cloned().unwrap_or_default();
        for (name, kind) in &names {
            each(name, *kind);
        }
        self.record(dir, "read_dir".into())
    }

    fn rename(&self, dir: &String, name: &[u8], to: &String, new: &[u8]) -> io::Result<()> {
        let mut recorded = self.0.lock();
        let kind = recorded.remove(dir, name);
        recorded.add(to, new, kind);
        drop(recorded);
        self.record(dir, format!("rename {} {to} {}", lossy(name), lossy(new)))
    }

    fn link(&self, dir: &String, name: &[u8], to: &String, new: &[u8]) -> io::Result<()> {
        self.0.lock().add(to, new, Kind::File);
        self.record(dir, format!("link {} {to} {}", lossy(name), lossy(new)))
    }

    fn unlink(&self, dir: &String, name: &[u8]) -> io::Result<()> {
        self.0.lock().remove(dir, name);
        self.record(dir, format!("unlink {}", lossy(name)))
    }

    fn remove_dir(&self, dir: &String, name: &[u8]) -> io::Result<()> {
        self.0.lock().remove(dir, name);
        self.record(dir, format!("rmdir {}", lossy(name)))
    }

    fn sync_dir(&self, dir: &String) -> io::Result<()> {
        self.record(dir, "fsync".into())
    }

    fn set_xattr(&self, file: &String, name: &[u8], value: &[u8]) -> io::Result<()> {
        self.record(file, format!("set {} {}", lossy(name), xfskit_crc::crc32c(value)))
    }

    fn remove_xattr(&self, file: &String, name: &[u8]) -> io::Result<()> {
        self.record(file, format!("remove {}", lossy(name)))
    }

    fn xattr(&self, file: &String, name: &[u8], _: &mut [u8]) -> io::Result<usize> {
        self.record(file, format!("get {}", lossy(name))).map(|()| 0)
    }

    fn space(&self) -> io::Result<Space> {
        Ok(Space { total: 1, free: 1 })
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn drop_caches(&mut self) -> io::Result<()> {
        Ok(())
    }
}
