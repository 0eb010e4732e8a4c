//! The text of a failure without what differs from task to task. Pure.

use std::iter::Peekable;
use std::str::CharIndices;

/// Maximum bytes of a text that are read.
const LONGEST_READ: usize = 4_000;

/// Maximum characters of a masked text.
const LONGEST_MASKED: usize = 300;

/// What stands for an id, a number, a time or a quoted text.
const MASK: char = '#';

/// Minimum hexadecimal digits of a run that counts as an id.
const HEX_ID: usize = 8;

/// Minimum letters and digits of a mixed run that counts as an id.
const MIXED_ID: usize = 16;

/// Minimum hexadecimal digits of a run with a number in it that counts as an id.
const SHORT_HEX_ID: usize = 6;

/// Maximum letters behind a number that may be its unit.
const UNIT: usize = 3;

/// What is masked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rules {
    /// Ids, numbers and times.
    Now,
    /// Those of programs before the cause was data: quoted texts too, and fewer ids. Ids of their groups are
    /// still recognized by it.
    Before,
}

/// A text with `#` in place of uuids, times, numbers, and words that look like ids, on one line. Texts that
/// differ in nothing else are masked alike. A long one is cut.
pub(super) fn mask(text: &str) -> String {
    mask_by(Rules::Now, text)
}

/// The same by the rules of programs before: with quoted texts masked, and words of letters and digits from 16
/// on alone.
pub(super) fn mask_as_before(text: &str) -> String {
    mask_by(Rules::Before, text)
}

fn mask_by(rules: Rules, text: &str) -> String {
    let (text, is_cut) = head(text);
    let mut masked = Masked::default();
    let mut quotes = Quotes {
        text,
        is_cut,
        unclosed: Vec::new(),
    };
    let mut signs = text.char_indices().peekable();
    let mut before = ' ';
    while let Some(&(at, sign)) = signs.peek() {
        if masked.is_full() {
            masked.text.push('…');
            return masked.text;
        }
        let begins_word = !before.is_alphanumeric();
        let end = if begins_word && rules == Rules::Before {
            quotes.end_of(at, sign)
        } else {
            None
        };
        if let Some(end) = end {
            masked.push(sign);
            masked.push(MASK);
            masked.push(closing(sign).unwrap_or(sign));
            before = ' ';
            skip_to(&mut signs, end);
        } else if sign.is_ascii_alphanumeric() && begins_word {
            let end = at + masked.word(rules, &text[at..]);
            before = 'a';
            skip_to(&mut signs, end);
        } else {
            signs.next();
            // Also digits of other scripts, and those behind letters of other scripts.
            let is_digit = sign.is_numeric();
            if !(is_digit && before.is_numeric()) {
                masked.push(if is_digit { MASK } else { sign });
            }
            before = sign;
        }
    }
    masked.text.truncate(masked.text.trim_end().len());
    masked.text
}

/// The first bytes, and whether there are more.
fn head(text: &str) -> (&str, bool) {
    if text.len() <= LONGEST_READ {
        return (text, false);
    }
    let end = (0..=LONGEST_READ)
        .rev()
        .find(|&at| text.is_char_boundary(at));
    (&text[..end.unwrap_or(0)], true)
}

fn skip_to(signs: &mut Peekable<CharIndices<'_>>, end: usize) {
    while signs.next_if(|&(at, _)| at < end).is_some() {}
}

const fn closing(sign: char) -> Option<char> {
    match sign {
        '\'' | '"' | '`' => Some(sign),
        '“' => Some('”'),
        '‘' => Some('’'),
        '«' => Some('»'),
        _ => None,
    }
}

/// Finds the ends of quoted texts, in time that grows with the text and no faster.
struct Quotes<'a> {
    text: &'a str,
    is_cut: bool,
    /// Signs that close nothing from here on.
    unclosed: Vec<char>,
}

impl Quotes<'_> {
    /// Behind the text that a sign at the begin of a word opens; `None`: it opens none.
    fn end_of(&mut self, at: usize, sign: char) -> Option<usize> {
        let close = closing(sign)?;
        if self.unclosed.contains(&close) {
            return None;
        }
        let from = at + sign.len_utf8();
        let rest = &self.text[from..];
        for (place, found) in rest.match_indices(close) {
            let end = place + found.len();
            let next = rest[end..].chars().next();
            // An apostrophe within a word closes nothing.
            if next.is_none_or(|next| !next.is_alphanumeric()) {
                return Some(from + end);
            }
        }
        if self.is_cut {
            return Some(self.text.len());
        }
        self.unclosed.push(close);
        None
    }
}

/// What has been masked.
#[derive(Default)]
struct Masked {
    text: String,
    signs: usize,
}

impl Masked {
    const fn is_full(&self) -> bool {
        self.signs >= LONGEST_MASKED
    }

