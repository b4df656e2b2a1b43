//! Damaged blocks and inodes, given back from the journal.
//!
//! The journal holds all changes since it last came around, also those that are in place. Its
//! parts of a block that cannot be used are evidence before all else: they are the block itself,
//! with the names, attributes and maps in it. The block is taken only if it is sound and belongs
//! where it is, and the volume is surveyed again with it. A journal that is cut at damaged records
//! is no evidence: newer changes may be among those that are lost.

use std::collections::{BTreeMap, BTreeSet};

use xfskit_block::BlockDevice;
use xfskit_check::Finding;
use xfskit_format::log::item::Item;
use xfskit_format::log::item::buf::Buf;
use xfskit_format::{Corruption, Location};
use xfskit_units::{ByteOffset, Daddr, Ino, Lsn};

use crate::block_copy::BlockCopy;
use crate::error::Result;
use crate::inode_copy::{self, InodeCopy};
use crate::journal_items;
use crate::plan::{Plan, Step, StepKind};
use crate::view::View;

/// Blocks and inodes that one pass over the journal looks for: they are kept in memory.
const WANTED_MAX: usize = 1 << 13;

/// The journal, and what was looked for in it.
pub(crate) struct JournalCopies<'r> {
    /// The volume with its journal; `None` if it is no evidence.
    journal: Option<&'r dyn BlockDevice>,
    tried: BTreeSet<Place>,
}

/// What a copy is wanted of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Block(Daddr),
    Inode(Ino),
}

/// A damaged block or inode, and what the journal has of it.
struct Wanted {
    at: Location,
    findings: Vec<Finding>,
    copy: Option<Copy>,
}

enum Copy {
    Block(BlockCopy),
    Inode(InodeCopy),
}

/// A block or an inode that is given back.
struct Given {
    at: ByteOffset,
    bytes: Vec<u8>,
    evidence: Vec<String>,
}

impl<'r> JournalCopies<'r> {
    /// Returns copies in the journal of a volume as it was found, if that is evidence.
    pub(crate) fn new(journal: Option<&'r dyn BlockDevice>) -> Self {
        Self { journal, tried: BTreeSet::new() }
    }

    /// Returns the volume with its journal, if that is evidence.
    pub(crate) fn journal(&self) -> Option<&'r dyn BlockDevice> {
        self.journal
    }

    /// Gives the blocks and inodes back that `findings` name and the journal has. Returns true if
    /// there were some: the volume is to be surveyed again.
    pub(crate) fn restore<'f>(
        &mut self,
        view: View<'_>,
        dev: &dyn BlockDevice,
        findings: impl Iterator<Item = &'f Finding>,
        plan: &mut Plan,
    ) -> Result<bool> {
        let Some(journal) = self.journal else { return Ok(false) };
        let mut wanted = self.wanted(view, findings)?.into_iter();
        let before = plan.steps.len();
        loop {
            let mut some: BTreeMap<Place, Wanted> = wanted.by_ref().take(WANTED_MAX).collect();
            if some.is_empty() {
                return Ok(plan.steps.len() > before);
            }
            collect(journal, view, &mut some)?;
            for (place, wanted) in some {
                let Some(given) = wanted.given(place, view) else { continue };
                dev.write_at(given.at, &given.bytes)?;
                plan.steps.push(wanted.step(place, given));
            }
        }
    }

    /// Returns the blocks and inodes that findings name, and that were not looked for yet.
    fn wanted<'f>(
        &mut self,
        view: View<'_>,
        findings: impl Iterator<Item = &'f Finding>,
    ) -> Result<BTreeMap<Place, Wanted>> {
        let mut wanted: BTreeMap<Place, Wanted> = BTreeMap::new();
        for finding in findings {
            let Some(place) = Place::of(&finding.corruption) else { continue };
            if let Some(known) = wanted.get_mut(&place) {
                known.findings.push(finding.clone());
                continue;
            }
            if !self.tried.insert(place) {
                continue;
            }
            let copy = match place {
                Place::Block(_) => None,
                Place::Inode(ino) => match damaged_inode(view, ino)? {
                    Some(disk) => Some(Copy::Inode(InodeCopy::new(disk))),
                    None => continue,
                },
            };
            let at = Location { index: None, ..finding.corruption.at };
            wanted.insert(place, Wanted { at, findings: vec![finding.clone()], copy });
        }
        Ok(wanted)
    }
}

/// Inodes that are looked for before a replay.
const LOST_MAX: usize = 1 << 16;

