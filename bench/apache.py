"""Apache httpd: prefork with mod_php, event with php-fpm, worker with mod_fcgid."""

from pathlib import Path

from peers import Absent, Peer, first_line, needed
from php_fpm import FpmPool
from settings import fill, lines_if

MODULES = Path("/usr/lib/apache2/modules")

CONFIGURATION = """
ServerRoot "@folder@"
DefaultRuntimeDir "@folder@"
PidFile "@folder@/httpd.pid"
Listen 127.0.0.1:@port@
ListenBacklog 1024
ServerName localhost
@user@
# Only what the measured pages need: each further module is a hook in the way of every request.
LoadModule mpm_@mpm@_module @modules@/mod_mpm_@mpm@.so
LoadModule authz_core_module @modules@/mod_authz_core.so
LoadModule mime_module @modules@/mod_mime.so
LoadModule dir_module @modules@/mod_dir.so
@php@
# No CustomLog: access logging is off.
ErrorLog "@folder@/error.log"
LogLevel crit
Timeout 60
KeepAlive On
# 0 is without limit: the default of 100 would close connections in the middle of a measurement.
MaxKeepAliveRequests 0
KeepAliveTimeout 15
# Off in Apache's defaults for the sake of network file systems; these files are local.
EnableSendfile On
EnableMMAP On
HostnameLookups Off
ServerTokens Prod
TypesConfig /etc/mime.types
DocumentRoot "@root@"
DirectoryIndex index.php index.html
<Directory "/">
    AllowOverride None
    Require all denied
</Directory>
<Directory "@root@">
    # FollowSymLinks spares an lstat for every part of every path.
    Options FollowSymLinks
    AllowOverride @override@
    Require all granted
</Directory>
@mpm_settings@
"""

PREFORK = """
# A process for every connection, all there from the start: no forking while measuring.
StartServers @processes@
MinSpareServers 1
MaxSpareServers @processes@
ServerLimit @processes@
MaxRequestWorkers @processes@
MaxConnectionsPerChild 0
"""

# One process per core with threads for all connections; the spare limits are such that none is started or ended meanwhile.
THREADED = """
StartServers @cores@
ServerLimit @cores@
ThreadLimit @threads@
ThreadsPerChild @threads@
MaxRequestWorkers @all_threads@
MinSpareThreads 1
MaxSpareThreads @all_threads@
MaxConnectionsPerChild 0
"""

MOD_PHP = """
LoadModule php_module @modules@/libphp@version@.so
PHPIniDir "@ini@"
<FilesMatch "[.]php$">
    SetHandler application/x-httpd-php
</FilesMatch>
"""

PROXY_FCGI = """
LoadModule proxy_module @modules@/mod_proxy.so
LoadModule proxy_fcgi_module @modules@/mod_proxy_fcgi.so
<FilesMatch "[.]php$">
    SetHandler "proxy:unix:@socket@|fcgi://php-fpm"
</FilesMatch>
@proxy@
"""

# Connections to php-fpm are kept by each process, one for each of its threads at most.
PROXY_KEPT = """
<Proxy "fcgi://php-fpm" enablereuse=on max=@threads@>
</Proxy>
"""

FCGID = """
LoadModule fcgid_module @modules@/mod_fcgid.so
FcgidIPCDir "@folder@/fcgid"
FcgidProcessTableFile "@folder@/fcgid/shm"
# The same number of PHP processes as everywhere, never ended for age, idleness or requests served.
FcgidMaxProcesses @processes@
FcgidMaxProcessesPerClass @processes@
FcgidMinProcessesPerClass @processes@
FcgidMaxRequestsPerProcess 0
FcgidProcessLifeTime 0
FcgidIdleTimeout 0
# The brake on starting processes is for machines under attack; here the warm-up must be able to start them all.
FcgidSpawnScoreUpLimit 1000
# The output is passed on in large pieces rather than in the default 64 KiB.
FcgidOutputBufferSize 1048576
FcgidConnectTimeout 20
FcgidIOTimeout 60
# One request at a time for each process: mod_fcgid manages the processes itself.
FcgidInitialEnv PHP_FCGI_CHILDREN 0
FcgidInitialEnv PHP_FCGI_MAX_REQUESTS 0
FcgidWrapper "@cgi@ -c @ini@" .php
<FilesMatch "[.]php$">
    SetHandler fcgid-script
    Options +ExecCGI
</FilesMatch>
"""


