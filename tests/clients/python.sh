# Sourced by the clients that are Python packages: runs `check.py` beside the caller in the environment of
# tests/requirements.txt, which is made or completed outside the clone.
. "$(dirname "$0")/../../../scripts/common.sh"
need_tools python3:python3
venv="${HALCYON_VENV:-${HALCYON_CACHE:-$HOME/.cache/halcyon}/venv}"
if [ ! -x "$venv/bin/python" ]; then
    python3 -c 'import ensurepip' 2>/dev/null || install_packages python3-venv
    python3 -m venv "$venv"
fi

# run_python MODULES: installs what tests/requirements.txt names if one of the modules is missing.
run_python() {
    local here
    here="$(dirname "$0")"
    "$venv/bin/python" -c "import $1" 2>/dev/null ||
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
            -r "$here/../../requirements.txt"
    PYTHONPATH="$here/.." exec "$venv/bin/python" "$here/check.py"
}
