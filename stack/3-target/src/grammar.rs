//! The grammar of targets, and that of arrays, `md:MEMBER,MEMBER,…`.
//!
//! ```text
//! md:a.img,b.img,c.img            members in any order: their superblocks describe the array
//! md:/images/m*.img               a pattern: * and ? in any part of the path
//! md:[md:a,b],[md:c,d]            arrays of arrays; brackets around a target make it one member
//! md:disk0.img#p2,disk1.img#p2    members on partitions
//! md:a.img,b.img#p1               the array's partition 1
//! md:overlay=changes:a,b,c        writes go to the file `changes`, members stay unchanged
//! md:force:a,b,c                  stale members where there are too few fresh ones
//! md:level=6,layout=left-symmetric,chunk=512K,offset=1M:a,missing,c,d
//!                                 no superblocks: members in role order
//! ```
//!
//! A part behind the last member belongs to the array, unless other members have parts as well.
//! `[md:a,b]#p1` and `md:a,[b#p1]` are explicit. Brackets also hold names with commas.

use std::path::PathBuf;
use std::str::FromStr;

use xfskit_md::assemble::{AssembledMember, Freshness, ManualGeometry};
use xfskit_md::{Assembly, Layout, Level};
use xfskit_units::Sectors;

use crate::error::{Error, Result};
use crate::name::{ArrayName, Base, FORCE, MISSING, OVERLAY, Part, Target};
use crate::size;

/// The deepest nesting of arrays.
const DEPTH_MAX: usize = 8;

impl Target {
    /// Parses a name. Opens nothing.
    ///
    /// A `#` begins a part only if a valid part follows; otherwise it belongs to the file's name.
    /// Brackets group a target and change nothing else: `[md:a,b]#p1`.
    ///
    /// # Errors
    /// Returns an error if the name is empty, its size is invalid, or an array has no members.
    pub fn parse(name: &str) -> Result<Self> {
        Self::parse_within(name, 0)
    }

    /// Parses a name at this nesting depth of arrays; see [`parse`](Self::parse).
    pub(crate) fn parse_within(name: &str, depth: usize) -> Result<Self> {
        if name.is_empty() {
            return Err(Error::BadName { name: name.into(), why: "it is empty" });
        }
        if let Some(members) = name.strip_prefix("md:") {
            if members.is_empty() {
                return Err(Error::BadName { name: name.into(), why: "it is empty" });
            }
            let (array, part) = ArrayName::parse(members, depth)?;
            return Ok(Self { base: Base::Array(Box::new(array)), part });
        }
        if let Some((path, below)) = name.strip_prefix(OVERLAY).and_then(|n| n.split_once(':')) {
            return Self::parse_within(below, depth)?.with_overlay(path);
        }
        if let Some(text) = name.strip_prefix("mem:") {
            return Ok(Self { base: Base::Memory(size::parse(text)?), part: None });
        }
        let (path, part) = match Part::cut(name) {
            Some((path, part)) => (path, Some(part)),
            None => (name, None),
        };
        if let Some(inner) = path.strip_prefix('[').and_then(|path| path.strip_suffix(']')) {
            let target = Self::parse_within(inner, depth)?;
            return match (target.part, part) {
                (None, part) | (part, None) => Ok(Self { base: target.base, part }),
                _ => Err(Error::BadName { name: name.into(), why: "a part cannot have a part" }),
            };
        }
        Ok(Self { base: Base::File(path.into()), part })
    }

    /// Returns the target with an overlay: writes go to the file at `path`, which is created if it
    /// does not exist.
    ///
    /// # Errors
    /// Returns an error if the target has an overlay already, or the path cannot be part of a name.
    pub fn with_overlay(self, path: &str) -> Result<Self> {
        let bad = |why| Err(Error::BadName { name: format!("{OVERLAY}{path}"), why });
        if path.is_empty() || path.contains([',', ':']) {
            return bad("an overlay's path must not be empty or contain a comma or colon");
        }
        let base = match self.base {
            Base::Array(array) if array.overlay.is_none() => {
                Base::Array(Box::new(ArrayName { overlay: Some(path.into()), ..*array }))
            }
            Base::Array(_) | Base::Overlay(..) => return bad("the target already has an overlay"),
            below => Base::Overlay(path.into(), Box::new(below)),
        };
        Ok(Self { base, part: self.part })
    }

    /// Returns the array with the force option: stale members are used where there are too few
    /// fresh ones, and untrusted parity is used.
    ///
    /// # Errors
    /// Returns an error if the target is not an array, or an array without superblocks, which are
    /// what force overrides.
    pub fn with_force(self) -> Result<Self> {
        let bad = |why| Err(Error::BadName { name: self.to_string(), why });
        match &self.base {
            Base::Array(array) if array.manual.is_none() => {
                let base = Base::Array(Box::new(ArrayName { force: true, ..(**array).clone() }));
                Ok(Self { base, part: self.part })
            }
            Base::Array(_) => bad("force has no effect on an array without superblocks"),
            _ => bad("force applies to arrays only"),
        }
    }
}

impl FromStr for Target {
    type Err = Error;
    fn from_str(name: &str) -> Result<Self> {
        Self::parse(name)
    }
}

