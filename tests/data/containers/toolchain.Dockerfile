FROM debian:bookworm-gcc
ADD toolchain.tar /usr/local/
COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY cargo /usr/local/cargo
ENV CARGO_HOME=/usr/local/cargo
