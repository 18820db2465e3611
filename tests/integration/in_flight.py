"""What crashes may do to mail, and what not: judges a run by what got 250, what arrived, and when what was killed.

Use:     verdict = judge(acknowledged, arrivals, mx.kills, synced(mx.log_bytes()))
         verdict.faults       sentences; empty: nothing lost, nothing damaged, twice only what was in flight
         judge(…, grace={"qmgr": 5})    seconds after a kill in which what the dead had given out may still arrive
Source:  issue "kill -9 … nothing delivered twice but what was in flight".

In flight at a kill is a delivery whose end-of-data was sent and whose result is not durable yet. So a second arrival of
the same message (queue id) for the same recipient is excused by a kill K if
  1. K lies between the two arrivals, of a program that has deliveries in its hands (RELEVANT), and
  2. the result of the first was not on disk before K: qmgr, run with -v, says "result synced" after the sync. Its place
     in the log is compared with the log's size just before K.
A kill has a length (from the signal to the last process gone), and within it everything may still happen.
"""
import collections
import os
import re
import time

# Whose death may repeat a delivery: who delivers, who writes down the result, and who takes both along.
RELEVANT = {"smtp": {"smtp"}, "virtual": {"virtual"}, "local": {"local"}}
ALWAYS = {"qmgr", "master", "all"}
# Files have the time of the kernel's last tick.
TICK = 0.02

# sent, dead: monotonic seconds before the signal and when nothing of it ran any more; before, after: the log's size
# then.
Kill = collections.namedtuple("Kill", "name sent dead before after")
# worst: deliveries that one kill repeated; reach: how long before it the first of them had arrived, in seconds.
# key: what the client knows the message by; at: monotonic seconds; by: smtp, virtual or local; damage: None or what
# differs.
Arrival = collections.namedtuple("Arrival", "key recipient queue_id at by damage")
Verdict = collections.namedtuple("Verdict", "faults arrived doubled resent worst reach")


def synced(log):
    """(queue id, recipient) -> the log's size after each line that says that a result is on disk."""
    places = collections.defaultdict(list)
    for found in re.finditer(rb"(?m)^.*?/qmgr\[\d+\]: (?:debug: )?(\S+): to=<([^>]*)>, result synced\n", log):
        places[found.group(1).decode(), found.group(2).decode()].append(found.end())
    return places


def queue_id_of(header):
    """Of the last hop, from its trace field."""
    return re.search(rb"\bid ([^\s;]+)", header).group(1).decode()


def in_maildir(path):
    """(file, content, when it was written) of each message delivered there, on the monotonic clock."""
    shift = time.time() - time.monotonic()
    for name in os.listdir(os.path.join(path, "new")):
        file = os.path.join(path, "new", name)
        with open(file, "rb") as raw:
            yield file, raw.read(), os.stat(file).st_mtime - shift


def judge(acknowledged, arrivals, kills, results, grace=None):
    """`acknowledged`: (key, recipient) pairs that got 250; `results`: of synced(), or None if qmgr ran without -v.
    Any clock will do that arrivals and kills have in common: the length of a file that only grows, for one."""
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
        # On disk at p: nobody delivers it after the first kill that began later than p (one between them settles
        # which of the arrivals p belongs to).
        for place in (results or {}).get((queue_id, recipient), []):
            later = next((k for k in kills if k.before >= place), None)
            if later and all_of_it[-1].at > later.dead + TICK:
                faults.append(f"doubled though its result was on disk: {queue_id} for {recipient}, at "
                              f"{all_of_it[-1].at:.3f} after the kill of {later.name} at {later.sent:.3f}")
                break
    # A client that got 451 because qmgr died may send again what qmgr has: another queue id.
    resent = 0
    for (key, recipient), ids in by_message.items():
        if len(ids) < 2:
            continue
        resent += 1
        last = max(a.at for i in ids for a in by_delivery[i, recipient])
        if not any(k.name in ALWAYS and k.sent <= last + TICK for k in kills):
            faults.append(f"two messages where qmgr never died: {key} for {recipient}: {', '.join(sorted(ids))}")
    return Verdict(faults, len(by_message), doubled, resent, max(excused_by.values(), default=0), reach)
