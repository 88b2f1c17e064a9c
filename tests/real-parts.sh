#!/usr/bin/env bash
# Installs the real parts that the tests are run against: Debian packages where this is a Debian
# machine that we may install on, else whatever is already here. A part that is missing after
# this is a visible skip on a user's machine and a failure in CI (the tests see to both).
set -euo pipefail

# command -> Debian package
parts=(promtool:prometheus script:bsdutils strace:strace initdb:postgresql)

# Debian keeps the programs of Postgres out of PATH.
have() { command -v "$1" >/dev/null || compgen -G "/usr/lib/postgresql/*/bin/$1" >/dev/null; }

missing=()
for part in "${parts[@]}"; do
    have "${part%%:*}" || missing+=("$part")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if command -v apt-get >/dev/null && [ "$(id -u)" -eq 0 ]; then
    packages=("${missing[@]##*:}")
    echo "installing for the tests: ${packages[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null 2>&1 ||
        { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null; } ||
        echo "could not install: ${packages[*]}"
fi

for part in "${missing[@]}"; do
    have "${part%%:*}" ||
        echo "SKIP: ${part%%:*} is missing (Debian package ${part##*:}); the tests that need it will say so"
done
