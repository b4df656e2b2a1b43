//! Phase 6: link counts, the shape of the directory tree, and the counters of the superblock.

use std::sync::atomic::Ordering;

use xfskit_format::Value;
use xfskit_format::inobt::INODES_PER_CHUNK;
use xfskit_format::inode::{self, Dinode, FileType};
use xfskit_format::sb::{self, Superblock};
use xfskit_units::{AgIno, AgNumber, Ino};

use crate::inodes::{self, Context, is_unknown, rank_of};
use crate::space::Totals;
use crate::table::Kind;

/// A directory and its parent, as its own ".." entry or its parent's entry records it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DirParent {
    pub dir: Ino,
    pub parent: Ino,
}

/// The results of phase 4, of all threads together.
pub(crate) struct Directories {
    /// The ".." entry of every directory, sorted.
    pub dotdots: Vec<DirParent>,
    /// Every entry that names a directory, sorted.
    pub subdirs: Vec<DirParent>,
    /// False if some directory could not be read. Inodes without a name are not reported then.
    pub complete: bool,
}

impl Directories {
    /// Returns the bytes of memory taken.
    pub(crate) fn bytes(&self) -> u64 {
        ((self.dotdots.len() + self.subdirs.len()) * size_of::<DirParent>()) as u64
    }

    /// Returns the first directory with an entry for directory `dir`.
    pub(crate) fn parent(&self, dir: Ino) -> Option<Ino> {
        let at = self.subdirs.partition_point(|entry| entry.dir < dir);
        self.subdirs.get(at).filter(|entry| entry.dir == dir).map(|entry| entry.parent)
    }
}

/// Returns the inodes that the superblock names.
fn named_by_superblock(shared: &Context<'_, '_>, primary: &Superblock) -> Vec<(&'static str, Ino)> {
    let geo = &shared.vol.geo;
    let mut named = Vec::new();
    named.extend(geo.rbmino.map(|ino| ("sb.rbmino", ino)));
    named.extend(geo.rsumino.map(|ino| ("sb.rsumino", ino)));
    if !geo.features.metadir() {
        let mut quota = vec![("sb.uquotino", primary.uquotino), ("sb.gquotino", primary.gquotino)];
        if geo.v5() {
            quota.push(("sb.pquotino", primary.pquotino));
        }
        let some = |ino: u64| ino != 0 && ino != u64::MAX;
        let quota = quota.into_iter().map(|(id, ino)| (id, ino.get()));
        named.extend(quota.filter(|(_, ino)| some(*ino)).map(|(id, ino)| (id, Ino(ino))));
    }
    named
}

/// Checks that the inodes that the superblock names exist and have the right type.
pub(crate) fn check_named_inodes(shared: &Context<'_, '_>, primary: &Superblock) {
    let vol = shared.vol;
    let ctx = vol.ctx(sb::location(&vol.geo, AgNumber(0)));
    for (id, ino) in named_by_superblock(shared, primary) {
        let rank = rank_of(shared, ino);
        let kind = rank.map_or(Kind::Free, |rank| shared.table.kind(rank));
        let sound =
            matches!(kind, Kind::Broken | Kind::Used(FileType::Regular)) || is_unknown(shared, ino);
        vol.sink.error(ctx.require(id, sound, "a regular file", ino));
        if let Some(rank) = rank {
            let links = shared.table.links(rank);
            let ctx = vol.ctx(inode::location(&vol.geo, ino));
            vol.sink.error(ctx.eq("dir.entry.metadata", 0, links));
            shared.table.add_link(rank);
        }
    }
    for (id, root) in roots(shared) {
        let kind = rank_of(shared, root).map_or(Kind::Free, |rank| shared.table.kind(rank));
        // The damage of an inode that a record lists was reported with it.
        vol.fatal(match kind {
            Kind::Broken | Kind::Used(FileType::Directory) => Ok(()),
            Kind::Free if is_unknown(shared, root) => check_unlisted(shared, root).map_or_else(
                || ctx.fail(id, "a directory", format!("inode {root} is damaged, or free")),
                |kind| ctx.require(id, kind == FileType::Directory, "a directory", root),
            ),
            _ => ctx.require(id, false, "a directory", root),
        });
    }
}

