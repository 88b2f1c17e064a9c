#!/bin/bash
# Whether glassbox takes sessions (/readyz): exit code 0 or 1. The image has no HTTP client; bash
# opens the connection itself. HEALTH_ADDRESS is host:port of the service, 127.0.0.1:8080 if unset.
set -euo pipefail
address="${HEALTH_ADDRESS:-127.0.0.1:8080}"
exec 3<>"/dev/tcp/${address%:*}/${address##*:}"
printf 'GET /readyz HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n' "$address" >&3
read -r -t 2 _ status _ <&3
[ "$status" = 200 ]
