//! Files with several names: the first name makes the file, and the others become links to it.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use xfskit_vfs::Ino;

/// The path of each such file's first name. The outer lock is held for a look-up only. The lock of
/// one file is held while it is made, so that a second name waits for the first.
#[derive(Debug, Default)]
pub(crate) struct Links {
    files: Mutex<HashMap<Ino, Arc<Mutex<FirstName>>>>,
}

/// The path below the destination's root, once the file is made.
type FirstName = Option<Vec<u8>>;

impl Links {
    /// Makes a name of file `ino`: calls `make` for the first name (`path` is then kept for the
    /// others) and `link` with the kept path for later ones. If a file could not be made (`None`),
    /// its next name tries again. Returns the bytes written.
    pub(crate) fn name<E>(
        &self,
        ino: Ino,
        path: &[u8],
        make: impl FnOnce() -> Result<Option<u64>, E>,
        link: impl FnOnce(&[u8]) -> Result<u64, E>,
    ) -> Result<u64, E> {
        let slot = {
            let mut files = self.files.lock();
            Arc::clone(files.entry(ino).or_default())
        };
        let mut first = slot.lock();
        if let Some(first) = first.as_deref() {
            return link(first);
        }
        let made = make()?;
        if made.is_some() {
            *first = Some(path.to_vec());
        }
        Ok(made.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_makes_the_file_and_the_others_link_to_it() {
        let links = Links::default();
        let fails = |_: &[u8]| Err("no link expected");
        assert_eq!(links.name(Ino(7), b"lost", || Err("disk full"), fails), Err("disk full"));
        assert_eq!(links.name(Ino(7), b"a", || Ok(Some(5)), fails), Ok(5));
        let mut source = Vec::new();
        let made_again = || Err("made twice");
        links
            .name(Ino(7), b"b", made_again, |first| {
                source = first.to_vec();
                Ok(0)
            })
            .unwrap();
        assert_eq!(source, b"a");
    }
}
