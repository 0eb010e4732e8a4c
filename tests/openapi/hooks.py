"""What Schemathesis cannot take from the document: values of formats that JSON Schema does not know, and rules
between parameters or over time. Must not make a case valid that is meant to be refused."""

import atexit
import collections
import gc
import itertools
import json
import os
import re
import urllib.parse
import uuid

import schemathesis
from hypothesis import strategies as st

# Nearly all that is made stays until the end: to look through it again and again takes a tenth of the run.
gc.set_threshold(100_000, 50, 50)

FIELDS = [
    st.integers(0, 59).map(str) | st.just("*") | st.just("*/15"),
    st.integers(0, 23).map(str) | st.just("*"),
    st.integers(1, 28).map(str) | st.just("*"),
    st.integers(1, 12).map(str) | st.just("*") | st.just("jan-jun"),
    st.integers(0, 7).map(str) | st.just("*") | st.just("mon,fri"),
]
schemathesis.openapi.format("cron", st.tuples(*FIELDS).map(" ".join) | st.sampled_from(["@daily", "@hourly"]))
schemathesis.openapi.format("time-zone", st.sampled_from(["Europe/Berlin", "UTC", "Asia/Kathmandu"]))

# A key is used once: what it leads to depends on the request that had it before.
NUMBERS = itertools.count()
RUN = uuid.uuid4().hex
# Calls of each operation.
TURNS = collections.defaultdict(itertools.count)
# Addresses of links that were made.
LINKS = []
# Bulk operations that were started.
STARTED = []


def operation_of(case):
    return case.operation.definition.raw.get("operationId")


