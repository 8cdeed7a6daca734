#!/usr/bin/env bash
# Writes requirements/*.txt from pyproject.toml: exact versions with hashes, for every platform and Python 3.10 or newer.
# Each file contains the one before it, with the same versions. UPGRADE= keeps what is pinned.
set -euo pipefail
cd "$(dirname "$0")/.."

export UV_CUSTOM_COMPILE_COMMAND="make requirements"

pin() {
    local output=requirements/$1.txt
    shift
    uv pip compile --quiet ${UPGRADE---upgrade} --universal --python-version 3.10 --generate-hashes \
        --no-emit-index-url --no-strip-extras --output-file "$output" "$@" > /dev/null
    echo "$output: $(grep -c '^[a-z]' "$output") packages"
}

pin build --group build
pin base pyproject.toml
pin loadtest pyproject.toml --extra loadtest --constraint requirements/base.txt
pin dev pyproject.toml --extra loadtest --extra dev --constraint requirements/loadtest.txt
