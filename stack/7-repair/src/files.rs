//! Damaged inodes, and what their forks hold.
//!
//! One call repairs one layer, and the volume is surveyed again: cores and maps first, then blocks
//! that several maps claim, then what the maps lead to, then inodes without a name. So each layer
//! rests on one that is sound.

use std::collections::BTreeSet;

use xfskit_block::BlockDevice;
use xfskit_check::{Finding, ForkMap, KnownChunks};
use xfskit_format::Fork;
use xfskit_format::bmbt::Extent;
use xfskit_format::inode::{self, Dinode, FileType, Format, InodeFlags, InodeFlags2, InodeMut};
use xfskit_format::timestamp::Timestamp;
use xfskit_units::{AgNumber, FsBlock, Ino, Lsn};

use crate::attr_blocks::{self, Assembled};
use crate::chunk_bits;
use crate::core_fields;
use crate::damage::{Damage, Damages};
use crate::error::{Error, Result};
use crate::forks::Writer;
use crate::journal_copies::JournalCopies;
use crate::layer::{Layer, data_content};
use crate::plan::{Plan, Step, StepKind};
use crate::room::Room;
use crate::strays::Strays;
use crate::view::{Link, View, block_of};
use crate::{
    attributes, claims, cuts, dead_entries, directories, links, lost_forks, maps, orphans, remap,
    strays, targets, tree,
};

/// What became of an inode.
enum Mended {
    /// It was changed.
    Step(Box<Step>),
    /// Nothing is wrong with it by itself.
    Unchanged,
    /// It cannot be used.
    BeyondUse,
}

/// Repairs the lowest layer that is damaged. Returns the findings that nothing was done about; all
/// of them, if nothing was done.
pub(crate) fn mend(
    view: View<'_>,
    dev: &dyn BlockDevice,
    (damages, claimed, doubtful): (Damages, Vec<Finding>, &BTreeSet<Ino>),
    known: &mut KnownChunks,
    scanned: &BTreeSet<AgNumber>,
    copies: &JournalCopies<'_>,
    plan: &mut Plan,
) -> Result<(bool, Vec<Finding>)> {
    let kept = kept_extents(view, &damages)?;
    let room = Room::new(view.geo, view.survey, &kept)?;
    let writer = Writer { dev, geo: view.geo, room, written: BTreeSet::new() };
    let mut layer = Layer { view, writer, known, scanned, copies, plan };
    let mut left = Vec::new();
    let (inodes, others) = split(damages, |damage| damage.inode || damage.in_use);
    let (sharing, others) = split(others, |damage| damage.sharing);
    let (names, others) = split(others, |damage| damage.names);
    let (mut contents, orphans) = split(others, Damage::is_of_content);
    let before = layer.plan.steps.len();
    let (unchanged, of_inodes) = layer.inodes(inodes)?;
    contents.extend(unchanged);
    left.extend(of_inodes);
    if layer.plan.steps.len() == before {
        remap::mend(&mut layer, doubtful, &claims::disputants(view))?;
    }
    if layer.plan.steps.len() == before {
        left.extend(cuts::decide(&mut layer, claimed, sharing)?);
    }
    if layer.plan.steps.len() == before {
        left.extend(tree::mend(&mut layer, names)?);
    }
    if layer.plan.steps.len() == before {
        left.extend(layer.contents(contents)?);
    }
    if layer.plan.steps.len() == before {
        left.extend(orphans::attach(&mut layer, orphans)?);
    }
    layer.plan.laid_out.append(&mut layer.writer.written);
    Ok((layer.plan.steps.len() > before, left))
}

/// Splits damages by whether `is_first` is true.
fn split(damages: Damages, is_first: impl Fn(&Damage) -> bool) -> (Damages, Damages) {
    damages.into_iter().partition(|(_, damage)| is_first(damage))
}

