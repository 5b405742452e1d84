"""Bringing an archived session from the team's disk into this checkout, through the server.

The one who asks has no access to that disk: it wakes a worker, and the workers answer until one of them has the session
or all have said that they do not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import msgspec

from maestro_state._sync.queue import Queue
from maestro_state._sync.server import Server
from maestro_state.errors import (
    AmbiguousReference,
    FileCorrupt,
    InvalidValue,
    MaestroError,
    NoWorker,
    ServerUnavailable,
    SessionNotFound,
    WorkFailed,
)
from maestro_state.local.project import IndexRow
from maestro_state.mirror.parcel import Arrival, contents_of
from maestro_state.mirror.places import Places
from maestro_state.mirror.reader import ArchivedSession
from maestro_state.mirror.verify import verify
from maestro_state.mirror.writer import Generation, replacing
from maestro_state.models.names import is_sent_reference, is_session_id
from maestro_state.state.calls import parcels
from maestro_state.state.calls.parcels import BEGIN, END, FAILED, NONE, PART, Piece
from maestro_state.upkeep.archive_lock import once_unlocked
from maestro_state.vocabulary import FROZEN

#: Seconds to wait for a worker to answer, and then for each piece.
ANSWER_S = 30.0
PIECE_S = 15.0
#: Seconds a worker waits for somebody to fetch what it has sent.
FETCHED_S = 20.0
#: Seconds of one wait in the server, and of one pause while too many pieces wait.
_WAIT_S = 1
_FULL_PAUSE_S = 0.01
#: How often the archive's lock is tried while somebody else has it, and the pause between, in seconds.
_LOCK_TRIES = 150
_LOCK_PAUSE_S = 0.1


class Pulled(msgspec.Struct, frozen=True):
    """What was brought here."""

    session_id: str
    path: str
    files: int
    bytes: int
    written: bool  #: False when this checkout had it already
    trashed: str | None = None  #: where what this checkout had instead is now


class Pull:
    """Both ends of the way: who asks for an archive, and who sends it."""

    def __init__(self, server: Server, places: Places, queue: Queue) -> None:
        self._server = server
        self._places = places
        self._queue = queue

    def present(self, session_id: str) -> Pulled | None:
        """Return what this checkout has of a session if that is all there can be: ended, and undamaged."""
        home = self._places.own
        if not is_session_id(session_id) or session_id not in home.ids():
            return None
        try:
            is_whole = ArchivedSession(home, session_id).record().state in FROZEN and verify(home, session_id).ok
        except MaestroError:
            return None  # damaged: the team's may not be
        return Pulled(session_id, home.path_of(session_id), 0, 0, written=False) if is_whole else None

    def pull(self, ref: str, progress: Callable[[int, int], None] | None = None) -> Pulled:
        """Fetch an archive by id, slug or suffix; old or new, whole, whatever happens meanwhile.

        Raises SessionNotFound when no worker has it, NoWorker when none answers, FileCorrupt when what comes is not
        what was announced.
        """
        if not is_sent_reference(ref):
            raise InvalidValue(f"'{ref[:40]}' is not a reference", hint="give the full id, its slug, or its suffix")
        token = os.urandom(16).hex()
        try:
            return self._fetched(ref, token, progress)
        finally:
            with suppress(ServerUnavailable):
                self._server.fetch(parcels.remove(self._server.terms, token))

    def _fetched(self, ref: str, token: str, progress: Callable[[int, int], None] | None) -> Pulled:
        session_id = self._begun(ref, token)
        home = self._places.own
        with ExitStack() as stack:
            generation = self._opened(stack, session_id, token)
            arrival = Arrival(generation)
            for piece in self._pieces(token, session_id):
                arrival.take(piece.name, piece.data)
                if progress:
                    progress(arrival.bytes, arrival.total)
            arrival.finish()
        self._places.project.index_refresh(IndexRow.of(ArchivedSession(home, session_id).record()))
        return Pulled(session_id, home.path_of(session_id), arrival.files, arrival.bytes, True, generation.trashed)

    def _begun(self, ref: str, token: str) -> str:
        """Ask workers until one begins to send; return the id of what it sends."""
        without: set[str] = set()
        attempt = 0
        while True:
            workers = self._queue.workers()
            if not workers:
                raise NoWorker("no worker listens that could send the archive", hint="maestro worker where it is kept")
            if without and (len(without) >= workers or attempt > 3 * workers):
                raise SessionNotFound(ref, hint="maestro session list --all shows what this checkout knows")
            self._server.fetch(parcels.wait_for(self._server.terms, token))
            profile = ""
            try:
                profile = self._queue.enqueue_sending(ref, token, attempt)
                piece = self._next(token, ANSWER_S)
            except BaseException:  # also when interrupted: no worker shall take what nobody waits for
                with suppress(ServerUnavailable):
                    self._queue.withdraw_sending(token, attempt, profile)
                raise
            if piece.kind == NONE:
                without.add(piece.name)
                attempt += 1
            elif piece.kind == BEGIN and is_session_id(piece.name) and piece.number == 0:
                if ref not in (piece.name, piece.name.rsplit("--", 1)[0], piece.name.rsplit("--", 1)[1]):
                    raise FileCorrupt(f"a worker sends {piece.name} when {ref} was asked for")
                return piece.name
            else:
                raise _failure(ref, piece)

    def _opened(self, stack: ExitStack, session_id: str, token: str) -> Generation:
        """Open the next generation as soon as whoever has it lets go; the sender is kept waiting meanwhile."""
        return once_unlocked(
            lambda: stack.enter_context(replacing(self._places.own, session_id)),
            meanwhile=lambda: self._server.fetch(parcels.wait_for(self._server.terms, token)),
            tries=_LOCK_TRIES,
            pause_s=_LOCK_PAUSE_S,
        )

    def _pieces(self, token: str, session_id: str) -> Iterator[Piece]:
        number = 1
        while True:
            piece = self._next(token, PIECE_S)
            if piece.number < number:
                continue  # sent twice: its answer was lost
            if piece.number > number:
                raise WorkFailed(f"a piece of {session_id} was lost on the way", hint="try again")
            number += 1
            if piece.kind == END:
                return
            if piece.kind != PART:
                raise _failure(session_id, piece)
            yield piece

    def _next(self, token: str, timeout_s: float) -> Piece:
        query = parcels.next_piece(self._server.terms, token, _WAIT_S)
        ends_at = time.monotonic() + timeout_s
        while time.monotonic() < ends_at:
            self._server.fetch(parcels.wait_for(self._server.terms, token))
            reply = self._server.connection.block(*query.command, block_ms=_WAIT_S * 1000)
            piece: Piece | None = query.read(reply)
            if piece is not None:
                return piece
        raise NoWorker(f"no worker answered within {timeout_s:.0f} s", hint="they may be busy; try again")

    def send(self, ref: str, token: str, sender: str, is_stopping: Callable[[], object]) -> str | None:
        """Send what is archived here under a reference to whoever waits at the token; return its id, None when
        there is no such session here. Raises WorkFailed when nobody waits or fetches it, or this worker is to stop.
        """
        if not self._server.fetch(parcels.is_waited_for(self._server.terms, token)):
            raise parcels.nobody_waits()
        number = 0

        def add(kind: str, name: str, data: bytes = b"") -> None:
            nonlocal number
            self._add(token, Piece(number, kind, name, data), is_stopping)
            number += 1

        try:
            home, session_id = self._places.find(ref)
            found = verify(home, session_id)
            if not found.ok:
                raise FileCorrupt(f"the team's archive of {session_id} is damaged: {found.damaged[0].path}")
        except SessionNotFound:
            add(NONE, sender)
            return None
        except (AmbiguousReference, FileCorrupt) as error:
            add(FAILED, str(error)[:500])
            return None
        add(BEGIN, session_id)
        try:
            for path, data in contents_of(home, session_id, parcels.PIECE_BYTES):
                add(PART, path, data)
        except FileCorrupt as error:
            add(FAILED, str(error)[:500])
            return None
        add(END, session_id)
        return session_id

    def _add(self, token: str, piece: Piece, is_stopping: Callable[[], object]) -> None:
        call = parcels.add_piece(self._server.terms, token, piece)
        ends_at = time.monotonic() + FETCHED_S
        while not is_stopping():
            if self._server.run(call):
                return
            if time.monotonic() >= ends_at:
                raise WorkFailed("nobody fetches what was sent")
            time.sleep(_FULL_PAUSE_S)
        raise WorkFailed("this worker is stopping")


def _failure(ref: str, piece: Piece) -> MaestroError:
    if piece.kind == FAILED:
        return WorkFailed(piece.name, hint=f"maestro verify {ref} where it is kept")
    return FileCorrupt(f"what came through the server for {ref} is not an archive")
