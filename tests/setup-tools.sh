#!/bin/sh
# Makes ready what `make test` compares xfskit with: Linux' own tools.
#   * Debian packages that are missing are installed, when this is root.
#   * xfsprogs 6.13 is unpacked (not installed) into .cache/xfsprogs-6.13, beside the machine's own,
#     because the defaults of mkfs.xfs and the judgement of xfs_repair changed in between.
#   * Debian's user-mode Linux is unpacked into .cache/uml, for what the machine's own kernel may lack:
#     md takes back the arrays that xfskit writes (tests/support).
# What cannot be had is named; the tests that need it skip, by name (under .ci/run they fail).
set -eu
cd "$(dirname "$0")/.."

missing=""
need() { command -v "$1" >/dev/null 2>&1 || missing="$missing $2"; }
need mkfs.xfs xfsprogs
need setfattr attr
need setfacl acl
need setcap libcap2-bin
need xz xz-utils
need zstd zstd
need sfdisk fdisk
need lvcreate lvm2
need mdadm mdadm
need busybox busybox-static
need fs_mark fsmark
need dbench dbench
need fusermount3 fuse3
if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "make test compares with Linux' own tools; installing:$missing"
        apt-get update -qq
        # shellcheck disable=SC2086 # a list of words
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing \
            >/dev/null || echo "apt-get could not install all of:$missing"
    else
        echo "missing:$missing (tests that need them will be skipped, by name)"
    fi
fi

newer=.cache/xfsprogs-6.13
if ! "$newer/bin/mkfs.xfs" -V >/dev/null 2>&1; then
    echo "unpacking xfsprogs 6.13 (Debian trixie) into $newer"
    if ! log=$(bash tests/tools/newer-xfsprogs.sh "$newer" trixie 2>&1); then
        printf '%s\n' "$log" | tail -3
        echo "missing: xfsprogs 6.13 (tests that need it will be skipped, by name)"
    fi
fi

guest=.cache/uml
if [ ! -e "$guest/regset.so" ] || [ ! -e "$guest/root/init" ]; then
    echo "unpacking user-mode Linux into $guest"
    if ! log=$(UML=$guest bash tests/tools/uml-md.sh setup 2>&1); then
        printf '%s\n' "$log" | tail -3
        echo "missing: user-mode Linux (tests that need it will be skipped, by name)"
    fi
fi

sh tests/programs/setup.sh fsx
