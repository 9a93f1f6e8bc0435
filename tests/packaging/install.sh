#!/usr/bin/env bash
# Build sdist and wheel, install the wheel where no clone is, run a short experiment and report it in an empty folder.
#   tests/packaging/install.sh [PYTHON]      its packages serve as dependencies (default: .venv/bin/python); FRESH=1 installs the declared ones instead
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
python=$(realpath -s "${1:-$root/.venv/bin/python}")
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
cd "$here"

python3 -m venv build
build/bin/python -m pip install --quiet --disable-pip-version-check build
build/bin/python -m build --outdir dist "$root" > build.log 2>&1 || { tail -20 build.log; exit 1; } # the wheel is made from the sdist

"$python" -m venv installed
if [ -n "${FRESH:-}" ]; then
  installed/bin/python -m pip install --quiet --disable-pip-version-check -c "$root/constraints.txt" dist/*.whl
else
  "$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > "$(installed/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/dependencies.pth"
  installed/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --ignore-installed dist/*.whl
fi

mkdir empty
cd empty
export PYTHONPATH= OMP_NUM_THREADS=1
harness=$here/installed/bin/harness
"$here/installed/bin/python" -c "import harness, pathlib; assert pathlib.Path('$here') in pathlib.Path(harness.__file__).parents, harness.__file__"
small=(training.steps=2 training.evaluate_every=2 algorithm.prompts_per_step=8 algorithm.responses_per_prompt=4 algorithm.updates_per_step=4
  evaluation.benchmarks.arithmetic_heldout.problems=8 evaluation.samples_per_problem=4 runtime.workers=2)
"$harness" --version
"$harness" run experiment=base_variance 'experiment.seeds=[0,1]' "${small[@]}" > run.log 2>&1 || { tail -20 run.log; exit 1; }
"$harness" report experiment=base_variance formats=svg > report.log
test -s results/experiments/base_variance/report.html
"$harness" status experiment=base_variance --json | "$python" -c 'import json, sys; assert json.load(sys.stdin)["counts"] == {"finished": 4}'
"$harness" explain 'rewards=[1,0,0,1]' 'lengths=[5,9,11,7]' > /dev/null
"$harness" doctor | grep -q 'writable'
echo "installed from $(basename "$here"/dist/*.whl): 4 runs of an experiment, its report"
