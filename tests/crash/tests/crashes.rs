//! Every workload is interrupted at many points; `make torture` interrupts it at all points.

use xfskit_test_crash::torture::{CrashCounts, Sampling, torture};
use xfskit_test_crash::workload::WORKLOADS;
use xfskit_test_support::{Need, needs};

/// Makes one test for each workload, so that they run in parallel and fail by name.
macro_rules! workloads {
    ($($test:ident: $name:literal,)*) => {
        $(
            #[test]
            fn $test() {
                verify_workload($name);
            }
        )*

        #[test]
        fn every_workload_has_a_test() {
            let tested = [$($name),*];
            assert!(WORKLOADS.iter().all(|workload| tested.contains(&workload.name)));
        }
    };
}

workloads! {
    crashes_lose_no_synced_data_with_names: "names",
    crashes_lose_no_synced_data_with_names_plain: "names-plain",
    crashes_lose_no_synced_data_with_names_parents: "names-parents",
    crashes_lose_no_synced_data_with_directory: "directory",
    crashes_lose_no_synced_data_with_directory_small_blocks: "directory-small-blocks",
    crashes_lose_no_synced_data_with_attributes: "attributes",
    crashes_lose_no_synced_data_with_attributes_small_blocks: "attributes-small-blocks",
    crashes_lose_no_synced_data_with_content: "content",
    crashes_lose_no_synced_data_with_content_small_blocks: "content-small-blocks",
    crashes_lose_no_synced_data_with_content_plain: "content-plain",
    crashes_lose_no_synced_data_with_sharing: "sharing",
    crashes_lose_no_synced_data_with_sharing_everything: "sharing-everything",
    crashes_lose_no_synced_data_with_orphans: "orphans",
    crashes_lose_no_synced_data_with_orphans_small_blocks: "orphans-small-blocks",
    crashes_lose_no_synced_data_with_hints: "hints",
    crashes_lose_no_synced_data_with_hints_full: "hints-full",
    crashes_lose_no_synced_data_with_chunks: "chunks",
    crashes_lose_no_synced_data_with_chunks_small_blocks: "chunks-small-blocks",
    crashes_lose_no_synced_data_with_full: "full",
    crashes_lose_no_synced_data_with_full_small_blocks: "full-small-blocks",
    crashes_lose_no_synced_data_with_anything: "anything",
    crashes_lose_no_synced_data_with_threads: "threads",
    crashes_lose_no_synced_data_with_threads_small_blocks: "threads-small-blocks",
    crashes_lose_no_synced_data_with_threads_full: "threads-full",
    crashes_lose_no_synced_data_with_write_back: "write-back",
    crashes_lose_no_synced_data_with_write_back_chunks: "write-back-chunks",
}

fn verify_workload(name: &str) {
    let workload = WORKLOADS.iter().find(|workload| workload.name == name).expect("known");
    let with_kernel = needs(&[Need::Mount, Need::Xfsprogs]);
    let sampling = Sampling {
        crash_one_in: 3,
        kernel_one_in: if with_kernel { 20 } else { 0 },
        interrupt_one_in: 40,
    };
    let counts: CrashCounts = torture(workload, 1, sampling).unwrap_or_else(|why| panic!("{why}"));
    eprintln!("{name}: {counts}");
}
