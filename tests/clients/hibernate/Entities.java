import jakarta.persistence.*;
import java.math.BigDecimal;
import java.time.*;
import java.util.*;
import org.hibernate.annotations.CreationTimestamp;
import org.hibernate.annotations.Formula;
import org.hibernate.annotations.JdbcTypeCode;
import org.hibernate.type.SqlTypes;

/** What the checks store. */
class Entities {
    enum State { DRAFT, PUBLISHED }

    static class Detail {
        public int pages;
        public List<String> words = new ArrayList<>();
    }

    @Entity(name = "Author") @Table(name = "author", indexes = @jakarta.persistence.Index(columnList = "name, born desc"))
    static class Author {
        @Id @GeneratedValue(strategy = GenerationType.SEQUENCE) @SequenceGenerator(name = "author_seq", allocationSize = 50) Long id;
        @Column(length = 80, nullable = false, unique = true) String name;
        LocalDate born;
        @CreationTimestamp Instant made;
        @Version int version;
        @OneToMany(mappedBy = "author", cascade = CascadeType.ALL, orphanRemoval = true) List<Book> books = new ArrayList<>();
        @ElementCollection Set<String> names = new TreeSet<>();
    }

    @Entity(name = "Book") @Table(name = "book", uniqueConstraints = @UniqueConstraint(columnNames = {"author_id", "title"}))
    @org.hibernate.annotations.Check(constraints = "price >= 0")
    static class Book {
        @Id @GeneratedValue UUID id;
        @Column(nullable = false) String title;
        @Column(precision = 9, scale = 2) BigDecimal price = BigDecimal.ZERO;
        @Enumerated(EnumType.STRING) State state = State.DRAFT;
        @Enumerated(EnumType.ORDINAL) State ordinal = State.DRAFT;
        @JdbcTypeCode(SqlTypes.JSON) Detail detail;
        @JdbcTypeCode(SqlTypes.ARRAY) List<String> tags;
        int[] numbers;
        byte[] cover;
        @Column(columnDefinition = "text") String body;
        LocalDateTime changed;
        OffsetDateTime published;
        LocalTime hour;
        Duration span;
        Boolean sold;
        Double weight;
        @ManyToOne(fetch = FetchType.LAZY) Author author;
        @ManyToMany(cascade = CascadeType.PERSIST) Set<Label> labels = new HashSet<>();
    }

    @Entity(name = "Label") @Table(name = "label")
    static class Label {
        @Id @GeneratedValue(strategy = GenerationType.IDENTITY) Integer id;
        String text;
        @Formula("upper(text)") String loud;
    }

    @Entity(name = "Native") @Table(name = "with_native_enum")
    static class Native {
        @Id Integer id;
        @JdbcTypeCode(SqlTypes.NAMED_ENUM) @Enumerated State state;
    }

    @Entity(name = "Vehicle") @Table(name = "vehicle") @Inheritance(strategy = InheritanceType.JOINED)
    abstract static class Vehicle {
        @Id @GeneratedValue Long id;
        String maker;
    }

    @Entity(name = "Car") @Table(name = "car") static class Car extends Vehicle { int doors; }

    @Entity(name = "Ship") @Table(name = "ship") static class Ship extends Vehicle { double length; }

    @Entity(name = "Payment") @Table(name = "payment") @Inheritance(strategy = InheritanceType.SINGLE_TABLE)
    abstract static class Payment {
        @Id @GeneratedValue Long id;
        BigDecimal total;
    }

    @Entity(name = "Cash") static class Cash extends Payment { String coin; }

    @Entity(name = "Card") static class Card extends Payment { String number; }

    @Entity(name = "Shape") @Inheritance(strategy = InheritanceType.TABLE_PER_CLASS)
    abstract static class Shape { @Id @GeneratedValue Long id; String colour; }

    @Entity(name = "Circle") @Table(name = "circles") static class Circle extends Shape { double radius; }

    @Entity(name = "Square") @Table(name = "squares") static class Square extends Shape { double side; }

    static final Class<?>[] ALL = {Author.class, Book.class, Label.class, Vehicle.class, Car.class, Ship.class, Payment.class, Cash.class, Card.class,
        Shape.class, Circle.class, Square.class};
}
