"""What ranks and launchers print, as recorded: real runs under torchrun (torch 2.13, gloo) and public reports of NCCL and Slurm jobs.

Only ranks, hosts, ports, process numbers and times are put in; no sentence here is made up.
"""

# ruff: noqa: E501 - lines of logs stand as they are printed
from __future__ import annotations

from typing import NamedTuple

LIB = "/opt/venv/lib/python3.11/site-packages"


class Cause(NamedTuple):
    """How the culprit fails: what it prints, how it ends, and the answer that is right."""

    name: str
    text: str
    exception: str | None
    verdicts: tuple[str, ...]
    exit_code: int = 1
    excepthook: bool = True
    """Printed by Python's excepthook, so torch puts the rank before each line."""


def _trace(line: str, *frames: tuple[str, int, str, str]) -> str:
    body = "".join(f'  File "{p}", line {n}, in {f}\n    {source}\n' for p, n, f, source in frames)
    return f"Traceback (most recent call last):\n{body}{line}\n"


_MAIN = ("/srv/project/train.py", 141, "<module>", "main()")
_LOOP = ("/srv/project/train.py", 118, "main", "trainer.fit(loader)")
_STEP = ("/srv/project/engine/trainer.py", 87, "fit", "loss = self.step(batch)")

CAUSES: tuple[Cause, ...] = (
    Cause("name", _trace("NameError: name 'learning_rte' is not defined", _MAIN, _LOOP, ("/srv/project/engine/trainer.py", 91, "step", "x = x * learning_rte")), "NameError", ("real",)),
    Cause("key", _trace("KeyError: 'labels'", _MAIN, _LOOP, _STEP, ("/srv/project/data/collate.py", 33, "collate", "y = batch['labels']")), "KeyError", ("real",)),
    Cause("index", _trace("IndexError: list index out of range", _MAIN, _LOOP, ("/srv/project/data/mix.py", 52, "draw", "return self.parts[i]")), "IndexError", ("real",)),
    Cause("type", _trace("TypeError: unsupported operand type(s) for +: 'NoneType' and 'int'", _MAIN, _LOOP, _STEP), "TypeError", ("real",)),
    Cause("assert", _trace("AssertionError: 1023 tokens for 1024 positions", _MAIN, _LOOP, ("/srv/project/model/embed.py", 27, "forward", "assert n == self.size, f\"{n} tokens for {self.size} positions\"")), "AssertionError", ("real",)),
    Cause("value", _trace("ValueError: 1176 patches but 1024 slots", _MAIN, ("/srv/project/train.py", 77, "main", "for batch in feed:"), ("/srv/project/data/pairs.py", 141, "grid", "raise ValueError(f\"{k} patches but {n} slots\")")), "ValueError", ("real",)),
    Cause("import", _trace("ModuleNotFoundError: No module named 'flash_attn'", ("/srv/project/train.py", 9, "<module>", "import flash_attn")), "ModuleNotFoundError", ("real",)),
    Cause("file", _trace("FileNotFoundError: [Errno 2] No such file or directory: '/data/shards/00017.tar'", _MAIN, _LOOP, ("/srv/project/data/shards.py", 61, "open_shard", "return open(path, 'rb')")), "FileNotFoundError", ("real", "unknown")),
    Cause("shape", _trace("RuntimeError: mat1 and mat2 shapes cannot be multiplied (32x768 and 1024x10)", _MAIN, _LOOP, _STEP, (f"{LIB}/torch/nn/modules/linear.py", 134, "forward", "return F.linear(input, self.weight, self.bias)")), "RuntimeError", ("real",)),
    Cause("oom", _trace("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.31 GiB is free. Including non-PyTorch memory, this process has 77.83 GiB memory in use. Of the allocated memory 75.10 GiB is allocated by PyTorch, and 1.66 GiB is reserved by PyTorch but unallocated.", _MAIN, _LOOP, _STEP, (f"{LIB}/torch/nn/modules/module.py", 1751, "_wrapped_call_impl", "return self._call_impl(*args, **kwargs)")), "torch.OutOfMemoryError", ("real",)),
    Cause("loader", (
        _trace("ValueError: Caught ValueError in DataLoader worker process 5.", _MAIN, ("/srv/project/train.py", 77, "main", "for batch in feed:"), (f"{LIB}/torch/utils/data/dataloader.py", 1491, "_process_data", "data.reraise()"), (f"{LIB}/torch/_utils.py", 715, "reraise", "raise exception"))
        + "Original " + _trace("ValueError: invalid literal for int() with base 10: 'n/a'", (f"{LIB}/torch/utils/data/_utils/worker.py", 351, "_worker_loop", "data = fetcher.fetch(index)"), ("/srv/project/data/rows.py", 88, "__getitem__", "return int(row['n'])")) + "\n"
    ), "ValueError", ("real",)),
    Cause("chain", (
        _trace("KeyError: 'lr'", ("/srv/project/optim.py", 20, "build", "lr = cfg['lr']"))
        + "\nThe above exception was the direct cause of the following exception:\n\n"
        + _trace("RuntimeError: optimizer config incomplete", _MAIN, ("/srv/project/optim.py", 22, "build", "raise RuntimeError('optimizer config incomplete') from e"))
    ), "KeyError", ("real",)),
)  # fmt: skip

