//! Random scenarios of arrays, compared with a plain array of bytes: arrays are read, written, lose
//! members, get them back, get others, are rebuilt, scrubbed, closed and opened, and crash at any
//! point.
//!
//! A scenario is defined by its seed. If one fails, the seed, the step and the last operations are
//! printed. `XFSKIT_SEED=N` runs it alone.

#![allow(missing_docs)]

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_md::array::{Array, MemberState};
use xfskit_md::assemble::{
    AssembledMember, Assembly, Freshness, Member, assemble, assemble_by_force,
};
use xfskit_md::create::{BitmapOption, CreateOptions, NewMember, erase};
use xfskit_md::superblock::{self, Version};
use xfskit_md::{Layout, Level, Raid5Layout, Raid6Layout};
use xfskit_test_arrays::helpers::random_range;
use xfskit_test_arrays::{Crash, NOW, Recording, WriteHistory, content, is_consistent};
use xfskit_test_support::{Random, seeds};
use xfskit_units::{ByteLen, ByteOffset, Sectors, index};

/// Sectors before the data of a member.
const DATA_OFFSET: u64 = 2048;

/// Devices besides those that the array is created with.
const MORE: usize = 3;

/// Operations that are printed.
const LOGGED_MAX: usize = 40;

/// The properties of an array.
#[derive(Clone, Copy, Debug)]
struct Shape {
    layout: Layout,
    members: usize,
    /// Bytes; 0 without chunks.
    chunk: u64,
    /// Bytes of each member.
    size: u64,
    version: Version,
    bitmap: bool,
}

fn layouts() -> Vec<(Layout, usize)> {
    let raid10 = |name| Layout::from_name(Level::Raid10, name).unwrap();
    let mut layouts = vec![
        (Layout::Raid1, 2),
        (Layout::Raid1, 4),
        (Layout::Raid4, 4),
        (Layout::Raid6(Raid6Layout::LeftSymmetric), 24),
    ];
    layouts.extend(Raid5Layout::ALL.iter().map(|layout| (Layout::Raid5(*layout), 4)));
    layouts.extend(Raid6Layout::ALL.iter().map(|layout| (Layout::Raid6(*layout), 5)));
    layouts.extend(["n2", "n3", "f2", "f3", "o2", "o3", "n2,f2"].map(|name| (raid10(name), 5)));
    layouts
}

impl Shape {
    /// Returns the array of this seed: every layout in turn, everything else at random.
    fn of(seed: u64, random: &mut Random) -> Self {
        let layouts = layouts();
        let (layout, members) = layouts[index(seed % layouts.len() as u64)];
        let chunk = if members == 24 { 4096 << (seed / 24 % 6) } else { 4096 << random.below(9) };
        let stripes = (256_u64 << 10).div_ceil(chunk).max(3);
        let versions = [Version::V1_0, Version::V1_1, Version::V1_2];
        Self {
            layout,
            members,
            chunk: if layout == Layout::Raid1 { 0 } else { chunk },
            size: stripes * chunk,
            version: versions[random.below(3)],
            bitmap: random.below(2) == 0,
        }
    }

    fn create_options(self) -> CreateOptions {
        CreateOptions {
            layout: self.layout,
            chunk: Sectors(self.chunk / 512),
            version: self.version,
            name: "scenario".into(),
            uuid: [0x1f; 16],
            size: Some(Sectors(self.size / 512)),
            data_offset: (self.version != Version::V1_0).then_some(Sectors(DATA_OFFSET)),
            bitmap: if self.bitmap {
                BitmapOption::Internal(Some(64 << 10))
            } else {
                BitmapOption::No
            },
            assume_clean: true,
            now: NOW,
        }
    }

    /// Returns an empty device.
    fn device(self) -> Arc<dyn BlockDevice> {
        let bytes = DATA_OFFSET * 512 + self.size + (1 << 20);
        Arc::new(MemDevice::new(ByteLen(bytes)))
    }

    /// After a crash, parity of an array with missing members is untrusted.
    fn has_parity(self) -> bool {
        matches!(self.layout.level(), Level::Raid4 | Level::Raid5 | Level::Raid6)
    }
}

/// What may happen.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Read,
    Write,
    Flush,
    Fail,
    Return,
    Add,
    Remove,
    Replace,
    Rebuild,
    Scrub,
    Reopen,
    Crash,
}

