//! Replaying logs before members are trusted.
//!
//! A partial parity log is replayed if the array was not shut down cleanly, a journal whenever it
//! has entries. Read-only members are replayed onto a copy-on-write view in memory and stay
//! unchanged.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use xfskit_block::{BlockDevice, OverlayDevice, Result as Io};
use xfskit_units::{ArraySector, ByteLen, Daddr, JournalSector, MemberByte, Sectors, index};

use super::{AssembledMember, Assembly, Error, Freshness};
use crate::array::Array;
use crate::array::ppl::PplLog;
use crate::array::replay::PplWrite;
use crate::journal::{BLOCK_BYTES, Entry, JournalReader, JournalWriter, Kind, StripePage};
use crate::ppl::{self, HEADER_BYTES, Ppl};
use crate::superblock::Superblock;

/// Stripes whose parity is put into the journal at once.
const STRIPES_AT_ONCE: usize = 64;

/// The page of a journal.
const PAGE: Sectors = ByteLen(BLOCK_BYTES as u64).sectors();

/// Pages of one stripe that a journal holds, at one offset of the members.
struct PendingStripe {
    /// The oldest entry with any of them.
    entry: usize,
    /// Where each page lies in the journal, by data chunk.
    data: BTreeMap<usize, JournalSector>,
}

impl PendingStripe {
    fn since(entry: usize) -> Self {
        Self { entry, data: BTreeMap::new() }
    }
}

impl Assembly {
    /// Returns true if parity can be trusted after a crash, because a log records what was being
    /// written.
    pub(super) fn has_partial_parity(&self) -> bool {
        self.superblock().ppl().is_some()
    }

    /// Returns the journal's index among the members.
    pub(super) fn journal(&self) -> Option<usize> {
        self.members.iter().position(|member| member.freshness == Freshness::Journal)
    }

