//! Finds the superblock that a volume is opened by: the primary, an alternative copy of the primary
//! from a redundant device, or the superblock of another group.

use xfskit_block::BlockDevice;
use xfskit_format::Corruption;
use xfskit_format::sb::{SbError, Superblock};
use xfskit_format::sb_search::{self, Rebuilt, Source};
use xfskit_trans::heal::read_alternative;
use xfskit_units::{AgNumber, ByteOffset};

use crate::error::{Error, Result};

/// A superblock, and how it was found.
#[derive(Clone, Debug)]
pub struct FoundSuperblock {
    /// The superblock.
    pub sb: Superblock,
    /// The corruption of the primary as first read, if an alternative copy from the device was
    /// used.
    pub healed: Option<Box<Corruption>>,
    /// The secondary superblock that was used instead, if the primary is damaged.
    pub secondary: Option<SecondarySuperblock>,
}

/// A secondary superblock that is read in place of the primary.
#[derive(Clone, Debug)]
pub struct SecondarySuperblock {
    /// The corruption of the primary.
    pub corruption: Box<Corruption>,
    /// The group of the secondary superblock.
    pub agno: AgNumber,
    /// Number of secondary superblocks that agree with it, itself included.
    pub agreeing: u32,
    /// Number of secondary superblocks that were compared.
    pub compared: u32,
}

/// Returns the superblock for reading. If the primary is damaged, it is rebuilt from a secondary.
///
/// # Errors
/// [`Error::Device`]; [`Error::Superblock`] if this is not XFS or needs a newer reader.
pub fn find_superblock(dev: &dyn BlockDevice) -> Result<FoundSuperblock> {
    let error = match read_healed_superblock(dev) {
        Ok((sb, healed)) => return Ok(FoundSuperblock { sb, healed, secondary: None }),
        Err(error) => error,
    };
    let Error::Superblock(damage) = &error else { return Err(error) };
    let Some(Rebuilt { sb, agno, agreeing, compared }) = copy_for(dev, damage) else {
        return Err(error);
    };
    let secondary =
        SecondarySuperblock { corruption: damage.corruption(), agno, agreeing, compared };
    Ok(FoundSuperblock { sb, healed: None, secondary: Some(secondary) })
}

/// Returns the primary superblock for writing. A damaged one is not overwritten, because a
/// secondary may be older than the journal.
///
/// # Errors
/// As [`read_superblock`]; [`Error::PrimaryDamaged`] if there is a secondary to read by.
pub(crate) fn superblock_to_write(dev: &dyn BlockDevice) -> Result<Superblock> {
    read_superblock(dev).map_err(|error| match &error {
        Error::Superblock(damage) => match copy_for(dev, damage) {
            Some(copy) => Error::PrimaryDamaged { fault: damage.corruption(), agno: copy.agno },
            None => error,
        },
        _ => error,
    })
}

/// Returns a secondary for a damaged primary. Returns `None` if the primary is intact but refused.
fn copy_for(dev: &dyn BlockDevice, damage: &SbError) -> Option<Rebuilt> {
    let is_damage = match damage {
        SbError::NotXfs { .. } | SbError::Version(_) => true,
        // An interrupted mkfs leaves secondaries of a volume that does not exist.
        SbError::Corrupt(fault) => fault.check.0 != "sb.inprogress",
        SbError::UnknownFeature { .. } | SbError::Unsupported(_) => false,
    };
    let source = Source {
        size: dev.size().0,
        read: &|offset, buf| dev.read_at(ByteOffset(offset), buf).is_ok(),
        skip_hole: &|offset| dev.skip_hole(ByteOffset(offset)).0,
    };
    is_damage.then(|| sb_search::find_copy(&source)).flatten()
}

/// Reads and verifies the primary superblock. If it fails, alternative copies from the device are
/// tried.
///
/// # Errors
/// [`Error::Device`] and [`Error::Superblock`].
pub fn read_superblock(dev: &dyn BlockDevice) -> Result<Superblock> {
    read_healed_superblock(dev).map(|(sb, _)| sb)
}

/// Returns the primary superblock as first read. The sector size is only known after reading the
/// start of it.
fn read_first_superblock(dev: &dyn BlockDevice) -> Result<Superblock> {
    let mut first = vec![0; 512];
    if dev.size().0 < first.len() as u64 {
        return Err(SbError::NotXfs { found: 0 }.into());
    }
    dev.read_at(ByteOffset(0), &mut first)?;
    let mut sector = vec![0; verify_first(&first)?];
    dev.read_at(ByteOffset(0), &mut sector)?;
    Ok(Superblock::verify(&sector, AgNumber(0))?.clone())
}

/// Returns the length of a superblock in bytes, from its start.
fn verify_first(first: &[u8]) -> Result<usize> {
    let sb = Superblock::parse(first).ok_or(SbError::NotXfs { found: 0 })?;
    sb.check_readable()?;
    Ok(usize::from(sb.sectsize.get()).clamp(512, 32768))
}

/// Reads the superblock like [`read_superblock`], and returns the first corruption if an
/// alternative copy was used.
fn read_healed_superblock(dev: &dyn BlockDevice) -> Result<(Superblock, Option<Box<Corruption>>)> {
    let error = match read_first_superblock(dev) {
        Ok(sb) => return Ok((sb, None)),
        Err(error) => error,
    };
    let fault = match &error {
        Error::Superblock(error) => error.corruption(),
        _ => return Err(error),
    };
    let mut first = vec![0; 512];
    if !read_alternative(dev, ByteOffset(0), &mut first, |first| verify_first(first).is_ok()) {
        return Err(error);
    }
    let mut sector = vec![0; verify_first(&first)?];
    let sound = |sector: &[u8]| Superblock::verify(sector, AgNumber(0)).is_ok();
    if !read_alternative(dev, ByteOffset(0), &mut sector, sound) {
        return Err(error);
    }
    Ok((Superblock::verify(&sector, AgNumber(0))?.clone(), Some(fault)))
}
