"""What programs do through Django: migrations of its own applications and of one of theirs, the ORM,
transactions, and introspection."""

import datetime
import decimal
import io
import os
import sys
import tempfile
import textwrap

import django
from django.conf import settings

from checks import DATABASE, HOST, PORT, USER, check, run

settings.configure(
    SECRET_KEY="not a secret",
    USE_TZ=True,
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    INSTALLED_APPS=[
        "django.contrib.contenttypes",
        "django.contrib.auth",
        "django.contrib.sessions",
        "django.contrib.messages",
        "django.contrib.admin",
        "shelf",
    ],
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": HOST,
            "PORT": PORT,
            "USER": USER,
            "NAME": DATABASE,
        }
    },
)

MODELS = """
    from django.db import models

    class Author(models.Model):
        name = models.CharField(max_length=40, unique=True)
        born = models.DateField(null=True)

    class Tag(models.Model):
        word = models.SlugField()

    class Book(models.Model):
        title = models.CharField(max_length=80, db_index=True)
        author = models.ForeignKey(Author, on_delete=models.CASCADE, related_name="books")
        tags = models.ManyToManyField(Tag)
        price = models.DecimalField(max_digits=8, decimal_places=2, default=0)
        pages = models.PositiveIntegerField(default=1)
        sold = models.BooleanField(default=False)
        at = models.DateTimeField(null=True)
        note = models.TextField(blank=True)
        key = models.UUIDField(null=True)
        took = models.DurationField(null=True)
        raw = models.BinaryField(null=True)
        weight = models.FloatField(null=True)

        class Meta:
            ordering = ["title"]
            indexes = [models.Index(fields=["author", "-pages"], name="by_author")]
            constraints = [
                models.CheckConstraint(condition=models.Q(price__gte=0), name="price_positive"),
                models.UniqueConstraint(fields=["author", "title"], name="once"),
            ]
"""


def make_application():
    """An application with models and no migrations yet, in a folder of its own."""
    folder = tempfile.mkdtemp()
    os.makedirs(f"{folder}/shelf/migrations")
    for name in ["shelf/__init__.py", "shelf/migrations/__init__.py"]:
        open(f"{folder}/{name}", "w").close()
    with open(f"{folder}/shelf/models.py", "w") as file:
        file.write(textwrap.dedent(MODELS))
    sys.path.insert(0, folder)
    return folder


FOLDER = make_application()
django.setup()

from django.contrib.auth import authenticate, get_user_model  # noqa: E402
from django.contrib.auth.models import Group, Permission  # noqa: E402
from django.contrib.sessions.backends.db import SessionStore  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import IntegrityError, connection, models, transaction  # noqa: E402
from django.db.models import Avg, Case, Count, Exists, F, Max, OuterRef, Q, Subquery, Sum, Value, When, Window  # noqa: E402
from django.db.models.functions import Coalesce, Concat, ExtractYear, Lower, Rank, TruncMonth, Upper  # noqa: E402
from shelf.models import Author, Book, Tag  # noqa: E402


def told(*command, **options):
    """What a management command prints."""
    out = io.StringIO()
    call_command(*command, stdout=out, **options)
    return out.getvalue()


@check
def migrations_of_the_contributed_applications_run():
    told("makemigrations", "shelf")
    assert "Applying admin.0001_initial... OK" in told("migrate")
    assert "No migrations to apply" in told("migrate")
    assert "[ ]" not in told("showmigrations")


@check
def users_groups_and_permissions_are_kept():
    User = get_user_model()
    User.objects.create_superuser("root", "root@example.org", "secret")
    ann = User.objects.create_user("ann", password="secret")
    editors = Group.objects.create(name="editors")
    editors.permissions.add(*Permission.objects.filter(codename__endswith="_book"))
    ann.groups.add(editors)
    ann = User.objects.get(username="ann")
    assert authenticate(username="ann", password="secret") == ann
    assert authenticate(username="ann", password="wrong") is None
    assert ann.has_perm("shelf.change_book") and not ann.has_perm("auth.add_user")


@check
def sessions_are_kept():
    session = SessionStore()
    session["cart"] = [1, 2]
    session.save()
    assert SessionStore(session.session_key)["cart"] == [1, 2]
    session.delete()


NOON = datetime.datetime(2024, 2, 29, 12, 0, tzinfo=datetime.timezone.utc)


