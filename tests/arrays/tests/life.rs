//! Whole lives of arrays against a plain array of bytes: they are read, written, lose members, get them back,
//! get others, are rebuilt, scrubbed, closed and opened, and crash anywhere.
//!
//! A life is its seed. Where one goes wrong the seed, the step and what was done last are told;
//! `XFSKIT_SEED=N` lives it again alone.

#![allow(missing_docs)]

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_md::array::{Array, MemberState};
use xfskit_md::assemble::{Assembly, Judged, Member, Standing, assemble, assemble_by_force};
use xfskit_md::create::{NewMember, Recipe, WantBitmap, erase};
use xfskit_md::superblock::{self, Version};
use xfskit_md::{Layout, Level, Raid5Layout, Raid6Layout};
use xfskit_test_arrays::{Crash, NOW, Random, Story, Tape, content, is_consistent};
use xfskit_units::{ByteLen, ByteOffset, Sectors, index};

/// Sectors before the data of a member.
const DATA_OFFSET: u64 = 2048;

/// Devices besides those that the array began with.
const MORE: usize = 3;

/// Deeds that are told.
const TOLD: usize = 40;

/// What an array is like.
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
    /// The array of this seed: every layout comes round, everything else is drawn.
    fn of(seed: u64, random: &mut Random) -> Self {
        let layouts = layouts();
        let (layout, members) = layouts[index(seed % layouts.len() as u64)];
        let chunk = if members == 24 { 4096 << (seed / 24 % 6) } else { 4096 << random.below(9) };
        let rows = (256_u64 << 10).div_ceil(chunk).max(3);
        let versions = [Version::V1_0, Version::V1_1, Version::V1_2];
        Self {
            layout,
            members,
            chunk: if layout == Layout::Raid1 { 0 } else { chunk },
            size: rows * chunk,
            version: versions[index(random.below(3))],
            bitmap: random.below(2) == 0,
        }
    }

    fn recipe(self) -> Recipe {
        Recipe {
            layout: self.layout,
            chunk: Sectors(self.chunk / 512),
            version: self.version,
            name: "life".into(),
            uuid: [0x1f; 16],
            size: Some(Sectors(self.size / 512)),
            data_offset: (self.version != Version::V1_0).then_some(Sectors(DATA_OFFSET)),
            bitmap: if self.bitmap { WantBitmap::Internal(Some(64 << 10)) } else { WantBitmap::No },
            assume_clean: true,
            now: NOW,
        }
    }

    /// A whole member with nothing on it.
    fn device(self) -> Arc<dyn BlockDevice> {
        let bytes = DATA_OFFSET * 512 + self.size + (1 << 20);
        Arc::new(MemDevice::new(ByteLen(bytes)))
    }

    /// Parity is what is lost where a crash meets an array that lacks members.
    fn has_parity(self) -> bool {
        matches!(self.layout.level(), Level::Raid4 | Level::Raid5 | Level::Raid6)
    }
}

/// What may happen.
#[derive(Clone, Copy, Debug)]
enum Deed {
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

/// How often, in a hundred.
const DEEDS: [(Deed, u64); 12] = [
    (Deed::Read, 22),
    (Deed::Write, 33),
    (Deed::Flush, 7),
    (Deed::Fail, 6),
    (Deed::Return, 5),
    (Deed::Add, 4),
    (Deed::Remove, 2),
    (Deed::Replace, 2),
    (Deed::Rebuild, 7),
    (Deed::Scrub, 3),
    (Deed::Reopen, 3),
    (Deed::Crash, 6),
];

fn deed(random: &mut Random) -> Deed {
    let mut at = random.below(100);
    for (deed, often) in DEEDS {
        if at < often {
            return deed;
        }
        at -= often;
    }
    unreachable!("a hundred in all")
}

/// An array, its devices, and what it ought to hold.
struct Life {
    shape: Shape,
    random: Random,
    tape: Arc<Tape>,
    /// The devices on the tape.
    devices: Vec<Arc<dyn BlockDevice>>,
    /// Those that have a superblock of the array.
    named: Vec<bool>,
    array: Option<Array>,
    content: Vec<u8>,
    story: Story,
    /// Devices that were made so far.
    made: u8,
    /// What is done, and what was done before, for whoever has to find out.
    last: String,
    before: VecDeque<String>,
}

impl Life {
    fn begin(seed: u64) -> Self {
        let mut random = Random(seed);
        let shape = Shape::of(seed, &mut random);
        let before: Vec<_> = (0..shape.members + MORE).map(|_| shape.device()).collect();
        let member = |i: usize| NewMember {
            name: format!("m{i}"),
            device: Arc::clone(&before[i]),
            uuid: [u8::try_from(i + 1).unwrap(); 16],
        };
        let roles: Vec<_> = (0..shape.members).map(|i| Some(member(i))).collect();
        shape.recipe().create(&roles, &[]).unwrap();
        let named = (0..before.len()).map(|i| i < shape.members).collect();
        let tape = Tape::new(before);
        let mut life = Self {
            shape,
            random,
            devices: tape.devices(),
            tape,
            named,
            array: None,
            content: Vec::new(),
            story: Story::new(Vec::new()),
            made: 100,
            last: String::new(),
            before: VecDeque::new(),
        };
        life.open();
        life.content = content(life.array());
        life.story = Story::new(life.content.clone());
        life
    }

