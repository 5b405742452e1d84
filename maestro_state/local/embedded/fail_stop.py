"""Start the server so that it stops rather than answers when its log cannot be written.

Only under `appendfsync always` does the server end itself on a failed write, before anybody is told that it succeeded;
under every other policy it answers the commands of that moment and refuses the next ones. But `always` also waits for
the disk with every write. So the server is started under it with a filter of the kernel's that answers its fdatasync
at once; the supervisor does the syncing. A log that is written anew is synced by fsync, which stays what it is.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class _Machine(NamedTuple):
    """What the kernel calls a kind of machine, and its numbers of two system calls."""

    audit: int
    fdatasync: int
    seccomp: int


_MACHINES = {"x86_64": _Machine(0xC000003E, 75, 317), "aarch64": _Machine(0xC00000B7, 83, 277)}

_NO_NEW_PRIVILEGES = 38
_SET_FILTER = 1
#: Leave the processor's guesses alone: old kernels slow a filtered process down otherwise.
_ALLOW_SPECULATION = 1 << 2
_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_CALL_NUMBER_AT, _MACHINE_AT = 0, 4
_ALLOW, _ANSWER_SUCCESS = 0x7FFF0000, 0x00050000


def run_fail_stop(start: Callable[[bool], T]) -> T:
    """Call `start` so that processes it starts have the filter; it is told whether they do.

    In a thread of its own: a filter is a thread's, is inherited by what the thread starts, and cannot be taken off.
    """
    from threading import Thread

    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(start(_answer_syncs_at_once()))
        except BaseException as error:  # noqa: BLE001 - raised again below, in the caller's thread
            errors.append(error)

    thread = Thread(target=work)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def _answer_syncs_at_once() -> bool:
    """Put the filter on this thread; False where the kernel has none."""
    machine = _MACHINES.get(os.uname().machine) if sys.platform == "linux" else None
    if machine is None:
        return False
    import ctypes

    class Step(ctypes.Structure):
        _fields_ = (("code", ctypes.c_uint16), ("yes", ctypes.c_uint8), ("no", ctypes.c_uint8), ("k", ctypes.c_uint32))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_uint16), ("steps", ctypes.POINTER(Step)))

    steps = (Step * 6)(
        Step(_LOAD, 0, 0, _MACHINE_AT),
        Step(_JUMP_IF_EQUAL, 0, 2, machine.audit),  # else to _ALLOW: a 32-bit program has other numbers
        Step(_LOAD, 0, 0, _CALL_NUMBER_AT),
        Step(_JUMP_IF_EQUAL, 1, 0, machine.fdatasync),
        Step(_RETURN, 0, 0, _ALLOW),
        Step(_RETURN, 0, 0, _ANSWER_SUCCESS),
    )
    libc = ctypes.CDLL(None)
    # The kernel asks for it: else a filter could deceive a program that runs as another user.
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        return False
    program = Program(len(steps), steps)
    return bool(libc.syscall(machine.seccomp, _SET_FILTER, _ALLOW_SPECULATION, ctypes.byref(program)) == 0)
