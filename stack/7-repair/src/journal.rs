//! The journal, which comes first: it is replayed on an overlay.
//!
//! A damaged one is replayed up to the first damage. What follows is counted, and never replayed
//! over the gap. Then the journal is cleared: an unmount record at its start, in a cycle ahead of
//! each LSN on the volume, because Linux refuses metadata that is newer than the journal's head.
//! Intents of the replayed part are finished if that works; otherwise the survey finds what they
//! leave, as it finds everything that the lost records leave.
//!
//! A journal whose first block is zero counts as one that was never written. A commit makes it so
//! before it writes anything else of the journal. So a crash there leaves a journal of which
//! nothing is replayed any more, and which is cleared by the same repair.

use std::sync::Arc;

use xfskit_block::{BlockDevice, OverlayDevice};
use xfskit_check::{self as check, Finding};
use xfskit_core::{OpenOptions, Volume};
use xfskit_format::log::item::intent::{Family, Work};
use xfskit_format::log::item::{Intent, Item};
use xfskit_format::log::record::{BLOCK, next_cycle};
use xfskit_format::sb::{self, Superblock};
use xfskit_format::{Corruption, Ctx, Value};
use xfskit_log::{Cleared, Log};
use xfskit_recovery::{BeforeDamage, JournalDamage, replay_before_damage};
use xfskit_units::{AgNumber, ByteOffset, Geometry, LogBlock, Lsn, index};

use crate::error::{Error, Result};
use crate::journal_copies;
use crate::journal_items;
use crate::plan::{LostJournal, Plan, Step, StepKind};
use crate::superblocks;
use crate::view::View;

/// Bytes that are written at once.
const PIECE: usize = 1 << 20;
/// The largest cycle that a block may give the journal. Larger ones are damage of the block.
const CYCLE_MAX: u32 = u32::MAX / 2;
/// Inodes that the plan names.
const NAMED_MAX: usize = 10;

/// The volume with its journal replayed.
pub(crate) struct Replayed {
    pub overlay: Arc<OverlayDevice>,
    /// The superblock, where the journal was cleared: what is on the overlay is marked.
    pub cleared: Option<Superblock>,
}

/// The journal of a volume that is to be repaired.
pub(crate) struct Journal<'r> {
    pub target: &'r Arc<dyn BlockDevice>,
    /// The superblock that the repair uses.
    pub sb: &'r Superblock,
    /// That on the target is another one.
    pub is_fixed: bool,
    /// The loss of damaged records is accepted.
    pub zero_log: bool,
    /// Makes an overlay of the target.
    pub overlay: &'r dyn Fn() -> Arc<OverlayDevice>,
    pub options: check::Options<'r>,
}

/// The state of a journal.
enum State {
    Clean,
    Dirty,
    /// Its records are whole, and Linux cannot find its head.
    Hidden,
    /// The record that marks it clean is damaged. All that it holds is in place.
    Unmarked(Box<Corruption>),
    /// It cannot be read, or was overwritten by zeroes.
    Damaged(Box<JournalDamage>),
}

