//! Searches of a regular expression that can be ended.
//!
//! The crate `regex` looks nowhere whether it is to end, and what its automaton cannot do in little memory it does
//! in time up to the product of the sizes of text and expression: `(a{1,100}){1,100}` over 100,000 characters takes
//! minutes. So where this product may be large, the same automaton is driven here byte by byte.
//!
//! Invariant, checked by `searches_by_steps_find_what_others_find`: both ways find the same.
//! Cost: O(bytes) while the automaton's states are known, up to O(bytes × size) as they are made.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use regex::{CaptureLocations, Regex};
use regex_automata::hybrid::dfa::{Cache, Config, DFA};
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::hir::{Class, Hir, HirKind, Look};

use super::error;
use halcyon_sql::error::{Result, SqlError, SqlState};

/// Products of the sizes of text and expression up to which a search is not looked after.
const STEPS_PLAIN: usize = 20_000_000;

/// Such products up to which the places of parts are looked for within a match that has been found.
const STEPS_MAX: usize = 400_000_000;

/// How large an expression may be that counts its repetitions, in states of the automaton.
const STATES_OF_COUNTED: usize = 400_000;

/// How many states one byte of an expression may be: a class of all letters has that many.
const STATES_OF_BYTE: usize = 500;

/// Bytes between two looks whether the statement is to end.
const BYTES_PER_LOOK: usize = 256;

/// An expression in the notation of the crate `regex`, with its options.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) text: String,
    pub(super) syntax: syntax::Config,
}

/// An expression that can be searched for.
pub(super) struct Expression {
    regex: Regex,
    source: Source,
    /// Whether a match goes on to the text's end: see [`without_rest`].
    takes_rest: bool,
    steps: OnceLock<Option<Steps>>,
}

/// Searches for an expression, one after the other, with room for the places of its parts.
pub(super) struct Search {
    expression: Arc<Expression>,
    places: CaptureLocations,
}

impl Search {
    pub(super) fn new(expression: Arc<Expression>) -> Self {
        let places = expression.regex.capture_locations();
        Search { expression, places }
    }

    /// Whether there is a match from a byte on; the first one is that which [`Self::place`] tells of.
    /// Errors: as [`Expression::is_match`].
    pub(super) fn find(&mut self, text: &str, from: usize) -> Result<bool> {
        self.expression.find(text, from, &mut self.places)
    }

    /// Parts in parentheses, and the whole, which is part 0.
    pub(super) fn parts(&self) -> usize {
        self.places.len()
    }

    /// Where a part of the match in `text` begins and ends; `None` if it takes none in it.
    pub(super) fn place(&self, part: usize, text: &str) -> Option<(usize, usize)> {
        let (begin, end) = self.places.get(part)?;
        let goes_on = part == 0 && self.expression.takes_rest;
        Some((begin, if goes_on { text.len() } else { end }))
    }
}

/// An expression without the `.*`, `.*$` or `.*\z` at its end, if that takes all of the text behind what stands before
/// it; `None` if there is none. So the places of parts are looked for up to there alone.
fn without_rest(source: &Source) -> Option<Source> {
    let parsed = |text: &str| syntax::parse_with(text, &source.syntax).ok();
    let takes_rest = |hir: &Hir| match hir.kind() {
        HirKind::Repetition(times) => {
            let any = match times.sub.kind() {
                HirKind::Class(Class::Unicode(class)) => {
                    matches!(class.ranges(), [all] if (all.start(), all.end()) == ('\0', char::MAX))
                }
                _ => false,
            };
            any && times.greedy && (times.min, times.max) == (0, None)
        }
        _ => false,
    };
    [".*$", r".*\z", ".*"].into_iter().find_map(|rest| {
        let head = source.text.strip_suffix(rest).filter(|head| !head.is_empty())?;
        let (whole, head_alone) = (parsed(&source.text)?, parsed(head)?);
        let HirKind::Concat(parts) = whole.kind() else { return None };
        let parts = match parts.split_last()? {
            (last, before) if *last.kind() == HirKind::Look(Look::End) => before,
            _ => parts,
        };
        let (last, before) = parts.split_last()?;
        let is_so = takes_rest(last) && Hir::concat(before.to_vec()) == head_alone;
        is_so.then(|| Source { text: head.to_owned(), syntax: source.syntax })
    })
}

