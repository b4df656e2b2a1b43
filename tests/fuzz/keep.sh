#!/bin/sh
# keep.sh [TARGET…]: minimises the corpus in work/TARGET, and keeps it in corpus/TARGET.tar.zst.
set -eu
cd "$(dirname "$0")"
triple=$(rustc -vV | sed -n 's/^host: //p')
binaries=${BINARIES:-target/$triple/release}
# CORPUS names the built program where cargo should not be asked.
corpus() { (cd ../.. && ${CORPUS:-${CARGO:-cargo} run -q -p xfskit-test-fuzzing --bin xfskit-fuzz-corpus --} "$@"); }
corpus targets >work/targets
[ $# -gt 0 ] || set -- $(cut -d' ' -f1 work/targets)
for target; do
    rm -rf "work/kept/$target"
    mkdir -p "work/kept/$target"
    max_len=$(awk -v t="$target" '$1 == t { print $3 }' work/targets)
    "$binaries/$target" -set_cover_merge=1 -timeout=20 -rss_limit_mb=2048 -max_len="$max_len" \
        "work/kept/$target" "work/$target" >work/output 2>&1 || { tail -n5 work/output; exit 1; }
done
corpus pack "$PWD/work/kept"
ls -l corpus