/// Returns the type of an inode of a group whose inode btree is damaged, so that no record lists
/// it. `None` for a damaged inode, which is reported, and for a free one.
fn check_unlisted(shared: &Context<'_, '_>, ino: Ino) -> Option<FileType> {
    let vol = shared.vol;
    let (_, agino) = vol.geo.ino_split(ino)?;
    let at = inode::location(&vol.geo, ino);
    let mut block = vec![0; vol.geo.blocksize()];
    if !vol.read(at, &mut block) {
        return None;
    }
    let bytes = block.get_mut(vol.geo.agino_block_offset(agino)..)?;
    let bytes = bytes.get_mut(..vol.geo.inodesize())?;
    let ctx = vol.ctx(at);
    let at = inodes::inode_location(vol, at, ino);
    vol.verify_in(at, bytes, inode::CRC_OFFSET, |bytes| {
        Ok(Dinode::verify(bytes, &ctx, ino)?.file_type())
    })?
}

pub(crate) fn roots(shared: &Context<'_, '_>) -> Vec<(&'static str, Ino)> {
    let geo = &shared.vol.geo;
    let mut roots = vec![("sb.rootino", geo.rootino)];
    roots.extend(geo.metadirino.map(|ino| ("sb.metadirino", ino)));
    roots
}

/// Returns true if all entries of the volume are known.
fn all_known(shared: &Context<'_, '_>, dirs: &Directories) -> bool {
    let is_directory = |ino: Ino| {
        let kind = rank_of(shared, ino).map(|rank| shared.table.kind(rank));
        kind == Some(Kind::Used(FileType::Directory))
    };
    dirs.complete
        && shared.groups.iter().all(|group| group.chunks.complete)
        && roots(shared).iter().all(|(_, root)| is_directory(*root))
}

/// Checks that every directory is below a root, has one parent, and names it in "..".
pub(crate) fn check_tree_shape(shared: &Context<'_, '_>, dirs: &Directories) {
    let roots: Vec<Ino> = roots(shared).into_iter().map(|(_, ino)| ino).collect();
    let vol = shared.vol;
    let complete = all_known(shared, dirs);
    for entry in &dirs.dotdots {
        let ctx = vol.ctx(inode::location(&vol.geo, entry.dir));
        let from = dirs.subdirs.partition_point(|b| b.dir < entry.dir);
        let named = dirs.subdirs.get(from..).unwrap_or(&[]);
        let named = named.iter().take_while(|b| b.dir == entry.dir);
        let parents = named.clone().count();
        if roots.contains(&entry.dir) {
            vol.sink.error(ctx.eq("dir.dotdot", entry.dir, entry.parent));
            vol.sink.error(ctx.eq("dir.parents", 0, parents));
            continue;
        }
        vol.sink.error(ctx.at_most("dir.parents", 1, parents));
        if parents == 0 && complete {
            check_disconnected(shared, entry.dir);
        }
        if let Some(entry_to) = named.clone().next()
            && !named.clone().any(|p| p.parent == entry.parent)
        {
            vol.sink.error(ctx.eq("dir.dotdot", entry_to.parent, entry.parent));
        }
    }
    if dirs.complete {
        check_reach(shared, dirs, &roots);
    }
}

/// Checks that the parents of every directory lead to a root.
fn check_reach(shared: &Context<'_, '_>, dirs: &Directories, roots: &[Ino]) {
    let vol = shared.vol;
    let index_of = |ino: Ino| dirs.dotdots.binary_search_by_key(&ino, |a| a.dir).ok();
    // For each directory the round in which it was passed; 0 for never.
    let mut passed = vec![0usize; dirs.dotdots.len()];
    for (round, start) in (1usize..).zip(&dirs.dotdots) {
        let mut at = start.dir;
        while !roots.contains(&at) {
            let Some(index) = index_of(at) else { break };
            if passed[index] == round {
                let ctx = vol.ctx(inode::location(&vol.geo, at));
                let found = "it is below itself, and no path leads from it to the root";
                vol.sink.error(ctx.fail("dir.cycle", "a way to the root", found));
                break;
            }
            if passed[index] != 0 {
                break;
            }
            passed[index] = round;
            // A directory without a name is reported where links are counted.
            let Some(parent) = dirs.parent(at) else { break };
            at = parent;
        }
    }
}

