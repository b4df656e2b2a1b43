//! Commands on files of metadata: `metadump`, `restore`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::name::Name;

/// Copy the metadata of a volume to a file, to be sent to those who look for its damage
///
/// Writes the files of xfs_metadump, which `xfskit restore` and xfs_mdrestore turn into an image.
/// The image has all metadata: xfskit check, xfs_repair and the kernel find in it what they find on
/// the volume. No content of files is copied. Names of files and attributes are obfuscated, and
/// values of attributes are cleared. The volume is only read, and may be damaged.
#[derive(Debug, Args)]
#[command(after_help = "\
An obfuscated name has the length and the hash of the name. So directories stay valid, and the same
name becomes the same name everywhere, in symbolic links too. Names of up to 4 bytes stay, and those
of up to 8 bytes can be guessed from their hash. User ids, times, sizes and the label stay as well.

The journal has old copies of metadata, with their names. A clean journal is cleared. A dirty one is
replayed first, in memory: the file shows the volume as it would be after a mount. With
--no-obfuscate a dirty journal is copied as it is. --journal copy does so in any case.

Blocks that are damaged are copied as they are. With obfuscation, what cannot be decoded in a
directory or among attributes is cleared, because it may contain names.

Examples:
  xfskit metadump disk.img disk.metadump
  xfskit metadump disk.img - | zstd > disk.metadump.zst        compressed
  xfskit metadump disk.img - | ssh host xfskit restore - copy.img
  xfskit metadump --no-obfuscate /dev/sdb1 sdb1.metadump       with names and values
  xfskit metadump --no-obfuscate --full-blocks disk.img full.metadump
                                                               and with unused parts of blocks
  xfskit metadump --logdev log.img data.img data.metadump      with an external journal
  xfskit metadump md:a.img,b.img,missing array.metadump        a degraded array")]
#[command(mut_arg("force_array", |arg| arg.long("force-array")))]
pub(crate) struct Metadump {
    #[command(flatten)]
    pub target: Name,
    /// The file to write, or - for standard output
    #[arg(value_name = "FILE|-")]
    pub file: PathBuf,
    /// Copy names and values of attributes as they are (-o of xfs_metadump)
    #[arg(short = 'o', long)]
    pub no_obfuscate: bool,
    /// Copy whole blocks, with parts that nothing uses; these are not obfuscated
    /// (-a of xfs_metadump)
    #[arg(short = 'a', long)]
    pub full_blocks: bool,
    /// What to do with the journal [default: clear a clean one; replay a dirty one, or copy it with
    /// --no-obfuscate]
    #[arg(long, value_enum, value_name = "MODE")]
    pub journal: Option<Journal>,
    /// The device or file with the journal, for a volume with an external log
    #[arg(short = 'l', long, value_name = "DEVICE")]
    pub logdev: Option<String>,
    /// Version of the file: 1, or 2 for an external journal [default: the lowest that can hold all]
    #[arg(long, value_name = "VERSION", value_parser = clap::value_parser!(u8).range(1..=2))]
    pub format: Option<u8>,
    /// Stop at a range that cannot be read, in place of leaving it out (-e of xfs_metadump)
    #[arg(short = 'e', long)]
    pub strict: bool,
    /// Print every warning, not only the first ones (-w of xfs_metadump)
    #[arg(short = 'w', long)]
    pub warnings: bool,
    /// Number of threads; 0 is one per processor
    #[arg(short = 't', long, value_name = "N", default_value_t = 0)]
    pub threads: usize,
    /// Overwrite FILE if it exists
    #[arg(short, long)]
    pub force: bool,
}

/// What to do with a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Journal {
    /// Copy it as it is, with its clear names
    Copy,
    /// Replay a dirty one in memory
    Replay,
    /// Leave an external one out
    Omit,
}

/// Make an image of a file that `metadump` or xfs_metadump wrote
///
/// The image has the metadata of the volume, and no content of files. It takes up little more room
/// than the file.
#[derive(Debug, Args)]
#[command(after_help = "\
The superblock is written last: what an interrupted restore leaves is no volume.

Examples:
  xfskit restore disk.metadump copy.img
  zstd -dc disk.metadump.zst | xfskit restore - copy.img
  xfskit restore --info disk.metadump                  print what it is, restore nothing
  xfskit restore --logdev log.img data.metadump data.img
                                                       with an external journal, to its own image
  xfskit restore --partial part.metadump copy.img      of an incomplete file, what it has")]
pub(crate) struct Restore {
    /// The file to read, or - for standard input
    #[arg(value_name = "FILE|-")]
    pub file: PathBuf,
    /// The image to make, or a device to overwrite with --force
    #[arg(value_name = "IMAGE", required_unless_present = "info")]
    pub image: Option<PathBuf>,
    /// Print what the file holds, and restore nothing
    #[arg(short, long, conflicts_with = "image")]
    pub info: bool,
    /// The image or device for an external journal
    #[arg(short = 'l', long, value_name = "DEVICE")]
    pub logdev: Option<PathBuf>,
    /// The image or device for the metadata of a realtime device
    #[arg(short = 'r', long, value_name = "DEVICE")]
    pub rtdev: Option<PathBuf>,
    /// Keep what an incomplete file has
    #[arg(long)]
    pub partial: bool,
    /// Overwrite IMAGE if it exists
    #[arg(short, long)]
    pub force: bool,
}
