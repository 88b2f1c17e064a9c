FROM debian:bookworm-slim
COPY program /run.sh
RUN install -d -o 472 -g 0 /var/lib/grafana
USER 472
ENTRYPOINT ["/run.sh"]
