#!/usr/bin/env bash
# Writes requirements*.txt from pyproject.toml: exact versions with hashes, for every platform and Python 3.10 or newer.
# Each file contains the one before it, with the same versions; requirements-browser.txt comes on top.
set -euo pipefail
cd "$(dirname "$0")/.."

export UV_CUSTOM_COMPILE_COMMAND="make requirements"

pin() {
    local output=$1
    shift
    uv pip compile --quiet --upgrade --universal --python-version 3.10 --generate-hashes \
        --no-emit-index-url --no-strip-extras --output-file "$output" "$@" > /dev/null
    echo "$output: $(grep -c '^[a-z]' "$output") packages"
}

pin requirements-build.txt --group build
pin requirements.txt pyproject.toml
pin requirements-loadtest.txt pyproject.toml --extra loadtest --constraint requirements.txt
pin requirements-dev.txt pyproject.toml --extra loadtest --extra dev --constraint requirements-loadtest.txt
pin requirements-browser.txt --group browser --constraint requirements-dev.txt