/// Frequencies in percent.
const OPERATIONS: [(Operation, u64); 12] = [
    (Operation::Read, 22),
    (Operation::Write, 33),
    (Operation::Flush, 7),
    (Operation::Fail, 6),
    (Operation::Return, 5),
    (Operation::Add, 4),
    (Operation::Remove, 2),
    (Operation::Replace, 2),
    (Operation::Rebuild, 7),
    (Operation::Scrub, 3),
    (Operation::Reopen, 3),
    (Operation::Crash, 6),
];

fn operation(random: &mut Random) -> Operation {
    let mut at = random.below(100);
    for (operation, often) in OPERATIONS {
        if at < often {
            return operation;
        }
        at -= often;
    }
    unreachable!("a hundred in all")
}

/// An array, its devices, and its expected content.
struct Scenario {
    shape: Shape,
    random: Random,
    recording: Arc<Recording>,
    /// The recorded devices.
    devices: Vec<Arc<dyn BlockDevice>>,
    /// Those with a superblock of the array.
    named: Vec<bool>,
    array: Option<Array>,
    content: Vec<u8>,
    history: WriteHistory,
    /// Devices created so far.
    made: u8,
    /// The current operation and the previous ones, for the message.
    last: String,
    before: VecDeque<String>,
}

impl Scenario {
    fn begin(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let shape = Shape::of(seed, &mut random);
        let before: Vec<_> = (0..shape.members + MORE).map(|_| shape.device()).collect();
        let member = |i: usize| NewMember {
            name: format!("m{i}"),
            device: Arc::clone(&before[i]),
            uuid: [u8::try_from(i + 1).unwrap(); 16],
        };
        let roles: Vec<_> = (0..shape.members).map(|i| Some(member(i))).collect();
        shape.create_options().create(&roles, &[]).unwrap();
        let named = (0..before.len()).map(|i| i < shape.members).collect();
        let recording = Recording::new(before);
        let mut scenario = Self {
            shape,
            random,
            devices: recording.devices(),
            recording,
            named,
            array: None,
            content: Vec::new(),
            history: WriteHistory::new(Vec::new()),
            made: 100,
            last: String::new(),
            before: VecDeque::new(),
        };
        scenario.open();
        scenario.content = content(scenario.array());
        scenario.history = WriteHistory::new(scenario.content.clone());
        scenario
    }

    fn array(&self) -> &Array {
        self.array.as_ref().expect("open between operations")
    }

    fn members(&self) -> Vec<Member> {
        let named = self.devices.iter().enumerate().filter(|(i, _)| self.named[*i]);
        let member =
            |(i, device): (usize, _)| Member { name: format!("m{i}"), device: Arc::clone(device) };
        named.map(member).collect()
    }

    fn assembly(&self) -> Assembly {
        assemble(self.members()).unwrap_or_else(|error| panic!("{error}\n{}", self.superblocks()))
    }

    /// Formats the superblocks of all members.
    fn superblocks(&self) -> String {
        let mut text = String::new();
        for Member { name, device } in self.members() {
            let Ok(Some(found)) = superblock::read(&device) else { continue };
            let sb = found.superblock;
            let roles: Vec<_> = (0..8).map(|number| sb.role_of(number)).collect();
            let (events, filled) = (sb.events(), sb.recovery_offset());
            writeln!(text, "{name}: {events} events, filled {filled:?}, {roles:?}").unwrap();
        }
        text
    }

    fn open(&mut self) {
        let assembly = self.assembly();
        assert_eq!(assembly.write_refusal(), None);
        self.array = Some(assembly.open_writable(NOW).unwrap());
    }

    /// Closes the array, and starts a new recording of its devices.
    fn close(&mut self) {
        self.array().close().unwrap();
        self.array = None;
        let assembly = self.assembly();
        assert!(!assembly.is_dirty(), "clean after it was closed");
        self.rewind(self.devices.clone());
    }

    /// Starts a new recording from the content of these devices.
    fn rewind(&mut self, devices: Vec<Arc<dyn BlockDevice>>) {
        self.recording = Recording::new(devices.iter().map(|device| copy(&**device)).collect());
        self.devices = self.recording.devices();
        self.history = WriteHistory::new(self.content.clone());
    }

    fn range(&mut self) -> (usize, usize) {
        let stripe = self.shape.chunk * self.shape.members as u64;
        random_range(
            &mut self.random,
            self.content.len(),
            [600, 5_000, 70_000, 2 * index(stripe) + 1],
        )
    }

    fn read(&mut self) {
        let (start, len) = self.range();
        let mut buf = vec![0xee; len];
        self.last = format!("read {start} + {len}");
        self.array().read_at(ByteOffset(start as u64), &mut buf).unwrap();
        assert!(buf == self.content[start..start + len], "what is read is what was written");
    }

