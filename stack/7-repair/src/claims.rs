//! Blocks that several forks claim: which of the claims hold.
//!
//! Evidence is asked in this order, and the first that tells the claims apart decides: places that
//! are fixed; the rmapbt; inodes, or a header that names its owner, in the blocks; the refcountbt;
//! and last how many others a fork is in dispute with, and about how much of its own.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use xfskit_check::{Claim, Dispute};
use xfskit_format::Fork;
use xfskit_format::inode::{Dinode, MAGIC};
use xfskit_format::rmap::{self, owner};
use xfskit_units::{AgBlock, AgNumber, Ino};

use crate::error::Result;
use crate::headers;
use crate::view::View;

/// Other claims of a block that count as opponents of each.
const OPPONENTS_MAX: usize = 8;
/// Blocks of a dispute whose content is looked at.
const BLOCKS_MAX: u32 = 16;

/// Why a claim holds, in words.
type Reason = &'static str;

/// The reason that does not tell for sure which claim holds.
pub(crate) const BY_STANDING: Reason =
    "the other claim is in fewer disputes, or about less of its content";

/// The parts of a fork's map that do not hold.
#[derive(Debug, Default)]
pub(crate) struct Loser {
    /// Ranges of the file, in blocks. Without any, only blocks of the map's own btree are lost.
    pub ranges: Vec<Range<u64>>,
    /// The ranges of these that are as credible as the claims that hold.
    pub equal: Vec<Range<u64>>,
    /// The reasons.
    pub evidence: BTreeSet<Reason>,
}

/// The forks that lose claims.
pub(crate) type Losers = BTreeMap<(Ino, Fork), Loser>;

/// The claims of a dispute that hold, by index.
struct Verdict {
    holding: Vec<usize>,
    reason: Reason,
    /// The others are as credible.
    is_equal: bool,
}

/// Returns the inodes that are in a dispute.
pub(crate) fn disputants(view: View<'_>) -> BTreeSet<u64> {
    let disputes = view.survey.groups.iter().flat_map(|group| &group.disputes);
    let owners = disputes.flat_map(|dispute| &dispute.claims).map(|claim| claim.owner);
    owners.filter(|owner| owner >> 63 == 0).collect()
}

/// Decides all disputes. One that nothing decides, or whose loser is no file, is left out.
pub(crate) fn losers(view: View<'_>) -> Result<Losers> {
    let standings = standings(view)?;
    let mut losers = Losers::new();
    for group in &view.survey.groups {
        for dispute in &group.disputes {
            let judge = Judge { view, agno: group.agno, dispute, standings: &standings };
            let Some(verdict) = judge.verdict()? else { continue };
            for (at, claim) in dispute.claims.iter().enumerate() {
                if !verdict.holding.contains(&at) {
                    add(&mut losers, dispute, claim, &verdict);
                }
            }
        }
    }
    Ok(losers)
}

fn add(losers: &mut Losers, dispute: &Dispute, claim: &Claim, verdict: &Verdict) {
    let (owner, attr) = fork_of(claim);
    let fork = if attr { Fork::Attr } else { Fork::Data };
    let loser = losers.entry((Ino(owner), fork)).or_default();
    loser.evidence.insert(verdict.reason);
    if claim.offset & rmap::OFF_BMBT_BLOCK == 0 {
        let start = claim.offset & rmap::OFF_MASK;
        let range = start..start.saturating_add(dispute.run.len.into());
        if verdict.is_equal && claim.is_content {
            loser.equal.push(range.clone());
        }
        loser.ranges.push(range);
    }
}

/// A fork: its inode, and whether it is the attribute fork.
type ForkOf = (u64, bool);

fn fork_of(claim: &Claim) -> ForkOf {
    (claim.owner, claim.offset & rmap::OFF_ATTR_FORK != 0)
}

/// How credible a fork is.
#[derive(Default)]
struct Standing {
    opponents: BTreeSet<ForkOf>,
    /// Blocks in dispute.
    disputed: u64,
    /// Blocks of its whole map.
    total: u64,
}

impl Standing {
    /// Returns the key by which the most credible fork comes first.
    fn key(&self) -> (usize, u64, Reverse<u64>) {
        let share = self.disputed.saturating_mul(1000) / self.total.max(1);
        (self.opponents.len(), share, Reverse(self.total))
    }
}

fn standings(view: View<'_>) -> Result<BTreeMap<ForkOf, Standing>> {
    let mut standings = BTreeMap::<ForkOf, Standing>::new();
    for dispute in view.survey.groups.iter().flat_map(|group| &group.disputes) {
        for claim in &dispute.claims {
            let own = fork_of(claim);
            let standing = standings.entry(own).or_default();
            standing.disputed += u64::from(dispute.run.len);
            let others = dispute.claims.iter().map(fork_of).filter(|other| *other != own);
            standing.opponents.extend(others.take(OPPONENTS_MAX));
        }
    }
    for ((owner, attr), standing) in &mut standings {
        let fork = if *attr { Fork::Attr } else { Fork::Data };
        let bytes = if owner >> 63 == 0 { view.inode(Ino(*owner))? } else { None };
        let inode = bytes.as_ref().and_then(|bytes| Dinode::parse(bytes, view.geo));
        standing.total = inode.map_or(0, |inode| view.map(&inode, Ino(*owner), fork).blocks());
    }
    Ok(standings)
}

/// One dispute, and what is known of it.
struct Judge<'j> {
    view: View<'j>,
    agno: AgNumber,
    dispute: &'j Dispute,
    standings: &'j BTreeMap<ForkOf, Standing>,
}

