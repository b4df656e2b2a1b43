#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| xfskit_test_fuzzing::arrays::assembly(data));
