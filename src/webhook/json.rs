//! JSON, read piece by piece from one text, with nothing built that nobody asked for.
//!
//! A [`Reader`] accepts what `serde_json` accepts and refuses what it refuses, whether a value is used or skipped. What a
//! body can make it hold is bounded: nesting by [`DEEPEST`], lists and decoded texts by an [allowance](Reader::afford)
//! that their readers draw on.

use std::borrow::Cow;
use std::fmt;

/// How deep lists and objects may be nested, as in `serde_json`.
pub const DEEPEST: u8 = 127;

/// How many bytes may be held beside the text itself. Two slices of 1,000 endpoints with 100 addresses each take six
/// million.
const ALLOWANCE: usize = 8 << 20;

/// What a decoded text takes beside its bytes: its place in the heap.
const HEAP_ENTRY: usize = 32;

/// Why a text can't be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Problem {
    /// A byte that is no UTF-8.
    NotUtf8,
    /// It ends too early.
    End,
    /// A value should be here.
    Value,
    /// A key should be here.
    Key,
    /// A colon should be here.
    Colon,
    /// A comma, or the end of the list or object, should be here.
    CommaOrEnd,
    /// A number should go on.
    Number,
    /// No escape is written so.
    Escape,
    /// A control character stands in a string.
    Control,
    /// There are more levels than [`DEEPEST`].
    Depth,
    /// The text goes on after its value.
    Trailing,
    /// There is more to decode than may be held.
    Memory,
    /// A value that its reader calls by this name is none of the type that it must be.
    Type(&'static str, Type),
}

/// A type that a value must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    /// An object.
    Object,
    /// A string.
    String,
    /// A boolean.
    Bool,
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Object => "an object",
            Self::String => "a string",
            Self::Bool => "true or false",
        })
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotUtf8 => "a byte that is no UTF-8",
            Self::End => "EOF while parsing",
            Self::Value => "expected value",
            Self::Key => "expected a key in quotes",
            Self::Colon => "expected a colon",
            Self::CommaOrEnd => "expected a comma or the end of the list or object",
            Self::Number => "invalid number",
            Self::Escape => "invalid escape",
            Self::Control => "a control character in a string",
            Self::Depth => "too many levels of lists and objects",
            Self::Trailing => "trailing characters",
            Self::Memory => "more escapes and lists than there is room for",
            Self::Type(name, wanted) => return write!(f, "{name} is not {wanted}"),
        })
    }
}

/// A problem, and at which byte it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    problem: Problem,
    at: usize,
}

impl Fault {
    /// The fault as people look for it in `text`. No piece of the text is repeated.
    #[must_use]
    pub fn locate(self, text: &[u8]) -> Error {
        let before = &text[..self.at.min(text.len())];
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |newline| newline + 1);
        Error {
            problem: self.problem,
            line: memchr::memchr_iter(b'\n', before).count() + 1,
            column: before.len() - line_start + 1,
        }
    }
}

/// Why a text is not read, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem} at line {line} column {column}")]
pub struct Error {
    problem: Problem,
    line: usize,
    column: usize,
}

/// What reading gives.
pub type Result<T> = std::result::Result<T, Fault>;

