//! Fields of the primary superblock, as its copies have them, or as the volume shows them.
//!
//! mkfs writes most fields once, into all copies. Linux changes the others in the primary alone:
//! counters, label, stripe, quota, the bits of `versionnum` for attributes and quota, and the size,
//! which a growing volume has in the primary first. Two sound copies or more that agree outweigh
//! the primary in the former. Of the latter only what contradicts the volume is changed:
//!
//! | fields | the evidence that they are wrong |
//! | --- | --- |
//! | `dblocks`, `agcount` | the AGF of the last group |
//! | `rblocks`, `frextents` and what follows from them | there are no realtime extents |
//! | quota inodes, `qflags` | quota was never on, and no such inode holds dquots |

use xfskit_block::BlockDevice;
use xfskit_check as check;
use xfskit_format::agf::{self, Agf};
use xfskit_format::inode::{self, Dinode};
use xfskit_format::sb::{self, SbError, Superblock};
use xfskit_format::{Ctx, Fork, dquot};
use xfskit_units::features::{Features2, VersionNum};
use xfskit_units::{AgNumber, ByteLen, ByteOffset, Daddr, Geometry, Ino, Version};
use zerocopy::big_endian::{U16, U64};

use crate::error::Result;
use crate::plan::{Step, StepKind};
use crate::superblocks::{is_due, without_mark};

/// Copies that outweigh the primary.
const COPIES_MIN: usize = 2;
/// Bits of `versionnum` that Linux changes in the primary alone.
const OF_PRIMARY: u16 = VersionNum::ATTR.union(VersionNum::QUOTA).union(VersionNum::DALIGN).bits();
/// Bits of `qflags` that account usage: of users, groups, projects.
const ACCOUNTING: u16 = 0x49;
/// Bits of `qflags` that version 5 does not have.
const OLD_FLAGS: u16 = 0x30;
/// A field for an inode number that names none.
const NULLFSINO: u64 = u64::MAX;

/// The primary superblock that a repair uses.
pub(crate) struct Primary {
    pub sb: Superblock,
    /// The step that makes it of what is on the target, if that is another one.
    pub step: Option<Step>,
}

/// Returns the primary superblock, or what a copy of it shows, with all fields right that can be
/// decided.
///
/// # Errors
/// Those of [`check::superblock`]; reading.
pub(crate) fn read(dev: &dyn BlockDevice) -> Result<Primary> {
    let found = match check::superblock(dev) {
        Ok(sb) => sb,
        Err(error @ check::Error::Superblock(SbError::UnknownFeature { .. })) => {
            return without_unknown_features(dev)?.ok_or(error.into());
        }
        Err(error) => return Err(error.into()),
    };
    if found.features().version != Version::V5 {
        return Ok(Primary { sb: found, step: None });
    }
    let copies = copies(dev, &found)?;
    let fixed = Fields::new(&found).made_right(dev, &copies)?;
    Ok(fixed.unwrap_or(Primary { sb: found, step: None }))
}

/// Returns the primary without the features that no reader knows, if the copies do not have them: a
/// feature is written into all of them. An unfinished upgrade has the mark of a due repair.
fn without_unknown_features(dev: &dyn BlockDevice) -> Result<Option<Primary>> {
    let mut sector = vec![0; 512];
    dev.read_at(ByteOffset(0), &mut sector)?;
    let known = check::superblock_copy(dev).filter(|copy| copy.agreeing == copy.compared);
    let (Some(primary), Some(known)) = (Superblock::parse(&sector), known) else {
        return Ok(None);
    };
    if is_due(primary) || known.sb.features().version != Version::V5 {
        return Ok(None);
    }
    let copies = copies_of(dev, &known.sb.geometry())?;
    // Of a primary with a wrong checksum no field can be trusted.
    let size = usize::from(known.sb.sectsize.get());
    let mut sector = vec![0; size];
    dev.read_at(ByteOffset(0), &mut sector)?;
    let is_whole = xfskit_crc::verify(&sector, sb::CRC_OFFSET);
    let mut fields = Fields::new(primary);
    if !is_whole {
        fields.sb = known.sb;
    }
    fields.made_right(dev, &copies)
}

