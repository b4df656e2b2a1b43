//! Dirty volumes kept in the repository, with intents that the kernel did not finish.

use std::sync::Arc;

use xfskit_block::{BlockDevice, OverlayDevice, RecordingDevice};
use xfskit_check::{Options, check};
use xfskit_core::superblock::read_superblock;
use xfskit_core::{Error, OpenOptions, Volume};
use xfskit_test_recovery::compare_finished;
use xfskit_test_support::matrix::named;
use xfskit_test_support::{Image, Manifest, Need, Scratch, kept, needs, ours, verify};

/// Their names, and the open intents of each.
const KEPT: [(&str, &[&str]); 3] = [
    ("intents-exchange", &["XMI", "BUI", "CUI", "RUI", "EFI"]),
    ("intents-parent", &["ATTRI", "RUI", "EFI"]),
    ("intents-1k", &["XMI", "BUI", "CUI", "RUI", "EFI"]),
];

fn writable() -> OpenOptions {
    OpenOptions { write: true, cache_bytes: 16 << 20, ..OpenOptions::default() }
}

/// Opens the volume for writing, and closes it.
fn finish(dev: Arc<dyn BlockDevice>) -> Result<u64, Error> {
    let volume = Volume::open(dev, &writable())?;
    let finished = volume.replay().map_or(0, |replay| replay.finished);
    volume.close()?;
    Ok(finished)
}

/// Returns the tree on `dev`, which `xfskit check` must find sound.
fn verify_recovered(name: &str, dev: Arc<dyn BlockDevice>) -> Manifest {
    let mut findings = Vec::new();
    check(&*dev, None, &Options::default(), &mut |finding| findings.push(finding.to_string()))
        .unwrap_or_else(|why| panic!("{name}: {why}"));
    assert!(findings.is_empty(), "{name}: {findings:?}");
    let volume = Volume::open(dev, &OpenOptions::default()).expect("opened");
    let (tree, failed) = ours::manifest(&volume);
    assert!(failed.is_empty(), "{name}: {failed:?}");
    tree
}

fn same(name: &str, expected: &Manifest, found: &Manifest) {
    let differences = expected.differences(found, 10);
    assert!(differences.is_empty(), "{name}:\n{}", differences.join("\n"));
}

#[test]
fn open_intents_are_finished_on_disk_and_in_memory_alike() {
    for (name, kinds) in KEPT {
        let base = kept::device(name);
        let sb = read_superblock(&*base).expect("superblock");
        let overlay = OverlayDevice::new(base.clone());
        let replay = xfskit_recovery::replay(&overlay, None, &sb).expect("replayed");
        let open: Vec<_> = replay.unfinished.iter().map(|i| i.family.intent_name()).collect();
        assert!(kinds.iter().all(|kind| open.contains(kind)), "{name}: {open:?}");

        let reader = Volume::open(base.clone(), &OpenOptions::default()).expect("opened");
        assert_eq!(reader.replay().expect("a journal").finished, open.len() as u64, "{name}");
        let (in_memory, failed) = ours::manifest(&reader);
        assert!(failed.is_empty(), "{name}: {failed:?}");
        drop(reader);

        let dev = Arc::new(OverlayDevice::new(base));
        assert_eq!(finish(dev.clone()).expect("finished"), open.len() as u64, "{name}");
        same(name, &in_memory, &verify_recovered(name, dev.clone()));
        // The intents are finished only once.
        assert_eq!(finish(dev.clone()).expect("opened again"), 0, "{name}");
        verify::device(&*dev).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
}

/// Interrupted at any write and run again, recovery gives the same result.
#[test]
fn an_interrupted_recovery_of_intents_is_repeatable() {
    for (name, _) in KEPT {
        let base = kept::device(name);
        let recorder = Arc::new(RecordingDevice::new(Arc::new(OverlayDevice::new(base.clone()))));
        finish(recorder.clone()).expect("finished");
        let events = recorder.event_count();
        let expected = {
            let dev = OverlayDevice::new(base.clone());
            recorder.replay(events, &dev).expect("memory");
            verify_recovered(name, Arc::new(dev))
        };
        let step = if xfskit_test_support::long() { 1 } else { events.div_ceil(25) };
        for cut in (0..events).step_by(step.max(1)) {
            let dev = Arc::new(OverlayDevice::new(base.clone()));
            recorder.replay(cut, &*dev).expect("memory");
            let name = format!("{name}, cut at {cut} of {events}");
            finish(dev.clone()).unwrap_or_else(|why| panic!("{name}: {why}"));
            same(&name, &expected, &verify_recovered(&name, dev));
        }
    }
}

/// After an interruption at each of the first writes, the kernel finishes what xfskit had begun.
#[test]
fn the_kernel_finishes_an_interrupted_recovery_of_xfskit() {
    if !needs(&[Need::Mount, Need::Xfsprogs]) {
        return;
    }
    for (name, _) in KEPT {
        let base = kept::device(name);
        let recorder = Arc::new(RecordingDevice::new(Arc::new(OverlayDevice::new(base.clone()))));
        let volume = Volume::open(recorder.clone(), &writable()).expect("finished");
        let events = recorder.event_count();
        drop(volume);
        let case = named("parent");
        for cut in [events / 2, events - 1, events] {
            let scratch = Scratch::new("go-on");
            let image = Image::sparse(&scratch, "cut.img", base.size().0);
            let dev = OverlayDevice::new(base.clone());
            recorder.replay(cut, &dev).expect("memory");
            xfskit_test_recovery::save(&dev, &image);
            compare_finished(&format!("{name}, cut at {cut}"), &case, &image, &scratch);
        }
    }
}
