"""Processes that stand still. SIGSTOP alone is a request: it has one thread stop, which has the others stop, and until
then those go on answering."""
import contextlib
import glob
import os
import signal

from waiting import eventually


def suspend(*pids):
    """Returns when no thread of these processes runs; ended ones are passed over."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    eventually(lambda: all(map(_stands, pids)), f"processes {pids} stand still")


def resume(*pids):
    """Lets them go on; ended ones are passed over."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def suspended(*pids):
    """They stand still inside the block."""
    suspend(*pids)
    try:
        yield
    finally:
        resume(*pids)


def _stands(pid):
    for stat in glob.glob(f"/proc/{pid}/task/*/stat"):
        try:
            with open(stat) as file:
                if file.read().rsplit(")", 1)[1].split()[0] not in "TtZX":
                    return False
        except (FileNotFoundError, ProcessLookupError):
            pass  # that thread has ended
    return True
