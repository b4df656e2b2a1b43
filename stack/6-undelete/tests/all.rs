//! All integration tests of this crate, in one program: searches on kept images that the kernel
//! filled. `tests/oracle` has those of files that it removed.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU32, Ordering};

use xfskit_core::{Error, OpenOptions, Volume};
use xfskit_test_support::kept;
use xfskit_undelete::{Confidence, Options, Phase, find};
use xfskit_units::ByteOffset;

fn open(name: &str) -> Volume {
    Volume::open(kept::device(name), &OpenOptions::default()).unwrap()
}

#[test]
fn version_4_is_refused_by_name() {
    let error = find(&open("v4"), &Options::default()).unwrap_err();
    assert!(matches!(error, Error::Unsupported(_)), "{error}");
}

#[test]
fn every_phase_can_end_the_search() {
    let volume = open("v5");
    for ending in [Phase::Journal, Phase::Groups, Phase::Directories] {
        let seen = AtomicU32::new(0);
        let watch = |phase: Phase, _, _| {
            seen.fetch_add(u32::from(phase == ending), Ordering::Relaxed);
            if phase == ending { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let found = find(&volume, &Options { watch: &watch, ..Options::default() }).unwrap();
        assert!(!found.complete, "{ending:?}");
        assert_eq!(seen.into_inner(), 1, "{ending:?}");
    }
}

#[test]
fn no_file_in_use_is_called_removed() {
    let volume = open("v5");
    let found = find(&volume, &Options::default()).unwrap();
    assert!(found.complete && found.warnings.is_empty());
    for candidate in &found.candidates {
        if let Ok(inode) = volume.iget(candidate.ino) {
            assert_ne!(Some(inode.core().generation()), candidate.generation);
        }
        if candidate.confidence() == Confidence::Good {
            assert!(candidate.lost.is_empty());
        }
    }
}

#[test]
fn a_journal_of_noise_leaves_the_other_evidence() {
    let device = kept::device("v5");
    let volume = Volume::open(device.clone(), &OpenOptions::default()).unwrap();
    let (start, len) = (volume.geo().log_daddr().unwrap(), volume.geo().log_bbs());
    let mut state = 1u32;
    for block in 0..u64::from(len) {
        let noise = std::array::from_fn::<u8, 512, _>(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        });
        let place = ByteOffset(start.byte_offset().0 + block * 512);
        device.write_at(place, &noise).unwrap();
    }
    let options = OpenOptions { recovery: false, ..OpenOptions::default() };
    let volume = Volume::open(device, &options).unwrap();
    let found = find(&volume, &Options::default()).unwrap();
    assert!(found.complete);
}
