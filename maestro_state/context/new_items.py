"""From files and texts to batches of new items: reads and hashes each file once, when its batch is due."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence

from maestro_state.context.chosen_files import File
from maestro_state.context.drift import CHANGED, MISSING, drift_of
from maestro_state.context.reading import Tree
from maestro_state.errors import ContentTooLarge, PathNotFound, PathRefused, SecretFound
from maestro_state.models.context import ContextItem, Skipped
from maestro_state.state.calls import context as ops
from maestro_state.state.calls.terms import Terms

NewItems = list[ops.NewItem]

_TROUBLE = (ContentTooLarge, PathNotFound, PathRefused, SecretFound)


class Making:
    """One command's items in the making."""

    def __init__(
        self,
        tree: Tree,
        terms: Terms,
        now_ms: int,
        labels: tuple[str, ...] = (),
        note: str | None = None,
        *,
        force: bool = False,
    ) -> None:
        """Take what all items have in common; `force` adds files that look as if they held a secret, too."""
        self._tree, self._terms, self._now_ms, self._labels, self._note = tree, terms, now_ms, labels, note
        self._force = force
        self._clean: set[tuple[str, str]] = set()
        self.skipped: list[Skipped] = []

    def text(self, content: bytes) -> ops.NewItem:
        """Make an item of a text; raises what is wrong with it before anything is added."""
        return ops.new_text(self._terms, self._now_ms, content, self._labels, self._note)

    def check_named(self, entries: Sequence[File | bytes]) -> None:
        """Refuse named files that look as if they held a secret, before the first batch is added."""
        if self._force or len(entries) == 1:
            return  # one is looked at when it is read, and nothing is added before
        for entry in entries:
            if isinstance(entry, File) and entry.is_named:
                content = self._tree.read(entry.place, self._terms.max_value_bytes).data
                check_secrets(entry.place.path_rel, content)
                self._clean.add((entry.place.path_rel, ops.digest_of(content)))

    def batches(self, entries: Sequence[File | bytes], texts: Iterable[ops.NewItem]) -> Generator[NewItems, None, None]:
        """Yield the items of `entries` in their order, as many at a time as one call takes."""
        return _batched(self._items(entries, iter(texts)))

    def refreshed(self, items: Iterable[ContextItem], *, is_named: bool) -> Iterator[NewItems]:
        """Yield new items for the files that differ from their snapshot."""
        return _batched(self._refreshed(items, is_named=is_named))

    def _items(self, entries: Sequence[File | bytes], texts: Iterator[ops.NewItem]) -> Iterator[ops.NewItem]:
        for entry in entries:
            if isinstance(entry, bytes):
                yield next(texts)
                continue
            place = entry.place
            try:
                content = self._tree.read(place, self._terms.max_value_bytes)
                item = ops.new_file(
                    self._now_ms, place.path_rel, content.data, content.mtime_ms,
                    labels=self._labels, notes=self._note, follow=place.is_outside, force=self._force,
                )  # fmt: skip
                if not self._force and (place.path_rel, item.digest) not in self._clean:
                    check_secrets(place.path_rel, content.data)
            except _TROUBLE as error:
                if entry.is_named:
                    raise
                self.skipped.append(Skipped(place.path_rel, _reason(error)))
                continue
            yield item

    def _refreshed(self, items: Iterable[ContextItem], *, is_named: bool) -> Iterator[ops.NewItem]:
        for item in items:
            path, state = str(item.source.get("path_rel")), drift_of(self._tree, item)
            if state == MISSING:
                self.skipped.append(Skipped(path, "the file is gone"))
            if state != CHANGED:
                continue
            try:
                place = self._tree.place(self._tree.root, path, follow=item.source.get("follow") is True)
                content = self._tree.read(place, self._terms.max_value_bytes)
                force = self._force or item.source.get("force") is True
                if not force:
                    check_secrets(path, content.data)
            except _TROUBLE as error:
                if is_named:
                    raise
                self.skipped.append(Skipped(path, _reason(error)))
                continue
            yield ops.new_file(
                self._now_ms, path, content.data, content.mtime_ms,
                labels=tuple(item.labels), notes=item.notes, follow=place.is_outside, force=force, replaces=item.id,
            )  # fmt: skip


def check_secrets(name: str, content: bytes) -> None:
    """Refuse a file that looks as if it held a secret; says by which rule and where, never what."""
    from maestro_state.secrets import find_secrets

    if found := find_secrets(name, content):
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        raise SecretFound(
            f"{name} looks as if it held a secret ({found[0].rule}, line {found[0].line}{more})",
            hint="--force adds it all the same",
        )


def _reason(error: Exception) -> str:
    """Say why a file that nobody named was left out; one that is gone or has grown changed since it was listed."""
    text = str(error)
    return text[text.index("looks as if") :] if isinstance(error, SecretFound) else text


def _batched(items: Iterable[ops.NewItem]) -> Generator[NewItems, None, None]:
    batch: NewItems = []
    size = 0
    for item in items:
        if batch and (size + len(item.content) > ops.BATCH_BYTES or len(batch) >= ops.BATCH_ITEMS):
            yield batch
            batch, size = [], 0
        batch.append(item)
        size += len(item.content)
    if batch:
        yield batch
