"""Takes steps with aioquic against a server on 127.0.0.1, and prints what comes of them.

Arguments: the port, a file with the authority that is trusted, then steps:
get:PATH, post:PATH:LENGTH, websocket:PATH:TEXT, reconnect, early:PATH, retried, keys, move, ids,
version.
"""

import asyncio
import socket
import ssl
import sys

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated
from aioquic.quic.packet import QuicProtocolVersion

PATIENCE = 60


def own_socket():
    """A socket at an address that no server of a test has."""
    own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    own.bind(("127.0.0.2", 0))
    own.setblocking(False)
    return own


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **named):
        super().__init__(*args, **named)
        self.http = H3Connection(self._quic)
        self.answers = {}
        self.ends = {}

    def quic_event_received(self, event):
        for told in self.http.handle_event(event):
            answer = self.answers.get(getattr(told, "stream_id", None))
            if answer is None:
                continue
            if isinstance(told, HeadersReceived):
                answer["status"] = dict(told.headers)[b":status"].decode()
            if isinstance(told, DataReceived):
                answer["content"] += told.data
            if told.stream_ended and not self.ends[told.stream_id].done():
                self.ends[told.stream_id].set_result(answer)
        if isinstance(event, ConnectionTerminated):
            for end in self.ends.values():
                if not end.done():
                    end.set_exception(ConnectionError(event.reason_phrase))

    async def ask(self, method, path, content=b"", protocol=None):
        stream = self._quic.get_next_available_stream_id()
        self.answers[stream] = {"status": "", "content": b""}
        self.ends[stream] = asyncio.get_running_loop().create_future()
        head = [
            (b":method", method.encode()),
            (b":scheme", b"https"),
            (b":authority", b"a.example"),
            (b":path", path.encode()),
        ]
        if protocol:
            head[1:1] = [(b":protocol", protocol.encode())]
            head.append((b"sec-websocket-version", b"13"))
        self.http.send_headers(stream, head, end_stream=not content)
        if content:
            self.http.send_data(stream, content, end_stream=True)
        self.transmit()
        answer = await asyncio.wait_for(self.ends[stream], PATIENCE)
        shown = answer["content"]
        text = shown.decode() if len(shown) < 100 else shown[:8].decode()
        print(answer["status"], len(shown), text)


async def connect(configuration, port, tickets, early=None):
    loop = asyncio.get_running_loop()
    quic = QuicConnection(configuration=configuration, session_ticket_handler=tickets.append)
    _, client = await loop.create_datagram_endpoint(lambda: Client(quic), sock=own_socket())
    client.connect(("127.0.0.1", port))
    # Before the server has said anything.
    answer = asyncio.ensure_future(client.ask("GET", early)) if early else None
    await asyncio.wait_for(client.wait_connected(), PATIENCE)
    if answer:
        await answer
    return client


async def main():
    port, authority, steps = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    configuration = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN)
    configuration.server_name = "a.example"
    configuration.verify_mode = ssl.CERT_REQUIRED
    configuration.load_verify_locations(authority)
    tickets = []
    if steps[0] == "version":
        steps = steps[1:]
        # A version that nobody speaks: the server tells which ones it speaks.
        configuration.original_version = 0x1A2A3A4A
        configuration.supported_versions = [0x1A2A3A4A, QuicProtocolVersion.VERSION_1]
    client = await connect(configuration, port, tickets)
    for step in steps:
        name, *rest = step.split(":")
        if name == "get":
            await client.ask("GET", rest[0])
        elif name == "post":
            await client.ask("POST", rest[0], b"x" * int(rest[1]))
        elif name == "websocket":
            await client.ask("CONNECT", rest[0], rest[1].encode(), "websocket")
        elif name in ("reconnect", "early"):
            while not tickets:
                await asyncio.wait_for(client.ping(), PATIENCE)
            client.close()
            await client.wait_closed()
            configuration.session_ticket = tickets[-1]
            client = await connect(configuration, port, tickets, *rest)
            if client._quic.tls.session_resumed:
                print("resumed")
            if client._quic.tls.early_data_accepted:
                print("early")
        elif name == "retried":
            if client._quic._retry_source_connection_id is not None:
                print("retried")
        elif name == "keys":
            client.request_key_update()
            await asyncio.wait_for(client.ping(), PATIENCE)
        elif name == "ids":
            client.change_connection_id()
            await asyncio.wait_for(client.ping(), PATIENCE)
        elif name == "move":
            loop = asyncio.get_running_loop()
            former = client._transport
            await loop.create_datagram_endpoint(lambda: client, sock=own_socket())
            assert client._transport is not former
            client.change_connection_id()
    client.close()
    await asyncio.wait_for(client.wait_closed(), PATIENCE)


asyncio.run(main())