@check
def objects_of_every_field_come_back():
    import uuid

    ann = Author.objects.create(name="Ann", born=datetime.date(1970, 1, 2))
    values = {
        "title": "A grün", "author": ann, "price": decimal.Decimal("12.50"), "pages": 300, "sold": True,
        "at": NOON, "note": "100%", "key": uuid.uuid4(), "took": datetime.timedelta(days=1, seconds=2),
        "raw": b"\x00\xff", "weight": 0.1,
    }
    made = Book.objects.create(**values)
    book = Book.objects.get(pk=made.pk)
    for name, value in values.items():
        found = getattr(book, name)
        assert (bytes(found) if name == "raw" else found) == value, (name, found)
    Book.objects.bulk_create(
        Book(title=f"title {n:02}", author=ann, pages=n, price=n, at=NOON.replace(month=1 + n % 3))
        for n in range(1, 31)
    )
    assert Book.objects.count() == 31
    red, blue = (Tag.objects.create(word=word) for word in ["red", "blue"])
    book.tags.set([red, blue])
    assert [tag.word for tag in book.tags.order_by("word")] == ["blue", "red"]
    Author.objects.create(name="Bob")


@check
def queries_find_what_they_say():
    books = Book.objects.filter(author__name="Ann")
    assert books.filter(title__icontains="A GR").count() == 1
    assert books.filter(title__startswith="title 0").count() == 9
    assert books.filter(title__regex=r"^title [12]5$").count() == 2
    assert books.filter(title__iexact="TITLE 01").exists()
    assert books.filter(pages__in=[1, 2, 99]).count() == 2
    assert books.filter(Q(pages__lt=3) | Q(sold=True)).count() == 3
    assert books.exclude(note="").get().pages == 300
    assert books.filter(at__year=2024, at__month=2).count() == 11
    assert books.filter(at__date=NOON.date()).count() == 11
    assert books.filter(tags__word="red").get().title == "A grün"
    assert [b.pages for b in books.order_by("-pages")[1:4]] == [30, 29, 28]
    assert list(Book.objects.values_list("sold", flat=True).distinct().order_by("sold")) == [False, True]
    assert Book.objects.select_related("author").first().author.name == "Ann"
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM shelf_book WHERE title LIKE %s", ["title%"])
        assert cursor.fetchone() == (30,)
    assert Book.objects.filter(pages=1).union(Book.objects.filter(pages=2)).count() == 2
    assert sum(1 for _ in Book.objects.iterator(chunk_size=5)) == 31


@check
def aggregates_expressions_and_windows_compute():
    found = Book.objects.filter(pages__lte=30).aggregate(Sum("price"), Avg("pages"), Max("at"), n=Count("id"))
    assert (found["price__sum"], found["pages__avg"], found["n"]) == (465, 15.5, 30), found
    counted = Author.objects.annotate(n=Count("books", filter=Q(books__pages__gt=10))).order_by("name")
    assert [(a.name, a.n) for a in counted] == [("Ann", 21), ("Bob", 0)]
    by_month = (
        Book.objects.annotate(month=TruncMonth("at")).values("month").annotate(n=Count("id")).order_by("month")
    )
    assert [row["n"] for row in by_month] == [10, 11, 10], by_month
    assert Author.objects.annotate(y=ExtractYear("born")).get(name="Ann").y == 1970
    named = Author.objects.annotate(t=Concat(Upper("name"), Value("-"), Lower("name"))).order_by("name")
    assert named[0].t == "ANN-ann"
    newest = Book.objects.filter(author=OuterRef("pk")).order_by("-pages").values("title")[:1]
    assert Author.objects.annotate(t=Subquery(newest)).get(name="Ann").t == "A grün"
    assert [a.name for a in Author.objects.filter(Exists(Book.objects.filter(author=OuterRef("pk"))))] == ["Ann"]
    total = Coalesce(Sum("books__price"), Value(0), output_field=models.DecimalField())
    assert Author.objects.annotate(total=total).get(name="Bob").total == 0
    ranked = Book.objects.annotate(r=Window(Rank(), order_by=F("pages").desc())).order_by("r")
    assert [b.r for b in ranked[:3]] == [1, 2, 3]
    size = Case(When(pages__gt=100, then=Value("long")), default=Value("short"))
    assert Book.objects.annotate(size=size).filter(size="long").count() == 1


@check
def rows_are_changed_and_deleted():
    assert Book.objects.filter(pages__lte=5).update(price=F("price") * 2, note="twice") == 5
    assert Book.objects.get(pages=5).price == 10
    book, made = Book.objects.update_or_create(
        author__name="Ann", title="title 06", defaults={"note": "found"}
    )
    assert (book.note, made) == ("found", False)
    tag, made = Tag.objects.get_or_create(word="green")
    assert made and not Tag.objects.get_or_create(word="green")[1]
    Tag.objects.bulk_create([Tag(id=tag.id, word="lime")], update_conflicts=True, unique_fields=["id"],
                            update_fields=["word"])
    assert Tag.objects.get(id=tag.id).word == "lime"
    with transaction.atomic():
        assert Book.objects.select_for_update().get(pages=6).pages == 6
    assert Book.objects.filter(pages__gt=25, pages__lt=100).delete()[0] == 5


