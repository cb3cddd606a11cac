from penstock.models.judges.judge import Judge as Judge, Judgement as Judgement
from penstock.models.judges.panel import JudgePanel as JudgePanel
from penstock.models.judges.scores import Score as Score
from penstock.models.judges.spoken import SpokenVerdict as SpokenVerdict
