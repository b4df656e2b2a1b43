//! The bytes of inodes.

use xfskit_bulk::attr::AttrForm;
use xfskit_format::bmbt::Extent;
use xfskit_format::inode::{self, Format, InodeFlags2, InodeMut};
use xfskit_format::timestamp::Timestamp;
use xfskit_mkfs::Plan;
use xfskit_units::{Geometry, Ino};

use super::inode_plan::{Content, InodePlan, Map, PlanInput, file_type, generation};

/// `change_count` of an inode that was allocated and written once.
const CHANGES: u64 = 1;

/// Encodes a time in the format of the volume's inodes.
fn encode(geo: &Geometry, time: Timestamp) -> u64 {
    if geo.features.bigtime() { time.to_bigtime() } else { time.to_legacy() }
}

/// Formats `bytes` as a free inode.
pub(super) fn free(bytes: &mut [u8], plan: &Plan, ino: Ino) {
    inode::template(bytes, &plan.geometry, ino, generation(plan, ino));
}

/// Sets the generation of inode `ino`, whose bytes are a copy of another.
pub(super) fn set_generation(bytes: &mut [u8], plan: &Plan, ino: Ino) {
    if let Some(inode) = InodeMut::new(bytes) {
        inode.core.core.generation = generation(plan, ino).into();
    }
    inode::stamp(bytes);
}

/// Formats `bytes` as the inode of `plan`.
pub(super) fn fill(bytes: &mut [u8], plan_input: PlanInput<'_>, inode_plan: &InodePlan<'_>) {
    let geo = plan_input.geo();
    free(bytes, plan_input.plan, inode_plan.ino);
    let Some(mut inode) = InodeMut::new(bytes) else { return };
    set_meta(&mut inode, plan_input, inode_plan);
    let boundary = match inode_plan.attrs.forkoff {
        0 => inode.literal.len(),
        forkoff => usize::from(forkoff) * 8,
    };
    let (data, attr) = inode.literal.split_at_mut(boundary);
    let (format, size) = match &inode_plan.content {
        Content::Local(bytes) => {
            put(data, bytes);
            (Format::Local, bytes.len() as u64)
        }
        Content::Device(number) => {
            put(data, &number.to_be_bytes());
            (Format::Dev, 0)
        }
        Content::Dir(blocks) => (put_map(data, &inode_plan.data), blocks.size().0),
        Content::Target(target) => (put_map(data, &inode_plan.data), target.len() as u64),
        // The content was read by now: a file that shrank meanwhile is as long as it was then, and
        // its last blocks lie beyond its end.
        Content::File { .. } => {
            (put_map(data, &inode_plan.data), plan_input.tree.copied_size(inode_plan.id))
        }
    };
    let aformat = match &inode_plan.attrs.form {
        AttrForm::None => Format::Extents,
        AttrForm::Short(list) => {
            put(attr, list);
            Format::Local
        }
        AttrForm::Blocks(_) => put_map(attr, &inode_plan.attr),
    };
    let core = &mut inode.core.core;
    core.format = format as u8;
    core.size = size.into();
    core.aformat = aformat as u8;
    core.forkoff = inode_plan.attrs.forkoff;
    core.nblocks = (inode_plan.data.blocks() + inode_plan.attr.blocks()).into();
    set_counts(&mut inode, geo, &inode_plan.data.extents, &inode_plan.attr.extents);
    inode::stamp(bytes);
}

fn put(fork: &mut [u8], bytes: &[u8]) {
    fork[..bytes.len()].copy_from_slice(bytes);
}

fn put_map(fork: &mut [u8], map: &Map) -> Format {
    put(fork, &map.shape.fork(&map.extents, &map.places));
    map.shape.format()
}

fn set_meta(inode: &mut InodeMut<'_>, plan_input: PlanInput<'_>, inode_plan: &InodePlan<'_>) {
    let (geo, tree) = (plan_input.geo(), plan_input.tree);
    let node = tree.node(inode_plan.id);
    let now = encode(geo, plan_input.plan.stamp.time());
    let core = &mut inode.core.core;
    core.mode = (file_type(tree, inode_plan.id).mode() | (node.meta.perm & 0o7777)).into();
    core.uid = node.meta.uid.into();
    core.gid = node.meta.gid.into();
    core.nlinkv2 = node.nlink.into();
    core.atime = encode(geo, node.meta.atime).into();
    core.mtime = encode(geo, node.meta.mtime).into();
    core.ctime = now.into();
    inode.core.crtime = now.into();
    inode.core.change_count = CHANGES.into();
    inode.core.flags2 = InodeFlags2::of_new(&geo.features).bits().into();
}

fn set_counts(inode: &mut InodeMut<'_>, geo: &Geometry, data: &[Extent], attr: &[Extent]) {
    let core = &mut inode.core.core;
    let count = |extents: &[Extent]| u32::try_from(extents.len()).unwrap_or(u32::MAX);
    if geo.features.nrext64() {
        core.big_nextents = (data.len() as u64).into();
        core.nextents = count(attr).into();
    } else {
        core.nextents = count(data).into();
        core.naextents = u16::try_from(attr.len()).unwrap_or(u16::MAX).into();
    }
}
