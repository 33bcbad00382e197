"""All tests that SQLAlchemy has for dialects."""

from sqlalchemy.testing.suite import *  # noqa: F401,F403
