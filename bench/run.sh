#!/usr/bin/env bash
# make bench: each claim about speed, both sides from one run. As root (it mounts and drops caches),
# with xfsprogs and GNU time installed; needs about 10 GB in $BENCH_DIR (default: bench-out below the
# build folder). TURNS turns of each (default 5). MKFS_WITH_TREE names a mkfs.xfs that knows -p DIR (7.2).
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${BENCH_DIR:-$PWD/target/bench-out} turns=${TURNS:-5}
[ "$(id -u)" = 0 ] || { echo "the other side of these benchmarks mounts and drops caches: run as root"; exit 2; }
mkdir -p "$dir"
cargo build --release -q -p xfskit-bench -p xfskit-cli
bin=target/release
say() { printf '\n== %s\n' "$*"; }

[ -e "$dir/inodes.img" ] || "$bin/bench-fill" "$dir/inodes.img" 1000 800 0
[ -e "$dir/files.img" ] || "$bin/bench-fill" "$dir/files.img" 1000 100 4096

say "check beside xfs_repair -n: 800,000 inodes"
"$bin/bench-check" "$dir/inodes.img" "$turns"
say "bulkstat beside XFS_IOC_BULKSTAT: 800,000 inodes"
"$bin/bench-bulkstat" "$dir/inodes.img" 2 "$turns"
say "get beside mount and cp -a: 100,000 small files, cold"
"$bin/bench-get" "$dir/files.img" "$dir" "$turns"
say "find beside mount and find: 100,000 files, cold"
"$bin/bench-find" "$dir/files.img" "$turns"
say "mkfs --from beside mkfs, mount, cp -a, umount (and \$MKFS_WITH_TREE -p): 100,000 small files"
"$bin/bench-from" "$dir/tree" "$dir" 4G "$turns"
say "zero-length creates beside the kernel's"
"$bin/bench-create" "$dir" 200000 "$turns"
say "eight writers, two threads, fsyncs, checksums"
"$bin/bench-scale" "$dir"
say "what one operation costs as directories, files and volumes grow"
"$bin/bench-growth" "$dir"
say "CRC32c beside the crates and ISA-L"
"$bin/bench-crc"
say "P and Q beside ISA-L and snapraid"
"$bin/bench-parity" --snapraid
say "a RAID6 with members missing beside the same array whole"
"$bin/bench-degraded" 10
say "members of a RAID6 rebuilt beside the slowest member's bandwidth"
"$bin/bench-rebuild"
