"""What computes batches elsewhere. Each engine becomes an executor of concurrent.futures, so that a sweep knows one kind."""

from __future__ import annotations

import importlib
import os
import pickle
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from ._flashlab import InputError

_INSTALL = {"ray": "ray", "dask": "distributed", "spark": "pyspark"}
_MODULES = {"ray": "ray", "dask": "distributed", "spark": "pyspark.sql"}


@contextmanager
def engine(on: Any) -> Iterator[tuple[Any, int]]:
    """An executor and how many workers it has. An engine that runs already is used, and stays; another one is started for the sweep."""
    if isinstance(on, Executor) or hasattr(on, "submit"):
        yield on, getattr(on, "_max_workers", None) or os.cpu_count() or 1
        return
    if on not in _INSTALL:
        raise InputError(f"on={on!r} is no engine: give an executor of concurrent.futures, or {', '.join(_INSTALL)}")
    try:
        module = importlib.import_module(_MODULES[on])
    except ImportError as error:
        raise InputError(f'on="{on}" needs another package: pip install {_INSTALL[on]}') from error
    with {"ray": _ray, "dask": _dask, "spark": _spark}[on](module) as found:
        yield found


@contextmanager
def _ray(ray: Any) -> Iterator[tuple[Any, int]]:
    is_ours = not ray.is_initialized()
    if is_ours:
        ray.init(log_to_driver=False, include_dashboard=False)
    try:
        yield _Ray(ray), max(1, int(ray.cluster_resources().get("CPU", 1)))
    finally:
        if is_ours:
            ray.shutdown()


class _Ray:
    """A task for each batch. Ray starts a task again whose worker was killed."""

    def __init__(self, ray: Any) -> None:
        self.ray = ray
        self.remote: dict[Any, Any] = {}

    def submit(self, work: Any, /, *arguments: Any) -> Future[Any]:
        if work not in self.remote:
            self.remote[work] = self.ray.remote(num_cpus=1, max_retries=3)(work)
        future: Future[Any] = self.remote[work].remote(*arguments).future()
        return future


@contextmanager
def _dask(distributed: Any) -> Iterator[tuple[Any, int]]:
    try:
        client, is_ours = distributed.get_client(), False
    except ValueError:
        client, is_ours = distributed.Client(threads_per_worker=1), True
    try:
        # A batch is computed once, even if its rows are those of another one.
        workers = sum(client.nthreads().values())
        yield client.get_executor(pure=False), max(1, workers)
    finally:
        if is_ours:
            client.close()


@contextmanager
def _spark(sql: Any) -> Iterator[tuple[Any, int]]:
    session = sql.SparkSession.getActiveSession()
    is_ours = session is None
    if is_ours:
        session = sql.SparkSession.builder.appName("flashlab").getOrCreate()
    context = session.sparkContext
    workers = max(1, context.defaultParallelism)
    # Spark's jobs block their callers, so that each one that runs has a thread here.
    with ThreadPoolExecutor(workers + 1) as threads:
        try:
            yield _Spark(context, threads), workers
        finally:
            context.cancelAllJobs() if is_ours else None
    if is_ours:
        session.stop()


class _Spark:
    """A job of one task for each batch. Spark starts a task again whose worker was lost."""

    def __init__(self, context: Any, threads: ThreadPoolExecutor) -> None:
        self.context, self.threads = context, threads

    def submit(self, work: Any, /, *arguments: Any) -> Future[Any]:
        sent = pickle.dumps((work, arguments))

        def job() -> Any:
            return pickle.loads(self.context.parallelize([sent], 1).map(_spark_task).collect()[0])

        return self.threads.submit(job)


def _spark_task(sent: bytes) -> bytes:
    work, arguments = pickle.loads(sent)
    return pickle.dumps(work(*arguments))