@check
def transactions_and_savepoints_hold():
    try:
        with transaction.atomic():
            Author.objects.create(name="gone")
            raise KeyError
    except KeyError:
        pass
    assert not Author.objects.filter(name="gone").exists()
    with transaction.atomic():
        for wrong in [lambda: Author.objects.create(name="Ann"),
                      lambda: Book.objects.filter(pages=6).update(price=-1)]:
            try:
                with transaction.atomic():
                    wrong()
                raise AssertionError("not refused")
            except IntegrityError:
                pass
        Author.objects.create(name="kept")
    assert Author.objects.filter(name="kept").exists()
    done = []
    with transaction.atomic():
        transaction.on_commit(lambda: done.append(1))
    assert done == [1]


@check
def references_are_judged_at_the_end():
    try:
        with transaction.atomic():
            Book.objects.create(title="early", author_id=777)
            Book.objects.filter(title="early").update(author_id=888)
    except IntegrityError as error:
        assert "shelf_book_author_id" in str(error), error
    else:
        raise AssertionError("not refused")
    with transaction.atomic():
        Book.objects.create(title="early", author_id=777)
        Author.objects.create(id=777, name="late")
        connection.check_constraints()
    assert Book.objects.get(title="early").author.name == "late"
    Author.objects.get(pk=777).delete()
    assert not Book.objects.filter(title="early").exists()


@check
def data_is_dumped_flushed_and_loaded():
    data = told("dumpdata", "auth.user", "auth.group", natural_foreign=True)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(data)
        file.flush()
        told("flush", interactive=False)
        assert not get_user_model().objects.exists()
        call_command("loaddata", file.name, verbosity=0)
    assert get_user_model().objects.count() == 2
    # The sequences begin behind what was loaded.
    told("sqlsequencereset", "auth")
    get_user_model().objects.create_user("carl")


@check
def a_second_migration_changes_tables():
    path = f"{FOLDER}/shelf/migrations/0002_more.py"
    with open(path, "w") as file:
        file.write(textwrap.dedent("""
            from django.db import migrations, models

            def fill(apps, editor):
                apps.get_model("shelf", "Author").objects.filter(name="Ann").update(rank=3)

            class Migration(migrations.Migration):
                dependencies = [("shelf", "0001_initial")]
                operations = [
                    migrations.AddField("Author", "rank", models.IntegerField(default=1)),
                    migrations.RunPython(fill, migrations.RunPython.noop),
                    migrations.AlterField("Tag", "word", models.CharField(max_length=99, unique=True)),
                    migrations.RenameField("Author", "born", "birthday"),
                    migrations.RemoveField("Book", "weight"),
                    migrations.RemoveConstraint("Book", "once"),
                    migrations.AlterUniqueTogether("Book", {("author", "title")}),
                    migrations.RenameModel("Tag", "Word"),
                    migrations.RemoveIndex("Book", "by_author"),
                    migrations.CreateModel("Loan", [
                        ("id", models.BigAutoField(primary_key=True)),
                        ("book", models.OneToOneField("shelf.Book", models.PROTECT)),
                        ("until", models.DateField(db_index=True)),
                    ]),
                ]
        """))
    Author.objects.create(name="Ann", born=NOON.date())
    told("migrate", "shelf")
    with connection.cursor() as cursor:
        cursor.execute("SELECT rank FROM shelf_author")
        assert cursor.fetchall() == [(3,)]
    told("migrate", "shelf", "0001")
    told("migrate", "shelf")


@check
def introspection_tells_the_models():
    text = told("inspectdb")
    for line in [
        "class ShelfAuthor(models.Model):",
        "name = models.CharField(unique=True, max_length=40)",
        "author = models.ForeignKey(ShelfAuthor, models.DO_NOTHING)",
        "price = models.DecimalField(max_digits=8, decimal_places=2)",
        "key = models.UUIDField(blank=True, null=True)",
        "unique_together = (('author', 'title'),)",
        "book = models.OneToOneField(ShelfBook, models.DO_NOTHING)",
        "class AuthUserGroups(models.Model):",
    ]:
        assert line in text, f"{line} is not in {text}"
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, "shelf_book")
    kinds = {name: (c["primary_key"], c["unique"], c["check"], c["foreign_key"]) for name, c in found.items()}
    assert kinds["price_positive"] == (False, False, True, None), kinds
    assert ("shelf_author", "id") in [kind[3] for kind in kinds.values()], kinds
    sequences = connection.introspection.sequence_list()
    assert {"table": "shelf_book", "column": "id", "name": "shelf_book_id_seq"}.items() <= next(
        s for s in sequences if s["table"] == "shelf_book").items(), sequences


@check
def everything_is_taken_back():
    for label in ["shelf", "admin", "sessions", "auth", "contenttypes"]:
        told("migrate", label, "zero")
    assert connection.introspection.table_names() == ["django_migrations"], connection.introspection.table_names()


run()
