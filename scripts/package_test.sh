#!/usr/bin/env bash
# Makes wheel and sdist of the library in build/dist, installs each into an empty environment, and runs the library's
# tests there against the wheel. Argument: the Python to use.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:-python3}
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT

rm -rf build/dist
.venv/bin/python -m build --outdir build/dist lock
for package in build/dist/*; do
    "$python" -m venv --clear "$room/venv"
    "$room/venv/bin/pip" install --quiet "$package"
    (cd / && "$room/venv/bin/etcd-lock" --help > /dev/null && "$room/venv/bin/pip" check)
done

# What the tests need, without the library's code: only its documents.
mkdir "$room/tree"
git archive HEAD -- app conftest.py docs labs loadtest lock/README.md pyproject.toml scripts tests | tar x -C "$room/tree"
"$python" -m venv --clear "$room/venv"
pip() { "$room/venv/bin/pip" install --quiet "$@"; }
pip --require-hashes -r requirements/build.txt
pip --require-hashes --no-build-isolation --no-binary=etcd3,jieba -r requirements/dev.txt
pip --no-deps build/dist/*.whl
cd "$room/tree"
"$room/venv/bin/python" -m pytest -n 3 --dist loadfile tests/lock
