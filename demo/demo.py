#!/usr/bin/env python3
"""Starts, shows and stops the demonstration instance below ./var/demo. Called by ./run; see there."""
import glob
import os
import shutil
import smtplib
import socket
import subprocess
import sys
import time

import messages

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DEMO = os.path.join(TOP, "var", "demo")
BIN = os.path.join(TOP, "build", "run", "bin")
PEER = "127.0.0.2"
MAIN_CF = """
# --- the demonstration ---
myhostname = mail.home.example
mydestination =
mynetworks = 127.0.0.0/8
inet_protocols = ipv4
maillog_file = {demo}/log/mail.log
# one domain with mailboxes here ...
virtual_mailbox_domains = home.example
virtual_mailbox_maps = inline:{{ {{ anna@home.example = anna/ }}, {{ ben@home.example = ben/ }} }}
virtual_mailbox_base = {demo}/mail
virtual_uid_maps = static:{uid}
virtual_gid_maps = static:{gid}
virtual_minimum_uid = 0
# ... and one that is another host's
transport_maps = inline:{{ {{ away.example = smtp:[{peer}]:{peer_port} }} }}
relay_domains = away.example
"""


def tool(*words, check=True):
    shown = subprocess.run([os.path.join(BIN, words[0]), "-c", os.path.join(DEMO, "etc"), *words[1:]],
                           capture_output=True, text=True)
    if check and shown.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit {shown.returncode}\n{shown.stdout}{shown.stderr}")
    return shown.stdout + shown.stderr


def answers(host, port):
    try:
        socket.create_connection((host, port), 1).close()
        return True
    except OSError:
        return False


def wait_for(what, condition, seconds=30):
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            sys.exit(f"waited {seconds} s in vain for {what}; the log is {DEMO}/log/mail.log")
        time.sleep(0.02)
    return found


def read_number(name):
    try:
        with open(os.path.join(DEMO, name)) as text:
            return int(text.read())
    except (OSError, ValueError):
        return 0


def free_port(host, first):
    for port in range(first, first + 100):
        if not answers(host, port):
            return port
    sys.exit(f"no free port on {host} between {first} and {first + 99}")


def create():
    port, peer_port = free_port("127.0.0.1", 2525), free_port(PEER, 2626)
    tool_init = subprocess.run([os.path.join(BIN, "penstock"), "init", DEMO, "--port", str(port)],
                               capture_output=True, text=True)
    if tool_init.returncode != 0:
        sys.exit(tool_init.stdout + tool_init.stderr)
    uid = os.getuid() or 65534
    gid = os.getgid() or 65534
    for folder in ("mail", "mail/anna", "mail/ben", "peer"):
        path = os.path.join(DEMO, folder)
        os.makedirs(path, exist_ok=True)
        if os.getuid() == 0 and folder.startswith("mail"):
            os.chown(path, uid, gid)
    with open(os.path.join(DEMO, "etc/main.cf"), "a") as out:
        out.write(MAIN_CF.format(demo=DEMO, uid=uid, gid=gid, peer=PEER, peer_port=peer_port))
    for name, number in (("port", port), ("peer.port", peer_port)):
        with open(os.path.join(DEMO, name), "w") as out:
            out.write(f"{number}\n")


def start_peer():
    port = read_number("peer.port")
    if answers(PEER, port):
        return
    with open(os.path.join(DEMO, "log/peer.log"), "a") as out:
        peer = subprocess.Popen([sys.executable, os.path.join(TOP, "demo/peer.py"), PEER, str(port),
                                 os.path.join(DEMO, "peer")], stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                start_new_session=True)
    with open(os.path.join(DEMO, "peer.pid"), "w") as out:
        out.write(f"{peer.pid}\n")
    wait_for("the other host", lambda: answers(PEER, port))


def boxes():
    return {name: set(glob.glob(os.path.join(DEMO, where)))
            for name, where in {"ben": "mail/ben/new/*", "anna": "mail/anna/new/*", "peer": "peer/*.eml"}.items()}


def show(title, path):
    print(f"\n--- {title}: {os.path.relpath(path, TOP)}")
    with open(path, "rb") as text:
        for line in text.read(1500).decode("utf-8", "replace").splitlines()[:24]:
            print("    " + line)


def start():
    if not os.path.exists(os.path.join(DEMO, "etc/main.cf")):
        create()
    port = read_number("port")
    start_peer()
    running = subprocess.run([os.path.join(BIN, "penstock"), "-c", os.path.join(DEMO, "etc"), "status"],
                             capture_output=True).returncode == 0
    print("it runs already" if running else tool("penstock", "start").strip())
    wait_for("the SMTP server", lambda: answers("127.0.0.1", port))
    if os.getuid():
        print("not root: it runs as this user, who owns the mailboxes; it can deliver to no other user's")
    before = boxes()
    print(f"\nSending {len(messages.ALL)} messages to 127.0.0.1:{port} by SMTP:")
    with smtplib.SMTP("127.0.0.1", port, "client.home.example") as client:
        for sender, recipient, text, what in messages.ALL:
            client.sendmail(sender, [recipient], text, ["BODY=8BITMIME"])
            print(f"  {recipient:22} -> {what}")
    for box, title in (("ben", "In Ben's Maildir"), ("peer", "At the other host"),
                       ("anna", "The report that came back to Anna")):
        path = wait_for(title, lambda b=box: boxes()[b] - before[b]).pop()
        show(title, path)
    print(f"\n--- The log: {os.path.relpath(DEMO, TOP)}/log/mail.log")
    with open(os.path.join(DEMO, "log/mail.log")) as log:
        for line in [x for x in log.read().splitlines() if "status=" in x][-6:]:
            print("    " + line)
    print("\n--- The queue: penqueue -p")
    print("    " + tool("penqueue", "-p").strip())
    where = os.path.relpath(BIN, os.getcwd()), os.path.relpath(os.path.join(DEMO, "etc"), os.getcwd())
    swaks = f"""swaks --server 127.0.0.1:{port} --from anna@home.example --to ben@home.example
                """ if shutil.which("swaks") else ""
    message = '"anna@home.example", "ben@home.example", "Subject: hi\\r\\n\\r\\nhi\\r\\n"'
    print(f"""
Go on:
  send one      {swaks}python3 -c 'import smtplib; smtplib.SMTP("127.0.0.1", {port}).sendmail({message})'
  look          {where[0]}/penqueue -c {where[1]} -p        {where[0]}/penstock -c {where[1]} status
                less {os.path.relpath(DEMO, os.getcwd())}/log/mail.log
  configure     edit {where[1]}/main.cf, then {where[0]}/penstock -c {where[1]} reload
  stop          ./run stop""")


def stop():
    if os.path.exists(os.path.join(DEMO, "etc/main.cf")) and os.path.exists(os.path.join(BIN, "penstock")):
        print(tool("penstock", "stop", check=False).strip())
    pid = read_number("peer.pid")
    if pid:
        try:
            with open(f"/proc/{pid}/cmdline") as text:
                if "demo/peer.py" in text.read():
                    os.kill(pid, 15)
        except OSError:
            pass  # gone already
        os.remove(os.path.join(DEMO, "peer.pid"))


if __name__ == "__main__":
    {"start": start, "stop": stop}[sys.argv[1]]()
