#![no_main]
use libfuzzer_sys::{Corpus, fuzz_target};
use xfskit_test_fuzzing::journal;

fuzz_target!(|data: &[u8]| -> Corpus {
    journal::replay(data);
    if journal::is_slow(data) { Corpus::Reject } else { Corpus::Keep }
});
