from penstock.workflows.review.reviews import Reviews as Reviews
from penstock.workflows.review.waiting import (
    CallDecision as CallDecision,
    WaitingCall as WaitingCall,
    WaitingRun as WaitingRun,
)
