"""lighttpd in front of php-fpm."""

from peers import Peer, first_line, needed
from php_fpm import FpmPool
from settings import fill, lines_if

CONFIGURATION = """
server.bind = "127.0.0.1"
server.port = @port@
server.document-root = "@root@"
server.errorlog = "@folder@/error.log"
server.upload-dirs = ( "@folder@" )
@user@
# mod_accesslog is not loaded: access logging is off.
server.modules = ( "mod_indexfile", "mod_fastcgi", "mod_staticfile" )
index-file.names = ( "index.php", "index.html" )
static-file.exclude-extensions = ( ".php" )
# One worker per core; with the default of one, files would be served by one core.
server.max-worker = @cores@
server.max-connections = 4096
server.max-fds = 16384
server.listen-backlog = 1024
# The default of 1000 requests would close connections in the middle of a measurement.
server.max-keep-alive-requests = 100000000
server.max-keep-alive-idle = 15
server.event-handler = "linux-sysepoll"
server.network-backend = "sendfile"
# Stat answers are kept for up to a second.
server.stat-cache-engine = "simple"
# Output is passed on as it comes; the default first collects an answer, larger ones in a temporary file.
server.stream-response-body = 1
server.tag = "lighttpd"
mimetype.assign = ( ".html" => "text/html", ".css" => "text/css", ".js" => "text/javascript", ".txt" => "text/plain" )
fastcgi.server = ( ".php" => (( "socket" => "@socket@" )) )
"""


class LighttpdFpm(Peer):
    name = "lighttpd-fpm"
    title = "lighttpd + php-fpm"

    def require(self) -> None:
        needed("lighttpd")
        _ = FpmPool(self.settings).binary

    def launch(self) -> None:
        socket = FpmPool(self.settings).launch(self, self.settings.php_processes)
        user = self.settings.user
        text = fill(
            CONFIGURATION,
            port=self.port,
            root=self.settings.root,
            folder=self.folder,
            user=lines_if(user, f'server.username = "{user}"\nserver.groupname = "{user}"\n'),
            cores=self.settings.cores,
            socket=socket,
        )
        configuration = self.write("lighttpd.conf", text)
        self.run([needed("lighttpd"), "-D", "-f", str(configuration)], "lighttpd.log")

    def version(self) -> str:
        return first_line([needed("lighttpd"), "-v"], r"lighttpd/[0-9.]+") + ", " + FpmPool(self.settings).version()
