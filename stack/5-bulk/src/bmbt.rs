//! Builds a whole extent map: in the inode if it fits, else a btree below a root there.

use xfskit_format::bmbt::{self, CRC_OFFSET, Extent, MAX_BLOCKCOUNT, NULLFSBLOCK, Rec};
use xfskit_format::{Layout, inode::Format};
use xfskit_units::{FilBlks, FileOff, FsBlock, Geometry, Ino};
use zerocopy::IntoBytes;
use zerocopy::big_endian::{U16, U32, U64};

use super::level::Level;

/// Bytes before the keys of the root in the inode.
const ROOT_HEAD: usize = 4;

/// Appends blocks to a map. The last extent grows if it is contiguous with them in the file and on
/// the device.
pub fn append(extents: &mut Vec<Extent>, startoff: FileOff, startblock: FsBlock, blocks: u64) {
    let (mut startoff, mut startblock, mut left) = (startoff.0, startblock.0, blocks);
    if let Some(last) = extents.last_mut() {
        let goes_on =
            last.end().0 == startoff && last.startblock.0 + last.blockcount.0 == startblock;
        let more = if goes_on { left.min(MAX_BLOCKCOUNT - last.blockcount.0) } else { 0 };
        last.blockcount.0 += more;
        (startoff, startblock, left) = (startoff + more, startblock + more, left - more);
    }
    while left > 0 {
        let len = left.min(MAX_BLOCKCOUNT);
        extents.push(Extent {
            startoff: FileOff(startoff),
            startblock: FsBlock(startblock),
            blockcount: FilBlks(len),
            unwritten: false,
        });
        (startoff, startblock, left) = (startoff + len, startblock + len, left - len);
    }
}

/// The form of a map with a given number of extents, in a fork of a given size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    capacity: usize,
    extents: usize,
    /// Leaves first, without the root; none if the records are in the inode.
    levels: Vec<Level>,
}

impl Shape {
    /// Plans a map of `extents` extents in a fork of `capacity` bytes.
    pub fn new(geo: &Geometry, capacity: usize, extents: usize) -> Self {
        let mut levels = Vec::new();
        if extents > bmbt::inline_records(capacity) {
            let max = bmbt::maxrecs(geo);
            levels.push(Level::new(extents, max));
            while let Some(last) =
                levels.last().filter(|level| level.blocks > bmbt::root_maxrecs(capacity))
            {
                levels.push(Level::new(last.blocks, max));
            }
        }
        Self { capacity, extents, levels }
    }

    /// Returns the number of blocks besides the inode.
    pub fn blocks(&self) -> usize {
        self.levels.iter().map(|level| level.blocks).sum()
    }

    /// Returns the fork's format.
    pub fn format(&self) -> Format {
        if self.levels.is_empty() { Format::Extents } else { Format::Btree }
    }

    /// Returns the number of the first block of `level` in the tree's locations.
    fn first(&self, level: usize) -> usize {
        self.levels[..level].iter().map(|level| level.blocks).sum()
    }

    /// Returns the first file block below each block of `level`.
    fn keys(&self, level: usize, extents: &[Extent]) -> Vec<U64> {
        let mut keys: Vec<U64> =
            self.levels[0].ranges().map(|range| extents[range.start].startoff.0.into()).collect();
        for row in &self.levels[1..=level] {
            keys = row.ranges().map(|range| keys[range.start]).collect();
        }
        keys
    }

    /// Returns the bytes in the inode: all records, or the root. `places` has [`Shape::blocks`],
    /// leaves first.
    ///
    /// # Panics
    /// If there are fewer extents or places than the shape was made for.
    pub fn fork(&self, extents: &[Extent], places: &[FsBlock]) -> Vec<u8> {
        assert_eq!(extents.len(), self.extents);
        let Some(top) = self.levels.len().checked_sub(1) else {
            return records(extents).as_bytes().to_vec();
        };
        let keys = self.keys(top, extents);
        let ptrs: Vec<U64> = places[self.first(top)..].iter().map(|place| place.0.into()).collect();
        let mut fork = vec![0; self.capacity];
        let head = [u16_of(self.levels.len()), u16_of(keys.len())];
        fork[..ROOT_HEAD].copy_from_slice(head.as_bytes());
        let at = ROOT_HEAD + bmbt::root_maxrecs(self.capacity) * size_of::<U64>();
        fork[ROOT_HEAD..][..keys.as_bytes().len()].copy_from_slice(keys.as_bytes());
        fork[at..][..ptrs.as_bytes().len()].copy_from_slice(ptrs.as_bytes());
        fork
    }

