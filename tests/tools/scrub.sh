#!/bin/bash
# scrub.sh [XFSKIT]   (make scrub)
#   Linux' online check over one volume of each kind that xfskit writes: filled by `mkfs --from`, and filled and
#   changed by `put` and its kin. Boots a newer kernel once (vm-xfs.sh; KINDS= takes only those that match), which
#   runs `xfs_scrub -n` on each. Ten minutes under emulation.
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
xfskit=$(readlink -f "${1:-$here/../../target/release/xfskit}")
export VM=${VM:-$here/../../.cache/vm} VM_T=${VM_T:-3600}
[ -e "$VM/vmlinuz" ] || "$here/vm-xfs.sh" setup
work=$(mktemp -d "${TMPDIR:-/tmp}/xfskit-scrub.XXXXXX")
trap 'rm -rf "$work"' EXIT

# What mkfs makes, by the options that change it.
kinds=$(grep -E "${KINDS:-.}" <<'K'
default
no-rmapbt -m rmapbt=0
oldest -m rmapbt=0,reflink=0,finobt=0,bigtime=0,inobtcount=0 -i sparse=0,nrext64=0
no-reflink -m reflink=0
small-extent-counts -i nrext64=0
old-times -m bigtime=0
parent -n parent=1
exchange -i exchange=1 -n parent=1
small-blocks -b size=1024
sectors -s size=4096
large-inodes -i size=2048
large-directories -n size=16384
K
)

tree=$work/tree
mkdir -p "$tree"/{many,deep/a/b/c,links,empty}
seq 3000 | split -l 3 -a 4 - "$tree/many/file-with-a-name-that-takes-some-room-"
head -c 3000000 /dev/urandom > "$tree/content"
truncate -s 5G "$tree/sparse"
for at in $(seq 0 40 2000); do
  head -c 5000 /dev/urandom | dd of="$tree/sparse" bs=64k seek="$at" conv=notrunc status=none
done
ln "$tree/content" "$tree/links/hard"
ln -s content "$tree/links/short"
ln -s "$(printf 'x%.0s' $(seq 900))" "$tree/links/long"
mkfifo "$tree/fifo"
setfattr -n user.short -v "a value" "$tree/content" "$tree/many"

# More attributes than the machine's own filesystem may take: one inode with a tree of them, one with a value in
# blocks of its own.
attributes() {
  for n in $(seq 60); do echo "xattr set /deep user.a-name-of-some-length-$n $(printf 'v%.0s' $(seq 200))"; done
  echo "xattr set /sparse user.remote $(printf 'r%.0s' $(seq 20000))"
}
"$xfskit" mkfs -q --size 330M --from "$tree" "$work/template.img"
attributes | "$xfskit" shell -q "$work/template.img"
"$xfskit" get -q "$work/template.img" / - > "$work/tree.tar"

change() { # IMAGE: what the engine does, rather than mkfs
  "$xfskit" put -q "$1" "$tree/many" "$tree/deep" "$tree/links" "$tree/fifo" "$tree/content" "$tree/sparse" /
  attributes | "$xfskit" shell -q "$1"
  local copy="cp /content /copied"
  "$xfskit" info "$1" | grep -q reflink=1 && copy="cp --reflink /content /copied"
  local names; names=$(cd "$tree/many" && ls | awk 'NR % 3 == 0 { printf " /many/%s", $0 }')
  "$xfskit" shell -q "$1" <<S
$copy
xattr set /content user.later value
xattr set /many/file-with-a-name-that-takes-some-room-aaab user.first 1
xattr rm /sparse user.remote
rm$names
mv /deep/a /links/a
fallocate -p -o 1048576 -l 8192 /content
truncate -s 3000000000 /sparse
S
}

images=() names=()
while read -r name options; do
  for how in from changed; do
    image=$work/$name-$how.img
    # shellcheck disable=SC2086 # options are words
    if [ $how = from ]; then "$xfskit" mkfs -q --size 330M $options --from "$work/tree.tar" "$image"
    else "$xfskit" mkfs -q --size 330M $options "$image"; change "$image"; fi
    images+=("$image") names+=("$name,$how")
  done
done <<< "$kinds"

cat > "$work/script" <<S
set -- ${names[*]}
bad=0
for disk in /dev/vd[b-z]; do
  [ -n "\${1:-}" ] || break
  if mount -t xfs \$disk /mnt; then
    if xfs_scrub -n /mnt > /scratch/said 2>&1; then echo "sound   \$1"; else echo "UNSOUND \$1"; head -20 /scratch/said; bad=1; fi
    grep -i warning /scratch/said
    umount /mnt
  else echo "UNSOUND \$1: does not mount"; bad=1; fi
  shift
done
exit \$bad
S
"$here/vm-xfs.sh" run "$work/script" "${images[@]}"