class Apache(Peer):
    """What the variants share; each says its MPM and how PHP is reached."""

    mpm: str
    override = "None"
    module_files: tuple[str, ...] = ()

    def require(self) -> None:
        needed("apache2")
        for name in (f"mod_mpm_{self.mpm}.so", *self.module_files):
            name = name.replace("@version@", self.settings.php_version)
            if not (MODULES / name).exists():
                raise Absent(f"Apache's {name} is not installed")

    def php(self) -> str:
        raise NotImplementedError

    def threads(self) -> int:
        return max(self.settings.connections, 32)

    def mpm_settings(self) -> str:
        if self.mpm == "prefork":
            return fill(PREFORK, processes=self.settings.php_processes)
        cores, threads = self.settings.cores, self.threads()
        return fill(THREADED, cores=cores, threads=threads, all_threads=cores * threads)

    def launch(self) -> None:
        php = self.php()
        text = fill(
            CONFIGURATION,
            php=php,
            mpm_settings=self.mpm_settings(),
            folder=self.folder,
            port=self.port,
            user=lines_if(self.settings.user, f"User {self.settings.user}\nGroup {self.settings.user}\n"),
            mpm=self.mpm,
            modules=MODULES,
            root=self.settings.root,
            override=self.override,
        )
        configuration = self.write("httpd.conf", text)
        self.run([needed("apache2"), "-D", "FOREGROUND", "-f", str(configuration)], "httpd.log")

    def version(self) -> str:
        return first_line([needed("apache2"), "-v"], r"Apache/[0-9.]+")


class PreforkModPhp(Apache):
    name = "apache-mod_php"
    title = "Apache prefork + mod_php"
    mpm = "prefork"
    module_files = ("libphp@version@.so",)

    def php(self) -> str:
        return fill(MOD_PHP, modules=MODULES, version=self.settings.php_version, ini=self.settings.ini_file)


class PreforkModPhpHtaccess(PreforkModPhp):
    name = "apache-mod_php-htaccess"
    title = "the same, AllowOverride All"
    override = "All"


class EventFpm(Apache):
    name = "apache-event-fpm"
    title = "Apache event + php-fpm"
    mpm = "event"
    module_files = ("mod_proxy_fcgi.so",)
    kept = False

    def require(self) -> None:
        super().require()
        _ = FpmPool(self.settings).binary

    def php(self) -> str:
        children = self.settings.cores * self.threads() if self.kept else self.settings.php_processes
        socket = FpmPool(self.settings).launch(self, children)
        proxy = fill(PROXY_KEPT, threads=self.threads()) if self.kept else ""
        return fill(PROXY_FCGI, modules=MODULES, socket=socket, proxy=proxy)

    def version(self) -> str:
        return super().version() + ", " + FpmPool(self.settings).version()


class EventFpmKeepAlive(EventFpm):
    name = "apache-event-fpm-keepalive"
    title = "Apache event + php-fpm, kept connections"
    kept = True
    unequal = "a larger pool: php-fpm pins a child to each kept connection, so it has one for every thread of Apache"


class WorkerFcgid(Apache):
    name = "apache-worker-fcgid"
    title = "Apache worker + mod_fcgid"
    mpm = "worker"
    module_files = ("mod_fcgid.so",)
    unequal = "each PHP process has an opcache of its own: mod_fcgid starts them one by one"

    def cgi(self) -> str:
        return needed(f"php-cgi{self.settings.php_version}", "php-cgi")

    def require(self) -> None:
        super().require()
        self.cgi()

    def php(self) -> str:
        sockets = self.folder / "fcgid"
        sockets.mkdir()
        self.settings.give(sockets)
        return fill(
            FCGID,
            modules=MODULES,
            folder=self.folder,
            processes=self.settings.php_processes,
            cgi=self.cgi(),
            ini=self.settings.ini_file,
        )

    def version(self) -> str:
        return super().version() + ", " + first_line([self.cgi(), "-v"], r"PHP [0-9.]+")
