from penstock.workflows.rows.batches import WorkflowBatches as WorkflowBatches
from penstock.workflows.rows.reading import RowsError as RowsError