    /// Returns the array with its logs replayed onto the members.
    pub(super) fn replayed(&self) -> Result<Cow<'_, Self>, Error> {
        let failed = |name: &str, source| Error::Device { name: name.to_owned(), source };
        let entries = match self.journal_entries() {
            Some((name, entries)) => entries.map_err(|source| failed(name, source))?,
            None => Vec::new(),
        };
        let partial = self.has_partial_parity() && self.is_dirty();
        if !partial && entries.is_empty() {
            return Ok(Cow::Borrowed(self));
        }
        let mut this = self.clone();
        let in_memory = this.members.iter().any(|member| member.device.is_read_only());
        for member in &mut this.members {
            if member.device.is_read_only() {
                member.device = Arc::new(OverlayDevice::new(Arc::clone(&member.device)));
            }
        }
        let array = this.open_members()?;
        if partial {
            this.replay_partial_parity(&array)
                .map_err(|source| failed("partial parity log", source))?;
            this.is_replayed = true;
        }
        if !entries.is_empty() {
            let replayed = this.replay_journal(&array, &entries, in_memory);
            if !replayed.map_err(|source| failed("journal", source))? {
                return Err(Error::JournalFull);
            }
        }
        Ok(Cow::Owned(this))
    }

    fn journal_entries(&self) -> Option<(&str, Io<Vec<Entry>>)> {
        let member = &self.members[self.journal()?];
        let Superblock::V1(sb) = &member.superblock else { return None };
        let journal = JournalReader::new(&member.device, sb)?;
        Some((&member.name, journal.entries()))
    }

    fn replay_partial_parity(&self, array: &Array) -> Io<()> {
        let serving: Vec<_> = self.roles.iter().flatten().map(|i| &self.members[*i]).collect();
        for member in &serving {
            if let Some(log) = ppl::read(&member.device, &member.superblock)? {
                replay_ppl(array, &member.device, &log)?;
            }
        }
        array.flush()?;
        for member in serving {
            if let Some(place) = member.superblock.ppl() {
                ppl::clear(&member.device, place, member.superblock.set_uuid())?;
            }
        }
        array.flush()
    }

    /// Opens and empties the members' partial parity logs.
    pub(super) fn partial_parity_logs(&self) -> Io<Vec<Option<PplLog>>> {
        let log = |role: &Option<usize>| {
            let Some(member) = role.map(|i| &self.members[i]) else { return Ok(None) };
            let Some(place) = member.superblock.ppl() else { return Ok(None) };
            PplLog::open(&member.device, place, member.superblock.set_uuid()).map(Some)
        };
        self.roles.iter().map(log).collect()
    }

    /// Opens the journal for appending. `now` makes the sequence numbers of a new journal different
    /// from all earlier ones.
    pub(super) fn journal_writer(&self, now: u64) -> Io<Option<JournalWriter>> {
        let Some(member) = self.journal().map(|at| &self.members[at]) else { return Ok(None) };
        let Superblock::V1(sb) = &member.superblock else { return Ok(None) };
        JournalWriter::new(&member.device, sb, now)
    }

    /// Replays the journal onto the members: stripes with data and parity as they are. Data without
    /// parity first get their parity, appended to the journal, so that a crash meanwhile leaves
    /// complete stripes there. With `in_memory`, a crash can lose nothing.
    ///
    /// Returns false, and writes nothing, if the journal has no space for that parity and members
    /// are missing: the data of a missing member could not be computed any more from a half-written
    /// stripe.
    fn replay_journal(&mut self, array: &Array, entries: &[Entry], in_memory: bool) -> Io<bool> {
        let needs_space = !in_memory && !self.is_forced && self.is_degraded();
        let Some(at) = self.journal() else { return Ok(true) };
        let member = &mut self.members[at];
        let device = Arc::clone(&member.device);
        let Superblock::V1(sb) = &member.superblock else { return Ok(true) };
        let Some(journal) = JournalReader::new(&device, sb) else { return Ok(true) };
        let Some(mut writer) = JournalWriter::new(&device, sb, 0)? else { return Ok(true) };
        if needs_space && !has_space_for_parity(array, &journal, writer.clone(), entries)? {
            return Ok(false);
        }
        let waiting = collect_stripes(array, &journal, entries, true)?;
        array.flush()?;
        let mut waiting = in_order(&waiting);
        while let Some((_, oldest)) = waiting.first() {
            // Entries before the oldest of them are on the members already.
            let tail = entries[oldest.entry].position;
            if tail != writer.tail() {
                publish_tail(member, tail)?;
                writer.advance_tail(tail);
            }
            let some = waiting.iter().take(STRIPES_AT_ONCE);
            let some = some.map(|(at, stripe)| WaitingStripe::of(array, &journal, **at, stripe));
            let some = some.collect::<Io<Vec<_>>>()?;
            let columns: Vec<StripePage<'_>> =
                some.iter().map(WaitingStripe::parity_column).collect();
            let mut count = columns.len();
            while count > 1 && !writer.has_space_for(&columns[..count]) {
                count /= 2;
            }
            // Without space for one page, parity is computed again after a crash; no member is
            // missing then.
            writer.append(&columns[..count])?;
            some[..count].iter().try_for_each(|stripe| stripe.write(array))?;
            array.flush()?;
            waiting.drain(..count);
        }
        let tail = writer.append_empty_block()?;
        publish_tail(member, tail)?;
        Ok(true)
    }
}

/// Writes the superblock of the journal with a new tail.
fn publish_tail(member: &mut AssembledMember, tail: JournalSector) -> Io<()> {
    let Superblock::V1(sb) = &mut member.superblock else { return Ok(()) };
    sb.recovery_offset.set(tail.0);
    let at = Daddr(sb.super_offset.get()).byte_offset();
    member.device.write_fua(at, &member.superblock.own_bytes())
}

/// Returns the stripes whose data wait for their parity, the oldest first.
fn in_order(stripes: &BTreeMap<MemberByte, PendingStripe>) -> Vec<(&MemberByte, &PendingStripe)> {
    let mut stripes: Vec<_> = stripes.iter().collect();
    stripes.sort_by_key(|(_, stripe)| stripe.entry);
    stripes
}

/// Returns true if the journal has space for the parity of all waiting stripes, provided that each
/// frees its space when it is done.
fn has_space_for_parity(
    array: &Array,
    journal: &JournalReader<'_>,
    mut writer: JournalWriter,
    entries: &[Entry],
) -> Io<bool> {
    let page = [0; BLOCK_BYTES];
    let parity = vec![&page[..]; index(u64::from(array.geometry().tolerates()))];
    let waiting = collect_stripes(array, journal, entries, false)?;
    Ok(in_order(&waiting).into_iter().all(|(at, stripe)| {
        writer.advance_tail(entries[stripe.entry].position);
        let (data, parity) = (Vec::new(), parity.clone());
        writer.simulate_append(&[StripePage { data, member_sector: at.sector_floor(), parity }])
    }))
}

