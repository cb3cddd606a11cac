"""How the weights Penstock ships are made: plain Python, the same bytes on any machine. No part of the package."""
