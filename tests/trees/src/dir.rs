//! A checker for directories in memory: it runs every verifier, and checks the
//! references between blocks.

use std::collections::{BTreeMap, BTreeSet};

use xfskit_format::da::{self, Node};
use xfskit_format::dir::data::{Data, Form};
use xfskit_format::dir::free::Free;
use xfskit_format::dir::leaf::{Kind, Leaf};
use xfskit_format::dir::sf::Sf;
use xfskit_format::dir::{DataPtr, Entry, NULLDATAOFF, data_edit, free_max};
use xfskit_format::{Ctx, Fork, Layout, Location, da_edit, hash};
use xfskit_units::{AgIno, AgNumber, Daddr, FileOff, Geometry, Ino, RfsBlock};

/// The directory of all tests.
pub const INO: Ino = Ino(5000);
/// The directory above it.
pub const PARENT: Ino = Ino(4999);

/// A volume large enough for inode numbers above 32 bits.
pub fn geo(blocklog: u8, dirblklog: u8) -> Geometry {
    let geo = crate::geo(blocklog);
    Geometry { dirblklog, agcount: 1 << 16, dblocks: RfsBlock(1 << 32), ..geo }
}

/// An inode number that needs 8 bytes.
pub fn wide_ino(geo: &Geometry) -> Ino {
    geo.agino_to_ino(AgNumber((1 << 16) - 1), AgIno(4096))
}

/// Returns the address of the block at `fileoff` in tests.
pub fn home(fileoff: FileOff) -> Daddr {
    Daddr(1000 + 128 * fileoff.0)
}

/// Name, inode, type.
pub type Names = BTreeMap<Vec<u8>, (Ino, u8)>;

/// The directory blocks of a fork, by their offset.
pub type Blocks = BTreeMap<FileOff, Vec<u8>>;

/// The contents of a valid directory.
#[derive(Debug, Default)]
pub struct Found {
    /// All but "." and "..".
    pub names: Names,
    /// Live entries of each leaf, in hash order.
    pub leaves: Vec<usize>,
    /// Blocks of each kind: data, tree, free index.
    pub blocks: [usize; 3],
    /// The parent, as ".." names it.
    pub parent: Option<Ino>,
}

fn name_of(entry: &Entry<'_>) -> (Vec<u8>, (Ino, u8)) {
    (entry.name.to_vec(), (entry.inumber, entry.filetype.unwrap_or(0)))
}

/// Verifies a short form.
pub fn verify_sf(geo: &Geometry, bytes: &[u8]) -> Found {
    let sf = Sf::verify(bytes, &Ctx::new(geo, Location::of("test"))).unwrap();
    let names = sf.entries().map(|e| name_of(&e)).collect();
    Found { names, parent: Some(sf.parent), ..Found::default() }
}

fn ctx(geo: &Geometry, fileoff: FileOff) -> Ctx<'_> {
    let at = Location::of("test").ino(INO).fork(Fork::Data).fileoff(fileoff);
    Ctx::new(geo, Location { daddr: Some(home(fileoff)), ..at })
}

/// Verifies a directory with blocks, of `size` bytes.
pub fn verify(geo: &Geometry, blocks: &Blocks, size: u64) -> Found {
    let mut found = Found::default();
    let unit = u64::from(geo.dirblkfsbs());
    let mut addresses = BTreeSet::new();
    let mut bests = Vec::new();
    let leafblk = FileOff(geo.dir_leafblk().0.into());
    let freeblk = FileOff(geo.dir_freeblk().0.into());
    let form = if blocks.len() == 1 { Form::Block } else { Form::Data };
    for (fileoff, block) in blocks.range(..leafblk) {
        let db = usize::try_from(fileoff.0 / unit).unwrap();
        let mut block = block.clone();
        data_edit::stamp(&mut block);
        let ctx = ctx(geo, *fileoff);
        let data = Data::verify(&block, &ctx, Some(form)).unwrap();
        bests.resize(db, NULLDATAOFF);
        bests.push(data_edit::longest(&block));
        let empty = data_edit::longest(&block) == data_edit::longest_when_empty(geo);
        assert!(!empty, "data block {db} is empty");
        for entry in data.entries() {
            let ptr = DataPtr::new(geo, *fileoff, entry.offset.into()).unwrap();
            assert!(addresses.insert((hash::dir_hash(geo, entry.name), ptr.0)));
            let (name, what) = name_of(&entry);
            assert!(found.names.insert(name, what).is_none(), "a name twice");
        }
        if db == 0 {
            found.parent = Some(data.verify_dots(&ctx, INO).unwrap());
        }
        found.blocks[0] += 1;
    }
    assert_eq!(found.names.remove(&b"."[..]), Some((INO, 2)));
    assert_eq!(found.names.remove(&b".."[..]).map(|(ino, _)| ino), found.parent);
    assert_eq!(size, bests.len() as u64 * geo.dirblksize() as u64, "di_size");
    if form == Form::Block {
        return found;
    }
    let mut walk = Walk { geo, blocks, found: &mut found, chain: vec![], last: 0, addresses };
    let kind = walk.visit(leafblk, None, &bests);
    for (_, forw) in &walk.chain {
        assert_eq!(*forw, 0, "the last of a level has none behind it");
    }
    assert!(walk.addresses.is_empty(), "names without hash: {:?}", walk.addresses);
    let free: Blocks = blocks.range(freeblk..).map(|(at, block)| (*at, block.clone())).collect();
    if kind == Kind::LeafN {
        verify_free(geo, &free, &bests);
    }
    found.blocks[2] = free.len();
    assert_eq!(found.blocks.iter().sum::<usize>(), blocks.len(), "no block without use");
    found
}

