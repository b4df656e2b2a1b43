#!/bin/bash
# deb-from.sh SUITE DEST ROOTPKG DEPREGEX
#   Unpacks (dpkg -x: nothing is installed) ROOTPKG of another Debian suite, and recursively those
#   of its dependencies whose name matches DEPREGEX, into DEST. The packages come from the
#   machine's own Debian source with the suite's name switched; the machine's apt state stays as
#   it is, and root is not needed.
set -euo pipefail
[ $# -eq 4 ] || { sed -n '2,6p' "$0"; exit 2; }
suite=$1 root=$3 dep_regex=$4
mkdir -p "$2"; dest=$(readlink -f "$2")
. /etc/os-release; here=$VERSION_CODENAME
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT; chmod 755 "$work"
mkdir -p "$work"/etc/{sources.list.d,preferences.d} "$work/lists/partial" \
  "$work/cache/archives/partial" "$work/debs"
for part in apt.conf.d auth.conf.d trusted.gpg.d trusted.gpg keyrings; do
  if [ -e "/etc/apt/$part" ]; then cp -r "/etc/apt/$part" "$work/etc/" 2>/dev/null || true; fi
done

# Only the plain suite: the stanzas and lines that name it, without -updates, -security and others.
one_line=$work/etc/sources.list; : > "$one_line"
if [ -s /etc/apt/sources.list ]; then
  sed -nE "/^deb(-src)?[[:space:]]/ s/[[:space:]]$here[[:space:]]/ $suite /p" \
    /etc/apt/sources.list > "$one_line"
fi
for source in /etc/apt/sources.list.d/*.sources; do
  [ -e "$source" ] || continue
  awk -v here="$here" -v suite="$suite" '
    BEGIN { RS = ""; ORS = "\n\n" }
    {
      if (!match($0, /(^|\n)Suites:[^\n]*/)) next
      line = substr($0, RSTART, RLENGTH)
      if ((line " ") !~ ("[ \t]" here "[ \t]")) next
      sub(/Suites:.*/, "Suites: " suite, line)
      print substr($0, 1, RSTART - 1) line substr($0, RSTART + RLENGTH)
    }' "$source" > "$work/etc/sources.list.d/${source##*/}"
done

apt_options=(-o "Dir::Etc=$work/etc" -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache"
  -o Dir::State::status=/dev/null -o Acquire::Languages=none -o APT::Sandbox::User=root)
apt-get "${apt_options[@]}" -qq update

wanted=("$root"); declare -A seen=()
while [ ${#wanted[@]} -gt 0 ]; do
  package=${wanted[0]}; wanted=("${wanted[@]:1}")
  [ -z "${seen[$package]:-}" ] || continue
  seen[$package]=1
  while read -r dependency; do
    if [ -n "$dependency" ]; then wanted+=("$dependency"); fi
  done < <(
    apt-cache "${apt_options[@]}" --no-all-versions show "$package" |
      sed -n 's/^\(Pre-\)\?Depends: //p' | tr ',' '\n' |
      sed 's/|.*//; s/(.*//; s/:any//; s/ //g' | { grep -E "$dep_regex" || true; } | sort -u
  )
done
cd "$work/debs"; apt-get "${apt_options[@]}" -qq download "${!seen[@]}"
for deb in *.deb; do dpkg -x "$deb" "$dest"; done
