//! Random reads, writes and failures of members, compared with a plain array of bytes.

#![allow(missing_docs)]

use std::sync::Arc;

use xfskit_block::{BlockDevice, FaultDevice, FaultPlan, MemDevice};
use xfskit_md::array::{Array, MemberState, Options};
use xfskit_md::{Geometry, Layout, Level, Raid5Layout, Raid6Layout, Slot};
use xfskit_test_arrays::helpers::random_range;
use xfskit_test_support::Random;
use xfskit_units::{ByteLen, ByteOffset, Sectors, index};

const DATA_OFFSET: Sectors = Sectors(16);

fn device(sectors: u64) -> Arc<dyn BlockDevice> {
    Arc::new(MemDevice::new(Sectors(DATA_OFFSET.0 + sectors).byte_len()))
}

fn slots(devices: &[Arc<dyn BlockDevice>], sectors: u64) -> Vec<Slot> {
    let slot = |(role, device): (usize, &Arc<dyn BlockDevice>)| {
        Slot::new(Arc::clone(device), format!("m{role}"), DATA_OFFSET, Sectors(sectors))
    };
    devices.iter().enumerate().map(slot).collect()
}

/// An array and its expected content.
struct Model {
    array: Array,
    content: Vec<u8>,
    random: Random,
    /// A member fails now and then, so not every alternative can be read.
    may_fail: bool,
}

impl Model {
    fn range(&mut self) -> (usize, usize) {
        random_range(&mut self.random, self.content.len(), [600, 5_000, 70_000, 400_000])
    }

    fn read(&mut self) {
        let (start, len) = self.range();
        let mut buf = vec![0xee; len];
        let at = ByteOffset(start as u64);
        if self.random.below(2) == 0 {
            let wanted = &self.content[start..start + len];
            let ahead = ByteLen(self.random.below(400_000));
            self.array.lend(at, ByteLen(len as u64), ahead, &mut |parts| {
                assert!(parts.concat() == wanted, "lent {start} + {len}");
            });
        }
        self.array.read_at(at, &mut buf).unwrap_or_else(|e| panic!("{e}"));
        assert!(buf == self.content[start..start + len], "read {start} + {len}");
        self.read_in_all_ways(at, start, len.min(4096));
    }

    fn read_in_all_ways(&self, at: ByteOffset, start: usize, len: usize) {
        let mut buf = vec![0; len];
        for k in 0..self.array.alternatives(at, ByteLen(len as u64)) {
            buf.fill(0xee);
            match self.array.read_alternative(at, &mut buf, k) {
                Ok(()) => assert!(buf == self.content[start..start + len], "way {k} of {start}"),
                Err(error) => assert!(self.may_fail, "way {k} of {start}: {error}"),
            }
        }
    }

    fn write(&mut self) {
        let (start, len) = self.range();
        let part = &mut self.content[start..start + len];
        self.random.fill(part);
        self.array.write_at(ByteOffset(start as u64), part).unwrap_or_else(|e| panic!("{e}"));
    }

    fn run(&mut self, steps: usize, fail_one_in: u64) {
        for _ in 0..steps {
            match self.random.below(fail_one_in) {
                0 => {
                    let roles = self.array.geometry().raid_disks() as usize;
                    let _ = self.array.fail(self.random.below(roles)); // if the level tolerates it
                }
                n if n % 2 == 0 => self.read(),
                _ => self.write(),
            }
        }
    }
}

fn geometry(layout: Layout, disks: u32, chunk: u64, sectors: u64) -> Geometry {
    let sizes = vec![Sectors(sectors); disks as usize];
    Geometry::new(layout, Sectors(chunk), disks, Sectors(sectors), &sizes).unwrap()
}

fn all_layouts() -> Vec<(Layout, u32)> {
    let raid10 = |name| Layout::from_name(Level::Raid10, name).unwrap();
    let mut layouts = vec![
        (Layout::Linear, 3),
        (Layout::default_of(Level::Raid0), 3),
        (Layout::Raid1, 3),
        (Layout::Raid4, 4),
        (Layout::Raid5(Raid5Layout::LeftSymmetric), 2),
        (Layout::Raid6(Raid6Layout::LeftSymmetric), 4),
        (Layout::Raid6(Raid6Layout::LeftSymmetric), 24),
    ];
    layouts.extend(Raid5Layout::ALL.iter().map(|layout| (Layout::Raid5(*layout), 5)));
    layouts.extend(Raid6Layout::ALL.iter().map(|layout| (Layout::Raid6(*layout), 6)));
    layouts.extend(["n2", "n3", "f2", "f3", "o2", "o3", "n2,f2"].map(|name| (raid10(name), 5)));
    layouts
}

