//! Every kind of work, cut off in many places; `make torture` cuts it off everywhere.

use xfskit_test_crash::torture::{Tally, Zeal, torture};
use xfskit_test_crash::workload::WORKLOADS;
use xfskit_test_oracle::need::Need;
use xfskit_test_oracle::needs;

/// One test per workload, so that they run side by side and fail by name.
macro_rules! workloads {
    ($($test:ident: $name:literal,)*) => {
        $(
            #[test]
            fn $test() {
                survives($name);
            }
        )*

        #[test]
        fn every_workload_has_its_test() {
            let tested = [$($name),*];
            assert!(WORKLOADS.iter().all(|workload| tested.contains(&workload.name)));
        }
    };
}

workloads! {
    names: "names",
    names_plain: "names-plain",
    names_parents: "names-parents",
    directory: "directory",
    directory_small_blocks: "directory-small-blocks",
    attributes: "attributes",
    attributes_small_blocks: "attributes-small-blocks",
    content: "content",
    content_small_blocks: "content-small-blocks",
    content_plain: "content-plain",
    sharing: "sharing",
    sharing_everything: "sharing-everything",
    orphans: "orphans",
    orphans_small_blocks: "orphans-small-blocks",
    hints: "hints",
    hints_full: "hints-full",
    chunks: "chunks",
    chunks_small_blocks: "chunks-small-blocks",
    full: "full",
    full_small_blocks: "full-small-blocks",
    anything: "anything",
    threads: "threads",
    threads_small_blocks: "threads-small-blocks",
    threads_full: "threads-full",
    write_back: "write-back",
    write_back_chunks: "write-back-chunks",
}

fn survives(name: &str) {
    let workload = WORKLOADS.iter().find(|workload| workload.name == name).expect("known");
    let ask_kernel = needs(&[Need::Mount, Need::Xfsprogs]);
    let zeal =
        Zeal { crash_one_in: 3, kernel_one_in: if ask_kernel { 20 } else { 0 }, again_one_in: 40 };
    let tally: Tally = torture(workload, 1, zeal).unwrap_or_else(|why| panic!("{why}"));
    eprintln!("{name}: {tally}");
}
