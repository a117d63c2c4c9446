#!/bin/sh
# Installs what Howdah needs from the distribution, and only what is missing.
#
#   scripts/install-packages.sh LIST…  LIST: build | serve | test | applications | packages | bench
#
# `build` and `serve` are required: a package that cannot be had is an error. The others are wanted:
# what cannot be had is named, and the tests or the laboratory say themselves what they leave out
# without it.
set -eu

usage() {
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

[ $# -gt 0 ] || usage
command -v apt-get >/dev/null && command -v dpkg-query >/dev/null || {
    echo "install-packages: this is for Debian and its relatives; elsewhere install by hand" \
        "what 'packages_of' in $0 lists" >&2
    exit 1
}

# The PHP that the distribution carries: the one whose headers are installed, else the one that its
# embed library is for.
php_version() {
    if [ -n "${PHP_VERSION:-}" ]; then
        echo "$PHP_VERSION"
    elif command -v php-config >/dev/null; then
        php-config --version | cut -d. -f1,2
    else
        apt-cache depends libphp-embed 2>/dev/null |
            sed -n 's/.*Depends: libphp\([0-9.]*\)-embed.*/\1/p' | head -n 1
    fi
}

packages_of() {
    case $1 in
    build) echo "gcc libc6-dev make pkg-config binutils python3 php$php-dev libphp$php-embed" ;;
    serve) echo "php$php-opcache php$php-sqlite3 php$php-gd php$php-mbstring php$php-xml" \
        "php$php-curl php$php-intl php$php-zip php$php-mysql" ;;
    test) echo "apache2 nginx-light haproxy caddy libapache2-mod-php$php mariadb-server wordpress" \
        "wordpress-theme-twentytwentythree dokuwiki php-symfony-http-kernel php-symfony-routing" \
        "curl nghttp2-client procps fail2ban prometheus openssl sslscan chromium php$php-fpm" ;;
    applications) echo "dbconfig-no-thanks mediawiki phpmyadmin roundcube-core roundcube-sqlite3" \
        "dovecot-imapd shaarli simplesamlphp adminer tt-rss cacti" ;;
    packages) echo "dpkg-dev mmdebstrap" ;;
    bench) echo "apache2 libapache2-mod-php$php libapache2-mod-fcgid nginx-light lighttpd" \
        "lighttpd-mod-openssl php$php-fpm php$php-cgi wrk h2o caddy apache2-utils nghttp2-client" \
        "strace mariadb-server wordpress wordpress-theme-twentytwentythree" ;;
    *) usage ;;
    esac
}

is_required() {
    case $1 in build | serve) true ;; *) false ;; esac
}

is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

missing_of() {
    for package in $(packages_of "$1"); do
        is_installed "$package" || printf '%s ' "$package"
    done
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        echo "install-packages: needs root or sudo for: $*" >&2
        return 1
    fi
}

update_index() {
    [ -z "${index_updated:-}" ] || return 0
    index_updated=yes
    as_root apt-get -q update ||
        echo "install-packages: apt-get update failed; going on with the lists that are here" >&2
}

install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install "$@"
}

# A web server that apt-get installs must not start and take port 80; this policy is asked before a
# service is started.
policy=/usr/sbin/policy-rc.d
keep_daemons_from_starting() {
    [ ! -e "$policy" ] || return 0
    as_root sh -c "printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy"
    trap 'as_root rm -f "$policy"' EXIT
    trap 'exit 130' INT TERM HUP
}

php=$(php_version)
if [ -z "$php" ]; then
    update_index
    php=$(php_version)
fi
[ -n "$php" ] || {
    echo "install-packages: this distribution has no libphp-embed;" \
        "set PHP_VERSION (for example 8.2) to the PHP to use" >&2
    exit 1
}

for list in "$@"; do
    packages_of "$list" >/dev/null # An unknown list ends here, before anything is installed.
done

for list in "$@"; do
    missing=$(missing_of "$list")
    [ -n "$missing" ] || continue
    echo "install-packages: $list needs $missing"
    if ! is_required "$list" && ! as_root true 2>/dev/null; then
        echo "install-packages: neither root nor sudo, going on without: $missing" >&2
        continue
    fi
    update_index
    keep_daemons_from_starting
    # shellcheck disable=SC2086 # a list of words
    install $missing && continue
    if is_required "$list"; then
        echo "install-packages: could not install what '$list' needs: $missing" >&2
        exit 1
    fi
    for package in $missing; do
        install "$package" || echo "install-packages: going on without $package" >&2
    done
done
