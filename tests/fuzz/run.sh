#!/bin/sh
# run.sh SECONDS [TARGET…]: fuzz each target in turn for its share of the time, one process at a time.
#
# Inputs live in work/TARGET, which begins with the kept corpus and the seeds; what fails goes to
# work/failed/TARGET-…; each run adds a line to work/runs.tsv: target, seconds, executions, edges, features,
# inputs, failures. After a failure the target goes on with the rest of its time.
set -eu
cd "$(dirname "$0")"
seconds=$1; shift
triple=$(rustc -vV | sed -n 's/^host: //p')
binaries=${BINARIES:-target/$triple/release}
mkdir -p work/failed
# CORPUS names the built program where cargo should not be asked.
corpus() { (cd ../.. && ${CORPUS:-${CARGO:-cargo} run -q -p xfskit-test-fuzzing --bin xfskit-fuzz-corpus --} "$@"); }
[ -e work/seeded ] || { corpus seeds "$PWD/work"; touch work/seeded; }
corpus targets >work/targets
[ $# -gt 0 ] || set -- $(cut -d' ' -f1 work/targets)
sum=0
for target; do sum=$((sum + $(awk -v t="$target" '$1 == t { print $2 }' work/targets))); done

# The part of libFuzzer's report that counts: executions, edges, features, inputs.
counts() {
    awk '/cov: / { for (i = 1; i < NF; i++) { if ($i == "cov:") e = $(i+1); if ($i == "ft:") f = $(i+1);
             if ($i == "corp:") { split($(i+1), c, "/"); n = c[1] } }; x = substr($1, 2) }
         /stat::number_of_executed_units/ { x = $2 }
         END { print x + 0, e + 0, f + 0, n + 0 }' "$1"
}

for target; do
    weight=$(awk -v t="$target" '$1 == t { print $2 }' work/targets)
    share=$((seconds * weight / sum)); start=$(date +%s); failures=0; executions=0
    dictionary=; [ ! -e "dictionaries/$target" ] || dictionary=-dict=dictionaries/$target
    while left=$((share - $(date +%s) + start)); [ $left -gt 0 ]; do
        before=$(ls work/failed | wc -l)
        "$binaries/$target" -max_total_time=$left -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
            -max_len=$(awk -v t="$target" '$1 == t { print $3 }' work/targets) -len_control=0 \
            -entropic_scale_per_exec_time=1 -artifact_prefix="work/failed/$target-" $dictionary "work/$target" >work/output 2>&1 || true
        set -- $(counts work/output) "$@"
        executions=$((executions + $1)); edges=$2; features=$3; inputs=$4; shift 4
        [ "$(ls work/failed | wc -l)" -gt "$before" ] || break
        failures=$((failures + 1))
        cp work/output "work/failed/output-$target-$(date +%s)"
        [ $failures -lt 20 ] || break
    done
    printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$target" $(($(date +%s) - start)) $executions $edges $features \
        $inputs $failures >>work/runs.tsv
    tail -n1 work/runs.tsv
done

# All runs so far: times and executions summed, coverage as the newest run of a target had it.
awk -F'\t' '{ if (!($1 in s)) order[++n] = $1; s[$1] += $2; x[$1] += $3; e[$1] = $4; f[$1] = $5; i[$1] = $6; b[$1] += $7 }
    END { printf "%-14s %8s %12s %8s %9s %7s %8s\n", "target", "seconds", "executions", "edges", "features", "inputs", "failures"
          for (k = 1; k <= n; k++) { t = order[k]; all += x[t]; bad += b[t]; time += s[t]
              printf "%-14s %8d %12d %8d %9d %7d %8d\n", t, s[t], x[t], e[t], f[t], i[t], b[t] }
          printf "%-14s %8d %12d %8s %9s %7s %8d\n", "all", time, all, "", "", "", bad }' work/runs.tsv | tee work/table
