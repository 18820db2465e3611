#!/usr/bin/env python3
"""Many clients upload large messages slowly at once: the memory and descriptors that takes, and whether all arrive.

    bench/uploads.py [--clients 1000] [--sizes BYTES:SHARE,...] [--rate BYTES] [--dir DIR]

Each client sends one message; --sizes has the sizes, and how many of a hundred clients send each. Every client sends
--rate bytes a second: the smallest of the default sizes take 20 s, the largest, 50 MB, take 500 s. All uploads are
open at once before one goes beyond its first 600 kB. Prints for each program the most anonymous memory and
descriptors of one process, the spool's files, the duration of the uploads, and the total rate. A refused or changed
message is an error.
"""
import argparse
import random
import resource
import statistics
import sys
import tempfile

import deep  # noqa: F401  finds the tests' modules
from harness import Instance, relay_to
from uploads import BodySink, spool, upload


LIMIT = 52428800  # message_size_limit


def sizes_of(text, clients):
    """A size for each client: "50000000:2,2000000:98", or one size for all."""
    shares = [(int(size), float(share or 1)) for size, _, share in (one.partition(":") for one in text.split(","))]
    whole, sizes, so_far = sum(share for _, share in shares), [], 0.0
    for size, share in shares:
        so_far += share
        sizes += [size] * (round(clients * so_far / whole) - len(sizes))
    random.Random(1).shuffle(sizes)
    return sizes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument(
        "--sizes",
        default="50000000:2,10000000:10,2000000:88",
        metavar="BYTES:SHARE,...",
        help="of the messages, and how many of a hundred have each (%(default)s: 3.8 GB from 1,000 clients)",
    )
    parser.add_argument(
        "--rate", type=int, default=100000, metavar="BYTES", help="a second, of each client (100000; 0: all they can)"
    )
    parser.add_argument("--dir", default="/var/tmp")
    args = parser.parse_args()
    sizes = sizes_of(args.sizes, args.clients)
    if max(sizes) > LIMIT - 1000:
        parser.error(f"with its header no message may have more than {LIMIT} bytes")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with BodySink() as sink, tempfile.TemporaryDirectory(prefix="pen-uploads-", dir=args.dir) as where:
        with Instance({**relay_to(sink), "message_size_limit": str(LIMIT), "smtpd_client_connection_count_limit": "0"},
                      directory=where) as mx:
            told = upload(mx, sizes, rate=args.rate)
            sink.wait(args.clients - len(told.refused), 600)
            mx.wait_empty_queue(60)
            total = sum(sizes) / (1 << 20)
            print(f"{args.clients} clients, {min(sizes)} to {max(sizes)} bytes, {total:.0f} MiB: {told.seconds:.1f} s, "
                  f"{total / told.seconds:.0f} MiB/s")
            if told.lasted:
                print(f"an upload lasted {min(told.lasted):.1f} to {max(told.lasted):.1f} s, half of them at most "
                      f"{statistics.median(told.lasted):.1f} s")
            for program in sorted(told.memory):
                print(
                    f"{program:16} {told.memory[program]:8.1f} MiB anonymous  {told.descriptors[program]:6} descriptors"
                )
            files, size = spool(mx)
            print(
                f"spool: {told.files} files, {told.spool_bytes >> 20} MiB at the most; "
                f"{files} files, {size >> 20} MiB after"
            )
            if told.refused or sink.bodies != told.sent:
                sys.exit(f"{len(told.refused)} refused: {told.refused[:3]}; intact: {sink.bodies == told.sent}")


if __name__ == "__main__":
    main()
