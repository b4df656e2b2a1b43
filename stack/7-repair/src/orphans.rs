//! Inodes that no directory names: put back under their own name, where a parent pointer tells it,
//! an entry in the journal, one that leads nowhere, or one that was removed; else in `lost+found`,
//! with type, number and date.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use xfskit_check::Finding;
use xfskit_format::inode::{self, Dinode, FileType, InodeFlags2, InodeMut};
use xfskit_format::timestamp::Timestamp;
use xfskit_units::{AgIno, Geometry, Ino};

use crate::attributes;
use crate::chunk_bits;
use crate::damage::{Damage, Damages};
use crate::dead_entries::{self, DeadEntry};
use crate::directories::{self, Kept};
use crate::error::{Error, Result};
use crate::journal_names::{self, Names};
use crate::layer::{self, Layer};
use crate::plan::{Step, StepKind};
use crate::view::{Link, View};

/// The directory for inodes whose place is not known.
const LOST_FOUND: &[u8] = b"lost+found";

/// Gives every disconnected inode a name.
pub(crate) fn attach(layer: &mut Layer<'_, '_>, damages: Damages) -> Result<Vec<Finding>> {
    let mut left = Vec::new();
    let mut places: BTreeMap<Ino, Vec<Kept>> = BTreeMap::new();
    let mut without: Vec<(Ino, FileType, Damage)> = Vec::new();
    for (ino, damage) in damages {
        let kind = if damage.disconnected { layer.view.kind(ino)? } else { None };
        let Some(kind) = kind else {
            left.extend(damage.findings);
            continue;
        };
        match recorded_name(layer, ino)? {
            Some(name) => put_back(layer, &mut places, (ino, kind), name, damage, POINTER),
            None => without.push((ino, kind, damage)),
        }
    }
    let mut logged = logged_names(layer, &without)?;
    let (named, without): (Vec<_>, Vec<_>) =
        without.into_iter().partition(|(ino, ..)| logged.contains_key(ino));
    for (ino, kind, damage) in named {
        let Some((name, lsn)) = logged.remove(&ino) else { continue };
        layer.plan.free_names.retain(|free| (free.dir, &free.name) != (name.dir, &name.name));
        let why = format!("transaction {lsn} of the journal has an entry of this name for it");
        put_back(layer, &mut places, (ino, kind), name, damage, &why);
    }
    let mut free = free_names(layer, &without)?;
    let mut unnamed = Vec::new();
    for (ino, kind, damage) in without {
        match free.remove(&ino) {
            Some(name) => put_back(layer, &mut places, (ino, kind), name, damage, FREE_NAME),
            None => unnamed.push((ino, kind, damage)),
        }
    }
    let mut dead = dead_names(layer, &unnamed, &places)?;
    let mut nameless = Vec::new();
    for (ino, kind, damage) in unnamed {
        match dead.remove(&ino) {
            Some(DeadEntry { link, fileoff, .. }) => {
                let why = format!("dead entry in directory {} block {fileoff}", link.dir);
                put_back(layer, &mut places, (ino, kind), link, damage, &why);
            }
            None => nameless.push((ino, kind, damage)),
        }
    }
    if !nameless.is_empty() {
        let dir = lost_found(layer)?;
        for (ino, kind, damage) in nameless {
            let Some(dir) = dir else {
                left.extend(damage.findings);
                continue;
            };
            let name = name_of(layer.view, ino, kind)?;
            let what = format!("name inode {ino} lost+found/{name}");
            push_step(layer, ino, what, damage, NAMELESS);
            let name = name.into_bytes();
            places.entry(dir).or_default().push(Kept { name, ino, kind });
        }
    }
    add_all(layer, places)?;
    Ok(left)
}

/// Reasons for a name.
const POINTER: &str = "its parent pointer has the name";
const FREE_NAME: &str = "the entry of this name led to another inode, or to none; this is the only \
                         inode without a name that fits it by its type, and by its \"..\" if it is a \
                         directory";
const NAMELESS: &str = "nothing tells its name";

/// Gives an inode its own name back.
fn put_back(
    layer: &mut Layer<'_, '_>,
    places: &mut BTreeMap<Ino, Vec<Kept>>,
    (ino, kind): (Ino, FileType),
    name: Link,
    damage: Damage,
    why: &str,
) {
    let what = format!("put inode {ino} back as {}", name.shown());
    push_step(layer, ino, what, damage, why);
    places.entry(name.dir).or_default().push(Kept { name: name.name, ino, kind });
}