    fn write(&mut self) {
        let (start, len) = self.range();
        let mut data = vec![0; len];
        self.random.fill(&mut data);
        self.content[start..start + len].copy_from_slice(&data);
        self.last = format!("write {start} + {len}");
        let array = self.array.as_ref().expect("open between operations");
        self.history.write(&self.recording, array, start, data);
    }

    fn fail(&mut self) {
        let role = self.random.below(self.shape.members);
        self.last = format!("fail {role} of {:?}", self.array().states());
        let before = self.array().states();
        if self.array().fail(role).is_err() {
            assert_eq!(
                self.array().states(),
                before,
                "a failure that is not tolerated changes nothing"
            );
        }
    }

    /// Re-adds a member that was away, if the bitmap covers what it missed.
    fn comes_back(&mut self) {
        let assembly = self.assembly();
        let candidate = assembly.members.iter().find_map(|m| assembly.re_add_candidate(&m.name));
        let Some(candidate) = candidate else { return };
        self.last = format!("{} returns", candidate.spare.name);
        // The array is open, so the superblocks' roles may be behind its state.
        if matches!(
            self.array().states()[candidate.role],
            MemberState::Faulty | MemberState::Missing
        ) {
            self.array().re_add(&candidate).unwrap();
        }
    }

    /// Adds an unused device as a spare, which takes a free role.
    fn add(&mut self) {
        self.close();
        let assembly = self.assembly();
        let idle = |i: &usize| {
            let name = format!("m{i}");
            let member = assembly.members.iter().find(|member| member.name == name);
            member
                .is_none_or(|m| matches!(m.freshness, Freshness::Stale { .. } | Freshness::Faulty))
        };
        let found = (0..self.devices.len()).rev().find(idle);
        if let Some(i) = found {
            self.last = format!("add m{i}");
            self.made = self.made.wrapping_add(1);
            let (device, uuid) = (Arc::clone(&self.devices[i]), [self.made; 16]);
            assembly.add(&NewMember { name: format!("m{i}"), device, uuid }, NOW).unwrap();
            self.named[i] = true;
        }
        self.open();
        self.array().activate_spares().unwrap();
    }

    /// Removes a device that the array does not use.
    fn remove(&mut self) {
        self.close();
        let assembly = self.assembly();
        let removed = assembly.members.iter().find(|member| {
            matches!(
                member.freshness,
                Freshness::Stale { .. } | Freshness::Faulty | Freshness::Spare
            )
        });
        self.open();
        let Some(member) = removed else { return };
        self.last = format!("remove {}", member.name);
        let i: usize = member.name[1..].parse().unwrap();
        if member.freshness != Freshness::Spare {
            self.array().remove(member.superblock.dev_number(), &member.device).unwrap();
        }
        self.close();
        erase(&self.devices[i], None).unwrap();
        self.named[i] = false;
        self.open();
    }

    fn replace(&mut self) {
        let role = self.random.below(self.shape.members);
        self.last = format!("replace {role}");
        self.array().replace(role, None).unwrap();
    }