impl Journal<'_> {
    /// Replays the journal on an overlay, as far as it is whole; `None` if it is clean. Adds the
    /// step to the plan.
    pub(crate) fn replayed(&self, plan: &mut Plan) -> Result<Option<Replayed>> {
        let damage = match self.state()? {
            State::Clean => return Ok(None),
            State::Unmarked(mark) => return self.cut(None, Some(&mark), plan).map(Some),
            State::Damaged(damage) => Some(*damage),
            State::Hidden => None,
            State::Dirty => {
                let overlay = self.view()?;
                let options = OpenOptions { write: true, ..OpenOptions::default() };
                let volume = Volume::open(Arc::clone(&overlay) as _, &options);
                match volume.and_then(Volume::close) {
                    Ok(()) => {
                        plan.steps.push(whole_step(self.zero_log));
                        return Ok(Some(Replayed { overlay, cleared: None }));
                    }
                    Err(
                        error @ (xfskit_core::Error::Device(_)
                        | xfskit_core::Error::Superblock(_)
                        | xfskit_core::Error::Unsupported(_)
                        | xfskit_core::Error::Unwritable(_)),
                    ) => return Err(failed(&error)),
                    Err(_) => match self.replayed_with_lost_inodes(plan)? {
                        Some(overlay) => return Ok(Some(Replayed { overlay, cleared: None })),
                        None => None,
                    },
                }
            }
        };
        self.cut(damage, None, plan).map(Some)
    }

    /// Replays the journal on an overlay with the inodes that are lost on the disk and that the
    /// journal has; `None` if that fails, too.
    fn replayed_with_lost_inodes(&self, plan: &mut Plan) -> Result<Option<Arc<OverlayDevice>>> {
        let (overlay, geo) = (self.view()?, self.sb.geometry());
        let superblock = self.sb.clone();
        let (groups, complete, digests) = (Vec::new(), false, None);
        let survey = check::Survey { superblock, groups, complete, digests };
        let view = View { dev: &**self.target, geo: &geo, survey: &survey, unclaimed: None };
        let steps = journal_copies::give_inodes_back(view, &*overlay)?;
        let options = OpenOptions { write: true, ..OpenOptions::default() };
        if steps.is_empty()
            || Volume::open(Arc::clone(&overlay) as _, &options).and_then(Volume::close).is_err()
        {
            return Ok(None);
        }
        plan.steps.extend(steps);
        plan.steps.push(whole_step(self.zero_log));
        Ok(Some(overlay))
    }

    fn state(&self) -> Result<State> {
        let geo = self.sb.geometry();
        let log = match xfskit_recovery::open_log(&**self.target, None, &geo) {
            Ok(log) => log,
            Err(xfskit_recovery::Error::Corrupt(fault)) => {
                return Ok(State::Damaged(nothing_before(*fault).into()));
            }
            Err(error) => return Err(failed(&error)),
        };
        if let Some(damage) = zeroed(&log, &geo, self.sb) {
            return Ok(State::Damaged(damage.into()));
        }
        Ok(match log.torn().filter(|torn| torn.is_whole) {
            Some(mark) if mark.is_unmount => State::Unmarked(mark.corruption.clone()),
            Some(first) if log.is_clean() => {
                let fault = *first.corruption.clone();
                let record = Some(log.head());
                State::Damaged(JournalDamage { record, ..nothing_before(fault) }.into())
            }
            _ if is_hidden(&log)? => State::Hidden,
            _ if log.is_clean() => State::Clean,
            _ => State::Dirty,
        })
    }

    /// Returns an overlay with a superblock that can be opened.
    fn view(&self) -> xfskit_block::Result<Arc<OverlayDevice>> {
        let overlay = (self.overlay)();
        if self.is_fixed || superblocks::is_due(self.sb) {
            let sector =
                superblocks::sector(&self.sb.geometry(), &superblocks::without_mark(self.sb));
            overlay.write_at(ByteOffset(0), &sector)?;
        }
        Ok(overlay)
    }

    /// Replays the journal up to the damage, and clears it. `damage`: nothing can be replayed.
    /// `mark`: what is wrong with the record that marks it clean.
    fn cut(
        &self,
        damage: Option<JournalDamage>,
        mark: Option<&Corruption>,
        plan: &mut Plan,
    ) -> Result<Replayed> {
        let (overlay, done) = match damage {
            None => replay_before_damage(self.sb, || Ok(self.view()?)),
            Some(damage) => {
                let overlay = self.view()?;
                BeforeDamage::nothing(&*overlay, &self.sb.geometry(), damage)
                    .map(|done| (overlay, done))
            }
        }
        .map_err(|error| failed(&error))?;
        let sb = check::superblock(&*overlay)?;
        let geo = sb.geometry();
        let head = self.clear(&overlay, &geo, known_lsns(&sb, &done))?;
        let finished = finish(&overlay, &done);
        let sb = if finished { check::superblock(&*overlay)? } else { sb };
        superblocks::write(&*overlay, &geo, AgNumber(0), &superblocks::with_mark(&sb))?;
        let unfinished = done.replay.as_ref().map_or(&[][..], |replay| &replay.unfinished);
        let unfinished = if finished { &[] } else { unfinished };
        let mut step = cut_step(&done, mark, head, unfinished);
        let behind = self.behind_damage(&done)?;
        let words = behind.words(done.replay.as_ref().map_or(&[], |replay| &replay.unfinished));
        step.evidence.extend(words);
        plan.steps.push(step);
        plan.journal = done.damage.as_ref().map(|damage| lost_journal(damage, &done));
        Ok(Replayed { overlay, cleared: Some(superblocks::without_mark(&sb)) })
    }

    /// Reads the intents and done items in intact records behind the damage: they are evidence, and
    /// never replayed.
    fn behind_damage(&self, done: &BeforeDamage) -> Result<Behind> {
        let mut behind = Behind::default();
        let Some(at) = done.damage.as_ref().and_then(|damage| damage.record) else {
            return Ok(behind);
        };
        journal_items::each(&**self.target, &self.sb.geometry(), &mut |item, lsn, _| match item {
            Item::Intent(intent) if lsn >= at => behind.intents.push((intent.family, intent.id)),
            Item::Done(done) if lsn >= at => behind.done.push((done.family, done.id)),
            _ => {}
        })?;
        Ok(behind)
    }

    /// Clears the journal, in a cycle that is ahead of `newest` and of each LSN that a check finds
    /// on the volume. Returns its head.
    fn clear(&self, overlay: &OverlayDevice, geo: &Geometry, newest: Lsn) -> Result<Lsn> {
        let head = write_cleared(overlay, geo, newest)?;
        let mut ahead = newest;
        check::check(overlay, None, &self.options, &mut |finding| {
            ahead = ahead.max(lsn_ahead(&finding).unwrap_or(Lsn::NONE));
        })?;
        if ahead > newest { write_cleared(overlay, geo, ahead) } else { Ok(head) }
    }
}

