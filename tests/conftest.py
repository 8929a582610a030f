"""Properties have no deadline: no test asserts a time, and the machine may be busy."""

from hypothesis import settings

settings.register_profile("ollie", deadline=None)
settings.load_profile("ollie")
