//! The data stripe: the requested one, or that of the device.

use xfskit_block::Topology;

use crate::error::{Error, refuse};
use crate::options::{Options, StripeUnit, StripeWidth};
use crate::sizes::{DeviceFacts, GIB, Sizes};

/// The data stripe, in blocks; both fields are 0 without one.
pub(crate) struct Stripe {
    pub(crate) unit: u32,
    pub(crate) width: u32,
}

impl Stripe {
    pub(crate) fn decide(
        options: &Options,
        facts: &DeviceFacts,
        sizes: &Sizes,
        notes: &mut Vec<String>,
    ) -> Result<Self, Error> {
        check_alignment(options, facts, notes)?;
        let requested = requested(options, sizes)?;
        if let Some(requested) = requested {
            compare(requested, facts, notes);
        }
        let (unit, width) = requested.unwrap_or_else(|| of_device(options, facts, sizes, notes));
        let block = u64::from(sizes.block);
        if unit % block != 0 {
            refuse!("stripe unit of {unit} bytes is not a multiple of the block size {block}");
        }
        if (unit == 0) != (width == 0) || (unit != 0 && width % unit != 0) {
            refuse!("stripe width of {width} bytes is not a multiple of the unit of {unit} bytes");
        }
        match (u32::try_from(unit / block), u32::try_from(width / block)) {
            (Ok(unit), Ok(width)) => Ok(Self { unit, width }),
            _ => refuse!("stripe unit of {unit} or width of {width} bytes is too large"),
        }
    }
}

/// Refuses a partition that begins within a stripe unit of the device below, unless it is forced.
fn check_alignment(
    options: &Options,
    facts: &DeviceFacts,
    notes: &mut Vec<String>,
) -> Result<(), Error> {
    let Topology { stripe_unit, alignment_offset, .. } = facts.stripes;
    if options.noalign || alignment_offset.0 == 0 {
        return Ok(());
    }
    let what = format!(
        "the device is not aligned to the stripes below it: the first of its units of {stripe_unit} \
         bytes begins at byte {alignment_offset}"
    );
    if !options.force {
        refuse!("{what}; use -d noalign to do without stripes, or -f to make the volume like that");
    }
    notes.push(what);
    Ok(())
}

/// Returns the requested unit and width, in bytes.
fn requested(options: &Options, sizes: &Sizes) -> Result<Option<(u64, u64)>, Error> {
    Ok(match (options.stripe_unit, options.stripe_width) {
        (None, None) => None,
        (Some(StripeUnit::Su(su)), Some(StripeWidth::Sw(sw))) => {
            let unit = sizes.in_bytes(su)?;
            Some((unit, unit.saturating_mul(sw.into())))
        }
        (Some(StripeUnit::Sunit(unit)), Some(StripeWidth::Swidth(width))) => {
            Some((u64::from(unit) * 512, u64::from(width) * 512))
        }
        _ => refuse!("-d su needs sw (and sunit needs swidth), and the other way round"),
    })
}

/// Adds a note if the requested stripe is not that of the device.
fn compare(requested: (u64, u64), facts: &DeviceFacts, notes: &mut Vec<String>) {
    let found = (facts.stripes.stripe_unit.0, facts.stripes.stripe_width.0);
    if facts.stripes.is_striped() && requested != (0, 0) && requested != found {
        notes.push(format!(
            "the requested stripes (unit {} bytes, width {}) are not the device's (unit {}, width {})",
            requested.0, requested.1, found.0, found.1
        ));
    }
}

/// Returns the device's unit and width, in bytes, if they can be used.
fn of_device(
    options: &Options,
    facts: &DeviceFacts,
    sizes: &Sizes,
    notes: &mut Vec<String>,
) -> (u64, u64) {
    if options.noalign || !facts.stripes.is_striped() {
        return (0, 0);
    }
    let (unit, width) = (facts.stripes.stripe_unit.0, facts.stripes.stripe_width.0);
    let why = match () {
        () if sizes.bytes < GIB => "the volume is smaller than 1 GiB",
        () if !unit.is_multiple_of(sizes.block.into()) => "the unit is not a multiple of the block",
        () if !width.is_multiple_of(unit) => "the width is not a multiple of the unit",
        () => return (unit, width),
    };
    notes.push(format!(
        "the device's stripes (unit {unit} bytes, width {width}) are not used: {why}"
    ));
    (0, 0)
}
