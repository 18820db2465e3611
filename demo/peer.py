#!/usr/bin/env python3
"""The other host of the demonstration: a small SMTP server that keeps each message as a file.

    peer.py ADDRESS PORT DIRECTORY        knows office@away.example; everybody else gets 550
"""
import os
import socketserver
import sys
import time


class Session(socketserver.StreamRequestHandler):
    def say(self, line):
        self.wfile.write(line.encode() + b"\r\n")

    def handle(self):
        self.say("220 away.example ESMTP demonstration peer")
        rcpt = []
        while line := self.rfile.readline(4096):
            verb = line[:4].upper().strip()
            if verb in (b"EHLO", b"HELO"):
                self.wfile.write(b"250-away.example\r\n250-PIPELINING\r\n250-8BITMIME\r\n250 ENHANCEDSTATUSCODES\r\n")
            elif verb == b"RCPT":
                if b"<office@away.example>" in line.lower():
                    rcpt.append(line)
                    self.say("250 2.1.5 Ok")
                else:
                    self.say("550 5.1.1 We have nobody of that name")
            elif verb == b"DATA":
                if not rcpt:
                    self.say("554 5.5.1 No valid recipients")
                    continue
                self.say("354 go on")
                path = f"{self.server.folder}/{time.time_ns()}.eml"
                with open(path + ".tmp", "wb") as out:  # it appears under its name only when complete
                    while (text := self.rfile.readline()) not in (b".\r\n", b""):
                        out.write(text[1:] if text.startswith(b".") else text)
                os.rename(path + ".tmp", path)
                rcpt = []
                self.say("250 2.0.0 Ok: kept")
            elif verb == b"QUIT":
                self.say("221 2.0.0 Bye")
                return
            else:
                rcpt = []
                self.say("250 2.0.0 Ok")


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    server = Server((sys.argv[1], int(sys.argv[2])), Session)
    server.folder = sys.argv[3]
    server.serve_forever()
