"""Howdah itself."""

from peers import Absent, Peer, first_line
from settings import fill

CONFIGURATION = """
listen = ["127.0.0.1:@port@"]
# Event-loop threads: one per core.
threads = "auto"
user = "@account@"

[limits]
# Like the others: no connection is closed in the middle of a measurement.
keep_alive_requests = 0

[log]
access = "off"

[[site]]
hosts = ["*"]
root = "@root@"
index = ["index.php", "index.html"]
# The others follow links as well.
symlinks = "follow"

[site.php]
workers = @processes@
# Like the others: workers live on.
max_requests = 0
ini_file = "@ini@"
state_dir = "@folder@/state"
"""


class Howdah(Peer):
    name = "howdah"
    title = "Howdah"

    def require(self) -> None:
        if not self.settings.howdah.exists():
            raise Absent(f"{self.settings.howdah} is not built")

    def launch(self) -> None:
        text = fill(
            CONFIGURATION,
            port=self.port,
            root=self.settings.root,
            processes=self.settings.php_processes,
            account=self.settings.account,
            folder=self.folder,
            ini=self.settings.ini_file,
        )
        configuration = self.write("howdah.toml", text)
        self.run([str(self.settings.howdah), "serve", "--config", str(configuration)], "howdah.log")

    def version(self) -> str:
        return first_line([str(self.settings.howdah), "--version"], r"howdah [0-9.]+\S*")
