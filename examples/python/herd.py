"""Two hundred callers want the same cache key at once, and the database is asked once.

Run it against `drover serve`:

    pip install -r requirements.txt
    python herd.py

The stubs are generated from ../../proto when the program starts; a real project would generate them once.
"""

import argparse
import asyncio
import importlib
import os
import pathlib
import sys
import tempfile
import time
import uuid

import grpc
from grpc_tools import protoc

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto"


def load_stubs():
    """Generates the stubs from the proto files and imports them."""
    out = tempfile.mkdtemp(prefix="drover-stubs-")
    files = [str(path) for path in sorted((PROTO / "drover" / "v1").glob("*.proto"))]
    well_known = str(pathlib.Path(importlib.import_module("grpc_tools").__file__).parent / "_proto")
    arguments = ["protoc", f"-I{PROTO}", f"-I{well_known}", f"--python_out={out}", f"--grpc_python_out={out}", *files]
    if protoc.main(arguments) != 0:
        sys.exit("the stubs could not be generated")
    sys.path.insert(0, out)
    return (
        importlib.import_module("drover.v1.coordinator_pb2"),
        importlib.import_module("drover.v1.coordinator_pb2_grpc"),
    )


pb, pb_grpc = load_stubs()

HOLDER = f"herd.py-{os.getpid()}"


class Database:
    """An origin that takes its time and counts how often it is asked."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self.queries = 0

    async def query(self) -> bytes:
        self.queries += 1
        await asyncio.sleep(self.seconds)
        return b"the front page, freshly rendered"


async def read_through(calls, reports, database: Database, namespace: str, key: str) -> bytes:
    """What a service does instead of asking its database: one question, and a report if it is the one who rebuilds."""
    question = pb.AcquireRebuildRequest(namespace=namespace, key=key, holder=HOLDER, request_id=uuid.uuid4().hex)
    question.wait.FromSeconds(10)
    answer = await calls.AcquireRebuild(question, timeout=11)

    decision = answer.WhichOneof("decision")
    if decision == "hit":
        return answer.hit.value
    if decision == "rebuild":
        value = await database.query()
        # Reports go over a connection of their own, so that they never queue behind questions that wait.
        report = pb.ReportValueRequest(
            namespace=namespace, key=key, lease_id=answer.rebuild.lease.lease_id, value=value, tags=["pages"]
        )
        await reports.ReportValue(report, timeout=5)
        return value
    # busy, backoff, or something newer than this program: do what suits the service; here, an error to the caller.
    raise RuntimeError(f"no value: {decision or 'an unknown decision'}")


async def main() -> None:
    parser = argparse.ArgumentParser(description="Many callers, one key, one query.")
    parser.add_argument("--server", default=os.environ.get("DROVER_SERVER", "127.0.0.1:7117"), help="where drover listens")
    parser.add_argument("--callers", type=int, default=200)
    parser.add_argument("--query", type=float, default=0.2, help="seconds that the database takes")
    args = parser.parse_args()

    server = args.server.removeprefix("http://")
    database = Database(args.query)
    key = f"front-page-{uuid.uuid4().hex[:8]}"
    async with grpc.aio.insecure_channel(server) as first, grpc.aio.insecure_channel(
        server, options=[("grpc.use_local_subchannel_pool", 1)]
    ) as second:
        calls, reports = pb_grpc.CoordinatorServiceStub(first), pb_grpc.CoordinatorServiceStub(second)
        try:
            await asyncio.wait_for(asyncio.gather(first.channel_ready(), second.channel_ready()), timeout=5)
        except asyncio.TimeoutError:
            sys.exit(f"drover does not answer at {server}; is `drover serve` running?")
        started = time.monotonic()
        values = await asyncio.gather(
            *(read_through(calls, reports, database, "python", key) for _ in range(args.callers))
        )
        took = time.monotonic() - started

    assert len(set(values)) == 1, "everybody has the same value"
    queries = "1 query" if database.queries == 1 else f"{database.queries} queries"
    print(f"{args.callers} callers, {queries}, everybody served after {took * 1000:.0f} ms")
    print(f"(one query takes {args.query * 1000:.0f} ms)")


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except grpc.aio.AioRpcError as error:
        sys.exit(f"drover refused: {error.code().name}: {error.details()}")
