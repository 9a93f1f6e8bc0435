#!/usr/bin/env bash
# One share of an experiment on a machine of its own: every COUNTth seed from INDEX on, then a pack for `harness merge`.
#   share.sh INDEX COUNT FOLDER experiment=NAME [overrides]        SEEDS="0 1 2" for other seeds than 0 to 7
# SIGTERM ends it with a checkpoint and code 75; the same command over the same results goes on.
set -uo pipefail
index=$1 count=$2 folder=$3
shift 3
mine=""
place=0
for seed in ${SEEDS:-0 1 2 3 4 5 6 7}; do
  [ $((place % count)) -eq "$index" ] && mine="$mine${mine:+,}$seed"
  place=$((place + 1))
done
if [ -z "$mine" ]; then
  echo "share $index of $count: no seeds are left for it"
  exit 0
fi
name=$(harness plan "$@" --json | python3 -c 'import json, sys; print(json.load(sys.stdin).get("experiment", ""))')
[ -n "$name" ] || exit 2 # `harness plan` has said why

run=
stopped=
trap 'stopped=1; [ -z "$run" ] || kill -TERM $run' TERM INT
harness run --no-answer "$@" "experiment.seeds=[$mine]" &
run=$!
[ -z "$stopped" ] || kill -TERM $run # it came before there was a run
wait $run
code=$?
while [ $code -gt 128 ] && [ -n "$stopped" ]; do # the signal ended `wait`, not the run
  stopped=
  wait $run
  code=$?
done
[ $code -eq 0 ] || exit $code
results=$(printf '%s\n' "$@" | grep '^runtime.results=' || true)
harness pack "experiment=$name" "out=$folder/$name-$index.tar.xz" ${results:+"$results"}
