from penstock.testing.attack.attacking import AttackReport as AttackReport, attack as attack
from penstock.testing.attack.attacks import ATTACKS as ATTACKS
from penstock.testing.attack.cases import Case as Case, Leak as Leak, find_leak as find_leak
from penstock.testing.attack.rows import ROWS as ROWS, Row as Row, parse_rows as parse_rows
from penstock.testing.attack.written_tests import as_test as as_test
