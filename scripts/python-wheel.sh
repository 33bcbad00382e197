#!/usr/bin/env bash
# Builds the wheel of the Python package `halcyon` and says where it is. One wheel serves every CPython from 3.9 on.
# The engine is compiled as `./run` compiles it (docs/building.md); arguments go to `maturin build`.
#
# HALCYON_CACHE  folder for the Python environment with maturin, outside the clone (default: ~/.cache/halcyon)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

need_build_tools
need_tools python3:python3
tools="${HALCYON_CACHE:-$HOME/.cache/halcyon}/wheel-venv"
if [ ! -x "$tools/bin/python" ]; then
    python3 -c 'import ensurepip' 2>/dev/null || install_packages python3-venv
    python3 -m venv "$tools"
fi
[ -x "$tools/bin/maturin" ] ||
    "$tools/bin/python" -m pip install --quiet --disable-pip-version-check 'maturin>=1.9,<2'

wheels="${CARGO_TARGET_DIR:-target}/wheels"
# The wheel is for machines like this one (`linux_x86_64`): those of other distributions are built in their containers.
"$tools/bin/maturin" build --release --manifest-path crates/python/Cargo.toml --out "$wheels" \
    --compatibility linux "$@"
printf '%s\n' "$(realpath "$(ls -t "$wheels"/halcyon-*.whl | head -n 1)")"
