"""What every adapter needs: a workflow at the stages of an agent whose loop another framework runs.

A `Host` is made once from processors. It opens a `HostRequest` for each request of the framework. The request runs the
stages around each model call and each tool call, and keeps the framework's messages and the run's together.
"""

from penstock.workflows.hosting.host import Host, HostOptions, HostSupport
from penstock.workflows.hosting.outside_call import OutsideCall
from penstock.workflows.hosting.request import CheckedCall, HostRequest, ModelCall

__all__ = ["CheckedCall", "Host", "HostOptions", "HostRequest", "HostSupport", "ModelCall", "OutsideCall"]
