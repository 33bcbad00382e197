# Sourced by ./run and ./test: finds or installs what they need, and says so when it cannot.
# Nothing here runs on its own.

say() { printf '%s\n' "$*" >&2; }

# need_tools "COMMAND:PACKAGE"…: installs, through apt-get as root or with sudo, the Debian
# packages of those commands that are missing; else says which are and ends.
need_tools() {
    local pair missing=()
    for pair in "$@"; do
        command -v "${pair%%:*}" >/dev/null 2>&1 || missing+=("${pair#*:}")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    install_packages "${missing[@]}"
}

install_packages() {
    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        as_root=(sudo)
        if ! sudo -n true 2>/dev/null && ! { [ -t 0 ] && command -v sudo >/dev/null 2>&1; }; then
            say "missing: $*. Install with: apt-get install $*"
            exit 2
        fi
    fi
    if ! command -v apt-get >/dev/null 2>&1; then
        say "missing: $* (names of Debian's packages; there is no apt-get here)"
        exit 2
    fi
    say "installing: $*"
    if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends "$@" >&2; then
        "${as_root[@]}" apt-get update >&2
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y --no-install-recommends "$@" >&2
    fi
}

# Rust by rustup; the version is checked by cargo (rust-version in Cargo.toml).
need_rust() {
    [ -d "$HOME/.cargo/bin" ] && PATH="$HOME/.cargo/bin:$PATH"
    if ! command -v cargo >/dev/null 2>&1; then
        say "missing: Rust 1.95 or newer, with cargo. Install it with rustup."
        exit 2
    fi
}

# The toolchain that every build needs: a C compiler for zstd, mimalloc, ring and, in the lab, SQLite.
need_build_tools() {
    need_rust
    need_tools cc:gcc make:make pkg-config:pkg-config git:git
    [ -e /usr/include/stdio.h ] || install_packages libc6-dev
}
