#!/usr/bin/env python3
"""Large messages uploaded slowly by many clients at once: what memory and descriptors they take, and whether all arrive.

    bench/uploads.py [--clients 1000] [--size BYTES] [--dir DIR]

Prints for each program the most anonymous memory and descriptors of one process, the spool's files, and the rate. Ends with
an error if a message was refused, or did not reach the sink as it was sent.
"""
import argparse
import resource
import sys
import tempfile

import deep  # noqa: F401  finds the tests' modules
from harness import Instance, relay_to
from uploads import BodySink, spool, upload


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--size", type=int, default=4 << 20)
    parser.add_argument("--dir", default="/var/tmp")
    args = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with BodySink() as sink, tempfile.TemporaryDirectory(prefix="pen-uploads-", dir=args.dir) as where:
        with Instance({**relay_to(sink), "message_size_limit": "52428800", "smtpd_client_connection_count_limit": "0"},
                      directory=where) as mx:
            told = upload(mx, [args.size] * args.clients)
            sink.wait(args.clients - len(told.refused), 600)
            mx.wait_empty_queue(60)
            total = args.clients * args.size / (1 << 20)
            print(f"{args.clients} clients, {args.size} bytes each: {told.seconds:.1f} s, {total / told.seconds:.0f} MiB/s")
            for program in sorted(told.memory):
                print(f"{program:16} {told.memory[program]:8.1f} MiB anonymous  {told.descriptors[program]:6} descriptors")
            files, size = spool(mx)
            print(f"spool: {told.files} files, {told.spool_bytes >> 20} MiB at the most; {files} files, {size >> 20} MiB after")
            if told.refused or sink.bodies != told.sent:
                sys.exit(f"{len(told.refused)} refused: {told.refused[:3]}; intact: {sink.bodies == told.sent}")


if __name__ == "__main__":
    main()