    fn push(&mut self, sign: char) {
        let blank = sign.is_whitespace() || sign.is_control();
        if blank && (self.text.is_empty() || self.text.ends_with(' ')) {
            return;
        }
        self.text.push(if blank { ' ' } else { sign });
        self.signs += 1;
    }

    /// Masks the word at the begin of a text, which is a letter or a digit. Returns its bytes.
    fn word(&mut self, rules: Rules, text: &str) -> usize {
        let bytes = text.as_bytes();
        if let Some(length) = uuid(bytes).or_else(|| time(bytes)) {
            self.push(MASK);
            return length;
        }
        let run = count(bytes, |byte| byte.is_ascii_alphanumeric());
        let word = &bytes[..run];
        let digits = word.iter().filter(|byte| byte.is_ascii_digit()).count();
        let hex = word.strip_prefix(b"0x").unwrap_or(word);
        let is_hex = hex.len() >= HEX_ID && hex.iter().all(u8::is_ascii_hexdigit);
        let is_mixed = digits > 0 && digits < run;
        let is_id = rules == Rules::Now && is_mixed && is_short_id(word);
        if is_hex || is_id || (run >= MIXED_ID && is_mixed) {
            self.push(MASK);
            return run;
        }
        let mut at = 0;
        while at < run && !self.is_full() {
            let number = number(&bytes[at..]);
            if number > 0 {
                self.push(MASK);
                at += number;
            } else {
                self.push(char::from(bytes[at]));
                at += 1;
            }
        }
        at.max(run)
    }
}

/// Whether a word of letters and digits is an id, and no name with a number, as `utf8`, or number with a unit, as
/// `30ms`.
fn is_short_id(word: &[u8]) -> bool {
    let turns = word
        .windows(2)
        .filter(|two| two[0].is_ascii_digit() != two[1].is_ascii_digit())
        .count();
    let is_hex = word.len() >= SHORT_HEX_ID && word.iter().all(u8::is_ascii_hexdigit);
    let number = digits(word);
    is_hex || turns > 1 || (number > 0 && word.len() - number > UNIT)
}

fn count(bytes: &[u8], fits: impl Fn(u8) -> bool) -> usize {
    bytes.iter().take_while(|&&byte| fits(byte)).count()
}

fn digits(bytes: &[u8]) -> usize {
    count(bytes, |byte| byte.is_ascii_digit())
}

/// Digits, with points and commas between them.
fn number(bytes: &[u8]) -> usize {
    let mut end = digits(bytes);
    while end > 0 && matches!(bytes.get(end), Some(b'.' | b',')) {
        match digits(&bytes[end + 1..]) {
            0 => break,
            more => end += 1 + more,
        }
    }
    end
}

fn uuid(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    for length in [8, 4, 4, 4, 12] {
        let part = bytes.get(at..at + length)?;
        if !part.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        at += length + 1;
        let is_joined = bytes.get(at - 1) == Some(&b'-');
        if !is_joined && length != 12 {
            return None;
        }
    }
    let end = at - 1;
    let goes_on = bytes.get(end).is_some_and(u8::is_ascii_alphanumeric);
    (!goes_on).then_some(end)
}

/// A date, a time of day, or both, with what follows of seconds and zone.
fn time(bytes: &[u8]) -> Option<usize> {
    let Some(date) = groups(bytes, &[4, 2, 2], b'-').or_else(|| groups(bytes, &[4, 2, 2], b'/'))
    else {
        return clock(bytes);
    };
    let between = usize::from(matches!(bytes.get(date), Some(b'T' | b't' | b' ')));
    let clock = clock(&bytes[date + between..]).filter(|_| between == 1);
    Some(clock.map_or(date, |clock| date + between + clock))
}

fn clock(bytes: &[u8]) -> Option<usize> {
    let mut end = groups(bytes, &[2, 2, 2], b':')?;
    if bytes.get(end) == Some(&b'.') {
        let fraction = digits(&bytes[end + 1..]);
        end += if fraction > 0 { fraction + 1 } else { 0 };
    }
    let zone = match bytes.get(end) {
        Some(b'Z' | b'z') => 1,
        Some(b'+' | b'-') => groups(&bytes[end + 1..], &[2, 2], b':').map_or(0, |zone| zone + 1),
        _ => 0,
    };
    Some(end + zone)
}

