# Sourced by the suites' scripts: a Python environment outside the clone, and the test folders of source
# packages. `python` is the interpreter, `work` a folder that is removed at the end.
. "$here/../../../scripts/common.sh"
need_tools python3:python3 tar:tar
: "${PORT:?HOST and PORT say where the server is}"
export HOST="${HOST:-127.0.0.1}" PORT PYTHONDONTWRITEBYTECODE=1
cache="${HALCYON_CACHE:-$HOME/.cache/halcyon}"
python="$cache/suites/bin/python"
if [ ! -x "$python" ]; then
    python3 -c 'import ensurepip' 2>/dev/null || install_packages python3-venv
    python3 -m venv "$cache/suites"
fi
"$python" -c 'import django, sqlalchemy, asyncpg, psycopg_pool, pytest, tblib' 2>/dev/null ||
    grep -E '^(django|sqlalchemy|asyncpg|psycopg)' "$here/../../requirements.txt" |
    "$python" -m pip install --quiet --disable-pip-version-check -r /dev/stdin \
        'psycopg[pool]' pytest tblib || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# source_of PACKAGE: unpacks the source of the version that is installed, once, and prints the folder.
source_of() {
    local version folder
    version=$("$python" -c "import importlib.metadata as m; print(m.version('$1'))") || return 1
    folder="$cache/$1-$version"
    if [ ! -d "$folder" ]; then
        "$python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary "$1" \
            --dest "$work" "$1==$version" >&2 || return 1
        tar -xzf "$work/$1-$version.tar.gz" -C "$cache" || return 1
    fi
    printf '%s\n' "$folder"
}

# Leaves the database with the empty schemas that the suites expect.
empty() {
    "$python" - <<'END'
import os
import psycopg

with psycopg.connect(host=os.environ["HOST"], port=os.environ["PORT"], user="halcyon", dbname="halcyon",
                     autocommit=True) as connection:
    for schema in ["public", "test_schema", "test_schema_2"]:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        connection.execute(f"CREATE SCHEMA {schema}")
END
}