/// Returns what can be read of the maps of damaged inodes: those blocks stay theirs.
fn kept_extents(view: View<'_>, damages: &Damages) -> Result<Vec<Extent>> {
    let mut kept = Vec::new();
    for (ino, damage) in damages {
        let Some(bytes) = view.inode(*ino)?.filter(|_| damage.inode) else { continue };
        let Some(inode) = Dinode::parse(&bytes, view.geo) else { continue };
        for fork in [Fork::Data, Fork::Attr] {
            kept.extend(view.map(&inode, *ino, fork).extents);
            kept.extend(view.recorded_map(*ino, fork).into_iter().flatten());
        }
    }
    Ok(kept)
}

impl Layer<'_, '_> {
    /// Repairs cores and maps. Returns the inodes of which only the content is damaged, and the
    /// findings that nothing was done about.
    fn inodes(&mut self, damages: Damages) -> Result<(Damages, Vec<Finding>)> {
        let (mut unchanged, mut left) = (Damages::new(), Vec::new());
        let mut lost: Vec<(Ino, Damage)> = Vec::new();
        for (ino, damage) in damages {
            if damage.in_use {
                self.set_in_use(ino, damage)?;
            } else if damage.inode && !self.view.is_used(ino) {
                self.make_free(ino, damage)?;
            } else if damage.inode {
                match self.inode(ino, &damage, None)? {
                    Mended::Step(step) => self.push(*step, damage),
                    Mended::Unchanged if damage.is_of_content() => {
                        unchanged.insert(ino, damage);
                    }
                    Mended::Unchanged => left.extend(damage.findings),
                    Mended::BeyondUse => lost.push((ino, damage)),
                }
            } else {
                left.extend(damage.findings);
            }
        }
        // The entries that name an inode tell its type, and what is lost with it.
        let wanted: BTreeSet<Ino> = lost.iter().map(|(ino, _)| *ino).collect();
        let mut found = links::of(self.view, &wanted)?;
        for (ino, damage) in lost {
            let names = found.remove(&ino).unwrap_or_default();
            let kind = names.iter().find_map(|link| link.kind);
            let root = ino == self.view.geo.rootino;
            let kind = if root { Some(FileType::Directory) } else { kind };
            let mended = match kind {
                Some(_) => self.inode(ino, &damage, kind)?,
                None => Mended::BeyondUse,
            };
            match mended {
                Mended::Step(step) => self.push(*step, damage),
                Mended::Unchanged => left.extend(damage.findings),
                Mended::BeyondUse if root => self.make_root(damage)?,
                Mended::BeyondUse if self.is_realtime_file(ino) => {
                    self.make_realtime_file(ino, damage)?;
                }
                Mended::BeyondUse if self.is_quota_file(ino) => left.extend(damage.findings),
                Mended::BeyondUse => {
                    let names: Vec<_> = names.iter().map(Link::shown).collect();
                    self.clear(ino, damage, &names)?;
                }
            }
        }
        Ok((unchanged, left))
    }

    /// Returns true for an inode of a group whose inode btrees are lost: that no inode in use was
    /// found there does not mean that there was none.
    fn is_lost_with_group(&self, ino: Ino) -> bool {
        self.view.geo.ino_split(ino).is_some_and(|(agno, _)| self.scanned.contains(&agno))
    }

    fn is_quota_file(&self, ino: Ino) -> bool {
        let sb = &self.view.survey.superblock;
        [sb.uquotino, sb.gquotino, sb.pquotino].iter().any(|quota| quota.get() == ino.0)
    }

    fn is_realtime_file(&self, ino: Ino) -> bool {
        [self.view.geo.rbmino, self.view.geo.rsumino].contains(&Some(ino))
    }

