#!/usr/bin/env python3
"""Tests whimbrel.lua through tshark, with packets from docs/vectors and packets sealed here. Plain Python 3.

    tools/wireshark/test.py [--mutations N] [--seed N] [--keep DIR]
"""
import argparse
import hashlib
import hmac
import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
LUA = HERE / "whimbrel.lua"
VECTORS = HERE.parent.parent / "docs" / "vectors" / "handshake.txt"
BLOCKS = HERE.parent.parent / "docs" / "vectors" / "blocks.txt"
PORT = 4433


# Ciphers, simple and slow. They are independent of the dissector's, and checked against the vectors below.

def _sbox():
    def times(a, b):
        product = 0
        while b:
            product ^= a if b & 1 else 0
            a = a << 1 ^ (0x11B if a & 0x80 else 0)
            b >>= 1
        return product
    box = []
    for x in range(256):
        inverse = next((y for y in range(256) if times(x, y) == 1), 0)
        box.append(0x63 ^ _spread(inverse))
    return box


def _spread(x):
    out = x
    for n in range(1, 5):
        out ^= (x << n | x >> (8 - n)) & 0xFF
    return out


SBOX = _sbox()


def aes(key, block):
    def double(x):
        return (x << 1 ^ (0x11B if x & 0x80 else 0)) & 0xFF
    words, rcon = [list(key[i:i + 4]) for i in range(0, 16, 4)], 1
    for i in range(4, 44):
        word = words[-1]
        if i % 4 == 0:
            word = [SBOX[b] for b in word[1:] + word[:1]]
            word[0] ^= rcon
            rcon = double(rcon)
        words.append([a ^ b for a, b in zip(words[-4], word)])
    keys = [sum(words[i:i + 4], []) for i in range(0, 44, 4)]
    state = [a ^ b for a, b in zip(block, keys[0])]
    for turn in range(1, 11):
        state = [SBOX[state[(i + 4 * (i % 4)) % 16]] for i in range(16)]
        if turn < 10:
            mixed = []
            for c in range(0, 16, 4):
                col = state[c:c + 4]
                for r in range(4):
                    a, b = col[r], col[(r + 1) % 4]
                    mixed.append(double(a) ^ double(b) ^ b ^ col[(r + 2) % 4] ^ col[(r + 3) % 4])
            state = mixed
        state = [a ^ b for a, b in zip(state, keys[turn])]
    return bytes(state)


def aes_gcm(key, nonce, aad, plain):
    def blocks(data):
        return [data[i:i + 16].ljust(16, b"\0") for i in range(0, len(data), 16)]
    stream = b"".join(aes(key, nonce + struct.pack(">I", 2 + i)) for i in range(len(blocks(plain))))
    out = bytes(a ^ b for a, b in zip(plain, stream))
    h, y = int.from_bytes(aes(key, bytes(16)), "big"), 0
    for block in blocks(aad) + blocks(out) + [struct.pack(">QQ", 8 * len(aad), 8 * len(out))]:
        x, v, y = y ^ int.from_bytes(block, "big"), h, 0
        for i in range(127, -1, -1):
            if x >> i & 1:
                y ^= v
            v = v >> 1 ^ (0xE1 << 120 if v & 1 else 0)
    tag = y ^ int.from_bytes(aes(key, nonce + struct.pack(">I", 1)), "big")
    return out + tag.to_bytes(16, "big")


