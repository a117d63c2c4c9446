#!/bin/sh
# Creates the system user that the front runs as when root starts Howdah. Does nothing where the user exists, or where
# this is not root: an ordinary user runs all of Howdah itself.
set -eu

user=howdah

[ "$(id -u)" -eq 0 ] || exit 0
! id "$user" >/dev/null 2>&1 || exit 0

if command -v adduser >/dev/null && adduser --help 2>/dev/null | grep -q -- --system; then
    adduser --quiet --system --group --no-create-home --home /nonexistent "$user"
else
    useradd --system --user-group --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin "$user"
fi
echo "create-user: created the system user $user, which the front runs as"