/// The intents and done items behind the damage of a journal.
#[derive(Default)]
struct Behind {
    intents: Vec<(Family, u64)>,
    done: Vec<(Family, u64)>,
}

impl Behind {
    /// Returns what they tell, in words. `before`: the intents before the damage without a done
    /// item there.
    fn words(&self, before: &[Intent]) -> Vec<String> {
        let is_done = |intent: &(Family, u64)| self.done.contains(intent);
        let open = self.intents.iter().filter(|intent| !is_done(intent)).count();
        let before = before.iter().filter(|intent| is_done(&(intent.family, intent.id))).count();
        let mut words = Vec::new();
        if open > 0 {
            words.push(format!("{open} unfinished intents behind the damage are not replayed"));
        }
        if before > 0 {
            words.push(format!("{before} intents before the damage have done items behind it"));
        }
        words
    }
}

fn failed(error: &dyn std::error::Error) -> Error {
    Error::Journal(error.to_string())
}

/// Returns the damage of a journal whose head cannot be found.
fn nothing_before(fault: xfskit_format::Corruption) -> JournalDamage {
    JournalDamage { fault, record: None, transactions: 0, whole: None }
}

/// Returns the damage of a journal that looks as if it was never written, on a volume that has
/// LSNs.
fn zeroed(log: &Log<'_>, geo: &Geometry, sb: &Superblock) -> Option<JournalDamage> {
    if log.last_record().is_some() {
        return None;
    }
    let ctx = Ctx::new(geo, sb::location(geo, AgNumber(0))).log_head(Some(log.head()));
    let fault = ctx.lsn("sb.lsn", sb.lsn()).err()?;
    Some(nothing_before(*fault))
}

