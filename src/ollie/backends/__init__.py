"""Model providers: one small module each, one interface (`interface.py`), chosen by `registry.py`."""
