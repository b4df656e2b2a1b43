//! A damaged volume is repaired, or refused with nothing written; and all that the damage did not
//! touch is there afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use xfskit_block::BlockDevice;
use xfskit_check::{Options, Survey, survey};
use xfskit_core::{OpenOptions, Volume};
use xfskit_format::rmap::{self, owner};
use xfskit_repair::{AcceptLoss, Error, Plan, Prepared, Repair, UndoFile, undo};
use xfskit_test_support::image::Scratch;
use xfskit_test_support::manifest::{Entry, Manifest};
use xfskit_test_support::{kept, ours, verify};
use xfskit_units::{AgBlock, AgNumber, ByteOffset, Daddr};

use crate::common::{Image, check_all};

const S_IFMT: u32 = 0o170_000;
const S_IFDIR: u32 = 0o040_000;
const S_IFREG: u32 = 0o100_000;

/// A sound volume: its files, and the owners of its blocks.
pub(crate) struct Before {
    pub image: Image,
    tree: Manifest,
    survey: Survey,
}

/// What became of a damaged volume.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// The plan.
    Repaired(Box<Plan>),
    /// The damage was none, or is that of blocks without a checksum.
    Clean,
    /// Why nothing was written.
    Refused(String),
}

impl Before {
    pub(crate) fn kept(name: &str) -> Self {
        Self::of(Image::kept(name))
    }

    pub(crate) fn of(image: Image) -> Self {
        let dev: Arc<dyn BlockDevice> = Arc::new(kept::memory(&image.bytes));
        let tree = tree_of(Arc::clone(&dev));
        let options = Options::default();
        let (report, survey) = survey(&*dev, None, &options, &mut |_| ()).unwrap();
        assert!(report.clean());
        Self { image, tree, survey }
    }

    /// Returns the regular files of other groups that have content in group `agno`.
    pub(crate) fn files_in(&self, agno: AgNumber) -> BTreeSet<u64> {
        let group = self.survey.groups.iter().find(|group| group.agno == agno).unwrap();
        let owners = group.owners.load().unwrap();
        let others = rmap::OFF_ATTR_FORK | rmap::OFF_BMBT_BLOCK | rmap::OFF_UNWRITTEN;
        let data = owners.iter().filter(|rec| rec.offset.get() & others == 0);
        let owners: BTreeSet<u64> = data.filter_map(rmap::Rec::inode).map(|ino| ino.0).collect();
        let is_elsewhere = |ino| {
            self.image.geo.ino_split(xfskit_units::Ino(ino)).is_some_and(|(of, _)| of != agno)
        };
        let regular = self.tree.entries.values().filter(|e| e.mode & S_IFMT == S_IFREG);
        regular.map(|e| e.ino).filter(|ino| owners.contains(ino) && is_elsewhere(*ino)).collect()
    }

    /// Returns the inodes of which a byte differs in `damaged`: of the inode, of its attributes,
    /// its map or its content. Bytes behind the end of `damaged` differ.
    fn touched(&self, damaged: &[u8]) -> BTreeSet<u64> {
        let block = self.image.geo.blocksize();
        let mut touched = BTreeSet::new();
        for (n, whole) in self.image.bytes.chunks(block).enumerate() {
            let at = n * block;
            let now = damaged.get(at..at + whole.len()).unwrap_or(&[]);
            if now == whole {
                continue;
            }
            let daddr = Daddr((at / 512) as u64);
            if let Some((agno, agbno)) = self.image.geo.daddr_to_agb(daddr) {
                self.add_owners(agno, agbno, (whole, now), &mut touched);
            }
        }
        touched
    }

    fn add_owners(
        &self,
        agno: AgNumber,
        agbno: AgBlock,
        (whole, now): (&[u8], &[u8]),
        touched: &mut BTreeSet<u64>,
    ) {
        let geo = &self.image.geo;
        let group = self.survey.groups.iter().find(|group| group.agno == agno).unwrap();
        let owners = group.owners.load().unwrap();
        let covering = owners.iter().filter(|rec| {
            agbno.0.checked_sub(rec.start().0).is_some_and(|inside| inside < rec.len().0)
        });
        for rec in covering {
            match rec.owner.get() {
                owner::INODES => {
                    let size = geo.inodesize();
                    for (slot, bytes) in (0u32..).zip(whole.chunks(size)) {
                        let at = slot as usize * size;
                        if now.get(at..at + size) != Some(bytes) {
                            let agino = geo.agb_to_agino(agbno).0 + slot;
                            touched.insert(geo.agino_to_ino(agno, xfskit_units::AgIno(agino)).0);
                        }
                    }
                }
                owner if owner >> 63 == 0 => drop(touched.insert(owner)),
                _ => {}
            }
        }
    }

    /// Verifies that every file that the damage did not touch is there: at its path if no directory
    /// on the way was touched, with its attributes and content.
    pub(crate) fn verify_survivors(&self, dev: Arc<dyn BlockDevice>, damaged: &[u8], what: &str) {
        let touched = self.touched(damaged);
        let after = tree_of(dev);
        let by_ino: BTreeMap<u64, &Entry> =
            after.entries.values().map(|entry| (entry.ino, entry)).collect();
        let is_whole = |path: &[u8]| {
            let above = Path::new(OsStr::from_bytes(path)).ancestors().skip(1);
            above
                .map(|dir| &self.tree.entries[dir.as_os_str().as_bytes()])
                .all(|dir| !touched.contains(&dir.ino))
        };
        for (path, entry) in &self.tree.entries {
            if touched.contains(&entry.ino) {
                continue;
            }
            let shown = String::from_utf8_lossy(path);
            let found = if is_whole(path) {
                after.entries.get(path)
            } else {
                by_ino.get(&entry.ino).copied()
            };
            let found = found.unwrap_or_else(|| panic!("{what}: {shown} is gone"));
            assert_eq!(lasting(entry), lasting(found), "{what}: {shown}");
        }
    }

