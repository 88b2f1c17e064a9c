FROM debian:bookworm-slim
COPY cargo /usr/local/bin/cargo
COPY program /opt/glassbox
