//! Rebuild: members that lack data get them from the others, replacements from the member that they
//! are to replace.
//!
//! All devices that lack something are filled in one pass. The filled part is read from then on. A
//! rebuild that was stopped or killed continues from the last mark in the superblock. The stripe
//! that is being rebuilt is locked, so the array may be written meanwhile: writes go to all
//! members, filled or not.
//!
//! If reads are verified ([`verify`](crate::array::verify)) and redundancy is left, what is read is
//! compared with it. A wrong member that is located does not count. A page where it cannot be
//! located becomes a bad block of the rebuilt member: it would agree with the wrong one, and a
//! scrub that compares them all would call another member wrong. A replacement gets what its member
//! has there.
//!
//! A page that no member can deliver, for example because another member lists it as bad, becomes a
//! bad block of the rebuilt member, too, and the rebuild continues, as in md.

use std::ops::{ControlFlow, Range};

use xfskit_block::Result;
use xfskit_units::{ByteLen, ByteOffset, Column, MemberByte, PositionRange, Sectors, SyncSector};

use super::{Completion, MARK_MAX, MARK_MIN, Progress, SyncJob};
use crate::array::io::{ReadJob, io_error};
use crate::array::metadata::ArrayMetadata;
use crate::array::mirror::PAGE;
use crate::array::stripes::{Span, places};
use crate::array::{Array, Map};
use crate::bitmap::Bitmap;
use crate::geometry::Replacement;
use crate::layout::parity::Part;

/// A range that becomes a bad block of a target.
#[derive(Clone, Debug)]
struct BadRange {
    /// The index of the target.
    target: usize,
    /// The range within the unit.
    range: Range<Column>,
    /// Members that disagree deliver it; otherwise no member does.
    is_undecided: bool,
}

/// The bad parts of a span that was computed for targets.
#[derive(Debug, Default)]
struct SpanFill {
    /// Targets whose data cannot be read.
    lacking: Vec<usize>,
    /// Targets with a page that members disagree on.
    undecided: Vec<(usize, Range<Column>)>,
}

/// A device that is filled.
#[derive(Clone, Debug)]
struct Target {
    role: usize,
    /// It holds everything before already.
    from: MemberByte,
    /// It is to replace the member of the role.
    replacement: bool,
    /// The regions that it lacks; all if `None`.
    lacks: Option<Bitmap>,
}

impl Array {
    /// Returns true if a member lacks data that it should have, or is to be replaced.
    pub fn needs_rebuild(&self) -> bool {
        !self.targets().is_empty()
    }

