"""`Run`: one request on its way through the stages."""