    fn array(&self) -> &Array {
        self.array.as_ref().expect("open between deeds")
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

    /// What each member says of itself and the others.
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
        assert_eq!(assembly.refuses_writing(), None);
        self.array = Some(assembly.open_writable(NOW).unwrap());
    }

    /// Closes the array, and puts its devices on a new tape.
    fn close(&mut self) {
        self.array().close().unwrap();
        self.array = None;
        let assembly = self.assembly();
        assert!(!assembly.is_dirty(), "clean after it was closed");
        self.rewind(self.devices.clone());
    }

    /// A new tape that begins with what these devices hold.
    fn rewind(&mut self, devices: Vec<Arc<dyn BlockDevice>>) {
        self.tape = Tape::new(devices.iter().map(|device| copy(&**device)).collect());
        self.devices = self.tape.devices();
        self.story = Story::new(self.content.clone());
    }

    fn range(&mut self) -> (usize, usize) {
        let row = self.shape.chunk * self.shape.members as u64;
        self.random.range(self.content.len(), [600, 5_000, 70_000, 2 * row + 1])
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
        let array = self.array.as_ref().expect("open between deeds");
        self.story.write(&self.tape, array, start, data);
    }

    fn fail(&mut self) {
        let role = index(self.random.below(self.shape.members as u64));
        self.last = format!("fail {role} of {:?}", self.array().states());
        let before = self.array().states();
        if self.array().fail(role).is_err() {
            assert_eq!(self.array().states(), before, "what is not borne changes nothing");
        }
    }

    /// A member that was away comes back, where the bitmap knows what it missed.
    fn comes_back(&mut self) {
        let assembly = self.assembly();
        let returning = assembly.members.iter().find_map(|m| assembly.returning(&m.name));
        let Some(returning) = returning else { return };
        self.last = format!("{} returns", returning.spare.name);
        // It is open: what the superblocks say of the role may be behind what it knows.
        if matches!(
            self.array().states()[returning.role],
            MemberState::Faulty | MemberState::Missing
        ) {
            self.array().readmit(&returning).unwrap();
        }
    }

    /// A device that serves nobody becomes a spare, and takes a role that is free.
    fn add(&mut self) {
        self.close();
        let assembly = self.assembly();
        let idle = |i: &usize| {
            let name = format!("m{i}");
            let member = assembly.members.iter().find(|member| member.name == name);
            member.is_none_or(|m| matches!(m.standing, Standing::Stale { .. } | Standing::Expelled))
        };
        let found = (0..self.devices.len()).rev().find(idle);
        if let Some(i) = found {
            self.last = format!("add m{i}");
            self.made = self.made.wrapping_add(1);
            let (device, uuid) = (Arc::clone(&self.devices[i]), [self.made; 16]);
            assembly.admit(&NewMember { name: format!("m{i}"), device, uuid }, NOW).unwrap();
            self.named[i] = true;
        }
        self.open();
        self.array().take_spares().unwrap();
    }

    /// What the array does without is forgotten.
    fn remove(&mut self) {
        self.close();
        let assembly = self.assembly();
        let gone = assembly.members.iter().find(|member| {
            matches!(member.standing, Standing::Stale { .. } | Standing::Expelled | Standing::Spare)
        });
        self.open();
        let Some(member) = gone else { return };
        self.last = format!("remove {}", member.name);
        let i: usize = member.name[1..].parse().unwrap();
        if member.standing != Standing::Spare {
            self.array().forget(member.superblock.dev_number()).unwrap();
        }
        self.close();
        erase(&self.devices[i], None).unwrap();
        self.named[i] = false;
        self.open();
    }

