"""What programs do through SQLAlchemy: schema, ORM, reflection; over psycopg, and the core over asyncpg."""

import asyncio
import decimal

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, relationship, selectinload

from checks import DATABASE, HOST, PORT, USER, check, run

ENGINE = sa.create_engine(f"postgresql+psycopg://{USER}@{HOST}:{PORT}/{DATABASE}")
ASYNC = f"postgresql+asyncpg://{USER}@{HOST}:{PORT}/{DATABASE}"


class Base(DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "author"
    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(sa.String(30), unique=True)
    books: Mapped[list["Book"]] = relationship(back_populates="author", cascade="all, delete-orphan")


class Book(Base):
    __tablename__ = "book"
    __table_args__ = (sa.CheckConstraint("price >= 0", name="price_positive"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    title: Mapped[str] = mapped_column(index=True)
    price: Mapped[decimal.Decimal] = mapped_column(sa.Numeric(8, 2), server_default="0")
    note: Mapped[str | None]
    author_id: Mapped[int] = mapped_column(sa.ForeignKey("author.id"))
    author: Mapped[Author] = relationship(back_populates="books")


@check
def a_connection_learns_what_the_server_is():
    with ENGINE.connect() as connection:
        assert connection.execute(sa.text("SELECT 1")).scalar() == 1
        assert ENGINE.dialect.server_version_info[:1] == (16,), ENGINE.dialect.server_version_info
        assert ENGINE.dialect.default_schema_name == "public"


@check
def tables_are_made_once():
    Base.metadata.create_all(ENGINE)
    Base.metadata.create_all(ENGINE)


@check
def objects_are_written_and_read():
    with Session(ENGINE) as session:
        ann = Author(name="Ann", books=[Book(title="A"), Book(title="B", price=5, note="x")])
        session.add_all([ann, *(Author(name=f"author {n}") for n in range(50))])
        session.commit()
        query = sa.select(Author).options(selectinload(Author.books)).where(Author.name == "Ann")
        found = session.scalars(query).one()
        assert sorted(book.title for book in found.books) == ["A", "B"]
        found.books[0].price = decimal.Decimal("2.50")
        session.delete(found.books[1])
        session.commit()
        total = sa.select(sa.func.count(), sa.func.sum(Book.price)).join(Author)
        assert session.execute(total.where(Author.name == "Ann")).one()[0] == 1
        assert len(session.scalars(sa.select(Author).where(Author.id.in_([1, 2, 3]))).all()) == 3


@check
def a_failed_flush_is_undone():
    with Session(ENGINE) as session:
        session.add(Author(name="Ann"))
        try:
            session.commit()
            raise AssertionError("a duplicate was taken")
        except sa.exc.IntegrityError:
            session.rollback()
        with session.begin_nested():
            session.add(Author(name="Bob"))
        session.rollback()
        assert session.scalar(sa.select(Author).where(Author.name == "Bob")) is None


@check
def rows_are_streamed_by_a_cursor_of_the_server():
    with ENGINE.connect() as connection:
        rows = connection.execution_options(stream_results=True, max_row_buffer=7).execute(
            sa.select(Author.id).order_by(Author.id)
        )
        assert len([row.id for row in rows]) == 51


@check
def a_schema_is_reflected():
    metadata = sa.MetaData()
    metadata.reflect(bind=ENGINE)
    assert {"author", "book"} <= set(metadata.tables), metadata.tables.keys()
    book = metadata.tables["book"]
    types = {column.name: str(column.type) for column in book.columns}
    assert types["price"] == "NUMERIC(8, 2)" and types["title"] == "VARCHAR", types
    assert [key.target_fullname for key in book.foreign_keys] == ["author.id"]
    assert [index.name for index in book.indexes] == ["ix_book_title"]


@check
def an_inspector_finds_constraints():
    inspector = sa.inspect(ENGINE)
    assert "public" in inspector.get_schema_names()
    assert inspector.get_pk_constraint("author")["constrained_columns"] == ["id"]
    assert [key["column_names"] for key in inspector.get_unique_constraints("author")] == [["name"]]
    assert [key["name"] for key in inspector.get_check_constraints("book")] == ["price_positive"]
    assert inspector.get_sequence_names() == ["author_id_seq", "book_id_seq"]


@check
def the_core_over_asyncpg():
    async def main():
        engine = create_async_engine(ASYNC)
        async with engine.begin() as connection:
            rows = await connection.execute(sa.select(Author.name).where(Author.id == 1))
            assert rows.scalar_one()
            names = await connection.run_sync(lambda sync: sa.inspect(sync).get_table_names())
            assert "book" in names, names
        await engine.dispose()

    asyncio.run(main())


run()
