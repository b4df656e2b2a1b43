//! Scrubbing: comparing the members of a stripe, and locating the member that is wrong.
//!
//! A stripe is compared page by page (4 KiB), the unit in which md counts. With P and Q, the errors
//! of both locate a single wrong member. md does not use this: it trusts the data and rewrites
//! parity, which makes a silent error permanent. Here, only a located error is repaired.
//!
//! A member that is an array itself can be located by its own members: it agrees with the others by
//! another of its alternatives, and no other member does.
//!
//! If a member is missing, or cannot deliver a page, the remaining redundancy is compared. A RAID6
//! without one member has one parity more than it needs; three copies without one are still two.
//! This detects an error but does not locate it.

use std::ops::Range;

use xfskit_block::Result;
use xfskit_units::{ByteLen, ByteOffset, MemberByte, MemberSector, PositionRange, Sectors};

use super::io::{ReadJob, WriteJob, io_error};
use super::mirror::{Copy, PAGE};
use super::stripes::{Span, places};
use super::{Array, Map};

/// Bytes of mirrors that md compares at a time.
const COMPARED: usize = 64 << 10;

/// A page whose copies or parity do not agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The stripe, as counted by [`Array::scrub_stripes`].
    pub stripe: u64,
    /// The page's sectors, on every member of the stripe; on RAID1 and RAID10 those of the first
    /// copy.
    pub sectors: Range<MemberSector>,
    /// The role that is wrong, if it was located.
    pub role: Option<usize>,
    /// The wrong role was rewritten.
    pub repaired: bool,
    /// What md's `mismatch_cnt` grows by. On levels with parity these are the sectors of the page.
    /// On mirrors they are those of the 64 KiB that md compares at a time, for every copy that
    /// differs, counted at the first such page.
    pub counted: Sectors,
}

impl Mismatch {
    /// Returns the page's bytes.
    pub(super) fn bytes(&self) -> Range<MemberByte> {
        self.sectors.start.byte()..self.sectors.end.byte()
    }
}

/// The result of comparing one stripe.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Pages that do not agree.
    pub mismatches: Vec<Mismatch>,
    /// What could be read but had nothing to be compared with.
    pub unchecked: Sectors,
}

impl Comparison {
    /// Counts so many bytes that had nothing to be compared with.
    fn add_unchecked(&mut self, bytes: usize) {
        self.unchecked = self.unchecked.plus(ByteLen(bytes as u64).sectors());
    }
}

/// A role, a byte of its member, and the page that the member holds there.
pub(super) type MemberPage<'a> = (usize, MemberByte, &'a [u8]);

/// The data that the members of a stripe hold in a span.
pub(super) struct SpanData {
    /// The span's part of every role, in order; zeroes for missing roles.
    pub(super) memory: Vec<u8>,
    /// Roles that are missing or could not be read.
    pub(super) missing: Vec<usize>,
    /// A member that is present could not be read.
    pub(super) failed: bool,
}

impl SpanData {
    /// Returns the span's part of data chunk `d`.
    pub(super) fn chunk(&self, span: &Span, d: usize) -> &[u8] {
        let len = span.len().index();
        &self.memory[span.layout.data_role(d) * len..][..len]
    }
}

/// A page of a span that does not agree.
pub(super) struct PageMismatch {
    /// The page's bytes within the span.
    pub(super) page: Range<usize>,
    /// The role that is wrong and what it should hold, if it was located.
    pub(super) wrong: Option<(usize, Vec<u8>)>,
}

impl Array {
    /// Returns true if members can be compared although some are missing: more is left than is
    /// needed to read all data.
    pub fn can_be_scrubbed(&self) -> bool {
        let size = |role| MemberByte(self.geometry.member_size(role).byte_len().0);
        let lacks = |role: &usize| {
            let member = &self.members[*role];
            member.device().is_none() || member.readable_until() < size(*role)
        };
        let missing = (0..self.members.len()).filter(lacks).count();
        missing < self.geometry.tolerates() as usize
    }

    /// Returns the number of stripes to scrub: stripes of RAID4, 5 and 6, units of copies of RAID1
    /// and RAID10, none without redundancy.
    pub fn scrub_stripes(&self) -> u64 {
        match self.map {
            Map::Concat(_) => 0,
            Map::Raid1 | Map::Raid10(_) => self.end().div_ceil(self.mirror_unit()),
            Map::Parity => self.end().whole(self.stripe_bytes()),
        }
    }

    /// Compares the members of one stripe. With `repair`, a member that is located as the only
    /// wrong one is rewritten.
    ///
    /// # Errors
    /// Returns an error if something cannot be compared because members are missing or cannot be
    /// read.
    pub fn scrub_stripe(&self, stripe: u64, repair: bool) -> Result<Vec<Mismatch>> {
        let Comparison { mismatches, unchecked } = self.compare_stripe(stripe, repair)?;
        if !unchecked.is_zero() {
            let why = "not enough members can be read to compare anything".into();
            let offset = ByteOffset(self.scrub_unit().times(stripe).0);
            return Err(io_error("scrub", offset, ByteLen(0), why));
        }
        Ok(mismatches)
    }

