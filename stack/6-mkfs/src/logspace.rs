//! The log: its size, its location, its alignment.

use xfskit_units::{AgBlock, AgNumber, FsBlock, Geometry};

use crate::error::{Error, refuse};
use crate::layout;
use crate::minlog::min_log_blocks;
use crate::options::{Options, StripeUnit};
use crate::sizes::{DeviceFacts, GIB, MIB, SMALL, Sizes};
use crate::stripe::Stripe;

const KIB: u64 = 1 << 10;
/// Maximum length of a log, in blocks.
const BLOCKS_MAX: u64 = 1 << 20;
/// Maximum length of a log, in bytes: 2 GiB less 10 MiB.
const BYTES_MAX: u64 = 2 * GIB - 10 * MIB;
/// Minimum length of a log, in blocks.
const BLOCKS_MIN: u64 = 512;
/// Longest stripe unit of a log, in bytes.
const UNIT_MAX: u64 = 256 * KIB;
/// The unit that replaces a longer one by default, in bytes.
const UNIT_INSTEAD: u64 = 32 * KIB;
/// Blocks of a group that the log leaves free: the AGFL's, and one.
const SPARED: u32 = 4 + 1;

/// Bounds on the length of a log, in blocks.
struct Bounds {
    /// The length that `-l size` requests.
    requested: Option<u64>,
    /// The minimum that Linux requires.
    min: u64,
    /// The maximum that the format allows.
    max: u64,
}

/// Decides `logsunit`, `logblocks` and `logstart`.
pub(crate) fn decide(
    geo: &mut Geometry,
    options: &Options,
    facts: &DeviceFacts,
    sizes: &Sizes,
    stripe: &Stripe,
) -> Result<(), Error> {
    let block = u64::from(sizes.block);
    let sunit = stripe_unit(options, sizes, stripe)?;
    geo.logsunit = if sunit == 0 { 1 } else { sunit };
    let bounds = Bounds {
        requested: options
            .log_size
            .map(|size| sizes.in_bytes(size))
            .transpose()?
            .map(|b| b / block),
        min: min_log_blocks(geo).max(BLOCKS_MIN),
        max: BLOCKS_MAX.min(BYTES_MAX / block),
    };
    let unit = sunit / sizes.block;
    let blocks = match (options.log_external, facts.log) {
        (true, Some(log)) => external_log(log.size.0 / block, &bounds, unit)?,
        (true, None) => return Err(Error::LogDevice),
        (false, _) => {
            let unit = if unit == 0 { stripe.unit } else { unit };
            let agno = options.log_agnum.unwrap_or(geo.agcount / 2);
            if agno >= geo.agcount {
                refuse!("-l agnum={agno}: the last group is {}", geo.agcount - 1);
            }
            let spared = if agno == 0 { (4 * geo.chunk_blocks()).max(2 * stripe.unit) } else { 0 };
            internal_log(geo, AgNumber(agno), spared, &bounds, unit)?
        }
    };
    geo.logblocks = u32::try_from(blocks).unwrap_or(0);
    Ok(())
}

/// Returns the length of a log that has a device of `device` blocks for itself, in blocks.
fn external_log(device: u64, bounds: &Bounds, unit: u32) -> Result<u64, Error> {
    let unit = u64::from(unit).max(1);
    let blocks = bounds.requested.unwrap_or(device.min(bounds.max) / unit * unit);
    if blocks > device {
        refuse!("log of {blocks} blocks is larger than its device of {device} blocks");
    }
    check_log_unit(blocks, unit)?;
    check_log_size(blocks, bounds.min, bounds.max)?;
    Ok(blocks)
}

fn check_log_size(blocks: u64, min: u64, max: u64) -> Result<(), Error> {
    if blocks < min {
        refuse!("log of {blocks} blocks is too small: Linux wants at least {min} for this volume");
    }
    if blocks > max {
        refuse!("log of {blocks} blocks is too large: at most {max} are possible");
    }
    Ok(())
}

fn check_log_unit(blocks: u64, unit: u64) -> Result<(), Error> {
    if !blocks.is_multiple_of(unit) {
        refuse!("log of {blocks} blocks is not a multiple of its stripe unit of {unit} blocks");
    }
    Ok(())
}

/// Returns the log's stripe unit in bytes; 0 for none.
fn stripe_unit(options: &Options, sizes: &Sizes, stripe: &Stripe) -> Result<u32, Error> {
    let requested = match options.log_stripe_unit {
        Some(StripeUnit::Su(su)) => Some(sizes.in_bytes(su)?),
        Some(StripeUnit::Sunit(units)) => Some(u64::from(units) * 512),
        None => None,
    };
    let default = match () {
        () if sizes.log_sector > 512 => sizes.block.into(),
        () if options.log_external => 0, // the data's stripes are not the log's
        () => u64::from(stripe.unit) * u64::from(sizes.block),
    };
    let unit = requested.unwrap_or(default);
    if requested.is_some_and(|unit| unit > UNIT_MAX) {
        refuse!("log stripe unit of {unit} bytes is too large: at most 256 KiB are possible");
    }
    if !unit.is_multiple_of(sizes.block.into()) {
        refuse!("log stripe unit of {unit} bytes is not a multiple of the block size");
    }
    let unit = if unit > UNIT_MAX { UNIT_INSTEAD } else { unit };
    let unit = if unit < sizes.block.into() { 0 } else { unit };
    Ok(u32::try_from(unit).unwrap_or(0))
}

/// Places the log in group `agno`, where `spared` more blocks than usual stay free. Returns its
/// length in blocks.
fn internal_log(
    geo: &mut Geometry,
    agno: AgNumber,
    spared: u32,
    bounds: &Bounds,
    unit: u32,
) -> Result<u64, Error> {
    // The last group may be short, which mkfs.xfs does not consider.
    let length = geo.ag_length(agno);
    let first_free = layout::first_free(geo);
    let max = bounds.max.min(length.saturating_sub(first_free + SPARED + spared).into());
    let unit = u64::from(unit).max(1);
    let default = default_size(geo, bounds.min).clamp(bounds.min, max.max(bounds.min));
    let wanted = bounds.requested.unwrap_or(default);
    check_log_size(wanted, bounds.min, max)?;
    if bounds.requested.is_some() {
        check_log_unit(wanted, unit)?;
    }
    // The unit divides volume-wide block numbers, which for odd units is not the same as dividing
    // the numbers within the group.
    let start = geo.agb_to_fsb(agno, AgBlock(first_free)).0.next_multiple_of(unit);
    let end = geo.agb_to_fsb(agno, AgBlock(0)).0 + u64::from(length);
    let up = wanted.next_multiple_of(unit);
    let down = if up <= max { up } else { wanted / unit * unit };
    let blocks = down.min(end.saturating_sub(start) / unit * unit);
    check_log_size(blocks, bounds.min, max)?;
    geo.logstart = Some(FsBlock(start));
    Ok(blocks)
}

/// Returns the default length of a log, in blocks.
fn default_size(geo: &Geometry, min: u64) -> u64 {
    if geo.data_bytes().0 < SMALL {
        return min;
    }
    (geo.dblocks.0 / 2048).max((64 * MIB) >> geo.blocklog)
}
