"""The keeper thread of a client: it renews leases, reports lost ones, and makes calls in the background.

It is a thread in asyncio too, so that a blocked event loop does not lose its locks."""
from __future__ import annotations

import enum
import heapq
import itertools
import math
import os
import threading
from collections import deque
from typing import Any, Callable, Deque, List, Optional, Tuple

import grpc

from lockstock._calls import Method, error_of, is_temporary, methods_of, now
from lockstock._links import ThreadLink
from lockstock.errors import CallError
from lockstock.v1 import lock_pb2

RENEW = methods_of(lock_pb2)["Renew"]
WATCH = methods_of(lock_pb2)["WatchForceReleases"]
BATCH_MAX = 256
TRY_MAX_S = 1.5
PAUSE_MIN_S, PAUSE_MAX_S = 0.05, 0.4
INSIST_S = 86400.0
WATCH_S = 60.0        # the longest wait of a watch, in case the server hangs
WATCH_AFTER_S = 0.2   # short locks are not watched, which saves calls
WATCH_AGAIN_S, WATCH_FAILED_S = 0.1, 1.0
Next = Optional[Tuple[Method, Any]]


class State(enum.Enum):
    HELD = 1
    LOST = 2
    ENDED = 3  # by its holder


class Task:
    """A call that the keeper repeats: each time that it is due, but not while one is under way."""

    renews = False  # its question is a lock_pb2.Lease, which shares a Renew with others

    def __init__(self) -> None:
        self.due = 0.0
        self.asked = False
        self.entry = -1  # its position in the keeper's heap
        self.pause = PAUSE_MIN_S

    def question(self) -> Tuple[Method, Any]:
        raise NotImplementedError

    def answered(self, response: Any, sent: float) -> None:
        raise NotImplementedError

    def failed(self, error: CallError) -> None:
        if error.reason == "server_unreachable":
            self.pause = PAUSE_MIN_S  # nothing was sent, so trying again soon costs the server nothing
        self.due = now() + max(self.pause, error.retry_after or 0)
        self.pause = min(self.pause * 2, PAUSE_MAX_S)

    def wakes(self) -> Optional[float]:
        """When the keeper must look at it next; None: never again."""
        raise NotImplementedError


class Chore(Task):
    """A call that is repeated until a server answers it. `then` returns a call to make afterwards."""

    def __init__(self, method: Method, request: Any, then: Optional[Callable[[Any], Next]] = None) -> None:
        super().__init__()
        self.call: Next = (method, request)
        self.then = then
        self.until = now() + INSIST_S

    def question(self) -> Tuple[Method, Any]:
        assert self.call is not None
        return self.call

    def answered(self, response: Any, sent: float) -> None:
        self.call, self.then = self.then(response) if self.then else None, None
        self.due = sent

    def failed(self, error: CallError) -> None:
        super().failed(error)
        if not is_temporary(error):
            self.call = None

    def wakes(self) -> Optional[float]:
        return self.due if self.call and self.due < self.until else None


class Lease(Task):
    """A lease, which its holder has until `lost_at` unless a server renews it. Any thread may read it.

    It counts from just before the request was sent, and ends a tenth (1 s at most) before it can end at the server."""

    def __init__(self, seconds: float, sent: float, what: str, max_hold: Optional[float]) -> None:
        super().__init__()
        self.state = State.HELD
        self.what = what
        self.why = ""
        self.pid = os.getpid()
        self.stop_at = math.inf if max_hold is None else sent + max_hold
        self.on_lost: List[Callable[[], None]] = []
        self.extended(seconds, sent)

    def extended(self, seconds: float, sent: float) -> None:
        self.seconds = seconds
        self.lost_at = sent + seconds - min(seconds / 10, 1.0)
        grid = seconds / 12  # so that leases that were taken one after the other are renewed together
        self.due = max(math.floor((sent + seconds / 3) / grid) * grid, sent)
        self.pause = PAUSE_MIN_S

    @property
    def lost(self) -> bool:
        return self.state == State.LOST or (self.state == State.HELD and (now() >= self.lost_at or self.pid != os.getpid()))

    @property
    def remaining(self) -> float:
        return max(self.lost_at - now(), 0.0) if self.state == State.HELD and self.pid == os.getpid() else 0.0

    def reason(self) -> str:
        if self.pid != os.getpid():
            return f"{self.what} is held by the process that this one was forked from"
        return f"{self.what} is lost: {self.why or 'its lease ended'}"

    def failed(self, error: CallError) -> None:
        super().failed(error)
        self.why = f"it could not be renewed: {error.message}"

    def wakes(self) -> Optional[float]:
        if self.state != State.HELD:
            return None
        return min(self.lost_at, math.inf if self.asked or self.due >= self.stop_at else self.due)


class Watch(Task):
    """A call that is answered when an administrator has taken a lock away. All locks are renewed after it was sent: one of
    them may have been taken away before the server received it."""

    def __init__(self) -> None:
        super().__init__()
        self.due = now() + WATCH_AFTER_S
        self.refused = False

    def question(self) -> Tuple[Method, Any]:
        return WATCH, lock_pb2.WatchForceReleasesRequest(wait_ms=round(WATCH_S * 1000))

    def answered(self, response: Any, sent: float) -> None:
        self.due = now() + WATCH_AGAIN_S

    def failed(self, error: CallError) -> None:
        # An older server, or a token without the right to read, always refuses.
        self.refused = not is_temporary(error)
        self.due = now() + max(WATCH_FAILED_S, error.retry_after or 0)

    def wakes(self) -> Optional[float]:
        return None if self.refused else self.due


