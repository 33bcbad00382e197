#!/usr/bin/env bash
# Builds the wheel of the Python package `adbc_driver_halcyon` and says where it is. One wheel serves every Python from
# 3.9 on; the driver's library in it is what driver managers of other languages load. The engine is compiled as `./run`
# compiles it (docs/building.md); arguments go to `cargo build`.
#
# HALCYON_ADBC_LIBRARY  a library that is there already, to be packed as it is
# HALCYON_CACHE         folder for the Python environment that packs, outside the clone (default: ~/.cache/halcyon)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh

need_tools python3:python3
tools="${HALCYON_CACHE:-$HOME/.cache/halcyon}/wheel-venv"
if [ ! -x "$tools/bin/python" ]; then
    python3 -c 'import ensurepip' 2>/dev/null || install_packages python3-venv
    python3 -m venv "$tools"
fi
target="${CARGO_TARGET_DIR:-target}"
library="${HALCYON_ADBC_LIBRARY:-}"
if [ -z "$library" ]; then
    need_build_tools
    cargo build --release --locked --package halcyon-adbc "$@" >&2
    library="$target/release/libadbc_driver_halcyon.so"
fi

# Packed from a copy: what is built leaves nothing in the sources.
package=$(mktemp -d)
trap 'rm -rf "$package"' EXIT
cp -r crates/adbc/python/. "$package/"
cp "$library" "$package/adbc_driver_halcyon/libadbc_driver_halcyon.so"
cp LICENSE "$package/"
"$tools/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$target/wheels" "$package"
printf '%s\n' "$(realpath "$(ls -t "$target"/wheels/adbc_driver_halcyon-*.whl | head -n 1)")"
