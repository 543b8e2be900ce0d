#!/bin/sh
# Creates .venv, or reuses it, and installs this project into it, editable, with the extras named by $1.
# It installs again only when pyproject.toml, the extras or the place of the tree have changed.
# PYTHON=/path/to/python chooses the interpreter; otherwise the first suitable one is used.
set -eu
cd "$(dirname "$0")/.."
extras=${1:-dev}
stamp=.venv/installed

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# A name on the PATH may be a shim that only prints an error, so each one is run.
recent() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

find_python() {
    without_venv=
    for candidate in ${PYTHON:+"$PYTHON"} python3 python3.13 python3.12 python3.11 python3.14 python; do
        if recent "$candidate"; then
            if "$candidate" -c 'import ensurepip, venv' >/dev/null 2>&1; then
                printf '%s\n' "$candidate"
                return
            fi
            without_venv=${without_venv:-$candidate}
        fi
        if [ "$candidate" = "${PYTHON:-}" ]; then
            break
        fi
    done
    if [ -n "$without_venv" ]; then
        fail "$without_venv cannot create virtual environments: its module venv or ensurepip is missing" \
            "(on Debian and Ubuntu: apt install python3-venv)."
    fi
    fail "Python 3.11 or newer is needed; tried ${PYTHON:-python3, python3.11 to python3.14, python}." \
        "If it is elsewhere: make PYTHON=/path/to/python"
}

wanted=$(printf '%s\n' "$extras" "$PWD" && cat pyproject.toml)
if recent .venv/bin/python && [ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ]; then
    exit
fi

has_pip() {
    .venv/bin/python -m pip --version >/dev/null 2>&1 || .venv/bin/python -m ensurepip >/dev/null 2>&1
}

if ! recent .venv/bin/python || ! has_pip; then
    python=$(find_python)
    printf 'Creating .venv with %s (%s)\n' "$python" "$("$python" --version)"
    rm -rf .venv || fail "the old .venv cannot be removed; is it another user's?"
    "$python" -m venv .venv || fail ".venv could not be created with $python; see above."
fi
rm -f "$stamp" || fail ".venv cannot be written to; is it another user's?"

printf 'Installing sash[%s] into .venv\n' "$extras"
# Python compiles what is imported: bytecode of all packages takes pip as long as the rest, and most is never used.
DIST_EXTRA_CONFIG="$PWD/tools/wheel_build.cfg" \
    PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_USER=0 \
    .venv/bin/python -m pip install --quiet --no-compile --editable ".[$extras]" ||
    fail "pip could not install sash[$extras]; see above."
printf '%s\n' "$wanted" >"$stamp"
