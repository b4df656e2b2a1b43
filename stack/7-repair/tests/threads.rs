//! What a repair makes does not depend on threads and memory, and a sound volume is read once.

use std::sync::Arc;

use xfskit_block::{BlockDevice, CountingDevice};
use xfskit_repair::{AcceptLoss, Repair, StepKind};
use xfskit_test_support::kept;
use xfskit_units::{ByteLen, ByteOffset};

use crate::common::{Image, check_all};

/// A step without its findings, whose order depends on threads: id, what is done, the evidence.
type Told = (String, String, Vec<String>);

/// Repairs the volume in `bytes`. Returns the steps and the content afterwards.
fn repaired(bytes: &[u8], repair: &Repair<'_>) -> (Vec<Told>, Vec<u8>) {
    let dev = Arc::new(kept::memory(bytes));
    let repair = repair.clone().accept_loss(AcceptLoss::ALL);
    let prepared = repair.prepare(Arc::clone(&dev) as _).unwrap();
    assert!(prepared.is_clean(), "{:#?}\n{:#?}", prepared.left(), prepared.plan());
    prepared.commit(&*dev, None).unwrap();
    let steps = prepared.plan().steps.iter();
    let told = steps.map(|step| (step.id.clone(), step.what.clone(), step.evidence.clone()));
    let mut content = vec![0; bytes.len()];
    dev.read_at(ByteOffset(0), &mut content).unwrap();
    (told.collect(), content)
}

#[test]
fn several_threads_or_little_memory_make_what_one_thread_makes() {
    for name in ["v5", "v5-1k", "v5-plain"] {
        let image = Image::kept(name);
        let mut bytes = image.bytes.clone();
        for header in (0..image.geo.agcount).flat_map(|agno| (1..=3).map(move |at| (agno, at))) {
            let header = image.header(header.0, header.1);
            bytes[header.offset..header.offset + header.len].fill(0xa5);
        }
        let (steps, alone) = repaired(&bytes, &Repair::new());
        let groups = steps.iter().filter(|(id, ..)| id.starts_with("group.")).count();
        assert_eq!(groups, image.geo.agcount as usize, "{name}: {steps:?}");
        let temporary = std::env::temp_dir();
        let several = [2, 5].map(|threads| Repair::new().threads(threads));
        // All that is known and changed goes to a file.
        let without_memory = Repair::new().memory(ByteLen(0), &temporary);
        for (number, repair) in several.into_iter().chain([without_memory]).enumerate() {
            let (made, content) = repaired(&bytes, &repair);
            assert_eq!(made, steps, "{name}, {number}");
            assert!(content == alone, "{name}, {number}");
        }
    }
}

#[test]
fn a_sound_volume_is_read_once() {
    let image = Image::kept("v5");
    let counting = || Arc::new(CountingDevice::new(Arc::new(kept::memory(&image.bytes))));
    let dev = counting();
    let (report, findings) = check_all(&*dev);
    assert!(report.clean(), "{findings:?}");
    let once = dev.counts().reads;
    let dev = counting();
    let prepared = Repair::new().prepare(Arc::clone(&dev) as _).unwrap();
    assert!(prepared.is_clean() && prepared.bytes() == 0);
    assert_eq!(prepared.left().len(), findings.len(), "warnings are told");
    let reads = dev.counts().reads;
    assert!(reads < once * 3 / 2, "{reads} reads, and {once} of a check");
}

#[test]
fn what_was_changed_is_checked_again() {
    let image = Image::kept("v5");
    let damaged = image.damaged(image.header(1, 1), |agf| agf[16] ^= 1);
    let dev = Arc::new(CountingDevice::new(Arc::new(damaged)));
    let prepared = Repair::new().prepare(Arc::clone(&dev) as _).unwrap();
    assert!(prepared.is_clean() && prepared.bytes() > 0);
    assert!(prepared.plan().steps.iter().any(|step| step.kind == StepKind::Group));
    assert!(!prepared.before().clean() && prepared.after().clean());
}