fn push_step(layer: &mut Layer<'_, '_>, ino: Ino, what: String, damage: Damage, why: &str) {
    layer.plan.steps.push(Step {
        id: format!("orphan.{ino}"),
        kind: StepKind::Orphan,
        what,
        evidence: vec!["it is in use, and no directory names it".into(), why.into()],
        lost: Vec::new(),
        findings: damage.findings,
        path: None,
    });
}

/// Returns the name that a parent pointer of inode `ino` has, if its directory is there.
fn recorded_name(layer: &Layer<'_, '_>, ino: Ino) -> Result<Option<Link>> {
    for link in attributes::parents_of(layer.view, ino)? {
        let is_dir = layer.view.kind(link.dir)? == Some(FileType::Directory);
        if link.dir != ino && is_dir && generation(layer, link.dir)? == Some(link.generation) {
            return Ok(Some(link));
        }
    }
    Ok(None)
}

/// Returns the newest name that the journal shows of each inode, if it fits it by its type, its
/// directory is there, and has no other entry of that name.
fn logged_names(layer: &Layer<'_, '_>, orphans: &[(Ino, FileType, Damage)]) -> Result<Names> {
    let view = layer.view;
    let Some(journal) = layer.copies.journal() else { return Ok(Names::new()) };
    let wanted: BTreeSet<Ino> = orphans.iter().map(|(ino, ..)| *ino).collect();
    let mut names = journal_names::of(journal, view, &wanted)?;
    for (ino, kind, _) in orphans {
        let Some((name, _)) = names.get(ino) else { continue };
        if name.kind != Some(*kind) || !may_be_named(layer, (*ino, *kind), name)? {
            names.remove(ino);
        }
    }
    let mut taken = BTreeSet::new();
    names.retain(|_, (name, _)| taken.insert((name.dir, name.name.clone())));
    Ok(names)
}

/// Returns true if an inode has links, and a name may be its own: its directory is there, has no
/// entry of that name, and is the one that ".." of a directory names.
fn may_be_named(layer: &Layer<'_, '_>, (ino, kind): (Ino, FileType), name: &Link) -> Result<bool> {
    let view = layer.view;
    let (Some(bytes), Some(above)) = (view.inode(ino)?, view.inode(name.dir)?) else {
        return Ok(false);
    };
    let inode = Dinode::parse(&bytes, view.geo).filter(|inode| inode.nlink() > 0);
    let above = Dinode::parse(&above, view.geo);
    let (Some(inode), Some(above)) = (inode, above) else { return Ok(false) };
    if name.dir == ino || view.kind(name.dir)? != Some(FileType::Directory) {
        return Ok(false);
    }
    if kind == FileType::Directory && directories::dotdot(view, &inode, ino)? != Some(name.dir) {
        return Ok(false);
    }
    let there = directories::salvage(view, &above, name.dir)?.entries;
    Ok(there.iter().all(|entry| entry.name != name.name))
}

/// Returns the free name of each inode that is the only one that fits it: it has its type, and is
/// in the directory that ".." of a directory names.
fn free_names(
    layer: &Layer<'_, '_>,
    orphans: &[(Ino, FileType, Damage)],
) -> Result<BTreeMap<Ino, Link>> {
    let view = layer.view;
    let mut pairs = Vec::new();
    for (ino, kind, _) in orphans {
        let Some(bytes) = view.inode(*ino)? else { continue };
        // One without links was removed, while it was open.
        let inode = Dinode::parse(&bytes, view.geo).filter(|inode| inode.nlink() > 0);
        let Some(inode) = inode else { continue };
        let is_dir = *kind == FileType::Directory;
        let above = if is_dir { directories::dotdot(view, &inode, *ino)? } else { None };
        for link in &layer.plan.free_names {
            let fits = link.kind == Some(*kind) && (!is_dir || above == Some(link.dir));
            if fits && link.dir != *ino && view.kind(link.dir)? == Some(FileType::Directory) {
                pairs.push((*ino, link));
            }
        }
    }
    let is_only = |(ino, link): &&(Ino, &Link)| {
        let touching = |(other, name): &&(Ino, &Link)| other == ino || name == link;
        pairs.iter().filter(touching).count() == 1
    };
    Ok(pairs.iter().filter(is_only).map(|(ino, link)| (*ino, (*link).clone())).collect())
}