    /// Makes the realtime bitmap or summary of a volume without a realtime device: an empty file.
    fn make_realtime_file(&mut self, ino: Ino, damage: Damage) -> Result<()> {
        let geo = self.view.geo;
        let mut bytes = vec![0; geo.inodesize()];
        inode::template(&mut bytes, geo, ino, 0);
        if let Some(inode) = InodeMut::new(&mut bytes) {
            let core = &mut inode.core.core;
            core.mode = FileType::Regular.mode().into();
            core.format = Format::Extents as u8;
            core.aformat = Format::Extents as u8;
            core.nlinkv2 = 1.into();
            if geo.rbmino == Some(ino) {
                core.flags = InodeFlags::NEWRTBM.bits().into();
            }
            let epoch = orphans::encode(geo, Timestamp::EPOCH);
            (core.atime, core.mtime, core.ctime) = (epoch.into(), epoch.into(), epoch.into());
            inode.core.crtime = epoch.into();
            inode.core.flags2 = InodeFlags2::of_new(&geo.features).bits().into();
        }
        inode::stamp(&mut bytes);
        self.writer.put(geo.ino_to_byte(ino), &bytes)?;
        self.plan.steps.push(Step {
            id: format!("inode.{ino}"),
            kind: StepKind::Inode,
            what: format!("make inode {ino} again, an empty file for the realtime device"),
            evidence: vec!["the superblock names it, and there is no realtime device".into()],
            lost: Vec::new(),
            findings: damage.findings,
            path: None,
        });
        Ok(())
    }

    /// Makes the record of the inode btree say of `ino` what the inode says.
    fn set_in_use(&mut self, ino: Ino, damage: Damage) -> Result<()> {
        let bytes = self.view.inode(ino)?;
        let inode = bytes.as_ref().and_then(|bytes| Dinode::parse(bytes, self.view.geo));
        let used = inode.is_some_and(|inode| !inode.is_free());
        chunk_bits::set(self.view, self.known, ino, used);
        let what = if used { "in use" } else { "free" };
        self.plan.steps.push(Step {
            id: format!("inode.{ino}"),
            kind: StepKind::Inode,
            what: format!("mark inode {ino} as {what} in the inode btrees"),
            evidence: vec!["the inode itself".into()],
            lost: Vec::new(),
            findings: damage.findings,
            path: None,
        });
        Ok(())
    }

    fn push(&mut self, step: Step, damage: Damage) {
        self.plan.steps.push(step.for_findings(damage.findings));
    }

    /// Makes the core of an inode right, and its maps of what the rmapbt has, or what can be read
    /// of them.
    fn inode(&mut self, ino: Ino, damage: &Damage, kind: Option<FileType>) -> Result<Mended> {
        let Some(mut bytes) = self.view.inode(ino)? else { return Ok(Mended::BeyondUse) };
        let old = bytes.clone();
        let ctx = self.view.ctx(ino);
        let blank = damage.set_counters(&mut bytes);
        let Some(fields) = core_fields::mend(&mut bytes, &ctx, ino, kind) else {
            return Ok(Mended::BeyondUse);
        };
        if damage.is_newer_than_journal() {
            inode::stamp_lsn(&mut bytes, Lsn(0));
        }
        let Some(inode) = Dinode::parse(&bytes, self.view.geo).filter(|inode| !inode.is_free())
        else {
            return Ok(Mended::BeyondUse);
        };
        if inode.file_type() == Some(FileType::Symlink) && targets::is_too_long(&inode) {
            let copy = bytes.clone();
            let inode = Dinode::parse(&copy, self.view.geo);
            let step =
                inode.map_or(Ok(None), |inode| targets::mend(self, ino, &inode, &mut bytes))?;
            return Ok(step.map_or(Mended::BeyondUse, |step| Mended::Step(Box::new(step))));
        }
        let mut step = core_step(ino, &inode, &fields);
        let nblocks = Dinode::parse(&old, self.view.geo).map_or(0, |inode| inode.nblocks().0);
        let [data, attr] = self.maps(ino, &inode, &blank, nblocks);
        let in_blocks = inode.is_dir() && inode.format() != Some(Format::Local);
        let size = directories::end(self.view.geo, &data.extents).filter(|_| in_blocks);
        let rest = nblocks.checked_sub(data.blocks()).filter(|_| data.whole);
        let lost = if inode.attr_fork().is_none() {
            attr_blocks::assemble(self.view, &inode, ino, rest)?
        } else {
            None
        };
        if data.whole && attr.whole && lost.is_none() && !damage.is_of_map() {
            core_fields::set_size(&mut bytes, size);
            let counts = [data.extents.len() as u64, attr.extents.len() as u64];
            if !core_fields::set_counters(&mut bytes, counts, data.blocks() + attr.blocks()) {
                return Ok(Mended::BeyondUse);
            }
            inode::stamp(&mut bytes);
            if bytes == old {
                return Ok(Mended::Unchanged);
            }
            self.writer.put(self.view.geo.ino_to_byte(ino), &bytes)?;
            return Ok(Mended::Step(Box::new(step)));
        }
        step.what = format!("make the extent maps of inode {ino} again");
        // How many records the inode counted is evidence for its maps.
        let counted = core_fields::with_counters_of(&bytes, &old);
        let inode = Dinode::parse(&counted, self.view.geo).unwrap_or(inode);
        let data = self.whole_map(&inode, (ino, Fork::Data), data, &mut step)?;
        let attr = match lost {
            Some(found) => {
                let dropped = core_fields::loss_of_attributes(ino);
                step.lost.retain(|lost| *lost != dropped);
                taken(found, ino, &mut step)
            }
            None => self.attr_map(&inode, ino, attr, rest, &mut step)?,
        };
        match self.write_maps(ino, &mut bytes, [data, attr]) {
            Err(Error::NoFit { .. }) => Ok(Mended::BeyondUse),
            result => result.map(|()| Mended::Step(Box::new(step))),
        }
    }

