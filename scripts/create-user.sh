#!/bin/sh
# Creates the system users that the front, and the process that orders certificates, run as when
# root starts Howdah. Does nothing where the users exist, or where this is not root: an ordinary
# user runs all of Howdah itself.
set -eu

[ "$(id -u)" -eq 0 ] || exit 0

create() {
    ! id "$1" >/dev/null 2>&1 || return 0
    if command -v adduser >/dev/null && adduser --help 2>/dev/null | grep -q -- --system; then
        adduser --quiet --system --group --no-create-home --home /nonexistent "$1"
    else
        useradd --system --user-group --no-create-home --home-dir /nonexistent \
            --shell /usr/sbin/nologin "$1"
    fi
    echo "create-user: created the system user $1, which $2 as"
}

create howdah "the front runs"
create howdah-acme "the process that orders certificates runs"
