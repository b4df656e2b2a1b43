#!/bin/sh
# Installs what `make test` compares against (xfsprogs, attr, acl) where it is missing and we may.
set -eu
missing=""
command -v mkfs.xfs >/dev/null 2>&1 || missing="$missing xfsprogs"
command -v setfattr >/dev/null 2>&1 || missing="$missing attr"
command -v setfacl >/dev/null 2>&1 || missing="$missing acl"
[ -z "$missing" ] && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "make test compares with Linux' own tools; installing:$missing"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
    echo "missing:$missing (tests that need them will be skipped, by name)"
fi
