//! Data blocks of directories to which no map leads: a block names its directory.

use std::collections::BTreeMap;

use xfskit_format::Layout;
use xfskit_format::bytes;
use xfskit_format::log::Stamp;
use xfskit_units::{AgBlock, FsBlock, Ino};

use crate::error::Result;
use crate::headers;
use crate::view::View;

/// Blocks without an owner that are read at most.
const BLOCKS_MAX: u64 = 1 << 18;

/// The first blocks of data blocks of directories, by directory.
pub(crate) type Strays = BTreeMap<Ino, Vec<FsBlock>>;

/// Looks for data blocks of directories among the blocks for which an owner is missing.
pub(crate) fn find(view: View<'_>) -> Result<Strays> {
    let geo = view.geo;
    let magics = [Layout::V5.dir_block_magic, Layout::V5.dir_data_magic];
    let mut found = Strays::new();
    let mut block = vec![0; geo.dirblksize()];
    let mut read = 0;
    for group in &view.survey.groups {
        for run in group.ownerless.iter().flatten() {
            let mut at = run.start;
            while at.saturating_add(geo.dirblkfsbs()) <= run.end() && read < BLOCKS_MAX {
                read += 1;
                let daddr = geo.agb_to_daddr(group.agno, AgBlock(at));
                view.dev.read_at(daddr.byte_offset(), &mut block)?;
                let is_data = bytes::be32(&block, 0).is_some_and(|magic| magics.contains(&magic));
                let whole = |stamp: &Stamp| is_data && stamp.is_whole(&block);
                let owner = Stamp::of(&block, geo).filter(whole);
                match owner.and_then(|_| headers::owner(geo, &block, daddr)) {
                    Some(ino) => {
                        let fsbno = geo.agb_to_fsb(group.agno, AgBlock(at));
                        found.entry(Ino(ino)).or_default().push(fsbno);
                        at += geo.dirblkfsbs();
                    }
                    None => at += 1,
                }
            }
        }
    }
    Ok(found)
}
