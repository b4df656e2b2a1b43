use super::*;
use crate::MemDevice;

const SIZE: usize = 1 << 20;

fn faulty(plan: FaultPlan) -> (Arc<MemDevice>, FaultDevice) {
    let base = Arc::new(MemDevice::new(ByteLen(SIZE as u64)));
    (Arc::clone(&base), FaultDevice::new(base, plan))
}

fn content(device: &dyn BlockDevice) -> Vec<u8> {
    let mut all = vec![0; SIZE];
    device.read_at(ByteOffset(0), &mut all).unwrap();
    all
}

#[test]
fn exactly_the_nth_io_fails() {
    let (_, device) = faulty(FaultPlan { fail_nth: Some(3), ..FaultPlan::default() });
    let mut buf = [0; 8];
    assert!(device.read_at(ByteOffset(0), &mut buf).is_ok());
    assert!(device.write_at(ByteOffset(0), &buf).is_ok());
    assert!(matches!(device.flush(), Err(Error::Io { op: "flush", .. })));
    assert!(device.flush().is_ok());
    assert_eq!(device.io_count(), 4);
}

#[test]
fn reads_of_a_bad_sector_fail_and_others_do_not() {
    let bad_sector = Some(ByteOffset(4096));
    let (_, device) = faulty(FaultPlan { bad_sector, ..FaultPlan::default() });
    let read = |offset, len| device.read_at(ByteOffset(offset), &mut vec![0; len]).is_ok();
    assert!(read(0, 4096) && read(4608, 512), "beside it");
    assert!(!read(4096, 1) && !read(4607, 1) && !read(0, SIZE), "on it");
    assert!(device.write_at(ByteOffset(4096), &[1; 512]).is_ok());
}

#[test]
fn rot_is_the_same_at_every_read_and_leaves_the_base_alone() {
    let (base, device) = faulty(FaultPlan { seed: 7, rot_one_in: 50, ..FaultPlan::default() });
    let all = content(&device);
    let wrong: Vec<usize> = (0..SIZE).filter(|&i| all[i] != 0).collect();
    assert!((10..100).contains(&wrong.len()), "{} bytes of 2048 sectors", wrong.len());
    assert!(wrong.iter().all(|&i| all[i].is_power_of_two()));
    let mut one = [0];
    for &i in &wrong {
        device.read_at(ByteOffset(i as u64), &mut one).unwrap();
        assert_eq!(one[0], all[i]);
    }
    assert!(content(&*base).iter().all(|&b| b == 0));
}

#[test]
fn torn_writes_keep_whole_sectors_from_the_front() {
    let (base, device) = faulty(FaultPlan { seed: 1, torn_one_in: 1, ..FaultPlan::default() });
    for i in 0..16u64 {
        device.write_at(ByteOffset(i * 4096), &[1; 4096]).unwrap();
    }
    let all = content(&*base);
    for write in all.chunks(4096).take(16) {
        let kept = write.iter().take_while(|&&b| b == 1).count();
        assert!(kept < 4096 && kept % 512 == 0);
        assert!(write[kept..].iter().all(|&b| b == 0));
    }
}

#[test]
fn misdirected_and_lost_writes_do_not_arrive_and_report_success() {
    let (base, device) =
        faulty(FaultPlan { seed: 2, misdirected_one_in: 1, ..FaultPlan::default() });
    device.write_at(ByteOffset(0), &[1; 512]).unwrap();
    let all = content(&*base);
    assert!(all[..512].iter().all(|&b| b == 0));
    assert_eq!(all.iter().map(|&b| u32::from(b)).sum::<u32>(), 512);
    let (base, device) = faulty(FaultPlan { lost_one_in: 1, ..FaultPlan::default() });
    device.write_at(ByteOffset(0), &[1; 512]).unwrap();
    assert!(content(&*base).iter().all(|&b| b == 0));
}

#[test]
fn exactly_the_nth_write_is_lost() {
    let silent_nth = Some((2, SilentFault::Lost));
    let (base, device) = faulty(FaultPlan { silent_nth, ..FaultPlan::default() });
    for i in 0..3u64 {
        device.flush().unwrap();
        device.write_at(ByteOffset(i), &[7]).unwrap();
    }
    assert_eq!((&content(&*base)[..3], device.write_count()), (&[7, 0, 7][..], 3));
}

#[test]
fn the_same_seed_injects_the_same_faults_and_another_seed_others() {
    let run = |seed| {
        let plan = FaultPlan { seed, fail_one_in: 5, torn_one_in: 5, ..FaultPlan::default() };
        let (base, device) = faulty(plan);
        let failed: Vec<bool> = (0..100u64)
            .map(|i| device.write_at(ByteOffset(i * 4096), &[3; 4096]).is_err())
            .collect();
        (failed, content(&*base))
    };
    assert_eq!(run(11), run(11));
    assert_ne!(run(11).0, run(12).0);
    assert_ne!(run(11).1, run(12).1);
}
