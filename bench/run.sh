#!/usr/bin/env bash
# make bench: measures each claim about speed, with both sides in one run. Needs root (it mounts and
# drops caches), xfsprogs, GNU time, and about 10 GB in $BENCH_DIR (default: bench-out below the build
# folder). $TURNS sets the turns of each (default 5). $MKFS_WITH_TREE names a mkfs.xfs with -p DIR (7.2).
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${BENCH_DIR:-$PWD/target/bench-out} turns=${TURNS:-5}
[ "$(id -u)" = 0 ] || { echo "these benchmarks mount volumes and drop caches: run as root"; exit 2; }
mkdir -p "$dir"
cargo build --release -q -p xfskit-bench -p xfskit-cli
bin=target/release
say() { printf '\n== %s\n' "$*"; }

[ -e "$dir/inodes.img" ] || "$bin/bench-fill" "$dir/inodes.img" 1000 800 0
[ -e "$dir/files.img" ] || "$bin/bench-fill" "$dir/files.img" 1000 100 4096

say "check against xfs_repair -n: 800,000 inodes"
"$bin/bench-check" "$dir/inodes.img" "$turns"
say "bulkstat against XFS_IOC_BULKSTAT: 800,000 inodes"
"$bin/bench-bulkstat" "$dir/inodes.img" 2 "$turns"
say "get against mount and cp -a: 100,000 small files, cold"
"$bin/bench-get" "$dir/files.img" "$dir" "$turns"
say "find against mount and find: 100,000 files, cold"
"$bin/bench-find" "$dir/files.img" "$turns"
say "mkfs --from against mkfs, mount, cp -a, umount (and \$MKFS_WITH_TREE -p): 100,000 small files"
"$bin/bench-from" "$dir/tree" "$dir" 4G "$turns"
say "zero-length creates against the kernel's"
"$bin/bench-create" "$dir" 200000 "$turns"
say "eight writers, two threads, fsyncs, checksums"
"$bin/bench-scale" "$dir"
say "the cost of one operation as directories, files and volumes grow"
"$bin/bench-growth" "$dir"
say "CRC32c against the crates and ISA-L"
"$bin/bench-crc"
say "P and Q against ISA-L and snapraid"
"$bin/bench-parity" --snapraid
say "a degraded RAID6 against the same array, healthy"
"$bin/bench-degraded" 10
say "RAID6 members rebuilt against the bandwidth of the slowest member"
"$bin/bench-rebuild"
