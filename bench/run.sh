#!/usr/bin/env bash
# make bench: measures each claim about speed, with both sides in one run. Needs root (it mounts and
# drops caches), xfsprogs, GNU time, and about 10 GB in $BENCH_DIR (default: bench-out below the build
# folder). $TURNS sets the turns of each. $MKFS_WITH_TREE names a mkfs.xfs with -p DIR (7.2). The
# mounts are measured beside passthrough_ll and fuse2fs by fs_mark, dbench and git (Debian packages
# libfuse3-dev, fuse2fs, fsmark, dbench, git), as far as these are installed. Each program leaves its
# report in $BENCH_DIR/reports: a page and a .json.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${BENCH_DIR:-$PWD/target/bench-out} bin=target/release
[ "$(id -u)" = 0 ] || { echo "these benchmarks mount volumes and drop caches: run as root"; exit 2; }
mkdir -p "$dir/reports"
cargo build --release -q -p xfskit-bench -p xfskit-cli

[ -e "$dir/inodes.img" ] || "$bin/xfskit-bench" fill "$dir/inodes.img" 1000 800 0
[ -e "$dir/files.img" ] || "$bin/xfskit-bench" fill "$dir/files.img" 1000 100 4096

bench() { # NAME ARGUMENTS...
    local name=$1; shift
    printf '\n'
    "$bin/xfskit-bench" "$name" "$@" ${TURNS:+--turns "$TURNS"} \
        --html "$dir/reports/$name.html" --report "$dir/reports/$name.json"
}
bench check "$dir/inodes.img"
bench repair "$dir/inodes.img" "$dir"
bench metadump "$dir/inodes.img" "$dir"
bench bulkstat "$dir/inodes.img" 2
bench get "$dir/files.img" "$dir"
bench find "$dir/files.img"
bench from "$dir/tree" "$dir" 4G
bench create "$dir" 200000
bench journal "$dir/journal.img"
bench batch "$dir/batch.img"
bench mount "$dir"
TURNS='' bench scale "$dir"
TURNS='' bench growth "$dir"
TURNS='' bench crc
TURNS='' bench parity --snapraid
TURNS='' bench degraded 10
TURNS='' bench rebuild
echo "reports: $dir/reports"
