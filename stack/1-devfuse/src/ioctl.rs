//! The one call of the device that `rustix` has no function for.

use std::fs::File;
use std::io;

/// Makes `new` a descriptor of the mount of descriptor `number` (`FUSE_DEV_IOC_CLONE`).
#[allow(unsafe_code)]
pub(crate) fn attach(new: &File, number: i32) -> io::Result<()> {
    const CLONE: rustix::ioctl::Opcode = rustix::ioctl::opcode::read::<u32>(229, 0);
    let number = u32::try_from(number).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the call reads a u32, the number of a descriptor, through the pointer that it gets.
    unsafe {
        let clone = rustix::ioctl::Setter::<CLONE, u32>::new(number);
        rustix::ioctl::ioctl(new, clone)?;
    }
    Ok(())
}
