#!/bin/sh
# An experiment of the language model on one GPU, several runs at once, and how busy the GPU was.
#   sh tests/gpu/ladder.sh FOLDER language_ladder RUNS_AT_ONCE [overrides]     (FOLDER/results, FOLDER/gpu.csv)
folder=$1 experiment=$2 runs=$3
shift 3
mkdir -p "$folder"
nvidia-smi --query-gpu=utilization.gpu,memory.used --format=csv,noheader,nounits -l 1 >"$folder/gpu.csv" &
sampler=$!
python3 -m harness run --no-answer experiment="$experiment" experiment.name="${experiment}_gpu" model.precision=float32 runtime=one_gpu \
    runtime.gradient_checkpointing=false runtime.micro_batch_tokens=2048 runtime.rollout_rows=512 runtime.assumed.prompt_tokens=64 \
    runtime.threads=1 runtime.verifier_workers=1 runtime.runs_per_gpu="$runs" runtime.results="$folder/results" "$@"
code=$?
kill $sampler
awk -F, '{u += $1; if ($2 > m) m = $2} END {printf "GPU busy %.0f %% of %d s, at most %.0f MiB\n", u / NR, NR, m}' "$folder/gpu.csv"
exit $code