/// Collects the stripes of a journal. With `replay`, writes stripes that are complete in the
/// journal to their members. Returns the stripes without parity, by the byte of the members.
fn collect_stripes(
    array: &Array,
    journal: &JournalReader<'_>,
    entries: &[Entry],
    replay: bool,
) -> Io<BTreeMap<MemberByte, PendingStripe>> {
    let mut pending: BTreeMap<MemberByte, PendingStripe> = BTreeMap::new();
    let payloads = entries.iter().enumerate();
    for (entry, payload) in
        payloads.flat_map(|(i, entry)| entry.payloads.iter().map(move |p| (i, p)))
    {
        match payload.kind {
            Kind::Data(first) => {
                for (i, page) in (0..).zip(&payload.pages) {
                    let sector = first.saturating_plus(PAGE.times(i));
                    if sector.saturating_plus(PAGE).0 > array.geometry().array_size().0 {
                        continue;
                    }
                    let (stripe, d) = array.stripe_position(sector.byte_offset());
                    let stripe =
                        pending.entry(stripe).or_insert_with(|| PendingStripe::since(entry));
                    stripe.data.insert(d, *page);
                }
            }
            Kind::Parity(sector) => {
                let stripe = sector.byte();
                let inside = sector.0 < array.geometry().component_size().0;
                let Some(found) = pending.remove(&stripe).filter(|_| inside && replay) else {
                    continue;
                };
                let page = |at: &JournalSector| journal.page(*at);
                let data = found.data.values().map(page).collect::<Io<Vec<_>>>()?;
                let data: Vec<(usize, &[u8])> =
                    found.data.keys().copied().zip(data.iter().map(Vec::as_slice)).collect();
                let parity = payload.pages.iter().map(page).collect::<Io<Vec<_>>>()?;
                let parity: Vec<&[u8]> = parity.iter().map(Vec::as_slice).collect();
                array.replay_stripe(stripe, &data, &parity)?;
            }
            Kind::Flush(sector) => drop(pending.remove(&sector.byte())),
        }
    }
    Ok(pending)
}

/// Data of a stripe without parity in the journal, and the parity that belongs to them.
struct WaitingStripe {
    at: MemberByte,
    data: Vec<(usize, Vec<u8>)>,
    parity: Vec<Vec<u8>>,
}

impl WaitingStripe {
    fn of(
        array: &Array,
        journal: &JournalReader<'_>,
        at: MemberByte,
        stripe: &PendingStripe,
    ) -> Io<Self> {
        let page = |(d, page): (&usize, &JournalSector)| Ok((*d, journal.page(*page)?));
        let data = stripe.data.iter().map(page).collect::<Io<Vec<_>>>()?;
        let mut this = Self { at, data, parity: Vec::new() };
        this.parity = array.parity_with(at, &this.pages())?;
        Ok(this)
    }

    fn pages(&self) -> Vec<(usize, &[u8])> {
        self.data.iter().map(|(d, page)| (*d, page.as_slice())).collect()
    }

    /// Returns the parity that completes the stripe, beside the data in the journal.
    fn parity_column(&self) -> StripePage<'_> {
        StripePage {
            data: Vec::new(),
            member_sector: self.at.sector_floor(),
            parity: self.parity.iter().map(Vec::as_slice).collect(),
        }
    }

    fn write(&self, array: &Array) -> Io<()> {
        let parity: Vec<&[u8]> = self.parity.iter().map(Vec::as_slice).collect();
        array.replay_stripe(self.at, &self.pages(), &parity)
    }
}

/// Replays one member's log. If an entry's partial parity is incomplete, its data were never
/// written.
fn replay_ppl(array: &Array, device: &dyn BlockDevice, log: &Ppl) -> Io<()> {
    let mut at = log.at.byte_offset().plus(ByteLen(HEADER_BYTES as u64));
    for entry in log.header.entries() {
        let len = ByteLen(entry.pp_size.get().into());
        let start = at;
        at = at.plus(len);
        if len > array.geometry().chunk_bytes() {
            return Ok(()); // no log is like that
        }
        let mut partial = vec![0; len.index()];
        device.read_at(start, &mut partial)?;
        if !len.is_zero() && xfskit_crc::crc32c(&partial) != entry.checksum.get() {
            continue;
        }
        array.replay_ppl_write(&PplWrite {
            at: ArraySector(entry.data_sector.get()).byte_offset(),
            len: ByteLen(entry.data_size.get().into()),
            parity: index(u64::from(entry.parity_disk.get())),
            partial: (!len.is_zero()).then_some(partial.as_slice()),
        })?;
    }
    Ok(())
}
