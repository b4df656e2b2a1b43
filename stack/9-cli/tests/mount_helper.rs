//! The program as a helper of mount(8) and umount(8): in a mount namespace of the test, whose /sbin
//! has the links that `make install` makes.

use std::fs;
use std::process::Command;

use super::common::{expect, json, shown};
use super::mount::{Place, possible};

/// Runs lines of bash as root, in a mount namespace of their own with the links, and an fstab with
/// `fstab`. `$xfskit`, `$image` and `$dir` are what they say.
pub(crate) fn run(place: &Place, fstab: &str, lines: &str) {
    let table = place.scratch.path().join("fstab");
    fs::write(&table, fstab).unwrap();
    let script = format!(
        r#"set -eu
        # Copies of other tests' mounts would keep them busy.
        awk '$5 ~ /xfskit-oracle/ {{ print $5 }}' /proc/self/mountinfo |
            while read -r copy; do umount --internal-only --lazy "$copy"; done
        mount -t tmpfs none /sbin
        ln -s "$xfskit" /sbin/mount.fuse.xfskit
        ln -s "$xfskit" /sbin/umount.fuse.xfskit
        mkdir -p /run/mount; mount -t tmpfs none /run/mount
        mount --bind "$fstab" /etc/fstab
        code() {{ local c=0; timeout 60 "$@" 2>"$said" || c=$?; echo $c; }}
        says() {{ grep -q "$1" "$said" || {{ echo "expected: $1"; cat "$said"; exit 9; }} }}
        {lines}"#
    );
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "bash", "-xc", &script])
        .env("xfskit", env!("CARGO_BIN_EXE_xfskit"))
        .env("fstab", &table)
        .env("said", place.scratch.path().join("said"))
        .env("image", &place.image)
        .env("dir", &place.dir)
        .output()
        .unwrap();
    let (said, shown) = (output.stderr, output.stdout);
    let (said, shown) = (String::from_utf8_lossy(&said), String::from_utf8_lossy(&shown));
    assert!(output.status.success(), "{shown}\n{said}");
}

#[test]
fn mount_and_umount_of_the_system_mount_and_wait() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-helper");
    run(
        &place,
        "",
        r#"
        mount -v -t fuse.xfskit -o noatime,nofail,_netdev,x-systemd.automount "$image" "$dir"
        findmnt -n -o FSTYPE,OPTIONS "$dir" | grep 'fuse.xfskit.*noatime'
        dd if=/dev/urandom of="$dir/file" bs=1M count=60 status=none
        sum=$(sha256sum < "$dir/file")
        exec 9< "$dir/file"
        test "$(code umount "$dir")" = 32; says busy
        exec 9<&-
        # A root's umount(8) of an absolute path calls a helper only if its table has one.
        umount "$dir"
        # A volume that is open for writing still is refused to another writer.
        "$xfskit" label "$image" closed
        test "$("$xfskit" cat "$image" /file | sha256sum)" = "$sum"
        test ! -s /run/mount/utab

        # A mount by the command itself is waited for as well.
        "$xfskit" mount "$image" "$dir"
        dd if=/dev/zero of="$dir/file" bs=1M count=60 status=none
        umount "$dir"
        "$xfskit" label "$image" again
        test ! -s /run/mount/utab
        cd "$(dirname "$dir")"
        "$xfskit" mount "$image" mnt
        "$xfskit" umount mnt
        test ! -s /run/mount/utab
        "$xfskit" mount -- "$image" mnt
        umount -l mnt

        # mount(8) keeps `suid` and `dev` to itself.
        for other in suid,dev allow_suid,allow_dev; do
            mount -t fuse.xfskit -o "$other" "$image" "$dir"
            findmnt -n -o OPTIONS "$dir"
            umount "$dir"
        done > "$said"
        says nosuid,nodev
        test "$(grep -c nosuid "$said")" = 1
        "#,
    );
    place.verify();
}

#[test]
fn lines_of_fstab_have_all_options_of_the_command_line() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-helper-fstab");
    let (image, dir) = (shown(&place.image), shown(&place.dir));
    expect(0, &["mkdir", &image, "/sub"]);
    expect(0, &["mkfs", "--size", "400M", &format!("{image}.log,x")]);
    let overlay = place.scratch.path().join("changes");
    let options = format!(
        "noauto,user,idmap=u:0:1000:1,idmap=g:0:1001:1,subdir=/sub,cache=64M,idle-timeout=600,\
         overlay={},x-systemd.device-timeout=5,comment=a",
        shown(&overlay)
    );
    let fstab = format!("{image} {dir} fuse.xfskit {options} 0 0\n");
    run(
        &place,
        &fstab,
        r#"
        mount "$dir"
        stat -c %u:%g "$dir" | grep -x 1000:1001
        setpriv --reuid 1000 --regid 1001 --clear-groups touch "$dir/not" && exit 8
        umount "$dir"
        mount "$dir" -o allow_other
        setpriv --reuid 1000 --regid 1001 --clear-groups touch "$dir/new"
        umount "$dir"
        "$xfskit" ls --overlay "$(dirname "$dir")/changes" "$image" /sub | grep -x new
        "#,
    );
    let name = format!("overlay={}:{image}", shown(&overlay));
    let stat = &json(&["stat", "--json", &name, "/sub/new"])[0];
    assert_eq!((&stat["uid"], &stat["gid"]), (&0.into(), &0.into()));
    assert_eq!(expect(0, &["ls", &image, "/sub"]).stdout, "", "the target was only read");
}

#[test]
fn codes_and_flags_are_those_of_mount() {
    if !possible() {
        return;
    }
    let place = Place::new("cli-helper-codes");
    run(
        &place,
        "",
        r#"
        m() { code mount -t fuse.xfskit "$@" "$image" "$dir"; }
        test "$(m -o nonsense)" = 32; says nonsense
        test "$(m -o uid=1000)" = 32; says idmap=
        test "$(m -o remount,ro)" = 32; says remount
        test "$(code mount -t fuse.xfskit /no/such "$dir")" = 32; says "No such file"
        test "$(code /sbin/mount.fuse.xfskit "$image")" = 1; says Usage
        test "$(code /sbin/mount.fuse.xfskit "$image" "$dir" -N /proc/1/ns/mnt)" = 1; says nsenter
        test "$(m -f)" = 0
        test "$(code umount "$dir")" = 32
        test "$(code /sbin/umount.fuse.xfskit "$dir")" = 32
        test "$(m -n -s -o nonsense)" = 0
        test "$(m)" = 32; says already
        # Without the entry, which -n leaves out, root's umount(8) does not call the helper.
        test ! -s /run/mount/utab
        umount "$dir"

        # An entry that is out of date does no harm.
        test "$(m)" = 0
        grep -q helper=fuse.xfskit /run/mount/utab
        pkill -KILL -f -- "--detach -- $image"
        umount -i "$dir" || true
        mount -i -f -t fuse.xfskit -o helper=fuse.xfskit "$image" "$dir"
        mount -t tmpfs "$image" "$dir"
        umount "$dir"
        test "$(code mountpoint -q "$dir")" = 32
        "$xfskit" recover "$image"
        test "$(m)" = 0
        pkill -TERM -f -- "--detach -- $image"
        for n in $(seq 100); do mountpoint -q "$dir" || break; sleep 0.1; done
        sleep 0.5
        test ! -s /run/mount/utab
        "#,
    );
    place.verify();
}
