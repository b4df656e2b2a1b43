#!/bin/bash
# Boots Debian with systemd in an emulated machine, twice, whose root filesystem is a volume of
# `xfskit mkfs --from`, and whose fstab and units mount volumes by xfskit. boot-guest.sh checks the mounts
# inside. Afterwards each volume has to be closed and sound. Needs root; packages come from Debian.
#
#   bash tests/tools/boot.sh [DIR]     the folder for the tree and the disks (target/boot), 2 GB
set -euo pipefail
cd "$(dirname "$0")/../.."
here=$PWD/tests/tools
program=${CARGO_TARGET_DIR:-target}/release/xfskit
out=$(realpath -m "${1:-target/boot}")
root=$out/root

missing=""
command -v mmdebstrap >/dev/null || missing="$missing mmdebstrap"
command -v qemu-system-x86_64 >/dev/null || missing="$missing qemu-system-x86"
if [ -n "$missing" ]; then
    # shellcheck disable=SC2086 # a list of words
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi

volume() { "$program" mkfs --quiet --size 512M "$@"; }

# The tree of the machine: Debian, the program as `make install` installs it, volumes, units.
tree() {
    rm -rf "$out"
    mkdir -p "$out"
    mmdebstrap --quiet --variant=minbase bookworm "$root" \
        --include=systemd,systemd-sysv,dbus-user-session,libpam-systemd,fuse3,mdadm,linux-image-cloud-amd64
    make --silent install DESTDIR="$root"
    chroot "$root" useradd --create-home --shell /bin/bash me
    install -m 755 "$here/boot-guest.sh" "$root/usr/local/bin/guest"
    cat >"$root/etc/fstab" <<F
/dev/vda             /                xfs          defaults                                                 0 0
/var/lib/disk.img    /srv/disk        fuse.xfskit  allow_other,noatime                                      0 0
/var/lib/auto.img    /srv/auto        fuse.xfskit  noauto,x-systemd.automount,x-systemd.idle-timeout=5,allow_other 0 0
md:/dev/vdb,/dev/vdc /srv/md          fuse.xfskit  allow_other,nofail,x-systemd.requires=/dev/vdb,x-systemd.requires=/dev/vdc 0 0
/home/me/hand.img    /home/me/hand    fuse.xfskit  noauto,user,idmap=user                                   0 0
F
    mkdir -p "$root"/srv/{disk,auto,md,unit} "$root"/home/me/{disk,hand,.config/xfskit}
    for name in disk auto unit; do volume "$root/var/lib/$name.img"; done
    for name in disk hand; do volume "$root/home/me/$name.img"; done
    # mdadm must not assemble the array that xfskit mounts, neither here nor in the initial RAM disk.
    echo "AUTO -all" >>"$root/etc/mdadm/mdadm.conf"
    chroot "$root" update-initramfs -u >/dev/null 2>&1
    units
    chroot "$root" chown -R me:me /home/me
}

units() {
    local system=$root/etc/systemd/system user=$root/home/me/.config/systemd/user
    sed 's|/var/lib/disk.img|/var/lib/unit.img|; s|/srv/disk|/srv/unit|' dist/systemd/srv-disk.mount \
        >"$system/srv-unit.mount"
    printf '%s\n' TARGET=/home/me/disk.img DIR=/home/me/disk 'OPTIONS=--idmap user --idle-timeout 600' \
        >"$root/home/me/.config/xfskit/disk.conf"
    cat >"$system/guest.service" <<S
[Unit]
After=multi-user.target
[Service]
ExecStart=/usr/local/bin/guest
StandardOutput=truncate:/var/lib/guest.log
StandardError=inherit
S
    mkdir -p "$system"/{multi-user,graphical}.target.wants "$user/default.target.wants" \
        "$root/var/lib/systemd/linger"
    ln -s ../srv-unit.mount "$system/multi-user.target.wants/"
    ln -s ../guest.service "$system/graphical.target.wants/"
    ln -s /usr/local/lib/systemd/user/xfskit-mount@.service \
        "$user/default.target.wants/xfskit-mount@disk.service"
    # The units of this user run without a login.
    touch "$root/var/lib/systemd/linger/me"
}

boot() {
    local drives=()
    for disk in root b c; do drives+=(-drive "file=$out/$disk.img,if=virtio,format=raw"); done
    timeout 300 qemu-system-x86_64 -machine accel=tcg -cpu max -m 2048 -smp 2 -nodefaults \
        -nographic -no-reboot -serial stdio "${drives[@]}" \
        -kernel "$root"/boot/vmlinuz-* -initrd "$root"/boot/initrd.img-* \
        -append "console=ttyS0 panic=-1 root=/dev/vda rw" </dev/null >"$out/console.log" 2>&1 ||
        echo "the machine did not turn itself off: see $out/console.log"
    "$program" cat "$out/root.img" /var/lib/guest.log | tee "$out/guest.log"
    grep -qx "boot $1: passed" "$out/guest.log"
}

# A volume that was closed has a clean journal: xfs_repair -n would only warn of another.
sound() {
    "$program" info --json "$1" | grep -q '"journal":{"clean":true'
    xfs_repair -n "$1" >/dev/null 2>&1
}

tree
truncate -s 400M "$out/b.img" "$out/c.img"
"$program" md create --quiet --level 1 --assume-clean "$out/b.img" "$out/c.img"
"$program" mkfs --quiet "md:$out/b.img,$out/c.img"
"$program" mkfs --quiet --from "$root" --size 6G "$out/root.img"
boot 1
boot 2
sound "$out/root.img"
for image in /var/lib/{disk,auto,unit}.img /home/me/{disk,hand}.img; do
    rm -f "$out/copy.img"
    "$program" get --quiet "$out/root.img" "$image" "$out/copy.img"
    sound "$out/copy.img"
    echo "$image: closed and sound"
done
"$program" check "md:$out/b.img,$out/c.img"
test "$(mdadm --examine "$out/b.img" "$out/c.img" | grep -c 'State : clean')" = 2
