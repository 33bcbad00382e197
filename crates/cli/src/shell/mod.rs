//! The shell: statements and backslash commands in, results out.
//!
//! One core ([`Shell`]) runs text from a terminal, a file, `-c`, or a pipe, against anything that
//! is a [`Backend`]. Only `interactive` knows the line editor.

mod backend;
mod complete;
mod copy;
mod describe;
mod embedded;
mod interrupt;
mod meta;
mod print;
mod progress;
mod remote;
mod scan;

use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use halcyon::Workers;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};

pub use backend::Backend;
use backend::{BlockState, Collected, Done, Error, Result, Sink};
use complete::{Assistant, SharedNames};
use copy::{Copy, CopyPlace};
pub use embedded::Embedded;
use interrupt::Interrupt;
use meta::{Expanded, Meta};
pub use print::Format;
use print::{Column, Printer, Style};
use remote::Remote;
use scan::Scan;

/// Options of `halcyon shell`.
#[derive(Args, Debug, Clone, Default)]
pub struct Options {
    /// Open the database in DIR
    #[arg(long, value_name = "DIR", conflicts_with = "connect")]
    pub data: Option<PathBuf>,
    #[command(flatten)]
    pub tuning: crate::data::Tuning,
    /// Connect to a server, as postgresql://user@127.0.0.1:5433/halcyon
    #[arg(long, value_name = "URL")]
    pub connect: Option<String>,
    /// Run these statements or backslash commands, then leave
    #[arg(short = 'c', long = "command", value_name = "SQL")]
    pub commands: Vec<String>,
    /// Run the statements of FILE, then leave (after those of -c); - is standard input
    #[arg(short = 'f', long, value_name = "FILE")]
    pub file: Option<String>,
    /// How results are printed
    #[arg(long, value_enum, default_value_t)]
    pub format: Format,
    /// Go on after an error in -c, -f or standard input
    #[arg(long)]
    pub keep_going: bool,
    /// Show no progress of long statements on the terminal
    #[arg(long)]
    pub no_progress: bool,
}

/// Runs the shell as `options` say.
pub fn run(options: &Options) -> ExitCode {
    let shows_progress = !options.no_progress && io::stderr().is_terminal();
    let backend: Box<dyn Backend> = match (&options.connect, &options.data) {
        (None, folder) => {
            match crate::data::open(folder.as_deref(), &options.tuning, Workers::default(), None) {
                Ok(database) => Box::new(Embedded::new(&database)),
                Err(code) => return code,
            }
        }
        (Some(url), _) => match Remote::connect(url, shows_progress) {
            Ok(remote) => Box::new(remote),
            Err(error) => {
                eprint!("{}", error.show(""));
                return ExitCode::from(2);
            }
        },
    };
    let interrupt = match Interrupt::listen() {
        Ok(interrupt) => interrupt,
        Err(error) => {
            eprintln!("error: Ctrl-C cannot be heard: {error}");
            return ExitCode::FAILURE;
        }
    };
    let out = Box::new(BufWriter::new(io::stdout()));
    let mut shell = Shell::new(backend, options.connect.is_none(), options.format, out);
    shell.interrupt = interrupt;
    shell.keep_going = options.keep_going;
    shell.shows_progress = shows_progress;
    match shell.all(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Quit) => ExitCode::SUCCESS,
        Err(Stop::Failed) => ExitCode::FAILURE,
    }
}

/// Why a script stops.
#[derive(Debug, PartialEq, Eq)]
pub enum Stop {
    /// `\q`, or the reader of the output is gone.
    Quit,
    /// A statement failed; it has been reported.
    Failed,
}

/// Files may include files; a file that includes itself must end.
const INCLUDE_DEPTH_MAX: u32 = 16;

/// The shell: a session with the user's choices.
pub struct Shell {
    backend: Box<dyn Backend>,
    /// Whether the database is in this process, so that it reads the same files as the shell.
    local: bool,
    style: Style,
    timing: bool,
    /// Whether a user sits at a terminal: then errors do not end the input.
    interactive: bool,
    /// Whether long statements show how far they are, on the terminal that stderr is.
    shows_progress: bool,
    /// Whether statements after a failed one are run all the same.
    keep_going: bool,
    out: Box<dyn Write>,
    err: Box<dyn Write>,
    interrupt: Interrupt,
    names: SharedNames,
    include_depth: u32,
    /// Columns of the terminal, as last known.
    terminal_width: usize,
}

