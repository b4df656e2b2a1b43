#!/usr/bin/env bash
# Makes the images in this folder: small volumes that the Linux kernel filled, kept compressed, for
# tests that need neither root nor the kernel. Run as root with mkfs.xfs, setfattr, setfacl, zstd.
#   make.sh            every image
# They are made once; a new run gives other inode numbers and times, and manifests with them.
# realtime.sh makes those with content on a realtime device, and with metadata directories, in a guest.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d); mnt=$work/mnt; mkdir "$mnt"
trap 'umount "$mnt" 2>/dev/null || true; rm -rf "$work"' EXIT
mkfs() { TEST_DIR=/x TEST_DEV=/x QA_CHECK_FS=1 mkfs.xfs -q -f -m uuid=11111111-2222-3333-4444-555555555555 "$@"; }

# A tree with every form of directory, attribute fork, symlink, special file and extent map.
fill() {
    local t=$1
    mkdir "$t/sf" "$t/block" "$t/leaf" "$t/node"
    echo hello >"$t/sf/a"; echo world >"$t/sf/b"
    for i in $(seq 40); do : >"$t/block/file$i"; done
    for i in $(seq 300); do ln "$t/sf/a" "$t/leaf/link-number-$i"; done
    for i in $(seq 1500); do ln "$t/sf/b" "$t/node/another-link-with-a-longer-name-$i"; done
    rm "$t"/leaf/link-number-1?? "$t"/node/*-7??
    ln -s short "$t/symlink"; ln -s "$(printf 'x%.0s' $(seq 900))" "$t/symlink-remote"
    mknod "$t/char" c 5 300; mknod "$t/block-device" b 8 1; mkfifo "$t/fifo"
    truncate -s 1M "$t/hole"; echo end >>"$t/hole"
    fallocate -l 256k "$t/unwritten"
    for i in $(seq 0 2 400); do echo "$i" | dd of="$t/fragmented" bs=4096 seek="$i" conv=notrunc status=none; done
    cp "$t/sf/a" "$t/attr-sf"; setfattr -n user.k -v v "$t/attr-sf"; setfattr -n trusted.t -v w "$t/attr-sf"
    cp "$t/sf/a" "$t/attr-leaf"; for i in $(seq 20); do setfattr -n "user.name$i" -v "value-$i-$(printf 'v%.0s' $(seq 30))" "$t/attr-leaf"; done
    cp "$t/sf/a" "$t/attr-node"; for i in $(seq 300); do setfattr -n "user.name$i" -v "value-$i-$(printf 'w%.0s' $(seq 40))" "$t/attr-node"; done
    cp "$t/sf/a" "$t/attr-remote"; setfattr -n user.big -v "$(printf 'r%.0s' $(seq 10000))" "$t/attr-remote"
    setfacl -m u:1000:rw "$t/sf/b" 2>/dev/null || true
    chmod 4755 "$t/attr-sf"; chown 1000:100 "$t/block"; touch -d '1960-01-02 03:04:05.123456789' "$t/sf/a"
    cp --reflink=always "$t/fragmented" "$t/clone" 2>/dev/null || true
}

keep() { zstd -q -19 --long -f "$1" -o "$here/$2.img.zst"; ls -la "$here/$2.img.zst"; }

image() { # name, size, mkfs options...
    local name=$1 size=$2; shift 2
    truncate -s "$size" "$work/i"; mkfs "$@" "$work/i"
    mount -o loop "$work/i" "$mnt"; fill "$mnt"; umount "$mnt"
    keep "$work/i" "$name"; rm "$work/i"
}

image v5 64M -m rmapbt=1 -i nrext64=1
image v5-1k 64M -b size=1024 -n size=4096 -m rmapbt=1
image v5-plain 64M -m finobt=0,reflink=0,bigtime=0,inobtcount=0 -i sparse=0

# Volumes that only some checks need: with a realtime device, and with metadata directories (xfsprogs 6.13 on the PATH).
truncate -s 64M "$work/i" "$work/rt"; mkfs -r rtdev="$work/rt",extsize=64k "$work/i"; keep "$work/i" v5-rt; rm "$work/i"
truncate -s 64M "$work/i"; mkfs -m metadir=1 "$work/i"; keep "$work/i" v5-metadir; rm "$work/i"

# Trees of groups and extent maps of several levels, parent pointers, and a quota file that python3 writes and xfs_repair takes out of
# its directory (xfsprogs 6.13).
truncate -s 64M "$work/i"; mkfs -m rmapbt=1 -b size=1024 -n parent=1,size=4096 -i nrext64=1 -d agcount=2 -l size=5m "$work/i"
mount -o loop "$work/i" "$mnt"
python3 "$here/dquots.py" >"$mnt/quota"; quota=$(stat -c %i "$mnt/quota")
mkdir "$mnt/many"; for i in $(seq 4500); do : >"$mnt/many/$i"; done; for i in $(seq 32 64 4500); do rm "$mnt/many/$i"; done
fallocate -l 1500k "$mnt/pieces"; for i in $(seq 1 2 1499); do fallocate -p -o "${i}k" -l 1k "$mnt/pieces"; done
for i in $(seq 0 2 500); do echo "$i" | dd of="$mnt/shared" bs=1k seek="$i" conv=notrunc status=none; done
cp --reflink=always "$mnt/shared" "$mnt/shared-too"
mkdir "$mnt/sub" "$mnt/sub/below"; ln -s "$(printf 'x%.0s' $(seq 900))" "$mnt/symlink-remote"; ln -s "$(printf 'y%.0s' $(seq 1000))" "$mnt/symlink-two"
umount "$mnt"
xfs_db -x -c 'sb 0' -c "write -d uquotino $quota" -c 'write -d qflags 1' -c 'write -d versionnum 0xb4f5' -c "inode $quota" -c 'write -d core.size 0' "$work/i"
xfs_repair -L "$work/i"
keep "$work/i" v5-tall; rm "$work/i"

# A dirty log: everything up to the shutdown is in the journal, little of it in place.
truncate -s 64M "$work/i"; mkfs -m rmapbt=1 "$work/i"
mount -o loop "$work/i" "$mnt"; fill "$mnt"; xfs_io -x -c 'shutdown -f' "$mnt"; umount "$mnt"
keep "$work/i" v5-dirty

# v4*.img.zst and their listings were made by the same fill in a guest with Linux 6.12 (this kernel
# may not mount version 4): tests/tools/vm-xfs.sh; mkfs.xfs -m crc=0 (v4, v4-dirty), and
# -m crc=0 -i attr=1,projid32bit=0 -l version=1,lazy-count=0 -n ftype=0 -b size=1024 (v4-old).

# intents*.img.zst, journals with unfinished intents, are crash points of a stress run: tests/recovery/tests/stress.rs,
# `make_images_with_open_intents`.

# A dirty log that replays quickly, for the fuzz target of journals: three checkpoints with every common item.
truncate -s 32M "$work/i"; mkfs -d agcount=2 -m rmapbt=1,reflink=1 -l size=3075b -b size=4096 "$work/i"
mount -o loop "$work/i" "$mnt"
mkdir "$mnt/d" "$mnt/e"; for n in $(seq 30); do : >"$mnt/d/file-$n"; done
for n in $(seq 0 2 24); do echo "$n" | dd of="$mnt/fragmented" bs=4096 seek="$n" conv=notrunc status=none; done
setfattr -n user.k -v v "$mnt/d/file-1"
for n in $(seq 30); do setfattr -n "user.name$n" -v "value-$(printf 'v%.0s' $(seq 60))" "$mnt/d/file-2"; done
ln -s "$(printf 'x%.0s' $(seq 600))" "$mnt/link"; mkfifo "$mnt/fifo"; sync
cp --reflink=always "$mnt/fragmented" "$mnt/clone"; echo changed | dd of="$mnt/clone" conv=notrunc status=none
rm "$mnt"/d/file-1?; mv "$mnt/d/file-3" "$mnt/e/three"; ln "$mnt/d/file-4" "$mnt/e/four"
fallocate -p -o 4096 -l 8192 "$mnt/fragmented"
exec 7<>"$mnt/d/file-5"; rm "$mnt/d/file-5"
setfattr -x user.name7 "$mnt/d/file-2"; truncate -s 5000 "$mnt/fragmented"
xfs_io -x -c 'shutdown -f' "$mnt"; exec 7>&-; umount "$mnt"
keep "$work/i" small-dirty