impl Judge<'_> {
    /// Returns the claims that hold; `None` if nothing decides, or the others cannot be cut.
    fn verdict(&self) -> Result<Option<Verdict>> {
        let Some(verdict) = self.decide()? else { return Ok(None) };
        let claims = self.dispute.claims.iter().enumerate();
        let mut lost = claims.filter(|(at, _)| !verdict.holding.contains(at));
        let can_lose = lost.all(|(_, claim)| claim.owner >> 63 == 0 && !self.is_fixed_file(claim));
        Ok(Some(verdict).filter(|_| can_lose))
    }

    fn decide(&self) -> Result<Option<Verdict>> {
        let all: Vec<usize> = (0..self.dispute.claims.len()).collect();
        let fixed = self.those(&all, |claim| [owner::FS, owner::LOG].contains(&claim.owner));
        let known = |holding, reason| Verdict { holding, reason, is_equal: false };
        if !fixed.is_empty() {
            return Ok(Some(known(fixed, "headers and the journal have their fixed places")));
        }
        let recorded = self.those(&all, |claim| claim.recorded == Some(true));
        if self.tells_apart(&recorded) {
            return Ok(Some(known(recorded, "the rmapbt has the other claim")));
        }
        let rest = if recorded.is_empty() { all } else { recorded };
        if let Some((holding, reason)) = self.by_content(&rest)? {
            return Ok(Some(known(holding, reason)));
        }
        let flagged = self.those(&rest, |claim| claim.is_content && claim.has_flag);
        let counted = self.dispute.counted.is_none_or(|n| usize::try_from(n) == Ok(flagged.len()));
        if self.tells_apart(&flagged) && flagged.len() > 1 && counted {
            return Ok(Some(known(flagged, "the refcountbt has those that share")));
        }
        Ok(self.by_standing(rest))
    }

    /// Returns those of `among` for which `is` is true.
    fn those(&self, among: &[usize], is: impl Fn(&Claim) -> bool) -> Vec<usize> {
        among.iter().copied().filter(|at| is(&self.dispute.claims[*at])).collect()
    }

    /// Returns true if claims can all hold, and others do not.
    fn tells_apart(&self, holding: &[usize]) -> bool {
        let may_share = self.view.geo.features.reflink()
            && holding.iter().all(|at| self.dispute.claims[*at].is_content);
        let settled = holding.len() == 1 || (holding.len() > 1 && may_share);
        settled && holding.len() < self.dispute.claims.len()
    }

    /// Returns true if the superblock names the inode of a claim: its content has to be whole.
    fn is_fixed_file(&self, claim: &Claim) -> bool {
        let sb = &self.view.survey.superblock;
        let named = [sb.uquotino, sb.gquotino, sb.pquotino, sb.rbmino, sb.rsumino];
        named.iter().any(|ino| ino.get() == claim.owner)
    }

    /// Returns the claims that agree with what the blocks hold.
    fn by_content(&self, among: &[usize]) -> Result<Option<(Vec<usize>, Reason)>> {
        let geo = self.view.geo;
        let inodes = self.those(among, |claim| claim.owner == owner::INODES);
        let metadata = self.those(among, |claim| claim.owner >> 63 == 0 && !claim.is_content);
        if inodes.is_empty() && metadata.is_empty() {
            return Ok(None);
        }
        let mut block = vec![0; geo.blocksize()];
        for agbno in (self.dispute.run.start..self.dispute.run.end()).take(BLOCKS_MAX as usize) {
            let at = geo.agb_to_daddr(self.agno, AgBlock(agbno));
            self.view.dev.read_at(at.byte_offset(), &mut block)?;
            if !inodes.is_empty() && self.has_inode(&block, AgBlock(agbno)) {
                return Ok(Some((inodes, "the blocks hold inodes with their own numbers")));
            }
            let Some(named) = headers::owner(geo, &block, at) else { continue };
            let holding = self.those(&metadata, |claim| claim.owner == named);
            if holding.len() == 1 {
                return Ok(Some((holding, "the block names its inode and its own place")));
            }
        }
        let content = self.those(among, |claim| claim.is_content);
        let each_has_header = geo.dirblkfsbs() == 1 && inodes.is_empty();
        let settled = each_has_header && self.tells_apart(&content);
        Ok(settled.then_some((content, "the block has no header of the other claim")))
    }

    /// Returns true if an inode in `block` has its own number, and the volume's UUID.
    fn has_inode(&self, block: &[u8], agbno: AgBlock) -> bool {
        let geo = self.view.geo;
        let first = geo.agb_to_agino(agbno).0;
        (first..).zip(block.chunks_exact(geo.inodesize())).any(|(agino, slot)| {
            let v3 = Dinode::parse(slot, geo).and_then(|inode| Some((inode.core, inode.v3?)));
            v3.is_some_and(|(core, v3)| {
                core.magic.get() == MAGIC
                    && v3.inumber.get() == geo.agino_to_ino(self.agno, xfskit_units::AgIno(agino)).0
                    && v3.uuid == *geo.meta_uuid.as_bytes()
            })
        })
    }

    /// Returns the claim of the most credible fork.
    fn by_standing(&self, among: Vec<usize>) -> Option<Verdict> {
        let key = |at: &usize| {
            let standing = self.standings.get(&fork_of(&self.dispute.claims[*at]));
            standing.map(Standing::key)
        };
        let special = |at: &usize| self.dispute.claims[*at].owner >> 63 != 0;
        if among.iter().any(special) {
            return None;
        }
        let best = among.iter().copied().min_by_key(key)?;
        let is_equal = among.iter().filter(|at| key(at) == key(&best)).count() > 1;
        let reason = if is_equal {
            "nothing tells the claims apart: that of the lower inode holds"
        } else {
            BY_STANDING
        };
        Some(Verdict { holding: vec![best], reason, is_equal })
    }
}
