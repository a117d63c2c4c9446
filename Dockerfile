# Howdah with PHP 8.2 in a container: not root, and with a root that is read only.
#
#   docker build -t howdah .
#   docker run --read-only --tmpfs /tmp --tmpfs /run/howdah:mode=0755,uid=10001 \
#       --cap-drop ALL --memory 512m --cpus 1 -p 8080:8080 -v /srv/example:/srv/site:ro howdah
#
# Threads follow the processors, and workers the memory, that the container has.

FROM rust:1-slim-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends \
        gcc libc6-dev make cmake pkg-config binutils php8.2-dev libphp8.2-embed
WORKDIR /build
COPY . .
RUN cargo build --locked --release --package howdah-server --package howdah-php-worker

FROM debian:12-slim
RUN apt-get update && apt-get install -y --no-install-recommends \
        ca-certificates libphp8.2-embed php8.2-opcache php8.2-curl php8.2-gd php8.2-intl \
        php8.2-mbstring php8.2-mysql php8.2-sqlite3 php8.2-xml php8.2-zip && \
    rm -rf /var/lib/apt/lists/*
RUN groupadd --system --gid 10001 howdah && \
    useradd --system --uid 10001 --gid howdah --no-create-home --home-dir /nonexistent howdah && \
    install -d -o howdah -g howdah /run/howdah /srv/site
COPY --from=build /build/target/release/howdah /build/target/release/howdah-php /usr/bin/
COPY packaging/container/howdah.toml /etc/howdah/howdah.toml
USER howdah
EXPOSE 8080
STOPSIGNAL SIGTERM
# Asks the front through the supervisor: fails where either does not answer.
HEALTHCHECK --interval=10s --timeout=15s --start-period=60s \
    CMD ["howdah", "status", "--json", "--config", "/etc/howdah/howdah.toml"]
ENTRYPOINT ["howdah"]
CMD ["serve", "--config", "/etc/howdah/howdah.toml"]