/// Checks that every inode has as many links as it records, and that its parent pointers match.
pub(crate) fn check_links(shared: &Context<'_, '_>, dirs: &Directories) {
    let vol = shared.vol;
    let complete = all_known(shared, dirs);
    let attrs_known = shared.attrs_known.load(Ordering::Relaxed);
    for (agno, group) in vol.geo.ags().zip(shared.groups) {
        let ranks = group.chunks.base * INODES_PER_CHUNK as usize..;
        for (chunk, base) in group.chunks.list.iter().zip(ranks.step_by(INODES_PER_CHUNK as usize))
        {
            for slot in 0..INODES_PER_CHUNK {
                let rank = base + slot as usize;
                let Kind::Used(file_type) = shared.table.kind(rank) else { continue };
                let (links, nlink) = (shared.table.links(rank), shared.table.nlink(rank));
                let agrees = shared.table.parents_agree(rank);
                if links == nlink && links != 0 && agrees {
                    continue;
                }
                let agino = AgIno(chunk.startino.0.saturating_add(slot));
                let ino = vol.geo.agino_to_ino(agno, agino);
                check_link_count(shared, ino, file_type, (links, nlink), complete);
                if complete && attrs_known && !agrees {
                    let ctx = vol.ctx(inode::location(&vol.geo, ino));
                    let wanted = "a parent pointer for each entry, and no other";
                    let found = "its parent pointers are not those of the entries that name it";
                    vol.sink.error(ctx.fail("parent.mismatch", wanted, found));
                }
            }
        }
    }
}

fn check_link_count(
    shared: &Context<'_, '_>,
    ino: Ino,
    file_type: FileType,
    (links, nlink): (u32, u32),
    complete: bool,
) {
    let vol = shared.vol;
    let ctx = vol.ctx(inode::location(&vol.geo, ino));
    // A directory without a name is reported with the tree: it names itself, and its subdirectories
    // name it.
    let is_directory = file_type == FileType::Directory;
    if links <= u32::from(is_directory) && !roots(shared).iter().any(|(_, root)| *root == ino) {
        if complete && !is_directory {
            check_disconnected(shared, ino);
        }
    } else if links != nlink && (complete || links > nlink) {
        vol.sink.error(ctx.eq("inode.nlink", links, nlink));
    }
}

/// Reports an inode that no directory names, unless it was unlinked but open when the journal
/// stopped: replay, or the next mount, frees that one.
fn check_disconnected(shared: &Context<'_, '_>, ino: Ino) {
    let vol = shared.vol;
    let nlink = rank_of(shared, ino).map(|rank| shared.table.nlink(rank));
    if vol.log_clean || nlink != Some(0) {
        let ctx = vol.ctx(inode::location(&vol.geo, ino));
        let wanted = "a directory that names it";
        vol.sink.error(ctx.fail("inode.disconnected", wanted, "no directory names it"));
    }
}

/// Checks that the superblock's counters are the sums over all groups.
pub(crate) fn check_counters(shared: &Context<'_, '_>, primary: &Superblock, totals: &[Totals]) {
    let vol = shared.vol;
    if !vol.log_clean {
        return;
    }
    let ctx = vol.ctx(sb::location(&vol.geo, AgNumber(0)));
    if shared.groups.iter().all(|group| group.chunks.complete) {
        let chunks = || shared.groups.iter().flat_map(|group| &group.chunks.list);
        let present: u64 = chunks().map(|c| u64::from(c.present().count_ones())).sum();
        let used: u64 = chunks().map(|c| u64::from(c.used().count_ones())).sum();
        vol.sink.error(ctx.eq("sb.icount", present, primary.icount.get()));
        vol.sink.error(ctx.eq("sb.ifree", present - used, primary.ifree.get()));
    }
    if let Some(fdblocks) = totals.iter().map(|t| t.fdblocks).sum::<Option<u64>>() {
        vol.sink.error(ctx.eq("sb.fdblocks", fdblocks, primary.fdblocks.get()));
    }
}

/// Warns if the superblock lacks the ATTR bit although there are attributes. Linux works with it
/// and `xfs_repair` is silent, but the kernel's online check reports every inode with attributes as
/// corrupt.
pub(crate) fn check_attr_bit(shared: &Context<'_, '_>, primary: &Superblock) {
    let vol = shared.vol;
    let missing = !primary.features().attr() && shared.attrs_found.load(Ordering::Relaxed);
    let ctx = vol.ctx(sb::location(&vol.geo, AgNumber(0)));
    let wanted = "the ATTR bit (0x10), for there are attributes";
    let found = Value::Hex(primary.versionnum.get().into());
    vol.sink.warning(ctx.require("sb.versionnum", !missing, wanted, found));
}