/// Reads everything without the failed members, and without one more.
fn check_reopened(model: &Model, devices: &[Arc<dyn BlockDevice>], sectors: u64) {
    let geometry = model.array.geometry();
    let states = model.array.states();
    let removed: Vec<usize> =
        (0..devices.len()).filter(|role| states[*role] != MemberState::InSync).collect();
    for more in 0..=devices.len() {
        let mut slots = slots(devices, sectors);
        for role in removed.iter().copied().chain((more < devices.len()).then_some(more)) {
            slots[role] = Slot::missing();
        }
        let Ok(array) = Array::open(geometry.clone(), slots) else { continue };
        let mut all = vec![0; model.content.len()];
        array.read_at(ByteOffset(0), &mut all).unwrap();
        assert!(all == model.content, "{:?} without {removed:?} and {more}", geometry.layout());
    }
}

#[test]
fn an_array_is_an_array_of_bytes_while_members_fail() {
    for (seed, (layout, disks)) in (1..).zip(all_layouts()) {
        let sectors = 8 * 24;
        let devices: Vec<_> = (0..disks).map(|_| device(sectors)).collect();
        let geometry = geometry(layout, disks, 8, sectors);
        let options = Options { stripe_cache: ByteLen(1 << 20), threads: 2 };
        let array = Array::open_with(geometry, slots(&devices, sectors), options).unwrap();
        let content = vec![0; index(array.size().0)];
        let mut model = Model { array, content, random: Random::of_test(seed), may_fail: false };
        // Some members fail early, some arrays stay complete for long.
        model.run(250, if seed % 2 == 0 { 20 } else { 90 });
        check_reopened(&model, &devices, sectors);
    }
}

#[test]
fn failed_reads_are_served_by_other_members_and_repaired() {
    for (seed, (layout, disks)) in (100..).zip(all_layouts()) {
        if layout.tolerates(disks) == 0 {
            continue;
        }
        let sectors = 8 * 24;
        let mut devices: Vec<_> = (0..disks).map(|_| device(sectors)).collect();
        let plan = FaultPlan { seed, fail_one_in: 10, ..FaultPlan::default() };
        devices[1] = Arc::new(FaultDevice::new(Arc::clone(&devices[1]), plan));
        let geometry = geometry(layout, disks, 8, sectors);
        let array = Array::open(geometry, slots(&devices, sectors)).unwrap();
        let content = vec![0; index(array.size().0)];
        let mut model = Model { array, content, random: Random::of_test(seed), may_fail: true };
        model.run(100, u64::MAX);
        // Failed reads are tolerated, a failed write is not.
        assert_eq!(model.array.states()[1], MemberState::Faulty, "{layout:?}");
    }
}

#[test]
fn readers_and_writers_of_one_stripe_do_not_interfere() {
    for missing in [vec![], vec![1usize], vec![0, 3]] {
        let (layout, disks, sectors) = (Layout::default_of(Level::Raid6), 6, 8 * 16);
        let devices: Vec<_> = (0..disks).map(|_| device(sectors)).collect();
        let mut members = slots(&devices, sectors);
        for role in &missing {
            members[*role] = Slot::missing();
        }
        let array = Array::open(geometry(layout, disks, 8, sectors), members).unwrap();
        let share = index(array.size().0) / 4;
        // Ranges of four threads. Stripes of 16 KiB cross their boundaries.
        let share = share - share % 4096 + 1500;
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let array = &array;
                scope.spawn(move || {
                    let from = thread * share;
                    let to = (from + share).min(index(array.size().0));
                    let mut random = Random::of_test(thread as u64);
                    let mut content = vec![0; to - from];
                    for _ in 0..300 {
                        let start = random.below(content.len());
                        let end = (start + random.below(9000)).min(content.len());
                        let at = ByteOffset((from + start) as u64);
                        if random.below(2) == 0 {
                            random.fill(&mut content[start..end]);
                            array.write_at(at, &content[start..end]).unwrap();
                        } else {
                            let mut buf = vec![0; end - start];
                            array.read_at(at, &mut buf).unwrap();
                            assert!(buf == content[start..end], "{start}..{end} of {thread}");
                        }
                    }
                });
            }
        });
    }
}
