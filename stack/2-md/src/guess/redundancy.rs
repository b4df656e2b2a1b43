//! Redundancy: whether members agree in sampled sectors, as a shape and an order predict.
//!
//! Sectors are sampled where blocks were found, and evenly over the members where several of them
//! hold something. On levels with parity, P and Q are computed; copies are compared. A shape
//! without redundancy, or with less of it, does not explain why members that it takes for
//! independent are equal everywhere: that counts against it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_units::ByteOffset;

use super::MemberDevices;
use super::evidence::FoundBlock;
use super::shape::Shape;
use super::steps::Steps;
use crate::layout::Layout;
use crate::layout::parity::StripeLayout;

/// Sectors that are sampled where blocks were found, and elsewhere.
const SAMPLES_MAX: usize = 96;
/// Places that are searched for sectors that several members have filled.
const SEARCHED: u64 = 4096;
/// Samples from which on a coincidence is none.
const COINCIDENCES: usize = 4;

type Sector = [u8; 512];
type Order = [Option<usize>];
/// Sectors that were read, by member and sector; `None` for what cannot be read.
type ReadSectors = HashMap<(usize, u64), Option<Arc<Sector>>>;

/// The members' sectors that are compared.
pub(super) struct Samples<'a> {
    devices: &'a MemberDevices,
    at: Vec<u64>,
    sectors: RefCell<ReadSectors>,
}

/// How many samples could be compared, and in how many the members do not agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Samples that were compared.
    pub compared: usize,
    /// Samples in which the members do not agree, without those in `located`.
    pub wrong: usize,
    /// Samples in which one and the same member explains the disagreement, as Q shows.
    pub located: usize,
    /// The role of that member.
    pub located_role: Option<usize>,
}

/// What the comparison of a sample shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Agrees,
    Differs,
    /// Only the content of this role is wrong.
    Located(usize),
}

impl Comparison {
    fn of(agrees: bool) -> Self {
        if agrees { Self::Agrees } else { Self::Differs }
    }
}

impl<'a> Samples<'a> {
    /// Selects the samples.
    pub(super) fn new(
        devices: &'a MemberDevices,
        found: &[FoundBlock],
        steps: &Steps<'_>,
    ) -> ControlFlow<(), Self> {
        let mut samples = Self { devices, at: Vec::new(), sectors: RefCell::default() };
        let step = found.len().div_ceil(SAMPLES_MAX).max(1);
        samples.at.extend(found.iter().step_by(step).map(|block| block.at.0));
        let sizes = devices.iter().flatten().map(|device| device.size().0 / 512);
        let end = sizes.min().unwrap_or(0);
        let is_filled = |at: &u64| {
            let filled = (0..devices.len()).filter_map(|member| samples.sector(member, *at));
            filled.filter(|sector| **sector != [0; 512]).count() > 1
        };
        let step = (end / SEARCHED).max(8);
        let mut filled = Vec::new();
        for at in (0..end / step).map(|i| i * step) {
            steps.poll()?;
            filled.extend(Some(at).filter(is_filled));
        }
        let step = filled.len().div_ceil(SAMPLES_MAX).max(1);
        samples.at.extend(filled.iter().step_by(step));
        samples.at.sort_unstable();
        samples.at.dedup();
        ControlFlow::Continue(samples)
    }

    fn sector(&self, member: usize, at: u64) -> Option<Arc<Sector>> {
        let read = || {
            let device = self.devices.get(member)?.as_ref()?;
            let mut sector = [0; 512];
            device.read_at(ByteOffset(at.checked_mul(512)?), &mut sector).ok()?;
            Some(Arc::new(sector))
        };
        self.sectors.borrow_mut().entry((member, at)).or_insert_with(read).clone()
    }

    /// Compares the members in all samples.
    pub(super) fn agreement(&self, shape: &Shape, offset: u64, order: &Order) -> Agreement {
        let mut agreement = Agreement::default();
        let (mut independent, mut coincidences) = (0, 0);
        let mut located = vec![0; order.len()];
        for at in self.at.iter().filter_map(|at| at.checked_sub(offset)) {
            let compared = match shape.layout {
                Layout::Raid1 | Layout::Raid10(_) => {
                    self.copies_agree(shape, offset, order, at).map(Comparison::of)
                }
                _ => {
                    let held = self.held(offset, order, at);
                    let coincides = coincides(shape, &held, at);
                    independent += usize::from(coincides.is_some());
                    coincidences += usize::from(coincides == Some(true));
                    shape.stripe(at).and_then(|stripe| parity_agrees(stripe, &held))
                }
            };
            agreement.compared += usize::from(compared.is_some());
            match compared {
                Some(Comparison::Differs) => agreement.wrong += 1,
                Some(Comparison::Located(role)) => located[role] += 1,
                _ => {}
            }
        }
        let all_located: usize = located.iter().sum();
        agreement.located = located.iter().copied().max().unwrap_or(0);
        agreement.wrong += all_located - agreement.located;
        agreement.located_role = located.iter().position(|n| *n > 0 && *n == agreement.located);
        if coincidences >= COINCIDENCES && coincidences * 10 > independent * 9 {
            agreement.wrong = agreement.wrong.max(coincidences);
            agreement.compared = agreement.compared.max(independent);
        }
        agreement
    }

