#!/bin/bash
# Makes the partition table and LVM fixtures of stack/3-target with the real tools (root, for loop
# devices). A fixture `NAME.sectors` holds the sectors of a disk that are not all zero: eight bytes
# of offset (little-endian), then 512 bytes, and so on. The disk's size is in the file's name.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
cd "$work"
trap 'rm -rf "$work"' EXIT

keep() { # keep IMAGE NAME: store the sectors of IMAGE that are not zero
    python3 - "$1" "$here/$2-$(stat -c %s "$1").sectors" <<'P'
import struct, sys
with open(sys.argv[1], "rb") as disk, open(sys.argv[2], "wb") as out:
    at = 0
    while sector := disk.read(512):
        if any(sector):
            out.write(struct.pack("<Q", at) + sector)
        at += 512
P
}

xfs_at() { printf XFSB | dd of="$1" bs=512 seek="$2" conv=notrunc status=none; }

# MBR: two primary partitions, then an extended one with three logical ones.
truncate -s 64M mbr
sfdisk -q mbr <<'S'
label: dos
label-id: 0x12345678
1: start=2048, size=4096, type=83, bootable
2: start=8192, size=4096, type=82
4: start=16384, size=65536, type=5
5: start=18432, size=4096, type=83
6: start=24576, size=8192, type=83
7: start=34816, size=2048, type=8e
S
xfs_at mbr 2048
xfs_at mbr 24576
keep mbr mbr

# GPT, made by another tool, with a gap in the numbers and a name.
truncate -s 64M gpt
sgdisk -a 2048 -U 11111111-2222-3333-4444-555555555555 \
    -n 1:2048:+1M -t 1:ef00 -c 1:"EFI system" -n 3:8192:+20M -t 3:8300 -c 3:root gpt >/dev/null
xfs_at gpt 8192
keep gpt gpt

# The same on 4096-byte sectors.
truncate -s 64M gpt4k
loop=$(losetup -f --show -b 4096 gpt4k)
sfdisk -q "$loop" <<'S'
label: gpt
start=512, size=1024, type=L
S
losetup -d "$loop"
xfs_at gpt4k 4096
keep gpt4k gpt4k

# A GPT disk whose partitions 2 and 3 are the two physical volumes of a volume group.
truncate -s 96M lvm
sgdisk -a 2048 -n 1:2048:+4M -t 1:8300 -n 2:16384:+40M -t 2:8e00 -n 3:102400:+40M -t 3:8e00 lvm >/dev/null
export LVM_SUPPRESS_FD_WARNINGS=1
one=$(losetup -f --show -o $((16384 * 512)) --sizelimit 40M lvm)
two=$(losetup -f --show -o $((102400 * 512)) --sizelimit 40M lvm)
ids=(Lmx0TG-rtsy-0RG6-II2X-whYO-UQMS-9sGN3l 1Bi52q-MlDL-Zs2T-kqf6-d4Lp-q0cs-ESj2I1)
cat >vg.txt <<V
contents = "Text Format Volume Group"
version = 1
vg0 {
	id = "mAuwyW-hKgD-3gcs-xGwL-xoVJ-SXek-SmeFZe"
	seqno = 7
	format = "lvm2"
	status = ["RESIZEABLE", "READ", "WRITE"]
	flags = []
	extent_size = 8192 # 4 Megabytes
	max_lv = 0
	max_pv = 0
	metadata_copies = 0
	physical_volumes {
		pv0 {
			id = "${ids[0]}"
			device = "$one"
			status = ["ALLOCATABLE"]
			dev_size = 81920
			pe_start = 2048
			pe_count = 9
		}
		pv1 {
			id = "${ids[1]}"
			device = "$two"
			status = ["ALLOCATABLE"]
			dev_size = 81920
			pe_start = 2048
			pe_count = 9
		}
	}
	logical_volumes {
		root {
			id = "AAAAAA-hKgD-3gcs-xGwL-xoVJ-SXek-SmeFZe"
			status = ["READ", "WRITE", "VISIBLE"]
			segment_count = 2
			segment1 {
				start_extent = 0
				extent_count = 3
				type = "striped"
				stripe_count = 1
				stripes = [ "pv1", 2 ]
			}
			segment2 {
				start_extent = 3
				extent_count = 4
				type = "striped"
				stripe_count = 1
				stripes = [ "pv0", 0 ]
			}
		}
		swap-a {
			id = "BBBBBB-hKgD-3gcs-xGwL-xoVJ-SXek-SmeFZe"
			status = ["READ", "WRITE", "VISIBLE"]
			segment_count = 1
			segment1 {
				start_extent = 0
				extent_count = 2
				type = "striped"
				stripe_count = 1
				stripes = [ "pv0", 4 ]
			}
		}
		striped {
			id = "CCCCCC-hKgD-3gcs-xGwL-xoVJ-SXek-SmeFZe"
			status = ["READ", "WRITE", "VISIBLE"]
			segment_count = 1
			segment1 {
				start_extent = 0
				extent_count = 2
				type = "striped"
				stripe_count = 2
				stripe_size = 128
				stripes = [ "pv0", 6, "pv1", 6 ]
			}
		}
	}
}
V
pvcreate -q -ff -y --uuid "${ids[0]}" --restorefile vg.txt "$one" >/dev/null
pvcreate -q -ff -y --uuid "${ids[1]}" --restorefile vg.txt "$two" >/dev/null
vgcfgrestore -q -f vg.txt vg0
vgs vg0
losetup -d "$one" "$two"
rm -f /etc/lvm/archive/vg0* /etc/lvm/backup/vg0
# root begins in extent 2 of pv1: 2048 sectors of header, 8192 per extent.
xfs_at lvm $((102400 + 2048 + 2 * 8192))
keep lvm lvm