SILENT: tuple[Cause, ...] = (
    Cause("sigkill", "", None, ("unknown", "real"), -9, False),
    Cause("sigsegv", "", None, ("unknown", "real"), -11, False),
)
"""Deaths of which only the launcher's table tells."""

GLOO_CLOSED = _trace(
    "RuntimeError: [/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.0.0.{h}]:{port}. This is typically caused by a remote worker crashing. Check the logs of the remote worker before reporting an error. GLHF! \U0001f3d6\ufe0f",
    _MAIN, _LOOP, (f"{LIB}/torch/distributed/c10d_logger.py", 83, "wrapper", "return func(*args, **kwargs)"), (f"{LIB}/torch/distributed/distributed_c10d.py", 3252, "all_reduce", "work.wait()"),
)  # fmt: skip
GLOO_RESET = _trace(
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Read error [10.0.0.{h}]:{port}: Connection reset by peer",
    _MAIN, _LOOP, (f"{LIB}/torch/distributed/distributed_c10d.py", 2501, "all_reduce", "work.wait()"),
)  # fmt: skip
GLOO_TIMEOUT = _trace(
    "RuntimeError: [/__w/pytorch/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete",
    _MAIN, _LOOP, (f"{LIB}/torch/distributed/distributed_c10d.py", 3252, "all_reduce", "work.wait()"),
)  # fmt: skip
NCCL_REMOTE = _trace(
    "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:317, remote process exited or there was a network error, NCCL version 2.21.5\nncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\nLast error:\nsocketProgressOpt: abort. Connection closed by remote peer {host}<{port}>",
    _MAIN, _LOOP, (f"{LIB}/torch/autograd/graph.py", 825, "_engine_run_backward", "return Variable._execution_engine.run_backward("),
)  # fmt: skip
STORE_WAIT = _trace(
    "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /default_pg/0/store_based_barrier_key:2",
    _MAIN, ("/srv/project/train.py", 41, "main", "dist.barrier()"), (f"{LIB}/torch/distributed/distributed_c10d.py", 4811, "barrier", "work = group.barrier(opts=opts)"),
)  # fmt: skip
STORE_GET = _trace(
    "torch.distributed.DistBackendError: [{rank}] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: Connection reset by peer\nException raised from recvBytes at ../torch/csrc/distributed/c10d/Utils.hpp:672 (most recent call first):\nframe #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7fca98f77f86 in /opt/venv/lib/python3.11/site-packages/torch/lib/libc10.so)\n. This may indicate a possible application crash on rank 0 or a network set up issue.",
    _MAIN, _LOOP, (f"{LIB}/torch/distributed/distributed_c10d.py", 2288, "all_reduce", "work = group.allreduce([tensor], opts)"),
)  # fmt: skip
WATCHDOG = """\
[rank{rank}]:[E626 06:24:44.{us} ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=9801523, NumelOut=9801523, Timeout(ms)=600000) ran for 6000{h} milliseconds before timing out.
[rank{rank}]:[E626 06:24:44.{us} ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Exception (either an error or timeout) detected by watchdog at work: {seq}, last enqueued NCCL work: {next}, last completed NCCL work: {done}.
[rank{rank}]:[E626 06:24:45.{us} ProcessGroupNCCL.cpp:1834] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Timeout at NCCL work: {seq}, last enqueued NCCL work: {next}, last completed NCCL work: {done}.
[rank{rank}]:[E626 06:24:45.{us} ProcessGroupNCCL.cpp:630] [Rank {rank}] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.
[rank{rank}]:[E626 06:24:45.{us} ProcessGroupNCCL.cpp:636] [Rank {rank}] To avoid data inconsistency, we are taking the entire process down.
[rank{rank}]:[E626 06:24:45.{us} ProcessGroupNCCL.cpp:1595] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Process group watchdog thread terminated with exception: [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=9801523, NumelOut=9801523, Timeout(ms)=600000) ran for 6000{h} milliseconds before timing out.
Exception raised from checkTimeout at ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:618 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7b99599e31b6 in /opt/venv/lib/python3.10/site-packages/torch/lib/libc10.so)
frame #1: c10d::ProcessGroupNCCL::watchdogHandler() + 0x890 (0x7b99070007d0 in /opt/venv/lib/python3.10/site-packages/torch/lib/libtorch_cuda.so)
frame #2: <unknown function> + 0x129c6c (0x7b995a729c6c in /lib/x86_64-linux-gnu/libc.so.6)

terminate called after throwing an instance of 'c10::DistBackendError'
  what():  [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Process group watchdog thread terminated with exception: [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=9801523, NumelOut=9801523, Timeout(ms)=600000) ran for 6000{h} milliseconds before timing out.
"""

