"""How texts are written in Unicode: normal forms, look-alike letters, invisible characters."""