/// The automata of an expression, made step by step.
struct Steps {
    forward: Automaton,
    /// Finds where a match begins, from its end.
    backward: Automaton,
    states: usize,
}

/// An automaton, and the states of it that are known, which one thread searches with.
struct Automaton {
    automaton: DFA,
    cache: Mutex<Cache>,
}

impl Automaton {
    fn cache(&self) -> MutexGuard<'_, Cache> {
        // A search that panicked leaves a cache that is whole.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a search found a match.
#[derive(Clone, Copy)]
struct Found {
    end: usize,
    /// The byte at which nothing else could be found any more.
    stopped: usize,
}

/// Why the automaton gives no answer: a word boundary beside letters beyond ASCII.
struct NotByBytes;

impl Expression {
    /// Errors: those of `build`, which makes an expression of its text.
    pub(super) fn new(
        source: Source,
        build: impl Fn(&str) -> std::result::Result<Regex, regex::Error>,
    ) -> std::result::Result<Self, regex::Error> {
        let head = without_rest(&source);
        let takes_rest = head.is_some();
        let source = head.unwrap_or(source);
        Ok(Expression { regex: build(&source.text)?, source, takes_rest, steps: OnceLock::new() })
    }

    /// Whether there is a match. Errors: 57014, 53200 if the statement is to end; 54000.
    pub(super) fn is_match(&self, text: &str) -> Result<bool> {
        let Some(steps) = self.steps_for(text.len())? else { return Ok(self.regex.is_match(text)) };
        match forward(&steps.forward, text, 0, true)? {
            Ok(found) => Ok(found.is_some()),
            Err(NotByBytes) => steps.unless_long(text.len()).map(|()| self.regex.is_match(text)),
        }
    }

    /// Whether there is a match from a byte on, and the places of its parts. Errors: as [`Self::is_match`].
    fn find(&self, text: &str, from: usize, places: &mut CaptureLocations) -> Result<bool> {
        let mut plainly = |from| self.regex.captures_read_at(places, text, from).is_some();
        let Some(steps) = self.steps_for(text.len() - from)? else { return Ok(plainly(from)) };
        let Ok(found) = forward(&steps.forward, text, from, false)? else {
            return steps.unless_long(text.len() - from).map(|()| plainly(from));
        };
        let Some(found) = found else { return Ok(false) };
        let begin = match backward(&steps.backward, text, from, found.end)? {
            Ok(begin) => begin,
            Err(NotByBytes) => from,
        };
        steps.unless_long(found.stopped - begin)?;
        Ok(plainly(begin))
    }

    /// The automata, if a search through so many bytes may take long.
    fn steps_for(&self, bytes: usize) -> Result<Option<&Steps>> {
        let at_most = match self.source.text.contains('{') {
            true => STATES_OF_COUNTED,
            false => self.source.text.len().saturating_mul(STATES_OF_BYTE),
        };
        if bytes.saturating_mul(at_most) <= STEPS_PLAIN {
            return Ok(None);
        }
        let steps = match self.steps.get() {
            Some(known) => known,
            None => {
                let made = Steps::new(&self.source)?;
                self.steps.get_or_init(|| made)
            }
        };
        let is_long = |steps: &&Steps| bytes.saturating_mul(steps.states) > STEPS_PLAIN;
        Ok(steps.as_ref().filter(is_long))
    }
}

impl Steps {
    /// `None` for what only the crate `regex` compiles. Errors: 57014, 53200; each of the automata takes as long as
    /// the compilation did.
    fn new(source: &Source) -> Result<Option<Steps>> {
        let automaton = |reverse: bool, kind: MatchKind| {
            let captures = thompson::WhichCaptures::None;
            let config = thompson::Config::new().reverse(reverse).which_captures(captures);
            let mut compiler = thompson::Compiler::new();
            let nfa = compiler.syntax(source.syntax).configure(config).build(&source.text).ok()?;
            let states = nfa.states().len();
            let config = Config::new().match_kind(kind).unicode_word_boundary(true);
            let config = config.skip_cache_capacity_check(true);
            let automaton = DFA::builder().configure(config).build_from_nfa(nfa).ok()?;
            let cache = Mutex::new(automaton.create_cache());
            Some((Automaton { automaton, cache }, states))
        };
        SqlError::unless_interrupted()?;
        let ahead = automaton(false, MatchKind::LeftmostFirst);
        SqlError::unless_interrupted()?;
        let back = automaton(true, MatchKind::All);
        Ok(ahead.zip(back).map(|((forward, states), (backward, _))| Steps {
            forward,
            backward,
            states,
        }))
    }

