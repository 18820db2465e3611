#!/usr/bin/python3
"""Runs in the virtual machine: a line of JSON from the host is a script to run, and its status and output go back.

The port is one of virtio-serial, so that it works before the network does and while it does not.
"""
import json
import os
import subprocess
import threading
import time

PORT = "/dev/virtio-ports/penstock.agent"
with open("/proc/sys/kernel/random/boot_id") as boot:
    BOOT = boot.read().strip()
SAYS = threading.Lock()


def say(port, answer):
    with SAYS:
        rest = json.dumps(answer).encode() + b"\n"
        while rest:
            rest = rest[os.write(port, rest):]


def work(port, order):
    try:
        done = subprocess.run(["bash", "-c", order["script"]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=order["timeout"])
        status, printed = done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        status, printed = 124, late.stdout or b""
    say(port, {"id": order["id"], "boot": BOOT, "status": status, "printed": printed.decode(errors="replace")})


def main():
    port = os.open(PORT, os.O_RDWR)
    kept = b""
    while True:
        data = os.read(port, 65536)
        if not data:  # nobody is connected on the host
            time.sleep(0.2)
            continue
        kept += data
        while b"\n" in kept:
            line, kept = kept.split(b"\n", 1)
            try:
                order = json.loads(line)
            except ValueError:
                continue  # what a host that is gone had begun to say
            threading.Thread(target=work, args=(port, order), daemon=True).start()


if __name__ == "__main__":
    main()
