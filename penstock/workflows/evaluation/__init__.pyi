from penstock.workflows.evaluation.evaluate import evaluate as evaluate
from penstock.workflows.evaluation.results import Evaluation as Evaluation
from penstock.workflows.evaluation.undecided import UndecidedRows as UndecidedRows
