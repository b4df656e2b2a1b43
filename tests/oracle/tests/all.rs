//! All integration tests of this crate, in one program: it is linked once, and its tests share the
//! processors.

/// Makes one test for each volume, so that they run in parallel and fail by name: each calls
/// `verify_volume` of the module. `TESTED` has the names of the volumes.
macro_rules! volumes {
    ($($test:ident: $name:literal,)*) => {
        #[allow(dead_code)] // some modules take only a part of the matrix
        const TESTED: &[&str] = &[$($name),*];
        $(
            #[test]
            fn $test() {
                verify_volume($name);
            }
        )*
    };
}

mod big;
mod block_devices;
mod build;
mod faults;
mod get;
mod harness;
mod inode_rules;
mod journal_options;
mod locate;
mod logs;
mod metadump;
mod mkfs;
mod orphans;
mod quota;
mod repair;
mod reserve;
mod salvage;
mod undelete;
mod unmounted;
mod uuid;
mod volumes;
