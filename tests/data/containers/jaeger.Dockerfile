FROM debian:bookworm-slim
COPY program /cmd/jaeger/jaeger-linux
USER 10001
ENTRYPOINT ["/cmd/jaeger/jaeger-linux"]