    /// Returns the finished blocks of the tree of inode `ino`, in the order of their `places`.
    ///
    /// # Panics
    /// As [`fork`](Self::fork).
    pub fn load(
        &self,
        geo: &Geometry,
        ino: Ino,
        extents: &[Extent],
        places: &[FsBlock],
    ) -> Vec<Vec<u8>> {
        let mut blocks = Vec::with_capacity(places.len());
        for (level, row) in self.levels.iter().enumerate() {
            let first = self.first(level);
            let children = if level == 0 { Vec::new() } else { self.keys(level - 1, extents) };
            for (index, range) in row.ranges().enumerate() {
                let mut block =
                    header(geo, ino, level, range.len(), &places[first..][..row.blocks], index);
                let body = Layout::V5.long_header;
                let mut put = |offset: usize, bytes: &[u8]| {
                    block[offset..offset + bytes.len()].copy_from_slice(bytes);
                };
                if level == 0 {
                    put(body, records(&extents[range]).as_bytes());
                } else {
                    let ptrs: Vec<U64> = places[self.first(level - 1)..][range.clone()]
                        .iter()
                        .map(|place| place.0.into())
                        .collect();
                    put(body, children[range].as_bytes());
                    put(body + bmbt::maxrecs(geo) * size_of::<U64>(), ptrs.as_bytes());
                }
                xfskit_crc::update(&mut block, CRC_OFFSET);
                blocks.push(block);
            }
        }
        blocks
    }
}

fn records(extents: &[Extent]) -> Vec<Rec> {
    extents.iter().map(Extent::encode).collect()
}

fn u16_of(n: usize) -> U16 {
    u16::try_from(n).unwrap_or(u16::MAX).into()
}

/// Returns a block with its header: number `index` of the `row` of its level.
fn header(
    geo: &Geometry,
    ino: Ino,
    level: usize,
    numrecs: usize,
    row: &[FsBlock],
    index: usize,
) -> Vec<u8> {
    let sibling = |index: Option<usize>| -> U64 {
        index.and_then(|index| row.get(index)).map_or(NULLFSBLOCK, |place| place.0).into()
    };
    let daddr = geo.fsb_to_daddr(row[index]).map_or(0, |daddr| daddr.0);
    let mut block = Vec::with_capacity(geo.blocksize());
    block.extend_from_slice(U32::new(Layout::V5.bmap_magic).as_bytes());
    block.extend_from_slice([u16_of(level), u16_of(numrecs)].as_bytes());
    block.extend_from_slice(sibling(index.checked_sub(1)).as_bytes());
    block.extend_from_slice(sibling(Some(index + 1)).as_bytes());
    block.extend_from_slice([U64::new(daddr), U64::new(0)].as_bytes());
    block.extend_from_slice(geo.meta_uuid.as_bytes());
    block.extend_from_slice(U64::new(ino.0).as_bytes());
    block.resize(geo.blocksize(), 0);
    block
}

#[cfg(test)]
mod tests {
    use super::*;
    use xfskit_test_trees::geo;

    #[test]
    fn maps_go_on_where_file_and_device_do() {
        let mut map = Vec::new();
        append(&mut map, FileOff(0), FsBlock(100), 10);
        append(&mut map, FileOff(10), FsBlock(110), 5);
        append(&mut map, FileOff(16), FsBlock(115), 5);
        append(&mut map, FileOff(21), FsBlock(200), MAX_BLOCKCOUNT + 3);
        let found: Vec<_> =
            map.iter().map(|e| (e.startoff.0, e.startblock.0, e.blockcount.0)).collect();
        let far = 200 + MAX_BLOCKCOUNT;
        let last = (21 + MAX_BLOCKCOUNT, far, 3);
        assert_eq!(found, [(0, 100, 15), (16, 115, 5), (21, 200, MAX_BLOCKCOUNT), last]);
    }

    #[test]
    fn a_map_is_inline_as_long_as_it_fits() {
        let geo = geo(12);
        let shape = |extents| Shape::new(&geo, 336, extents);
        assert_eq!((shape(21).blocks(), shape(21).format()), (0, Format::Extents));
        assert_eq!((shape(22).blocks(), shape(22).format()), (1, Format::Btree));
        // 20 leaves fit below the root; more need a level in between.
        assert_eq!(shape(188 * 20).blocks(), 20);
        assert_eq!(shape(188 * 20 + 1).blocks(), 22);
    }
}
