//! Parses fault expressions (grammar in `fault`). Pure; an error says where, what was expected and what was found.

use super::fault::{ERRNOS, Effect, Errno, Fault, NamePattern, Part, is_bare};
use super::operation::Operation;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Why a text is not a fault expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultSyntaxError {
    text: String,
    /// Bytes before the error.
    at: usize,
    expected: String,
}

impl fmt::Display for FaultSyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = self.text[self.at..].split_whitespace().next().unwrap_or("the end");
        let column = self.text[..self.at].chars().count() + 1;
        write!(f, "fault expression {:?}, column {column}: expected {}, found {rest}", self.text, self.expected)
    }
}

impl std::error::Error for FaultSyntaxError {}

type Result<T> = std::result::Result<T, FaultSyntaxError>;

/// Parses any number of faults.
pub fn parse_faults(text: &str) -> Result<Vec<Fault>> {
    let mut parser = Parser { text, at: 0 };
    let mut faults = Vec::new();
    loop {
        while parser.take(";") {}
        if parser.rest().is_empty() {
            return Ok(faults);
        }
        faults.push(parser.fault()?);
        // The end of a line also separates faults, and is skipped as white space; so what must not follow is named
        // here.
        if !parser.rest().is_empty() && !parser.rest().starts_with([';', '(']) {
            return Err(parser.expected("\";\", another fault or the end"));
        }
    }
}

impl FromStr for Fault {
    type Err = FaultSyntaxError;

    fn from_str(text: &str) -> Result<Self> {
        let mut parser = Parser { text, at: 0 };
        let fault = parser.fault()?;
        if parser.rest().is_empty() { Ok(fault) } else { Err(parser.expected("the end")) }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    /// The rest, without leading white space.
    fn rest(&mut self) -> &'a str {
        let rest = self.text[self.at..].trim_start();
        self.at = self.text.len() - rest.len();
        rest
    }

    fn take(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn require(&mut self, token: &str) -> Result<()> {
        if self.take(token) { Ok(()) } else { Err(self.expected(&format!("{token:?}"))) }
    }

    fn expected(&mut self, what: &str) -> FaultSyntaxError {
        self.rest();
        self.expected_at(self.at, what)
    }

    fn expected_at(&self, at: usize, what: &str) -> FaultSyntaxError {
        FaultSyntaxError { text: self.text.to_owned(), at, expected: what.to_owned() }
    }

    /// The next bare word, which may be empty, and where it began.
    fn word(&mut self) -> (usize, &'a str) {
        let rest = self.rest();
        let start = self.at;
        let word = &rest[..rest.find(|letter| !is_bare(letter)).unwrap_or(rest.len())];
        self.at += word.len();
        (start, word)
    }

    fn fault(&mut self) -> Result<Fault> {
        self.require("(")?;
        let start = self.at;
        let operations = self.operations()?;
        let mut fault = Fault {
            operations,
            name: NamePattern::Any,
            from: 1,
            through: None,
            per_million: 1_000_000,
            effect: Effect::Crash,
        };
        while !self.take(")") {
            self.selector(&mut fault)?;
        }
        self.require("->")?;
        fault.effect = self.effect()?;
        match fault.operations.iter().find(|operation| !fault.effect.applies_to(**operation)) {
            None => Ok(fault),
            Some(operation) => {
                let what = format!("operations that \"{}\" applies to, not {operation}", fault.effect);
                Err(self.expected_at(start, &what))
            }
        }
    }

    fn operations(&mut self) -> Result<Vec<Operation>> {
        let mut operations = Vec::new();
        loop {
            let (start, word) = self.word();
            if word == "any" && operations.is_empty() {
                return Ok(operations);
            }
            let Some(operation) = Operation::ALL.into_iter().find(|operation| operation.word() == word) else {
                let words: Vec<&str> = Operation::ALL.iter().map(|operation| operation.word()).collect();
                return Err(self.expected_at(start, &format!("any or one of {}", words.join(" "))));
            };
            operations.push(operation);
            if !self.take(",") {
                return Ok(operations);
            }
        }
    }

    fn selector(&mut self, fault: &mut Fault) -> Result<()> {
        if self.take("name=") {
            fault.name = NamePattern::Is(self.name()?);
        } else if self.take("name~") {
            fault.name = NamePattern::Contains(self.name()?);
        } else if self.take("nth=") {
            let start = self.at;
            fault.from = self.number()?;
            fault.through = if !self.take("..") {
                Some(fault.from)
            } else if self.rest().starts_with(|letter: char| letter.is_ascii_digit()) {
                Some(self.number()?)
            } else {
                None
            };
            if fault.from == 0 || fault.through.is_some_and(|through| through < fault.from) {
                return Err(self.expected_at(start, "ascending numbers from 1"));
            }
        } else if self.take("p=") {
            let (start, word) = self.word();
            let fraction = word.parse().ok().filter(|fraction| (0.0..=1.0).contains(fraction));
            let fraction: f64 = fraction.ok_or_else(|| self.expected_at(start, "a fraction from 0 to 1"))?;
            fault.per_million = (fraction * 1e6).round() as u32;
        } else {
            return Err(self.expected("name=, name~, nth=, p= or \")\""));
        }
        Ok(())
    }

    fn name(&mut self) -> Result<String> {
        if self.take("\"") {
            let rest = &self.text[self.at..];
            let end = rest.find('"').ok_or_else(|| self.expected_at(self.at, "a name and \"\\\"\""))?;
            self.at += end + 1;
            return Ok(rest[..end].to_owned());
        }
        match self.word() {
            (start, "") => Err(self.expected_at(start, "a name, bare or in quotes")),
            (_, word) => Ok(word.to_owned()),
        }
    }

    fn number(&mut self) -> Result<u64> {
        let rest = self.rest();
        let digits = &rest[..rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len())];
        let number = digits.parse().map_err(|_| self.expected("a number"))?;
        self.at += digits.len();
        Ok(number)
    }