    /// Returns the maps of both forks. Those of `blank` had blank records: if the inode counted
    /// more blocks than both have, these were records that are lost.
    fn maps(&self, ino: Ino, inode: &Dinode<'_>, blank: &[Fork], nblocks: u64) -> [ForkMap; 2] {
        let mut maps = [Fork::Data, Fork::Attr].map(|fork| self.view.map(inode, ino, fork));
        let mapped = maps[0].blocks().saturating_add(maps[1].blocks());
        for (map, fork) in maps.iter_mut().zip([Fork::Data, Fork::Attr]) {
            map.whole &= nblocks <= mapped || !blank.contains(&fork);
        }
        maps
    }

    /// Returns the map of the attribute fork as [`whole_map`](Self::whole_map) does, but with
    /// blocks that nothing claims where the map itself is lost.
    fn attr_map(
        &self,
        inode: &Dinode<'_>,
        ino: Ino,
        map: ForkMap,
        nblocks: Option<u64>,
        step: &mut Step,
    ) -> Result<Vec<Extent>> {
        let is_recorded = self.view.recorded_map(ino, Fork::Attr).is_some();
        if map.whole || is_recorded {
            return self.whole_map(inode, (ino, Fork::Attr), map, step);
        }
        // Blocks of a btree tell more than what they lead to.
        let is_btree = inode.fork_format(Fork::Attr) == Some(Format::Btree);
        let better = if is_btree { maps::better(self.view, inode, ino, Fork::Attr)? } else { None };
        if better.is_none()
            && let Some(found) = attr_blocks::assemble(self.view, inode, ino, nblocks)?
        {
            return Ok(taken(found, ino, step));
        }
        self.whole_map(inode, (ino, Fork::Attr), map, step)
    }