impl Shell {
    /// A shell that prints to `out`, and errors to stderr.
    pub fn new(
        backend: Box<dyn Backend>,
        local: bool,
        format: Format,
        out: Box<dyn Write>,
    ) -> Self {
        Shell {
            backend,
            local,
            style: Style { format, ..Style::default() },
            timing: false,
            interactive: false,
            shows_progress: false,
            keep_going: false,
            out,
            err: Box::new(io::stderr()),
            interrupt: Interrupt::default(),
            names: SharedNames::default(),
            include_depth: 0,
            terminal_width: 80,
        }
    }

    /// Runs `-c`, then `-f`; if neither is given, the terminal or standard input.
    fn all(&mut self, options: &Options) -> Result<(), Stop> {
        for command in &options.commands {
            self.script(command, None)?;
        }
        match options.file.as_deref() {
            Some("-") => self.standard_input(),
            Some(path) => self.include(path),
            None if !options.commands.is_empty() => Ok(()),
            None if io::stdin().is_terminal() => self.terminal(),
            None => self.standard_input(),
        }
    }

    fn standard_input(&mut self) -> Result<(), Stop> {
        let mut text = String::new();
        if let Err(error) = io::stdin().read_to_string(&mut text) {
            return self.report(&Error::Io(error), "");
        }
        self.script(&text, Some("standard input"))
    }

