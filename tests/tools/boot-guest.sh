#!/bin/bash
# Runs in the machine of boot.sh after each boot, as root: every mount is there, has what earlier
# boots wrote, and takes more. Ends by turning the machine off, whatever the result.
trap 'systemctl poweroff' EXIT
set -eu
boots=/var/lib/boots
boot=$(($(cat $boots 2>/dev/null || echo 0) + 1))
echo "$boot" >$boots

fail() { echo "boot $boot: $*"; journalctl --no-pager -b -t xfskit; exit 1; }
mounted() { findmnt --noheadings --types fuse.xfskit "$1" || fail "$1 is not mounted"; }
absent() { ! findmnt --noheadings --types fuse.xfskit "$1" || fail "$1 is mounted"; }
me() { su me -c "export XDG_RUNTIME_DIR=/run/user/$(id -u me); set -e; $1" || fail "me: $1"; }

# Writes a file, and compares all files with their sums.
use() {
    cat <<'S' | sed "s|DIR|$1|g; s|BOOT|$boot|g"
cd DIR; head -c 3000000 /dev/urandom >file-BOOT; sha256sum file-BOOT >>sums; sha256sum -c --quiet sums;
test $(ls | grep -c file-) = BOOT
S
}

systemctl is-system-running --wait >/dev/null || systemctl --no-legend --failed
for dir in disk unit md; do mounted /srv/$dir; done
ls /srv/auto >/dev/null
mounted /srv/auto
for dir in disk unit md auto; do bash -ec "$(use /srv/$dir)" || fail "/srv/$dir"; done

echo "the automount ends when it is not in use"
sleep 15
absent /srv/auto

echo "a restarted unit has its files"
systemctl restart srv-unit.mount || fail "restart"
mounted /srv/unit
test -e "/srv/unit/file-$boot" || fail "a file is lost"

echo "a unit of a user"
me "systemctl --user is-active xfskit-mount@disk; $(use /home/me/disk)"
me "systemctl --user restart xfskit-mount@disk; test -e /home/me/disk/file-$boot"

echo "a line of fstab, mounted and unmounted by a user"
me "mount /home/me/hand; $(use /home/me/hand); cd; umount /home/me/hand"
absent /home/me/hand
echo "boot $boot: passed"