/// Returns the sound copies of the volume of `sb`.
fn copies(dev: &dyn BlockDevice, sb: &Superblock) -> Result<Vec<Superblock>> {
    let mut copies = copies_of(dev, &sb.geometry())?;
    let groups = u64::from(sb.agcount.get()).saturating_sub(1);
    if groups >= COPIES_MIN as u64 && (copies.len() as u64) < groups.div_ceil(2) {
        // The geometry may be wrong that leads to them.
        if let Some(known) = check::superblock_copy(dev) {
            copies = copies_of(dev, &known.sb.geometry())?;
        }
    }
    Ok(copies)
}

/// Returns the sound copies that a volume of this geometry has on `dev`.
fn copies_of(dev: &dyn BlockDevice, geo: &Geometry) -> Result<Vec<Superblock>> {
    let mut copies = Vec::new();
    let mut sector = vec![0; geo.sectsize()];
    for agno in geo.ags().skip(1) {
        let at = sb::location(geo, agno).daddr.map_or(ByteOffset(0), Daddr::byte_offset);
        if at.saturating_plus(ByteLen(sector.len() as u64)).0 > dev.size().0 {
            break;
        }
        dev.read_at(at, &mut sector)?;
        copies.extend(Superblock::verify(&sector, agno).ok().cloned());
    }
    Ok(copies)
}

/// Returns the value that all have, if there is one.
fn agreed<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let value = values.next()?;
    values.all(|other| other == value).then_some(value)
}

/// Returns true for an inode number that names an inode.
fn is_set(ino: U64) -> bool {
    ![0, NULLFSINO].contains(&ino.get())
}

/// A superblock whose fields are made right.
struct Fields<'f> {
    old: &'f Superblock,
    sb: Superblock,
    evidence: Vec<String>,
}

impl<'f> Fields<'f> {
    fn new(old: &'f Superblock) -> Self {
        Self { old, sb: old.clone(), evidence: Vec::new() }
    }

    /// Makes all fields right that can be decided. Returns `None` if that changes nothing, or the
    /// result is not sound.
    fn made_right(
        mut self,
        dev: &dyn BlockDevice,
        copies: &[Superblock],
    ) -> Result<Option<Primary>> {
        self.take_identity(dev, copies)?;
        let copies: Vec<_> = copies.iter().filter(|copy| copy.uuid == self.sb.uuid).collect();
        if copies.len() >= COPIES_MIN {
            let before = self.sb.clone();
            take_sizes(&mut self.sb, &copies);
            take_features(&mut self.sb, &copies);
            self.note(
                &before,
                &format!("all {} copies agree on what mkfs sets once", copies.len()),
            );
            if !self.is_sound() {
                return Ok(None);
            }
            self.take_length(dev, &copies)?;
            self.clear_realtime(&copies);
        }
        if !self.is_sound() {
            return Ok(None);
        }
        if !self.sb.features().metadir() {
            self.clear_free_realtime();
            self.clear_quota(dev)?;
        }
        let names = changed(self.old, &self.sb);
        if names.is_empty() || !self.is_sound() {
            return Ok(None);
        }
        let step = Step {
            id: "superblock.fields".into(),
            kind: StepKind::Superblock,
            what: format!("set {} of the primary superblock", names.join(", ")),
            evidence: self.evidence,
            lost: Vec::new(),
            findings: Vec::new(),
            path: None,
        };
        Ok(Some(Primary { sb: self.sb, step: Some(step) }))
    }

    /// Adds a piece of evidence if something changed since `before`.
    fn note(&mut self, before: &Superblock, evidence: &str) {
        if *before != self.sb {
            self.evidence.push(evidence.to_owned());
        }
    }

    fn is_sound(&self) -> bool {
        Superblock::verify(&self.sb.to_sector(), AgNumber(0)).is_ok()
    }

    /// Takes the UUID of metadata from the copies, if the metadata has that one.
    fn take_identity(&mut self, dev: &dyn BlockDevice, copies: &[Superblock]) -> Result<()> {
        let uuid = agreed(copies.iter().map(|copy| (copy.uuid, copy.geometry().meta_uuid)));
        let enough = copies.len() >= COPIES_MIN;
        let (Some((uuid, meta)), Some(copy)) = (uuid.filter(|_| enough), copies.first()) else {
            return Ok(());
        };
        let before = self.sb.clone();
        let geo = copy.geometry();
        if self.sb.geometry().meta_uuid != meta && has_whole_agf(dev, &geo, AgNumber(0))? {
            (self.sb.uuid, self.sb.meta_uuid) = (uuid, copy.meta_uuid);
        }
        self.note(&before, "the headers of group 0 have the UUID of the copies");
        Ok(())
    }

