"""What a process of ours asks of the system for itself: keep freed memory, adopt orphans, keep others out.

Where a call does not exist the answer says so, and the caller does without.
"""

from __future__ import annotations

import os

from maestro_state.fs.kernel import libc

_PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER = 4, 36

#: The allocator's settings by their numbers: when to give freed memory back, how much more to ask for than is needed,
#: from which size on to ask for each piece apart.
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3


def keep_memory(size: int) -> None:
    """Keep up to `size` freed bytes in this process instead of giving them back at once, where the allocator can.

    Memory that is given back and asked for again with every large piece costs a page fault per 4 KB of it.
    """
    call = libc("mallopt")
    if call is not None:
        for setting, value in ((_TRIM_THRESHOLD, size), (_MMAP_THRESHOLD, size), (_TOP_PAD, 1 << 20)):
            call(setting, value)


def adopt_orphans() -> bool:
    """Become the parent of whatever descendants of this process lose theirs; False where that is not possible."""
    call = libc("prctl")
    return call is not None and call(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def keep_private() -> bool:
    """Keep other processes of this user from reading this one's environment, memory and open files.

    The environment it was started with is also wiped where the kernel shows it; `os.environ` and what is started later
    keep it. Forks are private too, programs that they become are not. False where there is no such call.
    """
    call = libc("prctl")
    if call is None or call(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        return False
    _wipe_environment()
    return True


def _wipe_environment() -> None:
    """Have the environment's variables elsewhere in memory, and nothing where it was when the process began."""
    import ctypes

    try:
        with open("/proc/self/stat", "rb") as file:
            start, end = map(int, file.read().rpartition(b")")[2].split()[47:49])
    except (OSError, ValueError):
        return  # no /proc: then nobody can look there either
    for name, value in os.environb.items():
        os.environb[name] = value
    if 0 < start < end:
        ctypes.memset(start, 0, end - start)
