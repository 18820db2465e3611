#!/usr/bin/python3
"""Sends messages over one connection after the other until a file is there, and writes down what was acknowledged.

    guest_load.py REPORT PORT RECIPIENT [--threads N] [--pause SECONDS] [--session] [--stop FILE]
REPORT gets one line of JSON at the end: acknowledged (subjects), refused and broken (reasons), connections, session.
Each acknowledgement is in REPORT.acknowledged before the next message begins. --session: one more session is begun at
the start, and sends its message when everything is over. --stop: the file that ends it, REPORT.stop.
"""
import argparse
import json
import os
import socket
import threading
import time


class Session:
    def __init__(self, port):
        self.connection = socket.create_connection(("127.0.0.1", port), 60)
        self.file = self.connection.makefile("rb")
        self.answer("220")

    def answer(self, code):
        while True:
            line = self.file.readline()
            if line[3:4] != b"-":
                break
        if not line.startswith(code.encode()):
            raise ConnectionError(f"{line!r}, {code} expected")

    def say(self, text, code):
        self.connection.sendall(text.encode() + b"\r\n")
        self.answer(code)

    def begin(self):
        self.say("EHLO client.example", "250")
        self.say("MAIL FROM:<x@sender.example>", "250")

    def finish(self, recipient, subject):
        self.say(f"RCPT TO:<{recipient}>", "250")
        self.say("DATA", "354")
        self.say(f"Subject: {subject}\r\n\r\n{'x' * 70}\r\n.", "250")

    def end(self):
        self.say("QUIT", "221")
        self.connection.close()


class Load:
    def __init__(self, options):
        self.options, self.lock = options, threading.Lock()
        self.stop = options.stop or options.report + ".stop"
        self.name = os.path.basename(options.report)
        self.said = {"acknowledged": [], "refused": [], "broken": [], "connections": 0, "session": ""}
        self.list = open(options.report + ".acknowledged", "w", buffering=1)

    def note(self, kind, what):
        with self.lock:
            self.said[kind].append(what)
            if kind == "acknowledged":
                self.list.write(what + "\n")

    def knock(self, thread):
        number = 0
        while not os.path.exists(self.stop):
            number += 1
            subject = f"{self.name}-{thread}-{number}"
            try:
                session = Session(self.options.port)
            except OSError as error:
                self.note("refused", f"{time.strftime('%T')} {subject}: {error!r}")
                time.sleep(0.2)
                continue
            with self.lock:
                self.said["connections"] += 1
            try:
                session.begin()
                session.finish(self.options.recipient, subject)
                self.note("acknowledged", subject)
                session.end()
            except OSError as error:
                self.note("broken", f"{time.strftime('%T')} {subject}: {error!r}")
            time.sleep(self.options.pause)

    def run(self):
        kept = None
        if self.options.session:
            kept = Session(self.options.port)
            kept.begin()
        threads = [threading.Thread(target=self.knock, args=(n,)) for n in range(self.options.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(30)
                if kept:
                    kept.say("NOOP", "250")  # its client is slow, and there
        if kept:
            try:
                kept.finish(self.options.recipient, self.name + "-session")
                self.note("acknowledged", self.name + "-session")
                kept.end()
                self.said["session"] = "whole"
            except OSError as error:
                self.said["session"] = repr(error)
        with open(self.options.report + ".part", "w") as out:
            json.dump(self.said, out)
        os.rename(self.options.report + ".part", self.options.report)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report")
    parser.add_argument("port", type=int)
    parser.add_argument("recipient")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--pause", type=float, default=0.05)
    parser.add_argument("--session", action="store_true")
    parser.add_argument("--stop")
    Load(parser.parse_args()).run()


if __name__ == "__main__":
    main()
