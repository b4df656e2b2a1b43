//! A driver without a filesystem: the cost of the workload itself.

use std::io;

use super::{Driver, Kind, Space, Stat};

/// Every call returns at once without an effect. Directories are empty; files read as zeroes
/// without end.
#[derive(Clone, Copy, Debug, Default)]
pub struct Null;

impl Driver for Null {
    type Dir = ();
    type File<'d> = ();

    fn name(&self) -> &'static str {
        "harness alone"
    }

    fn storage(&self) -> &'static str {
        "nothing"
    }

    fn root(&self) -> io::Result<()> {
        Ok(())
    }

    fn open_dir(&self, (): &(), _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn make_dir(&self, (): &(), _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn create(&self, (): &(), _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn open(&self, (): &(), _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn close(&self, (): ()) -> io::Result<()> {
        Ok(())
    }

    fn read(&self, (): &(), _: u64, buf: &mut [u8]) -> io::Result<usize> {
        Ok(buf.len())
    }

    fn write(&self, (): &(), _: u64, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&self, (): &(), _: u64) -> io::Result<()> {
        Ok(())
    }

    fn fsync(&self, (): &()) -> io::Result<()> {
        Ok(())
    }

    fn fstat(&self, (): &()) -> io::Result<Stat> {
        Ok(Stat { ino: 1, kind: Kind::File, size: 0, nlink: 1, ctime: 0 })
    }

    fn set_times(&self, (): &(), _: i64, _: i64) -> io::Result<()> {
        Ok(())
    }

    fn stat(&self, (): &(), _: &[u8]) -> io::Result<Stat> {
        self.fstat(&())
    }

    fn read_dir(&self, (): &(), _: &mut dyn FnMut(&[u8], Kind)) -> io::Result<()> {
        Ok(())
    }

    fn rename(&self, (): &(), _: &[u8], (): &(), _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn link(&self, (): &(), _: &[u8], (): &(), _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn unlink(&self, (): &(), _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn remove_dir(&self, (): &(), _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn sync_dir(&self, (): &()) -> io::Result<()> {
        Ok(())
    }

    fn set_xattr(&self, (): &(), _: &[u8], _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn remove_xattr(&self, (): &(), _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn xattr(&self, (): &(), _: &[u8], _: &mut [u8]) -> io::Result<usize> {
        Ok(0)
    }

    fn space(&self) -> io::Result<Space> {
        Ok(Space { total: 1, free: 1 })
    }

    fn bulkstat(&self, _: usize) -> io::Result<u64> {
        Ok(0)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn drop_caches(&mut self) -> io::Result<()> {
        Ok(())
    }
}
