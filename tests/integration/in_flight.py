"""Judges a run with crashes by what got 250, what arrived, and when programs were killed.

Use:     verdict = judge(acknowledged, arrivals, mx.kills, synced(mx.log_bytes()))
         verdict.faults       sentences; empty: nothing lost, nothing damaged, twice only what was in flight
         judge(…, grace={"qmgr": 5})    seconds after a kill in which deliveries of the dead program may still arrive
Source:  issue "kill -9 … nothing delivered twice but what was in flight".

A delivery is in flight at a kill if its end-of-data was sent and its result is not durable yet. So a second arrival of
a message (queue id) for a recipient is excused by a kill K if
  1. K lies between the two arrivals and is of a program that has deliveries in hand (RELEVANT), and
  2. the result of the first was not on disk before K: qmgr, run with -v, logs "result synced" after the sync. The place
     of that line is compared with the log's size just before K.
A kill has a duration (from the signal to the last process's end), within which anything may still happen.
"""
import collections
import os
import re
import time

# Programs whose death may repeat a delivery: those that deliver or record the result, and master, which ends both.
# Those that become recipients deliver for virtual and local.
RELEVANT = {"smtp": {"smtp"}, "virtual": {"virtual", "become"}, "local": {"local", "become"}}
ALWAYS = {"qmgr", "master", "all"}
# File times have the resolution of the kernel's tick.
TICK = 0.02

# sent, dead: monotonic seconds before the signal, and when no process was left; before, after: the log's size at
# these times.
Kill = collections.namedtuple("Kill", "name sent dead before after")
# worst: deliveries that one kill repeated; reach: how many seconds before it the first of them had arrived. key: the
# client's name for the message; at: monotonic seconds; by: smtp, virtual or local; damage: None or the difference.
Arrival = collections.namedtuple("Arrival", "key recipient queue_id at by damage")
Verdict = collections.namedtuple("Verdict", "faults arrived doubled resent worst reach")


def synced(log):
    """Returns (queue id, recipient) -> the log's size after each line that says that a result is on disk."""
    places = collections.defaultdict(list)
    for found in re.finditer(rb"(?m)^.*?/qmgr\[\d+\]: (?:debug: )?(\S+): to=<([^>]*)>, result synced\n", log):
        places[found.group(1).decode(), found.group(2).decode()].append(found.end())
    return places


def queue_id_of(header):
    """Returns the queue id of the last hop, from its trace field."""
    return re.search(rb"\bid ([^\s;]+)", header).group(1).decode()


def in_maildir(path):
    """Yields (file, content, time of writing on the monotonic clock) of each message delivered there."""
    shift = time.time() - time.monotonic()
    for name in os.listdir(os.path.join(path, "new")):
        file = os.path.join(path, "new", name)
        with open(file, "rb") as raw:
            yield file, raw.read(), os.stat(file).st_mtime - shift


def judge(acknowledged, arrivals, kills, results, grace=None):
    """`acknowledged`: (key, recipient) pairs that got 250; `results`: from synced(), or None if qmgr ran without -v.
    Arrivals and kills may use any common clock, such as the length of a file that only grows."""
    kills = sorted(kills, key=lambda k: k.sent)
    faults = []
    by_delivery = collections.defaultdict(list)
    by_message = collections.defaultdict(set)
    for a in sorted(arrivals, key=lambda a: a.at):
        by_delivery[a.queue_id, a.recipient].append(a)
        by_message[a.key, a.recipient].add(a.queue_id)
        if a.damage:
            faults.append(f"damaged: {a.key} for {a.recipient} ({a.queue_id}): {a.damage}")
    lost = sorted(set(acknowledged) - by_message.keys())
    faults += [f"lost: {key} for {recipient}" for key, recipient in lost]

    excused_by = collections.Counter()
    doubled, reach = 0, 0.0
    for (queue_id, recipient), all_of_it in by_delivery.items():
        if len(all_of_it) < 2:
            continue
        doubled += 1
        for first, second in zip(all_of_it, all_of_it[1:]):
            relevant = RELEVANT.get(first.by, {first.by}) | ALWAYS
            between = [
                k
                for k in kills
                if k.name in relevant
                and k.dead + (grace or {}).get(k.name, 0) >= first.at - TICK
                and k.sent <= second.at + TICK
            ]
            if not between:
                faults.append(f"doubled without a kill: {queue_id} for {recipient}, {first.at:.3f} and {second.at:.3f}")
                continue
            excused_by[between[0]] += 1
            reach = max(reach, between[0].sent - first.at)
        # The result was on disk at p: nobody delivers the message after the first kill that began later than p (a
        # kill in between decides which of the arrivals p belongs to).
        for place in (results or {}).get((queue_id, recipient), []):
            later = next((k for k in kills if k.before >= place), None)
            if later and all_of_it[-1].at > later.dead + TICK:
                faults.append(f"doubled though its result was on disk: {queue_id} for {recipient}, at "
                              f"{all_of_it[-1].at:.3f} after the kill of {later.name} at {later.sent:.3f}")
                break
    # A client that got 451 because qmgr died may send a message again that qmgr has: under another queue id.
    resent = 0
    for (key, recipient), ids in by_message.items():
        if len(ids) < 2:
            continue
        resent += 1
        last = max(a.at for i in ids for a in by_delivery[i, recipient])
        if not any(k.name in ALWAYS and k.sent <= last + TICK for k in kills):
            faults.append(f"two messages where qmgr never died: {key} for {recipient}: {', '.join(sorted(ids))}")
    return Verdict(faults, len(by_message), doubled, resent, max(excused_by.values(), default=0), reach)