    fn replace(&mut self) {
        let role = index(self.random.below(self.shape.members as u64));
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
        let cut = index(self.random.below(self.tape.len() as u64 + 1));
        let power = self.random.below(2) == 0;
        self.last = format!("crash behind {cut} of {}, power {power}", self.tape.len());
        let crash = if power { Crash::Power(&mut self.random) } else { Crash::Process };
        let after = self.tape.crash(cut, crash);
        // Whoever was running is gone, and what he does at his end reaches nobody.
        self.array = None;
        self.devices = after;
        let has_superblock =
            |device: &Arc<_>| superblock::read(device).is_ok_and(|found| found.is_some());
        self.named = self.devices.iter().map(has_superblock).collect();
        let (assembly, doubtful) = match self.assembly() {
            sound if !sound.is_doubtful() => (sound, false),
            doubtful => {
                assert!(doubtful.refuses_writing().is_some(), "parity is not to be trusted");
                (assemble_by_force(self.members()).unwrap(), true)
            }
        };
        let standing = |member: &Judged| format!("{} {:?}", member.name, member.standing);
        let all: Vec<_> = assembly.members.iter().map(standing).collect();
        write!(self.last, ", leaves {all:?}, doubtful {doubtful}").unwrap();
        let found = content(&assembly.open_array().unwrap());
        let rows = doubtful.then_some(self.shape.chunk * u64::from(assembly.geometry.data_disks()));
        let judged = self.story.judge_rows(cut, power, &found, rows);
        assert_eq!(judged, Ok(()), "what was durable is there");
        self.content = found;
        self.rewind(self.devices.clone());
        let assembly =
            if doubtful { assemble_by_force(self.members()).unwrap() } else { self.assembly() };
        let array = assembly.open_writable(NOW).unwrap();
        if doubtful {
            // What is there counts from now on, and the first write says so.
            array.write_at(ByteOffset(0), &self.content[..512]).unwrap();
            (0..array.scrub_rows()).for_each(|row| assert!(array.resync_row(row).is_ok()));
        } else {
            assert!(array.resync(|_, _| true).unwrap());
        }
        assert!(content(&array) == self.content, "a resync changes nothing that is read");
        self.array = Some(array);
    }

    fn step(&mut self) {
        let deed = deed(&mut self.random);
        let before = std::mem::replace(&mut self.last, format!("{deed:?}"));
        self.before.push_back(before);
        if self.before.len() > TOLD {
            self.before.pop_front();
        }
        match deed {
            Deed::Read => self.read(),
            Deed::Write => self.write(),
            Deed::Flush => {
                let array = self.array.as_ref().expect("open between deeds");
                self.story.flush(&self.tape, array);
            }
            Deed::Fail => self.fail(),
            Deed::Return => self.comes_back(),
            Deed::Add => self.add(),
            Deed::Remove => self.remove(),
            Deed::Replace => self.replace(),
            Deed::Rebuild => self.rebuild(),
            Deed::Scrub => self.scrub(),
            Deed::Reopen => self.reopen(),
            Deed::Crash => self.crash(),
        }
    }

    /// All of it is there, without as many members as the level bears too.
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

impl fmt::Display for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}", self.shape)?;
        self.before.iter().try_for_each(|deed| writeln!(f, "  {deed}"))?;
        write!(f, "  {}", self.last)
    }
}

/// The same in memory of its own.
fn copy(device: &dyn BlockDevice) -> Arc<dyn BlockDevice> {
    let copy = MemDevice::new(device.size());
    for (at, page) in (0..).step_by(4096).zip(content(device).chunks(4096)) {
        if page.iter().any(|byte| *byte != 0) {
            copy.write_at(ByteOffset(at), page).unwrap();
        }
    }
    Arc::new(copy)
}

fn live(seed: u64, steps: usize) {
    let mut life = Life::begin(seed);
    for step in 0..=steps {
        let one = || if step < steps { life.step() } else { life.end() };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(one)) {
            eprintln!("XFSKIT_SEED={seed} step {step} of {steps}: {life}");
            std::mem::forget(life.array.take()); // it would close, and fail once more
            resume_unwind(panic);
        }
    }
}

#[test]
fn an_array_is_an_array_of_bytes_through_failures_rebuilds_and_crashes() {
    if let Some(seed) = std::env::var("XFSKIT_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return live(seed, 120);
    }
    let long = std::env::var_os("XFSKIT_LONG").is_some_and(|value| value == "1");
    let lives = layouts().len() as u64 * if long { 20 } else { 1 };
    (0..lives).for_each(|seed| live(seed, if long { 120 } else { 40 }));
}
