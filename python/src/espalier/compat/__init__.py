"""The interfaces of other libraries over Espalier."""