    fn include(&mut self, path: &str) -> Result<(), Stop> {
        if self.include_depth >= INCLUDE_DEPTH_MAX {
            return self.complain(&format!("{path}: files are nested too deep"));
        }
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => return self.complain(&progress::named(path, &error).to_string()),
        };
        self.include_depth += 1;
        let done = self.script(&text, Some(path));
        self.include_depth -= 1;
        done
    }

    /// Runs statements and backslash lines in turn. `source` names a file, which then contains the
    /// data of its COPYs; without a file these data come from standard input. Stops at the first
    /// error, unless a user is at the terminal.
    pub fn script(&mut self, text: &str, source: Option<&str>) -> Result<(), Stop> {
        let mut rest = text;
        loop {
            rest = rest.trim_start();
            if rest.is_empty() {
                return self.flush();
            }
            if rest.starts_with('\\') {
                let end = rest.find('\n').unwrap_or(rest.len());
                self.meta_line(&rest[..end])?;
                rest = &rest[end..];
                continue;
            }
            let end = match scan::scan(rest) {
                Scan::Complete(end) => end,
                Scan::Incomplete(_) => rest.len(),
            };
            let statement = &rest[..end];
            rest = &rest[end..];
            if source.is_some() && copy::is_from_stdin(statement) {
                let (data, after) = inline_data(rest);
                rest = after;
                self.timed(statement, |shell| shell.copy_in(statement, &mut data.as_bytes()))?;
            } else {
                self.statement(statement)?;
            }
        }
    }

    /// Runs one statement and prints its results.
    fn statement(&mut self, piece: &str) -> Result<(), Stop> {
        // Positions count from the statement's own start.
        let Some((_, text)) = scan::statements(piece).first().copied() else { return Ok(()) };
        if let Some(copy) = copy::from_file(text).filter(|_| self.local) {
            return self.timed(text, |shell| shell.copy(&copy));
        }
        if copy::is_to_stdout(text) {
            return self.timed(text, |shell| shell.copy_out(text));
        }
        if copy::is_from_stdin(text) {
            return self.timed(text, |shell| shell.copy_in(text, &mut io::stdin().lock()));
        }
        let done = self.timed(text, |shell| shell.run(text));
        let defines = ["CREATE", "ALTER", "DROP", "ROLLBACK"];
        if self.interactive && defines.iter().any(|word| starts_with_word(text, word)) {
            self.learn_names();
        }
        done
    }

    fn run(&mut self, text: &str) -> Result<Option<String>> {
        let _running = self.interrupt.running(self.backend.canceller());
        let _watch = self.watch();
        let mut screen = Screen { out: &mut *self.out, style: &self.style, printer: None };
        let done = self.backend.run(text, &mut screen);
        // Rows before an error are printed, too, as far as the format allows.
        let printed = screen.end();
        let Done { tag, had_rows } = done?;
        printed?;
        Ok((!had_rows).then_some(tag))
    }

    /// Shows how far the statement is that is about to run, until the guard is dropped.
    fn watch(&self) -> progress::Watch {
        let onlooker = self.shows_progress.then(|| self.backend.onlooker());
        progress::Watch::start(onlooker.flatten())
    }

    fn copy_in(&mut self, text: &str, data: &mut dyn Read) -> Result<Option<String>> {
        let _running = self.interrupt.running(self.backend.canceller());
        let rows = self.backend.copy_in(text, data)?;
        Ok(Some(format!("COPY {rows}")))
    }

    /// Runs a statement whose answer is the data of a COPY, which are printed as they come.
    fn copy_out(&mut self, text: &str) -> Result<Option<String>> {
        let _running = self.interrupt.running(self.backend.canceller());
        match copy::is_subscription(text) {
            // Its reader waits for every row, not for the end, which may never come.
            true => self.backend.copy_out(text, &mut copy::Prompt(&mut *self.out))?,
            false => self.backend.copy_out(text, &mut self.out)?,
        };
        Ok(None)
    }

    fn copy(&mut self, copy: &Copy) -> Result<Option<String>> {
        let statement = copy.statement.as_str();
        match (&copy.place, copy.into) {
            (CopyPlace::File(path), true) => {
                let mut file = progress::ReadWithBar::open(path, self.shows_progress)?;
                self.copy_in(statement, &mut file)
            }
            (CopyPlace::Standard, true) => self.copy_in(statement, &mut io::stdin().lock()),
            (place, false) => {
                let _running = self.interrupt.running(self.backend.canceller());
                let rows = match place {
                    CopyPlace::Standard => self.backend.copy_out(statement, &mut self.out)?,
                    CopyPlace::File(path) => {
                        let _watch = self.watch();
                        let file = File::create(path).map_err(|e| progress::named(path, &e))?;
                        let mut file = BufWriter::new(file);
                        let rows = self.backend.copy_out(statement, &mut file)?;
                        file.flush()?;
                        rows
                    }
                };
                Ok(Some(rows.map_or_else(|| "COPY".into(), |rows| format!("COPY {rows}"))))
            }
        }
    }

    /// Runs `work`, prints notices, tag, time or error.
    fn timed(
        &mut self,
        text: &str,
        work: impl FnOnce(&mut Self) -> Result<Option<String>>,
    ) -> Result<(), Stop> {
        let start = Instant::now();
        let done = work(self);
        let took = start.elapsed();
        for notice in self.backend.take_notices() {
            self.print_err(&notice.show(text));
        }
        let for_people = self.style.format == Format::Table;
        let outcome = match done {
            Ok(tag) => match tag.filter(|_| for_people) {
                Some(tag) => self.print(&format!("{tag}\n")),
                None => Ok(()),
            },
            Err(error) => self.report(&error, text),
        };
        if self.timing {
            let line = format!("Time: {:.3} ms\n", took.as_secs_f64() * 1000.0);
            if for_people { self.print(&line)? } else { self.print_err(&line) }
        }
        outcome?;
        self.flush()
    }

    fn report(&mut self, error: &Error, text: &str) -> Result<(), Stop> {
        if error.is_broken_pipe() {
            return Err(Stop::Quit);
        }
        self.flush()?;
        self.print_err(&error.show(text));
        if self.backend.state() == BlockState::Gone || !(self.interactive || self.keep_going) {
            return Err(Stop::Failed);
        }
        Ok(())
    }

    fn complain(&mut self, message: &str) -> Result<(), Stop> {
        self.flush()?;
        self.print_err(&format!("error: {message}\n"));
        if self.interactive || self.keep_going { Ok(()) } else { Err(Stop::Failed) }
    }

    fn print(&mut self, text: &str) -> Result<(), Stop> {
        self.out.write_all(text.as_bytes()).map_err(|_| Stop::Quit)
    }

    fn print_err(&mut self, text: &str) {
        // If stderr is closed there is no way left to report an error.
        let _ = self.err.write_all(text.as_bytes());
    }

    fn flush(&mut self) -> Result<(), Stop> {
        self.out.flush().map_err(|_| Stop::Quit)
    }

    fn meta_line(&mut self, line: &str) -> Result<(), Stop> {
        match meta::parse(line) {
            Ok(meta) => self.meta(meta),
            Err(message) => self.complain(&message),
        }
    }

    fn meta(&mut self, meta: Meta) -> Result<(), Stop> {
        match meta {
            Meta::Quit => {
                self.flush()?;
                Err(Stop::Quit)
            }
            Meta::Help => self.print(&describe::help()),
            Meta::SqlHelp(word) => self.print(&describe::sql_help(&word)),
            Meta::Describe(name) => self.describe(&name),
            Meta::List { kinds, pattern } => self.statement(&meta::list_query(kinds, &pattern)),
            Meta::Schemas => self.statement(meta::SCHEMAS),
            Meta::Roles => self.statement(meta::ROLES),
            Meta::Databases => self.statement(meta::DATABASES),
            Meta::Timing(on) => {
                self.timing = on.unwrap_or(!self.timing);
                let state = if self.timing { "on" } else { "off" };
                self.print(&format!("Timing is {state}.\n"))
            }
            Meta::Expanded(choice) => self.set_expanded(choice),
            Meta::Format(name) => self.set_format(&name),
            Meta::Null(text) => {
                self.style.null = text;
                Ok(())
            }
            Meta::Include(path) => self.include(&path),
            Meta::Copy(rest) => match copy::client_side(&rest) {
                Ok(copy) => self.timed(&copy.statement.clone(), |shell| shell.copy(&copy)),
                Err(message) => self.complain(&message),
            },
            Meta::Echo(text) => self.print(&format!("{text}\n")),
            Meta::Connection => {
                let place = if self.local { "in this process" } else { "over the wire" };
                let name = self.backend.database();
                self.print(&format!("Database \"{name}\", {place}.\n"))
            }
        }
    }

    fn set_expanded(&mut self, choice: Option<Expanded>) -> Result<(), Stop> {
        let toggled = if self.style.expanded { Expanded::Off } else { Expanded::On };
        let choice = choice.unwrap_or(toggled);
        self.style.expanded = choice == Expanded::On;
        self.style.width = (choice == Expanded::Auto).then_some(self.terminal_width);
        self.print(match choice {
            Expanded::On => "Expanded display is on.\n",
            Expanded::Off => "Expanded display is off.\n",
            Expanded::Auto => "Expanded display is used where a table would be too wide.\n",
        })
    }

    fn set_format(&mut self, name: &str) -> Result<(), Stop> {
        use clap::ValueEnum;
        match Format::from_str(name, true) {
            Ok(format) => {
                self.style.format = format;
                Ok(())
            }
            Err(_) => self.complain("\\format: table, csv or json"),
        }
    }

    /// The rows of a query of the shell's own, which are not printed.
    fn ask(&mut self, text: &str) -> Result<Vec<Vec<Option<String>>>> {
        let mut rows = Collected::default();
        self.backend.run(text, &mut rows)?;
        Ok(rows.0)
    }

    /// Reads the names that completion offers; not within a transaction.
    fn learn_names(&mut self) {
        if self.backend.state() != BlockState::Idle {
            return;
        }
        if let Ok(names) = describe::names(|text| self.ask(text)) {
            *self.names.lock().expect("nobody panics with it") = names;
        }
    }

    /// Lines from the terminal until the user leaves.
    fn terminal(&mut self) -> Result<(), Stop> {
        self.interactive = true;
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .history_ignore_space(true)
            .auto_add_history(false)
            .build();
        let mut editor = match Editor::<Assistant, DefaultHistory>::with_config(config) {
            Ok(editor) => editor,
            Err(error) => return self.complain(&format!("no line editing: {error}")),
        };
        editor.set_helper(Some(Assistant::new(self.names.clone())));
        let history = history_file();
        if let Some(history) = &history {
            // At the first start there is no history.
            let _ = editor.load_history(history);
        }
        self.print("Halcyon ")?;
        self.print(concat!(env!("CARGO_PKG_VERSION"), ". \\? for help, \\q to leave.\n"))?;
        self.flush()?;
        self.learn_names();
        let left = self.lines(&mut editor);
        if let Some(history) = &history {
            let _ = editor.save_history(history);
        }
        left
    }

    fn lines(&mut self, editor: &mut Editor<Assistant, DefaultHistory>) -> Result<(), Stop> {
        let mut interrupted = false;
        self.interrupt.at_terminal();
        loop {
            self.measure(editor);
            match editor.readline(&self.prompt()) {
                Ok(input) => {
                    interrupted = false;
                    if !input.trim().is_empty() {
                        // A history that cannot be written is no reason to refuse the statement.
                        let _ = editor.add_history_entry(input.as_str());
                    }
                    self.input(&input, editor)?;
                }
                Err(ReadlineError::Interrupted) if interrupted => return Err(Stop::Quit),
                Err(ReadlineError::Interrupted) => {
                    interrupted = true;
                    self.print("Ctrl-C once more, or Ctrl-D, leaves.\n")?;
                    self.flush()?;
                }
                Err(ReadlineError::Eof) => return Err(Stop::Quit),
                Err(error) => return self.complain(&format!("the terminal: {error}")),
            }
        }
    }

    fn measure(&mut self, editor: &mut Editor<Assistant, DefaultHistory>) {
        if let Some((columns, _)) = editor.dimensions() {
            self.terminal_width = usize::from(columns);
            if self.style.width.is_some() {
                self.style.width = Some(self.terminal_width);
            }
        }
    }

    /// Runs what was entered; data of a COPY are read line by line until `\.`.
    fn input(
        &mut self,
        input: &str,
        editor: &mut Editor<Assistant, DefaultHistory>,
    ) -> Result<(), Stop> {
        if !copy::is_from_stdin(input) {
            return self.script(input, None);
        }
        self.print("Data, a line per row; \\. on a line of its own ends it.\n")?;
        self.flush()?;
        // Data are lines, not statements: Enter ends each.
        editor.set_helper(None);
        let mut data = String::new();
        while let Ok(line) = editor.readline(">> ") {
            if line == "\\." {
                break;
            }
            data.push_str(&line);
            data.push('\n');
        }
        editor.set_helper(Some(Assistant::new(self.names.clone())));
        self.timed(input, |shell| shell.copy_in(input, &mut data.as_bytes()))
    }

    /// The prompt, with psql's marks: `=>`, `*` in a transaction, `!` in a failed one.
    fn prompt(&self) -> String {
        let mark = match self.backend.state() {
            BlockState::Idle => "=> ",
            BlockState::InTransaction => "=*> ",
            BlockState::Failed => "=!> ",
            BlockState::Gone => "?> ",
        };
        format!("{}{mark}", self.backend.database())
    }
}

