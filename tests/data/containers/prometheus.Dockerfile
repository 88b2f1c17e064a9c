FROM debian:bookworm-slim
COPY program /bin/prometheus
RUN install -d -o 65534 -g 65534 /prometheus
USER nobody
VOLUME /prometheus
ENTRYPOINT ["/bin/prometheus"]
