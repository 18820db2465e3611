#!/usr/bin/env python3
"""The load generator and the sink against each other: with any refusals and lost connections the ledgers must agree.

    tools_test.py DIRECTORY_OF_THE_TOOLS
"""
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = [
    ("plain", [], ["-n", "300", "-c", "5"], 0),
    ("groups", [], ["-n", "300", "-c", "5", "--pipelining", "--dots", "-r", "3"], 0),
    ("bdat", ["--chunking"], ["-n", "300", "-c", "5", "--pipelining", "--bdat", "--dots"], 0),
    ("large", ["--chunking"], ["-n", "6", "-c", "2", "-s", "3000000", "--dots"], 0),
    ("no offers", ["--no-pipelining"], ["-n", "100", "-c", "5", "--pipelining", "-m", "7"], 0),
    (
        "refusals",
        ["--refuse-rcpt", "7", "--refuse-dot", "5", "--refuse-mail", "9"],
        ["-n", "200", "-c", "5", "-r", "2", "--retries", "50", "--pipelining"],
        0,
    ),
    (
        "drops",
        ["--drop-dot", "10", "--drop", "50", "--close-421", "70"],
        ["-n", "200", "-c", "5", "--retries", "50"],
        1,
    ),
    ("TLS", ["--chunking", "--tls"], ["-n", "300", "-c", "5", "--pipelining", "--tls", "-m", "20"], 0),
    ("TLS, large", ["--tls"], ["-n", "6", "-c", "2", "-s", "3000000", "--dots", "--tls"], 0),
    ("few for each connection", ["--max-messages", "3"], ["-n", "60", "-c", "4", "--retries", "50"], 0),
]


def undocumented(tools, name):
    """What the tool's page, which its package has, says too much or too little of its options."""
    with open(os.path.join(HERE, "..", "debian", name + ".1")) as page:
        told = {o.replace("\\-", "-") for o in re.findall(r"\\fB(\\-\\-[a-z0-9\\-]+)\\fR", page.read())}
    helped = subprocess.run([os.path.join(tools, name), "--help"], stdout=subprocess.PIPE, text=True, check=True)
    return told ^ (set(re.findall(r"--[a-z0-9-]+", helped.stdout.split("Options:", 1)[1])) - {"--help"})


def certificate(scratch):
    """Returns the sink's options for STARTTLS with a new certificate."""
    files = ["--tls-cert", os.path.join(scratch, "cert.pem"), "--tls-key", os.path.join(scratch, "key.pem")]
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-subj", "/CN=sink.example", "-out", files[1], "-keyout", files[3]], check=True,
                   stderr=subprocess.DEVNULL)
    return files


def run(tools, name, sink_options, load_options, load_status):
    with tempfile.TemporaryDirectory() as scratch:
        sink_options = [w for o in sink_options for w in (certificate(scratch) if o == "--tls" else [o])]
        sent, took = os.path.join(scratch, "sent"), os.path.join(scratch, "took")
        sink = subprocess.Popen([os.path.join(tools, "pensink"), "--port", "0", "--ledger", took, *sink_options],
                                stdout=subprocess.PIPE, text=True)
        try:
            port = sink.stdout.readline().split()[1]
            load = subprocess.run([os.path.join(tools, "penload"), "--port", port, "--ledger", sent, "--limit", "60",
                                   *load_options], stdout=subprocess.PIPE, text=True, timeout=90)
            figures = json.loads(load.stdout)
        finally:
            sink.terminate()
            counts = json.loads(sink.communicate()[0].splitlines()[-1])
        compared = subprocess.run([os.path.join(HERE, "ledger-compare"), sent, took], stdout=subprocess.PIPE, text=True)
        ledger = json.loads(compared.stdout)
    good = (load.returncode == load_status and compared.returncode == 0 and counts["duplicates"] == 0
            and figures["taken"] == counts["messages"] and ledger["acknowledged"] == ledger["arrived"] > 0
            and ledger["duplicated"] == 0)
    print("%-6s %s" % ("ok" if good else "FAILED", name))
    if not good:
        print(load.returncode, figures, counts, ledger, sep="\n")
    return good


def comparison_finds_damage():
    """Shows that the comparison itself can fail."""
    def compare(sent, took):
        with tempfile.TemporaryDirectory() as scratch:
            for name, lines in (("sent", sent), ("took", took)):
                with open(os.path.join(scratch, name), "w", encoding="ascii") as out:
                    out.writelines(line + "\n" for line in lines)
            return subprocess.run([os.path.join(HERE, "ledger-compare"), os.path.join(scratch, "sent"),
                                   os.path.join(scratch, "took")], stdout=subprocess.DEVNULL).returncode
    sent = ["sent L.1 aa u@x", "doubt L.2 bb v@x"]
    good = (compare(sent, ["took L.1 aa u@x"]) == 0 and compare(sent, []) == 1
            and compare(sent, ["took L.1 ab u@x"]) == 1
            and compare(sent, ["took L.1 aa u@x", "took L.3 cc w@x"]) == 1)
    print("%-6s %s" % ("ok" if good else "FAILED", "lost, corrupted and unknown messages are found"))
    return good


def documented(tools):
    good = True
    for name in ("penload", "pensink"):
        odd = undocumented(tools, name)
        print("%-6s the page of %s %s" % ("FAILED" if odd else "ok", name, " ".join(sorted(odd))))
        good = good and not odd
    return good


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__.strip())
        return 2
    tools = sys.argv[1]
    return 0 if all([comparison_finds_damage(), documented(tools), *(run(tools, *case) for case in CASES)]) else 1


if __name__ == "__main__":
    sys.exit(main())
