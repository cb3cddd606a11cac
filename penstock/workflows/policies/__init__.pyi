from penstock.workflows.policies.conditions import PolicyCondition as PolicyCondition
from penstock.workflows.policies.policy_file import PolicyFile as PolicyFile
from penstock.workflows.policies.problems import (
    FilePlace as FilePlace,
    PolicyError as PolicyError,
    PolicyProblem as PolicyProblem,
)
from penstock.workflows.policies.reading import (
    PolicyDocument as PolicyDocument,
    load_policy as load_policy,
    parse_policy as parse_policy,
    read_policy as read_policy,
)
from penstock.workflows.policies.row_tests import (
    PolicyTest as PolicyTest,
    TestResult as TestResult,
    run_tests as run_tests,
)
from penstock.workflows.policies.schema import policy_schema as policy_schema
from penstock.workflows.policies.writing import PolicyWriteError as PolicyWriteError, to_policy as to_policy