    /// Takes the length of the volume from the copies, if the AGF of its last group has that one.
    fn take_length(&mut self, dev: &dyn BlockDevice, copies: &[&Superblock]) -> Result<()> {
        let Some((dblocks, agcount)) = agreed(copies.iter().map(|c| (c.dblocks, c.agcount))) else {
            return Ok(());
        };
        let before = self.sb.clone();
        let mut other = self.sb.clone();
        (other.dblocks, other.agcount) = (dblocks, agcount);
        let last = |sb: &Superblock| AgNumber(sb.agcount.get().saturating_sub(1));
        if other != self.sb
            && !has_whole_agf(dev, &self.sb.geometry(), last(&self.sb))?
            && has_whole_agf(dev, &other.geometry(), last(&other))?
        {
            self.sb = other;
        }
        self.note(&before, "the copies agree, and the AGF of the last group");
        Ok(())
    }

    /// Clears the length of a realtime device that no copy has, and that has no extents: a growing
    /// volume sets all of it at once.
    fn clear_realtime(&mut self, copies: &[&Superblock]) {
        let before = self.sb.clone();
        let none = agreed(copies.iter().map(|copy| (copy.rblocks.get(), copy.rextents.get())));
        if none == Some((0, 0)) && self.sb.rextents.get() == 0 && self.sb.rblocks.get() != 0 {
            (self.sb.rblocks, self.sb.rbmblocks, self.sb.rextslog) = (0.into(), 0.into(), 0);
        }
        self.note(&before, "no copy has a realtime device, and there are no realtime extents");
    }

    /// Clears the free extents of a realtime device that the volume does not have.
    fn clear_free_realtime(&mut self) {
        let before = self.sb.clone();
        if self.sb.rblocks.get() == 0 {
            self.sb.frextents = 0.into();
        }
        self.note(&before, "the volume has no realtime device");
    }

    /// Clears quota inodes and flags where quota was never on.
    fn clear_quota(&mut self, dev: &dyn BlockDevice) -> Result<()> {
        let before = self.sb.clone();
        let geo = self.sb.geometry();
        let was_on = self.sb.features().quota();
        let sb = &mut self.sb;
        let mut files = false;
        for field in [&mut sb.uquotino, &mut sb.gquotino, &mut sb.pquotino] {
            if !is_set(*field) {
                continue;
            }
            if was_on || has_dquots(dev, &geo, Ino(field.get()))? {
                files = true;
            } else {
                *field = NULLFSINO.into();
            }
        }
        let flags = sb.qflags.get();
        sb.qflags = if !was_on && !files && flags & (ACCOUNTING | OLD_FLAGS) != 0 {
            U16::ZERO
        } else {
            (flags & !OLD_FLAGS).into()
        };
        self.note(&before, "versionnum says that quota was never on, and no inode holds dquots");
        Ok(())
    }
}

/// Returns true if the AGF of group `agno` is sound, of the length and the UUID of that geometry.
fn has_whole_agf(dev: &dyn BlockDevice, geo: &Geometry, agno: AgNumber) -> Result<bool> {
    let at = agf::location(geo, agno);
    let mut sector = vec![0; geo.sectsize()];
    let offset = at.daddr.map_or(ByteOffset(u64::MAX), Daddr::byte_offset);
    if offset.saturating_plus(ByteLen(sector.len() as u64)).0 > dev.size().0 {
        return Ok(false);
    }
    dev.read_at(offset, &mut sector)?;
    Ok(Agf::verify(&sector, &Ctx::new(geo, at), agno).is_ok())
}

