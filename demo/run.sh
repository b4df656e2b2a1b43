#!/usr/bin/env bash
# make demo: the stack at work on ordinary files, in a few minutes.
# Builds nothing itself; takes the binary in $XFSKIT (default target/release/xfskit). Everything is
# made in one temporary folder and removed at the end. If the kernel can mount it (root, XFS), it
# fills a volume with a real tree of this machine and checks the result; otherwise the demo prints a
# note and continues.
set -euo pipefail
cd "$(dirname "$0")/.."
xfskit=${XFSKIT:-$PWD/target/release/xfskit}
tree=${DEMO_TREE:-/usr/share}
work=$(mktemp -d "${TMPDIR:-/tmp}/xfskit-demo.XXXXXX")
mnt=$work/mnt
trap 'umount "$mnt" 2>/dev/null || true; rm -rf "$work"' EXIT

bold() { printf '\n\033[1m%s\033[0m\n' "$*"; }
run() { printf '\033[2m$ xfskit %s\033[0m\n' "$*"; "$xfskit" "$@"; }
have() { command -v "$1" >/dev/null 2>&1; }
timed() { local t0 t1; t0=$(date +%s.%N); "$@" >/dev/null 2>&1; t1=$(date +%s.%N); echo "$t1 $t0" | awk '{printf "%.2f s", $1-$2}'; }

cd "$work"
bold "1. Make volumes, without root"
run mkfs --size 2G disk.img
run mkfs -q --size 1G --target linux-5.10,grub-2.06 boot.img
run mkfs -q --size 500T mem:500T && echo "  a 500 TB volume in memory: made"

bold "2. Which kernels can mount them?"
run info --compat boot.img

if have xfs_repair; then
    bold "3. xfs_repair -n on the new volumes"
    for img in disk.img boot.img; do
        xfs_repair -n "$img" >repair.log 2>&1 && echo "  $img: clean" || { cat repair.log; exit 1; }
    done
fi

mkdir -p "$mnt"
if [ "$(id -u)" = 0 ] && mount -o loop disk.img "$mnt" 2>/dev/null; then
    bold "4. The kernel mounts it and fills it with $tree"
    cp -a "$tree" "$mnt/tree" 2>/dev/null || true
    find "$mnt/tree" | wc -l | xargs echo "  files:"
    (cd "$mnt" && find . -printf '%p %y %m %U %G %n %s %T@ %l\n' | LC_ALL=C sort) >kernel.list
    umount "$mnt"

    bold "5. Read it without the kernel"
    run info disk.img
    run df disk.img
    echo "  get -> $(timed "$xfskit" get -q disk.img /tree "$work/out")"
    bold "6. Compare with the source"
    if diff -r --no-dereference "$tree" "$work/out" >diff.log 2>&1; then
        echo "  identical to $tree"
    else
        head diff.log; echo "  ($(wc -l <diff.log) differences)"; exit 1
    fi
else
    echo "(no root or no XFS in this kernel: steps that mount are skipped)"
fi

bold "7. Check it"
run check disk.img
have xfs_repair && echo "  xfs_repair -n takes $(timed xfs_repair -n disk.img), xfskit check $(timed "$xfskit" check -q disk.img)"

bold "8. Break one byte of the free-space header of group 1, and check again"
cp --sparse=always disk.img broken.img
agsize=$("$xfskit" info --json disk.img | tr ',' '\n' | sed -n 's/.*"agblocks": *\([0-9]*\).*/\1/p' | head -1)
printf '\377' | dd of=broken.img bs=1 seek=$((agsize * 4096 + 512 + 55)) conv=notrunc status=none
run check broken.img || echo "  (exit $?)"

bold "9. Repeat published studies of filesystems, small (under two minutes)"
report=${DEMO_REPORT:-${TMPDIR:-/tmp}/xfskit-report.html}
printf '\033[2m$ xfskit bench all --quick --html %s\033[0m\n' "$report"
"$xfskit" bench all --quick --html "$report" >studies.txt || { tail studies.txt; exit 1; }
grep -A1 "^The figure to reach" studies.txt || true

bold "Done."
echo "The report of the studies, with plots: $report"