/// A place in a text.
#[derive(Debug)]
pub struct Reader<'a> {
    text: &'a str,
    at: usize,
    depth: u8,
    member: usize,
    allowance: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the beginning of `text`.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            depth: 0,
            member: 0,
            allowance: ALLOWANCE,
        }
    }

    /// The same for bytes.
    ///
    /// # Errors
    /// Where they are no UTF-8.
    pub fn of_bytes(bytes: &'a [u8]) -> Result<Self> {
        let text = std::str::from_utf8(bytes).map_err(|error| Fault {
            problem: Problem::NotUtf8,
            at: error.valid_up_to(),
        })?;
        Ok(Self::new(text))
    }

    /// Where it is, in bytes from the beginning.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// Where the key begins of the member that is being read; of the last one once its value was read.
    #[must_use]
    pub fn member(&self) -> usize {
        self.member
    }

    /// The text from `start` to where it is.
    #[must_use]
    pub fn since(&self, start: usize) -> &'a str {
        &self.text[start..self.at]
    }

    /// The bytes that may still be held.
    #[must_use]
    pub fn allowance(&self) -> usize {
        self.allowance
    }

    /// Whether so many bytes more may be held; they are taken from the allowance.
    pub fn afford(&mut self, bytes: usize) -> bool {
        let left = self.allowance.checked_sub(bytes);
        self.allowance = left.unwrap_or(self.allowance);
        left.is_some()
    }

    /// A fault here.
    #[cold]
    #[must_use]
    pub fn fault(&self, problem: Problem) -> Fault {
        Fault {
            problem,
            at: self.at,
        }
    }

    /// Reads white space. The byte after it.
    ///
    /// # Errors
    /// At the end.
    #[inline]
    pub fn peek(&mut self) -> Result<u8> {
        while let Some(&byte) = self.text.as_bytes().get(self.at) {
            if !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return Ok(byte);
            }
            self.at += 1;
        }
        Err(self.fault(Problem::End))
    }

    /// Reads the end of the text.
    ///
    /// # Errors
    /// Where there is more than white space.
    pub fn end(&mut self) -> Result<()> {
        match self.peek() {
            Ok(_) => Err(self.fault(Problem::Trailing)),
            Err(_) => Ok(()),
        }
    }

    /// Reads an object; `member` is given each key and reads its value.
    ///
    /// # Errors
    /// Where there is no object, and those of `member`.
    #[inline]
    pub fn object(
        &mut self,
        mut member: impl FnMut(&mut Self, Cow<'a, str>) -> Result<()>,
    ) -> Result<()> {
        self.open(b'{')?;
        if self.peek()? == b'}' {
            self.close();
            return Ok(());
        }
        let key = self.key()?;
        member(self, key)?;
        self.other_members(member)
    }

    /// Reads on in an object from the end of a value, which must be that of a member read as such by another
    /// `object` of the same text at the same depth, and which `prefix` (from the opening bracket on) repeats.
    ///
    /// # Errors
    /// As [`Self::object`].
    #[inline]
    pub fn object_after(
        &mut self,
        prefix: &str,
        member: impl FnMut(&mut Self, Cow<'a, str>) -> Result<()>,
    ) -> Result<()> {
        debug_assert!(
            self.goes_on_with(prefix),
            "the text is what was read before"
        );
        self.at += prefix.len();
        self.depth += 1;
        self.other_members(member)
    }

    /// Whether the text goes on with `prefix` and then a comma or the end of an object: no value in `prefix` could be
    /// read as a part of a longer one.
    #[must_use]
    pub fn goes_on_with(&self, prefix: &str) -> bool {
        let rest = &self.text.as_bytes()[self.at..];
        matches!(rest.get(prefix.len()), Some(b',' | b'}')) && rest.starts_with(prefix.as_bytes())
    }

    /// Reads `value`, a text that was read as a value at the same depth before, if it comes again. Whether it did.
    #[inline]
    pub fn repeat(&mut self, value: &str) -> bool {
        let repeats = self.goes_on_with(value);
        if repeats {
            self.at += value.len();
        }
        repeats
    }

    #[inline]
    fn other_members(
        &mut self,
        mut member: impl FnMut(&mut Self, Cow<'a, str>) -> Result<()>,
    ) -> Result<()> {
        while self.comma_or(b'}')? {
            let key = self.key()?;
            member(self, key)?;
        }
        Ok(())
    }

    /// Reads a list; `item` reads each item.
    ///
    /// # Errors
    /// Where there is no list, and those of `item`.
    #[inline]
    pub fn list(&mut self, mut item: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        self.open(b'[')?;
        if self.peek()? == b']' {
            self.close();
            return Ok(());
        }
        item(self)?;
        while self.comma_or(b']')? {
            item(self)?;
        }
        Ok(())
    }

    /// Reads a string; nothing where its text would have to be decoded and is more than may still be held.
    ///
    /// # Errors
    /// Where there is no string.
    #[inline]
    pub fn string(&mut self) -> Result<Option<Cow<'a, str>>> {
        let (raw, escaped) = self.raw_string(Problem::Value)?;
        if !escaped {
            return Ok(Some(Cow::Borrowed(raw)));
        }
        Ok(self.decode(raw).map(Cow::Owned))
    }

    /// Reads a number: its text.
    ///
    /// # Errors
    /// Where there is no number.
    pub fn number(&mut self) -> Result<&'a str> {
        self.peek()?;
        let start = self.at;
        if self.next_is(b'-') {
            self.at += 1;
        }
        if self.next_is(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.next_is(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if self.next_is(b'e') || self.next_is(b'E') {
            self.at += 1;
            if self.next_is(b'+') || self.next_is(b'-') {
                self.at += 1;
            }
            self.digits()?;
        }
        if self
            .text
            .as_bytes()
            .get(self.at)
            .is_some_and(u8::is_ascii_digit)
        {
            return Err(self.fault(Problem::Number));
        }
        Ok(self.since(start))
    }

    /// Reads `true` or `false`.
    ///
    /// # Errors
    /// Where there is neither.
    #[inline]
    pub fn bool(&mut self) -> Result<bool> {
        let value = self.peek()? == b't';
        self.word(if value { "true" } else { "false" })?;
        Ok(value)
    }

    /// Reads `null`.
    ///
    /// # Errors
    /// Where there is none.
    pub fn null(&mut self) -> Result<()> {
        self.peek()?;
        self.word("null")
    }

    /// Reads whatever value comes, and keeps nothing of it.
    ///
    /// # Errors
    /// Where there is none.
    pub fn skip(&mut self) -> Result<()> {
        let outside = self.depth;
        // One bit for each level, the innermost the lowest: whether it is an object.
        let mut objects: u128 = 0;
        loop {
            let byte = self.peek()?;
            if matches!(byte, b'{' | b'[') {
                self.open(byte)?;
                objects = (objects << 1) | u128::from(byte == b'{');
                if self.peek()? != close_of(objects) {
                    self.skip_key_in(objects)?;
                    continue;
                }
                self.close();
                objects >>= 1;
            } else {
                self.scalar(byte)?;
            }
            loop {
                if self.depth == outside {
                    return Ok(());
                }
                if self.comma_or(close_of(objects))? {
                    self.skip_key_in(objects)?;
                    break;
                }
                objects >>= 1;
            }
        }
    }

    /// Reads a value that is neither list nor object and begins with `byte`, which was peeked.
    fn scalar(&mut self, byte: u8) -> Result<()> {
        match byte {
            b'"' => self.raw_string(Problem::Value).map(drop),
            b'-' | b'0'..=b'9' => self.number().map(drop),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            _ => self.word("null"),
        }
    }

    fn skip_key_in(&mut self, objects: u128) -> Result<()> {
        if objects & 1 == 0 {
            return Ok(());
        }
        self.raw_string(Problem::Key)?;
        self.colon()
    }

    /// Reads a key and its colon. A key whose text can't be decoded, since no more may be held, stays as it stands: it
    /// is longer, or among more, than any that has a meaning.
    #[inline]
    fn key(&mut self) -> Result<Cow<'a, str>> {
        self.peek()?;
        self.member = self.at;
        let (raw, escaped) = self.raw_string(Problem::Key)?;
        self.colon()?;
        let decoded = if escaped { self.decode(raw) } else { None };
        Ok(decoded.map_or(Cow::Borrowed(raw), Cow::Owned))
    }

    #[inline]
    fn colon(&mut self) -> Result<()> {
        if self.peek()? != b':' {
            return Err(self.fault(Problem::Colon));
        }
        self.at += 1;
        Ok(())
    }

    /// Reads an opening bracket.
    #[inline]
    fn open(&mut self, bracket: u8) -> Result<()> {
        if self.peek()? != bracket {
            return Err(self.fault(Problem::Value));
        }
        if self.depth == DEEPEST {
            return Err(self.fault(Problem::Depth));
        }
        self.at += 1;
        self.depth += 1;
        Ok(())
    }

    /// Reads the closing bracket that was peeked.
    #[inline]
    fn close(&mut self) {
        self.at += 1;
        self.depth -= 1;
    }

    /// Reads a comma, after which there must be more, or the closing bracket. Whether it was a comma.
    #[inline]
    fn comma_or(&mut self, bracket: u8) -> Result<bool> {
        let byte = self.peek()?;
        if byte == b',' {
            self.at += 1;
            return Ok(true);
        }
        if byte != bracket {
            return Err(self.fault(Problem::CommaOrEnd));
        }
        self.close();
        Ok(false)
    }

    /// Reads a string: what stands between its quotes, and whether there are escapes in it.
    #[inline]
    fn raw_string(&mut self, expected: Problem) -> Result<(&'a str, bool)> {
        if self.peek()? != b'"' {
            return Err(self.fault(expected));
        }
        self.at += 1;
        let start = self.at;
        self.at += plain_bytes(&self.text.as_bytes()[start..]);
        let escaped = !self.next_is(b'"');
        if escaped {
            self.escapes()?;
        }
        let raw = self.since(start);
        self.at += 1;
        Ok((raw, escaped))
    }

    /// Reads on in a string, from an escape to the closing quote.
    #[cold]
    fn escapes(&mut self) -> Result<()> {
        loop {
            match self.text.as_bytes().get(self.at) {
                Some(b'"') => return Ok(()),
                Some(b'\\') => self.escape()?,
                Some(_) => return Err(self.fault(Problem::Control)),
                None => return Err(self.fault(Problem::End)),
            }
            self.at += plain_bytes(&self.text.as_bytes()[self.at..]);
        }
    }

    fn escape(&mut self) -> Result<()> {
        self.at += 1;
        let digits = match self.text.as_bytes().get(self.at) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 0,
            Some(b'u') => 4,
            Some(_) => return Err(self.fault(Problem::Escape)),
            None => return Err(self.fault(Problem::End)),
        };
        self.at += 1;
        for _ in 0..digits {
            match self.text.as_bytes().get(self.at) {
                Some(digit) if digit.is_ascii_hexdigit() => self.at += 1,
                Some(_) => return Err(self.fault(Problem::Escape)),
                None => return Err(self.fault(Problem::End)),
            }
        }
        Ok(())
    }

    #[cold]
    fn decode(&mut self, raw: &str) -> Option<String> {
        self.afford(raw.len() + HEAP_ENTRY).then(|| unescape(raw))
    }

    fn digits(&mut self) -> Result<()> {
        let start = self.at;
        while self
            .text
            .as_bytes()
            .get(self.at)
            .is_some_and(u8::is_ascii_digit)
        {
            self.at += 1;
        }
        if self.at > start {
            return Ok(());
        }
        let ended = self.at == self.text.len();
        Err(self.fault(if ended { Problem::End } else { Problem::Number }))
    }

    fn next_is(&self, byte: u8) -> bool {
        self.text.as_bytes().get(self.at) == Some(&byte)
    }

    #[inline]
    fn word(&mut self, word: &str) -> Result<()> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            let ended = word.starts_with(&self.text[self.at..]);
            return Err(self.fault(if ended { Problem::End } else { Problem::Value }));
        }
        self.at += word.len();
        Ok(())
    }
}

