from penstock.workflows.web.ag_ui import AGUIEncoder as AGUIEncoder
from penstock.workflows.web.asgi import (
    ResumableResponse as ResumableResponse,
    ResumedResponse as ResumedResponse,
    StreamedResponse as StreamedResponse,
    WholeResponse as WholeResponse,
)
from penstock.workflows.web.chat_completions import ChatCompletionsEncoder as ChatCompletionsEncoder
from penstock.workflows.web.client_request import ClientRequest as ClientRequest, RequestError as RequestError
from penstock.workflows.web.plain_text import PlainTextEncoder as PlainTextEncoder
from penstock.workflows.web.released import ReleasedLog as ReleasedLog, StreamGoneError as StreamGoneError
from penstock.workflows.web.responses import ResponsesEncoder as ResponsesEncoder
from penstock.workflows.web.shared_streams import SharedReleasedLog as SharedReleasedLog
from penstock.workflows.web.ui_messages import UIMessagesEncoder as UIMessagesEncoder
