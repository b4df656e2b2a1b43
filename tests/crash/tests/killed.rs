//! Processes are killed while they write: no synced data is lost.

use xfskit_test_crash::killed;
use xfskit_test_support::{Need, needs};

#[test]
fn synced_data_survives_kill_9_of_its_writer() {
    if needs(&[Need::Mount, Need::Xfsprogs]) {
        let files = killed::rounds(env!("CARGO_BIN_EXE_xfskit-torture").as_ref(), 6, 1);
        let files = files.unwrap_or_else(|why| panic!("{why}"));
        eprintln!("{files} synced files were whole");
    }
}