@schemathesis.hook
def before_call(context, case, kwargs):
    query, headers = case.query or {}, case.headers or {}
    # How a message is framed is the HTTP parser's: it answers before the program sees a request.
    for name in [name for name in headers if name.lower() in ("content-length", "transfer-encoding")]:
        del headers[name]
    # Nothing may be sent to a host that the generator has made up, nor to the one of the example.
    if re.match("https?://", headers.get("Counterstep-Webhook", "")):
        headers["Counterstep-Webhook"] = "http://127.0.0.1:9/hook"
    # Nothing is waited for.
    if re.match("[0-9]+(ms|s|m|h|d)$", str(query.get("wait", ""))):
        query["wait"] = "20ms"
    if headers.get("Prefer", "").startswith("wait="):
        headers["Prefer"] = "wait=0"
    # Without its own key all that follows would be refused.
    own = os.environ.get("COUNTERSTEP_KEY", "").split("_")
    if len(own) == 3 and str((case.path_parameters or {}).get("key_id")) == own[1]:
        case.path_parameters["key_id"] = "0" * len(own[1])
    # The schedule that the test has made stays as it is.
    if operation_of(case) in ("putSchedule", "deleteSchedule") and case.path_parameters.get("name") == "kept":
        case.path_parameters["name"] = "another"
    if not case.meta.generation.mode.is_positive:
        return
    # Schemathesis takes the address that takes a type's requests for one of a task.
    task = (case.path_parameters or {}).get("task_id")
    if task is not None and not re.fullmatch("[0-9a-fA-F-]{36}", str(task)):
        case.path_parameters["task_id"] = str(uuid.uuid4())
    # The schedule that the test has made; others are deleted by the requests before.
    if case.operation.definition.raw.get("operationId") in ("pauseSchedule", "resumeSchedule", "runSchedule"):
        case.path_parameters["name"] = "kept"
    # Durations are counted by the labels that the settings name: here by none.
    if case.operation.definition.raw.get("operationId") == "getTypeDurations":
        query.pop("label", None)
    # A queue of the shipped types.
    if case.operation.definition.raw.get("operationId") in ("pauseQueue", "resumeQueue"):
        case.path_parameters["name"] = "orders"
    # The task that the test has made, every other time: no other is sure to be there, and to have a file.
    operation = case.operation.definition.raw.get("operationId")
    if task is not None and operation not in ("cancelTask", "followLink") and case.meta.phase.name.value != "stateful":
        if next(TURNS[operation]) % 2 == 0:
            case.path_parameters["task_id"] = os.environ["COUNTERSTEP_TASK"]
            if operation in ("getResultFile", "makeLink"):
                case.path_parameters["name"] = "zip"
    # Only a link that was made is followed: nothing else knows its signature.
    if operation == "followLink" and LINKS and next(TURNS[operation]) % 2 == 0:
        link = urllib.parse.urlsplit(LINKS[-1])
        *_, case.path_parameters["task_id"], case.path_parameters["name"] = link.path.split("/")
        case.query = dict(urllib.parse.parse_qsl(link.query))
        query = case.query
    # An operation that was started, every other time.
    if operation == "getBulkOperation" and STARTED and next(TURNS[operation]) % 2 == 0:
        case.path_parameters["bulk_id"] = STARTED[-1]
    # How many it may be, the type of the task says: 10 of the shipped ones.
    if operation == "setRecoveries" and isinstance(case.body, dict) and isinstance(case.body.get("recovery_attempts"), (int, float)):
        case.body["recovery_attempts"] = int(case.body["recovery_attempts"]) % 11
    # What a signal has to say, the waiting step knows: here one of the shipped types.
    if operation == "sendSignal":
        case.body = {"approved": True, "by": "kim"}
    # How large a file is it does not know.
    headers.pop("Range", None)
    # Only a page of the same list has one, and only a task of the same type has the step.
    query.pop("cursor", None)
    query.pop("step", None)
    # Which words find nothing that may be looked for, and what is set twice, no schema can say.
    if operation == "listTasks" and "q" in query:
        query["q"] = "completed sort:oldest"
        query.pop("status", None)
    if operation == "putView" and isinstance(case.body, dict):
        case.body["q"] = "completed sort:oldest"
    if "failure_text" in query and "type" not in query:
        query["since"] = "2026-01-01T00:00:00Z"
    if isinstance(query.get("label"), list):
        query["label"] = list({text.split("=")[0]: text for text in query["label"]}.values())
    if "Idempotency-Key" in headers:
        headers["Idempotency-Key"] = f"{RUN}-{next(NUMBERS)}"
    if "Counterstep-Label" in headers:
        headers["Counterstep-Label"] = "order=4711"
    if isinstance(case.body, dict) and case.body.get("run_at"):
        case.body["run_at"] = "2999-01-01T00:00:00Z"
    # Some fields go with others only. Every other one counts alone: a tenant has a maximum number of
    # operations.
    if operation == "startBulkOperation" and isinstance(case.body, dict):
        if case.body.get("filter") is None:
            case.body["filter"] = {}
        for name in ("as", "from", "patch"):
            case.body.pop(name, None)
        case.body["filter"].pop("status", None)
        if case.body.get("action") == "resolve":
            case.body["as"] = "done"
        if case.body.get("action") in ("cancel", "run-again"):
            case.body.pop("group", None)
        if case.body.get("action") == "run-again":
            case.body["filter"]["status"] = ["failed"]
        if case.body["filter"].get("q") is not None:
            case.body["filter"] = {"q": "failed" if case.body.get("action") == "run-again" else "order=4711"}
        case.body["preview"] = next(TURNS[operation]) % 2 == 0


    # Another request has to be one of the task's type, a step one of the task's, and another task one that is there.
    if operation in ("retryTask", "runTaskAgain", "resolveTask") and isinstance(case.body, dict):
        for name in ("request", "patch", "from", "task"):
            case.body.pop(name, None)
        if case.body.get("as") == "redriven":
            case.body["as"] = "not_needed"


# How often each operation answered with each status: the test looks whether what is valid was ever accepted.
STATUSES = collections.defaultdict(collections.Counter)


@schemathesis.hook
def after_call(context, case, response):
    operation = case.operation.definition.raw.get("operationId", "")
    STATUSES[operation][str(response.status_code)] += 1
    if operation == "makeLink" and response.status_code == 200:
        LINKS.append(response.json()["url"])
    if operation == "startBulkOperation" and response.status_code == 202:
        STARTED.append(response.json()["id"])


@atexit.register
def write_statuses():
    with open("statuses.json", "w", encoding="utf-8") as file:
        json.dump(STATUSES, file)
