//! Arrays created in memory.

use std::ops::ControlFlow;
use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_md::array::Array;
use xfskit_md::array::sync_action::Progress;
use xfskit_md::assemble::{Assembly, Member, assemble};
use xfskit_md::create::{BitmapOption, CreateOptions, NewMember};
use xfskit_md::superblock::v1::{FeatureMap, ROLE_JOURNAL};
use xfskit_md::superblock::{self, Superblock, Version};
use xfskit_md::{Layout, Level};
use xfskit_test_support::Random;
use xfskit_units::{ByteLen, ByteOffset, Sectors, index};

use crate::helpers::NOW;

/// Bytes of a mebibyte.
pub const MIB: u64 = 1 << 20;

/// Members in memory, by name.
#[derive(Debug, Default)]
pub struct MemberSet(pub Vec<(String, Arc<MemDevice>)>);

impl MemberSet {
    /// Creates `count` members of 3 MiB.
    pub fn new(count: usize) -> Self {
        let mut set = Self::default();
        (0..count).for_each(|_| set.put(3 * MIB));
        set
    }

    /// Adds a member of this size.
    pub fn put(&mut self, bytes: u64) {
        let name = format!("m{}", self.0.len());
        self.0.push((name, Arc::new(MemDevice::new(ByteLen(bytes)))));
    }

    /// Returns a member for creating an array.
    ///
    /// # Panics
    /// Panics if there is no member of this number.
    pub fn new_member(&self, i: usize) -> NewMember {
        let (name, device) = &self.0[i];
        let uuid = [u8::try_from(i + 1).unwrap(); 16];
        NewMember { name: name.clone(), device: Arc::clone(device) as _, uuid }
    }

    /// Assembles all members.
    pub fn assembly(&self) -> Assembly {
        self.without(usize::MAX)
    }

    /// Assembles the members except one.
    ///
    /// # Panics
    /// Panics if they make no array.
    pub fn without(&self, removed: usize) -> Assembly {
        let there = self.0.iter().enumerate().filter(|(i, _)| *i != removed);
        let member = |(name, device): &(String, Arc<MemDevice>)| Member {
            name: name.clone(),
            device: Arc::clone(device) as _,
        };
        assemble(there.map(|(_, member_)| member(member_)).collect()).unwrap()
    }

    /// Opens the array for writing.
    ///
    /// # Panics
    /// Panics if writing is refused.
    pub fn open(&self) -> Array {
        let assembly = self.assembly();
        assert_eq!(assembly.write_refusal(), None);
        assembly.open_writable(NOW).unwrap()
    }
}

/// Returns the layout of this name, or the level's default.
pub fn layout(level: Level, name: &str) -> Layout {
    Layout::from_name(level, name).unwrap_or_else(|| Layout::default_of(level))
}

/// Returns the options of a small array with chunks of 16 KiB.
pub fn create_options(layout: Layout, bitmap: bool) -> CreateOptions {
    CreateOptions {
        layout,
        chunk: Sectors(if layout.level() == Level::Raid1 { 0 } else { 32 }),
        version: Version::V1_2,
        name: "test".into(),
        uuid: [0xab; 16],
        size: Some(Sectors(1024)),
        data_offset: None,
        bitmap: if bitmap { BitmapOption::Internal(Some(64 << 10)) } else { BitmapOption::No },
        assume_clean: true,
        now: NOW,
    }
}

/// Creates an array of the first members of a new set; the others are spares.
///
/// # Panics
/// Panics if it cannot be created.
pub fn create_array(layout: Layout, members: usize, spares: usize, bitmap: bool) -> MemberSet {
    let set = MemberSet::new(members + spares);
    let roles: Vec<_> = (0..members).map(|i| Some(set.new_member(i))).collect();
    let spares: Vec<_> = (members..members + spares).map(|i| set.new_member(i)).collect();
    create_options(layout, bitmap).create(&roles, &spares).unwrap();
    set
}

/// Turns the last member, a spare, into the journal device.
///
/// # Panics
/// Panics if the superblocks are not of version 1.
pub fn journaled(set: &MemberSet) -> MemberSet {
    let last = set.0.len() - 1;
    for (_, device) in &set.0 {
        let mut found = superblock::read(device).unwrap().unwrap().superblock;
        let Superblock::V1(own) = &mut found else { panic!("version 1") };
        own.set_features(own.features() | FeatureMap::JOURNAL);
        own.dev_roles[last].set(ROLE_JOURNAL);
        own.recovery_offset.set(0);
        device.write_at(found.at().byte_offset(), &found.encode()).unwrap();
    }
    MemberSet(set.0.clone())
}

/// Fills the array and returns its content.
///
/// # Panics
/// Panics if it cannot be written.
pub fn fill(array: &Array, seed: u64) -> Vec<u8> {
    let all = Random::new(seed).bytes(index(array.size().0));
    array.write_at(ByteOffset(0), &all).unwrap();
    all
}

/// Lets a sync action run to its end.
pub fn run_to_end(_: Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}
