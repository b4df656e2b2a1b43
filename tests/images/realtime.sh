#!/usr/bin/env bash
# Makes the images with content on a realtime device, and with metadata directories, in an emulated guest with a newer
# Linux (tests/tools/vm-xfs.sh, set up with VM=DIR before): VM=DIR realtime.sh
# Each file holds its own path, line after line (tests in stack/9-cli/tests/realtime.rs); `gone`, `gone-too` and
# all of `removed` were removed. A new run gives other inode numbers and times.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
cat >"$work/guest" <<'E'
set -e
export TEST_DIR=/x TEST_DEV=/x QA_CHECK_FS=1
mkfs() { mkfs.xfs -q -f -m uuid=11111111-2222-3333-4444-555555555555 "$@"; }
put() { mkdir -p "$(dirname "$1")"; yes "${1#/mnt}" | head -c "$2" >"$1" || true; }
tree() { put /mnt/a 5000; put /mnt/sub/b 100000; put /mnt/sub/deep/c 70001; ln -s a /mnt/link; put /mnt/gone 40000; put /mnt/sub/gone-too 5000; }
mkfs -m metadir=1 /dev/vdb; mount -t xfs /dev/vdb /mnt; tree; sync
rm /mnt/gone /mnt/sub/gone-too; umount /mnt
mkfs -m metadir=0 -d rtinherit=1 -r rtdev=/dev/vdd,extsize=64k /dev/vdc; mount -t xfs -o rtdev=/dev/vdd /dev/vdc /mnt; tree
: >/mnt/on-data; xfs_io -c "chattr -r" /mnt/on-data; yes /on-data | head -c 30000 >>/mnt/on-data || true; sync
rm /mnt/gone /mnt/sub/gone-too; umount /mnt
# Two groups, whose length is no power of two, with reverse mappings that fill a block each.
mkfs -m metadir=1,rmapbt=1 -d rtinherit=1 -r rtdev=/dev/vdf,rgcount=2,extsize=4k /dev/vde; mount -t xfs -o rtdev=/dev/vdf /dev/vde /mnt; tree
for i in $(seq 60); do put /mnt/many/$i 5000; done; for i in $(seq 6); do put /mnt/removed/$i 9000; done; sync
rm /mnt/gone /mnt/sub/gone-too /mnt/removed/*; umount /mnt
# Quota flags in all copies of the superblock.
mkfs -m metadir=1,uquota /dev/vdg; mount -t xfs /dev/vdg /mnt; put /mnt/a 5000; sync; umount /mnt
xfs_repair -n /dev/vdb; xfs_repair -n -r /dev/vdd /dev/vdc; xfs_repair -n -r /dev/vdf /dev/vde; xfs_repair -n /dev/vdg
E
names=(v5-metadir-tree v5-rt-tree v5-rt-tree-device v5-rtgroups v5-rtgroups-device v5-metadir-quota)
cd "$work"
truncate -s 64M "${names[@]}"; truncate -s 65M v5-rtgroups-device
VM_T=300 bash "$here/../tools/vm-xfs.sh" run guest "${names[@]}"
for name in "${names[@]}"; do zstd -q -19 --long -f "$name" -o "$here/$name.img.zst"; done