/// Returns the only name in unused space of directories that each inode has, if it fits it by its
/// type, its directory is there, and has no other entry of that name; none if two inodes have it.
fn dead_names(
    layer: &Layer<'_, '_>,
    orphans: &[(Ino, FileType, Damage)],
    places: &BTreeMap<Ino, Vec<Kept>>,
) -> Result<BTreeMap<Ino, DeadEntry>> {
    let wanted: BTreeSet<Ino> = orphans.iter().map(|(ino, ..)| *ino).collect();
    let mut found = dead_entries::of(layer.view, &wanted, &layer.plan.dead_names)?;
    let mut names = BTreeMap::new();
    let mut users = BTreeMap::<_, usize>::new();
    let is_given = |link: &Link| {
        let given = places.get(&link.dir).into_iter().flatten();
        given.into_iter().any(|kept| kept.name == link.name)
    };
    for (ino, kind, _) in orphans {
        let mut entries = found.remove(ino).unwrap_or_default();
        entries.retain(|entry| entry.link.kind.is_none_or(|of_entry| of_entry == *kind));
        let of_entry = |entry: &DeadEntry| (entry.link.dir, entry.link.name.clone());
        let different: BTreeSet<_> = entries.iter().map(of_entry).collect();
        for name in &different {
            *users.entry(name.clone()).or_default() += 1;
        }
        let only = entries.into_iter().next().filter(|_| different.len() == 1);
        let Some(entry) = only.filter(|entry| !is_given(&entry.link)) else { continue };
        if may_be_named(layer, (*ino, *kind), &entry.link)? {
            names.insert(*ino, entry);
        }
    }
    let is_shared = |link: &Link| users.get(&(link.dir, link.name.clone())) != Some(&1);
    names.retain(|_, entry| !is_shared(&entry.link));
    Ok(names)
}

/// Returns the name of an inode in `lost+found`: its type, its number, and the day of its last
/// change (UTC).
fn name_of(view: View<'_>, ino: Ino, kind: FileType) -> Result<String> {
    let bytes = view.inode(ino)?;
    let inode = bytes.as_ref().and_then(|bytes| Dinode::parse(bytes, view.geo));
    let time = inode.map_or(Timestamp::EPOCH, |inode| inode.mtime());
    let (year, month, day) = time.date();
    let word = match kind {
        FileType::Directory => "directory",
        FileType::Symlink => "symlink",
        FileType::CharDevice | FileType::BlockDevice => "device",
        FileType::Fifo => "fifo",
        FileType::Socket => "socket",
        _ => "file",
    };
    Ok(format!("{word}.{ino}.{year:04}-{month:02}-{day:02}"))
}

fn generation(layer: &Layer<'_, '_>, ino: Ino) -> Result<Option<u32>> {
    let bytes = layer.view.inode(ino)?;
    Ok(bytes.and_then(|bytes| Some(Dinode::parse(&bytes, layer.view.geo)?.generation())))
}

/// Adds entries to directories, and makes what they name agree.
fn add_all(layer: &mut Layer<'_, '_>, places: BTreeMap<Ino, Vec<Kept>>) -> Result<()> {
    for (dir, added) in places {
        let names = add(layer, dir, &added)?;
        for (kept, name) in added.iter().zip(names) {
            if kept.kind == FileType::Directory {
                set_parent(layer, kept.ino, dir)?;
            }
            set_parent_pointer(layer, kept.ino, dir, &name)?;
        }
    }
    Ok(())
}

/// Adds entries to directory `dir`, and returns the names that they got.
fn add(layer: &mut Layer<'_, '_>, dir: Ino, added: &[Kept]) -> Result<Vec<Vec<u8>>> {
    let view = layer.view;
    let Some(mut bytes) = view.inode(dir)? else { return Err(Error::NoFit { ino: dir.0 }) };
    let copy = bytes.clone();
    let Some(inode) = Dinode::parse(&copy, view.geo) else {
        return Err(Error::NoFit { ino: dir.0 });
    };
    let found = directories::salvage(view, &inode, dir)?;
    let parent = if dir == view.geo.rootino { dir } else { found.parent.unwrap_or(dir) };
    let (entries, names) = directories::with(view.geo, found.entries, added);
    directories::make(&mut layer.writer, view, (dir, &mut bytes), parent, &entries)?;
    Ok(names)
}

/// Makes ".." of directory `ino` name `parent`.
fn set_parent(layer: &mut Layer<'_, '_>, ino: Ino, parent: Ino) -> Result<()> {
    let view = layer.view;
    let Some(mut bytes) = view.inode(ino)? else { return Ok(()) };
    let copy = bytes.clone();
    let Some(inode) = Dinode::parse(&copy, view.geo) else { return Ok(()) };
    let found = directories::salvage(view, &inode, ino)?;
    if found.parent == Some(parent) {
        return Ok(());
    }
    directories::make(&mut layer.writer, view, (ino, &mut bytes), parent, &found.entries)
}

