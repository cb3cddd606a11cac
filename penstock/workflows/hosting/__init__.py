"""Shared by all adapters: a workflow at the stages of an agent whose loop another framework runs.

A `Host` is made once from processors. It opens a `HostRequest` for each request of the framework. The request runs the
stages around each model call and each tool call, and keeps the framework's messages and the run's together.
"""

from penstock.workflows.hosting.answers import raised_as
from penstock.workflows.hosting.asking import HostCall
from penstock.workflows.hosting.host import Host, HostOptions, HostSupport
from penstock.workflows.hosting.matching import as_asked
from penstock.workflows.hosting.originals import Original, Originals
from penstock.workflows.hosting.request import PLAIN_SETTINGS, CheckedCall, HostRequest, ModelCall
from penstock.workflows.hosting.tasks import OutsideCall

__all__ = [
    "PLAIN_SETTINGS",
    "CheckedCall",
    "Host",
    "HostCall",
    "HostOptions",
    "HostRequest",
    "HostSupport",
    "ModelCall",
    "Original",
    "Originals",
    "OutsideCall",
    "as_asked",
    "raised_as",
]