class Keeper:
    """Thread-safe. Its thread begins with the first task."""

    def __init__(self, link: ThreadLink) -> None:
        self._link = link
        self._changed = threading.Condition()
        self._wakes: List[Tuple[float, int, Task]] = []
        self._number = itertools.count()
        self._answers: Deque[Tuple[List[Task], float, Any]] = deque()
        self._chores = 0
        self._watch: Optional[Watch] = None
        self._closed = False
        self._thread: Optional[threading.Thread] = None

    def add(self, task: Task) -> None:
        with self._changed:
            self._chores += isinstance(task, Chore)
            entry = self._push(task)
            if task.renews and self._watch is None:
                self._watch = Watch()
                self._push(self._watch)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="lockstock-keeper", daemon=True)
                self._thread.start()
            elif self._wakes[0][1] == entry:
                self._changed.notify_all()

    def end(self, lease: Lease) -> bool:
        """Ends the renewal of a lease. False if it was already lost."""
        with self._changed:
            held = lease.state == State.HELD and now() < lease.lost_at
            lease.state = State.ENDED
        return held

    def insist(self, method: Method, request: Any, then: Optional[Callable[[Any], Next]] = None) -> None:
        """Makes a call in the background and repeats it until a server answers."""
        self.add(Chore(method, request, then))

    def close(self, within: float) -> None:
        """Waits for the background calls, and ends the thread. Leases are not renewed any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._chores == 0, within)
            self._closed = True
            self._changed.notify_all()
        if self._thread and self._thread is not threading.current_thread():
            self._thread.join()

    def _push(self, task: Task) -> int:
        """Puts the task into the heap by its next time. An earlier entry of the task becomes invalid."""
        at = task.wakes()
        task.entry = next(self._number)
        if at is not None:
            heapq.heappush(self._wakes, (at, task.entry, task))
        elif isinstance(task, Chore):
            self._chores -= 1
            self._changed.notify_all()
        return task.entry

    def _run(self) -> None:
        while True:
            with self._changed:
                wait = self._wakes[0][0] - now() if self._wakes else None
                if not self._answers and not self._closed and (wait is None or wait > 0):
                    self._changed.wait(wait)
                if self._closed:
                    return
                lost = self._take_answers() + self._take_due()
            for lease in lost:
                for tell in lease.on_lost:
                    tell()

    def _take_answers(self) -> List[Lease]:
        lost = []
        while self._answers:
            tasks, sent, answer = self._answers.popleft()
            for at, task in enumerate(tasks):
                task.asked = False
                if isinstance(answer, CallError):
                    task.failed(answer)
                elif not isinstance(task, Lease) or task.state == State.HELD:
                    task.answered(answer.results[at] if task.renews else answer, sent)
                if isinstance(task, Lease) and task.state == State.LOST:
                    lost.append(task)
                self._push(task)
        return lost

    def _take_due(self) -> List[Lease]:
        """Sends all due calls: locks together, others one by one."""
        lost: List[Lease] = []
        locks: List[Task] = []
        at = now()
        while self._wakes and self._wakes[0][0] <= at:
            _, entry, task = heapq.heappop(self._wakes)
            wakes = task.wakes()
            if entry != task.entry or wakes is None:
                continue
            if isinstance(task, Lease) and task.lost_at <= at:
                task.state = State.LOST
                lost.append(task)
            elif isinstance(task, Watch):
                self._begin_watch(task, at)
            elif task.renews:
                locks.append(task)
            else:
                self._ask([task], *task.question())
        for first in range(0, len(locks), BATCH_MAX):
            part = locks[first:first + BATCH_MAX]
            self._ask(part, RENEW, lock_pb2.RenewRequest(leases=[task.question()[1] for task in part]))
        return lost

    def _begin_watch(self, watch: Watch, at: float) -> None:
        locks = {task for _, entry, task in self._wakes if entry == task.entry and isinstance(task, Lease) and task.renews}
        if not locks:
            self._watch = None  # the next lock begins a watch
            return
        self._ask([watch], *watch.question(), WATCH_S + TRY_MAX_S)
        for lock in locks:
            if not lock.asked:
                lock.due = at
                self._push(lock)

    def _ask(self, tasks: List[Task], method: Method, request: Any, within: float = TRY_MAX_S) -> None:
        server = self._link.connected() or self._link.look()
        sent = now()
        for task in tasks:
            task.asked = True
        if server is None:
            self._answers.append((tasks, sent, CallError("no server can be reached", code="UNAVAILABLE", reason="server_unreachable")))
            return
        for task in tasks:
            if isinstance(task, Lease):
                self._push(task)
        try:
            future = self._link.start(server, method, request, within)
        except Exception as error:  # of the function for the token: it is called again with the next try
            self._answers.append((tasks, sent, CallError(str(error), code="UNAVAILABLE")))
            return
        future.add_done_callback(lambda future: self._told(server, tasks, sent, future))

    def _told(self, server: Any, tasks: List[Task], sent: float, future: Any) -> None:
        """Runs on a thread of grpcio."""
        try:
            answer = future.result()
        except grpc.RpcError as error:
            answer = error_of(error)
        except grpc.FutureCancelledError:
            answer = CallError("the client was closed", code="CANCELLED")
        if isinstance(answer, CallError) and answer.code in ("UNAVAILABLE", "DEADLINE_EXCEEDED"):
            self._link.fails(server)
        with self._changed:
            self._answers.append((tasks, sent, answer))
            self._changed.notify_all()
