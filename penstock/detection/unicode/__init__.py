"""How texts are written in Unicode: normal forms, look-alikes, what cannot be seen. Pure; it knows no processor."""
