#!/usr/bin/env bash
# Compares Debian's fs_mark and dbench with ours on one directory, in alternating order: against.sh DIR [TURNS].
# The rates should lie within each other's spread. Ours is $XFSKIT (default target/release/xfskit).
set -euo pipefail
dir=${1:?against.sh DIR [TURNS]} turns=${2:-6}
xfskit=$(realpath "${XFSKIT:-$(dirname "$0")/../target/release/xfskit}")
load=${LOAD:-/usr/share/dbench/client.txt} seconds=${SECONDS_EACH:-10} clients=${CLIENTS:-2}
for program in fs_mark dbench; do
    command -v $program >/dev/null || { echo "$program is not installed"; exit 2; }
done
work=$(mktemp -d "$dir/xfskit-against.XXXXXX")
trap 'rm -rf "$work"' EXIT

# Prints Files/sec, the mean over the iterations.
marked() { awk '$1 ~ /^[0-9]+$/ && NF >= 5 { n++; sum += $4 } END { printf "%.1f\n", sum / n }'; }
mark() { # NAME PROGRAM OPTIONS...
    local name=$1; shift
    rm -rf "$work/files"; mkdir "$work/files"; sync
    # A relative name, because fs_mark accepts fewer than 40 bytes.
    (cd "$work" && "$@" -d files 2>&1) | marked | sed "s|^|$name |"
}
clients() { # NAME PROGRAM OPTIONS...
    local name=$1; shift
    rm -rf "$work/clients"; sync
    "$@" -t "$seconds" -c "$load" -D "$work" "$clients" | sed -n "s|^Throughput \([0-9.]*\).*|$name \1|p"
}

# One run of a program on an empty directory, after a sync: -S0 empty files, -S1 files of 4 KiB with an fsync each, dbench.
empty() { mark "fs_mark-empty $1" ${2:+"$2"} fs_mark -n 20000 -s 0 -S 0 -L 4; }
fsync() { mark "fs_mark-fsync $1" ${2:+"$2"} fs_mark -n 1000 -s 4096 -S 1 -L 2; }
serve() { clients "dbench $1" ${2:+"$2"} dbench; }

for turn in $(seq "$turns"); do
    for what in empty fsync serve; do
        # The first program leaves dirty state to the second, so the order alternates.
        if ((turn % 2)); then
            $what debian; $what xfskit "$xfskit"
        else
            $what xfskit "$xfskit"; $what debian
        fi
    done
done | sort | awk '
    { key = $1 " " $2; values[key] = values[key] " " $3; order[NR] = key }
    function report(key,   n, v, m) {
        n = split(values[key], v, " "); asort_numbers(v, n)
        m = n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
        printf "%-24s median %10.1f  from %10.1f to %10.1f  %d turns\n", key, m, v[1], v[n], n
    }
    function asort_numbers(v, n,   i, j, t) {
        for (i = 2; i <= n; i++) for (j = i; j > 1 && v[j - 1] + 0 > v[j] + 0; j--) { t = v[j]; v[j] = v[j - 1]; v[j - 1] = t }
    }
    END { for (i = 1; i <= NR; i++) if (order[i] != order[i - 1]) report(order[i]) }'