def chacha(key, counter, nonce):
    start = list(struct.unpack("<16I", b"expand 32-byte k" + key + struct.pack("<I", counter) + nonce))
    x = start[:]

    def rotate(v, n):
        return (v << n | v >> (32 - n)) & 0xFFFFFFFF
    order = [(0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
             (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14)]
    for _ in range(10):
        for a, b, c, d in order:
            for to, other, turned, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
                x[to] = (x[to] + x[other]) & 0xFFFFFFFF
                x[turned] = rotate(x[turned] ^ x[to], by)
    return struct.pack("<16I", *((a + b) & 0xFFFFFFFF for a, b in zip(x, start)))


def chacha_poly(key, nonce, aad, plain):
    stream = b"".join(chacha(key, 1 + i, nonce) for i in range(len(plain) // 64 + 1))
    out = bytes(a ^ b for a, b in zip(plain, stream))
    block = chacha(key, 0, nonce)
    r = int.from_bytes(block[:16], "little") & 0x0FFFFFFC0FFFFFFC0FFFFFFC0FFFFFFF
    message = b"".join(p + bytes(-len(p) % 16) for p in (aad, out)) + struct.pack("<QQ", len(aad), len(out))
    acc = 0
    for i in range(0, len(message), 16):
        acc = (acc + int.from_bytes(message[i:i + 16], "little") + (1 << 128)) * r % ((1 << 130) - 5)
    tag = (acc + int.from_bytes(block[16:32], "little")) % (1 << 128)
    return out + tag.to_bytes(16, "little")


AES, CHACHA = 1, 2


def expand(secret, label, length):
    out, part, i = b"", b"", 1
    while len(out) < length:
        part = hmac.new(secret, part + b"whimbrel " + label + bytes([i]), hashlib.sha256).digest()
        out, i = out + part, i + 1
    return out[:length]


class Keys:
    """The keys of one direction, generation and path."""

    def __init__(self, aead, secret, path=0, first=None):
        length = 16 if aead == AES else 32
        self.aead = aead
        self.key, iv = expand(secret, b"key", length), expand(secret, b"iv", 12)
        self.iv = bytes(a ^ b for a, b in zip(iv, path.to_bytes(4, "big") + bytes(8)))
        self.hp = expand(first or secret, b"hp", length)

    def line(self, cid):
        return f"WHIMBREL_TRAFFIC {cid.hex()} {self.aead} {self.key.hex()} {self.iv.hex()} {self.hp.hex()}\n"

    def seal(self, cid, number, blocks, length=1, phase=0, early=False):
        number_bytes = (number & (1 << 8 * length) - 1).to_bytes(length, "big")
        head = bytes([(0x40 if early else 0) | phase << 2 | length - 1]) + cid + number_bytes
        nonce = bytes(a ^ b for a, b in zip(self.iv, bytes(4) + number.to_bytes(8, "big")))
        wire = bytearray(head + (aes_gcm if self.aead == AES else chacha_poly)(self.key, nonce, head, blocks))
        sample = bytes(wire[13:29])
        if self.aead == AES:
            mask = aes(self.hp, sample)
        else:
            mask = chacha(self.hp, int.from_bytes(sample[:4], "little"), sample[4:])
        wire[0] ^= mask[0] & 0x3F
        for i in range(length):
            wire[9 + i] ^= mask[1 + i]
        return bytes(wire)


# Captures and tshark.

def pcap(path, packets, snap=65535):
    """Writes `packets`, each (UDP payload, from port, to port), as Ethernet, IPv4 and UDP."""
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for i, (payload, source, to) in enumerate(packets):
            udp = struct.pack(">HHHH", source, to, 8 + len(payload), 0) + payload
            ip = bytearray(struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), i & 0xFFFF, 0, 64, 17, 0,
                                       bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2])))
            total = sum(struct.unpack(">10H", ip))
            total = (total & 0xFFFF) + (total >> 16)
            struct.pack_into(">H", ip, 10, ~(total + (total >> 16)) & 0xFFFF)
            frame = bytes(12) + b"\x08\x00" + bytes(ip) + udp
            out.write(struct.pack("<IIII", i // 1000, i % 1000 * 1000, min(len(frame), snap), len(frame)))
            out.write(frame[:snap])


class Shark:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def run(self, packets, keylog, output, environment=False, options=(), **more):
        capture, log = self.folder / "test.pcap", self.folder / "keys.log"
        pcap(capture, packets, **more)
        env = {name: value for name, value in os.environ.items() if name != "WHIMBREL_KEYLOGFILE"}
        command = [self.program, "-n", "-X", f"lua_script:{LUA}", "-r", str(capture), *options, *output]
        if keylog is not None:
            log.write_text(keylog)
            if environment:
                env["WHIMBREL_KEYLOGFILE"] = str(log)
            else:
                command += ["-o", f"whimbrel.keylog:{log}"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, errors="replace")
        errors = [line for line in done.stderr.splitlines() if "Running as user" not in line]
        bad = re.search(r"Lua [Ee]rror|Dissector bug|dissector_bug|Malformed Packet: Whimbrel|stack traceback", done.stdout)
        if done.returncode or errors or bad:
            where = done.stdout[max(0, bad.start() - 200):bad.end() + 500] if bad else ""
            raise AssertionError(f"tshark: exit {done.returncode}, {errors[:5]}\n{where}")
        return done.stdout

    def fields(self, packets, keylog, **more):
        """Returns a list of packets. Each is a dict of field name to list of values, with the Info column as "info"."""
        parsed = json.loads(self.run(packets, keylog, ["-T", "json", "--no-duplicate-keys"], **more))
        infos = self.run(packets, keylog, ["-T", "fields", "-e", "_ws.col.Protocol", "-e", "_ws.col.Info"], **more)
        result = []
        for packet, line in zip(parsed, infos.splitlines(), strict=True):
            seen = {}

            def walk(value):
                for name, below in value.items():
                    for one in below if isinstance(below, list) else [below]:
                        if isinstance(one, dict):
                            walk(one)
                        else:
                            seen.setdefault(name, []).append(one)
            walk({name: layer for name, layer in packet["_source"]["layers"].items() if name.startswith("whimbrel")})
            protocol, _, info = line.partition("\t")
            seen["protocol"], seen["info"] = protocol, info
            result.append({name.removeprefix("whimbrel."): value for name, value in seen.items()})
        return result


def colons(data):
    return data.hex(":")


checks = 0


def expect(packet, **wanted):
    """Checks fields by name (`__` for `.`). Wanted is a value or a list of all values, as text."""
    global checks
    for name, value in wanted.items():
        checks += 1
        name = name.replace("__", ".")
        got = packet.get(name)
        if isinstance(value, bytes):
            value = colons(value)
        if name not in ("info", "protocol"):
            value = [str(v) for v in value] if isinstance(value, list) else [str(value)]
        if got != value:
            raise AssertionError(f"{name}: {got!r} is not {value!r} in\n{json.dumps(packet, indent=1)}")


def expect_words(packet, *words):
    global checks
    text = json.dumps(packet, ensure_ascii=False)
    for word in words:
        checks += 1
        if word not in text:
            raise AssertionError(f"no {word!r} in\n{text}")


def v(value, length=None):
    """Encodes a variable-length integer."""
    length = length or next(n for n in (1, 2, 4, 8) if value < 1 << 8 * n - 2)
    return (value | {1: 0, 2: 1, 4: 2, 8: 3}[length] << 8 * length - 2).to_bytes(length, "big")


def read_vectors():
    sections = VECTORS.read_text().split("\n# ")

    def pairs(text):
        return {a: bytes.fromhex(b) for a, b in re.findall(r"^(\S+) = ([0-9a-f]*)$", text, re.M)}
    handshake, packets = {}, []
    for section in sections[1:]:
        if section.startswith("Packet,"):
            packets.append(pairs(section))
        else:
            handshake.update(pairs(section))
    return handshake, *packets


def block_vector(name):
    return bytes.fromhex(re.search(rf"^{re.escape(name)} = ([0-9a-f]+)$", BLOCKS.read_text(), re.M)[1])


CLIENT, SERVER = bytes.fromhex("0123456789abcdef"), bytes.fromhex("820983a33c8f2b3b")
UP, DOWN = (50000, PORT), (PORT, 50000)
ELSE = (50000, 50001)

# Each is (blocks, their text in the Info column, fields). Each is sent in a packet of its own, and several together in
# one packet, in a random order.
SPECIMENS = [
    (b"\0" + bytes([0x3B]) + v(0) + v(5) + v(8) + v(2) + b"ab" + v(0) + v(3) + b"cde",
     "DATA stream=0 rs 5..7",
     dict(data__service="0x08", data__many=1, data__number=5, data__run_length=[2, 0, 3],
          data__payload=[colons(b"ab"), "", colons(b"cde")])),
    (b"\0" + bytes([0x5F]) + v(300) + v(70000) + bytes([63]) + v(7) + b"\xc8" + v(4000000000) + v(3) + v(2) + b"hi",
     "DATA stream=300 ru 70000 tag=7 priority=200 ppid=4000000000",
     dict(stream=300, data__number=70000, data__tag=7, data__priority=200, data__ppid=4000000000,
          data__latest_reliable=3, data__byte_stream=1, data__confirm=1, data__payload=b"hi", data__length=2)),
    (b"\0" + bytes([0x12]) + v(4) + v(1) + v(9000) + v(3) + b"abc",
     "DATA stream=4 us 1 [0+3 of 9000]", dict(data__message_length=9000, data__begin=1, data__end=0)),
    (b"\0" + bytes([0x15]) + v(4) + v((1 << 62) - 1) + v(8997) + v(3) + b"xyz",
     "DATA stream=4 uu ~4611686018427387904 [8997+3, last]",
     dict(data__offset=8997, data__number=4611686018427387903)),
    (b"\x01" + bytes([3]) + v(2) + v(20) + v(1500) + v(1) + v(6) + v(0) + v(11) + v(4) + v(1) + v(2) + v(3),
     "SACK path=2 14-20 1-12",
     dict(sack__path=2, sack__largest=20, sack__delay=1500, sack__count=1, sack__length=[6, 11], sack__gap=0,
          sack__duplicates=4, sack__ect0=1, sack__ect1=2, sack__ce=3)),
    (b"\x06" + v(7) + v(3) + b"bye", 'FIN code=7 "bye"', dict(code=7, reason="bye")),
    (b"\x07", "FIN-ACK", dict(block=7)),
    (b"\x08", "FIN-DONE", dict(block=8)),
    (b"\x09" + v(2) + v(11) + v(0) + v(4) + b"much" + v(20) + v(1) + v(0),
     'RST Credit code=0 "much"; Refused code=1', dict(cause_count=2, cause=[11, 20], reason_length=[4, 0])),
    (b"\x0a" + v(99) + v(0) + v(0), "ERROR unknown code=0", dict(cause=99)),
    (b"\x0bchalleng", "PROBE", dict(challenge=b"challeng")),
    (b"\x0cchalleng", "PROBE-ACK", dict(challenge=b"challeng")),
    (b"\x0e" + v(6) + b"\x08" + v(2) + v(10) + v(2) + v(100) + v(5) + v(1) + v(0),
     "SKIP stream=6 rs 10..11 17", dict(domain="0x08", ranges__count=2, ranges__gap=[10, 5], ranges__charge=[100, 0])),
    (b"\x0f" + v(6) + b"\x0c" + v(2, 2) + v(0) + v(2) + v(1) + v(1) + v(3) + v(0),
     "SKIP-ACK stream=6 ru 0..1 delivered 3..5 skipped", dict(ranges__delivered=[1, 0], ranges__length=[2, 3])),
    (block_vector("skip_ack.late"), "SKIP-ACK stream=4 us 300..555 late",
     dict(domain="0x00", ranges__delivered=2, ranges__length=256)),
    (b"\x11" + v(3) + v(65), "MAX_STREAM_DATA stream=3 65", dict(stream=3, limit=65)),
    (b"\x12" + v(1 << 40), "MAX_STREAMS 1099511627776", dict(limit=1 << 40)),
    (b"\x13" + v(3) + v(1) + v(1000), "RESET stream=3 code=1 size=1000", dict(code=1, final_size=1000)),
    (b"\x14" + v(3) + v(2), "STOP stream=3 code=2", dict(stream=3, code=2)),
    (b"\x15" + v(2) + b"ABCDEFGH" + b"t" * 16, "NEW_CID path=2 4142434445464748",
     dict(new_cid__path=2, new_cid__id=b"ABCDEFGH", new_cid__reset_token=b"t" * 16)),
    (b"\x16" + v(2), "CLOSE_PATH path=2", dict(new_cid__path=2)),
    (b"\x20" + v(3) + b"\x04\xc0\x00\x02\x07" + b"\x11\x51", "ADD_ADDRESS sequence=3 c0000207 port 4433",
     dict(address__sequence=3, address__family=4, address__ip=b"\xc0\x00\x02\x07", address__port=b"\x11\x51")),
    (b"\x21" + v(3), "DELETE_ADDRESS sequence=3", dict(address__sequence=3)),
    (b"\x22" + v(1) + v(2), "SET_PRIMARY sequence=1 path=2", dict(address__sequence=1, new_cid__path=2)),
    (b"\x23\x00", "SUSPEND", dict(suspend__heir_length=0)),
    (b"\x23\x20" + b"\x07" * 32, "SUSPEND heir=" + "07" * 32, dict(suspend__heir=b"\x07" * 32)),
    (b"\x24" + v(5000), "SUSPEND_ACK 5000 ms", dict(suspend__wait=5000)),
    (b"\x17" + v(3600) + v(12) + b"ticketticket", "TICKET 3600 s", dict(ticket_lifetime=3600, ticket=b"ticketticket")),
    (b"\x18" + v(0) + b"\x00" + v(1) + v(3) + v(2), "TAKEN stream=0 us 3..4", dict(ranges__gap=3, ranges__length=2)),
    (b"\x19", "KEEP_ALIVE", dict(block=25)),
    (b"\x25" + v(300), "SOURCE number=300", dict(coding__number=300)),
    (b"\x1a" + v(2) + v(132), "END stream=2 size=132", dict(stream=2, final_size=132)),
    (b"\xc8" + v(2) + b"??", "Unknown block 200", dict(unknown__length=2, unknown__body=b"??")),
]
PADDING = b"\x0d" + bytes(8)

# Blocks that are refused: bytes, and the expert info.
REFUSED = [
    (b"\x02", "not a block of a sealed packet"),
    (b"\x1b\0\0", "not a block of a sealed packet"),
    (b"\0\x80\0\0", "unknown flag"),
    (b"\0\x03", "ends before its fields do"),
    (b"\0\x43\0\0\x80", "unknown extras"),
    (b"\0\x13\0\0\x05abc", "ends before its fields do"),
    (b"\0\x22\0\0\x01\x00", "a run of what is not whole messages"),
    (b"\0\x33\0\0\x03\x05ab", "ends before its fields do"),
    (b"\0\x12\0\0\x03\0", "empty fragment"),
    (b"\0\x12\0\0\x02\x02ab", "a first fragment as long as its message"),
    (b"\x01\x04\0\0\0\0\0", "unknown flag"),
    (b"\x01\0\0\x02\0\0\x03", "range below zero"),
    (b"\x01\0\0\x7f\xff\0\x40\x40\0", "more than 64 ranges"),
    (b"\x01\0" + v(1 << 32) + b"\0\0\0\0", "path id above 32 bits"),
    (b"\x06\0" + v(257) + bytes(257), "more than 256 bytes"),
    (b"\x09" + v((1 << 62) - 1), "ends before its fields do"),
    (b"\x0e\0\x01\0", "no such domain"),
    (b"\x0e\0\x08" + v((1 << 62) - 1), "ends before its fields do"),
    (b"\x18\0\x08\x01\0\0", "range empty or beyond the largest number"),
    (b"\x18\0\x08\x01" + v((1 << 62) - 1) + v((1 << 62) - 1), "range empty or beyond the largest number"),
    (b"\x0f\0\x08\x01\0\x01\x03", "neither delivered nor skipped nor late"),
    (b"\x0f\0\x00\x01\0" + v(257) + b"\x02", "more than 256 that came late"),
    (b"\xff" + v((1 << 62) - 1), "ends before its fields do"),
]


def test_ciphers(vectors):
    _, by_aes, by_chacha = vectors
    for aead, packet in ((AES, by_aes), (CHACHA, by_chacha)):
        keys = Keys(aead, packet["packet.secret"], path=2)
        assert keys.seal(b"\xab" * 8, 0x3A5B7, packet["packet.blocks"], 3, 1) == packet["packet.wire"], "our own ciphers"


def test_handshake(shark, vectors):
    h = vectors[0]
    flight = [(h["syn"], *UP), (h["syn_ack"], *DOWN), (h["ping"], *UP), (h["pong"], *DOWN)]
    for keylog in (None, Keys(AES, h["client.secret"]).line(SERVER)):
        # They are recognised by the port, and on an unknown port by their contents.
        for packets in (flight, [(p, 50000 + (a == PORT), 50000 + (b == PORT)) for p, a, b in flight]):
            syn, syn_ack, ping, pong = shark.fields(packets, keylog)
            expect(syn, protocol="Whimbrel", info="SYN v1", type="SYN", dcid=bytes(8), version="0x57480001",
                   client_id=CLIENT, syn__show_key=0, syn__zeros=bytes(138))
            expect(syn_ack, info="SYN-ACK v1", dcid=CLIENT, version="0x57480001", server_id=SERVER,
                   syn_ack__key_follows=0, syn_ack__answers_ping=0, cookie_length=65, cookie=h["syn_ack"][24:])
            noise = h["ping"][84:]
            expect(ping, info=f"PING, Noise message 1, {len(noise) - 80} bytes sealed", dcid=SERVER, client_id=CLIENT,
                   cookie=h["syn_ack"][24:], noise__ephemeral=noise[:32], noise__static=noise[32:80],
                   noise__payload=noise[80:])
            expect(pong, info=f"PONG, Noise message 2, {len(h['pong']) - 49} bytes sealed", dcid=CLIENT,
                   server_id=SERVER, noise__ephemeral=h["pong"][17:49], noise__payload=h["pong"][49:])
    # Forms of the handshake that the vectors do not have.
    ticket = SERVER + bytes(range(60))
    with_ticket = b"\x84" + SERVER + CLIENT + b"\0" + v(len(ticket)) + ticket + h["ping"][84:]
    head = h["syn_ack"][:21]
    forms = [
        (with_ticket, *ELSE),
        (head + b"\x03" + b"K" * 32 + b"\x04cook", *DOWN),
        (h["syn"][:9] + b"\x57\x48\0\x02" + h["syn"][13:21] + b"\x01" + h["syn"][22:], *UP),
        (h["syn"][:100], *UP),
        (h["syn_ack"][:-1], *DOWN),
        (h["syn_ack"] + b"\0", *DOWN),
        (h["ping"][:100], *UP),
        (head + b"\x00\x40\x04cook", *DOWN),
        (b"\xc0" + bytes(1199), *UP),
        (b"\x84" + bytes(50), 50002, 50003),
        # A refusal of the version has zeros for the server's id. Foreign packets with zeros there must not be claimed.
        (h["syn_ack"][:13] + bytes(10), *ELSE),
        (bytes(60), 50002, 50003),
    ]
    a, b, c, d, e, f, g, i, j, k, l, m = shark.fields(forms, None)
    expect(a, ticket=ticket, ticket_length=68, cookie_length=0, dcid=SERVER)
    expect(b, info="SYN-ACK v1, key, answers a PING", syn_ack__key=b"K" * 32, syn_ack__answers_ping=1, cookie=b"cook")
    expect(c, info="SYN v2, show key", syn__show_key=1)
    expect_words(d, "SYN: 100 bytes, not 160", "(malformed)")
    expect_words(e, "SYN-ACK: ends before its fields do")
    expect_words(f, "SYN-ACK: 1 bytes after the cookie")
    expect_words(g, "PING: Noise message of 16 bytes")
    expect_words(i, "Not the shortest form")
    expect(j, protocol="UDP")
    expect(k, protocol="UDP")
    expect(l, info="SYN-ACK v1", cookie_length=0, server_id=bytes(8))
    expect(m, protocol="UDP")


def test_vector_packets(shark, vectors):
    _, by_aes, by_chacha = vectors
    cid = b"\xab" * 8
    for aead, name, packet in ((AES, "AES-128-GCM", by_aes), (CHACHA, "ChaCha20-Poly1305", by_chacha)):
        packets = [(packet["packet.wire"], *UP)]
        [closed] = shark.fields(packets, None)
        expect(closed, info=f"Sealed to {cid.hex()}, {len(packet['packet.wire'])} bytes", dcid=cid, early=0,
               sealed=packet["packet.wire"][9:])
        expect_words(closed, "No key for this id")
        keys = Keys(aead, packet["packet.secret"], path=2)
        for environment in (False, True):
            # With a key log, the packet is recognised on any port.
            [opened] = shark.fields([(packet["packet.wire"], *ELSE)], keys.line(cid), environment=environment)
            expect(opened, flags="0x06", early=[0, 0], key_phase=1, number_length=2, truncated_number="0x0003a5b7",
                   number=0x3A5B7, aead=name, blocks=packet["packet.blocks"], tag=packet["packet.wire"][-16:],
                   info="#239031 Unknown block 98 (malformed)")
        [wrong] = shark.fields(packets, Keys(aead, b"wrong" * 8).line(cid))
        expect_words(wrong, "No key in the key log for this id opens it")


def test_blocks(shark):
    for aead in (AES, CHACHA):
        keys = Keys(aead, b"s" * 32)
        specimens = [*SPECIMENS, (PADDING, "PADDING 9", dict(padding=bytes(8)))]
        # A long packet number is used, since blocks of less than 3 bytes would not fill the sample.
        packets = [(keys.seal(SERVER, n, blocks, 4), *UP) for n, (blocks, _, _) in enumerate(specimens)]
        for n, (packet, (_, info, wanted)) in enumerate(zip(shark.fields(packets, keys.line(SERVER)), specimens)):
            expect(packet, info=f"#{n} {info}", number=n, **wanted)
        refused = [(keys.seal(SERVER, n, blocks, 4), *UP) for n, (blocks, _) in enumerate(REFUSED)]
        for packet, (_, words) in zip(shark.fields(refused, keys.line(SERVER)), REFUSED):
            expect_words(packet, words, "(malformed)")
    keys = Keys(AES, b"s" * 32)
    data = b"\0" + bytes([0x3B]) + v(0) + v(5) + v(5) + b"\0" * 5
    sack = b"\x01\0" + v(0) + v(11) + v(0) + v(0) + v(11)
    # Packets of full size, with numbers of one byte. The last block's payload extends to the packet's end.
    whole = sack + b"\0\x0b" + v(1) + v(0) + b"x" * 1400
    several = [keys.seal(SERVER, 12, data + sack), keys.seal(SERVER, 13, whole)]
    one, two = shark.fields([(p, *UP) for p in several], keys.line(SERVER))
    expect(one, info="#12 DATA stream=0 rs 5..9, SACK 0-11")
    expect(two, info="#13 SACK 0-11, DATA stream=1 rs 0", data__payload=b"x" * 1400)
    # Many blocks in one packet, in any order.
    order = random.Random(1)
    for _ in range(3):
        chosen = order.sample(SPECIMENS, 12)
        packet = keys.seal(SERVER, 1, b"".join(b for b, _, _ in chosen) + PADDING)
        [seen] = shark.fields([(packet, *UP)], keys.line(SERVER))
        expect(seen, info="#1 " + ", ".join(info for _, info, _ in chosen) + ", …")
    # If there are many of one kind, only the first are shown.
    crowd = b"\0" + bytes([0x3B]) + v(0) + v(0) + v(3000) + bytes(3000)
    [many, alive] = shark.fields([(keys.seal(SERVER, 1, crowd), *UP), (keys.seal(SERVER, 2, b"\x19" * 3000), *UP)],
                                 keys.line(SERVER))
    expect(many, info="#1 DATA stream=0 rs 0..2999")
    expect(alive, info="#2 " + "KEEP_ALIVE, " * 12 + "…", block=[25] * 1000)


def test_keys(shark):
    first = b"1" * 32
    second, third = expand(first, b"ku", 32), expand(expand(first, b"ku", 32), b"ku", 32)
    early = Keys(AES, b"e" * 32)
    generations = [Keys(AES, secret, first=first) for secret in (first, second, third)]
    alive = b"\x19\x19\x19"
    lines = [early.line(SERVER)] + [keys.line(SERVER) for keys in generations]
    garbage = "# comment\nCLIENT_RANDOM 00 11\nWHIMBREL_TRAFFIC 00 1 2 3 4\nWHIMBREL_TRAFFIC zz\n\n"
    packets = [
        (early.seal(SERVER, 1, alive, early=True), *UP),
        (generations[0].seal(SERVER, 2, alive), *UP),
        (generations[1].seal(SERVER, 4, alive, phase=1), *UP),
        (generations[0].seal(SERVER, 3, alive), *UP),
        (generations[2].seal(SERVER, 5, alive), *UP),
    ]
    # The log's lines may be in any order, repeated, mixed with others, and without an end of the last line.
    for log in (garbage + "".join(lines), "".join(reversed(lines + lines)) + garbage, "\r\n".join(map(str.strip, lines))):
        seen = shark.fields(packets, log)
        assert [p["number"] for p in seen] == [["1"], ["2"], ["4"], ["3"], ["5"]], seen
        expect(seen[0], info="#1 early KEEP_ALIVE, KEEP_ALIVE, KEEP_ALIVE", early=[1, 1])
        expect(seen[2], key_phase=1)
        again = shark.fields(packets, log, options=["-2"])
        assert again == seen
    # Truncated numbers beyond 255, a jump, and a capture that begins in the middle.
    keys = generations[0]
    numbers = [250, 300, 330, 299, 400, 70000, 70010]
    lengths = [1, 1, 1, 1, 1, 3, 1]
    for aead, skipped in ((AES, 0), (AES, 2), (CHACHA, 0), (CHACHA, 2)):
        keys = Keys(aead, first)
        packets = [(keys.seal(SERVER, n, alive, length), *UP) for n, length in zip(numbers, lengths)][skipped:]
        seen = shark.fields(packets, keys.line(SERVER))
        assert [p["number"] for p in seen] == [[str(n)] for n in numbers[skipped:]], seen
    # An id from NEW_CID is recognised on other ports. A reset is recognised by its token.
    keys, other = Keys(AES, first), b"ABCDEFGH"
    new_cid = b"\x15" + v(2) + other + b"t" * 16
    seen = shark.fields([
        (bytes(30), 50004, 50005),
        (keys.seal(SERVER, 0, new_cid), *ELSE),
        (b"\x2a" + bytes(range(20)) + b"t" * 16, *UP),
        (b"\x2a" + other + bytes(range(20)), 50006, 50007),
        (keys.seal(SERVER, 1, alive), *ELSE),
        (keys.seal(SERVER, 2, b"", 4), *UP),
        (b"\x2a" + other + bytes(5), *UP),
    ], keys.line(SERVER))
    expect(seen[0], protocol="UDP")
    expect(seen[2], info="Stateless reset of " + other.hex(), reset_of=other)
    expect(seen[3], protocol="Whimbrel", info=f"Sealed to {other.hex()}, 29 bytes")
    expect_words(seen[5], "A packet without blocks")
    expect_words(seen[6], "Shorter than any sealed packet")
    # A packet that the capture has cut is shown up to the cut.
    cut = [(keys.seal(SERVER, 0, b"\x12\x05\0\x0b\0\0" + b"x" * 600), *UP), (keys.seal(SERVER, 1, b"\x12\x05" * 300), *UP)]
    seen = shark.fields(cut, Keys(AES, b"wrong" * 8).line(SERVER) + keys.line(SERVER), snap=42 + 101)
    expect_words(seen[0], "#0 MAX_STREAMS 5, DATA stream=0 rs 0")
    expect_words(seen[1], "#1 MAX_STREAMS 5, MAX_STREAMS 5")
    # A key log that does not exist is no error.
    assert shark.run(packets, None, ["-o", "whimbrel.keylog:/nonexistent/keys"])
    assert shark.run(packets, None, ["-o", f"whimbrel.keylog:{HERE}"])
    assert shark.run(packets, None, ["-o", "whimbrel.ports:1000-1002,5000"])
    # "Decode As".
    assert "KEEP_ALIVE" in shark.run([(keys.seal(SERVER, 1, alive), 7, 9)], keys.line(SERVER), ["-d", "udp.port==9,whimbrel"])


def test_mutations(shark, vectors, count, seed):
    h, by_aes, by_chacha = vectors
    rng = random.Random(seed)
    aes_keys, chacha_keys = Keys(AES, b"a" * 32), Keys(CHACHA, b"c" * 32)
    wire = [h["syn"], h["syn_ack"], h["ping"], h["pong"], by_aes["packet.wire"], by_chacha["packet.wire"]]
    wire += [aes_keys.seal(SERVER, n, blocks + PADDING) for n, (blocks, _, _) in enumerate(SPECIMENS)]
    log = aes_keys.line(SERVER) + chacha_keys.line(CLIENT)
    log += Keys(AES, by_aes["packet.secret"], path=2).line(b"\xab" * 8)

    def mutate(data):
        data = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            what = rng.randrange(5)
            at = rng.randrange(len(data) + 1)
            if what == 0:
                del data[at:]
            elif what == 1:
                del data[at:at + rng.randint(1, 8)]
            elif what == 2:
                data[at:at] = rng.randbytes(rng.randint(1, 16))
            elif what == 3 and data:
                data[at % len(data)] ^= 1 << rng.randrange(8)
            elif data:
                data[at % len(data)] = rng.choice((0, 1, 0x3F, 0x40, 0x7F, 0x80, 0xC0, 0xFF))
        return bytes(data)
    packets = []
    for n in range(count):
        ways = UP if rng.random() < 0.7 else ELSE
        if rng.random() < 0.5:
            packets.append((mutate(rng.choice(wire)), *ways))
        else:
            # Hostile blocks sealed with the right key.
            blocks = mutate(b"".join(b for b, _, _ in rng.sample(SPECIMENS, rng.randint(1, 5))))
            blocks += rng.randbytes(max(0, 2 - len(blocks)))  # enough for a sample
            keys, cid = (aes_keys, SERVER) if rng.random() < 0.8 else (chacha_keys, CLIENT)
            packets.append((keys.seal(cid, n, blocks, rng.randint(2, 4)), *ways))
    for keylog in (None, log):
        shown = shark.run(packets, keylog, ["-V"])
        assert shown.count("\nFrame ") + shown.startswith("Frame ") == count, "a packet is missing"
        shark.run(packets, keylog, ["-V", "-2"], snap=42 + rng.randint(0, 100))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutations", type=int, default=500)
    parser.add_argument("--seed", type=int, default=None, help="seed of the mutations (default: random)")
    parser.add_argument("--keep", type=pathlib.Path, help="keep the last capture and key log in this folder")
    options = parser.parse_args()
    program = shutil.which("tshark")
    if program is None:
        print("dissector: skipped, tshark is not installed")
        return 0
    seed = random.randrange(1 << 32) if options.seed is None else options.seed
    vectors = read_vectors()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        shark = Shark(program, folder)
        about = " ".join(subprocess.run([program, "-v"], capture_output=True, text=True).stdout.split())
        if "with Lua" not in about:
            print("dissector: skipped, this tshark is built without Lua")
            return 0
        start, passed = time.monotonic(), 0
        tests = {
            "ciphers": lambda: test_ciphers(vectors),
            "handshake": lambda: test_handshake(shark, vectors),
            "vector packets": lambda: test_vector_packets(shark, vectors),
            "blocks": lambda: test_blocks(shark),
            "keys": lambda: test_keys(shark),
            f"{options.mutations} mutations, seed {seed}": lambda: test_mutations(shark, vectors, options.mutations, seed),
        }
        for name, test in tests.items():
            try:
                test()
                passed += 1
                print(f"ok      {name}", flush=True)
            except AssertionError as error:
                print(f"FAILED  {name}: {error}", flush=True)
        print(f"dissector: {passed} of {len(tests)} tests passed, {checks} fields compared, "
              f"{time.monotonic() - start:.1f} s")
        return 0 if passed == len(tests) else 1


if __name__ == "__main__":
    sys.exit(main())