/// Gives the inodes back that the items of a dirty journal are of, and that are lost on the disk: a
/// replay needs them. `view` is that of the volume before the replay, without a survey. Returns the
/// steps.
pub(crate) fn give_inodes_back(view: View<'_>, dev: &dyn BlockDevice) -> Result<Vec<Step>> {
    let mut lost: BTreeMap<Ino, Option<InodeCopy>> = BTreeMap::new();
    let mut failed = None;
    journal_items::each(view.dev, view.geo, &mut |item, lsn, ctx| {
        let Item::Inode(item) = item else { return };
        let ino = item.ino();
        if !lost.contains_key(&ino) && lost.len() < LOST_MAX {
            let found = view.inode(ino).map_err(|error| failed = Some(error)).ok().flatten();
            let is_lost = |bytes: &Vec<u8>| !inode_copy::is_own(bytes, view, ino);
            lost.insert(ino, found.filter(is_lost).map(InodeCopy::new));
        }
        if let Some(Some(copy)) = lost.get_mut(&ino) {
            copy.take(item, lsn, ctx);
        }
    })?;
    failed.map_or(Ok(()), Err)?;
    let mut steps = Vec::new();
    for (ino, copy) in lost {
        let place = Place::Inode(ino);
        let at = xfskit_format::inode::location(view.geo, ino);
        let wanted = Wanted { at, findings: Vec::new(), copy: copy.map(Copy::Inode) };
        if let Some(given) = wanted.given(place, view) {
            dev.write_at(given.at, &given.bytes)?;
            steps.push(wanted.step(place, given));
        }
    }
    Ok(steps)
}

/// Returns the bytes of an inode that is in use and cannot be used as it is.
fn damaged_inode(view: View<'_>, ino: Ino) -> Result<Option<Vec<u8>>> {
    if !view.is_used(ino) {
        return Ok(None);
    }
    Ok(view.inode(ino)?.filter(|bytes| !inode_copy::is_own(bytes, view, ino)))
}

/// Collects what the journal has of what is wanted.
fn collect(
    journal: &dyn BlockDevice,
    view: View<'_>,
    wanted: &mut BTreeMap<Place, Wanted>,
) -> Result<()> {
    let mut failed = None;
    journal_items::each(journal, view.geo, &mut |item, lsn, ctx| match item {
        Item::Buf(buf) => {
            if let Some(wanted) = wanted.get_mut(&Place::Block(buf.daddr())) {
                failed = failed.take().or(wanted.take_block(view, buf, lsn).err());
            }
        }
        Item::Inode(inode) => {
            let wanted = wanted.get_mut(&Place::Inode(inode.ino()));
            if let Some(Wanted { copy: Some(Copy::Inode(copy)), .. }) = wanted {
                copy.take(inode, lsn, ctx);
            }
        }
        _ => {}
    })?;
    failed.map_or(Ok(()), Err)
}

impl Place {
    /// Returns what a finding is about, if it may be a block or an inode that cannot be used.
    fn of(corruption: &Corruption) -> Option<Self> {
        let at = &corruption.at;
        match (at.what, at.ino, at.daddr) {
            ("inode", Some(ino), _) => Some(Self::Inode(ino)),
            ("inode", None, _) => None,
            (_, _, daddr) => daddr.map(Self::Block),
        }
    }

    /// Returns a name for its step.
    fn id(self) -> String {
        match self {
            Self::Block(daddr) => format!("copy.block.{daddr}"),
            Self::Inode(ino) => format!("copy.inode.{ino}"),
        }
    }
}

impl Wanted {
    /// Takes what an item has of the block.
    fn take_block(&mut self, view: View<'_>, buf: &Buf<'_>, lsn: Lsn) -> Result<()> {
        if buf.is_cancel() {
            self.copy = None;
            return Ok(());
        }
        if buf.is_unlinked() || buf.is_dquot() {
            return Ok(());
        }
        let known = match self.copy.take() {
            Some(Copy::Block(copy)) if copy.is_of(buf) => Some(copy),
            _ => None,
        };
        let mut copy = known.map_or_else(|| BlockCopy::new(view, buf), Ok)?;
        copy.take(buf, lsn);
        self.copy = Some(Copy::Block(copy));
        Ok(())
    }

    /// Returns what is given back, if the journal has it.
    fn given(&self, place: Place, view: View<'_>) -> Option<Given> {
        let (at, (bytes, why), lsn) = match (place, self.copy.as_ref()?) {
            (Place::Block(daddr), Copy::Block(copy)) => {
                (daddr.byte_offset(), copy.sound(self.at, view.geo)?, copy.lsn)
            }
            (Place::Inode(ino), Copy::Inode(copy)) => {
                (view.geo.ino_to_byte(ino)?, copy.sound(view, ino)?, copy.lsn)
            }
            _ => return None,
        };
        let newest = format!("its newest change in the journal is of transaction {lsn}");
        Some(Given { at, bytes, evidence: vec![newest, why.into()] })
    }

    fn step(self, place: Place, given: Given) -> Step {
        Step {
            id: place.id(),
            kind: StepKind::Copy,
            what: format!("give {} back as the journal has it", self.at),
            evidence: given.evidence,
            lost: Vec::new(),
            findings: self.findings,
            path: None,
        }
    }
}
