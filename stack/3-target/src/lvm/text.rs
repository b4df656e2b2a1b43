//! The syntax of LVM's metadata text: `name = value` and `name { … }`, nested. Values are numbers,
//! strings, and lists of them; `#` begins a comment.

use std::collections::HashMap;

/// Deepest nesting of sections that is parsed; LVM's own text has four.
const DEPTH_MAX: usize = 16;

/// A value in the text.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number. Fractions are dropped; LVM writes none in the fields that are used.
    Number(u64),
    /// A string, unescaped.
    Text(String),
    /// A list.
    List(Vec<Value>),
    /// A section.
    Section(Section),
}

/// A section: its values by name. Sections keep their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Section {
    values: HashMap<String, Value>,
    order: Vec<String>,
}

impl Section {
    /// Returns the number of that name.
    pub fn number(&self, name: &str) -> Option<u64> {
        if let Value::Number(n) = self.values.get(name)? { Some(*n) } else { None }
    }

    /// Returns the string of that name.
    pub fn text(&self, name: &str) -> Option<&str> {
        if let Value::Text(text) = self.values.get(name)? { Some(text) } else { None }
    }

    /// Returns the list of that name.
    pub fn list(&self, name: &str) -> Option<&[Value]> {
        if let Value::List(list) = self.values.get(name)? { Some(list) } else { None }
    }

    /// Returns the section of that name.
    pub fn section(&self, name: &str) -> Option<&Section> {
        if let Value::Section(section) = self.values.get(name)? { Some(section) } else { None }
    }

    /// Returns all nested sections, in order.
    pub fn sections(&self) -> impl Iterator<Item = (&str, &Section)> {
        self.order.iter().filter_map(|name| Some((name.as_str(), self.section(name)?)))
    }

    fn insert(&mut self, name: String, value: Value) {
        if self.values.insert(name.clone(), value).is_none() {
            self.order.push(name);
        }
    }
}

/// Parses a whole text. Returns `None` if its syntax is invalid.
pub fn parse(text: &str) -> Option<Section> {
    let mut parser = Parser { rest: text };
    let section = parser.section(0)?;
    parser.rest.is_empty().then_some(section)
}

/// The text not parsed yet. Every step consumes at least one byte, so parsing terminates.
struct Parser<'a> {
    rest: &'a str,
}

impl<'a> Parser<'a> {
    fn skip_blank(&mut self) {
        loop {
            self.rest = self.rest.trim_start();
            let Some(comment) = self.rest.strip_prefix('#') else { return };
            self.rest = comment.find('\n').map_or("", |end| &comment[end..]);
        }
    }

    /// Consumes `token` if it comes next.
    fn eat(&mut self, token: char) -> bool {
        self.skip_blank();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Consumes the characters of a name or a number.
    fn word(&mut self) -> Option<&'a str> {
        self.skip_blank();
        let is_word = |c: char| c.is_ascii_alphanumeric() || "+_.-".contains(c);
        let end = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    /// Parses the values up to the section's closing brace, or to the end of the text for the
    /// outermost section.
    fn section(&mut self, depth: usize) -> Option<Section> {
        let mut section = Section::default();
        loop {
            self.skip_blank();
            if self.rest.is_empty() {
                return (depth == 0).then_some(section);
            }
            if depth > 0 && self.eat('}') {
                return Some(section);
            }
            let name = self.word()?.to_owned();
            let value = if self.eat('{') {
                (depth < DEPTH_MAX).then_some(())?;
                Value::Section(self.section(depth + 1)?)
            } else {
                self.eat('=').then_some(())?;
                self.value()?
            };
            section.insert(name, value);
        }
    }

    fn value(&mut self) -> Option<Value> {
        if self.eat('[') { self.list() } else { self.scalar() }
    }

    fn list(&mut self) -> Option<Value> {
        let mut list = Vec::new();
        while !self.eat(']') {
            list.push(self.scalar()?);
            if !self.eat(',') {
                return self.eat(']').then_some(Value::List(list));
            }
        }
        Some(Value::List(list))
    }

    fn scalar(&mut self) -> Option<Value> {
        if self.eat('"') {
            return self.string();
        }
        let whole = self.word()?.split('.').next()?;
        whole.parse().ok().map(Value::Number)
    }

    /// Parses a string after its opening quote.
    fn string(&mut self) -> Option<Value> {
        let mut text = String::new();
        let mut chars = self.rest.chars();
        loop {
            match chars.next()? {
                '"' => break,
                '\\' => text.push(chars.next()?),
                c => text.push(c),
            }
        }
        self.rest = chars.as_str();
        Some(Value::Text(text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_sections_lists_strings_and_comments_are_read() {
        let text = r#"
            # a comment
            vg0 { id = "a\"b" # behind a value
                empty = []
                status = ["READ", "WRITE",]
                inner { n = 42 x = 1.5 }
            }
            version = 1
        "#;
        let parsed = parse(text).unwrap();
        let vg = parsed.section("vg0").unwrap();
        assert_eq!(vg.text("id"), Some("a\"b"));
        assert_eq!(vg.list("empty"), Some(&[][..]));
        assert_eq!(vg.list("status").unwrap().len(), 2);
        assert_eq!(vg.section("inner").unwrap().number("n"), Some(42));
        assert_eq!(parsed.number("version"), Some(1));
        assert_eq!(parsed.sections().map(|(name, _)| name).collect::<Vec<_>>(), ["vg0"]);
    }

    #[test]
    fn broken_syntax_is_refused_without_a_panic() {
        for text in ["a", "a =", "a = [1", "a = \"x", "a {", "}", "a = -1", "= 1", "a = \"\\", "é"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(&"a {".repeat(100_000)), None, "nesting has a bound");
    }
}