/// Prints a statement's results as they come.
struct Screen<'a> {
    out: &'a mut dyn Write,
    style: &'a Style,
    printer: Option<Printer>,
}

impl Screen<'_> {
    fn end(mut self) -> io::Result<()> {
        match self.printer.take() {
            Some(printer) => printer.end(self.out, self.style).map(drop),
            None => Ok(()),
        }
    }
}

impl Sink for Screen<'_> {
    fn columns(&mut self, columns: Vec<Column>) -> io::Result<()> {
        if let Some(printer) = self.printer.take() {
            printer.end(self.out, self.style)?;
        }
        self.printer = Some(Printer::new(self.out, self.style, columns)?);
        Ok(())
    }

    fn row(&mut self, row: Vec<Option<String>>) -> io::Result<()> {
        let printer = self.printer.as_mut().expect("columns come before rows");
        printer.row(self.out, self.style, row)
    }
}

/// The lines behind a COPY in a script up to `\.`, and the text behind them.
fn inline_data(rest: &str) -> (&str, &str) {
    let data = rest.find('\n').map_or("", |newline| &rest[newline + 1..]);
    let mut at = 0;
    for line in data.split_inclusive('\n') {
        if line.trim_end_matches(['\r', '\n']) == "\\." {
            return (&data[..at], &data[at + line.len()..]);
        }
        at += line.len();
    }
    (data, "")
}

fn starts_with_word(text: &str, word: &str) -> bool {
    text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
}

/// `HALCYON_HISTORY`, or `.halcyon_history` in the home folder.
fn history_file() -> Option<PathBuf> {
    match std::env::var_os("HALCYON_HISTORY") {
        Some(path) if path.is_empty() => None,
        Some(path) => Some(path.into()),
        None => std::env::home_dir().map(|home| home.join(".halcyon_history")),
    }
}
