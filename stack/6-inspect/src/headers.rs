//! Superblock and AG headers.

use xfskit_format::Layout;
use xfskit_format::agfl;
use xfskit_format::bytes::be32;
use xfskit_units::Geometry;

use crate::dump::Dump;
use crate::fields::Kind::{Addr, Crc, Dec, Hex, Root, Text, Uuid};
use crate::fields::{self, Field, address};

/// Fields of a superblock.
pub const SB: &[Field] = &[
    ("magicnum", 0, Hex(4)),
    ("blocksize", 4, Dec(4)),
    ("dblocks", 8, Dec(8)),
    ("rblocks", 16, Dec(8)),
    ("rextents", 24, Dec(8)),
    ("uuid", 32, Uuid),
    ("logstart", 48, Addr(8)),
    ("rootino", 56, Addr(8)),
    ("rbmino", 64, Addr(8)),
    ("rsumino", 72, Addr(8)),
    ("rextsize", 80, Dec(4)),
    ("agblocks", 84, Dec(4)),
    ("agcount", 88, Dec(4)),
    ("rbmblocks", 92, Dec(4)),
    ("logblocks", 96, Dec(4)),
    ("versionnum", 100, Hex(2)),
    ("sectsize", 102, Dec(2)),
    ("inodesize", 104, Dec(2)),
    ("inopblock", 106, Dec(2)),
    ("fname", 108, Text(12)),
    ("blocklog", 120, Dec(1)),
    ("sectlog", 121, Dec(1)),
    ("inodelog", 122, Dec(1)),
    ("inopblog", 123, Dec(1)),
    ("agblklog", 124, Dec(1)),
    ("rextslog", 125, Dec(1)),
    ("inprogress", 126, Dec(1)),
    ("imax_pct", 127, Dec(1)),
    ("icount", 128, Dec(8)),
    ("ifree", 136, Dec(8)),
    ("fdblocks", 144, Dec(8)),
    ("frextents", 152, Dec(8)),
    ("uquotino", 160, Addr(8)),
    ("gquotino", 168, Addr(8)),
    ("qflags", 176, Hex(2)),
    ("flags", 178, Hex(1)),
    ("shared_vn", 179, Dec(1)),
    ("inoalignmt", 180, Dec(4)),
    ("unit", 184, Dec(4)),
    ("width", 188, Dec(4)),
    ("dirblklog", 192, Dec(1)),
    ("logsectlog", 193, Dec(1)),
    ("logsectsize", 194, Dec(2)),
    ("logsunit", 196, Dec(4)),
    ("features2", 200, Hex(4)),
    ("bad_features2", 204, Hex(4)),
    ("features_compat", 208, Hex(4)),
    ("features_ro_compat", 212, Hex(4)),
    ("features_incompat", 216, Hex(4)),
    ("features_log_incompat", 220, Hex(4)),
    ("crc", 224, Crc),
    ("spino_align", 228, Dec(4)),
    ("pquotino", 232, Addr(8)),
    ("lsn", 240, Hex(8)),
    ("meta_uuid", 248, Uuid),
];

/// Fields after [`SB`] on a volume with a metadata directory.
const SB_METADIR: &[Field] = &[
    ("metadirino", 264, Addr(8)),
    ("rgcount", 272, Dec(4)),
    ("rgextents", 276, Dec(4)),
    ("rgblklog", 280, Dec(1)),
];

/// Fields of an AGF.
pub const AGF: &[Field] = &[
    ("magicnum", 0, Hex(4)),
    ("versionnum", 4, Dec(4)),
    ("seqno", 8, Dec(4)),
    ("length", 12, Dec(4)),
    ("bnoroot", 16, Addr(4)),
    ("cntroot", 20, Addr(4)),
    ("rmaproot", 24, Root),
    ("refcntroot", 88, Root),
    ("bnolevel", 28, Dec(4)),
    ("cntlevel", 32, Dec(4)),
    ("rmaplevel", 36, Dec(4)),
    ("refcntlevel", 92, Dec(4)),
    ("rmapblocks", 80, Dec(4)),
    ("refcntblocks", 84, Dec(4)),
    ("flfirst", 40, Dec(4)),
    ("fllast", 44, Dec(4)),
    ("flcount", 48, Dec(4)),
    ("freeblks", 52, Dec(4)),
    ("longest", 56, Dec(4)),
    ("btreeblks", 60, Dec(4)),
    ("uuid", 64, Uuid),
    ("lsn", 208, Hex(8)),
    ("crc", 216, Crc),
];

/// Fields of an AGI before the unlinked lists.
pub const AGI: &[Field] = &[
    ("magicnum", 0, Hex(4)),
    ("versionnum", 4, Dec(4)),
    ("seqno", 8, Dec(4)),
    ("length", 12, Dec(4)),
    ("count", 16, Dec(4)),
    ("root", 20, Addr(4)),
    ("level", 24, Dec(4)),
    ("freecount", 28, Dec(4)),
    ("newino", 32, Addr(4)),
    ("dirino", 36, Addr(4)),
];

/// Fields of an AGI after the unlinked lists.
pub const AGI_TAIL: &[Field] = &[
    ("uuid", 296, Uuid),
    ("crc", 312, Crc),
    ("lsn", 320, Hex(8)),
    ("free_root", 328, Addr(4)),
    ("free_level", 332, Dec(4)),
    ("ino_blocks", 336, Dec(4)),
    ("fino_blocks", 340, Dec(4)),
];

/// Fields of an AGFL of version 5, before the list.
pub const AGFL: &[Field] = &[
    ("magicnum", 0, Hex(4)),
    ("seqno", 4, Dec(4)),
    ("uuid", 8, Uuid),
    ("lsn", 24, Hex(8)),
    ("crc", 32, Crc),
];

/// Decodes a superblock.
pub fn sb(sector: &[u8], geo: &Geometry) -> Dump {
    let mut dump = Dump::default();
    fields::read(&mut dump, "", sector, geo.v5(), SB);
    if geo.features.metadir() {
        fields::read(&mut dump, "", sector, geo.v5(), SB_METADIR);
    }
    dump
}

/// Decodes an AGF.
pub fn agf(sector: &[u8], geo: &Geometry) -> Dump {
    let mut dump = Dump::default();
    fields::read(&mut dump, "", sector, geo.v5(), AGF);
    dump
}

/// Decodes an AGI. Empty unlinked lists are not printed.
pub fn agi(sector: &[u8], geo: &Geometry) -> Dump {
    let mut dump = Dump::default();
    fields::read(&mut dump, "", sector, geo.v5(), AGI);
    let heads = (0..64).filter_map(|i| Some((i, be32(sector, 40 + 4 * i)?)));
    let lists: Vec<String> =
        heads.filter(|(_, n)| *n != u32::MAX).map(|(i, n)| format!("{i}:{n}")).collect();
    dump.scalar("unlinked[0-63]", crate::dump::Scalar::Text(lists.join(" ")));
    fields::read(&mut dump, "", sector, geo.v5(), AGI_TAIL);
    dump
}

/// Decodes an AGFL with every slot.
pub fn agfl(sector: &[u8], geo: &Geometry) -> Dump {
    let mut dump = Dump::default();
    if geo.v5() {
        fields::read(&mut dump, "", sector, true, AGFL);
    }
    let first = Layout::of(geo).agfl_first;
    let slots = (0..agfl::slots(geo) as usize).filter_map(|i| be32(sector, first + 4 * i));
    dump.list("bno", 0, slots.map(|n| address(n.into(), 4)).collect(), false);
    dump
}