/// Returns true if the block at `at` passes its verifier, which does not see the others.
pub fn passes(geo: &Geometry, at: FileOff, block: &[u8]) -> bool {
    let (mut block, ctx) = (block.to_vec(), ctx(geo, at));
    if at.0 < geo.dir_leafblk().0.into() {
        data_edit::stamp(&mut block);
        Data::verify(&block, &ctx, None).is_ok()
    } else if at.0 < geo.dir_freeblk().0.into() {
        da_edit::stamp(&mut block);
        if da::magic(&block) == Some(Layout::V5.da_node_magic) {
            Node::verify(&block, &ctx, Fork::Data).is_ok()
        } else {
            Leaf::verify(&block, &ctx, None).is_ok()
        }
    } else {
        data_edit::stamp(&mut block);
        Free::verify(&block, &ctx).is_ok()
    }
}

fn verify_free(geo: &Geometry, blocks: &Blocks, bests: &[u16]) {
    let max = free_max(geo);
    for (number, bests) in bests.chunks(max).enumerate() {
        let at = u64::from(geo.dir_freeblk().0) + number as u64 * u64::from(geo.dirblkfsbs());
        let Some(block) = blocks.get(&FileOff(at)) else {
            assert!(bests.iter().all(|best| *best == NULLDATAOFF), "free block {number}");
            continue;
        };
        let mut block = block.clone();
        data_edit::stamp(&mut block);
        let free = Free::verify(&block, &ctx(geo, FileOff(at))).unwrap();
        let mut listed: Vec<u16> = free.fbests.iter().map(|best| best.get()).collect();
        assert_ne!(listed.last(), Some(&NULLDATAOFF), "nvalid ends with one in use");
        listed.resize(bests.len(), NULLDATAOFF);
        assert_eq!(listed, bests, "free block {number}");
        assert!(free.nused > 0, "a free block without use");
    }
}

struct Walk<'w> {
    geo: &'w Geometry,
    blocks: &'w Blocks,
    found: &'w mut Found,
    /// For each level the last block and its `forw`.
    chain: Vec<(u32, u32)>,
    last: u32,
    /// The entries that the leaves must hold.
    addresses: BTreeSet<(u32, u32)>,
}

impl Walk<'_> {
    fn visit(&mut self, at: FileOff, expected: Option<(u16, u32)>, bests: &[u16]) -> Kind {
        self.found.blocks[1] += 1;
        let mut bytes = self.blocks[&at].clone();
        da_edit::stamp(&mut bytes);
        let ctx = ctx(self.geo, at);
        let dablk = u32::try_from(at.0).unwrap();
        if da::magic(&bytes) == Some(Layout::V5.da_node_magic) {
            let node = Node::verify(&bytes, &ctx, Fork::Data).unwrap();
            let last = node.btree.last().unwrap().hashval.get();
            match expected {
                Some(expected) => assert_eq!((node.level, last), expected, "node {dablk}"),
                None => assert!(node.btree.len() > 1, "a root with one child"),
            }
            self.verify_siblings(node.level, dablk, (node.info.forw.get(), node.info.back.get()));
            for kid in node.btree {
                let below = Some((node.level - 1, kid.hashval.get()));
                self.visit(FileOff(kid.before.get().into()), below, bests);
            }
            return Kind::LeafN;
        }
        let leaf = Leaf::verify(&bytes, &ctx, None).unwrap();
        if let Some(expected) = expected {
            assert_eq!((0, leaf.last_hash().unwrap()), expected, "leaf {dablk}");
            assert_eq!(leaf.kind, Kind::LeafN);
        }
        if leaf.kind == Kind::Leaf1 {
            let listed: Vec<u16> = leaf.lbests.iter().map(|best| best.get()).collect();
            assert_eq!(listed, bests, "the leaf's table of free space");
        }
        self.verify_siblings(0, dablk, (leaf.info.forw.get(), leaf.info.back.get()));
        let mut live = 0;
        for lent in leaf.lents {
            let (hash, address) = (lent.hashval.get(), lent.address.get());
            assert!(self.last <= hash, "hashes descend between leaves");
            self.last = hash;
            if address != 0 {
                live += 1;
                assert!(self.addresses.remove(&(hash, address)), "hash {hash:x} without name");
            }
        }
        self.found.leaves.push(live);
        leaf.kind
    }

    fn verify_siblings(&mut self, level: u16, dablk: u32, (forw, back): (u32, u32)) {
        let level = usize::from(level);
        if self.chain.len() <= level {
            // The first of a level follows nothing, and nothing names it.
            self.chain.resize(level + 1, (0, dablk));
        }
        let (before, named) = &mut self.chain[level];
        if *named == dablk || *before != 0 {
            assert_eq!((*before, *named), (back, dablk), "siblings of {dablk}");
        } else {
            assert_eq!(back, 0);
        }
        self.chain[level] = (dablk, forw);
    }
}

/// Returns `count` names with the same hash.
pub fn colliding(count: usize) -> impl Iterator<Item = Vec<u8>> {
    // A byte's low bit goes where the next byte's high one does: each pair has two spellings.
    let bits = usize::try_from(count.next_power_of_two().trailing_zeros().max(1)).unwrap();
    (0..count).map(move |n| {
        let pair = |bit| if n >> bit & 1 == 0 { [0x41, 0x41] } else { [0x40, 0xc1] };
        (0..bits).flat_map(pair).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colliding_names_collide() {
        let hashes: BTreeSet<u32> = colliding(100).map(|name| hash::name_hash(&name)).collect();
        assert_eq!(hashes.len(), 1);
        assert_eq!(colliding(100).collect::<BTreeSet<_>>().len(), 100);
    }
}