EFFECTS: dict[str, tuple[tuple[str, int, bool], ...]] = {
    "gloo": ((GLOO_CLOSED, 1, True), (GLOO_RESET, 1, True), ("", -15, False)),
    "gloo late": ((GLOO_TIMEOUT, 1, True), (GLOO_CLOSED, 1, True), ("", -15, False)),
    "nccl": ((WATCHDOG, -6, False), (WATCHDOG, -6, False), (NCCL_REMOTE, 1, True)),
    "nccl remote": ((NCCL_REMOTE, 1, True), ("", -15, False)),
    "store": ((STORE_WAIT, 1, True), (STORE_GET, 1, True), ("", -15, False)),
    "sigterm": (("", -15, False),),
}
"""By kind of cascade: what the other ranks print, how they end, and whether Python's excepthook prints it."""

HANDLED = _trace(
    "ConnectionResetError: [Errno 104] Connection reset by peer",
    ("/srv/project/data/remote.py", 44, "read", "return self.client.get(key)"), ("/usr/lib/python3.11/socket.py", 706, "readinto", "return self._sock.recv_into(b)"),
)  # fmt: skip
HANDLED_JSON = _trace(
    "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
    ("/srv/project/data/rows.py", 71, "parse", "return json.loads(line)"), ("/usr/lib/python3.11/json/decoder.py", 355, "raw_decode", 'raise JSONDecodeError("Expecting value", s, err.value) from None'),
)  # fmt: skip
CHATTER = (
    "{host}:{pid}:{pid} [0] NCCL INFO Bootstrap : Using eth0:10.0.0.{h}<0>",
    "/opt/venv/lib/python3.11/site-packages/torch/utils/checkpoint.py:464: UserWarning: torch.utils.checkpoint: the use_reentrant parameter should be passed explicitly.",
    "wandb: Tracking run with wandb version 0.17.5",
    "`use_cache=True` is incompatible with gradient checkpointing. Setting `use_cache=False`.",
    "[W1130 18:04:40.217 socket.cpp:464] [c10d] The client socket has failed to connect to [{host}]:29500 (errno: 97 - Address family not supported by protocol).",
)

AGENT = """\
W1130 20:10:08.563000 27728 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process {victim} closing signal SIGTERM
E1130 20:10:08.596000 27728 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: {code}) local_rank: {local} (pid: {pid}) of binary: /opt/venv/bin/python
"""
CHILD_FAILED = _trace(
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
    ("/opt/venv/bin/torchrun", 6, "<module>", "sys.exit(main())"), (f"{LIB}/torch/distributed/elastic/multiprocessing/errors/__init__.py", 367, "wrapper", "return f(*args, **kwargs)"), (f"{LIB}/torch/distributed/run.py", 1028, "main", "run(args)"),
    (f"{LIB}/torch/distributed/launcher/api.py", 383, "launch_agent", "raise ChildFailedError("),
)  # fmt: skip
RULE = "=" * 60 + "\n"
LINE = "-" * 60 + "\n"
ENTRY = """\
[{i}]:
  time      : 2026-11-30_20:10:08
  host      : {host}
  rank      : {rank} (local_rank: {local})
  exitcode  : {code} (pid: {pid}){signal}
  error_file: <N/A>
  traceback : {what}
"""
HINT = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
SIGNALS = {-6: "SIGABRT", -9: "SIGKILL", -11: "SIGSEGV", -15: "SIGTERM"}
SRUN_EXIT = "srun: error: {host}: task {rank}: {how}\n"
SRUN_HOW = {
    1: "Exited with exit code 1",
    -6: "Aborted (core dumped)",
    -9: "Killed",
    -11: "Segmentation fault (core dumped)",
    -15: "Terminated",
}
SRUN_CANCELLED = "slurmstepd: error: *** STEP 33412345.0 ON {host} CANCELLED AT 2026-11-30T20:10:09 ***\n"
