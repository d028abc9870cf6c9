"""Lines of schedulers, kernels and pods: Slurm, Kubernetes, the OOM killer, Xid and machine checks.

Formats: slurmstepd and srun (20 to 25), kubelet and kubectl describe, Linux mm/oom_kill.c, the NVIDIA kernel module's NVRM lines.
Such lines interleave with whatever else is being printed, so they are looked for anywhere in a line.
"""

from __future__ import annotations

import re

from tbparse.dialects.base import Page
from tbparse.records import Failure, Kind, Link
from tbparse.text.quotes import mentioned

_SCHEDULER = re.compile(
    r"""(?P<message>
      (?:slurmstepd|srun|sbatch|salloc|slurmctld|slurm_load_jobs)(?:-\S+)?:\ (?:error|fatal):\ .*
    | \*\*\*\ (?:JOB|STEP)\ .*CANCELLED\ AT.*
    | (?:error:\ )?Detected\ \d+\ oom[-_\ ]kill\ events?.*
    | Some\ of\ the\ step\ tasks\ have\ been\ OOM\ Killed.*
    | (?:Reason|reason|Last\ State|"reason")\s*[:=]\s*"?(?:OOMKilled|Evicted|Error|DeadlineExceeded|Preempt\w+|NodeLost|ContainerCannotRun|Completed|BackoffLimitExceeded|UnexpectedAdmissionError)\b.*
    | (?:Warning|Normal)\s+(?:Evicted|OOMKilling|Preempt\w+|FailedScheduling|FailedMount|FailedAttachVolume|BackOff|NodeNotReady|FailedCreatePodSandBox|UnexpectedAdmissionError|Failed|DeadlineExceeded|ExceededGracePeriod|TaintManagerEviction|NodeNotSchedulable|InvalidDiskCapacity|ErrImagePull|ImagePullBackOff)\s.*
    | (?:The\ node\ was\ low\ on\ resource|The\ node\ had\ condition|Pod\ was\ active\ on\ the\ node\ longer|Container\ \S+\ (?:was\ using|exceeded\ its)|Usage\ of\ EmptyDir).*
    | (?:Pod|pod)\ \S+\ (?:was\ )?(?:evicted|preempted|terminated\ because).*
    | Job\ (?:was\ active\ longer|has\ reached\ the\ specified\ backoff|has\ gone\ over\ memory).*
    | "OOMKilled":\ true.*
    | \S+\ +\d+/\d+\ +(?:OOMKilled|Evicted|Error|CrashLoopBackOff|ImagePullBackOff|ErrImagePull|ContainerCannotRun|DeadlineExceeded|UnexpectedAdmissionError|Init:\S+)\ .*
    | .*\bdeletion\ of\ Pod\ \S+.*
    )""",
    re.VERBOSE,
)
_KERNEL = re.compile(
    r"""(?P<message>
      NVRM:\ (?:Xid|GPU\ at|GPU\ \S+:\ (?:RmInitAdapter|GPU\ has\ fallen)|The\ NVIDIA\ GPU|\s*fallen\ off\ the\ bus|RmInitAdapter|API\ mismatch).*
    | nvidia-nvswitch\d*:\ SXid\ .*
    | (?:Out\ of\ memory|Memory\ cgroup\ out\ of\ memory):?\ Kill(?:ed)?\ process.*
    | oom-kill:constraint=.*
    | oom_reaper:\ reaped\ process.*
    | \S+\ invoked\ oom-killer.*
    | Memory\ failure:\ 0x[0-9a-f]+:\ .*
    | (?:mce|EDAC\ \S+|\[Hardware\ Error\]):\ .*
    | (?:pcieport\ )?\S*\ ?AER:\ .*(?:Uncorrect|Fatal|Corrected).*
    | \S+\[\d+\]:\ segfault\ at\ .*
    | traps:\ \S+\[\d+\]\ .*
    | (?:blk_update_request|print_req_error):\ .*I/O\ error.*
    | (?:EXT4-fs|XFS|Lustre\w*|LustreError|nfs|NFS)\S*\ ?(?:error|\(\S+\)|server\ \S+\ not\ responding|:).*(?:error|not\ responding|shut\ ?down|evicted).*
    )""",
    re.VERBOSE,
)
_LOOK = re.compile(
    r"(?:slurmstepd|srun|sbatch|salloc|CANCELLED AT|oom[-_ ]?kill|OOM Killed|OOMKill|Evicted|evicted|Preempt|preempted|DeadlineExceeded|NodeLost|FailedScheduling|FailedMount|FailedAttachVolume"
    r"|BackOff|NodeNotReady|low on resource|had condition|AdmissionError|longer than|ErrImage|Failed to pull|ContainerCannotRun|BackoffLimit|EmptyDir|FailedCreatePod|deletion of Pod|terminated because|Job was active|Job has (?:reached|gone)"
    r"|NVRM: |: SXid |Kill(?:ed)? process|oom_reaper|Memory failure: |\[Hardware Error\]|mce: |EDAC|AER: |segfault at|traps: |I/O error|EXT4-fs|XFS|Lustre|nfs: )",
)
_SRUN_TASK = re.compile(r"srun: error: [\w.-]+: tasks? [\d,\-]{1,400}: ")
_CHATTER = re.compile(
    r"(?:launch/slurm: |srun: (?:debug|Job step aborted|Force Terminated|Terminating|got SIGCONT|forcing|interrupt|sending|StepId)|task_exit|_task_finish|Complete job step|Unable to confirm allocation)"
)
_ON_HOST = re.compile(r"(?: ON |Node failure on )([\w.-]+)")
_KILLED_PID = re.compile(r"Kill(?:ed)? process (\d+)|(?:Killing|Sending SIGBUS to) [^:]{1,64}:(\d+) due to")
_OOM = re.compile(r"oom|OOM|out of memory", re.IGNORECASE)


_KEYS = ('"reason"', '"OOMKilled"')
_QUOTES = ("'", '"', "`", "“")


class SystemDialect:
    """Row 32 of the dialects."""

    name = "systems"

    def read(self, page: Page) -> list[Failure]:
        out: list[Failure] = []
        for i, text in page.find(_LOOK):
            m, kind = _KERNEL.search(text), "kernel"
            if m is None:
                m, kind = _SCHEDULER.search(text), "scheduler"
            if m is None or (not m["message"].startswith(_KEYS) and mentioned(text, m.start() + m["message"].startswith(_QUOTES))):
                continue  # a quotation says nothing of this job
            message = m["message"].strip()
            if _CHATTER.search(message):
                continue
            line = page.lines[i]
            page.take(i, i)
            link = Link(None, message, [], line=line, first_line=line)
            found: Kind = "kernel" if kind == "kernel" else "scheduler"
            failure = Failure(found, self.name, [link], line, line, line.stream, line.tags)
            if _SRUN_TASK.search(message):
                failure.kind, failure.fate = "launcher", "symptom"
            host = _ON_HOST.search(message)
            if host:
                failure.tags = failure.tags._replace(host=failure.tags.host or host[1])
            killed = _KILLED_PID.search(message)
            if killed:
                failure.pid = int(killed[1] or killed[2])
            if _OOM.search(message):
                failure.signal = 9
            out.append(failure)
        return out
