"""Many jobs at a time on few Spark jobs: what all of them ask for next is asked for at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from pyspark import cloudpickle

from flintlog.core.workers import Threads
from flintlog.errors import FlintlogError


class Together(Threads):
    """Workers of many jobs, each in a thread of its own. Tasks run in Spark; pieces of an exchange come back here."""

    def __init__(self, inner):
        super().__init__(2)
        self._inner = inner
        self._changed = threading.Condition()
        self._busy = 0
        self._asked = []

    def __reduce__(self):
        return Threads, (1,)  # what a task sees of it

    def run(self, jobs):
        """What each of these functions gives."""
        self._busy = len(jobs)

        def alone(job):
            try:
                return job()
            finally:
                with self._changed:
                    self._busy -= 1
                    self._go()

        with ThreadPoolExecutor(len(jobs)) as pool:
            return list(pool.map(alone, jobs))

    def map(self, function, items):
        request = {"calls": [cloudpickle.dumps((function, item)) for item in items]}
        with self._changed:
            self._asked.append(request)
            self._busy -= 1
            self._go()
            while "answers" not in request:
                self._changed.wait()
        for failed, answer in request["answers"]:
            if failed:
                raise answer
            yield answer

    def _go(self):
        """When all jobs wait, ask for all of it."""
        if self._busy or not self._asked:
            return
        requests, self._asked = self._asked, []

        def call(shares):
            def one(data):
                from pyspark import cloudpickle as pickle

                function, item = pickle.loads(data)
                try:
                    return False, function(item)
                except FlintlogError as error:
                    return True, error

            return [one(data) for data in shares]

        calls = [data for request in requests for data in request["calls"]]
        try:
            answers = iter([one for some in self._inner.map(call, _shares(calls)) for one in some])
            for request in requests:
                request["answers"] = [next(answers) for _ in request["calls"]]
        except Exception as error:  # nobody may wait for ever
            for request in requests:
                request["answers"] = [(True, error)]
        self._busy += len(requests)
        self._changed.notify_all()


def _shares(calls, count=4):
    size = max(-(-len(calls) // count), 1)
    return [calls[begin : begin + size] for begin in range(0, len(calls), size)]