    /// Compares the members of one stripe as far as possible, and counts what cannot be compared.
    ///
    /// # Errors
    /// Returns an error if a member cannot be written.
    pub fn compare_stripe(&self, stripe: u64, repair: bool) -> Result<Comparison> {
        if stripe >= self.scrub_stripes() {
            return Ok(Comparison::default());
        }
        let repair = repair && !self.read_only;
        match self.map {
            Map::Parity => self.scrub_parity(stripe, repair),
            _ => self.scrub_copies(stripe, repair),
        }
    }

    fn scrub_copies(&self, stripe: u64, repair: bool) -> Result<Comparison> {
        let _alone = self.lock_stripe(stripe);
        let start = self.mirror_start(stripe);
        let len = self.mirror_piece(start).min(self.end().distance_from(start)).index();
        let mut copies = self.copies(start);
        copies.retain(|copy| self.members[copy.role].device().is_some());
        let mut memory = vec![0; copies.len() * len];
        let readable = self.read_copies(&copies, &mut memory, len);
        let mut compared = Comparison::default();
        let at = copies.first().map_or(MemberByte(0), |copy| copy.at);
        let mut window = None;
        for page in pages(len) {
            let held = held(&copies, &memory, &readable, &page);
            let Some(((_, _, first), others)) = held.split_first().filter(|(_, o)| !o.is_empty())
            else {
                compared.add_unchecked(page.len());
                continue;
            };
            if others.iter().all(|(_, _, other)| other == first) {
                continue;
            }
            let named = self.differing_copy(&held);
            let role = named.as_ref().map(|(role, _)| *role);
            let repaired = match named.filter(|_| repair) {
                Some((role, right)) => self.repair(&held, role, &right)?,
                None => false,
            };
            let this = page.start / COMPARED;
            let first_of_window = window.replace(this) != Some(this);
            let around = this * COMPARED..((this + 1) * COMPARED).min(len);
            let given: Vec<&[u8]> = copies
                .iter()
                .zip(memory.chunks(len))
                .filter(|(copy, _)| held.iter().any(|(role, _, _)| *role == copy.role))
                .map(|(_, all)| &all[around.clone()])
                .collect();
            let differ = given.iter().filter(|other| **other != given[0]).count();
            let counted = ByteLen(around.len() as u64).sectors().times(differ as u64);
            let counted = if first_of_window { counted } else { Sectors(0) };
            let sectors = sectors(at, &page);
            let mismatch = Mismatch { stripe, sectors, role, repaired, counted };
            compared.mismatches.push(mismatch);
        }
        Ok(compared)
    }

