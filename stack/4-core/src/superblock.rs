//! The superblock that a volume is opened by: the primary, the primary in another way that the device has, or a copy.

use xfskit_block::BlockDevice;
use xfskit_format::Corruption;
use xfskit_format::corruption::CheckId;
use xfskit_format::sb::{SbError, Superblock};
use xfskit_format::sb_search::{self, Rebuilt, Source};
use xfskit_trans::heal::read_other_way;
use xfskit_units::{AgNumber, ByteOffset};

use crate::error::{Error, Result};

/// A superblock, and how it was found.
#[derive(Clone, Debug)]
pub struct FoundSuperblock {
    /// The superblock.
    pub sb: Superblock,
    /// What was wrong with the primary as it was read first, where the device had it in another way.
    pub healed: Option<Box<Corruption>>,
    /// The copy that it was made from, where the primary is damaged.
    pub stand_in: Option<StandIn>,
}

/// A copy of the superblock, read in the place of the primary.
#[derive(Clone, Debug)]
pub struct StandIn {
    /// What is wrong with the primary.
    pub fault: Box<Corruption>,
    /// The group that has the copy.
    pub agno: AgNumber,
    /// Copies that agree with it, itself included.
    pub agreeing: u32,
    /// Copies that were compared.
    pub compared: u32,
}

/// The superblock, for reading: where the primary is damaged, made from a copy.
///
/// # Errors
/// [`Error::Device`]; [`Error::Superblock`] for what is no XFS or needs a newer reader.
pub fn find_superblock(dev: &dyn BlockDevice) -> Result<FoundSuperblock> {
    let error = match read_healed_superblock(dev) {
        Ok((sb, healed)) => return Ok(FoundSuperblock { sb, healed, stand_in: None }),
        Err(error) => error,
    };
    let Error::Superblock(damage) = &error else { return Err(error) };
    let Some(Rebuilt { sb, agno, agreeing, compared }) = copy_for(dev, damage) else {
        return Err(error);
    };
    let stand_in = StandIn { fault: damage.corruption(), agno, agreeing, compared };
    Ok(FoundSuperblock { sb, healed: None, stand_in: Some(stand_in) })
}

/// The primary superblock. A damaged one is not written over: a copy may be older than the journal.
///
/// # Errors
/// As [`read_superblock`]; [`Error::PrimaryDamaged`] where there is a copy to read by.
pub(crate) fn superblock_to_write(dev: &dyn BlockDevice) -> Result<Superblock> {
    read_superblock(dev).map_err(|error| match &error {
        Error::Superblock(damage) => match copy_for(dev, damage) {
            Some(copy) => Error::PrimaryDamaged { fault: damage.corruption(), agno: copy.agno },
            None => error,
        },
        _ => error,
    })
}

/// A copy for a primary that is damaged. None for one that says what it is, and is refused for that.
fn copy_for(dev: &dyn BlockDevice, damage: &SbError) -> Option<Rebuilt> {
    let is_damage = match damage {
        SbError::NotXfs { .. } | SbError::Version(_) => true,
        // An mkfs that was interrupted leaves copies of a volume that is not there.
        SbError::Corrupt(fault) => fault.check != CheckId("sb.inprogress"),
        SbError::UnknownFeature { .. } | SbError::Unsupported(_) => false,
    };
    let source = Source {
        size: dev.size().0,
        read: &|offset, buf| dev.read_at(ByteOffset(offset), buf).is_ok(),
        skip_hole: &|offset| dev.skip_hole(ByteOffset(offset)).0,
    };
    is_damage.then(|| sb_search::find_copy(&source)).flatten()
}

/// Reads and judges the primary superblock; one that fails is had in another way, where the device has one.
///
/// # Errors
/// [`Error::Device`] and [`Error::Superblock`].
pub fn read_superblock(dev: &dyn BlockDevice) -> Result<Superblock> {
    read_healed_superblock(dev).map(|(sb, _)| sb)
}

/// The primary superblock as it is read first. Its sector size is only known after a first look.
fn read_first_superblock(dev: &dyn BlockDevice) -> Result<Superblock> {
    let mut first = vec![0; 512];
    dev.read_at(ByteOffset(0), &mut first)?;
    let mut sector = vec![0; judge_first(&first)?];
    dev.read_at(ByteOffset(0), &mut sector)?;
    Ok(Superblock::verify(&sector, AgNumber(0))?.clone())
}

/// What the start of a superblock says of its length, in bytes.
fn judge_first(first: &[u8]) -> Result<usize> {
    let sb = Superblock::parse(first).ok_or(SbError::NotXfs { found: 0 })?;
    sb.check_readable()?;
    Ok(usize::from(sb.sectsize.get()).clamp(512, 32768))
}

/// [`read_superblock`], and the fault of the first way where another one was taken.
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
    if !read_other_way(dev, ByteOffset(0), &mut first, |first| judge_first(first).is_ok()) {
        return Err(error);
    }
    let mut sector = vec![0; judge_first(&first)?];
    let sound = |sector: &[u8]| Superblock::verify(sector, AgNumber(0)).is_ok();
    if !read_other_way(dev, ByteOffset(0), &mut sector, sound) {
        return Err(error);
    }
    Ok((Superblock::verify(&sector, AgNumber(0))?.clone(), Some(fault)))
}