fn close_of(objects: u128) -> u8 {
    if objects & 1 == 1 { b'}' } else { b']' }
}

const EACH: u64 = 0x0101_0101_0101_0101;

/// The highest bit of each byte that is a quote, a backslash or a control character; perhaps of others, but only of
/// such as stand behind one of those.
#[inline]
fn special_bytes(word: u64) -> u64 {
    let zeros = |word: u64| word.wrapping_sub(EACH) & !word;
    let quotes = zeros(word ^ (EACH * u64::from(b'"')));
    let backslashes = zeros(word ^ (EACH * u64::from(b'\\')));
    let controls = word.wrapping_sub(EACH * 0x20) & !word;
    (quotes | backslashes | controls) & (EACH << 7)
}

/// How many bytes stand before the first quote, backslash or control character.
#[inline]
fn plain_bytes(bytes: &[u8]) -> usize {
    let mut at = 0;
    while let Some(eight) = bytes[at..].first_chunk() {
        let special = special_bytes(u64::from_le_bytes(*eight));
        if special != 0 {
            return at + special.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + last_plain_bytes(&bytes[at..])
}

/// The same for the last few bytes of a text.
#[cold]
#[inline(never)]
fn last_plain_bytes(bytes: &[u8]) -> usize {
    let plain = |byte: &&u8| !matches!(byte, b'"' | b'\\' | 0..0x20);
    bytes.iter().take_while(plain).count()
}

/// The text of a string that was read. As Go's decoder does, half a surrogate pair becomes U+FFFD.
fn unescape(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((plain, escape)) = rest.split_once('\\') {
        text.push_str(plain);
        let (character, taken) = unescape_one(escape);
        text.push(character);
        rest = &escape[taken..];
    }
    text.push_str(rest);
    text
}

/// The character of an escape behind its backslash, and how many bytes it takes up.
fn unescape_one(escape: &str) -> (char, usize) {
    let character = match escape.as_bytes().first() {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return unescape_unit(&escape[1..]),
        Some(&byte) => char::from(byte),
        None => char::REPLACEMENT_CHARACTER,
    };
    (character, 1)
}

/// The character of a `\u` escape, of which `digits` follow, or of a pair of them.
fn unescape_unit(digits: &str) -> (char, usize) {
    let unit =
        |digits: Option<&str>| digits.and_then(|digits| u16::from_str_radix(digits, 16).ok());
    let first = unit(digits.get(..4)).unwrap_or_default();
    let second = digits.get(4..10).and_then(|next| next.strip_prefix("\\u"));
    let units = [first, unit(second).unwrap_or_default()];
    match char::decode_utf16(units).next() {
        Some(Ok(character)) => (character, 1 + 4 + 6 * (character.len_utf16() - 1)),
        _ => (char::REPLACEMENT_CHARACTER, 1 + 4),
    }
}

/// Writes `text` as a string.
pub fn write_string(json: &mut Vec<u8>, text: &str) {
    if plain_bytes(text.as_bytes()) < text.len() {
        serde_json::to_writer(json, text).expect("memory takes all writes");
        return;
    }
    json.reserve(text.len() + 2);
    json.push(b'"');
    json.extend_from_slice(text.as_bytes());
    json.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skip(text: &str) -> Result<()> {
        let mut reader = Reader::new(text);
        reader.skip()?;
        reader.end()
    }

    fn told(text: &[u8]) -> String {
        let read = Reader::of_bytes(text).and_then(|mut reader| {
            reader.skip()?;
            reader.end()
        });
        read.unwrap_err().locate(text).to_string()
    }

    fn string(text: &str) -> String {
        let mut reader = Reader::new(text);
        reader.string().unwrap().unwrap().into_owned()
    }

    #[test]
    fn a_fault_is_told_with_its_place() {
        for (text, sentence) in [
            ("", "EOF while parsing at line 1 column 1"),
            ("[1,\n 2,\n  x]", "expected value at line 3 column 3"),
            (
                "[1 2]",
                "expected a comma or the end of the list or object at line 1 column 4",
            ),
            ("{\"a\":1,}", "expected a key in quotes at line 1 column 8"),
            ("{\"a\" 1}", "expected a colon at line 1 column 6"),
            ("[01]", "invalid number at line 1 column 3"),
            ("[\"\\x\"]", "invalid escape at line 1 column 4"),
            (
                "[\"a\tb\"]",
                "a control character in a string at line 1 column 4",
            ),
            ("{} []", "trailing characters at line 1 column 4"),
            ("\u{feff}{}", "expected value at line 1 column 1"),
        ] {
            assert_eq!(told(text.as_bytes()), sentence, "{text:?}");
        }
        let no_utf8 = told(b"[\n\"a\xffb\"]");
        assert_eq!(no_utf8, "a byte that is no UTF-8 at line 2 column 3");
    }

    #[test]
    fn numbers_are_those_of_json() {
        for number in ["0", "-0", "7", "-12.50", "1e5", "1E+5", "0.1e-07", "1e400"] {
            assert_eq!(Reader::new(number).number(), Ok(number));
            assert_eq!(skip(number), Ok(()), "{number}");
        }
        for text in [
            "-", "+1", "01", "-01", "1.", ".5", "1.e5", "1e", "1e+", "0x1", "NaN", "1_0",
        ] {
            assert!(skip(text).is_err(), "{text}");
        }
    }

    #[test]
    fn escapes_are_decoded_as_gos_decoder_does() {
        assert_eq!(string(r#""\"\\\/\b\f\n\r\t""#), "\"\\/\u{8}\u{c}\n\r\t");
        assert_eq!(string(r#""a\u00e9\u20AC\u0000z""#), "aé€\0z");
        assert_eq!(string(r#""\ud83d\ude00!""#), "😀!");
        for (text, decoded) in [
            (r#""\ud83d""#, "\u{fffd}"),
            (r#""\ude00\ud83d\ude00""#, "\u{fffd}😀"),
            (
                r#""\ud83d\u0041\ud83dx\ud83d\n""#,
                "\u{fffd}A\u{fffd}x\u{fffd}\n",
            ),
            (r#""\ud83dé€""#, "\u{fffd}é€"),
        ] {
            assert_eq!(string(text), decoded, "{text}");
        }
    }

    #[test]
    fn a_text_is_borrowed_unless_it_has_escapes() {
        let read = |text| Reader::new(text).string().unwrap().unwrap();
        assert!(matches!(read("\"zone-a\""), Cow::Borrowed("zone-a")));
        assert!(matches!(read(r#""zone\u002da""#), Cow::Owned(text) if text == "zone-a"));
    }

    #[test]
    fn a_special_byte_is_found_wherever_it_stands() {
        for special in ['"', '\\', '\u{1f}', '\0'] {
            for place in 0..40 {
                let text = format!(
                    "{}{special}\u{7f}é\"\\\0{}",
                    "é".repeat(place),
                    "x".repeat(place)
                );
                assert_eq!(plain_bytes(text.as_bytes()), 2 * place, "{text:?}");
            }
        }
        let plain = " !#[]~\u{7f}é€😀".repeat(3);
        assert_eq!(plain_bytes(plain.as_bytes()), plain.len());
    }

    #[test]
    fn nesting_ends_where_serde_json_ends_it() {
        let levels = usize::from(DEEPEST);
        let nested = |levels| "[".repeat(levels) + &"]".repeat(levels);
        for levels in [levels, levels + 1] {
            let accepts = serde_json::from_str::<serde_json::Value>(&nested(levels)).is_ok();
            assert_eq!(skip(&nested(levels)).is_ok(), accepts, "{levels} levels");
        }
        assert_eq!(
            skip(&"[[],".repeat(100_000)).unwrap_err().problem,
            Problem::Depth
        );
        assert_eq!(
            skip(&"{\"a\":".repeat(100_000)).unwrap_err().problem,
            Problem::Depth
        );
    }

    #[test]
    fn what_can_not_be_held_is_read_all_the_same() {
        let text = format!("\"{}\"", "\\n".repeat(ALLOWANCE / 2 + 1));
        let mut reader = Reader::new(&text);
        assert_eq!(reader.string(), Ok(None));
        assert_eq!(reader.end(), Ok(()));
        assert_eq!(reader.allowance(), ALLOWANCE);
    }

    #[test]
    fn a_prefix_is_repeated_only_up_to_the_end_of_a_value() {
        let goes_on = |text, prefix| Reader::new(text).goes_on_with(prefix);
        assert!(goes_on(r#"{"a":1}"#, r#"{"a":1"#));
        assert!(goes_on(r#"{"a":1,"b":2}"#, r#"{"a":1"#));
        assert!(!goes_on(r#"{"a":12}"#, r#"{"a":1"#));
        assert!(!goes_on(r#"{"a":1"#, r#"{"a":1"#));
        assert!(!goes_on(r#"{"b":1}"#, r#"{"a":1"#));
    }
}
