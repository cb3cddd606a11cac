from penstock.engine.values.errors import ReviewError as ReviewError
from penstock.workflows.review.deciding import only_reviewers as only_reviewers
from penstock.workflows.review.reviews import Reviews as Reviews
from penstock.workflows.review.schema import run_schema as run_schema
from penstock.workflows.review.waiting import (
    CallDecision as CallDecision,
    WaitingCall as WaitingCall,
    WaitingRun as WaitingRun,
)
