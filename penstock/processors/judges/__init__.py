"""Asking models for verdicts, for the families of processors that do; it knows no family. Names load when used."""

from typing import TYPE_CHECKING

from penstock.engine.lazy import lazily

if TYPE_CHECKING:
    from penstock.processors.judges.judge import Judge
    from penstock.processors.judges.judgement import Judgement
    from penstock.processors.judges.scores import Score
else:
    __getattr__, __dir__ = lazily(__name__, judge=["Judge"], judgement=["Judgement"], scores=["Score"])

__all__ = ["Judge", "Judgement", "Score"]
