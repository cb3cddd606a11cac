from penstock.workflows.gateway.checks.core import Guards as Guards
from penstock.workflows.gateway.checks.routes import check_routes as check_routes, checks_app as checks_app