impl ArrayName {
    /// Returns the name of an assembled array by its members: in role order, then its journal,
    /// replacements and spares. A writer that leaves these out would leave them behind.
    pub fn of(assembly: &Assembly) -> Self {
        let member = |i: &usize| Target::parse(&assembly.members[*i].name).ok();
        let mut members: Vec<Option<Target>> =
            assembly.roles.iter().map(|i| i.as_ref().and_then(member)).collect();
        let beside = |member: &&AssembledMember| {
            matches!(
                member.freshness,
                Freshness::Journal | Freshness::Replacement { .. } | Freshness::Spare
            )
        };
        let beside = assembly.members.iter().filter(beside);
        members.extend(beside.filter_map(|member| Target::parse(&member.name).ok()).map(Some));
        Self::new(None, members)
    }

    /// Returns the name of the array of these members, without options.
    pub fn new(manual: Option<ManualGeometry>, members: Vec<Option<Target>>) -> Self {
        Self { manual, force: false, overlay: None, members }
    }

    /// Parses the text after `md:`. The second value is the part of the array.
    pub(crate) fn parse(text: &str, depth: usize) -> Result<(Self, Option<Part>)> {
        if depth >= DEPTH_MAX {
            return Err(bad(text, "arrays are nested more than eight deep"));
        }
        let (options, rest) = match text.split_once(':') {
            Some((options, rest)) if options.split(',').all(is_option) => (options, rest),
            _ => ("", text),
        };
        let overlay = options.split(',').find_map(|option| option.strip_prefix(OVERLAY));
        let force = options.split(',').any(|option| option == FORCE);
        let (manual, list) = match rest.split_once(':') {
            Some((numbers, list)) if numbers.starts_with("level=") => {
                (Some(parse_manual(numbers)?), list)
            }
            _ => (None, rest),
        };
        if force && manual.is_some() {
            return Err(bad(text, "force has no effect on an array without superblocks"));
        }
        let mut members = split(list).ok_or_else(|| bad(text, "its brackets do not match"))?;
        let part = members.split_last_mut().and_then(|(last, others)| take_part(last, others));
        let member = |text: &str| match text {
            MISSING => Ok(None),
            _ => Target::parse_within(text, depth + 1).map(Some),
        };
        let members = members.into_iter().map(member).collect::<Result<Vec<_>>>()?;
        if members.iter().all(Option::is_none) {
            return Err(bad(text, "it has no member"));
        }
        let overlay = overlay.map(PathBuf::from);
        Ok((Self { manual, force, overlay, members }, part))
    }
}

fn is_option(text: &str) -> bool {
    text == FORCE || text.strip_prefix(OVERLAY).is_some_and(|path| !path.is_empty())
}

/// Cuts the part off the last member if it belongs to the array.
fn take_part(last: &mut &str, others: &[&str]) -> Option<Part> {
    let (rest, part) = Part::cut(last)?;
    let several = Part::cut(rest).is_some() || !others.iter().any(|text| Part::cut(text).is_some());
    several.then(|| *last = rest)?;
    Some(part)
}

/// Splits at commas outside of brackets. Returns `None` if brackets do not match.
fn split(list: &str) -> Option<Vec<&str>> {
    let (mut members, mut start, mut depth) = (Vec::new(), 0, 0usize);
    for (at, c) in list.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                members.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    members.push(&list[start..]);
    (depth == 0).then_some(members)
}

/// Parses the geometry of an array without superblocks:
/// `level=…,layout=…,chunk=…,offset=…,size=…`.
fn parse_manual(text: &str) -> Result<ManualGeometry> {
    let (mut level, mut layout, mut chunk, mut offset, mut size) = (None, None, None, 0, None);
    for option in text.split(',') {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        match key {
            "level" => level = Level::from_name(value),
            "layout" => layout = Some(value.replace('+', ",")),
            "chunk" => chunk = Some(sectors(text, value)?),
            "offset" => offset = sectors(text, value)?,
            "size" => size = Some(Sectors(sectors(text, value)?)),
            _ => {
                return Err(bad(
                    text,
                    "its only options are level, layout, chunk, offset and size",
                ));
            }
        }
    }
    let level = level.ok_or_else(|| bad(text, "unknown level"))?;
    let layout = match layout {
        None => Layout::default_of(level),
        Some(name) => Layout::from_name(level, &name)
            .ok_or_else(|| bad(text, "the level does not have this layout"))?,
    };
    let chunk = match (level, chunk) {
        (_, Some(chunk)) => chunk,
        (Level::Linear | Level::Raid1, None) => 0,
        _ => return Err(bad(text, "this level needs chunk=SIZE")),
    };
    Ok(ManualGeometry { layout, chunk: Sectors(chunk), offset: Sectors(offset), size })
}

/// Parses a size in whole sectors.
fn sectors(text: &str, value: &str) -> Result<u64> {
    let bytes = size::parse(value)?.0;
    if bytes.is_multiple_of(512) {
        Ok(bytes / 512)
    } else {
        Err(bad(text, "sizes must be whole sectors"))
    }
}

fn bad(text: &str, why: &'static str) -> Error {
    Error::BadName { name: format!("md:{text}"), why }
}

#[cfg(test)]
mod tests;
