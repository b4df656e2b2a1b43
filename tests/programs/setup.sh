#!/bin/sh
# Installs the programs that `make programs` runs in a mount. A program that cannot be had is named,
# and counts as skipped there.
#   * Debian packages that are missing are installed, when this is root.
#   * fsx and pjdfstest are compiled from the crate registry into .cache/programs/bin.
#   * The sources of GNU hello and GNU coreutils are fetched into .cache/programs/src.
# `setup.sh fsx` compiles fsx only, for `make test`.
set -eu
cd "$(dirname "$0")/../.."

FSX=0.3.2
PJDFSTEST=0.2.2
CARGO=${CARGO:-cargo}
folder=$PWD/.cache/programs
mkdir -p "$folder/bin" "$folder/src"

crate() {
    [ -x "$folder/bin/$1" ] && return
    echo "compiling $1 $2 into .cache/programs/bin"
    log=$("$CARGO" install --quiet --locked --root "$folder" --version "$2" "$1" 2>&1) || {
        printf '%s\n' "$log" | tail -3
        echo "missing: $1 (skipped, by name)"
    }
}
crate fsx $FSX
[ "${1:-}" = fsx ] && exit
crate pjdfstest $PJDFSTEST

missing=""
need() { [ -n "$(command -v "$1" || ls -d "$1" 2>/dev/null)" ] || missing="$missing $2"; }
need rsync rsync
need fio fio
need stress-ng stress-ng
need sqlite3 sqlite3
need git git
need make make
need gcc gcc
need setfacl acl
need /usr/include/sys/acl.h libacl1-dev
need /usr/lib/postgresql/*/bin/pgbench postgresql
if [ -n "$missing" ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
        echo "make programs runs programs in a mount; installing:$missing"
        apt-get update -qq
        # shellcheck disable=SC2086 # a list of words
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing \
            >/dev/null || echo "apt-get could not install all of:$missing"
    else
        echo "missing:$missing (programs that need them will be skipped, by name)"
    fi
fi

# The lists of sources are this script's own, from the machine's servers: it has usually none.
source_of() {
    ls "$folder/src/$1"_*.orig.tar.?z >/dev/null 2>&1 && return
    command -v apt-get >/dev/null 2>&1 || { echo "missing: sources of $1 (skipped)"; return; }
    mkdir -p "$folder/lists/partial"
    # shellcheck disable=SC2016 # fields of apt-get
    apt-get indextargets --format 'deb-src $(REPO_URI) $(RELEASE) main' 'Created-By: Packages' |
        sort -u >"$folder/sources.list"
    set -- "$1" -qq -o "Dir::Etc::SourceList=$folder/sources.list" \
        -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$folder/lists"
    package=$1
    shift
    echo "fetching the sources of $package into .cache/programs/src"
    [ -e "$folder/lists/fetched" ] || apt-get "$@" update >/dev/null 2>&1
    touch "$folder/lists/fetched"
    (cd "$folder/src" && apt-get "$@" source --download-only "$package" >/dev/null 2>&1) ||
        echo "missing: sources of $package (skipped)"
}
source_of hello
source_of coreutils
rm -rf "$folder/lists" "$folder/sources.list"
