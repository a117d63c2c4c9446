"""Takes steps with aioquic against a server on 127.0.0.1, and prints what comes of them.

Arguments: the port, a file with the authority that is trusted, then steps:
get:PATH, post:PATH:LENGTH, uploads:PATH:LENGTH:COUNT, websocket:PATH:TEXT, reconnect, early:PATH,
retried, keys, move, ids, version, storm:KIND:PACKETS.
"""

import asyncio
import os
import socket
import ssl
import sys

from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import ConnectionTerminated, StopSendingReceived, StreamReset
from aioquic.quic.packet import QuicProtocolVersion
from aioquic.tls import Epoch

PATIENCE = 60


def integer(value):
    """An integer of variable length."""
    return (value | 1 << 63 | 1 << 62).to_bytes(8, "big")


def fragments(number):
    """Content of one byte each, with a hole behind each."""
    first = 2 * 60 * number + 1
    offsets = range(first, first + 120, 2)
    return b"".join(b"\x0e\x00" + integer(offset) + b"\x01x" for offset in offsets)


def new_ids(number):
    """Names for the connection, each of which makes the former ones invalid."""
    first = 10 + 20 * number
    rest = b"\x08" + os.urandom(8) + os.urandom(16)
    numbers = [integer(number) for number in range(first, first + 20)]
    return b"".join(b"\x18" + number + number + rest for number in numbers)


# The payload of each packet of a storm, by its number.
STORMS = {
    "challenges": lambda number: b"".join(b"\x1a" + os.urandom(8) for _ in range(100)),
    "ids": new_ids,
    "retirements": lambda number: b"\x19" + integer(1000 + number),
    "resets": lambda number: b"\x04" + integer(4 * number) + b"\x00\x00",
    "stops": lambda number: b"\x05" + integer(4 * number + 3) + b"\x00",
    "confirmations": lambda number: b"\x02" + integer(1_000_000 + number) + b"\x00\x00\x00",
    "handshakes": lambda number: b"\x06" + integer(1 << 20) + b"\x01x",
    "tokens": lambda number: b"\x07\x01x",
    "unknown": lambda number: b"\x40\x99",
    "pings": lambda number: b"\x01" * 1000,
    "tiny": lambda number: b"\x01\x00\x00\x00",
    "blocked": lambda number: b"\x14\x00\x16\x00" * 200,
    "fragments": fragments,
    "garbage": lambda number: b"\x01\x00\x00\x00",
}


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
        # What the server has said of streams that it broke off.
        self.breaks = set()
        # The code with which the server has ended the connection.
        self.end = None
        self.port = 0

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
        if isinstance(event, (StopSendingReceived, StreamReset)):
            self.breaks.add(f"{type(event).__name__} {event.error_code:#x}")
            end = self.ends.get(event.stream_id)
            if isinstance(event, StreamReset) and end and not end.done():
                end.set_result(self.answers[event.stream_id])
        if isinstance(event, ConnectionTerminated):
            self.end = event.error_code
            for end in self.ends.values():
                if not end.done():
                    end.set_exception(ConnectionError(event.reason_phrase))

    async def ask(self, method, path, content=b"", protocol=None):
        answer = await self.answer(method, path, content, protocol)
        shown = answer["content"]
        text = shown.decode() if len(shown) < 100 else shown[:8].decode()
        print(answer["status"], len(shown), text)

    async def answer(self, method, path, content=b"", protocol=None):
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
        return await asyncio.wait_for(self.ends[stream], PATIENCE)

    async def storm(self, kind, count):
        """Sends packets that no client needs. Returns what has become of the connection."""
        quic, sent = self._quic, 0
        crypto = quic._cryptos[Epoch.ONE_RTT]
        for number in range(count):
            payload = STORMS[kind](number)
            head = bytes([0x43 | crypto.key_phase << 2]) + quic._peer_cid.cid
            head += (quic._packet_number & 0xFFFFFFFF).to_bytes(4, "big")
            packet = crypto.encrypt_packet(head, payload, quic._packet_number)
            quic._packet_number += 1
            if kind == "garbage":
                packet += os.urandom(1000)
            self._transport.sendto(packet, ("127.0.0.1", self.port))
            sent += 1
            if number % 20 == 19:
                await asyncio.sleep(0.001)
            if self.end is not None:
                break
        try:
            await asyncio.wait_for(self.ping(), 20)
            return "alive"
        except (ConnectionError, asyncio.TimeoutError):
            return "silent" if self.end is None else f"ended {self.end:#x}"


async def connect(configuration, port, tickets, early=None):
    loop = asyncio.get_running_loop()
    quic = QuicConnection(configuration=configuration, session_ticket_handler=tickets.append)
    _, client = await loop.create_datagram_endpoint(lambda: Client(quic), sock=own_socket())
    client.port = port
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
        elif name == "uploads":
            content = b"x" * int(rest[1])
            answers = [await client.answer("POST", rest[0], content) for _ in range(int(rest[2]))]
            statuses = sorted({answer["status"] for answer in answers})
            print(len(answers), *statuses, *sorted(client.breaks))
            client.breaks.clear()
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
        elif name == "storm":
            other = await connect(configuration, port, tickets)
            print(rest[0], await other.storm(rest[0], int(rest[1])))
            other.close()
            client.close()
            client = await connect(configuration, port, tickets)
        elif name == "move":
            loop = asyncio.get_running_loop()
            former = client._transport
            await loop.create_datagram_endpoint(lambda: client, sock=own_socket())
            assert client._transport is not former
            client.change_connection_id()
    client.close()
    await asyncio.wait_for(client.wait_closed(), PATIENCE)


asyncio.run(main())
