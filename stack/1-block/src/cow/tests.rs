use super::*;
use crate::MemDevice;

/// Two copies, of which the first is wrong.
#[derive(Debug)]
struct Mirror([MemDevice; 2]);

impl BlockDevice for Mirror {
    forward!(this => this.0[0]; size, read_at, write_at, flush);
    plain!(
        lend,
        logical_block_size,
        physical_block_size,
        topology,
        is_read_only,
        read_batch,
        write_batch,
        write_fua,
        discard,
        write_zeroes,
        will_need,
        skip_hole,
        heal
    );
    fn alternatives(&self, _: ByteOffset, _: ByteLen) -> usize {
        2
    }
    fn read_alternative(&self, offset: ByteOffset, buf: &mut [u8], k: usize) -> Result<()> {
        self.0[k].read_at(offset, buf)
    }
}

#[test]
fn the_other_copies_of_the_device_below_are_there_with_the_changes_over_them() {
    let folder = std::env::temp_dir().join(format!("xfskit-cow-copies-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let copies = [3, 7].map(|fill| {
        let device = MemDevice::new(ByteLen(3 * PAGE));
        device.write_at(ByteOffset(0), &[fill; 3 * 4096]).unwrap();
        device
    });
    let mirror: Arc<dyn BlockDevice> = Arc::new(Mirror(copies));
    let print = Fingerprint { identity: "mirror".into(), state: String::new() };
    let path = folder.join("changes");
    let view = open(&path, &[mirror], &[print], OpenMode::ReadWrite).unwrap().remove(0);
    view.write_at(ByteOffset(PAGE), &[9; 4096]).unwrap();
    assert_eq!(view.alternatives(ByteOffset(0), ByteLen(3 * PAGE)), 2);
    let mut bytes = [0; 3 * 4096];
    view.read_alternative(ByteOffset(0), &mut bytes, 1).unwrap();
    let first_of_each_page: Vec<_> = bytes.iter().step_by(4096).copied().collect();
    assert_eq!(first_of_each_page, [7, 9, 7]);
    drop(view);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn changes_are_found_again_and_the_devices_stay_as_they_are() {
    let folder = std::env::temp_dir().join(format!("xfskit-cow-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("changes");
    let base = |fill: u8| {
        let device = MemDevice::new(ByteLen(50_000));
        device.write_at(ByteOffset(0), &vec![fill; 50_000]).unwrap();
        Arc::new(device) as Arc<dyn BlockDevice>
    };
    let devices = [base(1), base(2)];
    let mut expected = vec![2; 50_000];
    let print = |identity: &str, state: &str| Fingerprint {
        identity: identity.into(),
        state: state.into(),
    };
    let prints = [print("one", "a"), print("two", "b")];
    let all = |device: &dyn BlockDevice| {
        let mut all = vec![0; 50_000];
        device.read_at(ByteOffset(0), &mut all).unwrap();
        all
    };
    for (round, (at, len)) in
        [(4000usize, 9000usize), (49_990, 10), (4096, 4096)].into_iter().enumerate()
    {
        let views = open(&path, &devices, &prints, OpenMode::ReadWrite).unwrap();
        assert!(all(&views[1]) == expected && all(&views[0]) == vec![1; 50_000]);
        expected[at..at + len].fill(u8::try_from(round).unwrap() + 7);
        views[1].write_at(ByteOffset(at as u64), &expected[at..at + len]).unwrap();
        assert!(all(&views[1]) == expected);
        views[1].flush().unwrap();
    }
    assert!(all(&devices[1]) == vec![2; 50_000]);
    let views = open(&path, &devices, &prints, OpenMode::ReadOnly).unwrap();
    assert!(views[1].is_read_only() && all(&views[1]) == expected);
    assert!(matches!(views[1].write_at(ByteOffset(0), &[0]), Err(Error::ReadOnly)));
    assert!(open(&path, &devices[..1], &prints[..1], OpenMode::ReadWrite).is_err());
    assert_eq!(warnings(&path, &prints).unwrap(), [""; 0]);
    let changed = [print("one", "a"), print("two", "c")];
    assert!(open(&path, &devices, &changed, OpenMode::ReadOnly).is_ok());
    let warned = warnings(&path, &changed).unwrap();
    assert!(warned.len() == 1 && warned[0].contains("b then, c now"), "{warned:?}");
    let other = [print("three", "a"), print("two", "b")];
    let why = open(&path, &devices, &other, OpenMode::ReadOnly).unwrap_err().to_string();
    assert!(why.contains("made on one; this is three"), "{why}");
    // A damaged header is refused.
    let file = FileDevice::open(&path, OpenMode::ReadWrite).unwrap();
    file.write_at(ByteOffset(PAGE), b"x").unwrap();
    drop(file);
    let why = open(&path, &devices, &prints, OpenMode::ReadOnly).unwrap_err().to_string();
    assert!(why.contains("damaged"), "{why}");
    std::fs::remove_dir_all(&folder).unwrap();
}
