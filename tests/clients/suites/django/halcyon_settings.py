"""Settings of Django's own tests: one database that is there already, and kept. The tests that want a second one
get SQLite in memory, because a Halcyon server has one database. What Halcyon lacks and tables of many tests have
is replaced, and only the tests of these things themselves fail."""

import os

from django.contrib.postgres.operations import CreateExtension
from django.db.backends.postgresql.base import DatabaseWrapper
from django.db.backends.postgresql.features import DatabaseFeatures

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.postgresql",
        "HOST": os.environ["HOST"],
        "PORT": os.environ["PORT"],
        "USER": "halcyon",
        "NAME": "halcyon",
        "TEST": {"NAME": "halcyon"},
    },
    "other": {"ENGINE": "django.db.backends.sqlite3"},
}
SECRET_KEY = "not a secret"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
TEST_RUNNER = "halcyon_runner.Runner"

lacks = os.environ.get("HALCYON_LACKS", "").split()
if "inet" in lacks:
    texts = {"GenericIPAddressField": "varchar(39)", "IPAddressField": "varchar(39)"}
    DatabaseWrapper.data_types = DatabaseWrapper.data_types | texts
if "collations" in lacks:
    DatabaseFeatures.test_collations = {name: "C" for name in DatabaseFeatures.test_collations}
if "extensions" in lacks:
    CreateExtension.database_forwards = CreateExtension.database_backwards = lambda *_: None
