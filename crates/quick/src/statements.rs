//! SELECT, INSERT, UPDATE and DELETE, and EXPLAIN of them.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, Delete, DescribeAlias, DoUpdate, Expr, FromTable,
    GroupByExpr, Ident, Insert, Join, JoinConstraint, JoinOperator, LimitClause, LockClause,
    LockType, ObjectName, Offset, OffsetRows, OnConflict, OnConflictAction, OnInsert, OrderBy,
    OrderByExpr, OrderByKind, OrderByOptions, Parens, Query, Select, SelectFlavor, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, Statement, TableAlias, TableAliasWithoutColumns,
    TableFactor, TableObject, TableWithJoins, Update, UtilityOption, Values,
    WildcardAdditionalOptions,
};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan, Word};

use super::Reader;
use super::tokens::Kind;

impl Reader<'_> {
    pub fn statement(&mut self) -> Option<Statement> {
        match self.keyword() {
            Keyword::SELECT => self.query().map(|query| Statement::Query(Box::new(query))),
            Keyword::INSERT => self.insert().map(Statement::Insert),
            Keyword::UPDATE => self.update().map(Statement::Update),
            Keyword::DELETE => self.delete().map(Statement::Delete),
            Keyword::EXPLAIN => self.explain(),
            _ => None,
        }
    }

    /// EXPLAIN, perhaps with one option or ANALYZE.
    fn explain(&mut self) -> Option<Statement> {
        self.word(Keyword::EXPLAIN)?;
        let options = match self.is("(") {
            true => Some(self.within(|reader| reader.list(Self::option))?),
            false => None,
        };
        let analyze = options.is_none() && self.eats_word(Keyword::ANALYZE);
        if self.keyword() == Keyword::EXPLAIN {
            return None;
        }
        let statement = Box::new(self.statement()?);
        Some(Statement::Explain {
            describe_alias: DescribeAlias::Explain,
            analyze,
            verbose: false,
            query_plan: false,
            estimate: false,
            statement,
            format: None,
            options,
        })
    }

    /// An option of EXPLAIN that is a word alone.
    fn option(&mut self) -> Option<UtilityOption> {
        let token = self.next()?;
        let Kind::Word(word, keyword) = token.kind else { return None };
        if !matches!(keyword, Keyword::NoKeyword | Keyword::ANALYZE)
            || word.eq_ignore_ascii_case("triggers")
        {
            return None;
        }
        let name = Ident { value: word.to_owned(), quote_style: None, span: token.span };
        Some(UtilityOption { name, arg: None })
    }

    /// A keyword as the tree keeps it.
    fn attached(&mut self, keyword: Keyword) -> Option<AttachedToken> {
        let token = self.next()?;
        match token.kind {
            Kind::Word(word, found) if found == keyword => {
                let word = Word { value: word.to_owned(), quote_style: None, keyword };
                Some(attached(Token::Word(word), token.span))
            }
            _ => None,
        }
    }

    fn query(&mut self) -> Option<Query> {
        let select = self.select()?;
        let reads_tables = !select.from.is_empty();
        let mut query = query(SetExpr::Select(Box::new(select)));
        if self.eats_words(&[Keyword::ORDER, Keyword::BY]) {
            let kind = OrderByKind::Expressions(self.list(Self::order_item)?);
            query.order_by = Some(OrderBy { kind, interpolate: None });
        }
        let limit = match self.eats_word(Keyword::LIMIT) {
            true => Some(self.expr()?),
            false => None,
        };
        let offset = match self.eats_word(Keyword::OFFSET) {
            true => Some(Offset { value: self.expr()?, rows: OffsetRows::None }),
            false => None,
        };
        if limit.is_some() || offset.is_some() {
            let limit_by = Vec::new();
            query.limit_clause = Some(LimitClause::LimitOffset { limit, offset, limit_by });
        }
        // Without FROM the word would be another name of the last item.
        if reads_tables && self.eats_word(Keyword::FOR) {
            let _ = self.eats_words(&[Keyword::NO, Keyword::KEY]);
            let lock_type = match self.next()?.kind {
                Kind::Word(_, Keyword::UPDATE) => LockType::Update,
                Kind::Word(_, Keyword::SHARE) => LockType::Share,
                _ => return None,
            };
            query.locks.push(LockClause { lock_type, of: None, nonblock: None });
        }
        Some(query)
    }

    fn order_item(&mut self) -> Option<OrderByExpr> {
        let expr = self.expr()?;
        let asc = match self.keyword() {
            Keyword::ASC => Some(true),
            Keyword::DESC => Some(false),
            _ => None,
        };
        self.at += usize::from(asc.is_some());
        let nulls_first = match () {
            () if self.eats_words(&[Keyword::NULLS, Keyword::FIRST]) => Some(true),
            () if self.eats_words(&[Keyword::NULLS, Keyword::LAST]) => Some(false),
            () => None,
        };
        let options = OrderByOptions { asc, nulls_first };
        Some(OrderByExpr { expr, options, with_fill: None })
    }

    fn select(&mut self) -> Option<Select> {
        let select_token = self.attached(Keyword::SELECT)?;
        let projection = self.list(Self::item)?;
        let from = match self.eats_word(Keyword::FROM) {
            true => self.list(Self::tables)?,
            false => Vec::new(),
        };
        let selection = self.condition()?;
        let grouped = match self.eats_words(&[Keyword::GROUP, Keyword::BY]) {
            true => self.list(Self::expr)?,
            false => Vec::new(),
        };
        Some(Select {
            select_token,
            optimizer_hints: Vec::new(),
            distinct: None,
            select_modifiers: None,
            top: None,
            top_before_distinct: false,
            projection,
            exclude: None,
            into: None,
            from,
            lateral_views: Vec::new(),
            prewhere: None,
            selection,
            connect_by: Vec::new(),
            group_by: GroupByExpr::Expressions(grouped, Vec::new()),
            cluster_by: Vec::new(),
            distribute_by: Vec::new(),
            sort_by: Vec::new(),
            having: None,
            named_window: Vec::new(),
            qualify: None,
            window_before_qualify: false,
            value_table_mode: None,
            flavor: SelectFlavor::Standard,
        })
    }

    /// WHERE with its condition, or nothing.
    fn condition(&mut self) -> Option<Option<Expr>> {
        match self.eats_word(Keyword::WHERE) {
            true => self.expr().map(Some),
            false => Some(None),
        }
    }

    /// An item of a SELECT list or of RETURNING.
    fn item(&mut self) -> Option<SelectItem> {
        if self.eats("*") {
            return Some(SelectItem::Wildcard(self.all_columns()));
        }
        if let (
            Some(Kind::Word(..) | Kind::Quoted(_)),
            Some(Kind::Symbol(".")),
            Some(Kind::Symbol("*")),
        ) = (self.peek(0), self.peek(1), self.peek(2))
        {
            let table = ObjectName::from(vec![self.ident()?]);
            self.at += 2;
            let kind = SelectItemQualifiedWildcardKind::ObjectName(table);
            return Some(SelectItem::QualifiedWildcard(kind, self.all_columns()));
        }
        let expr = self.expr()?;
        let alias = match self.eats_word(Keyword::AS) {
            true => Some(self.ident()?),
            false => self.bare_alias(),
        };
        Some(match alias {
            Some(alias) => SelectItem::ExprWithAlias { expr, alias },
            None => SelectItem::UnnamedExpr(expr),
        })
    }

    /// The star that was read last.
    fn all_columns(&self) -> WildcardAdditionalOptions {
        let wildcard_token = attached(Token::Mul, self.last());
        WildcardAdditionalOptions { wildcard_token, ..WildcardAdditionalOptions::default() }
    }

    /// A table, and those joined with it.
    fn tables(&mut self) -> Option<TableWithJoins> {
        let relation = self.table()?;
        let mut joins = Vec::new();
        while let Some(operator) = self.join() {
            let relation = self.table()?;
            self.word(Keyword::ON)?;
            let join_operator = operator(JoinConstraint::On(self.expr()?));
            joins.push(Join { relation, global: false, join_operator });
        }
        Some(TableWithJoins { relation, joins })
    }

    fn join(&mut self) -> Option<fn(JoinConstraint) -> JoinOperator> {
        use Keyword::{INNER, JOIN, LEFT, OUTER};
        Some(match () {
            () if self.eats_word(JOIN) => JoinOperator::Join,
            () if self.eats_words(&[INNER, JOIN]) => JoinOperator::Inner,
            () if self.eats_words(&[LEFT, JOIN]) => JoinOperator::Left,
            () if self.eats_words(&[LEFT, OUTER, JOIN]) => JoinOperator::LeftOuter,
            () => return None,
        })
    }

    fn table(&mut self) -> Option<TableFactor> {
        let name = self.name()?;
        if self.is("(") {
            return None;
        }
        let explicit = self.eats_word(Keyword::AS);
        let alias = if explicit { Some(self.ident()?) } else { self.bare_alias() };
        let columns = Vec::new();
        Some(TableFactor::Table {
            name,
            alias: alias.map(|name| TableAlias { explicit, name, columns, at: None }),
            args: None,
            with_hints: Vec::new(),
            version: None,
            with_ordinality: false,
            partitions: Vec::new(),
            json_path: None,
            sample: None,
            index_hints: Vec::new(),
        })
    }

    /// The table that UPDATE and DELETE name.
    fn target(&mut self) -> Option<TableWithJoins> {
        Some(TableWithJoins { relation: self.table()?, joins: Vec::new() })
    }

    fn insert(&mut self) -> Option<Insert> {
        let insert_token = self.attached(Keyword::INSERT)?;
        self.word(Keyword::INTO)?;
        let table = TableObject::TableName(self.name()?);
        let table_alias = match self.eats_word(Keyword::AS) {
            true => Some(TableAliasWithoutColumns { explicit: true, alias: self.ident()? }),
            false => None,
        };
        let columns = match self.is("(") {
            true => self.within(|reader| {
                reader.list(|reader| reader.ident().map(|name| ObjectName::from(vec![name])))
            })?,
            false => Vec::new(),
        };
        self.word(Keyword::VALUES)?;
        let rows = self.list(Self::row)?;
        let values = Values { explicit_row: false, value_keyword: false, rows };
        let source = Some(Box::new(query(SetExpr::Values(values))));
        let on = match self.eats_words(&[Keyword::ON, Keyword::CONFLICT]) {
            true => Some(OnInsert::OnConflict(self.on_conflict()?)),
            false => None,
        };
        Some(Insert {
            insert_token,
            optimizer_hints: Vec::new(),
            or: None,
            ignore: false,
            into: true,
            table,
            table_alias,
            columns,
            overwrite: false,
            source,
            assignments: Vec::new(),
            partitioned: None,
            after_columns: Vec::new(),
            has_table_keyword: false,
            on,
            returning: self.returning()?,
            output: None,
            replace_into: false,
            priority: None,
            insert_alias: None,
            settings: None,
            format_clause: None,
            multi_table_insert_type: None,
            multi_table_into_clauses: Vec::new(),
            multi_table_when_clauses: Vec::new(),
            multi_table_else_clause: None,
        })
    }

    /// A row of VALUES.
    fn row(&mut self) -> Option<Parens<Vec<Expr>>> {
        let before = self.at;
        let content = self.within(|reader| reader.list(Self::cell))?;
        let opening_token = attached(Token::LParen, self.tokens[before].span);
        let closing_token = attached(Token::RParen, self.last());
        Some(Parens { opening_token, content, closing_token })
    }

    /// A value or the word DEFAULT, which the tree keeps as a name.
    fn cell(&mut self) -> Option<Expr> {
        match self.peek(0) {
            Some(Kind::Word(word, Keyword::DEFAULT)) => {
                let (value, span) = ((*word).to_owned(), self.next()?.span);
                Some(Expr::Identifier(Ident { value, quote_style: None, span }))
            }
            _ => self.expr(),
        }
    }

    fn on_conflict(&mut self) -> Option<OnConflict> {
        let conflict_target = match self.is("(") {
            true => {
                let columns = self.within(|reader| reader.list(Self::ident))?;
                Some(ConflictTarget::Columns(columns))
            }
            false => None,
        };
        self.word(Keyword::DO)?;
        let action = match self.eats_word(Keyword::NOTHING) {
            true => OnConflictAction::DoNothing,
            false => {
                self.word(Keyword::UPDATE)?;
                self.word(Keyword::SET)?;
                let assignments = self.list(Self::assignment)?;
                let selection = self.condition()?;
                OnConflictAction::DoUpdate(DoUpdate { assignments, selection })
            }
        };
        Some(OnConflict { conflict_target, action })
    }

    fn assignment(&mut self) -> Option<Assignment> {
        let target = AssignmentTarget::ColumnName(ObjectName::from(vec![self.ident()?]));
        self.symbol("=")?;
        Some(Assignment { target, value: self.cell()? })
    }

    fn returning(&mut self) -> Option<Option<Vec<SelectItem>>> {
        match self.eats_word(Keyword::RETURNING) {
            true => self.list(Self::item).map(Some),
            false => Some(None),
        }
    }

    fn update(&mut self) -> Option<Update> {
        let update_token = self.attached(Keyword::UPDATE)?;
        let table = self.target()?;
        self.word(Keyword::SET)?;
        Some(Update {
            update_token,
            optimizer_hints: Vec::new(),
            table,
            assignments: self.list(Self::assignment)?,
            from: None,
            selection: self.condition()?,
            returning: self.returning()?,
            output: None,
            or: None,
            order_by: Vec::new(),
            limit: None,
        })
    }

    fn delete(&mut self) -> Option<Delete> {
        let delete_token = self.attached(Keyword::DELETE)?;
        self.word(Keyword::FROM)?;
        Some(Delete {
            delete_token,
            optimizer_hints: Vec::new(),
            tables: Vec::new(),
            from: FromTable::WithFromKeyword(vec![self.target()?]),
            using: None,
            selection: self.condition()?,
            returning: self.returning()?,
            output: None,
            order_by: Vec::new(),
            limit: None,
        })
    }
}

fn attached(token: Token, span: Span) -> AttachedToken {
    AttachedToken(TokenWithSpan::new(token, span))
}

/// A query with a body and no more.
fn query(body: SetExpr) -> Query {
    Query {
        with: None,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: Vec::new(),
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: Vec::new(),
    }
}
