#!/usr/bin/env python3
"""A disk with a cache of its own, for a virtual machine: an NBD server on a Unix socket.

    disk.py FILE SOCKET
What is written is in memory until the machine flushes; what it writes with FUA is in the file at once. SIGUSR1 is a
power cut: of what was not flushed each block of 4 KiB is in the file or is not, by chance, in no order. SIGKILL: none
is. SIGTERM, and the end of the machine's connection, keep all. The file is not synced: the host does not lose power.
"""
import os
import random
import signal
import socket
import struct
import sys

BLOCK = 4096
ZERO = bytes(BLOCK)
READ, WRITE, END, FLUSH, TRIM, ZEROES = 0, 1, 2, 3, 4, 6
FUA = 1
OFFERS = 1 | 4 | 8 | 64  # has flags; flush, FUA, write zeroes


class Disk:
    def __init__(self, path):
        self.file = os.open(path, os.O_RDWR)
        self.size = os.fstat(self.file).st_size
        self.dirty = {}  # block -> content

    def stored(self, number):
        return os.pread(self.file, BLOCK, number * BLOCK)

    def read(self, offset, length):
        data = bytearray(os.pread(self.file, length, offset))
        if self.dirty:
            for number in range(offset // BLOCK, (offset + length - 1) // BLOCK + 1):
                block = self.dirty.get(number)
                if block is not None:
                    begin = max(offset, number * BLOCK)
                    end = min(offset + length, (number + 1) * BLOCK)
                    data[begin - offset:end - offset] = block[begin - number * BLOCK:end - number * BLOCK]
        return data

    def write(self, offset, data):
        """Into memory. The blocks that it is in."""
        numbers = range(offset // BLOCK, (offset + len(data) - 1) // BLOCK + 1)
        for number in numbers:
            begin, end = max(offset, number * BLOCK), min(offset + len(data), (number + 1) * BLOCK)
            part = bytes(data[begin - offset:end - offset])
            if len(part) < BLOCK:
                whole = bytearray(self.dirty.get(number) or self.stored(number))
                whole[begin - number * BLOCK:end - number * BLOCK] = part
                part = bytes(whole)
            self.dirty[number] = part
        return numbers

    def keep(self, numbers=None):
        for number in sorted(self.dirty) if numbers is None else numbers:
            os.pwrite(self.file, self.dirty.pop(number), number * BLOCK)

    def cut(self):
        blocks = list(self.dirty)
        self.keep([n for n in blocks if random.random() < 0.5])
        print(f"power cut: {len(blocks)} blocks were not flushed, {len(self.dirty)} of them are lost", flush=True)
        os._exit(0)


def exactly(connection, size):
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def greet(connection, disk):
    connection.sendall(b"NBDMAGICIHAVEOPT" + struct.pack(">H", 3))
    exactly(connection, 4)
    while True:
        option, length = struct.unpack(">8xII", exactly(connection, 16))
        exactly(connection, length)

        def reply(kind, data=b""):
            connection.sendall(struct.pack(">QIII", 0x3e889045565a9, option, kind, len(data)) + data)

        if option in (6, 7):  # info, go
            reply(3, struct.pack(">HQH", 0, disk.size, OFFERS))
            reply(1)
            if option == 7:
                return
        elif option == 2:  # abort
            reply(1)
            raise EOFError
        else:
            reply(0x80000001)


def serve(connection, disk):
    while True:
        flags, kind, handle, offset, length = struct.unpack(">4xHHQQI", exactly(connection, 28))
        answer = b""
        if kind == READ:
            answer = disk.read(offset, length)
        elif kind in (WRITE, ZEROES):
            numbers = disk.write(offset, exactly(connection, length) if kind == WRITE else bytes(length))
            if flags & FUA:
                disk.keep(numbers)
        elif kind == FLUSH:
            disk.keep()
        elif kind == END:
            raise EOFError
        connection.sendall(struct.pack(">IIQ", 0x67446698, 0, handle) + answer)


def main():
    disk = Disk(sys.argv[1])
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[2])
    listener.listen()

    def end(*_):
        disk.keep()
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGUSR1, lambda *_: disk.cut())
    while True:
        connection, _ = listener.accept()
        try:
            greet(connection, disk)
            serve(connection, disk)
        except (EOFError, ConnectionError):
            disk.keep()


if __name__ == "__main__":
    main()