/// Makes the parent pointer of inode `ino` name its only entry.
fn set_parent_pointer(layer: &mut Layer<'_, '_>, ino: Ino, dir: Ino, name: &[u8]) -> Result<()> {
    let view = layer.view;
    let (true, Some(generation)) = (view.geo.features.parent(), generation(layer, dir)?) else {
        return Ok(());
    };
    let Some(mut bytes) = view.inode(ino)? else { return Ok(()) };
    let copy = bytes.clone();
    let Some(inode) = Dinode::parse(&copy, view.geo) else { return Ok(()) };
    let mut attrs = attributes::salvage(view, &inode, ino)?.attributes;
    let link = Link { dir, generation, name: name.to_vec(), kind: None };
    attributes::set_parents(&mut attrs, &[link]);
    let data = view.map(&inode, ino, xfskit_format::Fork::Data).extents;
    let data = layer::data_content(&inode, data);
    attributes::make(&mut layer.writer, view, (ino, &mut bytes), data, attrs)
}

/// Returns the directory `lost+found` of the root, which is made if there is none; `None` if no
/// inode is free for it.
fn lost_found(layer: &mut Layer<'_, '_>) -> Result<Option<Ino>> {
    let root = layer.view.geo.rootino;
    let Some(bytes) = layer.view.inode(root)? else { return Ok(None) };
    let Some(inode) = Dinode::parse(&bytes, layer.view.geo) else { return Ok(None) };
    let entries = directories::salvage(layer.view, &inode, root)?.entries;
    let is_it = |kept: &&Kept| kept.name == LOST_FOUND && kept.kind == FileType::Directory;
    if let Some(kept) = entries.iter().find(is_it) {
        return Ok(Some(kept.ino));
    }
    let Some(ino) = free_inode(layer) else { return Ok(None) };
    let generation = generation(layer, ino)?.unwrap_or(0);
    make_directory(layer, ino, root, generation.wrapping_add(1))?;
    chunk_bits::set(layer.view, layer.known, ino, true);
    let kept = Kept { name: LOST_FOUND.to_vec(), ino, kind: FileType::Directory };
    let names = add(layer, root, &[kept])?;
    set_parent_pointer(layer, ino, root, &names[0])?;
    layer.plan.steps.push(Step {
        id: "lost+found".into(),
        kind: StepKind::Directory,
        what: format!("make the directory lost+found (inode {ino})"),
        evidence: vec!["inodes without a name".into()],
        lost: Vec::new(),
        findings: Vec::new(),
        path: None,
    });
    Ok(Some(ino))
}

/// Returns a free inode of a chunk that is there.
fn free_inode(layer: &Layer<'_, '_>) -> Option<Ino> {
    layer.view.survey.groups.iter().find_map(|group| {
        let chunks = layer.known.get(&group.agno).unwrap_or(&group.chunks);
        let chunk = chunks.iter().find(|chunk| chunk.present() & chunk.free != 0)?;
        let bit = (chunk.present() & chunk.free).trailing_zeros();
        Some(layer.view.geo.agino_to_ino(group.agno, AgIno(chunk.startino.0 + bit)))
    })
}

/// Makes inode `ino` an empty directory below `parent`.
pub(crate) fn make_directory(
    layer: &mut Layer<'_, '_>,
    ino: Ino,
    parent: Ino,
    generation: u32,
) -> Result<()> {
    let geo = layer.view.geo;
    let mut bytes = vec![0; geo.inodesize()];
    inode::template(&mut bytes, geo, ino, generation);
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs());
    let now = Timestamp { sec: seconds.try_into().unwrap_or(0), nsec: 0 };
    let now = encode(geo, now);
    if let Some(inode) = InodeMut::new(&mut bytes) {
        let core = &mut inode.core.core;
        core.mode = (FileType::Directory.mode() | 0o755).into();
        core.nlinkv2 = 2.into();
        (core.atime, core.mtime, core.ctime) = (now.into(), now.into(), now.into());
        inode.core.crtime = now.into();
        inode.core.flags2 = InodeFlags2::of_new(&geo.features).bits().into();
    }
    directories::make(&mut layer.writer, layer.view, (ino, &mut bytes), parent, &[])
}

/// Encodes a time in the format of the volume's inodes.
pub(crate) fn encode(geo: &Geometry, time: Timestamp) -> u64 {
    if geo.features.bigtime() { time.to_bigtime() } else { time.to_legacy() }
}
