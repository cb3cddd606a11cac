from penstock.workflows.coverage.channels import CHANNELS as CHANNELS, KINDS as KINDS, ContentChannel as ContentChannel
from penstock.workflows.coverage.coverage import Coverage as Coverage, Gap as Gap, parse_required as parse_required
from penstock.workflows.coverage.readings import Cell as Cell, StepReading as StepReading
