"""Check rows on the machines of a Ray cluster, with the results in the order of the rows (extra ``ray``).

Ray Data hands splits of the input to actors, which have the workflow loaded, and hands the results on in order. If a
machine or a worker is lost, Ray gives its split to another one; the results of a split are taken once, as a whole.
"""

from __future__ import annotations

import logging
import os
import pickle
import socket
from collections import Counter, defaultdict
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.engine.values.errors import MissingExtraError, PenstockError
from penstock.workflows.rows.processes import TRIES
from penstock.workflows.rows.reading import RowsError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from penstock.workflows.rows.results import RowResult
    from penstock.workflows.rows.splits import Split
    from penstock.workflows.rows.warm import WarmJob

CAREFUL_AFTER = 2
"""How often the worker of a split with async steps may be lost until its rows are checked one by one."""

_STORE_BYTES = 300 * 1024 * 1024  # of the object store of a cluster that is started for one run on this machine


def checked_on_ray(
    warm: WarmJob,
    splits: Sequence[Split],
    *,
    address: str | None = None,
    processes: int | None = None,
    on_split: Callable[[Split], None],
) -> Generator[RowResult]:
    """Yield the results of the rows of splits, in order.

    Close the iterator if you leave it early: that ends the work on the cluster.

    Args:
        warm: the work on each row. Every machine must be able to load its workflow, and to read the files.
        splits: the splits.
        address: the address of the cluster. None: that of the environment variable ``RAY_ADDRESS``, or of a cluster
            that is started on this machine, and ended afterwards. A cluster that the process is connected to is used.
        processes: how many worker processes check rows at most; None: as many as the cluster has cores.
        on_split: called with each split when all its results were taken.

    Raises:
        MissingExtraError: the extra ``ray`` is not installed.
        RowsError: the cluster cannot be reached or has ended, or a file cannot be read there.
    """
    try:
        ray: Any = import_module("ray")
        data: Any = import_module("ray.data")
    except ImportError as error:
        raise MissingExtraError("--engine ray", "ray") from error
    with _connected(ray, address):
        for answer in _answers(data, ray, warm, splits, processes or len(splits)):
            yield from pickle.loads(answer["results"])  # noqa: S301 - our own actors made it
            if answer["error"]:
                raise RowsError(answer["error"])
            on_split(splits[int(answer["split"])])


def _answers(
    data: Any, ray: Any, warm: WarmJob, splits: Sequence[Split], processes: int
) -> Iterator[Mapping[str, Any]]:
    """Yield the actors' results for each split, in order."""
    if not splits:
        return
    context = data.DataContext.get_current()
    before = context.execution_options.preserve_order, context.enable_progress_bars
    context.execution_options.preserve_order, context.enable_progress_bars = True, False
    losses = ray.remote(_Losses).options(num_cpus=0, max_restarts=-1, max_task_retries=-1).remote()
    try:
        items = [{"split": number, "pickled": pickle.dumps(split)} for number, split in enumerate(splits)]
        rows = data.from_items(items, override_num_blocks=len(items))
        pool = data.ActorPoolStrategy(min_size=1, max_size=min(processes, len(items)))
        yield from rows.map(
            _SplitChecker, fn_constructor_args=(warm, losses, ray.get), compute=pool, num_cpus=1
        ).iter_rows()
    except (ray.exceptions.RayError, ConnectionError) as error:
        raise RowsError(f"the run on Ray has ended: {_first_line(error)}") from error
    finally:
        context.execution_options.preserve_order, context.enable_progress_bars = before


# In an actor


class _SplitChecker:
    """Checks splits in an actor. Ray restarts it when it was lost, and gives it the split again, however often."""

    def __init__(self, warm: WarmJob, losses: Any, get: Callable[[Any], Any]) -> None:
        self._warm = warm
        self._losses = losses
        self._get = get

    def __call__(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the results of a split as bytes, and an error that ends the run, or an empty text."""
        number = int(row["split"])
        split: Split = pickle.loads(row["pickled"])  # noqa: S301 - the driver made it
        tries, lost = self._get(self._losses.begin.remote(number))
        results: list[RowResult] = []
        error = ""
        try:
            if self._warm.row_seconds is not None or tries <= CAREFUL_AFTER:  # below a child, no row kills this one
                results = self._warm.checked(split.raw_rows())
            else:
                for raw in split.raw_rows():
                    if raw.line in lost:
                        results.append(self._warm.lost(raw, "was killed"))
                    else:
                        self._get(self._losses.at.remote(number, raw.line))
                        results += self._warm.checked([raw])
        except PenstockError as raised:
            error = str(raised)
        return {"split": number, "results": pickle.dumps(results), "error": error}


class _Losses:
    """Knows how often each split was begun, and which row was checked when its worker was lost. It is an actor."""

    def __init__(self) -> None:
        self._begun: Counter[int] = Counter()
        self._at: dict[int, int] = {}
        self._lost: defaultdict[int, Counter[int]] = defaultdict(Counter)

    def begin(self, split: int) -> tuple[int, list[int]]:
        """Return how often the split was begun, this time included, and the lines of the rows to give up."""
        self._begun[split] += 1
        if (line := self._at.pop(split, None)) is not None:
            self._lost[split][line] += 1
        return self._begun[split], [line for line, times in self._lost[split].items() if times >= TRIES]

    def at(self, split: int, line: int) -> None:
        """Note the row of a split that is checked next."""
        self._at[split] = line


# The cluster


@contextmanager
def _connected(ray: Any, address: str | None) -> Generator[None]:
    """Connect to a cluster, unless this process is connected to one."""
    if ray.is_initialized():
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS")
    own = {} if address else {"object_store_memory": _STORE_BYTES, "include_dashboard": False}
    try:
        _check_reachable(address or "")
        ray.init(address=address or "local", logging_level=logging.ERROR, **own)
        logging.getLogger("ray.data").setLevel(logging.ERROR)
    except (OSError, RuntimeError, ValueError) as error:
        where = f"of the address {address}" if address else "on this machine"
        raise RowsError(f"cannot connect to the Ray cluster {where}: {_first_line(error)}") from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_reachable(address: str) -> None:
    """Check that somebody listens at an address ``host:port``: Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def _first_line(error: Exception) -> str:
    said = error.strerror if isinstance(error, OSError) else None
    return said or str(error).strip().partition("\n")[0] or type(error).__name__