    /// Fills members that lack data, and replacements. Calls `on_progress` every few megabytes with
    /// the progress. A rebuild that is stopped continues from there the next time. Waits for the
    /// end of another sync action.
    ///
    /// # Errors
    /// Returns an error if members cannot be written, or if data that no member has cannot be
    /// listed as bad.
    pub fn rebuild(
        &self,
        mut on_progress: impl FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<Completion> {
        let _alone = self.sync_action.lock();
        let targets = self.targets();
        let Some(from) = targets.iter().map(|target| target.from).min() else {
            return Ok(Completion::Finished);
        };
        let (size, unit_bytes) = (self.component_end(), self.unit_bytes());
        let mark = ByteLen(size.0 / 64).clamp(MARK_MIN, MARK_MAX);
        let (mut marked, mut bad) = (from, Sectors(0));
        let job = SyncJob {
            units: from.whole(unit_bytes)..size.div_ceil(unit_bytes),
            unit_bytes,
            needs_work: &|unit| targets.iter().any(|target| self.lacks_in(target, unit)),
            prefetch: &|unit| self.prefetch_rebuild(unit, &targets),
        };
        let work = |unit| self.rebuild_unit(unit, &targets);
        let after = |next: u64, lost: Vec<ByteLen>| {
            let lost = lost.into_iter().fold(ByteLen(0), ByteLen::plus);
            bad = bad.plus(lost.whole_sectors());
            let done = MemberByte(unit_bytes.times(next).0).min(size);
            let filled = |target: &&Target| target.lacks.is_none() && !target.replacement;
            for target in targets.iter().filter(filled) {
                self.members[target.role].set_readable_until(done);
            }
            let (from_start, total) = (ByteLen(done.0), ByteLen(size.0));
            let flow = on_progress(Progress { done: from_start, total, bad });
            if done.distance_from(marked) >= mark || flow.is_break() {
                self.mark_filled(&targets, done)?;
                marked = done;
            }
            Ok(flow)
        };
        let ended = self.run_sync_action(&job, work, after)?;
        if ended == Completion::Finished {
            self.mark_filled(&targets, size)?;
            for target in &targets {
                self.finish(target)?;
            }
        }
        Ok(ended)
    }

    /// Returns the end of what the array uses of every member. There is nothing to rebuild without
    /// redundancy.
    fn component_end(&self) -> MemberByte {
        MemberByte(self.geometry.component_size().byte_len().0)
    }

    /// Returns the part of a member that is rebuilt at once.
    fn unit_bytes(&self) -> ByteLen {
        match self.map {
            Map::Concat(_) => ByteLen(1),
            Map::Parity => self.geometry.chunk_bytes(),
            Map::Raid1 | Map::Raid10(_) => self.mirror_unit(),
        }
    }

    fn targets(&self) -> Vec<Target> {
        if matches!(self.map, Map::Concat(_)) || self.read_only {
            return Vec::new();
        }
        let size = self.component_end();
        let bitmap = self.metadata.as_ref().and_then(ArrayMetadata::bitmap);
        let mut targets = Vec::new();
        for (role, member) in self.members.iter().enumerate() {
            let from = member.readable_until();
            // A rebuild that was stopped at its very end is not finished. A finished member is
            // valid everywhere.
            if member.device().is_some() && from < MemberByte::MAX {
                let lacks = bitmap.clone().filter(|_| member.by_bitmap());
                targets.push(Target { role, from, replacement: false, lacks });
            }
            if let Some(replacement) =
                member.replacement().filter(|replacement| !replacement.is_faulty())
            {
                let from = replacement.slot().filled.byte().min(size);
                targets.push(Target { role, from, replacement: true, lacks: None });
            }
        }
        targets
    }

    /// Returns true if the target lacks data in this unit.
    fn lacks_in(&self, target: &Target, unit: u64) -> bool {
        let unit_bytes = self.unit_bytes();
        let end = MemberByte(unit_bytes.times(unit + 1).0);
        let Some(bitmap) = &target.lacks else { return end > target.from };
        let place = match &self.map {
            Map::Raid10(map) => map.chunk_at(target.role, unit),
            _ => Some(unit),
        };
        let sector = |unit: u64| SyncSector(unit_bytes.sectors().times(unit).0);
        place.is_some_and(|unit| {
            let first = bitmap.bit_of(sector(unit));
            let last = bitmap.bit_of(sector(unit + 1).minus(Sectors(1)));
            (first..=last).any(|bit| bitmap.get(bit))
        })
    }

    fn prefetch_rebuild(&self, unit: u64, targets: &[Target]) {
        let (at, len) = self.place(unit);
        if matches!(self.map, Map::Parity) {
            let span = self.span(unit, Column(0).range(len));
            // A copy that is not compared needs only the replaced member itself.
            match targets {
                [Target { role, replacement: true, .. }]
                    if self.verifier.get().is_none()
                        && self.members[*role].is_readable(at, len) =>
                {
                    self.members[*role].will_need(at, len);
                }
                _ => self.prefetch_span(&span, &[]),
            }
            return;
        }
        for target in targets {
            if let Some(offset) = self.mirrored(target.role, unit) {
                let mut copies = self.copies(offset).into_iter();
                let source = copies.find(|copy| self.members[copy.role].is_readable(copy.at, len));
                if let Some(copy) = source {
                    self.members[copy.role].will_need(copy.at, len);
                }
            }
        }
    }

    /// Returns where a unit lies on a member, and its length.
    fn place(&self, unit: u64) -> (MemberByte, ByteLen) {
        let at = MemberByte(self.unit_bytes().times(unit).0);
        (at, self.unit_bytes().min(self.component_end().saturating_distance_from(at)))
    }

    /// Returns where in the array the data of this unit of a mirror's member lie.
    fn mirrored(&self, role: usize, unit: u64) -> Option<ByteOffset> {
        match &self.map {
            Map::Raid10(map) => map.chunk_at(role, unit).map(|chunk| self.mirror_start(chunk)),
            _ => Some(self.mirror_start(unit)),
        }
    }

    /// Fills a unit of the targets. Returns how much no member can deliver.
    fn rebuild_unit(&self, unit: u64, targets: &[Target]) -> Result<ByteLen> {
        let targets: Vec<&Target> =
            targets.iter().filter(|target| self.lacks_in(target, unit)).collect();
        let (at, len) = self.place(unit);
        if matches!(self.map, Map::Parity) {
            return self.rebuild_stripe(unit, &targets);
        }
        let mut missing = ByteLen(0);
        for target in targets {
            let Some(offset) = self.mirrored(target.role, unit) else { continue };
            let _alone = self.lock_stripe(offset.whole(self.mirror_unit()));
            let mut out = vec![0; len.index()];
            let bad = self.copy_of(target, at, offset, &mut out);
            self.fill(target, at, &out, &bad)?;
            missing = missing.plus(lost_bytes(&bad));
        }
        Ok(missing)
    }

    fn rebuild_stripe(&self, unit: u64, targets: &[&Target]) -> Result<ByteLen> {
        let (at, len) = self.place(unit);
        let _alone = self.lock_stripe(unit);
        // A member and its replacement get the same data, computed once.
        let (once, again): (Vec<&Target>, Vec<&Target>) =
            targets.iter().partition(|t| !(t.replacement && is_filled_itself(targets, t.role)));
        let mut memory = vec![0; once.len() * len.index()];
        let mut outs: Vec<&mut [u8]> = memory.chunks_mut(len.index()).collect();
        let bad = self.fill_stripe(unit, &once, &mut outs);
        for (i, (target, out)) in once.iter().zip(outs).enumerate() {
            let own: Vec<BadRange> = bad.iter().filter(|bad| bad.target == i).cloned().collect();
            self.fill(target, at, out, &own)?;
            let second = again.iter().find(|second| second.role == target.role);
            second.map_or(Ok(()), |second| self.fill(second, at, out, &own))?;
        }
        Ok(lost_bytes(&bad))
    }

    /// Computes what the targets should hold of a stripe, each in its own buffer. Works page by
    /// page where the whole cannot be read.
    fn fill_stripe(
        &self,
        stripe: u64,
        targets: &[&Target],
        outs: &mut [&mut [u8]],
    ) -> Vec<BadRange> {
        let whole = self.span(stripe, self.whole_chunk());
        let slice = self.slice_bytes().min(whole.len()).index();
        let mut memory = vec![0; whole.layout.data_disks() * slice];
        let mut bad = Vec::new();
        let undecided = |(target, range)| BadRange { target, range, is_undecided: true };
        for span in whole.cut(self.slice_bytes()) {
            let filled = self.fill_span(&span, targets, outs, &mut memory);
            if filled.lacking.is_empty() {
                bad.extend(filled.undecided.into_iter().map(undecided));
                continue;
            }
            for page in span.cut(PAGE) {
                let filled = self.fill_span(&page, targets, outs, &mut memory);
                let range = page.columns.clone();
                let lost = |target| BadRange { target, range: range.clone(), is_undecided: false };
                bad.extend(filled.lacking.into_iter().map(lost));
                bad.extend(filled.undecided.into_iter().map(undecided));
            }
        }
        bad
    }

    /// Computes what the targets should hold of one span.
    fn fill_span(
        &self,
        span: &Span,
        targets: &[&Target],
        outs: &mut [&mut [u8]],
        memory: &mut [u8],
    ) -> SpanFill {
        let (at, len) = (self.member_at(span), span.len().index());
        let start = span.columns.start.distance_from(Column(0)).index();
        let (mut rest, mut lacking) = (Vec::new(), Vec::new());
        for (i, (target, out)) in targets.iter().zip(outs.iter_mut()).enumerate() {
            let buf = &mut out[start..start + len];
            let job = ReadJob { role: target.role, at, buf: &mut *buf };
            let copies = target.replacement && self.verifier.get().is_none();
            if !(copies && self.fetch(&mut [job]).is_empty()) {
                rest.push((target.role, buf));
                lacking.push(i);
            }
        }
        if rest.is_empty() {
            return SpanFill::default();
        }
        let mut data: Vec<&mut [u8]> =
            memory.chunks_mut(len).take(span.layout.data_disks()).collect();
        let read = match self.verifier.get() {
            Some(verifier) => self.read_locked_stripe(verifier, span, &mut data),
            None => self.read_stripe(span, &mut data, &[]).map(|()| Vec::new()),
        };
        let Ok(pages) = read else { return SpanFill { lacking, ..SpanFill::default() } };
        self.fill_parts(span, &data, rest);
        let computed = pages.iter().flat_map(|page| lacking.iter().map(|i| (*i, page.clone())));
        let chunk = self.place(span.stripe).0;
        let undecided =
            computed.filter(|(i, page)| !self.copy_own(targets[*i], chunk, page, outs[*i]));
        SpanFill { lacking: Vec::new(), undecided: undecided.collect() }
    }

    /// Reads, into the same part of `out`, a page of what the member holds from `at` on that a
    /// target is to replace. Returns false if there is none, or it cannot be read.
    fn copy_own(
        &self,
        target: &Target,
        at: MemberByte,
        page: &Range<Column>,
        out: &mut [u8],
    ) -> bool {
        let start = page.start.distance_from(Column(0));
        let buf = &mut out[start.index()..start.plus(page.length()).index()];
        let job = ReadJob { role: target.role, at: at.plus(start), buf };
        target.replacement && self.fetch(&mut [job]).is_empty()
    }

    /// Fills what each of these roles holds in a span whose data are given.
    fn fill_parts(&self, span: &Span, data: &[&mut [u8]], outs: Vec<(usize, &mut [u8])>) {
        let layout = span.layout;
        let mut spare = Vec::new();
        let (mut p, mut q) = (None, None);
        for (role, out) in outs {
            match layout.part(role) {
                Part::Data(d) => out.copy_from_slice(data[d]),
                Part::P => p = Some(out),
                Part::Q => q = Some(out),
            }
        }
        let bytes = span.len().times(data.len() as u64);
        match (p, q) {
            (None, None) => return,
            (Some(p), None) => {
                let sources: Vec<&[u8]> = data.iter().map(|buf| &**buf).collect();
                xfskit_parity::xor(&sources, p);
            }
            (p, Some(q)) => {
                let p = p.unwrap_or_else(|| {
                    spare.resize(q.len(), 0);
                    &mut spare
                });
                xfskit_parity::pq(&places(layout, data, &[]), p, q);
            }
        }
        self.counters.count_memory(bytes, span.len());
    }

    /// Reads the data of a range of a mirror, page by page if no copy delivers all of it. The
    /// unit's lock is held. Returns the ranges that become bad blocks of `target`.
    fn copy_of(
        &self,
        target: &Target,
        at: MemberByte,
        offset: ByteOffset,
        out: &mut [u8],
    ) -> Vec<BadRange> {
        let bad = |range, is_undecided| BadRange { target: 0, range, is_undecided };
        let read = |verifier| self.read_locked_copies(verifier, offset, out).ok();
        if let Some(pages) = self.verifier.get().and_then(read) {
            let undecided = pages.into_iter().filter(|page| !self.copy_own(target, at, page, out));
            return undecided.map(|page| bad(page, true)).collect();
        }
        let from_any = |offset: ByteOffset, buf: &mut [u8]| {
            self.copies(offset).into_iter().any(|copy| {
                let job = ReadJob { role: copy.role, at: copy.at, buf: &mut *buf };
                self.fetch(&mut [job]).is_empty()
            })
        };
        if from_any(offset, out) {
            return Vec::new();
        }
        let mut lost = Vec::new();
        let mut at = Column(0);
        for page in out.chunks_mut(PAGE.index()) {
            let columns = at.range(ByteLen::of(page));
            at = columns.end;
            if !from_any(offset.plus(columns.start.distance_from(Column(0))), page) {
                lost.push(bad(columns, false));
            }
        }
        lost
    }

    /// Writes what a target should hold from `at` on, and records its bad blocks.
    fn fill(
        &self,
        target: &Target,
        at: MemberByte,
        content: &[u8],
        bad: &[BadRange],
    ) -> Result<()> {
        let (member, role) = (&self.members[target.role], target.role);
        if target.replacement {
            member.replacement().map_or(Ok(()), |replacement| replacement.write(at, content))?;
            self.clear_replacement_badblocks(role, at, ByteLen::of(content))?;
        } else {
            let results = member.write_batch(std::iter::once((at, content)));
            match results.into_iter().flatten().find_map(Result::err) {
                Some(error) => return self.fail_member(role, error),
                None => self.clear_badblocks(role, at, ByteLen::of(content))?,
            }
        }
        for BadRange { range, is_undecided, .. } in &merged(bad) {
            let start = at.plus(range.start.distance_from(Column(0)));
            let len = range.length();
            if self.record_badblock(role, target.replacement, start, len) {
                continue;
            }
            let Some(verifier) = self.verifier.get().filter(|_| *is_undecided) else {
                let name = member.name();
                let why =
                    format!("no member has it, and the bad-block log of {name} is full or missing");
                return Err(io_error("rebuild", ByteOffset(start.0), len, why));
            };
            self.forget_badblock(role, target.replacement, start, len);
            verifier.record_unlisted(len);
        }
        Ok(())
    }

    /// Makes what the targets received so far durable, and records it in their superblocks.
    fn mark_filled(&self, targets: &[Target], done: MemberByte) -> Result<()> {
        for target in targets {
            let member = &self.members[target.role];
            let flushed = match member.replacement().filter(|_| target.replacement) {
                Some(replacement) => replacement.flush(),
                None => member.device().map_or(Ok(()), |device| device.flush()),
            };
            match flushed {
                Err(error) if !target.replacement => self.fail_member(target.role, error)?,
                Err(error) => return Err(error),
                Ok(()) => {}
            }
            let until = done.max(target.from).sector_floor();
            self.update_metadata(|metadata| {
                metadata.set_recovery_offset(target.role, target.replacement, until)
            })?;
        }
        Ok(())
    }

    /// Marks the target as complete.
    fn finish(&self, target: &Target) -> Result<()> {
        let member = &self.members[target.role];
        if target.replacement {
            let Some(Replacement { device, ppl, .. }) =
                member.replacement().map(|replacement| replacement.slot().clone())
            else {
                return Ok(());
            };
            let log = self.open_ppl(&device, ppl)?;
            let role = target.role;
            return self.with_idle_ppl(role, || {
                let served = member.promote_replacement(log);
                if served {
                    self.update_metadata(|metadata| metadata.finish_replacement(role))
                } else {
                    Ok(())
                }
            });
        }
        if member.device().is_some() {
            member.set_readable_until(MemberByte::MAX);
            self.update_metadata(|metadata| metadata.finish_recovery(target.role))?;
        }
        Ok(())
    }
}

/// Returns the ranges with those that touch merged: each one that is recorded costs a flush.
fn merged(bad: &[BadRange]) -> Vec<BadRange> {
    let mut merged: Vec<BadRange> = Vec::new();
    for next in bad {
        match merged.last_mut() {
            Some(last)
                if last.range.end == next.range.start && last.is_undecided == next.is_undecided =>
            {
                last.range.end = next.range.end;
            }
            _ => merged.push(next.clone()),
        }
    }
    merged
}

/// Returns how many bytes no member can deliver.
fn lost_bytes(bad: &[BadRange]) -> ByteLen {
    let lost = bad.iter().filter(|bad| !bad.is_undecided);
    lost.map(|bad| bad.range.length()).fold(ByteLen(0), ByteLen::plus)
}

/// Returns whether the member of this role is among the targets.
fn is_filled_itself(targets: &[&Target], role: usize) -> bool {
    targets.iter().any(|target| !target.replacement && target.role == role)
}