/// Returns true if Linux does not find the head of a journal.
fn is_hidden(log: &Log<'_>) -> Result<bool> {
    Ok(log.misleading_cycle().map_err(|error| failed(&error))?.is_some())
}

/// Returns the newest position that the journal, or the superblock, names.
fn known_lsns(sb: &Superblock, done: &BeforeDamage) -> Lsn {
    let known = |lsn: Lsn| if lsn.cycle() < CYCLE_MAX { lsn } else { Lsn::NONE };
    let head = done.replay.as_ref().map_or(Lsn::NONE, |replay| replay.head);
    let newest = done.lost.newest.map_or(Lsn::NONE, |newest| newest.lsn);
    known(sb.lsn()).max(known(head)).max(known(newest))
}

/// Returns the LSN that a finding says is ahead of the journal.
fn lsn_ahead(finding: &Finding) -> Option<Lsn> {
    let corruption = &finding.corruption;
    let Value::Text(text) = &corruption.found else { return None };
    if corruption.check.0.rsplit('.').next() != Some("lsn") {
        return None;
    }
    let (cycle, block) = text.split_once(':')?;
    let cycle = cycle.parse().ok().filter(|cycle| *cycle < CYCLE_MAX)?;
    Some(Lsn::new(cycle, LogBlock(block.parse().ok()?)))
}

/// Clears the journal in the cycle behind that of `newest`. Returns its head.
fn write_cleared(overlay: &OverlayDevice, geo: &Geometry, newest: Lsn) -> Result<Lsn> {
    let Some(start) = geo.log_daddr() else { return Ok(newest) };
    let cleared = Cleared::new(geo, Lsn::new(next_cycle(newest.cycle()), LogBlock(0)));
    let mut bytes = vec![0; PIECE];
    let blocks = geo.log_bbs();
    for first in (0..blocks).step_by(PIECE / BLOCK) {
        let count = index(u64::from(blocks - first)).min(PIECE / BLOCK);
        let (pieces, _) = bytes[..count * BLOCK].as_chunks_mut::<BLOCK>();
        for (at, block) in (first..).zip(pieces) {
            cleared.fill(LogBlock(at), block);
        }
        let at = start.saturating_add(first.into()).byte_offset();
        overlay.write_at(at, &bytes[..count * BLOCK])?;
    }
    Ok(cleared.head())
}

/// Finishes the intents of the replayed part, and frees unlinked inodes. Returns false, and changes
/// nothing, if that fails: a volume without its newest changes may contradict them.
fn finish(overlay: &Arc<OverlayDevice>, done: &BeforeDamage) -> bool {
    let Some(replay) = &done.replay else { return false };
    let trial = Arc::new(OverlayDevice::new(Arc::clone(overlay) as _));
    let volume = Volume::open_to_finish(Arc::clone(&trial) as _, &replay.unfinished);
    volume.and_then(Volume::close).is_ok() && take_over(&trial, overlay).is_ok()
}

/// Copies what changed on `trial` to the overlay below.
fn take_over(trial: &OverlayDevice, overlay: &OverlayDevice) -> xfskit_block::Result<()> {
    let mut bytes = vec![0; PIECE];
    for range in trial.changed_ranges() {
        for start in (range.start.0..range.end.0).step_by(PIECE) {
            let part = &mut bytes[..index(range.end.0 - start).min(PIECE)];
            trial.read_at(ByteOffset(start), part)?;
            overlay.write_at(ByteOffset(start), part)?;
        }
    }
    Ok(())
}

/// Returns the step of a journal that is replayed as a whole.
fn whole_step(zero_log: bool) -> Step {
    let mut evidence = vec!["its records are whole".to_owned()];
    if zero_log {
        evidence.push("--zero-log has nothing to discard: no record is damaged".into());
    }
    step("replay the journal".into(), evidence, Vec::new())
}

