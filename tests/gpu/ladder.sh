#!/bin/sh
# An experiment of the language model on one GPU, and how busy the GPU was.
#   sh tests/gpu/ladder.sh FOLDER language_ladder_gpu [overrides]     (FOLDER/results, FOLDER/gpu.csv)
folder=$1 experiment=$2
shift 2
mkdir -p "$folder"
nvidia-smi --query-gpu=utilization.gpu,memory.used --format=csv,noheader,nounits -l 1 >"$folder/gpu.csv" &
sampler=$!
PYTORCH_ALLOC_CONF=expandable_segments:True "${PYTHON:-python3}" -m harness run --no-answer experiment="$experiment" runtime.results="$folder/results" "$@"
code=$?
kill $sampler 2>/dev/null # gone where there is no GPU
awk -F, '{u += $1; if ($2 > m) m = $2} END {if (NR) printf "GPU busy %.0f %% of %d s, at most %.0f MiB\n", u / NR, NR, m}' "$folder/gpu.csv"
exit $code
