//! Dumps, restores and checks in memory.
#![allow(unreachable_pub, clippy::unwrap_used)]

use std::sync::Arc;

use xfskit_block::{BlockDevice, MemDevice};
use xfskit_check::check;
use xfskit_metadump::{Dump, Reader, Report, Restore, Restored, Targets, Watch, restore};
use xfskit_units::{ByteLen, ByteOffset};

/// The key of all obfuscated dumps.
pub const KEY: [u8; 16] = *b"a key for tests.";

/// Returns the file of `dump`, and its report.
pub fn dump(device: &Arc<dyn BlockDevice>, dump: &Dump) -> (Vec<u8>, Report) {
    dump.prepare(Arc::clone(device), None).unwrap().write(Vec::new(), Watch::default()).unwrap()
}

/// Restores a file to memory.
pub fn restored(file: &[u8]) -> (Arc<dyn BlockDevice>, Restored) {
    let reader = Reader::open(file).unwrap();
    let device = MemDevice::new(ByteLen(restore::volume_bytes(&reader).unwrap()));
    let targets = Targets { data: &device, log: None, realtime: None };
    let restored = Restore::default().run(reader, targets).unwrap();
    (Arc::new(device), restored)
}

/// Returns the ids and places of all findings.
pub fn findings(device: &dyn BlockDevice) -> Vec<String> {
    let mut findings = Vec::new();
    let options = xfskit_check::Options { threads: 2, ..xfskit_check::Options::default() };
    check(device, None, &options, &mut |finding| {
        let corruption = finding.corruption;
        findings.push(format!("{} {:?}", corruption.check.0, corruption.at));
    })
    .unwrap();
    findings.sort();
    findings
}

/// Returns all bytes of a device.
pub fn content(device: &dyn BlockDevice) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(device.size().0).unwrap()];
    device.read_at(ByteOffset(0), &mut bytes).unwrap();
    bytes
}
