#!/bin/sh
# Makes the secrets of the demo, where they are not there yet: keys of four callers, of which the
# service gets the hashes only, and the password of Grafana.
#   deploy/make-demo-keys.sh [FOLDER]     the folder is deploy/secrets, if left out
set -eu
folder="${1:-$(dirname "$0")/secrets}"
mkdir -p "$folder"

random() { # so many random bytes as base64url
    head -c "$1" /dev/urandom | base64 | tr '+/' '-_' | tr -d '=\n'
}

caller() { # name, principal, roles, scopes
    key="gbx_$(random 32)"
    hash="$(printf %s "$key" | sha256sum | cut -d' ' -f1)"
    printf '%s=%s\n' "$1" "$key" >&3
    printf '  %s:\n    hash: sha256:%s\n    principal: {id: %s, roles: [%s], scopes: [%s]}\n' "$1" "$hash" "$2" "$3" "$4" >&4
}

if [ -e "$folder/glassbox_api_keys" ]; then
    echo "$folder/glassbox_api_keys is there already; delete it and demo_keys for new ones" >&2
else
    # The keys are yours alone; hashes are read by the user of the container.
    (umask 077 && : > "$folder/demo_keys")
    exec 3> "$folder/demo_keys" 4> "$folder/glassbox_api_keys"
    echo 'api_keys:' >&4
    caller customer C-001 user 'spending:read, card:block'
    caller approver staff-1 approver ''
    caller operator ops-1 operator ''
    caller traffic C-002 user 'spending:read, card:block'
    exec 3>&- 4>&-
fi
[ -e "$folder/grafana_admin_password" ] || random 16 > "$folder/grafana_admin_password"
# What the container with the demonstration's traffic is given: the key of that caller alone.
(umask 077 && sed -n 's/^traffic=/GLASSBOX_API_KEY=/p' "$folder/demo_keys" > "$folder/traffic.env")
# Compose shows files as they are, and containers read them as other users.
chmod 0644 "$folder/glassbox_api_keys" "$folder/grafana_admin_password"
echo "the keys are in $folder/demo_keys, one NAME=KEY a line"
