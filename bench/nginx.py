"""nginx in front of php-fpm, with a new upstream connection for each request and with kept ones."""

from peers import Peer, first_line, needed
from php_fpm import FpmPool
from settings import WORDPRESS_HOST, fill, lines_if

CONFIGURATION = """
daemon off;
# One worker per core, as nginx's manual advises.
worker_processes @cores@;
pid @folder@/nginx.pid;
error_log @folder@/error.log crit;
@user@
events {
    worker_connections 4096;
}
http {
    include /etc/nginx/mime.types;
    default_type application/octet-stream;
    access_log off;
    # Files leave by sendfile, the head in the same packet as the first bytes.
    sendfile on;
    tcp_nopush on;
    tcp_nodelay on;
    # The default of 1000 requests would close connections in the middle of a measurement.
    keepalive_requests 100000000;
    keepalive_timeout 75s;
    # Without it every request opens, stats and closes its file.
    open_file_cache max=10000 inactive=60s;
    open_file_cache_valid 60s;
    open_file_cache_min_uses 1;
    open_file_cache_errors on;
    server_tokens off;
    client_body_temp_path @folder@/body;
    proxy_temp_path @folder@/proxy;
    fastcgi_temp_path @folder@/fastcgi;
    uwsgi_temp_path @folder@/uwsgi;
    scgi_temp_path @folder@/scgi;
    upstream php {
        server unix:@socket@;
@keepalive@    }
    server {
        listen 127.0.0.1:@port@ backlog=1024;
        # Sent to scripts as SERVER_NAME, whatever Host says; WordPress compares it with its own name.
        server_name @host@;
        root @root@;
        index index.php index.html;
        location / {
        }
        location ~ [.]php$ {
            include /etc/nginx/fastcgi.conf;
            fastcgi_pass php;
            # Room for a whole answer of 1 MB: the defaults (8 × 4 KiB) would send it through a temporary file.
            fastcgi_buffer_size 32k;
            fastcgi_buffers 64 32k;
            fastcgi_busy_buffers_size 256k;
@keep_connection@        }
    }
}
"""


class NginxFpm(Peer):
    name = "nginx-fpm"
    title = "nginx + php-fpm"
    keep_alive = False

    def require(self) -> None:
        needed("nginx")
        _ = FpmPool(self.settings).binary

    def children(self) -> int:
        return self.settings.keep_alive_pool if self.keep_alive else self.settings.php_processes

    def launch(self) -> None:
        socket = FpmPool(self.settings).launch(self, self.children())
        text = fill(
            CONFIGURATION,
            cores=self.settings.cores,
            folder=self.folder,
            user=lines_if(self.settings.user, f"user {self.settings.user};"),
            socket=socket,
            keepalive=lines_if(
                self.keep_alive,
                # Per worker: as many as clients, so that none is ever closed for want of a place.
                f"        keepalive {self.settings.connections};\n        keepalive_requests 100000000;\n",
            ),
            keep_connection=lines_if(self.keep_alive, "            fastcgi_keep_conn on;\n"),
            port=self.port,
            host=WORDPRESS_HOST,
            root=self.settings.root,
        )
        configuration = self.write("nginx.conf", text)
        self.run([needed("nginx"), "-p", str(self.folder), "-c", str(configuration)], "nginx.log")

    def version(self) -> str:
        return first_line([needed("nginx"), "-v"], r"nginx/[0-9.]+") + ", " + FpmPool(self.settings).version()


class NginxFpmKeepAlive(NginxFpm):
    name = "nginx-fpm-keepalive"
    title = "nginx + php-fpm, kept connections"
    keep_alive = True
    unequal = "a larger pool: php-fpm pins a child to each kept connection, so it has (connections × nginx workers) children"
