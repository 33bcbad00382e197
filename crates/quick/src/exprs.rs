//! Names, constants and expressions.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, DuplicateTreatment, ExactNumberInfo, Expr, Function,
    FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident, ObjectName,
    TimezoneInfo, TypedString, UnaryOperator, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::keywords::Keyword;

use super::tokens::Kind;
use super::{CHAIN_MAX, Reader};

/// Keywords of the SQL parser's that are names wherever a name may stand, each of them seen to be
/// (`keywords_are_names`).
#[rustfmt::skip]
pub(super) const NAMES: &[Keyword] = &[
    Keyword::ACCOUNT, Keyword::ACTION, Keyword::ADMIN, Keyword::ALERT, Keyword::ALIAS,
    Keyword::APPLICATION, Keyword::ARCHIVE, Keyword::BACKUP, Keyword::BLOCK, Keyword::BOX,
    Keyword::BUCKET, Keyword::CATEGORY, Keyword::CHAIN, Keyword::CHANNEL, Keyword::CLASS,
    Keyword::COMMENT, Keyword::COMPRESSION, Keyword::CONNECTION, Keyword::CONTACT, Keyword::COST,
    Keyword::COUNT, Keyword::DATA, Keyword::DATABASE, Keyword::DATE, Keyword::DAY, Keyword::DAYS,
    Keyword::DETAIL, Keyword::DOMAIN, Keyword::ELEMENT, Keyword::ENCODING,
    Keyword::ENGINE, Keyword::ERROR, Keyword::EVENT, Keyword::FAMILY, Keyword::FIELDS, Keyword::FILE,
    Keyword::FILES, Keyword::FORMAT, Keyword::FUNCTION, Keyword::GROUPS, Keyword::HASH, Keyword::HEADER,
    Keyword::HISTORY, Keyword::HOUR, Keyword::HOURS, Keyword::ID, Keyword::IDENTITY, Keyword::INDEX,
    Keyword::ITEMS, Keyword::JSON, Keyword::KEY, Keyword::KEYS, Keyword::LANGUAGE, Keyword::LAST,
    Keyword::LEVEL, Keyword::LINE, Keyword::LINES, Keyword::LIST, Keyword::LOCATION, Keyword::LOG,
    Keyword::LOGIN, Keyword::LOGS, Keyword::MEMBER, Keyword::MESSAGE, Keyword::METADATA, Keyword::METHOD,
    Keyword::METRIC, Keyword::METRICS, Keyword::MINUTE, Keyword::MODE, Keyword::MODULE, Keyword::MONTH,
    Keyword::NAME, Keyword::NAMES, Keyword::NETWORK, Keyword::NUMBER, Keyword::OBJECT, Keyword::OPTION,
    Keyword::OPTIONS, Keyword::OWNER, Keyword::PACKAGE, Keyword::PARAMETER, Keyword::PART,
    Keyword::PASSWORD, Keyword::PATH, Keyword::PATTERN, Keyword::PERCENT, Keyword::PERIOD, Keyword::PLAN,
    Keyword::PLANS, Keyword::POINT, Keyword::POLICY, Keyword::PRECISION, Keyword::PROFILE,
    Keyword::PROGRAM, Keyword::PROJECTION, Keyword::PUBLIC, Keyword::PURCHASE, Keyword::QUARTER,
    Keyword::QUERY, Keyword::QUOTE, Keyword::RANGE, Keyword::RANK, Keyword::REGION, Keyword::RESOURCE,
    Keyword::RESULT, Keyword::ROLE, Keyword::ROLES, Keyword::RULE, Keyword::SCHEMA, Keyword::SCOPE,
    Keyword::SECOND, Keyword::SECRET, Keyword::SECURITY, Keyword::SEQUENCE, Keyword::SERVER,
    Keyword::SERVICE, Keyword::SESSION, Keyword::SETTINGS, Keyword::SIZE, Keyword::SNAPSHOT,
    Keyword::SOURCE, Keyword::STAGE, Keyword::START, Keyword::STATEMENT, Keyword::STATUS, Keyword::STEP,
    Keyword::STORAGE, Keyword::STREAM, Keyword::STRING, Keyword::SUPPORT, Keyword::SYSTEM, Keyword::TAG,
    Keyword::TARGET, Keyword::TASK, Keyword::TEXT, Keyword::TIME, Keyword::TIMESTAMP, Keyword::TIMEZONE,
    Keyword::TOTALS, Keyword::TRACE, Keyword::TRANSACTION, Keyword::TRANSLATION, Keyword::TREE,
    Keyword::TYPE, Keyword::URL, Keyword::USAGE, Keyword::UUID, Keyword::VALID, Keyword::VALUE,
    Keyword::VARIABLE, Keyword::VERSION, Keyword::VERSIONS, Keyword::VIEWS, Keyword::VOLUME,
    Keyword::WAREHOUSE, Keyword::WEEK, Keyword::WORK, Keyword::YEAR, Keyword::ZONE,
];