    /// Errors: 54000 if a search through so many bytes, which nobody could end, would take too long.
    fn unless_long(&self, bytes: usize) -> Result<()> {
        if bytes.saturating_mul(self.states) <= STEPS_MAX {
            return Ok(());
        }
        let message = "regular expression is too complex for a text of this length";
        Err(error(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
    }
}

/// Where the first match from a byte on ends; with `earliest`, where it is known that there is one.
fn forward(
    automaton: &Automaton,
    text: &str,
    from: usize,
    earliest: bool,
) -> Result<std::result::Result<Option<Found>, NotByBytes>> {
    let (mut cache, automaton) = (automaton.cache(), &automaton.automaton);
    let input = Input::new(text).range(from..);
    let Ok(mut state) = automaton.start_state_forward(&mut cache, &input) else {
        return Ok(Err(NotByBytes));
    };
    let mut end = None;
    for (passed, byte) in text.as_bytes()[from..].iter().enumerate() {
        look(passed)?;
        let Ok(next) = automaton.next_state(&mut cache, state, *byte) else {
            return Ok(Err(NotByBytes));
        };
        state = next;
        if !state.is_tagged() {
            continue;
        }
        let at = from + passed;
        if state.is_match() {
            // The automaton tells of a match one byte behind its end.
            end = Some(at);
            if earliest {
                break;
            }
        } else if state.is_dead() {
            return Ok(Ok(end.map(|end| Found { end, stopped: at })));
        } else if state.is_quit() {
            return Ok(Err(NotByBytes));
        }
    }
    if !(earliest && end.is_some()) {
        end = at_end(automaton, &mut cache, state, text.len(), end)?;
    }
    Ok(Ok(end.map(|end| Found { end, stopped: text.len() })))
}

/// Where the longest match that ends at `end` begins.
fn backward(
    automaton: &Automaton,
    text: &str,
    from: usize,
    end: usize,
) -> Result<std::result::Result<usize, NotByBytes>> {
    let (mut cache, automaton) = (automaton.cache(), &automaton.automaton);
    let input = Input::new(text).range(from..end).anchored(Anchored::Yes);
    let Ok(mut state) = automaton.start_state_reverse(&mut cache, &input) else {
        return Ok(Err(NotByBytes));
    };
    let mut begin = None;
    for (passed, byte) in text.as_bytes()[from..end].iter().rev().enumerate() {
        look(passed)?;
        let Ok(next) = automaton.next_state(&mut cache, state, *byte) else {
            return Ok(Err(NotByBytes));
        };
        state = next;
        if !state.is_tagged() {
            continue;
        }
        if state.is_match() {
            begin = Some(end - passed);
        } else if state.is_dead() {
            return Ok(begin.ok_or(NotByBytes));
        } else if state.is_quit() {
            return Ok(Err(NotByBytes));
        }
    }
    // What stands before the place from which the search began decides whether `^` and word boundaries match there.
    let before = from.checked_sub(1).map(|at| text.as_bytes()[at]);
    let last = match before {
        Some(byte) => automaton.next_state(&mut cache, state, byte),
        None => automaton.next_eoi_state(&mut cache, state),
    };
    match last {
        Ok(state) if state.is_match() => Ok(Ok(from)),
        _ => Ok(begin.ok_or(NotByBytes)),
    }
}

/// The end of a match at the text's end, or the one that is known.
fn at_end(
    automaton: &DFA,
    cache: &mut Cache,
    state: regex_automata::hybrid::LazyStateID,
    bytes: usize,
    known: Option<usize>,
) -> Result<Option<usize>> {
    Ok(match automaton.next_eoi_state(cache, state) {
        Ok(state) if state.is_match() => Some(bytes),
        _ => known,
    })
}

/// Errors: 57014, 53200, asked once in [`BYTES_PER_LOOK`] bytes.
fn look(passed: usize) -> Result<()> {
    if passed.is_multiple_of(BYTES_PER_LOOK) { SqlError::unless_interrupted() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use regex::RegexBuilder;

    use super::*;

    #[test]
    fn searches_by_steps_find_what_others_find() {
        let patterns = [
            "a",
            "^a",
            "a$",
            "(a|ab)(c|bcd)*",
            "a{1,3}b?",
            r"\bä",
            r"\w+",
            "(?:a*)*",
            "",
            "x|(y)z",
            "b.*b",
            "[^a]",
        ];
        let texts = ["", "a", "abcd", "xaäöb bä", "aaab\nabc", "yz", "bb b", "ä"];
        for pattern in patterns {
            let source = Source { text: pattern.to_owned(), syntax: syntax::Config::new() };
            let steps = Steps::new(&source).expect("not ended").expect("an automaton");
            let regex = Regex::new(pattern).expect("a pattern");
            for text in texts {
                for from in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                    let meant = regex.captures_at(text, from);
                    let meant = meant.map(|found| found.get(0).expect("the whole").range());
                    let Ok(found) = forward(&steps.forward, text, from, false).expect("not ended")
                    else {
                        assert!(pattern.contains(r"\b"), "{pattern} {text}");
                        continue;
                    };
                    assert_eq!(
                        found.map(|found| found.end),
                        meant.as_ref().map(|m| m.end),
                        "{pattern} {text} {from}"
                    );
                    let Some((found, meant)) = found.zip(meant) else { continue };
                    if let Ok(begin) =
                        backward(&steps.backward, text, from, found.end).expect("not ended")
                    {
                        assert_eq!(begin, meant.start, "{pattern} {text} {from}");
                    }
                    assert!(found.stopped >= found.end);
                }
            }
        }
    }

    #[test]
    fn what_takes_the_rest_of_a_text_is_not_searched() {
        let syntax = syntax::Config::new().dot_matches_new_line(true);
        let mut without = 0;
        for head in
            ["a", "^(a|ab)(c)?", "x*", "(?:w\\.)?([^/]+)/", "a|b", "\\", "(", "[", "(?-s:.)"]
        {
            for rest in [".*$", r".*\z", ".*", ".*?$", ".+$", "$", "b.*"] {
                let text = format!("{head}{rest}");
                let build = |text: &str| RegexBuilder::new(text).dot_matches_new_line(true).build();
                let Ok(plain) = build(&text) else { continue };
                let source = Source { text: text.clone(), syntax };
                let expression = Arc::new(Expression::new(source, build).expect("built"));
                without += usize::from(expression.takes_rest);
                let mut search = Search::new(expression);
                for text in ["", "a", "abc\nd", "w.x.de/a/b", "xxab", "b.a"] {
                    for from in 0..=text.len() {
                        let expected = plain.captures_at(text, from);
                        assert_eq!(search.find(text, from).expect("searched"), expected.is_some());
                        let Some(expected) = expected else { continue };
                        assert_eq!(search.parts(), expected.len());
                        for part in 0..expected.len() {
                            let place = expected.get(part).map(|part| (part.start(), part.end()));
                            assert_eq!(search.place(part, text), place, "{plain} {text} {from}");
                        }
                    }
                }
            }
        }
        assert_eq!(without, 5 * 4 + 1);
    }

    #[test]
    fn a_search_ends_when_it_is_to() {
        let expression = |text: &str| {
            let source = Source { text: text.to_owned(), syntax: syntax::Config::new() };
            Expression::new(source, Regex::new).expect("a pattern")
        };
        let hard = expression("(a{1,60}){1,60}b");
        let text = "a".repeat(100_000);
        let ended = halcyon_base::interrupt::watching(|| true, || hard.is_match(&text));
        assert_eq!(ended.expect_err("ended").state(), SqlState::QUERY_CANCELED);
        assert!(expression("a{3}").is_match(&text).expect("found"));
    }
}
