"""h2o, for files only."""

from peers import Peer, first_line, needed
from settings import fill, lines_if

CONFIGURATION = """
@user@
num-threads: @cores@
error-log: @folder@/error.log
pid-file: @folder@/h2o.pid
server-name: h2o
# A connection that nothing is asked on is kept as long as by the others.
http1-request-timeout: 15
hosts:
  default:
    listen:
      host: 127.0.0.1
      port: @port@
    paths:
      /:
        file.dir: @root@
        file.index: [ 'index.html' ]
        # Answers are sent as the file is; compression is off for all.
        file.send-compressed: OFF
"""


class H2o(Peer):
    name = "h2o"
    title = "h2o (files only)"
    serves_php = False

    def require(self) -> None:
        needed("h2o")

    def launch(self) -> None:
        text = fill(
            CONFIGURATION,
            user=lines_if(self.settings.user, f"user: {self.settings.user}"),
            cores=self.settings.cores,
            folder=self.folder,
            port=self.port,
            root=self.settings.root,
        )
        configuration = self.write("h2o.conf", text)
        self.run([needed("h2o"), "-m", "worker", "-c", str(configuration)], "h2o.log")

    def version(self) -> str:
        return first_line([needed("h2o"), "-v"], r"h2o version [0-9.]+")