    fn rebuild(&mut self) {
        let stops = self.random.below(3) == 0;
        self.last = format!("rebuild of {:?}, stopped: {stops}", self.array().states());
        let flow = if stops { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        self.array().rebuild(|_| flow).unwrap();
        assert!(stops || !self.array().needs_rebuild(), "all was rebuilt");
    }

    fn scrub(&self) {
        let array = self.array();
        if array.states().iter().all(|state| *state == MemberState::InSync) {
            assert!(is_consistent(array), "members agree");
        }
    }

    fn reopen(&mut self) {
        self.close();
        self.open();
    }

    fn crash(&mut self) {
        let cut = self.random.below(self.recording.len() + 1);
        let power = self.random.below(2) == 0;
        self.last = format!("crash behind {cut} of {}, power {power}", self.recording.len());
        let crash = if power { Crash::Power(&mut self.random) } else { Crash::Process };
        let after = self.recording.crash(cut, crash);
        // The previous array is dropped; what it writes then does not reach the devices after the
        // crash.
        self.array = None;
        self.devices = after;
        let has_superblock =
            |device: &Arc<_>| superblock::read(device).is_ok_and(|found| found.is_some());
        self.named = self.devices.iter().map(has_superblock).collect();
        let (assembly, doubtful) = match self.assembly() {
            sound if !sound.is_parity_untrusted() => (sound, false),
            doubtful => {
                assert!(doubtful.write_refusal().is_some(), "parity is not to be trusted");
                (assemble_by_force(self.members()).unwrap(), true)
            }
        };
        let freshness =
            |member: &AssembledMember| format!("{} {:?}", member.name, member.freshness);
        let all: Vec<_> = assembly.members.iter().map(freshness).collect();
        write!(self.last, ", leaves {all:?}, doubtful {doubtful}").unwrap();
        let found = content(&assembly.open_array().unwrap());
        let stripes =
            doubtful.then_some(self.shape.chunk * u64::from(assembly.geometry.data_disks()));
        let checked = self.history.check_stripes(cut, power, &found, stripes);
        assert_eq!(checked, Ok(()), "what was durable is there");
        self.content = found;
        self.rewind(self.devices.clone());
        let assembly =
            if doubtful { assemble_by_force(self.members()).unwrap() } else { self.assembly() };
        let array = assembly.open_writable(NOW).unwrap();
        if doubtful {
            // The present contents count from now on, and the first write reports that.
            array.write_at(ByteOffset(0), &self.content[..512]).unwrap();
            (0..array.scrub_stripes())
                .for_each(|stripe| assert!(array.resync_stripe(stripe).is_ok()));
        } else {
            assert!(array.resync(|_, _| true).unwrap());
        }
        assert!(content(&array) == self.content, "a resync changes nothing that is read");
        self.array = Some(array);
    }

    fn step(&mut self) {
        let operation = operation(&mut self.random);
        let before = std::mem::replace(&mut self.last, format!("{operation:?}"));
        self.before.push_back(before);
        if self.before.len() > LOGGED_MAX {
            self.before.pop_front();
        }
        match operation {
            Operation::Read => self.read(),
            Operation::Write => self.write(),
            Operation::Flush => {
                let array = self.array.as_ref().expect("open between operations");
                self.history.flush(&self.recording, array);
            }
            Operation::Fail => self.fail(),
            Operation::Return => self.comes_back(),
            Operation::Add => self.add(),
            Operation::Remove => self.remove(),
            Operation::Replace => self.replace(),
            Operation::Rebuild => self.rebuild(),
            Operation::Scrub => self.scrub(),
            Operation::Reopen => self.reopen(),
            Operation::Crash => self.crash(),
        }
    }

    /// Checks all data, also without as many members as the level tolerates.
    fn end(&mut self) {
        self.rebuild_all();
        self.close();
        let assembly = self.assembly();
        assert!(content(&*assembly.open().unwrap()) == self.content, "all at the end");
        let some = |a: usize, b: usize| {
            let mut fewer = assembly.clone();
            (fewer.roles[a], fewer.roles[b]) = (None, None);
            let Ok(array) = fewer.open_array() else { return };
            assert!(content(&array) == self.content, "without {a} and {b}");
        };
        let members = self.shape.members;
        for a in 0..members {
            some(a, a);
            if self.shape.has_parity() {
                some(a, index((a as u64 + 1 + a as u64 % 3) % members as u64));
            }
        }
    }

    fn rebuild_all(&mut self) {
        self.last = "rebuild at the end".into();
        self.array().rebuild(|_| ControlFlow::Continue(())).unwrap();
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}", self.shape)?;
        self.before.iter().try_for_each(|operation| writeln!(f, "  {operation}"))?;
        write!(f, "  {}", self.last)
    }
}

/// Returns a copy in memory.
fn copy(device: &dyn BlockDevice) -> Arc<dyn BlockDevice> {
    let copy = MemDevice::new(device.size());
    for (at, page) in (0..).step_by(4096).zip(content(device).chunks(4096)) {
        if page.iter().any(|byte| *byte != 0) {
            copy.write_at(ByteOffset(at), page).unwrap();
        }
    }
    Arc::new(copy)
}

fn run_scenario(seed: u64, steps: usize) {
    let mut scenario = Scenario::begin(seed);
    for step in 0..=steps {
        let one = || if step < steps { scenario.step() } else { scenario.end() };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(one)) {
            eprintln!("XFSKIT_SEED={seed} step {step} of {steps}: {scenario}");
            std::mem::forget(scenario.array.take()); // it would close, and fail once more
            resume_unwind(panic);
        }
    }
}

#[test]
fn an_array_is_an_array_of_bytes_through_failures_rebuilds_and_crashes() {
    let long = std::env::var_os("XFSKIT_LONG").is_some_and(|value| value == "1");
    let lives = layouts().len() as u64 * if long { 20 } else { 1 };
    // A replay of one seed runs as long as the long run.
    let seeds = seeds(0..lives);
    let steps = if long || seeds.len() == 1 { 120 } else { 40 };
    seeds.into_iter().for_each(|seed| run_scenario(seed, steps));
}