fn step(what: String, evidence: Vec<String>, lost: Vec<String>) -> Step {
    let kind = StepKind::Journal;
    let findings = Vec::new();
    Step { id: "journal".into(), kind, what, evidence, lost, findings, path: None }
}

/// Returns the step of a journal that is replayed up to its damage, and cleared.
fn cut_step(
    done: &BeforeDamage,
    mark: Option<&Corruption>,
    head: Lsn,
    unfinished: &[Intent],
) -> Step {
    let mut evidence = Vec::new();
    let replayed = done.replay.as_ref().map_or(0, |replay| replay.transactions);
    let what = match &done.damage {
        None => "replay the journal, and clear it".to_owned(),
        Some(JournalDamage { record: Some(at), .. }) if replayed > 0 => format!(
            "replay the journal up to its record at block {} of cycle {}, and zero it",
            at.block(),
            at.cycle()
        ),
        Some(_) => "zero the journal, of which nothing can be replayed".to_owned(),
    };
    let mut lost = Vec::new();
    if let Some(damage) = &done.damage {
        evidence.push(format!("it is damaged: {}", damage.fault));
        lost.push(lost_words(damage, done));
    } else if let Some(fault) = mark {
        evidence.push(format!("the record that marks it clean is damaged: {fault}"));
    } else {
        evidence.push("its records are whole".into());
    }
    if replayed > 0 {
        let span = done.damage.as_ref().and_then(|damage| damage.whole);
        let span = span.map_or(String::new(), |(first, last)| format!(", {first} to {last}"));
        evidence.push(format!("{replayed} transactions before{span}, are whole"));
    }
    let inodes = &done.lost.inodes;
    if !inodes.is_empty() {
        let named: Vec<String> = inodes.iter().take(NAMED_MAX).map(ToString::to_string).collect();
        let more = if inodes.len() > NAMED_MAX { ", and more" } else { "" };
        evidence.push(format!("lost changes of inodes {}{more}", named.join(", ")));
    }
    evidence.push(format!("its head becomes {head}, ahead of each LSN on the volume"));
    // Work on space alone is done again from the files.
    let of_files =
        |intent: &&Intent| matches!(intent.work, Work::Bmap(_) | Work::Attr(_) | Work::Exchange(_));
    match unfinished.iter().filter(of_files).count() {
        0 => {}
        count => lost.push(format!("{count} changes of files that were begun, and not finished")),
    }
    step(what, evidence, lost)
}

/// Returns what is lost, in words.
fn lost_words(damage: &JournalDamage, done: &BeforeDamage) -> String {
    let lost = &done.lost;
    if damage.record.is_none() && lost.newest.is_some_and(|newest| newest.is_unmount) {
        return format!(
            "changes in {} unreadable blocks of the journal, if there are any: its newest intact \
             record marks it clean",
            lost.unreadable_blocks
        );
    }
    format!(
        "{} transactions in {} intact records behind the damage, which changed {} inodes and {} \
         other buffers; and those in {} unreadable blocks",
        lost.transactions,
        lost.records,
        lost.inodes.len(),
        lost.buffers.len(),
        lost.unreadable_blocks
    )
}

/// Returns the numbers of a damaged journal.
fn lost_journal(damage: &JournalDamage, done: &BeforeDamage) -> LostJournal {
    let lost = &done.lost;
    LostJournal {
        reason: damage.fault.to_string(),
        cycle: damage.record.map(Lsn::cycle),
        block: damage.record.map(|lsn| lsn.block().0),
        replayed_transactions: done.replay.as_ref().map_or(0, |replay| replay.transactions),
        reached: damage.whole.map(|(_, last)| last.to_string()),
        lost_records: lost.records,
        lost_transactions: lost.transactions,
        lost_inodes: lost.inodes.len() as u64,
        lost_buffers: lost.buffers.len() as u64,
        unreadable_blocks: lost.unreadable_blocks,
    }
}