/// Returns true if inode `ino` holds dquots, or is damaged, so that it may.
fn has_dquots(dev: &dyn BlockDevice, geo: &Geometry, ino: Ino) -> Result<bool> {
    let Some(at) = geo.ino_to_byte(ino) else { return Ok(false) };
    let mut bytes = vec![0; geo.inodesize()];
    if at.saturating_plus(ByteLen(bytes.len() as u64)).0 > dev.size().0 {
        return Ok(false);
    }
    dev.read_at(at, &mut bytes)?;
    let Ok(inode) = Dinode::verify(&bytes, &Ctx::new(geo, inode::location(geo, ino)), ino) else {
        let own = Dinode::parse(&bytes, geo).and_then(|inode| inode.v3);
        return Ok(own.is_some_and(|v3| v3.inumber.get() == ino.0));
    };
    let map = check::fork_map(dev, geo, &inode, ino, Fork::Data).extents;
    let first = map.first().and_then(|extent| geo.fsb_to_byte(extent.startblock));
    let Some(first) = first.filter(|_| inode.is_regular()) else { return Ok(false) };
    let mut magic = [0; 2];
    dev.read_at(first, &mut magic)?;
    Ok(magic == dquot::MAGIC.to_be_bytes())
}

/// Takes the sizes and places that mkfs sets once, where all copies agree.
fn take_sizes(sb: &mut Superblock, copies: &[&Superblock]) {
    macro_rules! take {
        ($($field:ident)*) => {$(
            if let Some(value) = agreed(copies.iter().map(|copy| copy.$field)) {
                sb.$field = value;
            }
        )*};
    }
    take!(
        blocksize blocklog sectsize sectlog inodesize inodelog inopblock inopblog dirblklog
        agblocks agblklog rextsize logstart logblocks logsectsize logsectlog logsunit inoalignmt
        spino_align
    );
    // mkfs writes most copies before there is a root directory, and some before the two inodes
    // behind it.
    let roots = copies.iter().map(|copy| copy.rootino).filter(|ino| is_set(*ino));
    sb.rootino = agreed(roots).unwrap_or(sb.rootino);
    if !sb.features().metadir() {
        let root = sb.rootino.get();
        (sb.rbmino, sb.rsumino) = (root.saturating_add(1).into(), root.saturating_add(2).into());
    }
}

/// Takes the feature words, where all copies agree.
fn take_features(sb: &mut Superblock, copies: &[&Superblock]) {
    if let Some(word) = agreed(copies.iter().map(|copy| copy.versionnum.get() & !OF_PRIMARY)) {
        sb.versionnum = (word | sb.versionnum.get() & OF_PRIMARY).into();
    }
    // Version 5 has another place for the bit FTYPE.
    let ftype = Features2::FTYPE.bits();
    if let Some(word) = agreed(copies.iter().map(|copy| copy.features2.get())) {
        if (word ^ sb.features2.get()) & !ftype != 0 {
            sb.features2 = word.into();
        }
        // Linux fills in a copy of zero.
        if sb.bad_features2.get() != 0 {
            sb.bad_features2 = sb.features2;
        }
    }
    if let Some(word) = agreed(copies.iter().map(|copy| copy.features_compat)) {
        sb.features_compat = word;
    }
    // An upgrade writes the primary first, with the mark of a due repair.
    if is_due(sb) {
        return;
    }
    if let Some(word) = agreed(copies.iter().map(|copy| copy.features_ro_compat)) {
        sb.features_ro_compat = word;
    }
    if let Some(word) = agreed(copies.iter().map(|copy| without_mark(copy).features_incompat)) {
        sb.features_incompat = word;
    }
}

/// Returns the names of the fields that differ.
fn changed(old: &Superblock, new: &Superblock) -> Vec<&'static str> {
    let mut names = Vec::new();
    macro_rules! compare {
        ($($field:ident)*) => {$(
            if old.$field != new.$field {
                names.push(stringify!($field));
            }
        )*};
    }
    compare!(
        blocksize dblocks rblocks uuid logstart rootino rbmino rsumino rextsize agblocks agcount
        rbmblocks logblocks versionnum sectsize inodesize inopblock blocklog sectlog inodelog
        inopblog agblklog rextslog frextents uquotino gquotino qflags inoalignmt dirblklog
        logsectlog logsectsize logsunit features2 bad_features2 features_compat features_ro_compat
        features_incompat spino_align pquotino meta_uuid
    );
    names
}