    /// Returns what the role of each member holds at a sector from the data offset.
    fn held(&self, offset: u64, order: &Order, at: u64) -> Vec<Option<Arc<Sector>>> {
        let place = offset.checked_add(at);
        order.iter().map(|member| self.sector((*member)?, place?)).collect()
    }

    /// Compares the copies of what the roles hold here; `None` if nothing can be compared.
    fn copies_agree(&self, shape: &Shape, offset: u64, order: &Order, at: u64) -> Option<bool> {
        let copy = |role: usize, at: u64| {
            self.sector(order.get(role).copied().flatten()?, offset.checked_add(at)?)
        };
        let Some(map) = shape.raid10() else {
            let copies: Vec<_> = (0..shape.members).filter_map(|role| copy(role, at)).collect();
            return (copies.len() > 1).then(|| copies.windows(2).all(|pair| pair[0] == pair[1]));
        };
        let (chunk, off) = (at / shape.chunk.0, at % shape.chunk.0);
        let mut agrees = None;
        for role in 0..shape.members {
            let Some(array_chunk) = map.chunk_at(role, chunk) else { continue };
            let copies: Vec<_> = map
                .copies(array_chunk)
                .filter_map(|place| copy(place.role, place.chunk * shape.chunk.0 + off))
                .collect();
            if copies.len() > 1 {
                let same = copies.windows(2).all(|pair| pair[0] == pair[1]);
                agrees = Some(agrees.unwrap_or(true) && same);
            }
        }
        agrees
    }
}

/// Returns whether members that the shape takes for independent are equal, or add up to zero;
/// `None` if too few of them hold anything.
fn coincides(shape: &Shape, held: &[Option<Arc<Sector>>], at: u64) -> Option<bool> {
    let stripe = shape.stripe(at);
    let is_data = |role: usize| stripe.is_none_or(|s| role != s.p && Some(role) != s.q);
    let data: Vec<&Sector> = held
        .iter()
        .enumerate()
        .filter(|(role, _)| is_data(*role))
        .filter_map(|(_, sector)| sector.as_deref())
        .filter(|sector| **sector != [0; 512])
        .collect();
    (data.len() > 1).then(|| {
        let equal = (0..data.len()).any(|i| data[..i].contains(&data[i]));
        let adds_up = stripe.is_none() && sum(&data) == [0; 512];
        equal || adds_up
    })
}

fn sum(sectors: &[&Sector]) -> Sector {
    let mut sum = [0; 512];
    let sectors: Vec<&[u8]> = sectors.iter().map(|sector| sector.as_slice()).collect();
    xfskit_parity::xor(&sectors, &mut sum);
    sum
}

/// Compares a stripe's sectors with its parity; `None` if none is left for that.
fn parity_agrees(stripe: StripeLayout, held: &[Option<Arc<Sector>>]) -> Option<Comparison> {
    let sector = |role: usize| held.get(role).and_then(Option::as_deref);
    let data: Vec<Option<&Sector>> =
        (0..stripe.data_disks()).map(|d| sector(stripe.data_role(d))).collect();
    let (p, q) = (sector(stripe.p), stripe.q.map(sector));
    let missing: Vec<usize> = (0..data.len()).filter(|d| data[*d].is_none()).collect();
    let present: Vec<&Sector> = data.iter().flatten().copied().collect();
    let computed = match (missing.as_slice(), p) {
        ([], _) => None,
        ([d], Some(p)) => Some((*d, sum(&[present.as_slice(), &[p]].concat()))),
        _ => return None,
    };
    let p_error =
        p.filter(|_| missing.is_empty()).map(|p| sum(&[present.as_slice(), &[p]].concat()));
    let q_error: Option<Sector> = q.flatten().map(|q| {
        let mut chunks: Vec<Option<&[u8]>> = vec![None; stripe.exponents()];
        for (d, sector) in data.iter().enumerate() {
            let computed = computed.as_ref().filter(|(missing, _)| *missing == d);
            let sector = computed.map(|(_, sector)| sector).or(*sector);
            chunks[stripe.exponent(d)] = sector.map(Sector::as_slice);
        }
        let (mut p, mut sum) = ([0; 512], [0; 512]);
        xfskit_parity::pq(&chunks, &mut p, &mut sum);
        sum.iter_mut().zip(q).for_each(|(a, b)| *a ^= b);
        sum
    });
    let is_zero = |error: Sector| error == [0; 512];
    match (p_error, q_error) {
        (None, None) => None,
        (Some(p), Some(q)) if !is_zero(p) || !is_zero(q) => {
            let role = stripe.wrong_role(&p, &q);
            Some(role.map_or(Comparison::Differs, Comparison::Located))
        }
        (p, q) => Some(Comparison::of(p.is_none_or(is_zero) && q.is_none_or(is_zero))),
    }
}
