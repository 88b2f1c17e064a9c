FROM debian:bookworm-slim
COPY program /bin/alertmanager
# Debian's program reads its templates from files, which nothing here is written with.
RUN install -d /usr/share/prometheus/alertmanager \
    && touch /usr/share/prometheus/alertmanager/default.tmpl /usr/share/prometheus/alertmanager/email.tmpl
RUN install -d -o 65534 -g 65534 /alertmanager
USER nobody
VOLUME /alertmanager
ENTRYPOINT ["/bin/alertmanager"]
