//! The shape of the directory tree: a directory has one name, and its parents lead to the root.
//!
//! Of several entries that name one directory, one is kept, and the others are removed. They become
//! free names: often the inode number in an entry was damaged, and the inode that it named has no
//! name now. `orphans` gives the name back to it.

use std::collections::{BTreeMap, BTreeSet};

use xfskit_check::Finding;
use xfskit_format::inode::{Dinode, FileType};
use xfskit_units::Ino;

use crate::damage::Damages;
use crate::error::{Error, Result};
use crate::layer::Layer;
use crate::links;
use crate::plan::{Step, StepKind};
use crate::view::{Link, Links, View};
use crate::{attributes, dead_entries, directories};

/// All directories, and the entries that name them.
struct Tree {
    /// The inode that ".." of each directory names.
    dotdots: BTreeMap<Ino, Ino>,
    names: Links,
}

/// An entry that is removed.
struct Removal {
    /// The directory that it names.
    child: Ino,
    link: Link,
    evidence: Vec<String>,
    lost: Vec<String>,
    /// The name may be that of another inode.
    is_free: bool,
}

/// Removes the entries because of which directories have several names, or are below themselves.
pub(crate) fn mend(layer: &mut Layer<'_, '_>, damages: Damages) -> Result<Vec<Finding>> {
    let mut findings: Vec<Finding> =
        damages.into_values().flat_map(|damage| damage.findings).collect();
    if findings.is_empty() {
        return Ok(findings);
    }
    let tree = Tree::read(layer.view)?;
    let (kept, mut removals) = tree.surplus(layer.view)?;
    removals.extend(tree.cycles(layer.view, kept)?);
    let mut by_parent: BTreeMap<Ino, Vec<Removal>> = BTreeMap::new();
    for removal in removals {
        by_parent.entry(removal.link.dir).or_default().push(removal);
    }
    for (dir, removals) in by_parent {
        match remove(layer, dir, &removals) {
            Ok(()) => {}
            Err(Error::NoFit { .. }) => continue,
            Err(error) => return Err(error),
        }
        for removal in removals {
            let of_child = |finding: &mut Finding| finding.corruption.at.ino == Some(removal.child);
            let own = findings.extract_if(.., of_child).collect();
            layer.plan.steps.push(removal.step().for_findings(own));
            layer.plan.free_names.extend(removal.is_free.then_some(removal.link));
        }
    }
    Ok(findings)
}

impl Removal {
    fn step(&self) -> Step {
        let (child, name) = (self.child, self.link.shown());
        Step {
            id: format!("names.{child}"),
            kind: StepKind::Directory,
            what: format!("remove the entry {name}, which names directory {child}"),
            evidence: self.evidence.clone(),
            lost: self.lost.clone(),
            findings: Vec::new(),
            path: None,
        }
    }
}

/// Makes directory `dir` again without some entries.
fn remove(layer: &mut Layer<'_, '_>, dir: Ino, removals: &[Removal]) -> Result<()> {
    let view = layer.view;
    let Some(mut bytes) = view.inode(dir)? else { return Err(Error::NoFit { ino: dir.0 }) };
    let copy = bytes.clone();
    let Some(inode) = Dinode::parse(&copy, view.geo) else {
        return Err(Error::NoFit { ino: dir.0 });
    };
    let mut found = directories::salvage(view, &inode, dir)?;
    dead_entries::keep(view, &inode, dir, &mut layer.plan.dead_names)?;
    found.entries.retain(|kept| {
        !removals.iter().any(|gone| gone.child == kept.ino && gone.link.name == kept.name)
    });
    let root = view.geo.rootino;
    let parent = if dir == root { root } else { found.parent.unwrap_or(root) };
    directories::make(&mut layer.writer, view, (dir, &mut bytes), parent, &found.entries)?;
    layer.plan.dropped += (removals.len() + found.dropped.len()) as u64;
    layer.plan.free_names.extend(found.dropped.into_iter().map(|(link, _)| link));
    Ok(())
}

impl Tree {
    fn read(view: View<'_>) -> Result<Self> {
        let mut dotdots = BTreeMap::new();
        let mut dirs = BTreeSet::new();
        for dir in view.used_inodes() {
            let Some(bytes) = view.inode(dir)? else { continue };
            let inode = Dinode::verify(&bytes, &view.ctx(dir), dir);
            let Some(inode) = inode.ok().filter(Dinode::is_dir) else { continue };
            dirs.insert(dir);
            dotdots.extend(directories::dotdot(view, &inode, dir)?.map(|parent| (dir, parent)));
        }
        Ok(Self { dotdots, names: links::of(view, &dirs)? })
    }

    /// Returns the name that each directory keeps, and the others.
    fn surplus(&self, view: View<'_>) -> Result<(BTreeMap<Ino, &Link>, Vec<Removal>)> {
        let (mut kept, mut removals) = (BTreeMap::new(), Vec::new());
        for (child, names) in &self.names {
            let is_root = *child == view.geo.rootino;
            let (chosen, why) = match &names[..] {
                _ if is_root => (None, "it is the root directory, which has no name".into()),
                [only] => (Some(only), String::new()),
                _ => self.choose(view, *child, names)?,
            };
            let others =
                names.iter().filter(|name| !chosen.is_some_and(|c| std::ptr::eq(*name, c)));
            for link in others {
                let alike = |chosen: &&Link| (chosen.dir, chosen.kind) == (link.dir, link.kind);
                let same = chosen.filter(alike);
                let doubt = same.filter(|_| !why.starts_with(POINTER)).map(|chosen| {
                    let names = (chosen.shown(), link.shown());
                    format!("which of {} and {} is directory {child}", names.0, names.1)
                });
                let extra = "nothing but an extra name is lost";
                removals.push(Removal {
                    child: *child,
                    link: link.clone(),
                    evidence: vec![why.clone(), extra.into()],
                    lost: doubt.into_iter().collect(),
                    is_free: true,
                });
            }
            kept.extend(chosen.map(|chosen| (*child, chosen)));
        }
        Ok((kept, removals))
    }