    /// Returns the only wrong copy of a page and what it should hold: the copy that differs where
    /// all others (at least two) are equal, or the one that its own members locate.
    pub(super) fn differing_copy(&self, held: &[MemberPage<'_>]) -> Option<(usize, Vec<u8>)> {
        let others = |i: usize| held.iter().enumerate().filter(move |(j, _)| *j != i);
        let same = |i: usize| {
            let mut others = others(i).map(|(_, (_, _, content))| content);
            let first = others.next()?;
            (held.len() > 2 && others.all(|other| other == first)).then_some(*first)
        };
        let odd = (0..held.len()).find_map(|i| Some((held[i].0, same(i)?.to_vec())));
        odd.or_else(|| {
            self.located_by_nested_members(held, |i, content| {
                others(i).all(|(_, (_, _, held))| *held == content)
            })
        })
    }

    /// Rewrites the wrong member. `held` lists the members' pages.
    fn repair(&self, held: &[MemberPage<'_>], wrong: usize, right: &[u8]) -> Result<bool> {
        let Some((role, at, _)) = held.iter().find(|(role, _, _)| *role == wrong) else {
            return Ok(false);
        };
        self.repair_member(&WriteJob { role: *role, at: *at, buf: right })?;
        Ok(true)
    }

    /// Reads these copies, page by page if one cannot be read whole. Returns, for each copy, the
    /// starts of the pages read.
    pub(super) fn read_copies(
        &self,
        copies: &[Copy],
        memory: &mut [u8],
        len: usize,
    ) -> Vec<Vec<usize>> {
        let mut jobs: Vec<ReadJob<'_>> = copies
            .iter()
            .zip(memory.chunks_mut(len.max(1)))
            .map(|(copy, buf)| ReadJob { role: copy.role, at: copy.at, buf })
            .collect();
        let failed = self.fetch(&mut jobs);
        let all = || pages(len).map(|page| page.start).collect::<Vec<_>>();
        let mut readable: Vec<Vec<usize>> = copies.iter().map(|_| all()).collect();
        for i in failed {
            let ReadJob { role, at, buf } = &mut jobs[i];
            readable[i].retain(|start| {
                let end = (start + PAGE.index()).min(len);
                let buf = &mut buf[*start..end];
                let at = at.plus(ByteLen(*start as u64));
                self.fetch(&mut [ReadJob { role: *role, at, buf }]).is_empty()
            });
        }
        readable
    }

    fn scrub_parity(&self, stripe: u64, repair: bool) -> Result<Comparison> {
        let _alone = self.lock_stripe(stripe);
        let whole = self.span(stripe, self.whole_chunk());
        let mut compared = Comparison::default();
        for span in whole.cut(self.slice_bytes()) {
            self.scrub_span(&span, repair, &mut compared)?;
        }
        if compared.mismatches.iter().any(|mismatch| mismatch.repaired) {
            self.cache.forget(stripe);
        }
        Ok(compared)
    }

    /// Compares a span with the parity that is left after missing chunks were computed. Works page
    /// by page if a member that is present cannot deliver the whole span.
    fn scrub_span(&self, span: &Span, repair: bool, compared: &mut Comparison) -> Result<()> {
        let (at, len) = (self.member_at(span), span.len().index());
        let SpanData { mut memory, missing, failed } = self.read_span(span);
        if failed && span.len() > PAGE {
            return span.cut(PAGE).try_for_each(|page| self.scrub_span(&page, repair, compared));
        }
        let Some(pages) = self.page_mismatches(span, &mut memory, &missing) else {
            compared.add_unchecked(len * (self.members.len() - missing.len()));
            return Ok(());
        };
        for PageMismatch { page, wrong } in pages {
            let role = wrong.as_ref().map(|(role, _)| *role);
            let repaired = wrong.is_some() && repair;
            if let Some((role, right)) = wrong.filter(|_| repair) {
                let at = at.plus(ByteLen(page.start as u64));
                self.repair_member(&WriteJob { role, at, buf: &right })?;
            }
            let sectors = sectors(at, &page);
            let counted = sectors.length();
            let stripe = span.stripe;
            compared.mismatches.push(Mismatch { stripe, sectors, role, repaired, counted });
        }
        Ok(())
    }

    /// Reads a span of every member. If a member that is present fails, the caller may retry page
    /// by page.
    pub(super) fn read_span(&self, span: &Span) -> SpanData {
        let (at, len) = (self.member_at(span), span.len().index());
        let mut memory = vec![0; self.members.len() * len];
        let jobs = memory.chunks_mut(len).enumerate().map(|(role, buf)| ReadJob { role, at, buf });
        let mut jobs: Vec<ReadJob<'_>> =
            jobs.filter(|job| self.members[job.role].device().is_some()).collect();
        let roles: Vec<usize> = jobs.iter().map(|job| job.role).collect();
        self.prefetch(&jobs);
        let failed: Vec<usize> = self.fetch(&mut jobs).into_iter().map(|i| roles[i]).collect();
        let unreadable = |role: &usize| !roles.contains(role) || failed.contains(role);
        let missing = (0..self.members.len()).filter(unreadable).collect();
        SpanData { memory, missing, failed: !failed.is_empty() }
    }

    /// Returns the pages of a span that do not agree with the available parity. A missing data
    /// chunk is first computed into `memory`. Returns `None` if no parity is left to compare with.
    pub(super) fn page_mismatches(
        &self,
        span: &Span,
        memory: &mut [u8],
        missing: &[usize],
    ) -> Option<Vec<PageMismatch>> {
        let (layout, at, len) = (span.layout, self.member_at(span), span.len().index());
        let (p_error, q_error) = self.parity_errors(span, memory, missing)?;
        let chunk = |role: usize| &memory[role * len..(role + 1) * len];
        let mut found = Vec::new();
        for page in pages(len) {
            let (p_error, q_error) = (&p_error[page.clone()], &q_error[page.clone()]);
            if p_error.iter().chain(q_error).all(|byte| *byte == 0) {
                continue;
            }
            let names = layout.q.is_some() && missing.is_empty();
            let held: Vec<MemberPage<'_>> = (0..self.members.len())
                .filter(|role| !missing.contains(role))
                .map(|role| (role, at.plus(ahead(&page)), &chunk(role)[page.clone()]))
                .collect();
            let by_parity =
                names.then(|| layout.wrong_role(p_error, q_error)).flatten().map(|role| {
                    let error = if Some(role) == layout.q { q_error } else { p_error };
                    let right = chunk(role)[page.clone()].iter().zip(error).map(|(a, b)| a ^ b);
                    (role, right.collect::<Vec<u8>>())
                });
            let wrong = by_parity.or_else(|| {
                self.located_by_nested_members(&held, |i, content| {
                    self.would_match(span, &page, &held, missing, (i, content))
                })
            });
            found.push(PageMismatch { page, wrong });
        }
        Some(found)
    }

    /// Returns true if a page of a span would agree with its parity if one member held `content`
    /// instead.
    fn would_match(
        &self,
        span: &Span,
        page: &Range<usize>,
        held: &[MemberPage<'_>],
        missing: &[usize],
        (instead, content): (usize, &[u8]),
    ) -> bool {
        let columns = span.columns.start.plus(ahead(page)).range(ByteLen(page.len() as u64));
        let span = Span { columns, ..span.clone() };
        let mut memory = vec![0; self.members.len() * page.len()];
        for (i, (role, _, buf)) in held.iter().enumerate() {
            let buf = if i == instead { content } else { buf };
            memory[role * page.len()..(role + 1) * page.len()].copy_from_slice(buf);
        }
        let errors = self.parity_errors(&span, &mut memory, missing);
        errors.is_some_and(|(p, q)| p.iter().chain(&q).all(|byte| *byte == 0))
    }

    /// Returns the errors of P and Q of a span; the error of a missing parity is zero. A missing
    /// data chunk is first computed into `memory`, which holds the span's part of every role.
    /// Returns `None` if no parity is left to compare with.
    pub(super) fn parity_errors(
        &self,
        span: &Span,
        memory: &mut [u8],
        missing: &[usize],
    ) -> Option<(Vec<u8>, Vec<u8>)> {
        let (layout, len) = (span.layout, span.len().index());
        let (mut p_error, mut q_error) = (vec![0; len], vec![0; len]);
        let mut has_p = !missing.contains(&layout.p);
        let has_q = layout.q.is_some_and(|q| !missing.contains(&q));
        let data: Vec<usize> = (0..layout.data_disks()).map(|d| layout.data_role(d)).collect();
        let of = |memory: &[u8], role: usize| memory[role * len..(role + 1) * len].to_vec();
        match data.iter().filter(|role| missing.contains(role)).collect::<Vec<_>>()[..] {
            [] => {}
            [missing_role] if has_p && has_q => {
                let others = data.iter().filter(|role| *role != missing_role).chain([&layout.p]);
                let others: Vec<Vec<u8>> = others.map(|role| of(memory, *role)).collect();
                let others: Vec<&[u8]> = others.iter().map(Vec::as_slice).collect();
                xfskit_parity::xor(
                    &others,
                    &mut memory[missing_role * len..(missing_role + 1) * len],
                );
                has_p = false;
            }
            _ => return None,
        }
        let chunk = |role: usize| &memory[role * len..(role + 1) * len];
        let chunks: Vec<&[u8]> = data.iter().map(|role| chunk(*role)).collect();
        match layout.q.filter(|_| has_q) {
            Some(q) => {
                let places = places(layout, &chunks, &[]);
                let (p, q) = (chunk(layout.p), chunk(q));
                xfskit_parity::errors(&places, p, q, &mut p_error, &mut q_error);
                if !has_p {
                    p_error.fill(0);
                }
            }
            None if has_p => {
                xfskit_parity::xor(&[chunks.as_slice(), &[chunk(layout.p)]].concat(), &mut p_error);
            }
            None => return None,
        }
        self.counters
            .count_memory(span.len().times(self.members.len() as u64), span.len().times(2));
        Some((p_error, q_error))
    }
}

/// Returns the page of each copy that could be read; `readable` lists the starts of those pages for
/// each copy.
pub(super) fn held<'m>(
    copies: &[Copy],
    memory: &'m [u8],
    readable: &[Vec<usize>],
    page: &Range<usize>,
) -> Vec<MemberPage<'m>> {
    let each = memory.chunks((memory.len() / copies.len().max(1)).max(1));
    copies
        .iter()
        .zip(each)
        .zip(readable)
        .filter(|(_, readable)| readable.contains(&page.start))
        .map(|((copy, all), _)| (copy.role, copy.at.plus(ahead(page)), &all[page.clone()]))
        .collect()
}

/// Returns the pages of `len` bytes.
pub(super) fn pages(len: usize) -> impl Iterator<Item = Range<usize>> {
    let page = PAGE.index();
    (0..len).step_by(page).map(move |start| start..(start + page).min(len))
}

/// Returns how far behind the start of its buffer a page begins.
fn ahead(page: &Range<usize>) -> ByteLen {
    ByteLen(page.start as u64)
}

/// Returns the sectors of a page of a buffer that holds a member's data from `at` on.
pub(super) fn sectors(at: MemberByte, page: &Range<usize>) -> Range<MemberSector> {
    let sector = |offset: usize| at.plus(ByteLen(offset as u64)).sector_ceil();
    sector(page.start)..sector(page.end)
}
