//! The parts of Apache's configuration.

/// The folder of the modules.
pub(super) const MODULES: &str = "/usr/lib/apache2/modules";

pub(super) const CONFIGURATION: &str = "\
ServerRoot \"@folder@\"
DefaultRuntimeDir \"@folder@\"
PidFile \"@folder@/httpd.pid\"
Listen 127.0.0.1:@port@
ListenBacklog 1024
ServerName localhost
@user@
# Only what the measured pages need: each further module is a hook in the way of every request.
@mpm_modules@LoadModule authz_core_module @modules@/mod_authz_core.so
LoadModule mime_module @modules@/mod_mime.so
LoadModule dir_module @modules@/mod_dir.so
@rule_modules@@tls@@php@
# No CustomLog: access logging is off.
ErrorLog \"@folder@/error.log\"
LogLevel crit
Timeout 60
KeepAlive @kept@
# 0 is without limit: the default of 100 would close connections in the middle of a measurement.
MaxKeepAliveRequests 0
KeepAliveTimeout @keep@
# Off in Apache's defaults for the sake of network file systems; these files are local.
EnableSendfile On
EnableMMAP On
HostnameLookups Off
ServerTokens Prod
TypesConfig /etc/mime.types
DocumentRoot \"@root@\"
DirectoryIndex index.php index.html
<Directory \"/\">
    AllowOverride None
    Require all denied
</Directory>
<Directory \"@root@\">
    # FollowSymLinks spares an lstat for every part of every path.
    Options FollowSymLinks
    AllowOverride @override@
    Require all granted
</Directory>
@mpm_settings@";

/// A process for every connection, started in advance: nothing is forked while measuring.
pub(super) const PREFORK: &str = "\
StartServers @workers@
MinSpareServers 1
MaxSpareServers @workers@
ServerLimit @workers@
MaxRequestWorkers @workers@
MaxConnectionsPerChild 0
";

/// Debian's mpm_prefork.conf.
pub(super) const PREFORK_AS_INSTALLED: &str = "\
StartServers 5
MinSpareServers 5
MaxSpareServers 10
MaxRequestWorkers 150
MaxConnectionsPerChild 0
";

/// Debian's mpm_worker.conf and mpm_event.conf.
pub(super) const THREADED_AS_INSTALLED: &str = "\
StartServers 2
MinSpareThreads 25
MaxSpareThreads 75
ThreadLimit 64
ThreadsPerChild 25
MaxRequestWorkers 150
MaxConnectionsPerChild 0
";

/// One process per core, with threads for all connections. The spare limits keep processes from
/// being started or ended while measuring.
pub(super) const THREADED: &str = "\
StartServers @processes@
ServerLimit @processes@
ThreadLimit @threads@
ThreadsPerChild @threads@
MaxRequestWorkers @all@
MinSpareThreads 1
MaxSpareThreads @all@
MaxConnectionsPerChild 0
";

pub(super) const TLS: &str = "\
LoadModule ssl_module @modules@/mod_ssl.so
LoadModule http2_module @modules@/mod_http2.so
LoadModule socache_shmcb_module @modules@/mod_socache_shmcb.so
SSLEngine on
SSLCertificateFile \"@certificate@\"
SSLCertificateKeyFile \"@key@\"
SSLProtocol -all +TLSv1.2 +TLSv1.3
# Tickets are on by default. The cache is for clients without tickets.
SSLSessionCache \"shmcb:@folder@/sessions(512000)\"
Protocols h2 http/1.1
";

pub(super) const FCGID: &str = "\
LoadModule fcgid_module @modules@/mod_fcgid.so
FcgidIPCDir \"@folder@/fcgid\"
FcgidProcessTableFile \"@folder@/fcgid/shm\"
# The same number of PHP processes as everywhere, never ended for age, idleness or requests served.
FcgidMaxProcesses @processes@
FcgidMaxProcessesPerClass @processes@
FcgidMinProcessesPerClass @processes@
FcgidMaxRequestsPerProcess 0
FcgidProcessLifeTime 0
FcgidIdleTimeout 0
# The brake on starting processes is for machines under attack; here the warm-up must be able to \
start them all.
FcgidSpawnScoreUpLimit 1000
# The output is passed on in large pieces rather than in the default 64 KiB.
FcgidOutputBufferSize 1048576
FcgidConnectTimeout 20
FcgidIOTimeout 60
# One request at a time for each process: mod_fcgid manages the processes itself.
FcgidInitialEnv PHP_FCGI_CHILDREN 0
FcgidInitialEnv PHP_FCGI_MAX_REQUESTS 0
FcgidWrapper \"@cgi@ -c @ini@\" .php
<FilesMatch \"[.]php$\">
    SetHandler fcgid-script
    Options +ExecCGI
</FilesMatch>
";