    /// Returns the map of a fork: as it is if it is whole; or as the rmapbts have it if that agrees
    /// with what can be read; or the only one that nothing speaks against; or what can be read. The
    /// lost content of a directory is looked for with its blocks.
    fn whole_map(
        &self,
        inode: &Dinode<'_>,
        (ino, fork): (Ino, Fork),
        map: ForkMap,
        step: &mut Step,
    ) -> Result<Vec<Extent>> {
        if map.whole {
            // Pointers of neighbours may lead to more.
            let better = maps::better(self.view, inode, ino, fork)?;
            let Some(better) = better.filter(|better| better.map != map.extents) else {
                return Ok(map.extents);
            };
            step.evidence.push(better.why);
            return Ok(better.map);
        }
        let agrees = |recorded: &Vec<Extent>| {
            let same = |kept: &Extent| block_of(recorded, kept.startoff) == Some(kept.startblock);
            map.extents.iter().all(same)
        };
        if let Some(recorded) = self.view.recorded_map(ino, fork).filter(agrees) {
            step.evidence.push(format!("{} extents in the rmapbt", recorded.len()));
            return Ok(recorded);
        }
        let is_target = fork == Fork::Data && inode.file_type() == Some(FileType::Symlink);
        if let Some(map) = lost_forks::target_map(self.view, ino, inode.size().0)
            && is_target
        {
            step.evidence.push(lost_forks::TARGET.into());
            return Ok(map);
        }
        if let Some(better) = maps::better(self.view, inode, ino, fork)? {
            step.evidence.push(better.why);
            return Ok(better.map);
        }
        let readable = maps::readable(self.view, inode, ino, fork)?;
        step.evidence.push(format!("{} extents that can be read", readable.len()));
        let what = if fork == Fork::Data { "content" } else { "attributes" };
        if fork == Fork::Attr || !inode.is_dir() {
            step.lost.push(format!("{what} of inode {ino} that its map does not show any more"));
        }
        Ok(readable)
    }

    /// Makes a free inode again.
    fn make_free(&mut self, ino: Ino, damage: Damage) -> Result<()> {
        self.write_free(ino)?;
        self.plan.steps.push(Step {
            id: format!("inode.{ino}"),
            kind: StepKind::Inode,
            what: format!("make the free inode {ino} again"),
            evidence: vec!["the inode btree has it as free".into()],
            lost: Vec::new(),
            findings: damage.findings,
            path: None,
        });
        Ok(())
    }

    /// Makes an empty root directory. What was below it goes to lost+found.
    fn make_root(&mut self, damage: Damage) -> Result<()> {
        let root = self.view.geo.rootino;
        orphans::make_directory(self, root, root, 0)?;
        self.plan.steps.push(Step {
            id: format!("inode.{root}"),
            kind: StepKind::Directory,
            what: "make an empty root directory".into(),
            evidence: vec!["its inode is beyond use".into()],
            lost: vec!["names, owner and permissions of the root directory".into()],
            findings: damage.findings,
            path: None,
        });
        Ok(())
    }

    /// Repairs directories, attributes and targets of symbolic links.
    fn contents(&mut self, damages: Damages) -> Result<Vec<Finding>> {
        let mut left = Vec::new();
        let parents = self.view.geo.features.parent();
        let named = damages.iter().filter(|(_, d)| d.attributes && parents || d.directory);
        let found = links::of(self.view, &named.map(|(ino, _)| *ino).collect())?;
        let is_looked_for = damages.values().any(|damage| damage.directory);
        let strays = if is_looked_for { strays::find(self.view)? } else { Strays::new() };
        for (ino, mut damage) in damages {
            let names = found.get(&ino).map_or(&[][..], |names| &names[..]);
            let strays = strays.get(&ino).map_or(&[][..], |blocks| &blocks[..]);
            let findings = std::mem::take(&mut damage.findings);
            match self.content(ino, &damage, names, strays) {
                Ok(Some(step)) => self.plan.steps.push(step.for_findings(findings)),
                Ok(None) | Err(Error::NoFit { .. }) => left.extend(findings),
                Err(error) => return Err(error),
            }
        }
        Ok(left)
    }

    /// `strays`: data blocks of a directory to which no map leads.
    fn content(
        &mut self,
        ino: Ino,
        damage: &Damage,
        names: &[Link],
        strays: &[FsBlock],
    ) -> Result<Option<Step>> {
        let Some(mut bytes) = self.view.inode(ino)? else { return Ok(None) };
        let copy = bytes.clone();
        let Some(inode) = Dinode::parse(&copy, self.view.geo) else { return Ok(None) };
        if damage.attributes {
            return self.attributes(ino, &inode, &mut bytes, names).map(Some);
        }
        if damage.directory && inode.is_dir() {
            let found = directories::salvage_with(self.view, &inode, ino, strays)?;
            dead_entries::keep(self.view, &inode, ino, &mut self.plan.dead_names)?;
            return self.directory(ino, &mut bytes, found, damage.parent, names).map(Some);
        }
        if damage.target {
            return targets::mend(self, ino, &inode, &mut bytes);
        }
        Ok(None)
    }

