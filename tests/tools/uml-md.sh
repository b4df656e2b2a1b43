#!/bin/bash
# uml-md.sh setup                     unpack Debian's user-mode Linux, with the machine's own mdadm
#                                     beside it, into $UML (default ${TMPDIR:-.}/uml)
# uml-md.sh run SCRIPT IMG [IMG2..]   boot it (three seconds); the images are /dev/ubdb, ubdc, ... ;
#                                     SCRIPT (busybox ash) runs as root inside; its output and exit
#                                     status come back.  UML_T= seconds limit (120).
# The guest is an ordinary process that needs no privilege, and has what the machine's kernel may
# lack: md with all its levels.
set -euo pipefail
UML=$(readlink -m "${UML:-${TMPDIR:-.}/uml}")
case ${1:-} in
setup)
  mkdir -p "$UML/package"
  (cd "$UML/package"; apt-get download -qq user-mode-linux; dpkg-deb -x user-mode-linux_*.deb .; rm ./*.deb)
  cp "$UML/package/usr/bin/linux.uml" "$UML/"
  M=$(echo "$UML"/package/usr/lib/uml/modules/*)
  R=$UML/root; rm -rf "$R"; mkdir -p "$R"/{proc,sys,dev,tmp,run,scratch,etc,modules,usr/bin,usr/sbin}
  for l in lib lib64 bin sbin; do ln -s usr/$l "$R/$l"; mkdir -p "$R/usr/$l"; done
  cp "$(command -v busybox)" "$R/usr/bin/busybox"
  for a in $("$R/usr/bin/busybox" --list); do [ "$a" = busybox ] || ln -s busybox "$R/usr/bin/$a"; done
  cp "$(command -v mdadm)" "$R/usr/sbin/"
  ldd "$(command -v mdadm)" | grep -o '/[^ ]*' | while read -r f; do mkdir -p "$R/usr/$(dirname "${f#/usr}")"; cp -L "$f" "$R/usr/${f#/usr}"; done
  for m in loop raid0 raid1 raid10 raid456 linear; do
    # a module, then what it needs, the first needed last
    sed -n "s,^\(kernel/.*/$m\.ko\):,\1,p" "$M/modules.dep" | tr ' ' '\n' | sed '/^$/d' | tac
  done | awk '!s[$0]++' > "$UML/modlist"
  while read -r f; do cp "$M/$f" "$R/modules/"; basename "$f"; done < "$UML/modlist" > "$R/modules/list"
  rm -rf "$UML/package"
  cc -O2 -shared -fPIC -o "$UML/regset.so" "$(dirname "$0")/uml-regset.c"
  cat > "$R/init" <<'I'
#!/bin/busybox sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev 2>/dev/null
mount -t tmpfs -o size=80% tmpfs /scratch; mount -t tmpfs tmpfs /run; mount -t tmpfs tmpfs /tmp
echo 3 > /proc/sys/kernel/printk
while read -r m; do insmod /modules/$m; done < /modules/list
# first disk: the script (plain bytes, padded with newlines); images follow
dd if=/dev/ubda of=/scratch/s bs=64k 2>/dev/null; echo "@@BEGIN"
sh /scratch/s; echo "@@END $?"; sync; poweroff -f
I
  chmod +x "$R/init";;
run) S=$2; shift 2; T=$(mktemp); trap 'rm -f "$T" "$T.out"' EXIT
  cat "$S" > "$T"; sz=$(stat -c %s "$T"); pad=$(( (sz/65536+1)*65536 - sz )); head -c $pad /dev/zero | tr '\0' '\n' >> "$T"
  D=("ubd0=$T"); n=1
  for i in "$@"; do D+=("ubd$n=$i"); n=$((n+1)); done
  timeout -k 5 "${UML_T:-120}" env LD_PRELOAD="$UML/regset.so" "$UML/linux.uml" mem="${UML_M:-2G}" "${D[@]}" rootfstype=hostfs rootflags="$UML/root" \
    rw init=/init con=null con0=fd:0,fd:1 quiet < /dev/null 2>&1 | tee "$T.out" | sed -n '/@@BEGIN/,/@@END/p' | tr -d '\r' | grep -v '@@BEGIN'
  grep -q '@@BEGIN' "$T.out" || tail -5 "$T.out" >&2 # it did not boot
  grep -q '@@END 0' "$T.out";;
*) sed -n '2,9p' "$0"; exit 2;;
esac