    /// Returns which of several names a directory keeps, and the reason.
    fn choose<'n>(
        &self,
        view: View<'_>,
        child: Ino,
        names: &'n [Link],
    ) -> Result<(Option<&'n Link>, String)> {
        // An entry with another type is one whose inode number is damaged.
        let mut names: Vec<&Link> = names.iter().collect();
        names.sort_by_key(|name| name.kind != Some(FileType::Directory));
        let pointers = attributes::parents_of(view, child)?;
        let pointed = names.iter().copied().find(|name| is_pointed_at(&pointers, name));
        if let Some(name) = pointed {
            return Ok((Some(name), format!("{POINTER} names {}", name.shown())));
        }
        let above = self.dotdots.get(&child);
        if let Some(name) = names.iter().copied().find(|name| above == Some(&name.dir)) {
            let why = format!("its \"..\" agrees with {}", name.shown());
            return Ok((Some(name), why));
        }
        let reached = self.reached(view.geo.rootino, child);
        let name = names.iter().copied().find(|name| reached.contains(&name.dir));
        let why = match name {
            Some(name) => format!("the root leads to {}", name.shown()),
            None => "its first name is kept".into(),
        };
        Ok((name.or(names.first().copied()), why))
    }

    /// Returns the directories to which the root leads, other than through `without`.
    fn reached(&self, root: Ino, without: Ino) -> BTreeSet<Ino> {
        let mut below: BTreeMap<Ino, Vec<Ino>> = BTreeMap::new();
        for (child, names) in self.names.iter().filter(|(child, _)| **child != without) {
            for name in names {
                below.entry(name.dir).or_default().push(*child);
            }
        }
        let (mut reached, mut due) = (BTreeSet::from([root]), vec![root]);
        while let Some(dir) = due.pop() {
            let children = below.get(&dir).into_iter().flatten();
            due.extend(children.copied().filter(|child| reached.insert(*child)));
        }
        reached
    }

    /// Returns an entry of each cycle of directories, of which each has one name: that of the one
    /// with the least evidence for its name. It is without a name then.
    fn cycles(&self, view: View<'_>, mut kept: BTreeMap<Ino, &Link>) -> Result<Vec<Removal>> {
        let mut removals = Vec::new();
        let mut passed: BTreeSet<Ino> = BTreeSet::new();
        for start in self.names.keys() {
            // The directories on the way up, and a set of them.
            let (mut way, mut on_way) = (Vec::new(), BTreeSet::new());
            let mut at = *start;
            while !passed.contains(&at) && on_way.insert(at) {
                way.push(at);
                let Some(above) = kept.get(&at) else { break };
                at = above.dir;
            }
            let is_cycle = !passed.contains(&at) && kept.contains_key(&at);
            passed.extend(on_way);
            if !is_cycle {
                continue;
            }
            let cycle: Vec<_> = way.into_iter().skip_while(|dir| *dir != at).collect();
            let (weakest, is_denied) = self.weakest(view, &cycle, &kept)?;
            let Some((child, link)) = weakest.and_then(|dir| Some((dir, kept.remove(&dir)?)))
            else {
                continue;
            };
            let mut evidence = vec![format!("{} directories are below themselves", cycle.len())];
            let mut lost = Vec::new();
            if is_denied {
                evidence.push(format!("{POINTER} names another place"));
            } else {
                lost.push(format!("the place of directory {child}: it was below itself"));
            }
            removals.push(Removal { child, link: link.clone(), evidence, lost, is_free: false });
        }
        Ok(removals)
    }

    /// Returns the directory of a cycle with the least evidence for its name: that with a parent
    /// pointer to another place (then also true), or one whose ".." is another directory.
    fn weakest(
        &self,
        view: View<'_>,
        cycle: &[Ino],
        kept: &BTreeMap<Ino, &Link>,
    ) -> Result<(Option<Ino>, bool)> {
        for dir in cycle {
            let pointers = attributes::parents_of(view, *dir)?;
            let is_denied = |link: &&Link| !pointers.is_empty() && !is_pointed_at(&pointers, link);
            if kept.get(dir).is_some_and(is_denied) {
                return Ok((Some(*dir), true));
            }
        }
        let disagrees = |dir: &&Ino| {
            kept.get(*dir).is_some_and(|link| self.dotdots.get(*dir) != Some(&link.dir))
        };
        Ok((cycle.iter().find(disagrees).or(cycle.first()).copied(), false))
    }
}

/// Returns true if one of the parent pointers of a directory tells its name.
fn is_pointed_at(pointers: &[Link], name: &Link) -> bool {
    let same = |p: &Link| (p.dir, p.generation) == (name.dir, name.generation);
    pointers.iter().any(|pointer| same(pointer) && pointer.name == name.name)
}

/// How the reason begins where a parent pointer tells the name.
const POINTER: &str = "its parent pointer";