    fn effect(&mut self) -> Result<Effect> {
        if self.take("slow=") {
            return self.duration().map(Effect::Slow);
        }
        let (start, word) = self.word();
        Ok(match word {
            "crash" => Effect::Crash,
            "flip" => Effect::Flip,
            "rot" => Effect::Rot,
            "misdirect" => Effect::Misdirect,
            "stale" => Effect::Stale,
            "write-back" => Effect::WriteBack,
            "evict" => Effect::Evict,
            _ => {
                let Some((_, number)) = ERRNOS.iter().find(|(known, _)| *known == word) else {
                    let errors: Vec<&str> = ERRNOS.iter().map(|(word, _)| *word).collect();
                    let others = "crash flip rot misdirect stale write-back evict slow=";
                    return Err(self.expected_at(start, &format!("one of {others} {}", errors.join(" "))));
                };
                Effect::Fail(Errno(*number), self.part()?)
            }
        })
    }

    fn part(&mut self) -> Result<Option<Part>> {
        if !self.take("part=") {
            return Ok(None);
        }
        match self.word() {
            (_, "none") => Ok(Some(Part::None)),
            (_, "some") => Ok(Some(Part::Some)),
            (_, "all") => Ok(Some(Part::All)),
            (start, _) => Err(self.expected_at(start, "none, some or all")),
        }
    }

    fn duration(&mut self) -> Result<Duration> {
        let start = self.at;
        let number = self.number()?;
        let (_, unit) = self.word();
        let micros = match unit {
            "us" => 1,
            "ms" => 1000,
            "s" => 1_000_000,
            _ => return Err(self.expected_at(start, "a time such as 500us, 20ms or 3s")),
        };
        Ok(Duration::from_micros(number.saturating_mul(micros)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_read_back_as_they_print() {
        for text in [
            "(any) -> crash",
            "(any nth=17..) -> enospc",
            "(sync name=MANIFEST nth=2) -> eio",
            "(sync,map-sync name~.log nth=2..5 p=0.25) -> eio part=all",
            "(read,write name~.branch p=0.01) -> misdirect",
            "(rename name=\"a b\") -> eacces part=some",
            "(write nth=1) -> edquot part=none",
            "(any p=0.000001) -> write-back",
            "(sync-directory) -> slow=20ms",
            "(any) -> slow=3s",
            "(any) -> slow=7us",
            "(read name=\"\") -> flip",
            "(any) -> rot",
            "(any) -> evict",
            "(sync) -> stale",
        ] {
            let fault: Fault = text.parse().unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(fault.to_string(), text);
            assert_eq!(fault.to_string().parse(), Ok(fault));
        }
        for operation in Operation::ALL {
            for (error, _) in ERRNOS {
                let text = format!("({operation} nth=3) -> {error}");
                assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
            }
        }
        let many = parse_faults(" ( any p=0.5 )->slow=1000us ;\n(read)  -> eio\n(write) -> eio;").unwrap();
        let printed: Vec<String> = many.iter().map(ToString::to_string).collect();
        assert_eq!(printed, ["(any p=0.5) -> slow=1ms", "(read) -> eio", "(write) -> eio"]);
        assert_eq!(parse_faults("  "), Ok(Vec::new()));
    }

    #[test]
    fn errors_say_where_and_what_was_expected() {
        for (text, error) in [
            ("", "column 1: expected \"(\", found the end"),
            ("(snc) -> eio", "column 2: expected any or one of create-directory"),
            ("(any", "column 5: expected name=, name~, nth=, p= or \")\", found the end"),
            ("(any nth=0) -> eio", "column 10: expected ascending numbers from 1, found 0)"),
            ("(any nth=3..2) -> eio", "column 10: expected ascending numbers from 1"),
            ("(any nth=x) -> eio", "column 10: expected a number, found x)"),
            ("(any p=1.5) -> eio", "column 8: expected a fraction from 0 to 1"),
            ("(any name=) -> eio", "column 11: expected a name, bare or in quotes"),
            ("(any name=\"x) -> eio", "column 12: expected a name"),
            ("(any) eio", "column 7: expected \"->\", found eio"),
            ("(any) -> eoi", "column 10: expected one of crash flip"),
            ("(any) -> eio part=half", "column 19: expected none, some or all, found half"),
            ("(any) -> slow=5", "column 15: expected a time such as"),
            ("(any) -> slow=5h", "column 15: expected a time such as"),
            ("(any) -> crash please", "column 16: expected the end, found please"),
            ("(rename) -> flip", "column 2: expected operations that \"flip\" applies to, not rename"),
        ] {
            let found = text.parse::<Fault>().expect_err(text).to_string();
            assert!(found.contains(error), "{found}\nlacks {error}");
        }
        assert!(parse_faults("(any) -> crash crash").unwrap_err().to_string().contains("another fault or the end"));
    }
}
