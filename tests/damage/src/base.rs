//! The volume without damage, and copies of it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use xfskit_format::sb::Superblock;
use xfskit_units::Geometry;

/// Bytes of a piece; pieces of zeroes are holes.
const PIECE: usize = 4096;

/// A volume in memory, without its holes.
#[derive(Debug)]
pub struct Base {
    path: PathBuf,
    file: File,
    len: u64,
    /// Runs of pieces with data: byte of the volume, content.
    runs: Vec<(u64, Vec<u8>)>,
    /// The geometry of the volume.
    pub geo: Geometry,
}

impl Base {
    /// Reads the volume in the file.
    ///
    /// # Errors
    /// Reading it, or it is no volume.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = |why: std::io::Error| format!("{}: {why}", path.display());
        let file = File::open(path).map_err(text)?;
        let len = file.metadata().map_err(text)?.len();
        let mut sector = [0; 512];
        file.read_exact_at(&mut sector, 0).map_err(text)?;
        let geo = Superblock::parse(&sector).ok_or("no superblock")?.geometry();
        let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
        let mut piece = [0; PIECE];
        for at in (0..len).step_by(PIECE) {
            file.read_exact_at(&mut piece, at).map_err(text)?;
            if piece == [0; PIECE] {
                continue;
            }
            match runs.last_mut() {
                Some((start, run)) if *start + run.len() as u64 == at => run.extend(piece),
                _ => runs.push((at, piece.to_vec())),
            }
        }
        Ok(Self { path: path.to_owned(), file, len, runs, geo })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns `len` bytes at byte `offset`.
    ///
    /// # Errors
    /// Reading them.
    pub fn bytes(&self, offset: u64, len: usize) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; len];
        let read = self.file.read_exact_at(&mut bytes, offset);
        read.map(|()| bytes).map_err(|why| format!("byte {offset}: {why}"))
    }

    /// Writes a copy to `path`, with `bytes` at byte `offset`.
    ///
    /// # Errors
    /// Writing it.
    pub fn copy_with(&self, path: &Path, offset: u64, bytes: &[u8]) -> Result<(), String> {
        let write = || {
            let file = File::create(path)?;
            file.set_len(self.len)?;
            self.runs.iter().try_for_each(|(at, run)| file.write_all_at(run, *at))?;
            file.write_all_at(bytes, offset)
        };
        write().map_err(|why| format!("{}: {why}", path.display()))
    }
}