    /// Repairs the volume with the bytes `damaged`, verifies that it is clean and that nothing else
    /// changed, and takes the repair back.
    pub(crate) fn outcome(&self, damaged: &[u8], what: &str, is_verified: bool) -> Outcome {
        self.repaired(damaged, damaged, what, is_verified)
    }

    /// Does what [`outcome`](Self::outcome) does, for damage after which everything is there again.
    pub(crate) fn restored(&self, damaged: &[u8], what: &str, is_verified: bool) -> Outcome {
        self.repaired(damaged, &self.image.bytes, what, is_verified)
    }

    /// Repairs `damaged`, and verifies what is untouched in `expected`.
    fn repaired(&self, damaged: &[u8], expected: &[u8], what: &str, is_verified: bool) -> Outcome {
        let dev = Arc::new(kept::memory(damaged));
        let prepared = match repair().prepare(Arc::clone(&dev) as _) {
            Ok(prepared) => prepared,
            Err(error) => {
                assert!(content(&*dev) == damaged, "{what}: the plan wrote");
                return Outcome::Refused(error.to_string());
            }
        };
        if !prepared.is_clean() {
            let refused = prepared.commit(&*dev, None);
            let is_refused = matches!(refused, Err(Error::NotClean { .. } | Error::Unaccounted(_)));
            assert!(is_refused, "{what}: {refused:?}");
            assert!(content(&*dev) == damaged, "{what}: written");
            return Outcome::Refused(left(&prepared));
        }
        if prepared.bytes() == 0 {
            self.verify_survivors(Arc::clone(&dev) as _, expected, what);
            return Outcome::Clean;
        }
        let scratch = Scratch::new("repair-survivors");
        let path = scratch.path().join("undo");
        let mut file = UndoFile::create(&path, prepared.uuid(), dev.size()).unwrap();
        prepared.commit(&*dev, Some(&mut file)).unwrap();
        let (report, findings) = check_all(&*dev);
        assert!(report.clean(), "{what}: {findings:#?}");
        self.verify_survivors(Arc::clone(&dev) as _, expected, what);
        if is_verified && report.warnings == 0 {
            verify::device(&*dev).unwrap_or_else(|why| panic!("{what}: {why}"));
        }
        undo(&path, &*dev).unwrap();
        assert!(content(&*dev) == damaged, "{what}: taken back");
        Outcome::Repaired(Box::new(prepared.plan().clone()))
    }
}

/// Returns a repair that accepts all losses.
pub(crate) fn repair() -> Repair<'static> {
    Repair::new().accept_loss(AcceptLoss::ALL).zero_log(true)
}

/// Returns what would still be damaged.
fn left(prepared: &Prepared) -> String {
    let errors = prepared.left().iter().map(ToString::to_string).take(3).collect::<Vec<_>>();
    let (before, after) = (prepared.before(), prepared.after());
    let counts = [before.inodes, after.inodes, before.entries, after.entries];
    format!("{errors:?}, inodes and entries {counts:?}, {}", prepared.unaccounted())
}

/// Returns what of a file a repair of others must not change.
fn lasting(entry: &Entry) -> Entry {
    let mut lasting = entry.clone();
    // Links of other directories may be lost, and a directory that is made again is packed.
    lasting.nlink = 0;
    lasting.extra = None;
    lasting.blocks = 0;
    if entry.mode & S_IFMT == S_IFDIR {
        lasting.size = 0;
    }
    lasting
}

fn tree_of(dev: Arc<dyn BlockDevice>) -> Manifest {
    let volume = Volume::open(dev, &OpenOptions::default()).unwrap();
    let (tree, failed) = ours::manifest(&volume);
    assert!(failed.is_empty(), "{failed:#?}");
    tree
}

pub(crate) fn content(dev: &dyn BlockDevice) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(dev.size().0).unwrap()];
    dev.read_at(ByteOffset(0), &mut bytes).unwrap();
    bytes
}

/// Returns a damaged copy of `bytes`.
pub(crate) fn with(bytes: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut damaged = bytes.to_vec();
    change(&mut damaged);
    damaged
}

/// The outcomes of many cases, printed at the end.
#[derive(Default)]
pub(crate) struct Tally {
    repaired: usize,
    clean: usize,
    pub refused: Vec<String>,
}

impl Tally {
    pub(crate) fn add(&mut self, what: &str, outcome: Outcome) {
        match outcome {
            Outcome::Repaired(_) => self.repaired += 1,
            Outcome::Clean => self.clean += 1,
            Outcome::Refused(why) => self.refused.push(format!("{what}: {why}")),
        }
    }

    pub(crate) fn cases(&self) -> usize {
        self.repaired + self.clean + self.refused.len()
    }

    pub(crate) fn print(&self, what: &str) {
        let Self { repaired, clean, refused } = self;
        println!(
            "{what}: {} cases, {repaired} repaired, {clean} clean, {} refused\n{}",
            self.cases(),
            refused.len(),
            refused.join("\n")
        );
    }
}
