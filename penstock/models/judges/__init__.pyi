from penstock.models.judges.judge import Judge as Judge
from penstock.models.judges.judgement import Judgement as Judgement
from penstock.models.judges.scores import Score as Score
