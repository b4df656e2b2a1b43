#!/bin/bash
# newer-xfsprogs.sh DEST SUITE
#   Unpacks the xfsprogs of another Debian suite (trixie has 6.13, sid 7.x) and the libraries it
#   needs into DEST, beside the installed one, and writes wrappers DEST/bin/{mkfs.xfs,xfs_repair,
#   xfs_db,xfs_io,...} that run it with its own libc. An existing DEST/bin/mkfs.xfs that runs ends
#   it at once.
set -euo pipefail
[ $# -eq 2 ] || { sed -n '2,6p' "$0"; exit 2; }
mkdir -p "$1"; dest=$(readlink -f "$1")
if "$dest/bin/mkfs.xfs" -V 2>/dev/null; then exit 0; fi
"$(dirname "$(readlink -f "$0")")/deb-from.sh" "$2" "$dest" xfsprogs '^lib'

loader=$(find "$dest/" \( -name 'ld-linux-*.so.*' -o -name 'ld64.so.*' \) | head -1)
libc=$(find "$dest/" -name 'libc.so.6' | head -1)
multiarch=$(basename "$(dirname "$libc")")
libraries="$dest/usr/lib/$multiarch:$dest/lib/$multiarch"
mkdir -p "$dest/bin"
for tool in "$dest"/usr/sbin/* "$dest"/sbin/*; do
  name=${tool##*/}
  case $name in *xfs*) ;; *) continue ;; esac
  [ -f "$tool" ] || continue
  wrapper="$dest/bin/$name"
  if [ "$(head -c4 "$tool" | tail -c3)" = ELF ]; then
    printf '#!/bin/sh\nexec "%s" --argv0 "%s" --library-path "%s" "%s" "$@"\n' \
      "$loader" "$name" "$libraries" "$tool" > "$wrapper"
  else # the shell scripts (xfs_info, xfs_admin, ...) call their siblings by name
    interpreter=$(head -1 "$tool" | sed 's/^#! *//')
    printf '#!/bin/sh\nPATH="%s/bin:$PATH"; export PATH\nexec %s "%s" "$@"\n' \
      "$dest" "$interpreter" "$tool" > "$wrapper"
  fi
  chmod 755 "$wrapper"
done
"$dest/bin/mkfs.xfs" -V