/// Groups of digits of these `lengths`, joined by a sign, with no digit behind them.
fn groups(bytes: &[u8], lengths: &[usize], joined_by: u8) -> Option<usize> {
    let mut at = 0;
    for (place, length) in lengths.iter().enumerate() {
        if place > 0 {
            at += usize::from(bytes.get(at) == Some(&joined_by));
        }
        if digits(bytes.get(at..)?) != *length || (place > 0 && bytes[at - 1] != joined_by) {
            return None;
        }
        at += length;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_task_to_task_is_masked() {
        for (text, masked) in [
            ("", ""),
            ("the card was declined", "the card was declined"),
            ("order 4711 is gone", "order # is gone"),
            ("order-4711: 3.50 EUR of 1,234.56", "order-#: # EUR of #"),
            ("timed out after 1.5s, 30ms", "timed out after #s, #ms"),
            (
                "task 01930d2c-6c4b-7d5e-8f00-0123456789ab failed",
                "task # failed",
            ),
            ("(01930D2C-6C4B-7D5E-8F00-0123456789AB)", "(#)"),
            ("trace 4bf92f3577b34da6a3ce929d0e0e4736", "trace #"),
            ("0xdeadbeef00 at 12345678", "# at #"),
            (
                "since 2026-11-20T18:00:00.25+01:00 no answer",
                "since # no answer",
            ),
            ("since 2026-11-20T18:00:00Z no answer", "since # no answer"),
            ("2026-11-20 18:00:00 down", "# down"),
            ("on 2026-11-20 at 18:00:00", "on # at #"),
            (
                "no user `kim`, no 'order' and no \"x y\"",
                "no user `#`, no '#' and no \"#\"",
            ),
            ("can't read it, don't ask", "can't read it, don't ask"),
            ("can't read 'it's here'", "can't read '#'"),
            ("host db-3.example:5432", "host db-#.example:#"),
            ("id 01HXYZ9QK3ABCDEF at S3", "id # at S#"),
            ("“so” and «dies»", "“#” and «#»"),
            ("two\nlines\t and   blanks ", "two lines and blanks"),
            (
                "Größe 17 überschritten, ٣٤ Teile",
                "Größe # überschritten, # Teile",
            ),
            ("status 503", "status #"),
            ("an \"open quote", "an \"open quote"),
        ] {
            assert_eq!(mask_as_before(text), masked, "{text}");
        }
    }

    #[test]
    fn ids_numbers_and_times_are_masked_and_names_are_not() {
        for (text, masked) in [
            ("", ""),
            ("order 4711 is gone", "order # is gone"),
            ("order-4711: 3.50 EUR of 1,234.56", "order-#: # EUR of #"),
            ("timed out after 1.5s, 30ms", "timed out after #s, #ms"),
            ("no account acct_9f3kd or 4abcd", "no account acct_# or #"),
            ("commit 12ab4e, 0xdeadbeef00", "commit #, #"),
            (
                "task 01930d2c-6c4b-7d5e-8f00-0123456789ab since 2026-11-20T18:00:00Z",
                "task # since #",
            ),
            (
                "permission denied for table `seats`",
                "permission denied for table `seats`",
            ),
            ("no user 'kim', no \"order\"", "no user 'kim', no \"order\""),
            ("invalid utf8 in `a17`", "invalid utf# in `a#`"),
            ("two\nlines\t and   blanks ", "two lines and blanks"),
            ("status 503", "status #"),
        ] {
            assert_eq!(mask(text), masked, "{text}");
        }
    }

    #[test]
    fn ids_with_and_without_letters_are_masked_alike() {
        for id in [
            "12345678",
            "deadbeef",
            "1a2b3c4d",
            "7",
            "4,711",
            "01930d2c-6c4b-7d5e-8f00-0123456789ab",
        ] {
            assert_eq!(mask(&format!("no order {id} here")), "no order # here");
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters_and_in_little_time() {
        for sign in [
            "ü",
            "漢",
            "'",
            "' ",
            "a'",
            "\"x",
            "9 ",
            "a1",
            "\u{1F600}",
            "\n",
        ] {
            let text = sign.repeat(1_000_000);
            let masked = mask(&text);
            assert!(mask_as_before(&text).chars().count() <= LONGEST_MASKED + 8);
            assert!(
                masked.chars().count() <= LONGEST_MASKED + 8,
                "{sign}: {masked}"
            );
        }
        // What is cut off within a quoted text is not missed.
        let long = |fill: &str| format!("bad body \"{}\"", fill.repeat(5_000));
        assert_eq!(mask_as_before(&long("x")), mask_as_before(&long("yz")));
        let (one, two) = ("word ".repeat(900) + "a", "word ".repeat(900) + "b");
        assert_eq!(
            mask(&one),
            mask(&two),
            "what is behind the cut does not count"
        );
    }

    #[test]
    fn masked_texts_have_no_control_characters() {
        let text = "a\u{0}b\u{1b}[31mred\r\nGET / HTTP/1.1";
        assert_eq!(mask(text), "a b [# GET / HTTP/#");
        assert_eq!(mask_as_before(text), "a b [#mred GET / HTTP/#");
    }
}