    fn attributes(
        &mut self,
        ino: Ino,
        inode: &Dinode<'_>,
        bytes: &mut [u8],
        names: &[Link],
    ) -> Result<Step> {
        let mut found = attributes::salvage(self.view, inode, ino)?;
        let mut evidence = attributes::evidence(&found);
        if self.view.geo.features.parent() {
            attributes::set_parents(&mut found.attributes, names);
            evidence.push("the entries that name it, for its parent pointers".into());
        }
        let lost = attributes::losses(ino, &found);
        let data = data_content(inode, self.view.map(inode, ino, Fork::Data).extents);
        attributes::make(&mut self.writer, self.view, (ino, bytes), data, found.attributes)?;
        Ok(Step {
            id: format!("attributes.{ino}"),
            kind: StepKind::Attributes,
            what: format!("make the attributes of inode {ino} again"),
            evidence,
            lost,
            findings: Vec::new(),
            path: None,
        })
    }

    fn directory(
        &mut self,
        ino: Ino,
        bytes: &mut [u8],
        found: directories::Salvage,
        parent: Option<Ino>,
        names: &[Link],
    ) -> Result<Step> {
        let root = self.view.geo.rootino;
        let named = names.iter().map(|name| name.dir).find(|dir| found.parent == Some(*dir));
        let named = named.or_else(|| names.first().map(|name| name.dir));
        let parent =
            if ino == root { root } else { parent.or(named).or(found.parent).unwrap_or(root) };
        directories::make(&mut self.writer, self.view, (ino, bytes), parent, &found.entries)?;
        let evidence = directories::evidence(&found);
        let lost = found.dropped.iter().filter(|(_, ino)| self.is_lost_with_group(*ino));
        let lost = lost.map(|(link, ino)| format!("inode {ino} ({})", link.shown())).collect();
        self.plan.dropped += found.dropped.len() as u64;
        self.plan.free_names.extend(found.dropped.into_iter().map(|(link, _)| link));
        Ok(Step {
            id: format!("directory.{ino}"),
            kind: StepKind::Directory,
            what: format!("make directory {ino} again"),
            evidence,
            lost,
            findings: Vec::new(),
            path: None,
        })
    }
}

/// Returns the map of an attribute fork that was put together, and says so in the step.
fn taken(found: Assembled, ino: Ino, step: &mut Step) -> Vec<Extent> {
    step.evidence.push(found.why);
    if !found.is_complete {
        step.lost.push(format!("attributes of inode {ino} in leaves that are not there"));
    }
    found.map
}

/// Returns the step for an inode of whose core these fields were wrong.
fn core_step(ino: Ino, inode: &Dinode<'_>, fields: &[&str]) -> Step {
    let mut step = Step {
        id: format!("inode.{ino}"),
        kind: StepKind::Inode,
        what: format!("make the core of inode {ino} right"),
        evidence: vec!["its forks".into()],
        lost: Vec::new(),
        findings: Vec::new(),
        path: None,
    };
    if fields.contains(&"inode.mode") {
        step.evidence.push("its permissions are not known: only the owner has any".into());
    }
    if fields.contains(&core_fields::TYPE_OF_ENTRIES) {
        step.evidence.push("the entries that name it, for its type".into());
    }
    if fields.iter().any(|field| field.starts_with("inode.size")) && inode.is_regular() {
        step.lost.push(format!("the length of inode {ino} within its last block"));
    }
    if fields.contains(&core_fields::ATTRIBUTES_DROPPED) {
        step.lost.push(core_fields::loss_of_attributes(ino));
    }
    step
}