/// Keywords that are names of functions where a bracket follows.
#[rustfmt::skip]
const FUNCTIONS: &[Keyword] = &[
    Keyword::ABS, Keyword::AVG, Keyword::COALESCE, Keyword::COUNT, Keyword::LOWER, Keyword::MAX, Keyword::MIN,
    Keyword::SUM, Keyword::UPPER,
];

impl Reader<'_> {
    /// A name in its parts: `schema.table`, or one part alone.
    pub fn name(&mut self) -> Option<ObjectName> {
        Some(ObjectName::from(self.path()?))
    }

    /// Names with points between them.
    fn path(&mut self) -> Option<Vec<Ident>> {
        let mut path = vec![self.ident()?];
        while self.eats(".") {
            path.push(self.ident()?);
        }
        Some(path)
    }

    pub fn ident(&mut self) -> Option<Ident> {
        let token = self.next()?;
        let (value, quote_style) = match token.kind {
            Kind::Word(word, keyword) if is_name(keyword) => (word, None),
            Kind::Quoted(word) => (word, Some('"')),
            _ => return None,
        };
        Some(Ident { value: value.to_owned(), quote_style, span: token.span })
    }

    /// A name that stands without AS behind what it names: no keyword, lest it be taken for what follows.
    pub fn bare_alias(&mut self) -> Option<Ident> {
        match self.peek(0) {
            Some(Kind::Word(_, Keyword::NoKeyword) | Kind::Quoted(_)) => self.ident(),
            _ => None,
        }
    }

    /// Terms with OR between them.
    pub fn expr(&mut self) -> Option<Expr> {
        let term = |reader: &mut Self| reader.chain(Self::predicate, logical(Keyword::AND));
        self.chain(term, logical(Keyword::OR))
    }

    /// Operands with operators of one rank between them.
    fn chain(
        &mut self,
        operand: impl Fn(&mut Self) -> Option<Expr>,
        operator: impl Fn(&mut Self) -> Option<BinaryOperator>,
    ) -> Option<Expr> {
        let mut chain = operand(self)?;
        let mut operators = 0;
        while let Some(op) = operator(self) {
            operators += 1;
            if operators > CHAIN_MAX {
                return None;
            }
            let right = Box::new(operand(self)?);
            chain = Expr::BinaryOp { left: Box::new(chain), op, right };
        }
        Some(chain)
    }

    /// A condition without AND and OR, or a value.
    fn predicate(&mut self) -> Option<Expr> {
        let left = self.sum()?;
        if let Some(op) = self.comparison() {
            if self.eats_word(Keyword::ANY) {
                let right = Box::new(self.within(Self::expr)?);
                return Some(Expr::AnyOp {
                    left: Box::new(left),
                    compare_op: op,
                    right,
                    is_some: false,
                });
            }
            let right = Box::new(self.sum()?);
            return Some(Expr::BinaryOp { left: Box::new(left), op, right });
        }
        let of = Box::new(left);
        if self.eats_word(Keyword::IS) {
            let negated = self.eats_word(Keyword::NOT);
            let found = match (self.keyword(), negated) {
                (Keyword::NULL, false) => Expr::IsNull(of),
                (Keyword::NULL, true) => Expr::IsNotNull(of),
                (Keyword::TRUE, false) => Expr::IsTrue(of),
                (Keyword::TRUE, true) => Expr::IsNotTrue(of),
                (Keyword::FALSE, false) => Expr::IsFalse(of),
                (Keyword::FALSE, true) => Expr::IsNotFalse(of),
                _ => return None,
            };
            self.next()?;
            return Some(found);
        }
        let negated = self.eats_word(Keyword::NOT);
        if self.eats_word(Keyword::IN) {
            let list = self.within(|reader| reader.list(Self::sum))?;
            return Some(Expr::InList { expr: of, list, negated });
        }
        if self.eats_word(Keyword::BETWEEN) {
            let low = Box::new(self.sum()?);
            self.word(Keyword::AND)?;
            let high = Box::new(self.sum()?);
            return Some(Expr::Between { expr: of, negated, low, high });
        }
        if self.eats_word(Keyword::LIKE) {
            let (pattern, escape_char) = (Box::new(self.sum()?), None);
            return Some(Expr::Like { negated, any: false, expr: of, pattern, escape_char });
        }
        (!negated).then_some(*of)
    }

    fn comparison(&mut self) -> Option<BinaryOperator> {
        let Some(Kind::Symbol(symbol)) = self.peek(0) else { return None };
        let op = match *symbol {
            "=" => BinaryOperator::Eq,
            "<>" | "!=" => BinaryOperator::NotEq,
            "<" => BinaryOperator::Lt,
            "<=" => BinaryOperator::LtEq,
            ">" => BinaryOperator::Gt,
            ">=" => BinaryOperator::GtEq,
            _ => return None,
        };
        self.at += 1;
        Some(op)
    }

    fn sum(&mut self) -> Option<Expr> {
        let symbols = [("+", BinaryOperator::Plus), ("-", BinaryOperator::Minus)];
        self.chain(Self::product, arithmetic(&symbols))
    }

    fn product(&mut self) -> Option<Expr> {
        let symbols = [
            ("*", BinaryOperator::Multiply),
            ("/", BinaryOperator::Divide),
            ("%", BinaryOperator::Modulo),
        ];
        self.chain(Self::signed, arithmetic(&symbols))
    }

    fn signed(&mut self) -> Option<Expr> {
        match self.eats("-") {
            true => {
                let expr = Box::new(self.cast()?);
                Some(Expr::UnaryOp { op: UnaryOperator::Minus, expr })
            }
            false => self.cast(),
        }
    }

    fn cast(&mut self) -> Option<Expr> {
        let expr = self.primary()?;
        if !self.eats("::") {
            return Some(expr);
        }
        let data_type = self.data_type()?;
        let (kind, expr) = (CastKind::DoubleColon, Box::new(expr));
        Some(Expr::Cast { kind, expr, data_type, array: false, format: None })
    }

    /// A type without a length.
    fn data_type(&mut self) -> Option<DataType> {
        let found = match self.keyword() {
            Keyword::BIGINT => DataType::BigInt(None),
            Keyword::BOOLEAN => DataType::Boolean,
            Keyword::DATE => DataType::Date,
            Keyword::INT => DataType::Int(None),
            Keyword::INT4 => DataType::Int4(None),
            Keyword::INT8 => DataType::Int8(None),
            Keyword::INTEGER => DataType::Integer(None),
            Keyword::NUMERIC => DataType::Numeric(ExactNumberInfo::None),
            Keyword::SMALLINT => DataType::SmallInt(None),
            Keyword::TEXT => DataType::Text,
            Keyword::TIMESTAMP => DataType::Timestamp(None, TimezoneInfo::None),
            Keyword::UUID => DataType::Uuid,
            Keyword::VARCHAR => DataType::Varchar(None),
            _ => return None,
        };
        self.at += 1;
        // A length, an array, or WITH TIME ZONE, which is the type's.
        let goes_on = self.is("(")
            || matches!(self.keyword(), Keyword::WITH | Keyword::WITHOUT | Keyword::ARRAY);
        (!goes_on).then_some(found)
    }

    fn primary(&mut self) -> Option<Expr> {
        match self.peek(0)? {
            Kind::Symbol("(") => {
                let inner = self.within(Self::expr)?;
                // A row is another thing, and so is what follows a subquery.
                Some(Expr::Nested(Box::new(inner)))
            }
            Kind::Number(digits) => self.constant(Value::Number((*digits).to_owned(), false)),
            Kind::Text(text) => self.constant(Value::SingleQuotedString(text.to_string())),
            Kind::Parameter(name) => self.constant(Value::Placeholder((*name).to_owned())),
            Kind::Word(_, Keyword::TRUE) => self.constant(Value::Boolean(true)),
            Kind::Word(_, Keyword::FALSE) => self.constant(Value::Boolean(false)),
            Kind::Word(_, Keyword::NULL) => self.constant(Value::Null),
            Kind::Word(_, keyword @ (Keyword::DATE | Keyword::TIMESTAMP))
                if matches!(self.peek(1), Some(Kind::Text(_))) =>
            {
                self.at += 1;
                self.typed_text(*keyword)
            }
            Kind::Word(_, keyword)
                if matches!(self.peek(1), Some(Kind::Symbol("(")))
                    && (*keyword == Keyword::NoKeyword || FUNCTIONS.contains(keyword)) =>
            {
                self.call()
            }
            Kind::Word(_, keyword) if !is_name(*keyword) => None,
            Kind::Word(..) | Kind::Quoted(_) => {
                let mut path = self.path()?;
                match path.len() {
                    // The name of a function in a schema, or a call of one in quotes.
                    _ if self.is("(") => None,
                    1 => path.pop().map(Expr::Identifier),
                    _ => Some(Expr::CompoundIdentifier(path)),
                }
            }
            _ => None,
        }
    }

    /// A constant, which is the next token.
    fn constant(&mut self, value: Value) -> Option<Expr> {
        let span = self.next()?.span;
        Some(Expr::Value(ValueWithSpan { value, span }))
    }

    fn typed_text(&mut self, keyword: Keyword) -> Option<Expr> {
        let token = self.next()?;
        let Kind::Text(text) = &token.kind else { return None };
        let data_type = match keyword {
            Keyword::DATE => DataType::Date,
            _ => DataType::Timestamp(None, TimezoneInfo::None),
        };
        let value =
            ValueWithSpan { value: Value::SingleQuotedString(text.to_string()), span: token.span };
        Some(Expr::TypedString(TypedString { data_type, value, uses_odbc_syntax: false }))
    }

    /// A call of a function or an aggregate, without the clauses that may follow.
    fn call(&mut self) -> Option<Expr> {
        let token = self.next()?;
        let Kind::Word(word, _) = token.kind else { return None };
        let name = Ident { value: word.to_owned(), quote_style: None, span: token.span };
        let list = self.within(|reader| {
            let distinct = reader.eats_word(Keyword::DISTINCT);
            let duplicate_treatment = distinct.then_some(DuplicateTreatment::Distinct);
            let args = match () {
                () if !distinct && reader.is(")") => Vec::new(),
                () if reader.eats("*") => vec![FunctionArg::Unnamed(FunctionArgExpr::Wildcard)],
                () => reader.list(|reader| {
                    reader.expr().map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)))
                })?,
            };
            Some(FunctionArgumentList { duplicate_treatment, args, clauses: Vec::new() })
        })?;
        Some(Expr::Function(Function {
            name: ObjectName::from(vec![name]),
            uses_odbc_syntax: false,
            parameters: FunctionArguments::None,
            args: FunctionArguments::List(list),
            filter: None,
            null_treatment: None,
            over: None,
            within_group: Vec::new(),
        }))
    }
}

/// Whether a word is a name wherever a name may stand.
fn is_name(keyword: Keyword) -> bool {
    keyword == Keyword::NoKeyword || NAMES.contains(&keyword)
}

/// Reads AND or OR.
fn logical(word: Keyword) -> impl Fn(&mut Reader<'_>) -> Option<BinaryOperator> {
    move |reader| {
        let op = if word == Keyword::AND { BinaryOperator::And } else { BinaryOperator::Or };
        reader.eats_word(word).then_some(op)
    }
}

/// Reads one of some operators.
fn arithmetic(
    symbols: &[(&str, BinaryOperator)],
) -> impl Fn(&mut Reader<'_>) -> Option<BinaryOperator> {
    move |reader| {
        let found = symbols.iter().find(|(symbol, _)| reader.is(symbol))?;
        reader.at += 1;
        Some(found.1.clone())
    }
}
