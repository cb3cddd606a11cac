"""Asking models for verdicts, for the families of processors that do; it knows no family. Names load when used."""

from penstock.processors.judges.judge import Judge as Judge
from penstock.processors.judges.judgement import Judgement as Judgement
from penstock.processors.judges.scores import Score as Score
